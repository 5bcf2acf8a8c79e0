//! `device-read` (`hdparm -tT`): reads the block device below the filesystem directly. Nothing is written.
//!
//! `cached reads` reads the first block again and again: after the first time it comes from the page cache,
//! so this is the speed of memory and kernel. `buffered reads` reads one block after the other through the
//! page cache, from the beginning of the device, with empty caches; if the device ends before the window
//! does, it is read again, after its cached blocks have been dropped.
//!
//! Differences from hdparm: each read is timed separately, and the cost of timing is not subtracted from the
//! result; positions are part of the read (`pread64`) instead of a seek; the rates cover exactly the window.

use crate::content::AlignedBuffer;
use crate::error::{EngineError, OperationFailure};
use crate::meter::{Halt, Object, timed, watched};
use crate::phase::{Job, PhaseLoad};
use crate::session::Session;
use crate::workload::Work;
use fsdyno_core::Operation;
use fsdyno_core::workload::device_read::reading::PREAD;
use fsdyno_core::workload::device_read::{BUFFERED, CACHED};
use fsdyno_core::workload::{DeviceRead, Load};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

impl Work for DeviceRead {
    fn run(&self, session: &mut Session<'_, '_>) -> Result<(), EngineError> {
        let device = session.request.device.clone().ok_or(EngineError::NoDevice)?;
        // The caches are dropped by way of the engine's own directory.
        session.make_base()?;
        let window_ns = self.window.0;
        for (spec, cached, after_ns) in [(CACHED, true, window_ns), (BUFFERED, false, 0)] {
            session.reporter.expect(after_ns);
            session.settle(spec.name, window_ns)?;
            let job = job(device.clone(), self.block.0 as usize, cached);
            session.phase(PhaseLoad::of(spec, self.timing().into(), vec![job]))?;
        }
        Ok(())
    }
}

/// One reader of the device.
fn job(device: PathBuf, block: usize, cached: bool) -> Job {
    Box::new(move |lineup| {
        let name = device.display().to_string();
        let fail = |errno| {
            Halt::Failed(OperationFailure { operation: Some(Operation::Openat), path: name.clone(), errno })
        };
        let (file, length) = match open(&device) {
            Ok(opened) => opened,
            Err(errno) => return fail(errno),
        };
        let mut buffer = AlignedBuffer::new(block);
        if cached && let Err(errno) = rustix::io::pread(&file, buffer.as_mut_slice(), 0) {
            return fail(errno);
        }
        let mut meter = lineup.start();
        let mut position = 0;
        let object = Object { directory: name.as_bytes(), name: c"" };
        loop {
            let data = buffer.as_mut_slice();
            let count = |read: &usize| *read as u64;
            let read =
                timed(&mut meter, PREAD, object, count, || rustix::io::pread(&file, &mut *data, position));
            match read {
                Err(halt) => return halt,
                Ok(_) if cached => {}
                Ok(read) => position += read as u64,
            }
            if position >= length {
                position = 0;
                meter.next_round();
                if let Err(halt) = watched(&mut meter, PREAD, object, || forget(&file)) {
                    return halt;
                }
            }
        }
    })
}

/// Opens the device for reading, with none of it in the page cache. Also returns its length in bytes.
fn open(device: &Path) -> Result<(OwnedFd, u64), Errno> {
    let file = rustix::fs::open(device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
    if length == 0 {
        return Err(Errno::NXIO);
    }
    forget(&file)?;
    Ok((file, length))
}

/// Makes the kernel drop all clean cached pages of the device.
fn forget(file: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
}
