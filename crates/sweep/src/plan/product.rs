//! The product of a plan's axes: every configuration without a name.

use super::Planned;
use super::raw::{RawAxis, RawLevel};
use fsdyno_core::axis::{DEFAULT, OF_THE_LOAD};
use fsdyno_core::{Configuration, Warning, WarningKind};
use std::collections::BTreeMap;

/// The warning that an old name was mapped.
pub(super) fn mapped(note: &str) -> Warning {
    Warning::new(WarningKind::NameMapped, note)
}

/// Axes whose levels need no explanation in the name of a configuration; others appear as `axis=level`.
const SELF_EXPLAINING: &[&str] = &["filesystem", "kernel", "scheduler", "atime"];

/// The number of configurations in the product, computed without making them.
pub(super) fn product_size(axes: &[RawAxis]) -> u128 {
    filesystems(axes)
        .iter()
        .map(|filesystem| {
            let levels = axes_of(axes, &filesystem.text).into_iter().map(|axis| axis.levels.len() as u128);
            levels.fold(1, u128::saturating_mul)
        })
        .fold(0, u128::saturating_add)
}

/// Every configuration of the product, in the order of the axes, the last one varying fastest.
pub(super) fn product(axes: &[RawAxis]) -> Vec<Planned> {
    let filesystems = filesystems(axes);
    let mut all = Vec::new();
    for filesystem in filesystems {
        let axes = axes_of(axes, &filesystem.text);
        let mut points: Vec<Vec<(&RawAxis, &RawLevel)>> = vec![Vec::new()];
        for axis in axes {
            points = points
                .iter()
                .flat_map(|point| {
                    axis.levels.iter().map(move |level| [&point[..], &[(axis, level)]].concat())
                })
                .collect();
        }
        all.extend(points.iter().map(|point| planned(filesystem, filesystems.len() > 1, point)));
    }
    all
}

fn filesystems(axes: &[RawAxis]) -> &[RawLevel] {
    axes.iter().find(|axis| axis.name == "filesystem").map_or(&[], |axis| &axis.levels)
}

/// The axes that apply to a filesystem; its own take precedence over general ones of the same name.
fn axes_of<'a>(axes: &'a [RawAxis], filesystem: &str) -> Vec<&'a RawAxis> {
    let own = |name: &str| axes.iter().any(|axis| axis.within == Some(filesystem) && axis.name == name);
    axes.iter()
        .filter(|axis| axis.name != "filesystem" && axis.axis.applies_to(filesystem))
        .filter(|axis| match axis.within {
            Some(within) => within == filesystem,
            None => !own(&axis.name),
        })
        .collect()
}

/// A level in the name of a configuration.
fn word(axis: &str, level: &str) -> String {
    let speaks = SELF_EXPLAINING.contains(&axis) && level != DEFAULT;
    if speaks { level.to_string() } else { format!("{axis}={level}") }
}

/// Adds to names the conditions of the load that differ between configurations, although no axis has two
/// levels for any of them: one filesystem has its own level of `memory`, and the others that of the plan.
/// They are ranked apart, so names have to tell them apart.
pub(super) fn name_conditions(axes: &[RawAxis], planned: &mut [Planned]) {
    for name in OF_THE_LOAD {
        let level = |one: &Planned| one.configuration.level(name).unwrap_or(DEFAULT).to_string();
        if planned.windows(2).all(|pair| level(&pair[0]) == level(&pair[1])) {
            continue;
        }
        for one in planned.iter_mut() {
            let own = axes_of(axes, &one.configuration.filesystem);
            if !own.iter().any(|axis| axis.name == name && axis.levels.len() > 1) {
                let word = word(name, &level(one));
                one.configuration.name.push_str(&format!(" {word}"));
            }
        }
    }
}

fn planned(filesystem: &RawLevel, filesystem_varies: bool, point: &[(&RawAxis, &RawLevel)]) -> Planned {
    let mut words = Vec::new();
    if filesystem_varies || point.iter().all(|(axis, _)| axis.levels.len() == 1) {
        words.push(filesystem.text.clone());
    }
    for (axis, level) in point.iter().filter(|(axis, _)| axis.levels.len() > 1) {
        words.push(word(&axis.name, &level.text));
    }
    let settings: BTreeMap<_, _> =
        point.iter().map(|(axis, level)| (axis.name.clone(), level.text.clone())).collect();
    let configuration =
        Configuration { name: words.join(" "), filesystem: filesystem.text.clone(), settings };
    Planned {
        configuration,
        warnings: point.iter().filter_map(|(_, level)| level.note.as_deref().map(mapped)).collect(),
        contradictions: Vec::new(),
        impossible: Vec::new(),
    }
}
