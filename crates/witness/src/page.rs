//! Pages of the kernel's trace buffer, as `trace_pipe_raw` delivers them.
//!
//! The layout is that of `struct buffer_data_page` and `struct ring_buffer_event`
//! (include/linux/ring_buffer.h, kernel/trace/ring_buffer.c), which libtraceevent's `kbuffer` reads in the
//! same way: a time stamp, the length of what follows, and events, each with a header of 5 bits of type and
//! 27 bits of time since the previous one.

/// Bytes before the events: the time stamp, and the length with its flags.
const HEADER: usize = 16;
/// The length itself, of which kbuffer uses 27 bits.
const LENGTH: u64 = (1 << 27) - 1;
/// Events were lost before this page...
const MISSED: u64 = 1 << 31;
/// ...and their number follows the last event.
const MISSED_STORED: u64 = 1 << 30;
/// Types above those that are a length.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of time in an event's header.
const TIME_BITS: u32 = 27;
/// Bits of an absolute time stamp that an event has; the rest is that of the page.
const STAMP_BITS: u32 = 59;

/// Calls `each` with the time and the bytes of every event of a page, and returns how many were lost before.
/// Data that cannot be an event ends the page.
pub(crate) fn events(page: &[u8], mut each: impl FnMut(u64, &[u8])) -> u64 {
    let (Some(mut time), Some(length)) = (long(page, 0), long(page, 8)) else { return 0 };
    let bytes = (length & LENGTH) as usize;
    // The flags are above the length.
    let bytes = bytes.min(page.len().saturating_sub(HEADER));
    let lost = match length & (MISSED | MISSED_STORED) {
        0 => 0,
        flags if flags & MISSED_STORED != 0 => long(page, HEADER + bytes).unwrap_or(1),
        _ => 1,
    };
    let data = &page[HEADER..HEADER + bytes];
    let mut at = 0;
    while let Some(header) = word(data, at) {
        let (kind, delta) = (header & 31, u64::from(header >> 5));
        let Some(first) = word(data, at + 4).map(u64::from) else { break };
        match kind {
            // The rest of the page is empty.
            PADDING if delta == 0 => break,
            PADDING => {
                time += delta;
                at += first as usize + 4;
            }
            TIME_EXTEND => {
                time += (first << TIME_BITS) + delta;
                at += 8;
            }
            TIME_STAMP => {
                let stamp = (first << TIME_BITS) + delta;
                time = time >> STAMP_BITS << STAMP_BITS | stamp;
                at += 8;
            }
            _ => {
                time += delta;
                // Short events have their length in words in the type; of others it is the first word, which
                // counts itself.
                let (begin, end) = match kind {
                    0 => (at + 8, at + 4 + first as usize),
                    words => (at + 4, at + 4 + 4 * words as usize),
                };
                let Some(event) = data.get(begin..end) else { break };
                each(time, event);
                at = end;
            }
        }
    }
    lost
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u32, delta: u32) -> [u8; 4] {
        (delta << 5 | kind).to_ne_bytes()
    }

    fn page(time: u64, flags: u64, parts: &[&[u8]], after: &[u8]) -> Vec<u8> {
        let data = parts.concat();
        let length = data.len() as u64 | flags;
        [&time.to_ne_bytes()[..], &length.to_ne_bytes(), &data, after].concat()
    }

    fn read(page: &[u8]) -> (u64, Vec<(u64, Vec<u8>)>) {
        let mut found = Vec::new();
        let lost = events(page, |time, event| found.push((time, event.to_vec())));
        (lost, found)
    }

    #[test]
    fn times_add_up_and_long_events_have_their_length() {
        let short = [&header(2, 5)[..], b"12345678"].concat();
        let extend = [&header(TIME_EXTEND, 3)[..], &1_u32.to_ne_bytes()].concat();
        let long = [&header(0, 7)[..], &12_u32.to_ne_bytes(), b"abcdefgh"].concat();
        let padding = [&header(PADDING, 2)[..], &8_u32.to_ne_bytes(), b"...."].concat();
        let stamp = [&header(TIME_STAMP, 9)[..], &4_u32.to_ne_bytes()].concat();
        let rest = [&header(PADDING, 0)[..], b"never read"].concat();
        let page = page(1000, 0, &[&short, &extend, &long, &padding, &short, &stamp, &short, &rest], b"");
        let after = 1005 + (1 << 27) + 3 + 7;
        let expected = [
            (1005, "12345678"),
            (after, "abcdefgh"),
            (after + 2 + 5, "12345678"),
            ((4 << 27) + 9 + 5, "12345678"),
        ];
        let (lost, found) = read(&page);
        assert_eq!(lost, 0);
        let expected: Vec<_> = expected.map(|(time, text)| (time, text.as_bytes().to_vec())).into();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_was_lost_is_counted() {
        let event = [&header(1, 0)[..], b"1234"].concat();
        assert_eq!(read(&page(0, MISSED, &[&event], b"")).0, 1);
        assert_eq!(read(&page(0, MISSED | MISSED_STORED, &[&event], &77_u64.to_ne_bytes())).0, 77);
    }

    #[test]
    fn a_page_that_is_cut_ends() {
        let event = [&header(3, 1)[..], b"123456781234"].concat();
        let whole = page(0, 0, &[&event, &event], b"");
        for length in 0..whole.len() {
            assert!(read(&whole[..length]).1.len() <= 1);
        }
        let long = [&header(0, 1)[..], &u32::MAX.to_ne_bytes()].concat();
        assert_eq!(read(&page(0, 0, &[&event, &long], b"")).1.len(), 1);
        let endless = [&header(PADDING, 1)[..], &u32::MAX.to_ne_bytes()].concat();
        assert_eq!(read(&page(0, 0, &[&event, &endless], b"")).1.len(), 1);
    }
}
