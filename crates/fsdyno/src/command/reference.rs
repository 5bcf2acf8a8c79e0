//! `fsdyno reference DIR` (hidden): the pages of docs/reference, from the definitions that parsing uses.

use super::Result;
use crate::cli::{Cli, OutputPath, Reference};
use crate::exit::{self, Status};
use crate::file;
use clap::{Command, CommandFactory};
use clap_markdown::{MarkdownOptions, help_markdown_custom};
use fsdyno_core::axis::{AXES, SYSCTL_PREFIX, leaves_trace};
use fsdyno_core::measure::Measure;
use fsdyno_core::{Study, WarningKind, Workload, sysctl};
use fsdyno_sweep::key_tables;
use std::fmt::{Display, Write};

pub fn run(options: &Reference) -> Result {
    let pages = [("command-line.md", command_line()), ("plan.md", plan()?)];
    for (name, text) in pages {
        file::write_whole(&options.directory.join(name), |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Status::Well)
}

fn command_line() -> String {
    let options = MarkdownOptions::new().title("Command line".to_string()).show_footer(false);
    let text = help_markdown_custom::<Cli>(&options);
    format!("{}\n\n{}\n{}", text.trim_end(), outputs(), exit_codes())
}

/// The paths at which commands write.
fn outputs() -> String {
    let mut rows = String::new();
    add_outputs(&mut rows, "fsdyno", &Cli::command());
    format!(
        "## Paths that are written\n\nAt these paths, a command creates, changes or removes files. It follows \
         no symbolic link of another user on the way there.\n\n| command | path |\n|---|---|\n{rows}"
    )
}

fn add_outputs(rows: &mut String, name: &str, command: &Command) {
    for argument in command.get_arguments().filter(|argument| OutputPath::is_value_of(argument)) {
        let shown = argument.get_long().map_or_else(|| argument.to_string(), |long| format!("--{long}"));
        rows.push_str(&format!("| `{name}` | `{shown}` |\n"));
    }
    for command in command.get_subcommands() {
        add_outputs(rows, &format!("{name} {}", command.get_name()), command);
    }
}

fn exit_codes() -> String {
    let row = |(status, meaning): &(Status, &str)| format!("| {} | {meaning} |\n", status.code());
    let rows: String = exit::CODES.iter().map(row).collect();
    format!("## Exit codes\n\n| code | meaning |\n|---|---|\n{rows}")
}

/// Keys, axes, workload parameters, measures and warnings.
fn plan() -> std::result::Result<String, std::fmt::Error> {
    let mut page = "# Plan and result reference\n".to_string();
    keys(&mut page)?;
    axes(&mut page)?;
    kernels(&mut page)?;
    workloads(&mut page)?;
    measures(&mut page)?;
    warnings(&mut page)?;
    Ok(page)
}

/// The tables of a plan, with their keys.
fn keys(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## The keys of a plan\n\n\
         A plan is a TOML file. `fsdyno plans` lists the plans that come with fsdyno; `fsdyno plan PLAN` \
         shows what one would do. `--set PATH=VALUE` changes any key for one run: `--set device.size=4G`."
    )?;
    for table in key_tables() {
        writeln!(
            page,
            "\n### {}\n\n{}\n\n| key | default | meaning |\n|---|---|---|",
            table.name, table.about
        )?;
        for key in table.keys {
            // Defaults are values, or words about where the value comes from.
            let default = match key.default.as_str() {
                words if words.is_empty() || words.contains(' ') => words.to_string(),
                value => format!("`{value}`"),
            };
            writeln!(page, "| `{}` | {default} | {} |", key.name, key.help)?;
        }
    }
    Ok(())
}

/// Names in a sentence.
fn words(names: impl IntoIterator<Item = impl Display>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn axes(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Axes\n\nKeys of `[axes]` and of `[[configurations]]`. Every axis also accepts `default`. \
         `memory` or `cache` at the top of a plan is the level of that axis wherever no other is set. A \
         named configuration also has a `name`. It may have a `note`, which is shown with its results, and \
         `impossible`, which says why it cannot be built today: its trials are skipped with that reason. A \
         plan that repeats a published study names it with `study`: {}.\n",
        words(Study::ALL)
    )?;
    writeln!(page, "| axis | filesystems | levels | meaning |\n|---|---|---|---|")?;
    for axis in AXES {
        let of_some = || axis.filesystems().collect::<Vec<_>>().join(", ");
        let filesystems = if axis.general { "all".to_string() } else { of_some() };
        writeln!(page, "| `{}` | {filesystems} | {} | {} |", axis.name, axis.levels, axis.help)?;
    }
    writeln!(
        page,
        "| `{SYSCTL_PREFIX}KEY` | all | a value | a sysctl, such as `{SYSCTL_PREFIX}vm.dirty_ratio` |\n\nA \
         plan may set these sysctls: {}. Any other needs `--allow-sysctl KEY` on the command line of `fsdyno \
         sweep`.\n\nWith `reuse = \"prepared\"`, configurations that differ only in these axes begin with copies \
         of the same filesystem: {}.",
        words(sysctl::KNOWN.iter().map(|(key, _)| key)),
        words(AXES.iter().map(|axis| axis.name).filter(|name| !leaves_trace(name)))
    )
}

fn kernels(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Kernels\n\nLevels of the axis `kernel`, and values of `--kernel`:\n\n| level | the kernel |\n\
         |---|---|\n| `host` | that of this machine |\n\
         | `debian:VERSION` | the newest of Debian's kernels that begins with this version, such as \
         `debian:6.1`; downloaded once |\n\
         | the release of an installed kernel | as `uname -r` would print it |\n\
         | a name from `[kernels]` | a kernel of your own |\n\n\
         Every kernel except `host` runs in a virtual machine that `[guest]` configures."
    )
}

fn workloads(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Workloads\n\nKeys of `[[workloads]]` in addition to `kind`, which is one of {}.",
        words(Workload::KINDS)
    )?;
    for workload in Workload::KINDS.iter().filter_map(|kind| Workload::of_kind(kind)) {
        writeln!(page, "\n### {}\n\n| key | default | meaning |\n|---|---|---|", workload.kind())?;
        if let Some(shorthand) = workload.load().shorthand() {
            writeln!(page, "| `{}` | | {} |", shorthand.name, shorthand.help)?;
        }
        for listed in workload.list() {
            let value = if listed.value.is_empty() { String::new() } else { format!("`{}`", listed.value) };
            writeln!(page, "| `{}` | {value} | {} |", listed.name, listed.help)?;
        }
    }
    Ok(())
}

fn measures(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Measures\n\n`measure` in a plan and `fsdyno show --measure` rank by one of these.\n"
    )?;
    for (name, help) in Measure::named() {
        writeln!(page, "- `{name}`: {help}")?;
    }
    writeln!(
        page,
        "- `PHASE/ROLE/OPERATION/STATISTIC`, where STATISTIC is one of {}",
        words(Measure::statistics())
    )?;
    writeln!(page, "- `PHASE/ROLE/FIGURE`, where FIGURE is one of {}", words(Measure::figures()))
}

fn warnings(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Warnings\n\n\
         Reports use these warnings if something other than the settings has influenced a trial. Each \
         carries a text with the figures of its trial.\n\n| warning | meaning | what to do |\n|---|---|---|"
    )?;
    WarningKind::ALL
        .iter()
        .try_for_each(|kind| writeln!(page, "| `{kind}` | {} | {} |", kind.meaning(), kind.remedy()))
}
