//! Requests to a disk that fail, and what an application does meanwhile.

use super::parameter::words;
use serde::{Deserialize, Serialize};

words! {
    /// The action of an application, which of the requests that result from it fails, and whether only that
    /// one does, or all later ones of its kind, too.
    #[derive(PartialOrd, Ord, Hash)]
    Fault, "fault" {
        /// It overwrites blocks of a file and calls fsync(2); the write of their data fails once.
        OverwriteData = "overwrite-data",
        /// The same, and all writes of data fail.
        OverwriteDataForGood = "overwrite-data-for-good",
        /// The write of something else fails once: the journal, a tree, an inode.
        OverwriteMetadata = "overwrite-metadata",
        /// All such writes fail.
        OverwriteMetadataForGood = "overwrite-metadata-for-good",
        /// A flush fails once.
        OverwriteFlush = "overwrite-flush",
        /// All flushes fail.
        OverwriteFlushForGood = "overwrite-flush-for-good",
        /// It appends blocks to a file and calls fsync(2); the write of their data fails once.
        AppendData = "append-data",
        /// The same, and all writes of data fail.
        AppendDataForGood = "append-data-for-good",
        /// The write of something else fails once.
        AppendMetadata = "append-metadata",
        /// All such writes fail.
        AppendMetadataForGood = "append-metadata-for-good",
        /// A flush fails once.
        AppendFlush = "append-flush",
        /// All flushes fail.
        AppendFlushForGood = "append-flush-for-good",
        /// It reads a file; the read of its data fails once.
        ReadData = "read-data",
        /// All reads of its data fail: bad sectors.
        ReadDataForGood = "read-data-for-good",
        /// The read of something else fails once.
        ReadMetadata = "read-metadata",
        /// All such reads fail.
        ReadMetadataForGood = "read-metadata-for-good",
    }
}

words! {
    /// The action of an application.
    Act, "act" {
        /// It overwrites blocks that a file already has, and calls fsync(2) twice.
        Overwrite = "overwrite",
        /// It appends blocks to a file, and calls fsync(2) twice.
        Append = "append",
        /// It reads a file twice.
        Read = "read",
    }
}

/// The harm that a fault did to an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Harm {
    /// The filesystem made no such request.
    Untested,
    /// Nothing was lost, and nothing was wrong.
    None,
    /// The error was reported, and the data is not there: what an application must expect.
    Told,
    /// The error was reported, but fsync(2), called again, succeeded, although the data is not there: whoever
    /// tries again is deceived.
    ToldOnce,
    /// Every call succeeded, and the data is not there.
    Silent,
}

/// A kind of request to a disk. What is data and what is not, the disk knows from what its sectors begin
/// with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// A write of data.
    WriteData,
    /// A write of anything else.
    WriteMetadata,
    /// A flush.
    Flush,
    /// A read of data.
    ReadData,
    /// A read of anything else.
    ReadMetadata,
}

impl Fault {
    /// All of them, in the order of tables.
    pub const ALL: [Fault; 16] = [
        Fault::OverwriteData,
        Fault::OverwriteDataForGood,
        Fault::OverwriteMetadata,
        Fault::OverwriteMetadataForGood,
        Fault::OverwriteFlush,
        Fault::OverwriteFlushForGood,
        Fault::AppendData,
        Fault::AppendDataForGood,
        Fault::AppendMetadata,
        Fault::AppendMetadataForGood,
        Fault::AppendFlush,
        Fault::AppendFlushForGood,
        Fault::ReadData,
        Fault::ReadDataForGood,
        Fault::ReadMetadata,
        Fault::ReadMetadataForGood,
    ];

    /// Returns the action of the application.
    pub const fn act(self) -> Act {
        match self {
            Fault::OverwriteData
            | Fault::OverwriteDataForGood
            | Fault::OverwriteMetadata
            | Fault::OverwriteMetadataForGood
            | Fault::OverwriteFlush
            | Fault::OverwriteFlushForGood => Act::Overwrite,
            Fault::AppendData
            | Fault::AppendDataForGood
            | Fault::AppendMetadata
            | Fault::AppendMetadataForGood
            | Fault::AppendFlush
            | Fault::AppendFlushForGood => Act::Append,
            Fault::ReadData | Fault::ReadDataForGood | Fault::ReadMetadata | Fault::ReadMetadataForGood => {
                Act::Read
            }
        }
    }

    /// Which request fails.
    pub const fn request(self) -> RequestKind {
        match self {
            Fault::OverwriteData
            | Fault::OverwriteDataForGood
            | Fault::AppendData
            | Fault::AppendDataForGood => RequestKind::WriteData,
            Fault::OverwriteMetadata
            | Fault::OverwriteMetadataForGood
            | Fault::AppendMetadata
            | Fault::AppendMetadataForGood => RequestKind::WriteMetadata,
            Fault::OverwriteFlush
            | Fault::OverwriteFlushForGood
            | Fault::AppendFlush
            | Fault::AppendFlushForGood => RequestKind::Flush,
            Fault::ReadData | Fault::ReadDataForGood => RequestKind::ReadData,
            Fault::ReadMetadata | Fault::ReadMetadataForGood => RequestKind::ReadMetadata,
        }
    }

    /// Returns whether all later requests of the kind fail, too.
    pub fn is_for_good(self) -> bool {
        self.name().ends_with("-for-good")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_happens() {
        for fault in Fault::ALL {
            let name = fault.name();
            let act = fault.act().name();
            let request = match fault.request() {
                RequestKind::WriteData | RequestKind::ReadData => "data",
                RequestKind::WriteMetadata | RequestKind::ReadMetadata => "metadata",
                RequestKind::Flush => "flush",
            };
            let lasting = if fault.is_for_good() { "-for-good" } else { "" };
            assert_eq!(name, format!("{act}-{request}{lasting}"));
        }
    }
}
