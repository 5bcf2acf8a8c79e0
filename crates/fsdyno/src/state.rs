//! Where fsdyno keeps its state: results, undo journals, and the kernels and programs of guests.
//!
//! For an ordinary user, all of it is where the XDG Base Directory Specification says. For root it is below
//! /var, and root accepts another place only if nobody but root could have written there: under `sudo -E` the
//! variables are the user's, and root would carry out an undo journal or boot a kernel that the user created.
//! A place that root used before, or that belongs to the user behind sudo, is named in a hint.

use crate::exit::{Status, Trouble};
use crate::file;
use crate::say;
use anyhow::anyhow;
use fsdyno_path::trusted;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Root's directory of state.
pub const ROOTS_STATE: &str = "/var/lib/fsdyno";
/// Root's directory of kernels and programs for guests.
pub const ROOTS_CACHE: &str = "/var/cache/fsdyno";
const STORE: &str = "results.db";
const UNDO: &str = "undo";
const ROOT: u32 = 0;

/// The settings that determine where things are.
#[derive(Debug, Clone, Default)]
struct StateSettings {
    root: bool,
    /// `--state`.
    option: Option<PathBuf>,
    /// `XDG_STATE_HOME` or `XDG_CACHE_HOME`.
    xdg: Option<PathBuf>,
    home: Option<PathBuf>,
}

/// A directory, and where it was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    directory: PathBuf,
    /// `--state`, `XDG_STATE_HOME`; empty for the default.
    by: &'static str,
}

/// The directory of state.
#[derive(Debug, Clone)]
pub struct State {
    directory: PathBuf,
    root: bool,
}

impl State {
    /// The directory of this process.
    ///
    /// # Errors
    /// A refusal if root would have to trust a directory that somebody else can write to.
    pub fn find(option: Option<&Path>) -> Result<Self, Trouble> {
        let option = option.map(std::path::absolute).transpose()?;
        if let Some(relative) = relative("XDG_STATE_HOME").filter(|_| option.is_none()) {
            say::note(&format!(
                "XDG_STATE_HOME is '{}', which counts as unset because it is not an absolute path",
                relative.display()
            ));
        }
        let asked = StateSettings { option, ..asked("XDG_STATE_HOME") };
        let chosen = chosen_state(&asked).ok_or_else(|| {
            Trouble::new(
                Status::Usage,
                anyhow!("no place to keep results: neither XDG_STATE_HOME nor HOME is an absolute path"),
            )
            .hint("name one with --state DIR")
        })?;
        if asked.root {
            obey(&chosen, &chosen.directory, "state")?;
            obey(&chosen, &chosen.directory.join(UNDO), "state")?;
        }
        Ok(State { directory: chosen.directory, root: asked.root })
    }

    /// The directory itself.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The database of results, unless another one is named.
    pub fn store(&self) -> PathBuf {
        self.directory.join(STORE)
    }

    /// Where root's results are, for a user who is not root.
    pub fn roots_store(&self) -> Option<PathBuf> {
        (!self.root).then(|| Path::new(ROOTS_STATE).join(STORE))
    }

    /// The directory of undo journals.
    pub fn undo(&self) -> PathBuf {
        self.directory.join(UNDO)
    }

    /// Creates the directory if necessary.
    ///
    /// # Errors
    /// A refusal if somebody else was faster; otherwise the system's error.
    pub fn make(&self) -> Result<(), Trouble> {
        match self.root {
            true => trusted::make(&self.directory, ROOT)
                .map(drop)
                .map_err(|error| refused(&self.directory, "", "state", &error)),
            false => Ok(file::make_directory(&self.directory).map(drop)?),
        }
    }

    /// Directories where this user has results or journals that are not in use: root's former place, and
    /// those of the user behind sudo.
    pub fn elsewhere(&self) -> Vec<PathBuf> {
        if !self.root {
            return Vec::new();
        }
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let sudo = std::env::var("SUDO_USER").ok();
        let state = asked("XDG_STATE_HOME");
        let places = former_places(&users, sudo.as_deref(), state.xdg.as_deref(), state.home.as_deref());
        places
            .into_iter()
            .filter(|place| {
                *place != self.directory && (place.join(STORE).exists() || has_journals(&place.join(UNDO)))
            })
            .collect()
    }

    /// Those of [`State::elsewhere`] with undo journals.
    pub fn elsewhere_with_journals(&self) -> Vec<PathBuf> {
        self.elsewhere().into_iter().filter(|place| has_journals(&place.join(UNDO))).collect()
    }

    /// A line for each directory that [`State::elsewhere`] finds.
    pub fn elsewhere_hint(&self) -> Option<String> {
        let line = |place: &PathBuf| {
            let store = place.join(STORE);
            format!("results in '{}': fsdyno --store {0} list", store.display())
        };
        let stores: Vec<String> =
            self.elsewhere().iter().filter(|place| place.join(STORE).exists()).map(line).collect();
        (!stores.is_empty()).then(|| stores.join("\n      "))
    }
}

/// Returns whether a directory holds undo journals.
fn has_journals(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|extension| extension == "journal"))
}

/// Where kernels and programs for guests are cached.
///
/// # Errors
/// A refusal if root would have to take them from a directory that somebody else can write to.
pub fn cache() -> Result<PathBuf, Trouble> {
    let asked = asked("XDG_CACHE_HOME");
    let chosen = chosen_cache(&asked).ok_or_else(|| {
        Trouble::new(
            Status::Usage,
            anyhow!("no place for a cache: neither XDG_CACHE_HOME nor HOME is an absolute path"),
        )
        .hint("set XDG_CACHE_HOME")
    })?;
    if asked.root {
        obey(&chosen, &chosen.directory, "cache")?;
    }
    Ok(chosen.directory)
}

/// The value of a variable if it is a path that is not absolute.
fn relative(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    value.filter(|path| !path.is_absolute())
}

fn asked(variable: &str) -> StateSettings {
    // According to the specification, paths that are not absolute count as unset.
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    StateSettings {
        root: is_root(),
        option: None,
        xdg: absolute(std::env::var_os(variable)),
        home: absolute(std::env::var_os("HOME")),
    }
}

/// Returns whether this is root, and not a user who appears as root in a user namespace, where the machine's
/// files belong to nobody.
pub fn is_root() -> bool {
    geteuid().is_root() && std::fs::metadata("/").is_ok_and(|root| root.uid() == ROOT)
}

fn chosen_state(asked: &StateSettings) -> Option<Chosen> {
    let chosen = |directory: PathBuf, by| Some(Chosen { directory, by });
    match asked {
        StateSettings { option: Some(directory), .. } => chosen(directory.clone(), "--state"),
        StateSettings { xdg: Some(xdg), .. } => chosen(xdg.join("fsdyno"), "XDG_STATE_HOME"),
        StateSettings { root: true, .. } => chosen(ROOTS_STATE.into(), ""),
        StateSettings { home, .. } => chosen(home.as_ref()?.join(".local/state/fsdyno"), ""),
    }
}

fn chosen_cache(asked: &StateSettings) -> Option<Chosen> {
    let chosen = |directory: PathBuf, by| Some(Chosen { directory, by });
    match asked {
        StateSettings { xdg: Some(xdg), .. } => chosen(xdg.join("fsdyno"), "XDG_CACHE_HOME"),
        StateSettings { root: true, .. } => chosen(ROOTS_CACHE.into(), ""),
        StateSettings { home, .. } => chosen(home.as_ref()?.join(".cache/fsdyno"), ""),
    }
}

fn obey(chosen: &Chosen, directory: &Path, what: &str) -> Result<(), Trouble> {
    trusted::check(directory, ROOT).map_err(|error| refused(directory, chosen.by, what, &error))
}

fn refused(directory: &Path, by: &str, what: &str, error: &trusted::Untrusted) -> Trouble {
    let by = if by.is_empty() { String::new() } else { format!(" from {by}") };
    let directory = directory.display();
    let hint = match what {
        "cache" => format!("unset XDG_CACHE_HOME (sudo without -E) to use '{ROOTS_CACHE}'"),
        _ => format!(
            "unset XDG_STATE_HOME (sudo without -E) to use '{ROOTS_STATE}', or use --state to name a \
             directory that only root can write to; --store FILE shows results from elsewhere"
        ),
    };
    Trouble::new(
        Status::Refused,
        anyhow!("root does not trust the {what} directory '{directory}'{by}: {error}"),
    )
    .hint(hint)
}

/// Where root, and the user behind sudo, may have state, according to the lines of passwd(5).
fn former_places(
    passwd: &str,
    sudo_user: Option<&str>,
    xdg: Option<&Path>,
    home: Option<&Path>,
) -> Vec<PathBuf> {
    let home_of = |user: &str| {
        let mut fields = passwd.lines().map(|line| line.split(':'));
        fields.find_map(|mut fields| (fields.next()? == user).then(|| fields.nth(4).map(PathBuf::from))?)
    };
    let homes = [Some("root"), sudo_user].into_iter().flatten().filter_map(home_of);
    let homes = homes.chain(home.map(Path::to_path_buf)).map(|home| home.join(".local/state"));
    let mut places: Vec<PathBuf> =
        homes.chain(xdg.map(Path::to_path_buf)).map(|base| base.join("fsdyno")).collect();
    let mut seen = std::collections::BTreeSet::new();
    places.retain(|place| place.is_absolute() && seen.insert(place.clone()));
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(root: bool, option: &str, xdg: &str, home: &str) -> StateSettings {
        let path = |text: &str| (!text.is_empty()).then(|| PathBuf::from(text));
        StateSettings { root, option: path(option), xdg: path(xdg), home: path(home) }
    }

    #[test]
    fn the_default_place_follows_xdg_and_root_has_its_own() {
        for (root, option, xdg, home, state, cache) in [
            (false, "", "/xdg", "/home/u", "/xdg/fsdyno", "/xdg/fsdyno"),
            (false, "", "", "/home/u", "/home/u/.local/state/fsdyno", "/home/u/.cache/fsdyno"),
            (true, "", "", "/home/u", "/var/lib/fsdyno", "/var/cache/fsdyno"),
            (true, "", "/xdg", "/home/u", "/xdg/fsdyno", "/xdg/fsdyno"),
            (true, "/srv/state", "/xdg", "/home/u", "/srv/state", "/xdg/fsdyno"),
        ] {
            let asked = asked(root, option, xdg, home);
            assert_eq!(chosen_state(&asked).unwrap().directory, Path::new(state), "{asked:?}");
            assert_eq!(chosen_cache(&asked).unwrap().directory, Path::new(cache), "{asked:?}");
        }
        assert_eq!(chosen_state(&asked(false, "", "", "")), None);
    }

    #[test]
    fn the_homes_of_root_and_of_the_user_behind_sudo_are_looked_at() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/sh\nnohome:x:9\n";
        let places = former_places(passwd, Some("admin"), Some(Path::new("/xdg")), Some(Path::new("/root")));
        let expected = ["/root/.local/state/fsdyno", "/home/admin/.local/state/fsdyno", "/xdg/fsdyno"];
        assert_eq!(places, expected.map(PathBuf::from));
        assert_eq!(
            former_places(passwd, Some("nohome"), None, None),
            [PathBuf::from("/root/.local/state/fsdyno")]
        );
    }
}
