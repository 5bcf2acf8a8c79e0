//! Resolves paths without following a symbolic link of somebody else.
//!
//! The kernel resolves a path anew in each system call, and follows whatever links are on the way. Whoever
//! can write to a directory on the way can put a link there, and root would create, overwrite or remove a
//! file where that user could not. So every path that is written is resolved here: component by component,
//! each opened beneath the one before without following links, and a link is followed only if nobody else can
//! have made it lead where it leads. (The kernel's `fs.protected_symlinks` covers only the last component, in
//! sticky directories that everybody can write to, and can be switched off.)
//!
//! The result is an open directory and a name in it. Everything that is done to them afterwards is done
//! through that descriptor, so it does not matter who renames the directories on the way in the meantime.
//! Another user may still choose between directories that he can rename anyway, which gains him nothing.
//!
//! cap-std resolves paths beneath a directory in the same way, but it looks at no owner: it refuses links
//! that leave the directory and follows all others, and root's own links may lead anywhere.

mod place;
pub mod trusted;
mod walk;

pub use place::{Destination, Place};
pub use walk::{Directory, LinkOfOthers};
