//! The page on which a sweep publishes its status: a memfd, which belongs to its process and ends with it.
//!
//! The first byte of the page is written by watchers and read by the sweep: what to do after the trial in
//! progress. Then come two records, written by the sweep and read by watchers: the status, and of a race its
//! course, which is long if there are many configurations, and changes only after a block:
//!
//! | bytes | content |
//! |---|---|
//! | 0 | a request, [`AfterTrial::byte`] |
//! | 64 to 71 | `fsdyno-w` |
//! | 72 to 75 | length of the status in bytes, little endian |
//! | 76 to 79 | its CRC-32 |
//! | 80 to 87 | how often it was written |
//! | 88 and on | the status as JSON |
//! | 2^24 and on | the course of the race as a record of the same form |
//!
//! A record is written by one system call and read by another, and nobody waits for anybody: a reader that
//! catches the writer in between finds that the checksum does not fit, and reads again.

use crate::race::RaceCourse;
use crate::status::{STATUS_VERSION, Status};
use fsdyno_core::AfterTrial;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The name of the page, which `/proc/PID/fd` shows.
pub(crate) const NAME: &str = "fsdyno-watch";
const MAGIC: &[u8; 8] = b"fsdyno-w";
/// Where the record of the status begins.
const RECORD: u64 = 64;
/// Where the record of a race begins. What is between them takes no memory.
const RACE: u64 = 1 << 24;
/// Where the text begins within a record.
const TEXT: usize = 24;
/// The longest text that is read. A status with the longest names has a hundredth of it, and the course of a
/// race with 1,000 configurations a fiftieth.
const MOST: usize = 8 << 20;
/// The number of times that a record that does not fit its checksum is read.
const ATTEMPTS: u32 = 5;

/// Why there is no status on a page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// It could not be created, read or written.
    #[error("cannot {action} the page of a sweep")]
    System {
        /// The action that was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// Nothing was published yet.
    #[error("the sweep has not said anything yet")]
    Empty,
    /// The text on the page is not a status.
    #[error("the page of the sweep is damaged: {reason}")]
    Damaged {
        /// The fault in the text.
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
        self.replace(RECORD, status)
    }

    /// Replaces the course of the race. Watchers look at it once [`Status::raced`] has changed.
    ///
    /// # Errors
    /// [`PageError::System`].
    pub fn write_race(&mut self, course: &RaceCourse) -> Result<(), PageError> {
        self.replace(RACE, course)
    }

    fn replace(&mut self, at: u64, content: &impl Serialize) -> Result<(), PageError> {
        self.writes += 1;
        self.record.clear();
        self.record.extend_from_slice(MAGIC);
        self.record.resize(TEXT, 0);
        serde_json::to_writer(&mut self.record, content).map_err(|error| system("write")(error.into()))?;
        let (length, crc) = (self.record.len() - TEXT, crc32fast::hash(&self.record[TEXT..]));
        self.record[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        self.record[12..16].copy_from_slice(&crc.to_le_bytes());
        self.record[16..24].copy_from_slice(&self.writes.to_le_bytes());
        self.file.write_all_at(&self.record, at).map_err(system("write"))
    }

    /// Returns the action that watchers have asked for.
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

/// Returns the number of times that a page had been written when its status was; `None` if it has no status.
pub(crate) fn writes(file: &File) -> Option<u64> {
    let mut header = [0; TEXT];
    file.read_exact_at(&mut header, RECORD).ok()?;
    (header[..8] == *MAGIC).then(|| u64::from_le_bytes(field(&header, 16)))
}

/// The status on a page.
pub(crate) fn read(file: &File) -> Result<Status, PageError> {
    // Another version may have other fields.
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let text = text(file, RECORD)?;
    let Version { version } = parsed(&text)?;
    if version != STATUS_VERSION {
        return Err(PageError::Version { found: version });
    }
    parsed(&text)
}

/// The course of a race on a page whose status has been read.
pub(crate) fn read_race(file: &File) -> Result<RaceCourse, PageError> {
    parsed(&text(file, RACE)?)
}

fn damaged(reason: String) -> PageError {
    PageError::Damaged { reason }
}

fn parsed<T: DeserializeOwned>(text: &[u8]) -> Result<T, PageError> {
    serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))
}

/// The text of a record.
fn text(file: &File, at: u64) -> Result<Vec<u8>, PageError> {
    let mut found = Err(PageError::Empty);
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        found = text_once(file, at);
        if !matches!(found, Err(PageError::Damaged { .. })) {
            break;
        }
    }
    found
}

fn text_once(file: &File, at: u64) -> Result<Vec<u8>, PageError> {
    let mut header = [0; TEXT];
    match file.read_at(&mut header, at).map_err(system("read"))? {
        // What was never written reads as zeros before what was.
        0 => return Err(PageError::Empty),
        TEXT if header == [0; TEXT] => return Err(PageError::Empty),
        TEXT if header[..8] == *MAGIC => {}
        _ => return Err(damaged("it does not begin like one".to_string())),
    }
    let length = u32::from_le_bytes(field(&header, 8)) as usize;
    let mut record = vec![0; TEXT + length.min(MOST)];
    // The length may have changed meanwhile: then the checksum does not fit.
    let read = file.read_at(&mut record, at).map_err(system("read"))?;
    record.truncate(read);
    let Some(text) = record.get(TEXT..TEXT + length) else {
        return Err(damaged(format!("it ends after {} of {length} bytes", read.saturating_sub(TEXT))));
    };
    if crc32fast::hash(text) != u32::from_le_bytes(field(&record, 12)) {
        return Err(damaged("its checksum does not fit".to_string()));
    }
    record.drain(..TEXT);
    Ok(record)
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
    use crate::scene::tests::{race, status};

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
        for size in [RECORD, RECORD + 1, RECORD + 20, RECORD + TEXT as u64, size / 2, size - 1] {
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
    fn a_race_has_a_record_of_its_own() {
        let mut page = Page::create().expect("a page");
        let file = page.file();
        assert!(matches!(read_race(&file), Err(PageError::Empty)));
        let ((_, course), (_, later)) = (race(1), race(3));
        page.write_race(&later).expect("written");
        assert!(matches!(read(&file), Err(PageError::Empty)), "a race is no status");
        page.write(&status()).expect("written");
        assert_eq!((read_race(&file).expect("a race"), read(&file).expect("a status")), (later, status()));
        page.write_race(&course).expect("written");
        assert_eq!((read_race(&file).expect("a race"), writes(&file)), (course, Some(2)));
        file.write_all_at(b"x", RACE + TEXT as u64).expect("changed");
        assert!(matches!(read_race(&file), Err(PageError::Damaged { .. })));
    }

    #[test]
    fn a_page_of_another_version_is_called_that() {
        let mut page = Page::create().expect("a page");
        page.write(&Status { version: 99, ..status() }).expect("written");
        assert!(matches!(read(&page.file()), Err(PageError::Version { found: 99 })));
    }
}
