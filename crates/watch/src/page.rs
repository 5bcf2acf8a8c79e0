//! The page on which a sweep publishes its status: a memfd, which belongs to its process and ends with it.
//!
//! The page has two parts. The first byte is written by watchers and read by the sweep: what to do after the
//! trial in progress. Then comes the record, written by the sweep and read by watchers:
//!
//! | bytes | content |
//! |---|---|
//! | 0 | a request, [`AfterTrial::byte`] |
//! | 64 to 71 | `fsdyno-w` |
//! | 72 to 75 | length of the status in bytes, little endian |
//! | 76 to 79 | its CRC-32 |
//! | 80 to 87 | how often it was written |
//! | 88 and on | the status as JSON |
//!
//! A record is written by one system call and read by another, and nobody waits for anybody: a reader that
//! catches the writer in between finds that the checksum does not fit, and reads again.

use crate::status::{STATUS_VERSION, Status};
use fsdyno_core::AfterTrial;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The name of the page, which `/proc/PID/fd` shows.
pub(crate) const NAME: &str = "fsdyno-watch";
const MAGIC: &[u8; 8] = b"fsdyno-w";
/// Where the record begins.
const RECORD: u64 = 64;
/// Where the status begins within the record.
const STATUS: usize = 24;
/// The longest record that is read. A status with the longest names has a tenth of it.
const MOST: usize = 1 << 20;
/// How often a record that does not fit its checksum is read again.
const ATTEMPTS: u32 = 5;

/// Why there is no status on a page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// It could not be created, read or written.
    #[error("cannot {action} the page of a sweep")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Nothing was published yet.
    #[error("the sweep has not said anything yet")]
    Empty,
    /// What is there is not a status.
    #[error("the page of the sweep is damaged: {reason}")]
    Damaged {
        /// What is wrong with it.
        reason: String,
    },
    /// Another version of fsdyno runs the sweep.
    #[error("the sweep is run by another version of fsdyno (status {found}, expected {STATUS_VERSION})")]
    Version {
        /// Its version of the status.
        found: u32,
    },
}

fn system(action: &'static str) -> impl Fn(io::Error) -> PageError {
    move |source| PageError::System { action, source }
}

/// The page of a sweep.
#[derive(Debug)]
pub struct Page {
    file: File,
    writes: u64,
    record: Vec<u8>,
}

impl Page {
    /// Creates an empty one for this process.
    ///
    /// # Errors
    /// [`PageError::System`].
    pub fn create() -> Result<Self, PageError> {
        let file = memfd_create(NAME, MemfdFlags::CLOEXEC)
            .map_err(|errno| system("create")(io::Error::from(errno)))?;
        Ok(Page { file: File::from(file), writes: 0, record: Vec::new() })
    }

    /// Replaces the status.
    ///
    /// # Errors
    /// [`PageError::System`].
    pub fn write(&mut self, status: &Status) -> Result<(), PageError> {
        self.writes += 1;
        self.record.clear();
        self.record.extend_from_slice(MAGIC);
        self.record.resize(STATUS, 0);
        serde_json::to_writer(&mut self.record, status).map_err(|error| system("write")(error.into()))?;
        let (length, crc) = (self.record.len() - STATUS, crc32fast::hash(&self.record[STATUS..]));
        self.record[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        self.record[12..16].copy_from_slice(&crc.to_le_bytes());
        self.record[16..24].copy_from_slice(&self.writes.to_le_bytes());
        self.file.write_all_at(&self.record, RECORD).map_err(system("write"))
    }

    /// What watchers have asked for.
    pub fn asked(&self) -> AfterTrial {
        asked(&self.file)
    }

    /// The file, for tests that read or damage it.
    #[cfg(test)]
    pub(crate) fn file(&self) -> File {
        self.file.try_clone().expect("a descriptor")
    }
}

/// The request on a page.
pub(crate) fn asked(file: &File) -> AfterTrial {
    let mut byte = [0];
    // A page on which nobody has asked for anything may be empty.
    match file.read_at(&mut byte, 0) {
        Ok(1) => AfterTrial::from_byte(byte[0]),
        _ => AfterTrial::Continue,
    }
}

/// Leaves a request on a page.
pub(crate) fn ask(file: &File, wish: AfterTrial) -> Result<(), PageError> {
    file.write_all_at(&[wish.byte()], 0).map_err(system("write"))
}

/// How often a page has been written; `None` if it never was.
pub(crate) fn writes(file: &File) -> Option<u64> {
    let mut header = [0; STATUS];
    file.read_exact_at(&mut header, RECORD).ok()?;
    (header[..8] == *MAGIC).then(|| u64::from_le_bytes(field(&header, 16)))
}

/// The status on a page.
pub(crate) fn read(file: &File) -> Result<Status, PageError> {
    let mut found = Err(PageError::Empty);
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        found = read_once(file);
        if !matches!(found, Err(PageError::Damaged { .. })) {
            break;
        }
    }
    found
}

fn read_once(file: &File) -> Result<Status, PageError> {
    let damaged = |reason: String| PageError::Damaged { reason };
    let size = file.metadata().map_err(system("read"))?.len();
    let length = usize::try_from(size.saturating_sub(RECORD)).unwrap_or(MOST).min(MOST);
    let mut record = vec![0; length];
    let length = file.read_at(&mut record, RECORD).map_err(system("read"))?;
    record.truncate(length);
    if record.is_empty() {
        return Err(PageError::Empty);
    }
    let Some((header, rest)) = record.split_at_checked(STATUS).filter(|(header, _)| header[..8] == *MAGIC)
    else {
        return Err(damaged("it does not begin like one".to_string()));
    };
    let length = u32::from_le_bytes(field(header, 8)) as usize;
    let Some(text) = rest.get(..length) else {
        return Err(damaged(format!("it ends after {} of {length} bytes", rest.len())));
    };
    if crc32fast::hash(text) != u32::from_le_bytes(field(header, 12)) {
        return Err(damaged("its checksum does not fit".to_string()));
    }
    // Another version may have other fields.
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let unreadable = |error: serde_json::Error| damaged(error.to_string());
    let Version { version } = serde_json::from_slice(text).map_err(unreadable)?;
    if version != STATUS_VERSION {
        return Err(PageError::Version { found: version });
    }
    serde_json::from_slice(text).map_err(unreadable)
}

/// Some bytes of a header, which is long enough.
fn field<const N: usize>(header: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::tests::status;

    #[test]
    fn what_is_written_is_read_and_a_shorter_status_replaces_a_longer_one() {
        let mut page = Page::create().expect("a page");
        let file = page.file();
        assert!(matches!(read(&file), Err(PageError::Empty)));
        assert_eq!((writes(&file), page.asked()), (None, AfterTrial::Continue));
        let mut long = status();
        long.plan = "x".repeat(5000);
        for (count, status) in (1..).zip([long, status()]) {
            page.write(&status).expect("written");
            assert_eq!(read(&file).expect("a status"), status);
            assert_eq!(writes(&file), Some(count));
        }
    }

    #[test]
    fn a_request_reaches_the_sweep_and_leaves_the_status_alone() {
        let mut page = Page::create().expect("a page");
        let file = page.file();
        ask(&file, AfterTrial::Stop).expect("written");
        assert!(matches!(read(&file), Err(PageError::Empty)), "a request is no status");
        page.write(&status()).expect("written");
        assert_eq!(page.asked(), AfterTrial::Stop);
        ask(&file, AfterTrial::Pause).expect("written");
        assert_eq!((page.asked(), asked(&file)), (AfterTrial::Pause, AfterTrial::Pause));
        assert_eq!(read(&file).expect("a status"), status());
    }

    #[test]
    fn what_is_damaged_is_refused_wherever_it_is_cut_or_changed() {
        let mut page = Page::create().expect("a page");
        page.write(&status()).expect("written");
        let file = page.file();
        let size = file.metadata().expect("its size").len();
        let mut whole = vec![0; size as usize];
        file.read_exact_at(&mut whole, 0).expect("its content");
        // Whatever is missing at its end, it is not taken for a whole status.
        for size in [RECORD, RECORD + 1, RECORD + 20, RECORD + STATUS as u64, size / 2, size - 1] {
            file.set_len(size).expect("cut");
            assert!(read(&file).is_err(), "{size}");
            file.set_len(whole.len() as u64).expect("extended");
            file.write_all_at(&whole, 0).expect("restored");
        }
        for at in (RECORD..size).filter(|at| !(80..88).contains(at)).step_by(13) {
            file.write_all_at(&[whole[at as usize] ^ 0x20], at).expect("changed");
            assert!(matches!(read(&file), Err(PageError::Damaged { .. })), "byte {at}");
            file.write_all_at(&whole, 0).expect("restored");
        }
        file.write_all_at(&vec![0xff; whole.len()], 0).expect("garbage");
        assert!(matches!(read(&file), Err(PageError::Damaged { .. })));
        assert_eq!((asked(&file), writes(&file)), (AfterTrial::Continue, None));
    }

    #[test]
    fn a_page_of_another_version_is_called_that() {
        let mut page = Page::create().expect("a page");
        page.write(&Status { version: 99, ..status() }).expect("written");
        assert!(matches!(read(&page.file()), Err(PageError::Version { found: 99 })));
    }
}
