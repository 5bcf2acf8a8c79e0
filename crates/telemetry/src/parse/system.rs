//! Files about the machine as a whole.

use super::{Parsed, number_of, numbers_of};
use fsdyno_core::telemetry::{CpuSplit, Memory, Stalls};

/// A line of `/proc/diskstats` (Documentation/ABI/testing/procfs-diskstats).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Major and minor number.
    pub number: (u32, u32),
    /// Reads completed, merged, their sectors, their milliseconds.
    pub reads: RequestCounters,
    /// The same for writes.
    pub writes: RequestCounters,
    /// The same for discards; zeros before Linux 4.18.
    pub discards: RequestCounters,
    /// Flushes completed; zeros before Linux 5.5. They have neither merges nor sectors.
    pub flushes: RequestCounters,
    /// Milliseconds with a request in flight.
    pub busy_ms: u32,
    /// Milliseconds in flight of all requests.
    pub queued_ms: u32,
}

/// Requests of one direction. The kernel prints milliseconds in 32 bits, and they wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounters {
    /// Completed.
    pub completed: u64,
    /// Merged into another before they were issued.
    pub merged: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Their total time.
    pub time_ms: u32,
}

/// The lines of the requested devices in `/proc/diskstats`, in the order of the request.
pub fn disks(text: &str, wanted: &[String]) -> Parsed<Vec<Option<DiskCounters>>> {
    let mut parsed = Parsed { value: vec![None; wanted.len()], unparsed: 0 };
    for line in text.lines() {
        match disk(line) {
            Some((name, counters)) => {
                for (_, value) in wanted.iter().zip(&mut parsed.value).filter(|(wanted, _)| *wanted == name) {
                    *value = Some(counters);
                }
            }
            None => parsed.unparsed += 1,
        }
    }
    parsed
}

fn disk(line: &str) -> Option<(&str, DiskCounters)> {
    let mut words = line.split_ascii_whitespace();
    let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let name = words.next()?;
    let mut numbers = [0_u64; 17];
    let mut count = 0;
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = word.parse().ok()?;
        count += 1;
    }
    // 11 since Linux 2.6, 15 with discards, 17 with flushes; future kernels may add more.
    if !matches!(count, 11 | 15 | 17) {
        return None;
    }
    let requests = |from: usize| RequestCounters {
        completed: numbers[from],
        merged: numbers[from + 1],
        sectors: numbers[from + 2],
        time_ms: numbers[from + 3] as u32,
    };
    let counters = DiskCounters {
        number,
        reads: requests(0),
        writes: requests(4),
        busy_ms: numbers[9] as u32,
        queued_ms: numbers[10] as u32,
        discards: requests(11),
        flushes: RequestCounters {
            completed: numbers[15],
            time_ms: numbers[16] as u32,
            ..RequestCounters::default()
        },
    };
    Some((name, counters))
}

/// The first line of `/proc/stat`, and the number of processors. `tick_ns`: the clock tick in which it
/// counts.
pub fn cpu_time(text: &str, tick_ns: u64) -> Parsed<(Option<CpuSplit>, u32)> {
    let ticks = numbers_of(text, "cpu").filter(|numbers| numbers.len() >= 8);
    let time = ticks.map(|ticks| {
        let time = |index: usize| ticks[index].saturating_mul(tick_ns);
        CpuSplit {
            user_ns: time(0),
            nice_ns: time(1),
            system_ns: time(2),
            idle_ns: time(3),
            iowait_ns: time(4),
            irq_ns: time(5),
            softirq_ns: time(6),
            steal_ns: time(7),
        }
    });
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let processors = text.lines().filter(is_processor).count() as u32;
    Parsed { value: (time, processors), unparsed: time.is_none().into() }
}

/// `/proc/meminfo`.
pub fn memory(text: &str) -> Parsed<Option<Memory>> {
    let bytes = |word| Some(number_of(text, word)? * 1024);
    let memory = || {
        let (dirty_bytes, writeback_bytes) = (bytes("Dirty")?, bytes("Writeback")?);
        Some(Memory {
            dirty_bytes,
            dirty_bytes_max: dirty_bytes,
            writeback_bytes,
            writeback_bytes_max: writeback_bytes,
            cached_bytes: bytes("Cached")?,
            available_bytes: bytes("MemAvailable")?,
        })
    };
    let value = memory();
    Parsed { value, unparsed: value.is_none().into() }
}

/// A file of `/proc/pressure`. Before Linux 5.13, that for processors has no line `full`.
pub fn stalls(text: &str) -> Parsed<Option<Stalls>> {
    let total_ns = |word: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '))?;
        let total = line.split_whitespace().find_map(|part| part.strip_prefix("total="))?;
        total.parse::<u64>().ok()?.checked_mul(1000)
    };
    let value =
        total_ns("some").map(|some_ns| Stalls { some_ns, full_ns: total_ns("full").unwrap_or_default() });
    Parsed { value, unparsed: value.is_none().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DISKSTATS: &str = "\
   7       0 loop0 4104058 84580 265493962 1802919 1283894 5275452 601793417 23156754 1 1794668 24982370 \
   6148 0 9302430568 1198 50187 21497
   7       4 loop4 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 5693318 1291280 542051721 3725096 1168723 975365 447191887 1817463 0 735544 5705633 687664 \
 23 542927320 157324 77645 5748
";

    #[test]
    fn requested_disks_are_found_in_the_order_of_the_request() {
        let wanted = ["vda".to_string(), "sda".to_string(), "loop0".to_string()];
        let Parsed { value, unparsed } = disks(DISKSTATS, &wanted);
        assert_eq!(unparsed, 0);
        let [Some(vda), None, Some(loop0)] = value[..] else { panic!("{value:?}") };
        assert_eq!(vda.number, (254, 0));
        let reads = RequestCounters {
            completed: 5_693_318,
            merged: 1_291_280,
            sectors: 542_051_721,
            time_ms: 3_725_096,
        };
        assert_eq!(vda.reads, reads);
        assert_eq!((loop0.busy_ms, loop0.queued_ms), (1_794_668, 24_982_370));
        assert_eq!((loop0.discards.sectors, loop0.discards.time_ms), (9_302_430_568, 1198));
        assert_eq!((loop0.flushes.completed, loop0.flushes.time_ms), (50187, 21497));
    }

    #[test]
    fn older_kernels_report_neither_discards_nor_flushes() {
        let line = "   8       0 sda 10 1 80 5 20 2 160 9 0 12 14\n";
        let Parsed { value, unparsed } = disks(line, &["sda".to_string()]);
        assert_eq!(unparsed, 0);
        let sda = value[0].expect("a disk");
        assert_eq!((sda.writes.completed, sda.queued_ms), (20, 14));
        assert_eq!(sda.discards, RequestCounters::default());
    }

    #[test]
    fn an_unparsed_line_is_counted() {
        let text = format!("{DISKSTATS}   8  0 sda 1 2 three\n");
        let Parsed { value, unparsed } = disks(&text, &["sda".to_string(), "vda".to_string()]);
        assert_eq!((value[0], unparsed), (None, 1));
        assert!(value[1].is_some());
        for text in ["", "cpu  1 2 3\n", "cpu0 1 2 3 4 5 6 7 8 9 10\n", "cpu a b c d e f g h\n"] {
            assert_eq!(cpu_time(text, 1).unparsed, 1, "{text:?}");
        }
        assert_eq!(memory("Dirty: many kB\n").unparsed, 1);
        assert_eq!(stalls("some avg10=0.00\n").unparsed, 1);
    }

    #[test]
    fn processor_time_is_in_nanoseconds() {
        let text = "cpu  992054 1155 481402 757153 65616 7 7393 1333 0 0\n\
                    cpu0 492439 20 229260 397770 32083 0 946 700 0 0\n\
                    cpu1 499614 1134 252142 359382 33533 0 6447 632 0 0\n\
                    intr 25440317 0 0\nctxt 93278287\n";
        let (time, processors) = cpu_time(text, 10_000_000).value;
        let time = time.expect("a first line");
        assert_eq!(processors, 2);
        assert_eq!((time.user_ns, time.nice_ns), (9_920_540_000_000, 11_550_000_000));
        assert_eq!((time.idle_ns, time.iowait_ns), (7_571_530_000_000, 656_160_000_000));
        assert_eq!(
            (time.irq_ns, time.softirq_ns, time.steal_ns),
            (70_000_000, 73_930_000_000, 13_330_000_000)
        );
    }

    #[test]
    fn writeback_is_distinguished_from_writeback_tmp() {
        let text = "MemTotal:       24684092 kB\nMemFree:        24190180 kB\nMemAvailable:   24072212 kB\n\
                    Buffers:            2336 kB\nCached:           119428 kB\nSwapCached:            7 kB\n\
                    Dirty:               380 kB\nWriteback:             4 kB\nWritebackTmp:          9 kB\n";
        let memory = memory(text).value.expect("memory");
        assert_eq!((memory.dirty_bytes, memory.writeback_bytes), (380 << 10, 4 << 10));
        assert_eq!((memory.cached_bytes, memory.available_bytes), (119_428 << 10, 24_072_212 << 10));
    }

    #[test]
    fn pressure_of_older_kernels_has_one_line_for_the_processors() {
        let text = "some avg10=11.77 avg60=7.39 avg300=4.82 total=1039274447\n\
                    full avg10=9.59 avg60=5.87 avg300=4.02 total=434276977\n";
        let both = Stalls { some_ns: 1_039_274_447_000, full_ns: 434_276_977_000 };
        assert_eq!(stalls(text).value, Some(both));
        let first = text.lines().next().expect("a line");
        assert_eq!(stalls(first).value, Some(Stalls { full_ns: 0, ..both }));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "(cpu|Dirty|some|   7 0 loop0)?[ 0-9a-z:=\n]{0,80}") {
            let _ = (disks(&text, &["loop0".to_string()]), cpu_time(&text, u64::MAX), memory(&text), stalls(&text));
        }
    }
}
