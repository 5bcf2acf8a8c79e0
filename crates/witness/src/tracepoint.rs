//! Tracepoints as tracefs describes them: their numbers, and where their fields are.

use fsdyno_sys::tracefs;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// Why the kernel cannot be listened to.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// There is no tracefs, or it may not be mounted.
    #[error("tracefs cannot be used: {0}")]
    Tracefs(Errno),
    /// The kernel has no such tracepoint.
    #[error("the kernel has no tracepoint '{0}'")]
    Tracepoint(String),
    /// A setting of tracing was refused.
    #[error("cannot write '{value}' to '{file}' of tracefs: {errno}")]
    Setting {
        /// The file.
        file: String,
        /// The value that was to be written.
        value: String,
        /// The error that the kernel returned.
        errno: Errno,
    },
    /// No thread could be started.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// The kernel's tracing.
#[derive(Debug)]
pub(crate) struct Tracefs(OwnedFd);

/// Buffers and switches of their own.
#[derive(Debug)]
pub(crate) struct Instance<'t> {
    tracefs: &'t Tracefs,
    name: &'t str,
}

/// One tracepoint.
#[derive(Debug, Clone)]
pub(crate) struct Tracepoint {
    /// Its number in events.
    id: u16,
    fields: Vec<Field>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: String,
    offset: usize,
    size: usize,
}

impl Tracefs {
    pub(crate) fn open() -> Result<Tracefs, Unavailable> {
        tracefs::open().map(Tracefs).map_err(Unavailable::Tracefs)
    }

    /// Creates an instance.
    pub(crate) fn instance<'t>(&'t self, name: &'t str) -> Result<Instance<'t>, Unavailable> {
        tracefs::create_instance(&self.0, name).map_err(Unavailable::Tracefs)?;
        Ok(Instance { tracefs: self, name })
    }
}

impl Instance<'_> {
    fn open(&self, file: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = tracefs::of_instance(self.name, file);
        rustix::fs::openat(&self.tracefs.0, path, flags | OFlags::CLOEXEC, Mode::empty())
    }

    pub(crate) fn write(&self, file: &str, value: &str) -> Result<(), Unavailable> {
        let written =
            self.open(file, OFlags::WRONLY).and_then(|open| rustix::io::write(&open, value.as_bytes()));
        let (file, value) = (file.to_string(), value.to_string());
        written.map(drop).map_err(|errno| Unavailable::Setting { file, value, errno })
    }

    /// The tracepoint `group/name`.
    pub(crate) fn find(&self, name: &str) -> Result<Tracepoint, Unavailable> {
        let missing = || Unavailable::Tracepoint(name.to_string());
        let read = |file: &str| -> Option<String> {
            let open = self.open(&format!("events/{name}/{file}"), OFlags::RDONLY).ok()?;
            let mut text = String::new();
            File::from(open).read_to_string(&mut text).ok()?;
            Some(text)
        };
        let id = read("id").and_then(|text| text.trim().parse().ok()).ok_or_else(missing)?;
        let fields = read("format").map(|text| fields(&text)).ok_or_else(missing)?;
        Ok(Tracepoint { id, fields })
    }

    /// The buffers of all processors, to be read without waiting.
    pub(crate) fn buffers(&self) -> Result<Vec<OwnedFd>, Unavailable> {
        let open = |processor: usize| {
            self.open(&format!("per_cpu/cpu{processor}/trace_pipe_raw"), OFlags::RDONLY | OFlags::NONBLOCK)
        };
        let buffers: Vec<OwnedFd> = (0..).map_while(|processor| open(processor).ok()).collect();
        if buffers.is_empty() { Err(Unavailable::Tracefs(Errno::NOENT)) } else { Ok(buffers) }
    }
}

impl Tracepoint {
    /// Returns whether an event is of this tracepoint: its number comes first.
    pub(crate) fn is_of(&self, event: &[u8]) -> bool {
        event.get(..2) == Some(&self.id.to_ne_bytes()[..])
    }

    /// An integer field of an event, sign-extended if it is shorter than 8 bytes. `index`: of an array of
    /// 8-byte integers.
    pub(crate) fn integer(&self, event: &[u8], name: &str, index: usize) -> Option<i64> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        let size = if field.size > 8 { 8 } else { field.size };
        let begin = field.offset + index * 8;
        if index > 0 && (index + 1) * 8 > field.size {
            return None;
        }
        let bytes = event.get(begin..begin + size)?;
        Some(match size {
            1 => i64::from(bytes[0]),
            4 => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            8 => i64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }

    /// A field of characters, up to the first NUL.
    pub(crate) fn text<'a>(&self, event: &'a [u8], name: &str) -> Option<&'a str> {
        let field = self.fields.iter().find(|field| field.name == name)?;
        let bytes = event.get(field.offset..field.offset + field.size)?;
        std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
    }
}

/// The fields in a `format` file (Documentation/trace/events.rst): lines such as
/// `field:unsigned long args[6]; offset:16; size:48; signed:0;`.
fn fields(format: &str) -> Vec<Field> {
    let field = |line: &str| {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let name = declaration.rsplit([' ', '*']).next()?.split('[').next()?.to_string();
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.trim().parse().ok();
        Some(Field { name, offset: number("offset:")?, size: number("size:")? })
    };
    format.lines().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTER: &str = "name: sys_enter\nID: 443\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\n\
        print fmt: \"NR %ld\", REC->id\n";

    #[test]
    fn fields_are_where_the_kernel_says() {
        let enter = Tracepoint { id: 443, fields: fields(ENTER) };
        let mut event = vec![0; 64];
        event[4..8].copy_from_slice(&(-7_i32).to_ne_bytes());
        event[8..16].copy_from_slice(&257_i64.to_ne_bytes());
        event[32..40].copy_from_slice(&0x1_0000_i64.to_ne_bytes());
        assert_eq!(enter.integer(&event, "common_pid", 0), Some(-7));
        assert_eq!(
            (enter.integer(&event, "id", 0), enter.integer(&event, "args", 2)),
            (Some(257), Some(0x1_0000))
        );
        assert_eq!(enter.integer(&event, "args", 6), None, "there are six");
        assert_eq!(enter.integer(&event[..20], "args", 2), None, "the event is cut");
        assert_eq!(enter.integer(&event, "ret", 0), None);
        assert!(!enter.is_of(&event));
        event[..2].copy_from_slice(&443_u16.to_ne_bytes());
        assert!(enter.is_of(&event));
    }

    #[test]
    fn characters_end_with_nul() {
        let rwbs = "field:char rwbs[8]; offset:2; size:8; signed:0;";
        let block = Tracepoint { id: 1, fields: fields(rwbs) };
        assert_eq!(block.text(b"..WS\0junk..", "rwbs"), Some("WS"));
    }
}
