//! The programs of a guest, with the libraries that they need.
//!
//! A program is the host's own if it is installed, otherwise that of a Debian package in the cache. Its
//! dynamic loader knows best what it needs: called as ldd(1) does, it prints the libraries that it would
//! load, and where they are. What is missing comes from the packages that the program's package depends on,
//! or from the package that is named after the library. Everything has the same path in the guest as on the
//! host, so that it is found in the same way.

use crate::cache::Cache;
use crate::error::{GuestError, Result};
use fsdyno_host::guest::GuestProgram;
use fsdyno_host::local::find_program;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Configuration that programs look for.
const SETTINGS: &[&str] = &["/etc/mke2fs.conf"];
/// Where programs are in a package.
const BINARIES: &[&str] = &["usr/sbin", "sbin", "usr/bin", "bin"];
/// Where libraries are in a Debian package for this architecture.
const LIBRARIES: &[&str] = &["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib"];

/// Files for a guest: the path there, and the path here.
pub(crate) type Files = BTreeMap<PathBuf, PathBuf>;

/// Returns whether a program can be given to a guest: it is installed, or in a package that is in the cache
/// or can be downloaded.
pub(crate) fn at_hand(program: &GuestProgram, cache: &Cache) -> bool {
    let packaged =
        || in_package(&cache.place(&program.package), &program.name).is_some() || crate::cache::can_fetch();
    find_program(&program.name).is_some() || (!program.package.is_empty() && packaged())
}

/// Adds a program and everything that it needs.
pub(crate) fn add(files: &mut Files, program: &GuestProgram, cache: &Cache) -> Result<()> {
    if let Some(path) = find_program(&program.name) {
        return add_file(files, &path, path.clone(), None);
    }
    let root = cache.fetch(&program.package)?;
    let path = in_package(&root, &program.name).ok_or_else(|| GuestError::Program {
        program: program.name.clone(),
        reason: format!("package {} does not contain it", program.package),
    })?;
    add_file(files, &path, Path::new("/usr/sbin").join(&program.name), Some((cache, &root)))
}

/// Adds what programs look for in addition to their libraries.
pub(crate) fn add_settings(files: &mut Files) {
    for path in SETTINGS.iter().map(PathBuf::from).filter(|path| path.is_file()) {
        files.insert(path.clone(), path);
    }
}

fn in_package(root: &Path, program: &str) -> Option<PathBuf> {
    BINARIES.iter().map(|directory| root.join(directory).join(program)).find(|path| path.is_file())
}

/// Adds an executable file, its interpreter and its libraries.
///
/// `package`: the cache, and where the package of the file is unpacked in it.
pub(crate) fn add_file(
    files: &mut Files,
    path: &Path,
    target: PathBuf,
    package: Option<(&Cache, &Path)>,
) -> Result<()> {
    if files.insert(target, path.to_path_buf()).is_some() {
        return Ok(());
    }
    let bytes = fs::read(path).map_err(GuestError::file("read", path))?;
    if let Some(interpreter) = script_interpreter(&bytes) {
        return add_file(files, &interpreter, interpreter.clone(), None);
    }
    let refuse = |reason: String| GuestError::Program { program: path.display().to_string(), reason };
    let Some(loader) = loader(&bytes).map_err(|error| refuse(error.to_string()))? else { return Ok(()) };
    let mut roots: Vec<PathBuf> = package.iter().map(|(_, root)| root.to_path_buf()).collect();
    let mut found = listed(&loader, path, &roots)?;
    if let Some((cache, root)) = package {
        // Packages whose dependencies have been fetched, and those whose turn comes.
        let mut packages: Vec<String> =
            root.file_name().map(|name| name.to_string_lossy().into_owned()).into_iter().collect();
        let mut turn = 0;
        while found.iter().any(|(_, library)| library.is_none()) && turn < packages.len() {
            for dependency in cache.libraries_of(&packages[turn]) {
                // If one cannot be fetched, the program may not need it.
                if !packages.contains(&dependency)
                    && let Ok(root) = cache.fetch(&dependency)
                {
                    roots.push(root);
                    packages.push(dependency);
                }
            }
            turn += 1;
            found = listed(&loader, path, &roots)?;
        }
        let missing = found.iter().filter(|(_, library)| library.is_none());
        roots.extend(missing.map(|(name, _)| library_root(cache, name)).collect::<Result<Vec<_>>>()?);
        found = listed(&loader, path, &roots)?;
    }
    files.insert(loader.clone(), loader);
    for (name, library) in found {
        let library = library.ok_or_else(|| refuse(format!("it needs {name}, which is not installed")))?;
        // A library from a package goes where loaders search by default.
        let fetched = roots.iter().any(|root| library.starts_with(root));
        let target = if fetched { Path::new("/usr/lib").join(&name) } else { library.clone() };
        files.insert(target, library);
    }
    Ok(())
}

/// Returns the libraries that the loader would load for a program, including those below these directories.
fn listed(loader: &Path, program: &Path, roots: &[PathBuf]) -> Result<Vec<(String, Option<PathBuf>)>> {
    let mut command = Command::new(loader);
    // Like `--list`, which would refuse a program if a library is missing (ldd(1)).
    command.arg(program).env("LD_TRACE_LOADED_OBJECTS", "1");
    if !roots.is_empty() {
        let places = roots.iter().flat_map(|root| LIBRARIES.iter().map(move |place| root.join(place)));
        let places = places.flat_map(|place| [private_directories(&place), vec![place]].concat());
        command.env("LD_LIBRARY_PATH", std::env::join_paths(places).unwrap_or_default());
    }
    let listed = crate::cache::run(&mut command)?;
    Ok(libraries(&String::from_utf8_lossy(&listed)))
}

/// Where a package keeps libraries that only its own programs use: the directories below one of libraries.
fn private_directories(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Where the package with a library is unpacked. Since the transition to 64-bit time, some have a suffix.
fn library_root(cache: &Cache, library: &str) -> Result<PathBuf> {
    let package = library_package(library);
    cache.fetch(&package).or_else(|first| cache.fetch(&format!("{package}t64")).map_err(|_| first))
}

/// The package of a library, which Debian names after it: `libntfs-3g.so.89` is in `libntfs-3g89`,
/// `libfoo2.so.3` in `libfoo2-3` (Debian Policy, 8.1).
fn library_package(library: &str) -> String {
    let (name, version) = library.split_once(".so").unwrap_or((library, ""));
    let version = version.trim_start_matches('.');
    let dash = if name.ends_with(|c: char| c.is_ascii_digit()) && !version.is_empty() { "-" } else { "" };
    format!("{name}{dash}{version}").to_lowercase().replace('_', "-")
}

/// The interpreter that the first line of a script names.
fn script_interpreter(bytes: &[u8]) -> Option<PathBuf> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    line.split_whitespace().next().map(PathBuf::from)
}

/// The dynamic loader that an ELF file asks for; none when it is linked statically.
fn loader(bytes: &[u8]) -> object::Result<Option<PathBuf>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, bytes)? {
        if segment.p_type(endian) == elf::PT_INTERP
            && let Some(path) = segment.interpreter(endian, bytes)?
        {
            return Ok(Some(PathBuf::from(String::from_utf8_lossy(path).into_owned())));
        }
    }
    Ok(None)
}

/// The libraries in what the loader prints, each with its file where it has one. The kernel's own
/// (`linux-vdso`) has none and needs none.
fn libraries(listed: &str) -> Vec<(String, Option<PathBuf>)> {
    let one = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let path = rest.split(" (0x").next().map(str::trim).filter(|path| path.starts_with('/'));
        Some((name.to_string(), path.map(PathBuf::from)))
    };
    listed.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_from_the_words_of_the_loader() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                      \tlibuuid.so.1 => /lib/x86_64-linux-gnu/libuuid.so.1 (0x00007f)\n\
                      \tlibgone.so.2 => not found\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let uuid = PathBuf::from("/lib/x86_64-linux-gnu/libuuid.so.1");
        let expected = [("libuuid.so.1".to_string(), Some(uuid)), ("libgone.so.2".to_string(), None)];
        assert_eq!(libraries(listed), expected);
    }

    #[test]
    fn the_package_of_a_library_follows_from_its_name() {
        for (library, package) in [
            ("libntfs-3g.so.89", "libntfs-3g89"),
            ("libuuid.so.1", "libuuid1"),
            ("libext2fs.so.2", "libext2fs2"),
            ("libpcre2-8.so.0", "libpcre2-8-0"),
            ("libcom_err.so.2", "libcom-err2"),
        ] {
            assert_eq!(library_package(library), package);
        }
    }

    #[test]
    fn a_program_comes_with_its_loader_and_its_libraries() {
        let mut files = Files::new();
        let shell = find_program("sh").unwrap();
        add_file(&mut files, &shell, shell.clone(), None).unwrap();
        let names: Vec<String> = files.keys().map(|path| path.display().to_string()).collect();
        assert!(names.iter().any(|name| name.contains("ld-linux")), "{names:?}");
        assert!(names.iter().any(|name| name.contains("libc.so")), "{names:?}");
    }

    #[test]
    fn a_script_comes_with_its_interpreter() {
        assert_eq!(script_interpreter(b"#!/bin/sh -f\nexit\n"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(script_interpreter(b"\x7fELF"), None);
    }
}
