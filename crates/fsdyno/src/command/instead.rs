//! `--kernel`, `--modules` and `--memory`, as the equivalent changes to the plan.

use crate::cli::Instead;
use crate::exit::{Status, Trouble};
use anyhow::{Context, anyhow};
use std::path::Path;

/// The equivalent `PATH=VALUE` arguments.
pub fn overrides(instead: &Instead) -> Result<Vec<String>, Trouble> {
    let mut overrides = Vec::new();
    let mut levels = Vec::new();
    let mut modules = instead.modules.iter();
    for kernel in &instead.kernel {
        let (name, image) = match kernel.split_once('=') {
            Some((name, image)) => (name, Some(image)),
            None => (kernel.as_str(), kernel.contains('/').then_some(kernel.as_str())),
        };
        if let Some(image) = image {
            overrides.push(format!("kernels.{}.image={}", quoted(name), absolute(Path::new(image))?));
            if let Some(modules) = modules.next() {
                overrides.push(format!("kernels.{}.modules={}", quoted(name), absolute(modules)?));
            }
        }
        levels.push(quoted(name));
    }
    if modules.next().is_some() {
        return Err(Trouble::new(Status::Usage, anyhow!("more --modules than kernel images"))
            .hint("give --kernel NAME=IMAGE for each --modules DIR"));
    }
    if !levels.is_empty() {
        overrides.push(format!("axes.kernel=[{}]", levels.join(", ")));
    }
    if let Some(memory) = instead.memory {
        overrides.push(format!("memory={}", quoted(&memory.to_string())));
    }
    Ok(overrides)
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

    #[test]
    fn options_become_changes_of_the_plan() {
        let instead = Instead {
            memory: Some(Bytes(512 * Bytes::MIB)),
            kernel: ["old=/a/bzImage", "debian:6.1", "/b/bzImage"].map(str::to_string).to_vec(),
            modules: vec!["/a/modules".into(), "/b/modules".into()],
        };
        let expected = [
            "kernels.\"old\".image=\"/a/bzImage\"",
            "kernels.\"old\".modules=\"/a/modules\"",
            "kernels.\"/b/bzImage\".image=\"/b/bzImage\"",
            "kernels.\"/b/bzImage\".modules=\"/b/modules\"",
            "axes.kernel=[\"old\", \"debian:6.1\", \"/b/bzImage\"]",
            "memory=\"512M\"",
        ];
        assert_eq!(overrides(&instead).unwrap(), expected);
    }

    #[test]
    fn modules_without_an_image_are_refused() {
        let kernel = vec!["debian:6.1".to_string()];
        let instead = Instead { memory: None, kernel, modules: vec!["/a".into()] };
        assert!(overrides(&instead).is_err());
    }
}
