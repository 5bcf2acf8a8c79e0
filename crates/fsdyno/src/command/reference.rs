//! `fsdyno reference DIR` (hidden): the pages of docs/reference, from the definitions that parsing uses.

use super::Result;
use crate::cli::{Cli, Reference};
use crate::exit::Status;
use anyhow::Context;
use clap_markdown::{MarkdownOptions, help_markdown_custom};
use fsdyno_core::axis::{AXES, SYSCTL_PREFIX};
use fsdyno_core::measure::Measure;
use fsdyno_core::{DiskCache, GuestShape, Study, WarningKind, Workload, sysctl};
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
    let mut page = "# Plan and result reference\n".to_string();
    axes(&mut page)?;
    kernels(&mut page)?;
    workloads(&mut page)?;
    measures(&mut page)?;
    warnings(&mut page)?;
    Ok(page)
}

fn axes(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Axes\n\nKeys of `[axes]` and of `[[configurations]]`. Every axis also accepts `default`. \
         `memory` or `cache` at the top of a plan is the level of that axis wherever no other is set. A named \
         configuration also has a `name`. It may have a `note`, which is shown with its results, and \
         `impossible`, which says why it cannot be built today: its trials are skipped with that reason. A \
         plan that repeats a published study names it with `study`: {}.\n",
        Study::ALL.iter().map(|study| format!("`{study}`")).collect::<Vec<_>>().join(", ")
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
         sweep`.",
        sysctl::KNOWN.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
    )
}

fn kernels(page: &mut String) -> std::fmt::Result {
    let usual = GuestShape::default();
    let caches: Vec<String> = DiskCache::ALL.iter().map(|cache| format!("`{}`", cache.name())).collect();
    writeln!(
        page,
        "\n## Kernels\n\n`kernel = \"NAME\"` runs a trial on a kernel that `[kernels]` defines:\n\n| key of \
         `[kernels] NAME` | meaning |\n|---|---|\n| `image` | the file `arch/x86/boot/bzImage` of a kernel \
         build, relative to the plan |\n| `modules` | the directory filled by `make modules_install \
         INSTALL_MOD_PATH=DIR` |\n"
    )?;
    writeln!(
        page,
        "Every kernel except `host` runs in a virtual machine, which `[guest]` configures:\n\n| key of \
         `[guest]` | default | meaning |\n|---|---|---|\n| `processors` | `{}` | number of processors |\n| \
         `memory` | `{}` | memory size |\n| `cache` | `{}` | how the virtual machine caches its disks, as \
         QEMU calls it: {} |",
        usual.processors,
        usual.memory,
        usual.cache.name(),
        caches.join(", ")
    )
}

fn workloads(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Workloads\n\nKeys of `[[workloads]]` in addition to `kind`, which is one of {}.",
        kinds()
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

fn kinds() -> String {
    Workload::KINDS.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
}

fn measures(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Measures\n\n`measure` in a plan and `fsdyno show --measure` rank by one of these.\n"
    )?;
    for (name, help) in Measure::named() {
        writeln!(page, "- `{name}`: {help}")?;
    }
    let list = |words: Vec<&str>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    writeln!(
        page,
        "- `PHASE/ROLE/OPERATION/STATISTIC`, where STATISTIC is one of {}",
        list(Measure::statistics().collect())
    )?;
    writeln!(page, "- `PHASE/ROLE/FIGURE`, where FIGURE is one of {}", list(Measure::figures().collect()))
}

fn warnings(page: &mut String) -> std::fmt::Result {
    writeln!(
        page,
        "\n## Warnings\n\nReports use these warnings if something other than the settings has influenced a trial.\n\n\
         | warning | meaning |\n|---|---|"
    )?;
    WarningKind::ALL.iter().try_for_each(|kind| writeln!(page, "| `{kind}` | {} |", kind.meaning()))
}
