//! `fsdyno doctor`: what this machine can run, and what to install for the rest.

use super::selfcheck::{self, KeptCheck};
use super::{Result, Surroundings, image, print_json};
use crate::cli::{Doctor, DocumentFormat};
use crate::exit::Status;
use crate::out;
use fsdyno_core::Tool;
use fsdyno_core::scheduler;
use fsdyno_core::tool::how_to_install;
use fsdyno_core::workload::Program;
use fsdyno_guest::Qemu;
use fsdyno_host::Host;
use fsdyno_report::Style;
use fsdyno_sys::timer::{ClockSource, Timer};
use fsdyno_testbed::capability::{
    KernelSupport, LayerSupport, absent_tools, kernel_elsewhere, kernel_support, layer_support,
};
use fsdyno_testbed::{MissingPrivilege, filesystem};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// One thing that a sweep may need.
#[derive(Debug, Serialize)]
struct Finding {
    /// The name of the thing.
    subject: String,
    /// `true` if the machine has it.
    ok: bool,
    /// The state that was found.
    found: String,
    /// The remedy, if one is needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

pub fn run(surroundings: &Surroundings, options: &Doctor) -> Result {
    if let Some(plan) = &options.device {
        return image::run(surroundings, options, plan);
    }
    let mut host = surroundings.host()?;
    let mut findings = vec![root(&mut host), timer()];
    findings.push(loops());
    findings.extend(filesystems(&mut host));
    findings.extend(layers(&mut host));
    findings.push(schedulers(&mut host));
    findings.extend(Program::ALL.iter().filter_map(|program| Some(external(&mut host, program.tool()?))));
    findings.push(guests());
    findings.push(confinement(&mut host));
    findings.push(last_selfcheck(surroundings));
    match options.format {
        DocumentFormat::Text => print(&mut out::text(&surroundings.style), &findings, surroundings.style)?,
        DocumentFormat::Json => print_json(&findings)?,
    }
    Ok(Status::Well)
}

/// Returns the finding on whether the kernel has confirmed what fsdyno reports.
fn last_selfcheck(surroundings: &Surroundings) -> Finding {
    let last = selfcheck::last(surroundings.state.directory());
    let holds = |last: &KeptCheck| last.lost == 0 && last.compared > 0 && last.agree == last.compared;
    let ok = last.as_ref().is_some_and(holds);
    let found = last.map_or("never run".to_string(), |last| match last {
        KeptCheck { finished, lost, .. } if lost > 0 => {
            format!("inconclusive: {lost} events of the kernel were lost, {finished}")
        }
        KeptCheck { ref finished, .. } if last.is_inconclusive() => {
            format!("inconclusive: others used the processors meanwhile, {finished}")
        }
        KeptCheck { finished, fsdyno, compared, agree, .. } => {
            format!("{agree} of {compared} figures of version {fsdyno} agreed with the kernel, {finished}")
        }
    });
    let remedy = (!ok).then(|| "sudo fsdyno selfcheck".to_string());
    Finding { subject: "selfcheck".to_string(), ok, found, remedy }
}

fn root(host: &mut dyn Host) -> Finding {
    let lack = MissingPrivilege::of(host);
    let remedy = |lack| match lack {
        MissingPrivilege::Root => {
            "sweeps need root: sudo fsdyno sweep PLAN; without root: fsdyno bench DIR".to_string()
        }
        other => format!("sweeps need root: {}; without root: fsdyno bench DIR", other.hint()),
    };
    Finding {
        subject: "root".to_string(),
        ok: lack.is_none(),
        found: match lack {
            None => "yes".to_string(),
            Some(MissingPrivilege::Root) => "no".to_string(),
            Some(other) => format!("no: {other}"),
        },
        remedy: lack.map(remedy),
    }
}

fn timer() -> Finding {
    let timer = Timer::calibrate();
    let fast = timer.source() == ClockSource::Tsc;
    Finding {
        subject: "timer".to_string(),
        ok: fast,
        found: format!("{}, {:.0} ns per reading", timer.source().name(), timer.read_ns()),
        remedy: (!fast).then(|| "timing costs more because the kernel's clocksource is not tsc".to_string()),
    }
}

fn loops() -> Finding {
    let there = Path::new("/dev/loop-control").exists();
    Finding {
        subject: "loop devices".to_string(),
        ok: there,
        found: if there { "yes" } else { "no" }.to_string(),
        remedy: (!there).then(|| "run modprobe loop, or name a block device in the plan".to_string()),
    }
}

/// Kernel and tools of every filesystem.
fn filesystems(host: &mut dyn Host) -> Vec<Finding> {
    filesystem::all().map(|filesystem| one_filesystem(host, filesystem)).collect()
}

/// A filesystem that the kernel lacks cannot be installed here: a guest has one, and brings its own tools.
fn one_filesystem(host: &mut dyn Host, filesystem: &dyn filesystem::Filesystem) -> Finding {
    let kernel = kernel_support(host, filesystem);
    let missing = absent_tools(host, filesystem.descriptor().tools);
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    let remedy = match (kernel, packages.as_slice()) {
        (KernelSupport::Absent, _) => Some(format!("use a guest ({})", kernel_elsewhere(filesystem))),
        (_, []) => None,
        (_, packages) => Some(how_to_install(&packages.join(" "))),
    };
    let tools = tools_found(&missing);
    let kernel = match kernel {
        KernelSupport::Present => "in the kernel",
        KernelSupport::Module => "kernel module",
        KernelSupport::Absent => "not in the kernel",
        KernelSupport::Unknown => "kernel support unknown",
    };
    Finding {
        subject: filesystem.name().to_string(),
        ok: remedy.is_none(),
        found: format!("{kernel}, {tools}"),
        remedy,
    }
}

/// The requirements of arrays, volumes and slow disks.
fn layers(host: &mut dyn Host) -> Vec<Finding> {
    layer_support(host).into_iter().map(one_layer).collect()
}

/// As with filesystems, a guest has what this kernel lacks.
fn one_layer(LayerSupport { name, in_kernel, levels, missing }: LayerSupport) -> Finding {
    let remedy = match missing.first() {
        _ if !in_kernel => Some("use a guest (supported by kernel = \"debian:6.1\")".to_string()),
        None => None,
        Some(tool) => Some(format!("apt-get install {}", tool.package)),
    };
    let kernel = match (in_kernel, levels.as_slice()) {
        (false, _) => "not in the kernel".to_string(),
        (true, []) => "in the kernel".to_string(),
        (true, some) => format!("{} in the kernel", some.join(", ")),
    };
    Finding {
        subject: name.to_string(),
        ok: remedy.is_none(),
        found: format!("{kernel}, {}", tools_found(&missing)),
        remedy,
    }
}

fn tools_found(missing: &[&Tool]) -> String {
    match missing {
        [] => "tools installed".to_string(),
        some => format!("missing {}", some.iter().map(|tool| tool.program).collect::<Vec<_>>().join(", ")),
    }
}

/// Returns the finding on what the kernel keeps tools and engines from doing.
fn confinement(host: &mut dyn Host) -> Finding {
    let found = host.confinement().unwrap_or_default();
    let remedy = match (found.landlock_abi, found.not_refused.is_empty()) {
        (0, _) => Some(
            "needs Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK, and landlock in lsm= if that is set"
                .to_string(),
        ),
        (_, true) => None,
        (_, false) => Some("sweeps run anyway; a newer kernel blocks more".to_string()),
    };
    Finding {
        subject: "confinement".to_string(),
        ok: found.landlock_abi > 0,
        found: found.to_string(),
        remedy,
    }
}

/// Virtual machines with other kernels.
fn guests() -> Finding {
    let missing = Qemu::missing();
    let fetch = if Qemu::can_fetch_kernels() { "" } else { "; no apt-get, so only your own kernels" };
    Finding {
        subject: "guests".to_string(),
        ok: missing.is_empty(),
        found: match Qemu::installed() {
            Some(version) if missing.is_empty() => format!("{version}{fetch}"),
            _ => "no virtual machines".to_string(),
        },
        remedy: (!missing.is_empty()).then(|| format!("for kernel = \"debian:6.1\": {}", missing.join(", "))),
    }
}

/// The schedulers that loop devices offer; disks of this kernel offer the same.
fn schedulers(host: &mut dyn Host) -> Finding {
    let text = host.read_text(Path::new("/sys/block/loop0/queue/scheduler")).unwrap_or_default();
    let offered: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
    let absent: Vec<&str> = scheduler::NAMES.into_iter().filter(|name| !offered.contains(name)).collect();
    Finding {
        subject: "schedulers".to_string(),
        ok: absent.is_empty(),
        found: if offered.is_empty() { "not known".to_string() } else { offered.join(", ") },
        remedy: (!absent.is_empty())
            .then(|| format!("not available: {}; kernel modules may add them", absent.join(", "))),
    }
}

/// A program that the workload `external` runs.
fn external(host: &mut dyn Host, tool: &Tool) -> Finding {
    let found = host.find_program(tool.program).ok().flatten();
    Finding {
        subject: tool.program.to_string(),
        ok: found.is_some(),
        found: found.as_ref().map_or("not installed".to_string(), |path| path.display().to_string()),
        remedy: found
            .is_none()
            .then(|| format!("for the workload external: apt-get install {}", tool.package)),
    }
}

fn print(out: &mut dyn Write, findings: &[Finding], style: Style) -> io::Result<()> {
    let below = " ".repeat(24);
    for finding in findings {
        let mark = if finding.ok { "ok     " } else { "missing" };
        let first = format!("{mark}  {:<13} ", finding.subject);
        let mut lines = style.wrapped(&finding.found, &first, &below);
        lines.extend(finding.remedy.iter().flat_map(|remedy| style.wrapped(remedy, &below, &below)));
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    Ok(())
}
