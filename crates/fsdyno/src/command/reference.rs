//! `fsdyno reference DIR` (hidden): the pages of docs/reference, from the definitions that parsing uses.

use super::Result;
use crate::cli::{Cli, Reference};
use crate::exit::Status;
use anyhow::Context;
use clap_markdown::{MarkdownOptions, help_markdown_custom};
use fsdyno_core::axis::{AXES, SYSCTL_PREFIX};
use fsdyno_core::measure::Measure;
use fsdyno_core::workload::{Fileserver, Null, Workload};
use fsdyno_core::{Bytes, Nanos, WarningKind};
use serde_json::Value;
use std::fmt::Write;

pub fn run(options: &Reference) -> Result {
    let pages = [("command-line.md", command_line()), ("plan.md", plan()?)];
    for (name, text) in pages {
        let path = options.directory.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    Ok(Status::Well)
}

fn command_line() -> String {
    let options = MarkdownOptions::new().title("Command line".to_string()).show_footer(false);
    let text = help_markdown_custom::<Cli>(&options);
    format!("{}\n", text.trim_end())
}

/// Axes, workload parameters, measures and warnings.
fn plan() -> std::result::Result<String, std::fmt::Error> {
    let mut page = "# Words of a plan and of its results\n".to_string();
    axes(&mut page)?;
    workloads(&mut page)?;
    measures(&mut page)?;
    writeln!(page, "\n## Warnings\n")?;
    for kind in WarningKind::ALL {
        writeln!(page, "- `{kind}`")?;
    }
    Ok(page)
}

fn axes(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Axes\n\nKeys of `[axes]` and of `[[configurations]]`. Every axis also takes `default`.\n"
    )?;
    writeln!(page, "| axis | filesystems | levels | meaning |\n|---|---|---|---|")?;
    for axis in AXES {
        let filesystems =
            if axis.filesystems.is_empty() { "all".to_string() } else { axis.filesystems.join(", ") };
        writeln!(page, "| `{}` | {filesystems} | {} | {} |", axis.name, axis.levels, axis.help)?;
    }
    writeln!(
        page,
        "| `{SYSCTL_PREFIX}NAME` | all | text | a sysctl, such as `{SYSCTL_PREFIX}vm.dirty_ratio` |"
    )
}

fn workloads(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Workloads\n\nKeys of `[[workloads]]` beside `kind`: {}.", kinds())?;
    let defaults = serde_json::to_value(Fileserver::default()).unwrap_or_default();
    writeln!(page, "\n### fileserver\n\n| key | default | meaning |\n|---|---|---|")?;
    for (name, help) in Fileserver::PARAMETERS {
        writeln!(page, "| `{name}` | {} | {help} |", shown(name, &defaults[name]))?;
    }
    let null = Null::default();
    writeln!(page, "\n### null\n\n| key | default | meaning |\n|---|---|---|")?;
    writeln!(page, "| `workers` | `{}` | workers at once |", null.workers)?;
    writeln!(page, "| `ramp` | `{}` | before the window |", null.ramp)?;
    writeln!(page, "| `window` | `{}` | the measured part |", null.window)
}

fn kinds() -> String {
    Workload::KINDS.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
}

/// A default as a plan would write it.
fn shown(name: &str, value: &Value) -> String {
    match (value, value.as_u64()) {
        (_, Some(bytes)) if name.ends_with("_size") => format!("`{}`", Bytes(bytes)),
        (_, Some(nanos)) if ["ramp", "window", "drain_limit"].contains(&name) => {
            format!("`{}`", Nanos(nanos))
        }
        (Value::Null, _) => "from the free space".to_string(),
        (Value::String(word), _) => format!("`{word}`"),
        (other, _) => format!("`{other}`"),
    }
}

fn measures(page: &mut String) -> std::fmt::Result {
    writeln!(page, "\n## Measures\n\nWhat `measure` and `fsdyno show --measure` rank by.\n")?;
    for (name, help) in Measure::named() {
        writeln!(page, "- `{name}`: {help}")?;
    }
    let list = |words: Vec<&str>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    writeln!(
        page,
        "- `PHASE/ROLE/OPERATION/STATISTIC` with the statistic one of {}",
        list(Measure::statistics().collect())
    )?;
    writeln!(page, "- `PHASE/ROLE/FIGURE` with the figure one of {}", list(Measure::figures().collect()))
}
