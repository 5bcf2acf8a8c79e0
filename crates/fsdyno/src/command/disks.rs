//! `fsdyno disks`: the models of disks that come with fsdyno.

use super::source::save_as;
use super::{Result, Surroundings, print_json};
use crate::cli::{Disks, DocumentFormat};
use crate::exit::{Status, Trouble};
use crate::out;
use crate::say;
use anyhow::anyhow;
use fsdyno_disk::{DiskModel, ModelParameter, Provenance, PublishedFigure};
use fsdyno_report::Style;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;

/// A model in `--format json`.
#[derive(Serialize)]
struct ModelEntry<'m> {
    name: &'m str,
    title: &'m str,
    defects: &'m [String],
    parameters: &'m [ModelParameter],
    figures: &'m [PublishedFigure],
}

pub fn run(surroundings: &Surroundings, options: &Disks) -> Result {
    let style = surroundings.style;
    let Some(name) = &options.name else {
        let models = DiskModel::own_names().map(own).collect::<std::result::Result<Vec<_>, _>>()?;
        match options.format {
            DocumentFormat::Text => list(&mut out::text(&style), style, &models)?,
            DocumentFormat::Json => print_json(&models.iter().map(entry).collect::<Vec<_>>())?,
        }
        return Ok(Status::Well);
    };
    let model = own(name)?;
    match (&options.save, DiskModel::own_text(name)) {
        (Some(path), Some(text)) => {
            let path = path.as_deref().map_or_else(|| PathBuf::from(format!("{name}.toml")), PathBuf::from);
            save_as(&path, text, "name another file with --save=FILE")?;
            say::remark(&format!(
                "wrote {}; a plan names it by its absolute path, as model in [device]",
                path.display()
            ));
        }
        _ => match options.format {
            DocumentFormat::Text => print(&mut out::text(&style), style, &model)?,
            DocumentFormat::Json => print_json(&entry(&model))?,
        },
    }
    Ok(Status::Well)
}

fn own(name: &str) -> std::result::Result<DiskModel, Trouble> {
    let Some(text) = DiskModel::own_text(name) else {
        let error = anyhow!("no model of a disk is called '{name}'");
        return Err(Trouble::new(Status::Usage, error).hint("fsdyno disks lists them"));
    };
    DiskModel::parse(name, text).map_err(|error| Trouble::new(Status::Usage, error))
}

fn entry(model: &DiskModel) -> ModelEntry<'_> {
    let DiskModel { name, title, defects, parameters, figures, .. } = model;
    ModelEntry { name, title, defects, parameters, figures }
}

fn list(out: &mut dyn Write, style: Style, models: &[DiskModel]) -> io::Result<()> {
    for model in models {
        writeln!(out, "{}", model.name)?;
        let known =
            model.parameters.iter().filter(|parameter| parameter.basis == Provenance::Published).count();
        let text = format!("{}; {known} of its {} parameters published", model.title, model.parameters.len());
        style.wrapped(&text, "    ", "      ").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    say::remark(
        "hint: fsdyno sweep PLAN --set device.model=NAME runs a plan on one, in place of its image\n\
         hint: fsdyno disks NAME says what it consists of; --save writes it to a file, to edit",
    );
    Ok(())
}

fn print(out: &mut dyn Write, style: Style, model: &DiskModel) -> io::Result<()> {
    let heading = style.wrapped(&format!("{}: {}", model.name, model.title), "", "  ");
    heading.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out)?;
    for ModelParameter { name, help, value, basis, source } in &model.parameters {
        writeln!(out, "{name:<18} {value:>14}  {basis}")?;
        let text = format!("{help} ({source})");
        style.wrapped(&text, "    ", "    ").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let list = |out: &mut dyn Write, heading: &str, lines: &[String]| {
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{heading}")?;
        let wrapped = lines.iter().flat_map(|line| style.wrapped(line, "  ", "    "));
        wrapped.into_iter().try_for_each(|line| writeln!(out, "{line}"))
    };
    let figures: Vec<String> = model
        .figures
        .iter()
        .map(|figure| format!("{}: {} ({})", figure.what.in_words(), figure.value, figure.source))
        .collect();
    list(out, "Published figures that it meets within 10 %, without having been fitted to them:", &figures)?;
    list(out, "What it gets wrong or leaves out:", &model.defects)
}
