//! Operations, the timed steps, and roles, the groups of workers that perform them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the operations once: variant, printed name, and whether the step moves file data.
macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $moves:expr;)*) => {
        /// One timed step, named after its syscall if it is one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Operation {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Operation {
            /// Every operation, in the order of declaration.
            pub const ALL: &'static [Operation] = &[$(Operation::$variant),*];

            /// The name in tables, plans (`phase/role/operation/statistic`) and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Operation::$variant => $name,)* }
            }

            /// Returns the direction in which the step moves file data, if it does.
            pub const fn moves(self) -> Moves {
                match self { $(Operation::$variant => $moves,)* }
            }
        }
    };
}

/// The direction in which a step moves file data, if it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// Names and inodes only.
    Nothing,
    /// From the file.
    Reads,
    /// Into the file.
    Writes,
}

operations! {
    /// One step through a directory, including the one that finds its end; a `getdents64` if the buffer is
    /// empty.
    Readdir = "readdir", Moves::Nothing;
    /// A call that lists a directory: as many entries as its buffer has room for, or none at its end.
    Getdents = "getdents64", Moves::Nothing;
    /// Attributes of one name, links not followed.
    Statx = "statx", Moves::Nothing;
    /// Opening a file, or creating and opening it if the role writes.
    Openat = "openat", Moves::Nothing;
    /// The first `read` after opening, of one byte (one block with direct I/O).
    ReadFirstByte = "read first byte", Moves::Reads;
    /// A `read` of the rest, one buffer at a time, as often as the file size requires.
    Read = "read", Moves::Reads;
    /// The first `write` after creating, of one byte (one block with direct I/O).
    WriteFirstByte = "write first byte", Moves::Writes;
    /// A `write` of the rest, one buffer at a time.
    Write = "write", Moves::Writes;
    /// A `pread64` at a random position.
    Pread = "pread64", Moves::Reads;
    /// A `pwrite64` at a random position.
    Pwrite = "pwrite64", Moves::Writes;
    /// A read through a ring, from the submission until its completion is seen.
    UringRead = "io_uring read", Moves::Reads;
    /// A write through a ring, likewise.
    UringWrite = "io_uring write", Moves::Writes;
    /// Setting the position in an open file.
    Lseek = "lseek", Moves::Nothing;
    /// Attributes of an open file.
    Fstat = "fstat", Moves::Nothing;
    /// Syncing a file to the device.
    Fsync = "fsync", Moves::Nothing;
    /// Syncing the data of a file to the device, and its metadata only as far as the data needs it.
    Fdatasync = "fdatasync", Moves::Nothing;
    /// Syncing the whole filesystem to the device.
    Syncfs = "syncfs", Moves::Nothing;
    /// Creating and opening a file, if this is distinguished from opening one.
    Create = "openat create", Moves::Nothing;
    /// Opening an existing file to write at its end.
    OpenAppend = "openat append", Moves::Nothing;
    /// Closing a file.
    Close = "close", Moves::Nothing;
    /// Making a directory.
    Mkdirat = "mkdirat", Moves::Nothing;
    /// Removing a file.
    Unlinkat = "unlinkat", Moves::Nothing;
    /// Removing a directory: `unlinkat` with `AT_REMOVEDIR`.
    Rmdir = "unlinkat dir", Moves::Nothing;
    /// Adding a name of an existing file.
    Linkat = "linkat", Moves::Nothing;
    /// Renaming.
    Renameat = "renameat", Moves::Nothing;
    /// Mapping a file into memory.
    Mmap = "mmap", Moves::Nothing;
    /// Syncing a part of a mapped file to the device.
    Msync = "msync", Moves::Nothing;
    /// Unmapping a file.
    Munmap = "munmap", Moves::Nothing;
    /// Reading from a mapped file, with the page faults that it takes.
    MappedRead = "read mapped", Moves::Reads;
    /// Storing into a mapped file, with the page faults that it takes.
    MappedWrite = "write mapped", Moves::Writes;
    /// Syncing a directory to the device.
    FsyncDirectory = "fsync dir", Moves::Nothing;
    /// Setting an extended attribute of an open file.
    Fsetxattr = "fsetxattr", Moves::Nothing;
    /// Copying from one file to another in the kernel.
    CopyFileRange = "copy_file_range", Moves::Writes;
    /// Allocating blocks of a file.
    Fallocate = "fallocate", Moves::Nothing;
    /// Setting the size of an open file.
    Ftruncate = "ftruncate", Moves::Nothing;
    /// Discarding blocks of a device or a file.
    Trim = "trim", Moves::Nothing;
    /// A read or a write, which were reported together.
    ReadOrWrite = "read or write", Moves::Nothing;
    /// The time from the moment an iteration of a role with a rate was due until it finished. The wait for a
    /// free worker is part of it.
    ResponseTime = "response time", Moves::Nothing;
    /// The time from the moment a worker began such an iteration until it finished.
    ServiceTime = "service time", Moves::Nothing;
    /// Nothing at all: the `null` workload, which measures the tool.
    Null = "null", Moves::Nothing;
}

impl Operation {
    /// Returns whether this is a whole iteration, which consists of operations, rather than one of them.
    pub fn is_an_iteration(self) -> bool {
        matches!(self, Operation::ResponseTime | Operation::ServiceTime)
    }

    /// Returns whether the time of the operation belongs to the data rate of a role: it moves data after the
    /// first byte, or makes sure after each piece that the data is on the device.
    pub fn is_of_data(self) -> bool {
        let first = matches!(self, Operation::ReadFirstByte | Operation::WriteFirstByte);
        self == Operation::Fdatasync || (self.moves() != Moves::Nothing && !first)
    }

    /// Returns whether the operation removes names.
    pub fn is_of_removal(self) -> bool {
        matches!(self, Operation::Unlinkat | Operation::Rmdir)
    }

    /// Returns whether the time of the operation belongs to the rate with overhead of a role that performs
    /// these operations. As in the tables of FsOpBench, a reader's time includes finding the file, and a
    /// writer's includes closing it. Without a first byte there is no such table, and a worker's time
    /// includes everything that it does.
    pub fn is_of_overhead(self, performed: impl Iterator<Item = Operation> + Clone) -> bool {
        let published = performed
            .clone()
            .any(|step| matches!(step, Operation::ReadFirstByte | Operation::WriteFirstByte));
        let reads = performed.clone().any(|step| step == Operation::Read);
        let overhead = if reads { Operation::Readdir } else { Operation::Close };
        !published || self.moves() != Moves::Nothing || self == Operation::Openat || self == overhead
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Declares the roles once: variant and printed name.
macro_rules! roles {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// A group of workers that do the same.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Role {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Role {
            /// Every role, in the order of declaration.
            pub const ALL: &'static [Role] = &[$(Role::$variant),*];

            /// The name in tables, plans and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Role::$variant => $name,)* }
            }
        }
    };
}

roles! {
    /// Reads files.
    Reader = "reader";
    /// Creates and writes files.
    Writer = "writer";
    /// Reads blocks of a file, changes them and writes them back.
    Rewriter = "rewriter";
    /// Reads at random positions of a file, and writes some of the blocks back.
    Seeker = "seeker";
    /// Creates files.
    Creator = "creator";
    /// Examines the attributes of files.
    Examiner = "examiner";
    /// Removes files.
    Deleter = "deleter";
    /// Performs transactions on a pool of files.
    Transactor = "transactor";
    /// Copies files.
    Copier = "copier";
    /// Does what requests of a server ask for.
    Client = "client";
    /// Writes a log.
    Logger = "logger";
    /// Writes back what has changed, from time to time.
    Checkpointer = "checkpointer";
    /// Looks at all files, one after the other.
    Scanner = "scanner";
    /// Discards blocks.
    Trimmer = "trimmer";
    /// Reads and writes, which were reported together.
    ReaderWriter = "reader-writer";
    /// Does nothing, very often.
    Null = "null";
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
