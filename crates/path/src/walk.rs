//! The one walk from component to component.

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, mkdirat, openat,
    readlinkat, stat, statat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows in one path (path_resolution(7)).
const MOST_LINKS: usize = 40;
/// Write permission of the group and of others. With an access control list, the group's permission is its
/// mask (acl(5)).
const WRITE_OF_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// A symbolic link that leads where another user wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is a symbolic link that another user can change, so it is not followed", place.display())]
pub struct LinkOfOthers {
    /// The link.
    pub place: PathBuf,
}

impl LinkOfOthers {
    /// Returns whether such a link is the cause of an error.
    pub fn is_cause_of(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<LinkOfOthers>())
    }
}

/// An open directory: nobody can put another one in its place.
#[derive(Debug)]
pub struct Directory {
    descriptor: OwnedFd,
    path: PathBuf,
    is_contested: bool,
}

impl Directory {
    /// Opens the directory at a path.
    ///
    /// # Errors
    /// The system's; [`LinkOfOthers`].
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Walk::new(path, Missing::IsAnError, None)?.into_directory()?)
    }

    /// Opens the directory at a path, and creates it and missing ones above it like
    /// [`std::fs::create_dir_all`].
    ///
    /// # Errors
    /// Those of [`Directory::open`].
    pub fn make(path: &Path) -> io::Result<Self> {
        Ok(Walk::new(path, Missing::IsMade(0o777), None)?.into_directory()?)
    }

    /// Opens a directory in this one, which must not be a link.
    ///
    /// # Errors
    /// The system's.
    pub fn beneath(&self, name: &OsStr) -> io::Result<Self> {
        let opened = open_at(self.descriptor.as_fd(), name, OFlags::DIRECTORY | OFlags::NOFOLLOW);
        let descriptor = opened.map_err(|error| match self.link_of_others(name) {
            Some(link) => io::Error::new(io::ErrorKind::PermissionDenied, link),
            None => error.into(),
        })?;
        let is_contested = self.is_contested || can_be_changed(&fstat(&descriptor)?);
        Ok(Directory { descriptor, path: self.path.join(name), is_contested })
    }

    /// The link that has this name, if another user can change where it leads.
    pub fn link_of_others(&self, name: &OsStr) -> Option<LinkOfOthers> {
        let found = statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_link = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
        (is_link && !self.may_follow(&found)).then(|| LinkOfOthers { place: self.path.join(name) })
    }

    /// Returns whether nobody but this user and root decides where a link in it leads. A link can be moved by
    /// whoever can write to its directory: root, whose links lead where others may not write, follows none of
    /// its own there.
    fn may_follow(&self, link: &Stat) -> bool {
        is_ours(link) && !(is_root() && self.is_contested)
    }

    /// Returns whether another user may create and rename entries of the directory. The sticky bit does not
    /// help against that: an entry that does not exist yet can be created.
    ///
    /// # Errors
    /// The system's.
    pub fn is_open_to_others(&self) -> io::Result<bool> {
        Ok(closed(&fstat(&self.descriptor)?, geteuid().as_raw(), false).is_err())
    }

    /// Its path when it was opened, without links, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path to a name in it that leads through its descriptor, whatever happens to the names above it
    /// (proc_pid_fd(5)). Valid in this process, as long as the directory is open; `.` is the directory
    /// itself.
    pub fn at(&self, name: impl AsRef<OsStr>) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())).join(name.as_ref())
    }

    /// Returns whether another user can rename, remove or replace the directory, or its entries.
    pub fn is_contested(&self) -> bool {
        self.is_contested
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The treatment of directories that do not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    IsAnError,
    /// With this mode.
    IsMade(u32),
}

/// The component at which a walk ends too early, and why.
#[derive(Debug)]
pub(crate) struct Stop {
    pub place: PathBuf,
    pub error: io::Error,
}

impl From<Stop> for io::Error {
    fn from(stop: Stop) -> Self {
        stop.error
    }
}

/// Where a path leads.
pub(crate) enum End {
    /// A name in a directory, which is no link; whether anything is there or not.
    Name(Directory, OsString),
    /// An open file of a process, by its link in /proc.
    Open(OwnedFd),
}

/// A walk from directory to directory.
pub(crate) struct Walk {
    here: Directory,
    /// The names that are left, the next one last.
    left: Vec<OsString>,
    links: usize,
    missing: Missing,
    /// The user besides root to whom everything on the way must belong, with nobody else able to write to it;
    /// `None` if only links matter.
    trust: Option<u32>,
}

impl Walk {
    pub fn new(path: &Path, missing: Missing, trust: Option<u32>) -> Result<Self, Stop> {
        let here = match path.is_absolute() {
            true => begin("/", PathBuf::from("/")),
            false => match std::env::current_dir() {
                // It can still be opened, but nothing can be created in it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let error = io::Error::new(error.kind(), "the current directory has been removed");
                    Err(Stop { place: PathBuf::from("."), error })
                }
                here => begin(".", here.unwrap_or(PathBuf::from("."))),
            },
        }?;
        let mut walk = Walk { here, left: Vec::new(), links: 0, missing, trust };
        walk.verify(&walk.here, true)?;
        walk.lies_ahead(path);
        Ok(walk)
    }

    /// Walks to a directory.
    pub fn into_directory(mut self) -> Result<Directory, Stop> {
        while let Some(name) = self.left.pop() {
            self.step(&name)?;
        }
        self.verify(&self.here, false)?;
        Ok(self.here)
    }

    /// Walks to the directory in which the last name is.
    pub fn into_name(mut self) -> Result<End, Stop> {
        while let Some(name) = self.left.pop() {
            if !self.left.is_empty() || name == ".." {
                self.step(&name)?;
                continue;
            }
            match open_at(self.here.as_fd(), &name, OFlags::NOFOLLOW) {
                Ok(found) if is_link(&found).map_err(self.stopped_at(&name))? => {
                    if let Some(open) = self.follow(&found, &name, OFlags::empty())? {
                        return Ok(End::Open(open));
                    }
                }
                Ok(_) | Err(Errno::NOENT) => {
                    self.verify(&self.here, false)?;
                    return Ok(End::Name(self.here, name));
                }
                Err(error) => return Err(self.stopped_at(&name)(error)),
            }
        }
        Err(Stop { place: self.here.path, error: Errno::ISDIR.into() })
    }

    /// Puts a path in front of what is left.
    fn lies_ahead(&mut self, path: &Path) {
        let names = path.components().rev().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_os_string()),
            Component::ParentDir => Some(OsString::from("..")),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
        });
        self.left.extend(names);
    }

    fn step(&mut self, name: &OsStr) -> Result<(), Stop> {
        // The kernel triggers an automount only if a directory is requested.
        let open = || open_at(self.here.as_fd(), name, OFlags::NOFOLLOW | OFlags::DIRECTORY);
        let opened = match (open(), self.missing) {
            (Err(Errno::NOENT), Missing::IsMade(mode)) => {
                match mkdirat(&self.here, name, Mode::from_raw_mode(mode)) {
                    // Somebody else was faster; what is there now is looked at like anything else.
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => Err(error),
                }
            }
            (opened, _) => opened,
        };
        match opened {
            Ok(next) => self.enter(next, name),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = open_at(self.here.as_fd(), name, OFlags::NOFOLLOW);
                let found = found.map_err(self.stopped_at(name))?;
                if !is_link(&found).map_err(self.stopped_at(name))? {
                    return Err(self.stopped_at(name)(Errno::NOTDIR));
                }
                match self.follow(&found, name, OFlags::DIRECTORY)? {
                    Some(next) => self.enter(next, name),
                    None => Ok(()),
                }
            }
            Err(error) => Err(self.stopped_at(name)(error)),
        }
    }

    fn enter(&mut self, next: OwnedFd, name: &OsStr) -> Result<(), Stop> {
        let found = fstat(&next).map_err(self.stopped_at(name))?;
        let is_contested = self.here.is_contested || can_be_changed(&found);
        let path = match name == ".." {
            true => self.here.path.parent().unwrap_or(Path::new("/")).to_path_buf(),
            false => self.here.path.join(name),
        };
        self.here = Directory { descriptor: next, path, is_contested };
        self.verify(&self.here, true)
    }

    /// Puts what a link says in front of what is left. A link of /proc to an open file or directory says
    /// nothing that can be resolved once more; what it leads to is returned instead.
    fn follow(&mut self, link: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<Option<OwnedFd>, Stop> {
        let stopped = self.stopped_at(name);
        let found = fstat(link).map_err(&stopped)?;
        let place = self.here.path.join(name);
        match self.trust {
            Some(user) => owned(&found, user).map_err(|reason| untrusted(&place, reason))?,
            None if !self.here.may_follow(&found) => {
                return Err(Stop {
                    error: io::Error::new(
                        io::ErrorKind::PermissionDenied,
                        LinkOfOthers { place: place.clone() },
                    ),
                    place,
                });
            }
            None => {}
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(stopped(Errno::LOOP));
        }
        let target = readlinkat(link, "", Vec::new()).map_err(&stopped)?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        let in_proc = fstatfs(link).map_err(&stopped)?.f_type == PROC_SUPER_MAGIC;
        if self.trust.is_none() && in_proc && is_magic(&target) {
            return open_at(self.here.as_fd(), name, flags).map(Some).map_err(stopped);
        }
        if target.is_absolute() {
            self.here = begin("/", PathBuf::from("/"))?;
            self.verify(&self.here, true)?;
        }
        self.lies_ahead(&target);
        Ok(None)
    }

    /// Checks that a directory is closed to everybody whom this walk does not trust.
    fn verify(&self, directory: &Directory, is_on_the_way: bool) -> Result<(), Stop> {
        let Some(user) = self.trust else { return Ok(()) };
        let found = fstat(directory);
        let found = found.map_err(|error| Stop { place: directory.path.clone(), error: error.into() })?;
        closed(&found, user, is_on_the_way).map_err(|reason| untrusted(&directory.path, reason))
    }

    fn stopped_at(&self, name: &OsStr) -> impl Fn(Errno) -> Stop + use<> {
        let place = self.here.path.join(name);
        move |error| Stop { place: place.clone(), error: error.into() }
    }
}

fn begin(name: &str, path: PathBuf) -> Result<Directory, Stop> {
    let stopped = |error: Errno| Stop { place: path.clone(), error: error.into() };
    let descriptor = open_at(CWD, OsStr::new(name), OFlags::DIRECTORY).map_err(stopped)?;
    let is_contested = can_be_changed(&fstat(&descriptor).map_err(stopped)?);
    Ok(Directory { descriptor, path, is_contested })
}

fn open_at(at: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(at, name, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

fn is_link(found: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(found)?.st_mode) == FileType::Symlink)
}

/// Returns whether the kernel resolves a link by the file itself and not by the text: `/tmp/x (deleted)`,
/// `pipe:[4711]` (proc_pid_fd(5)). The other links of /proc, such as `self`, are relative.
fn is_magic(target: &Path) -> bool {
    target.is_absolute() || target.as_os_str().as_bytes().contains(&b':')
}

/// Returns whether this is root, and not a user who appears as root in a user namespace, where the machine's
/// files belong to nobody.
fn is_root() -> bool {
    geteuid().is_root() && stat("/").is_ok_and(|root| root.st_uid == ROOT)
}

fn is_ours(found: &Stat) -> bool {
    [ROOT, geteuid().as_raw()].contains(&found.st_uid)
}

/// Returns whether another user can rename, remove or replace the entries of a directory.
fn can_be_changed(directory: &Stat) -> bool {
    !is_ours(directory) || (directory.st_mode & WRITE_OF_OTHERS != 0 && directory.st_mode & STICKY == 0)
}

fn untrusted(place: &Path, reason: String) -> Stop {
    Stop { place: place.to_path_buf(), error: io::Error::other(reason) }
}

/// Checks that nobody else can write to a file or directory or, if it is only on the way, replace its
/// entries.
pub(crate) fn closed(found: &Stat, user: u32, sticky_is_fine: bool) -> Result<(), String> {
    owned(found, user)?;
    if found.st_mode & WRITE_OF_OTHERS == 0 || (sticky_is_fine && found.st_mode & STICKY != 0) {
        return Ok(());
    }
    Err(format!("can be written by others (mode {:04o})", found.st_mode & 0o7777))
}

fn owned(found: &Stat, user: u32) -> Result<(), String> {
    match found.st_uid {
        owner if owner == ROOT || owner == user => Ok(()),
        owner => Err(format!("belongs to user {owner}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Place};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    const NOBODY: u32 = 65_534;

    /// A directory of the current user in a sticky one.
    fn ours() -> tempfile::TempDir {
        let directory = tempfile::tempdir_in("/tmp").unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        directory
    }

    #[test]
    fn links_of_ones_own_are_followed_to_the_last() {
        let directory = ours();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("real/below")).unwrap();
        symlink("real", path("link")).unwrap();
        symlink(path("link/below"), path("absolute")).unwrap();
        symlink("../none", path("real/dangling")).unwrap();
        symlink("loop", path("loop")).unwrap();
        let found = |name: &str| Place::of(&path(name)).map(|place| place.path());
        assert_eq!(found("absolute/../new").unwrap(), path("real/new"));
        assert_eq!(found("link").unwrap(), path("real"));
        assert_eq!(found("link/dangling").unwrap(), path("none"));
        assert_eq!(found("loop").unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(found("none/new").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(found("link/..").unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(Place::make(&path("none/deep/new")).unwrap().path(), path("none/deep/new"));
        assert!(path("none/deep").is_dir());
    }

    #[test]
    fn links_of_others_are_followed_nowhere_on_the_way() {
        if !is_root() {
            eprintln!("skipped: requires root");
            return;
        }
        let directory = ours();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("real/below")).unwrap();
        symlink("real", path("theirs")).unwrap();
        symlink("theirs", path("ours")).unwrap();
        lchown(path("theirs"), Some(NOBODY), None).unwrap();
        for name in ["theirs", "theirs/below/new", "ours/new", "real/../theirs/new"] {
            let error = Place::of(&path(name)).unwrap_err();
            assert!(LinkOfOthers::is_cause_of(&error), "{name}: {error}");
            assert!(error.to_string().contains("theirs' is a symbolic link"), "{name}: {error}");
            assert!(
                Directory::make(&path(name)).is_err_and(|error| LinkOfOthers::is_cause_of(&error)),
                "{name}"
            );
        }
    }

    /// A link of root's own can be moved by whoever owns its directory.
    #[test]
    fn root_follows_no_link_that_another_user_can_move() {
        if !is_root() {
            eprintln!("skipped: requires root");
            return;
        }
        let directory = ours();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("theirs/below")).unwrap();
        fs::create_dir_all(path("open")).unwrap();
        symlink("/etc", path("theirs/below/link")).unwrap();
        symlink("/etc", path("open/link")).unwrap();
        chown(path("theirs"), Some(NOBODY), None).unwrap();
        for (mode, is_followed) in [(0o777, false), (0o775, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(path("open"), Permissions::from_mode(mode)).unwrap();
            assert_eq!(Place::of(&path("open/link/new")).is_ok(), is_followed, "{mode:o}");
        }
        assert!(
            Place::of(&path("theirs/below/link/new")).is_err_and(|error| LinkOfOthers::is_cause_of(&error))
        );
        assert_eq!(Place::of(&path("theirs/below/new")).unwrap().path(), path("theirs/below/new"));
    }

    #[test]
    fn what_is_open_stays_what_it_was_whoever_swaps_the_names_above() {
        let directory = ours();
        let path = |name: &str| directory.path().join(name);
        fs::create_dir_all(path("real/below")).unwrap();
        fs::create_dir_all(path("decoy/below")).unwrap();
        let place = Place::of(&path("real/below/new")).unwrap();
        fs::rename(path("real"), path("moved")).unwrap();
        symlink("decoy", path("real")).unwrap();
        fs::write(place.through(), "text").unwrap();
        assert_eq!(fs::read_to_string(path("moved/below/new")).unwrap(), "text");
        assert_eq!(fs::read_dir(path("decoy/below")).unwrap().count(), 0);
    }

    #[test]
    fn open_files_are_found_by_their_links_in_proc() {
        let directory = ours();
        let file = fs::File::create(directory.path().join("file")).unwrap();
        let folder = fs::File::open(directory.path()).unwrap();
        let number = |file: &fs::File| file.as_raw_fd();
        fs::remove_file(directory.path().join("file")).unwrap();
        for of in ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"] {
            let found = Destination::of(Path::new(&format!("{of}/{}", number(&file)))).unwrap();
            assert!(matches!(found, Destination::Open(_)), "{of}: {found:?}");
            fs::write(found.through(), of).unwrap();
            let in_it = PathBuf::from(format!("{of}/{}/new", number(&folder)));
            assert!(matches!(Destination::of(&in_it).unwrap(), Destination::Place(_)), "{of}");
        }
        assert!(matches!(Destination::of(Path::new("/dev/null")).unwrap(), Destination::Place(_)));
        assert_eq!(file.metadata().unwrap().len(), "/proc/thread-self/fd".len() as u64);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is called '(deleted)'");
    }
}
