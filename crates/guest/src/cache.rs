//! The download cache: Debian packages, unpacked, each under its own name.
//!
//! Packages are downloaded with `apt-get download` and unpacked with `dpkg -x`, which any user may do;
//! nothing is installed. A package is unpacked next to its place and then renamed, so that whatever has its
//! name is complete. An existing package is used without checking for a newer one: results of today and of
//! next month are from the same kernel.

use crate::error::{GuestError, Result};
use fsdyno_core::Bytes;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// The directory of the cache: `$XDG_CACHE_HOME/fsdyno`.
pub(crate) struct Cache {
    directory: PathBuf,
}

impl Cache {
    pub fn new(directory: PathBuf) -> Self {
        Cache { directory }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The unpacked packages whose names `accepts`.
    pub fn packages(&self, accepts: impl Fn(&str) -> bool) -> Vec<String> {
        let entries = fs::read_dir(self.directory.join("packages")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| accepts(name)).collect()
    }

    /// Where an unpacked package is, whether it exists or not.
    pub fn place(&self, package: &str) -> PathBuf {
        self.directory.join("packages").join(package)
    }

    /// The packages of libraries that a package depends on and that are not installed; none if apt does not
    /// know it.
    pub fn libraries_of(&self, package: &str) -> Vec<String> {
        let said = ask_apt(&["depends", package]).unwrap_or_default();
        let is_absent = |name: &String| {
            let status = run(Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}", name]));
            status.map_or(true, |status| status != b"installed")
        };
        libraries(&said).into_iter().filter(is_absent).collect()
    }

    /// Returns the download size of a package; `None` if apt does not know the package.
    pub fn size_of(&self, package: &str) -> Option<Bytes> {
        download_size(&ask_apt(&["show", "--no-all-versions", package]).ok()?)
    }

    /// Where a package is unpacked; it is downloaded if necessary.
    pub fn fetch(&self, package: &str) -> Result<PathBuf> {
        let place = self.place(package);
        if place.is_dir() {
            return Ok(place);
        }
        let packages = self.directory.join("packages");
        fs::create_dir_all(&packages).map_err(GuestError::file("create the directory", &packages))?;
        let work = tempfile::Builder::new()
            .prefix(".fetch-")
            .tempdir_in(&packages)
            .map_err(GuestError::file("create a directory in", &packages))?;
        run(Command::new("apt-get").args(["download", "-q", package]).current_dir(work.path()))?;
        let fetched = fs::read_dir(work.path()).map_err(GuestError::file("read", work.path()))?;
        let archive = fetched
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| GuestError::Tool {
                command: format!("apt-get download {package}"),
                said: "it downloaded no package".to_string(),
            })?;
        let whole = work.path().join("whole");
        run(Command::new("dpkg").arg("-x").arg(&archive).arg(&whole))?;
        match fs::rename(&whole, &place) {
            // Somebody else was faster.
            Err(_) if place.is_dir() => Ok(place),
            result => result.map(|()| place.clone()).map_err(GuestError::file("rename a package to", &place)),
        }
    }
}

/// The size of the file of a package, in what apt-cache(8) shows of it.
fn download_size(shown: &str) -> Option<Bytes> {
    let size = shown.lines().find_map(|line| line.strip_prefix("Size: "))?;
    size.trim().parse().ok().map(Bytes)
}

/// The packages of libraries in what apt-cache(8) says that a package depends on: those that are named so by
/// convention (Debian Policy, 8.1).
fn libraries(depends: &str) -> Vec<String> {
    let names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let is_library = |name: &&str| name.starts_with("lib") || name.ends_with("-libs");
    names.filter(is_library).map(str::to_string).collect()
}

/// Returns whether packages can be downloaded on this machine.
pub(crate) fn can_fetch() -> bool {
    ["apt-get", "apt-cache", "dpkg"].iter().all(|program| fsdyno_host::local::find_program(program).is_some())
}

/// Asks apt-cache(8), and each question only once: where apt keeps no cache of its own, an answer takes a
/// second.
pub(crate) fn ask_apt(question: &[&str]) -> Result<String> {
    static ANSWERS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let key = question.join(" ");
    let mut answers = ANSWERS.lock().expect("nobody panics while asking");
    if let Some(answer) = answers.get(&key) {
        return Ok(answer.clone());
    }
    let said = run(Command::new("apt-cache").args(question))?;
    let answer = String::from_utf8_lossy(&said).into_owned();
    answers.insert(key, answer.clone());
    Ok(answer)
}

/// Runs a program on the host; returns its standard output.
pub(crate) fn run(command: &mut Command) -> Result<Vec<u8>> {
    let line = || {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
    };
    let failed = |said: String| GuestError::Tool { command: line(), said };
    let program = command.get_program().to_string_lossy().into_owned();
    if fsdyno_host::local::find_program(&program).is_none() {
        return Err(failed(format!("program '{program}' is not installed")));
    }
    let line = line();
    let output = command
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| GuestError::Tool { command: line.clone(), said: error.to_string() })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_string();
    let last = said.lines().last().unwrap_or("it printed nothing").to_string();
    Err(GuestError::Tool { command: line, said: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_package_is_not_that_of_what_it_installs() {
        let shown =
            "Package: linux-image-6.1.0-50-amd64\nInstalled-Size: 398123\nSize: 69172436\nSHA256: x\n";
        assert_eq!(download_size(shown), Some(Bytes(69_172_436)));
        assert_eq!(download_size("N: Unable to locate package\n"), None);
    }

    #[test]
    fn packages_of_libraries_are_told_from_others() {
        let said = "samba\n  PreDepends: init-system-helpers\n  Depends: passwd\n  Depends: <python3:any>\n    \
                    python3\n  Depends: libbsd0\n  Depends: samba-libs\n  Recommends: libnss3\n |Suggests: ntp\n";
        assert_eq!(libraries(said), ["libbsd0", "samba-libs"]);
    }
}
