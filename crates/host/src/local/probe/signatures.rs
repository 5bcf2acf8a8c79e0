//! Known signatures on a device, as `wipefs` of util-linux reports them: filesystems, members of arrays and volume groups,
//! encryption, swap, partition tables, all that are there and not only the likeliest.

use crate::local::command;
use crate::{Command, DeviceHandle};
use serde::Deserialize;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Reading a few blocks; a device that takes longer is sick.
const LIMIT: Duration = Duration::from_secs(30);

/// The types of all signatures, each once, in libblkid's words; else why they cannot be told.
pub(super) fn read(device: &Arc<OwnedFd>) -> Result<Vec<String>, String> {
    let handle = DeviceHandle(0);
    // Without `--all` wipefs opens the device for reading only; `--no-act` is its own word for the same.
    let mut look =
        Command::new("wipefs").args(["--no-act", "--json"]).device("", handle, Path::new("device"));
    look.limit = LIMIT;
    let output = command::run(&look, &[(handle, Arc::clone(device))]).map_err(|error| error.to_string())?;
    match output.status {
        0 => {
            parse(&output.stdout).map_err(|error| format!("the output of wipefs is not understood: {error}"))
        }
        status => Err(format!("wipefs ended with status {status}: {}", output.stderr.trim_end())),
    }
}

#[derive(Deserialize)]
struct Report {
    signatures: Vec<Signature>,
}

#[derive(Deserialize)]
struct Signature {
    r#type: String,
}

fn parse(text: &str) -> serde_json::Result<Vec<String>> {
    if text.trim().is_empty() {
        return Ok(Vec::new()); // releases that print nothing where they found nothing
    }
    let mut types = Vec::new();
    for signature in serde_json::from_str::<Report>(text)?.signatures {
        if !types.contains(&signature.r#type) {
            types.push(signature.r#type);
        }
    }
    Ok(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_reports() {
        let ext4 = r#"{
   "signatures": [
      {
         "device": "h.img",
         "offset": "0x438",
         "type": "ext4",
         "uuid": "124c21d8-1d18-475f-8d22-575ba5543d62",
         "label": null
      }
   ]
}"#;
        assert_eq!(parse(ext4).unwrap(), ["ext4"]);
        let none = "{\n   \"signatures\": [\n\n   ]\n}\n";
        assert!(parse(none).unwrap().is_empty());
        assert!(parse("").unwrap().is_empty());
        assert!(parse("DEVICE OFFSET TYPE").is_err());
    }
}
