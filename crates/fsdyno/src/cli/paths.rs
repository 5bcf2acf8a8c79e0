//! Paths on the command line, marked with what a command does to them.

use clap::Arg;
use std::any::TypeId;
use std::ffi::OsString;
use std::ops::Deref;
use std::path::{Path, PathBuf};

macro_rules! paths {
    ($($(#[$about:meta])* $name:ident),*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub struct $name(PathBuf);

            impl From<OsString> for $name {
                fn from(path: OsString) -> Self {
                    $name(path.into())
                }
            }

            impl AsRef<Path> for $name {
                fn as_ref(&self) -> &Path {
                    &self.0
                }
            }

            impl Deref for $name {
                type Target = Path;

                fn deref(&self) -> &Path {
                    &self.0
                }
            }
        )*
    };
}

paths! {
    /// A path of something that is read, or that is only named.
    InputPath,
    /// A path at which something is created, changed or removed: no link of another user is followed on the
    /// way there. `tests/links.rs` attacks each one.
    OutputPath
}

impl OutputPath {
    /// Returns whether the value of an argument is such a path.
    pub fn is_value_of(argument: &Arg) -> bool {
        argument.get_value_parser().type_id() == TypeId::of::<OutputPath>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{Command, CommandFactory};

    fn unmarked(command: &Command, found: &mut Vec<String>) {
        for argument in command.get_arguments() {
            let value = argument.get_value_parser().type_id();
            let is_path = value == TypeId::of::<PathBuf>() || value == TypeId::of::<OsString>();
            if argument.get_action().takes_values() && is_path {
                found.push(format!("{} {}", command.get_name(), argument.get_id()));
            }
        }
        command.get_subcommands().for_each(|command| unmarked(command, found));
    }

    #[test]
    fn each_path_on_the_command_line_is_marked_as_read_or_written() {
        let mut found = Vec::new();
        unmarked(&Cli::command(), &mut found);
        assert_eq!(found, Vec::<String>::new(), "each is an InputPath or an OutputPath");
    }
}
