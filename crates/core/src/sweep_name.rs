//! The names of sweeps, by which commands select them.

/// The word that selects the sweep that started last of those that are finished and have results.
pub const LATEST: &str = "latest";
/// The prefix of the number or the name of a sweep that root has stored.
pub const ROOTS_PREFIX: &str = "root:";
/// The prefix of the name of a published study.
pub const PUBLISHED_PREFIX: &str = "published:";
/// The longest name, in bytes.
pub const LONGEST: usize = 256;

/// Why a name cannot be one of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing but white space.
    #[error("a name must not be empty")]
    Empty,
    /// It selects whichever sweep finished last.
    #[error("'{LATEST}' selects the latest sweep, so it cannot be a name")]
    Latest,
    /// It selects the sweep of that number.
    #[error("'{name}' is a number, so it cannot be a name")]
    Number {
        /// As written.
        name: String,
    },
    /// It selects a sweep of root, or a published study.
    #[error("'{name}' cannot be a name: what precedes the colon has a meaning of its own")]
    Prefix {
        /// As written.
        name: String,
    },
    /// Longer than [`LONGEST`].
    #[error("a name of {bytes} bytes is too long; the limit is {LONGEST}")]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// It would break lines of tables or steer the terminal.
    #[error("a name must not contain a line break or another control character")]
    Control,
}

/// A name that a sweep may have, without white space around it: one that selects nothing else and fits into
/// one line.
///
/// # Errors
/// [`NameError`].
pub fn check(name: &str) -> Result<&str, NameError> {
    let name = name.trim();
    match name {
        "" => Err(NameError::Empty),
        LATEST => Err(NameError::Latest),
        _ if name.len() > LONGEST => Err(NameError::Long { bytes: name.len() }),
        _ if name.chars().any(char::is_control) => Err(NameError::Control),
        _ if name.parse::<i64>().is_ok() => Err(NameError::Number { name: name.to_string() }),
        _ if [ROOTS_PREFIX, PUBLISHED_PREFIX].iter().any(|prefix| name.starts_with(prefix)) => {
            Err(NameError::Prefix { name: name.to_string() })
        }
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_nothing_else_and_fits_into_a_line() {
        assert_eq!(check(" which filesystem? "), Ok("which filesystem?"));
        assert_eq!(check("2009-11"), Ok("2009-11"));
        assert_eq!(check(" \n"), Err(NameError::Empty));
        assert_eq!(check("latest"), Err(NameError::Latest));
        assert_eq!(check("a\u{1b}[31m"), Err(NameError::Control));
        assert_eq!(check(&"x".repeat(LONGEST + 1)), Err(NameError::Long { bytes: LONGEST + 1 }));
        assert_eq!(check("-7"), Err(NameError::Number { name: "-7".to_string() }));
        for name in ["root:1", "published:x"] {
            assert_eq!(check(name), Err(NameError::Prefix { name: name.to_string() }));
        }
    }
}
