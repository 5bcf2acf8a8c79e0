//! `--set`, `--kernel`, `--modules`, `--memory`, `--race` and `--budget`, as changes of the plan.

use crate::cli::{Overrides, Racing};
use crate::exit::{Status, Trouble};
use anyhow::{Context, anyhow};
use std::path::Path;

/// The equivalent `PATH=VALUE` arguments of `--set`.
pub fn settings(overrides: &Overrides) -> Result<Vec<String>, Trouble> {
    let mut settings = overrides.set.clone();
    let mut levels = Vec::new();
    let mut modules = overrides.modules.iter();
    for kernel in &overrides.kernel {
        let (name, image) = match kernel.split_once('=') {
            Some((name, image)) => (name, Some(image)),
            None => (kernel.as_str(), kernel.contains('/').then_some(kernel.as_str())),
        };
        if let Some(image) = image {
            settings.push(format!("kernels.{}.image={}", quoted(name), absolute(Path::new(image))?));
            if let Some(modules) = modules.next() {
                settings.push(format!("kernels.{}.modules={}", quoted(name), absolute(modules)?));
            }
        }
        levels.push(quoted(name));
    }
    if modules.next().is_some() {
        return Err(Trouble::new(Status::Usage, anyhow!("more --modules than kernel images"))
            .hint("give --kernel NAME=IMAGE for each --modules DIR"));
    }
    if !levels.is_empty() {
        settings.push(format!("axes.kernel=[{}]", levels.join(", ")));
    }
    if let Some(memory) = overrides.memory {
        settings.push(format!("memory={}", quoted(&memory.to_string())));
    }
    Ok(settings)
}

/// The same with those that make it a race.
pub fn with_race(overrides: &Overrides, racing: &Racing) -> Result<Vec<String>, Trouble> {
    let mut settings = settings(overrides)?;
    settings.extend(racing.race.then(|| "protocol=\"race\"".to_string()));
    settings.extend(racing.budget.map(|budget| format!("budget={}", quoted(&budget.to_string()))));
    Ok(settings)
}

/// A path that is valid wherever the plan is, as a TOML string.
fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("cannot use '{}'", path.display()))?;
    Ok(quoted(&path.to_string_lossy()))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_core::Bytes;
    use std::ffi::OsString;

    #[test]
    fn options_become_changes_of_the_plan() {
        let overrides = Overrides {
            set: vec!["repetitions=1".to_string()],
            memory: Some(Bytes(512 * Bytes::MIB)),
            kernel: ["old=/a/bzImage", "debian:6.1", "/b/bzImage"].map(str::to_string).to_vec(),
            modules: ["/a/modules", "/b/modules"].map(|path| OsString::from(path).into()).into(),
        };
        let expected = [
            "repetitions=1",
            "kernels.\"old\".image=\"/a/bzImage\"",
            "kernels.\"old\".modules=\"/a/modules\"",
            "kernels.\"/b/bzImage\".image=\"/b/bzImage\"",
            "kernels.\"/b/bzImage\".modules=\"/b/modules\"",
            "axes.kernel=[\"old\", \"debian:6.1\", \"/b/bzImage\"]",
            "memory=\"512M\"",
        ];
        assert_eq!(settings(&overrides).unwrap(), expected);
    }

    #[test]
    fn a_race_is_a_change_of_the_plan() {
        let overrides = Overrides {
            set: vec!["seed=1".to_string()],
            memory: None,
            kernel: Vec::new(),
            modules: Vec::new(),
        };
        let racing = Racing { race: true, budget: Some("200".parse().unwrap()) };
        let expected = ["seed=1", "protocol=\"race\"", "budget=\"200 trials\""];
        assert_eq!(with_race(&overrides, &racing).unwrap(), expected);
        assert_eq!(with_race(&overrides, &Racing::default()).unwrap(), ["seed=1"]);
    }

    #[test]
    fn modules_without_an_image_are_refused() {
        let kernel = vec!["debian:6.1".to_string()];
        let modules = vec![OsString::from("/a").into()];
        let overrides = Overrides { set: Vec::new(), memory: None, kernel, modules };
        assert!(settings(&overrides).is_err());
    }
}
