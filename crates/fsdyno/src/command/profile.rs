//! `fsdyno profile DIR`: scans a real directory into a model for plans.

use super::{Result, print_json};
use crate::cli::Profile;
use crate::exit::Status;
use crate::file;
use crate::say;

pub fn run(options: &Profile) -> Result {
    let profile = fsdyno_engine::profile::scan(&options.directory)?;
    match &options.output {
        None => print_json(&profile)?,
        Some(path) => {
            let mut text = serde_json::to_string_pretty(&profile)?;
            text.push('\n');
            file::write_whole(path, |out| Ok(out.write_all(text.as_bytes())?))?;
            say::remark(&format!("{} files in {} directories", profile.files, profile.directories));
            say::remark(&format!("hint: in a plan: tree = \"profile:{}\"", path.display()));
            if let Some(found) = profile.compressible {
                say::remark(&format!(
                    "hint: compressing saves about {:.0} % of their bytes ({} blocks): content = {{ \
                     compressible = {:.2} }}",
                    found.share * 100.0,
                    found.blocks,
                    found.share
                ));
            }
        }
    }
    Ok(Status::Well)
}
