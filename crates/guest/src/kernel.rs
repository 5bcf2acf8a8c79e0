//! Kernels for guests: where an image and its modules are.

use crate::cache::{self, Cache};
use crate::error::{GuestError, Result};
use fsdyno_core::KernelSpec;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A kernel that a guest can boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// Its image.
    pub image: PathBuf,
    /// The directory of its modules, with `modules.order` in it; `None` if everything is built in.
    pub modules: Option<PathBuf>,
    /// `6.1.0-56-amd64`.
    pub release: String,
}

/// Finds a kernel on this machine, without downloading it.
///
/// `Ok(None)`: apt offers it, but it has to be downloaded.
pub(crate) fn find(spec: &KernelSpec, cache: &Cache) -> Result<Option<Kernel>> {
    match spec {
        KernelSpec::Debian { version } => {
            let cached = newest(version, cache.packages(|name| is_package(name, version)));
            match cached {
                Some(package) => unpacked(spec, &cache.place(&package), &package).map(Some),
                None if cache::can_fetch() => newest_offered(spec, version).map(|_| None),
                None => Err(refuse(spec, "is not in the cache, and there is no apt-get to download it")),
            }
        }
        KernelSpec::Installed { release } => installed(spec, Path::new("/"), release).map(Some),
        KernelSpec::Image { image, modules, .. } => built(spec, image, modules.as_deref()).map(Some),
    }
}

/// Finds a kernel, and downloads it if necessary.
pub(crate) fn get(spec: &KernelSpec, cache: &Cache) -> Result<Kernel> {
    if let Some(kernel) = find(spec, cache)? {
        return Ok(kernel);
    }
    let KernelSpec::Debian { version } = spec else {
        unreachable!("only packages are fetched");
    };
    let package = newest_offered(spec, version)?;
    unpacked(spec, &cache.fetch(&package)?, &package)
}

/// The newest package of a version that apt knows.
pub(crate) fn newest_offered(spec: &KernelSpec, version: &str) -> Result<String> {
    let names = cache::ask_apt(&["pkgnames", &format!("{PACKAGE}{version}.")])?;
    let offered = names.lines().filter(|name| is_package(name, version)).map(str::to_string).collect();
    newest(version, offered).ok_or_else(|| {
        let reason = "no package source has it (apt-cache pkgnames linux-image- lists what is available, \
                      apt-get update refreshes the lists)";
        refuse(spec, reason)
    })
}

fn refuse(spec: &KernelSpec, reason: impl Into<String>) -> GuestError {
    GuestError::Kernel { kernel: spec.to_string(), reason: reason.into() }
}

/// The largest image of a kernel, in bytes; those of distributions have about a tenth of it.
const LARGEST: u64 = 256 << 20;

const PACKAGE: &str = "linux-image-";

/// Returns whether a package is a kernel of this version: `linux-image-6.1.0-56-amd64`, but none of the
/// special variants.
fn is_package(name: &str, version: &str) -> bool {
    let release = name.strip_prefix(PACKAGE).and_then(|rest| rest.strip_prefix(version));
    release.is_some_and(|rest| {
        rest.starts_with('.')
            && rest.ends_with("-amd64")
            && !["-rt-", "-cloud-"].iter().any(|special| rest.contains(special))
    })
}

/// The newest of several packages of a version, by the numbers in their names.
fn newest(version: &str, packages: Vec<String>) -> Option<String> {
    packages.into_iter().max_by_key(|name| {
        let rest = name.trim_start_matches(PACKAGE).trim_start_matches(version);
        let numbers = rest.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
        numbers.collect::<Vec<_>>()
    })
}

fn unpacked(spec: &KernelSpec, root: &Path, package: &str) -> Result<Kernel> {
    installed(spec, root, package.trim_start_matches(PACKAGE))
}

fn installed(spec: &KernelSpec, root: &Path, release: &str) -> Result<Kernel> {
    let image = root.join(format!("boot/vmlinuz-{release}"));
    if !image.is_file() {
        return Err(refuse(spec, format!("'{}' does not exist", image.display())));
    }
    let places = [root.join("lib/modules").join(release), root.join("usr/lib/modules").join(release)];
    let modules = places.into_iter().find(|place| place.is_dir());
    Ok(Kernel { image, modules, release: release.to_string() })
}

fn built(spec: &KernelSpec, image: &Path, modules: Option<&Path>) -> Result<Kernel> {
    // A pipe would never answer, and a device may have no end.
    let found = std::fs::metadata(image).map_err(GuestError::file("read the kernel image", image))?;
    if !found.is_file() {
        return Err(refuse(spec, format!("'{}' is not a regular file", image.display())));
    }
    if found.len() > LARGEST {
        return Err(refuse(spec, format!("'{}' is larger than {} MiB", image.display(), LARGEST >> 20)));
    }
    let release =
        release_of(image).map_err(GuestError::file("read the kernel image", image))?.ok_or_else(|| {
            refuse(
                spec,
                format!(
                    "'{}' is not a bzImage such as arch/x86/boot/bzImage of a kernel build",
                    image.display()
                ),
            )
        })?;
    let modules = match modules {
        None => None,
        Some(directory) => {
            let places = [
                directory.to_path_buf(),
                directory.join("lib/modules").join(&release),
                // In packages of Debian 13.
                directory.join("usr/lib/modules").join(&release),
                directory.join(&release),
            ];
            let found = places.into_iter().find(|place| place.join("modules.order").is_file());
            Some(found.ok_or_else(|| {
                let reason = format!(
                    "'{}' has no modules for {release}; create them with make modules_install \
                     INSTALL_MOD_PATH=DIR",
                    directory.display()
                );
                refuse(spec, reason)
            })?)
        }
    };
    Ok(Kernel { image: image.to_path_buf(), modules, release })
}

/// The release in a kernel image for x86; `None` if it is not such an image.
///
/// The header has `HdrS` at 0x202, and the position of the text at 0x20e, counted from 0x200
/// (Documentation/arch/x86/boot.rst, `kernel_version`).
fn release_of(image: &Path) -> io::Result<Option<String>> {
    let mut file = File::open(image)?;
    let mut header = [0_u8; 0x210];
    if file.read_exact(&mut header).is_err() || &header[0x202..0x206] != b"HdrS" {
        return Ok(None);
    }
    let place = 0x200 + u64::from(u16::from_le_bytes([header[0x20e], header[0x20f]]));
    file.seek(SeekFrom::Start(place))?;
    let mut text = Vec::new();
    file.take(256).read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.split([' ', '\0']).next().filter(|release| !release.is_empty()).map(str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};

    #[test]
    fn packages_of_a_version_are_told_from_their_special_builds() {
        assert!(is_package("linux-image-6.1.0-56-amd64", "6.1"));
        assert!(is_package("linux-image-6.12.117+deb12-amd64", "6.12"));
        for other in [
            "linux-image-6.12.117+deb12-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-rt-amd64",
            "linux-image-6.1.0-56-amd64-dbg",
            "linux-image-6.1.0-56-amd64-unsigned",
            "linux-headers-6.1.0-56-amd64",
        ] {
            assert!(!is_package(other, "6.1"), "{other}");
        }
    }

    #[test]
    fn the_newest_package_is_the_one_with_the_greatest_numbers() {
        let packages =
            ["linux-image-6.1.0-9-amd64", "linux-image-6.1.0-56-amd64", "linux-image-6.1.0-48-amd64"];
        let newest = newest("6.1", packages.map(str::to_string).to_vec());
        assert_eq!(newest.as_deref(), Some("linux-image-6.1.0-56-amd64"));
    }

    #[test]
    fn an_image_tells_its_release() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("bzImage");
        let mut bytes = vec![0_u8; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        bytes[0x300..0x312].copy_from_slice(b"6.19.0-rc1 (me@x)\0");
        std::fs::write(&image, &bytes).unwrap();
        assert_eq!(release_of(&image).unwrap().as_deref(), Some("6.19.0-rc1"));
        bytes[0x202] = b'X';
        std::fs::write(&image, &bytes).unwrap();
        assert_eq!(release_of(&image).unwrap(), None);
    }

    #[test]
    fn only_a_regular_file_of_a_kernels_size_is_opened() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::new(directory.path().join("cache"));
        let refused = |image: PathBuf| {
            let spec = KernelSpec::Image { name: "mine".to_string(), image, modules: None };
            find(&spec, &cache).unwrap_err().to_string()
        };
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        for image in [pipe, "/dev/zero".into(), directory.path().to_path_buf()] {
            assert!(refused(image.clone()).ends_with("is not a regular file"), "{}", image.display());
        }
        let huge = directory.path().join("huge");
        File::create(&huge).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(refused(huge).ends_with("is larger than 256 MiB"));
    }

    #[test]
    fn modules_are_found_where_a_build_leaves_them() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("bzImage");
        let mut bytes = vec![0_u8; 0x400];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        bytes[0x300..0x306].copy_from_slice(b"6.19.0");
        std::fs::write(&image, &bytes).unwrap();
        let installed = directory.path().join("lib/modules/6.19.0");
        std::fs::create_dir_all(&installed).unwrap();
        std::fs::write(installed.join("modules.order"), "").unwrap();
        let cache = Cache::new(directory.path().join("cache"));
        let spec = |modules: &Path| KernelSpec::Image {
            name: "mine".to_string(),
            image: image.clone(),
            modules: Some(modules.to_path_buf()),
        };
        for given in [directory.path(), &installed, &directory.path().join("lib/modules")] {
            let kernel = find(&spec(given), &cache).unwrap().unwrap();
            assert_eq!((kernel.modules.as_deref(), kernel.release.as_str()), (Some(&*installed), "6.19.0"));
        }
        let error = find(&spec(Path::new("/nowhere")), &cache).unwrap_err().to_string();
        assert!(error.starts_with("kernel mine: '/nowhere' has no modules for 6.19.0"), "{error}");
    }
}
