//! The meaning of a column's heading: what is counted, in which unit, and whether it distinguishes runs.
//!
//! Units are recognised as people write them: `rate (MB/s)`, `rate(MB/sec)`, `rate [MB/s]`, `rate_mb_s`,
//! `MiB/s [last]`, `p99_us`, `RuntimeMS`. Only a unit in parentheses or brackets is certain. One that is a
//! word of the name may be that of a setting (`commit_s`), which the words next to it and the cells decide.

use super::number::Style;
use fsdyno_core::measure::{Column, Direction, MeasureError, PrintedUnit};

/// The parts of a heading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Heading<'a> {
    /// As written.
    pub(super) text: &'a str,
    /// Without the unit in parentheses or brackets.
    pub(super) name: &'a str,
    unit: Declared<'a>,
}

/// The unit that a heading declares for its column.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Declared<'a> {
    Nothing,
    /// The text in parentheses or brackets.
    Enclosed(&'a str),
    /// A word of the name.
    InName(&'static str),
}

/// Headings of columns that distinguish runs of the same configuration.
const RUNS: [&str; 14] = [
    "run",
    "iter",
    "iteration",
    "rep",
    "repeat",
    "repetition",
    "replicate",
    "trial",
    "sample",
    "round",
    "pass",
    "attempt",
    "block",
    "#",
];
/// Words that may follow these: `run no`, `trial_id`.
const NUMBERS: [&str; 7] = ["no", "nr", "num", "number", "id", "idx", "index"];
/// When something was measured.
const MOMENTS: [&str; 7] = ["timestamp", "date", "datetime", "epoch", "started", "finished", "when"];
/// Words at the end of a heading that say of which kind a figure is.
const STATISTICS: [&str; 16] = [
    "avg", "average", "mean", "median", "min", "minimum", "max", "maximum", "stddev", "stdev", "std", "dev",
    "first", "last", "total", "sum",
];
/// Words of how much a figure varies, at the end of a heading.
const SPREADS: [&str; 18] = [
    "stddev",
    "stdev",
    "std",
    "sd",
    "stderr",
    "sem",
    "dev",
    "deviation",
    "variance",
    "var",
    "cv",
    "rsd",
    "ci",
    "ci95",
    "error",
    "err",
    "margin",
    "sigma",
];
/// Those of them that alone may mean something else: a device, a variable, a C library.
const AMBIGUOUS: [&str; 3] = ["dev", "var", "std"];
/// Headings of what was done.
const WORK: [&str; 10] =
    ["test", "benchmark", "bench", "operation", "op", "job", "jobname", "scenario", "query", "testcase"];
/// Words of what is measured.
const MEASURED: [&str; 17] = [
    "lat",
    "latency",
    "throughput",
    "bandwidth",
    "bw",
    "iops",
    "tps",
    "qps",
    "elapsed",
    "duration",
    "done",
    "score",
    "clat",
    "slat",
    "stall",
    "util",
    "utilization",
];
/// Words of what is measured or set.
const EITHER: [&str; 7] = ["time", "runtime", "rate", "speed", "cpu", "ops", "result"];
/// Words of what is set, even in a unit.
const SET: [&str; 14] = [
    "target",
    "limit",
    "cap",
    "offered",
    "requested",
    "throttle",
    "interval",
    "timeout",
    "commit",
    "delay",
    "expire",
    "period",
    "ramp",
    "window",
];

impl<'a> Heading<'a> {
    pub(super) fn new(text: &'a str) -> Heading<'a> {
        let text = text.trim();
        let enclosed = [('(', ')'), ('[', ']')].into_iter().find_map(|(open, close)| {
            let (name, inside) = text.strip_suffix(close)?.rsplit_once(open)?;
            (!name.trim().is_empty()).then(|| (name.trim(), inside.trim()))
        });
        let of_name = |name| unit_in(name).map_or(Declared::Nothing, Declared::InName);
        let (name, unit) = match enclosed {
            None => (text, of_name(text)),
            // `MiB/s [last]`, `entries [first]`.
            Some((name, inside)) if is_statistic(inside) || text.ends_with(']') && unknown(inside) => {
                (text, of_name(name))
            }
            Some((name, inside)) => (name, Declared::Enclosed(inside)),
        };
        Heading { text, name, unit }
    }

    /// Returns whether a user who writes this name means that column, with or without its unit.
    pub(super) fn is_named(&self, name: &str) -> bool {
        [self.text, self.name].contains(&name.trim())
    }

    /// The unit in parentheses, if nothing says which way is better for it.
    pub(super) fn unknown_unit(&self) -> Option<&'a str> {
        match self.unit {
            Declared::Enclosed(inside) if unknown(inside) => Some(inside),
            _ => None,
        }
    }

    /// The column of figures, if its unit says which way is better.
    pub(super) fn own_column(&self) -> Option<Column> {
        let column = match self.unit {
            Declared::Nothing => return None,
            Declared::Enclosed(inside) => Column::new(&format!("{} ({inside})", self.name), None, None),
            Declared::InName(symbol) => Column::new(&self.without_parentheses(), Some(symbol), None),
        };
        column.ok()
    }

    /// The column of figures that options describe where the heading does not.
    pub(super) fn column(
        &self,
        unit: Option<&str>,
        better: Option<Direction>,
    ) -> Result<Column, MeasureError> {
        match (self.own_column(), self.unit) {
            (Some(column), _) => Ok(column),
            (None, Declared::Enclosed(inside)) => Column::new(self.name, unit.or(Some(inside)), better),
            (None, _) => Column::new(&self.without_parentheses(), unit, better),
        }
    }

    /// `lat (avg)` as `lat [avg]`: in the name of a measure, parentheses enclose its unit.
    fn without_parentheses(&self) -> String {
        self.name.replace('(', "[").replace(')', "]")
    }

    /// Returns whether the unit of the column is in parentheses or brackets, and says which way is better.
    pub(super) fn is_certain(&self) -> bool {
        matches!(self.unit, Declared::Enclosed(_)) && self.own_column().is_some()
    }

    /// Returns whether the name of the column ends in the unit of a rate.
    pub(super) fn is_rate(&self) -> bool {
        self.own_column().is_some_and(|column| column.measure.direction() == Direction::HigherIsBetter)
    }

    /// Returns whether the column is a time, for which less is better, by its words.
    pub(super) fn is_latency(&self) -> bool {
        words(self.name).iter().any(|word| ["lat", "latency", "clat", "slat", "stall"].contains(&&**word))
    }

    /// Returns whether the column distinguishes runs of one configuration.
    pub(super) fn is_run(&self) -> bool {
        if self.text.trim() == "#" {
            return true;
        }
        let mut words = words(self.name);
        words.retain(|word| !NUMBERS.contains(&&**word));
        matches!(&words[..], [only] if RUNS.contains(&&**only))
    }

    /// Returns whether the column says what was done.
    pub(super) fn is_work(&self) -> bool {
        let words = words(self.text);
        let named: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "name").collect();
        matches!(named[..], [only] if WORK.contains(&only))
    }

    /// Returns whether the column says how much a figure varies.
    pub(super) fn is_spread(&self, cells: &[&str]) -> bool {
        let is_number = |cell: &&str| {
            let number = cell.trim_start_matches(['\u{b1}', '+', '-', '/']).trim_end_matches('%').trim();
            number.replace(',', ".").parse::<f64>().is_ok()
        };
        let filled = || cells.iter().filter(|cell| !cell.is_empty());
        let of_name = words(self.name);
        let bracketed = self.text.strip_prefix(self.name).map(words).unwrap_or_default();
        let is_last = |words: &[String]| words.last().is_some_and(|last| SPREADS.contains(&last.as_str()));
        let is_alone = matches!(&of_name[..], [only] if AMBIGUOUS.contains(&only.as_str()));
        // `rate_stddev_mb_s`
        let in_middle = || {
            let unit = matches!(self.unit, Declared::InName(_));
            unit && of_name.iter().skip(1).any(|word| SPREADS[..2].contains(&word.as_str()))
        };
        let says_so = (is_last(&of_name) && !is_alone) || is_last(&bracketed) || in_middle();
        says_so && filled().next().is_some() && filled().all(is_number)
    }

    /// Returns whether the column says when something was measured.
    pub(super) fn is_moment(&self) -> bool {
        words(self.name).iter().any(|word| MOMENTS.contains(&&**word))
    }

    /// Returns whether the column has figures rather than a setting, although no parentheses say so.
    pub(super) fn is_measured(&self, cells: &[&str], style: Style) -> bool {
        let filled: Vec<&str> = cells.iter().copied().filter(|cell| !cell.is_empty()).collect();
        if filled.is_empty() || !filled.iter().all(|cell| style.parse(cell).is_some()) {
            return false;
        }
        let mut levels = filled.clone();
        levels.sort_unstable();
        levels.dedup();
        // The levels of a setting come back.
        let varies = levels.len() > 2 && levels.len() * 2 > filled.len();
        let words = words(self.name);
        let has = |known: &[&str]| words.iter().any(|word| known.contains(&&**word));
        let is_certain = self.is_rate()
            || has(&MEASURED)
            || words.iter().any(|word| is_percentile(word))
            || words.last().is_some_and(|last| is_statistic(last));
        let may_be = has(&EITHER) || matches!(self.unit, Declared::InName(_));
        // A level of three digits and a fraction, such as 1234.5, is hardly ever set.
        let exact = filled.iter().filter(|cell| is_exact(cell)).count() * 2 > filled.len();
        if has(&SET) { false } else { is_certain || ((may_be || exact) && varies) }
    }
}

/// Returns whether a number has a fraction and at least three digits that count.
fn is_exact(cell: &str) -> bool {
    let digits: String = cell.chars().filter(char::is_ascii_digit).collect();
    cell.contains(['.', ',']) && digits.trim_start_matches('0').trim_end_matches('0').len() >= 3
}

/// Returns whether the text in parentheses is neither a known unit with a direction nor a direction.
fn unknown(inside: &str) -> bool {
    Column::new(&format!("a ({inside})"), None, None).is_err()
}

fn is_statistic(text: &str) -> bool {
    STATISTICS.contains(&text.trim().to_lowercase().as_str())
}

/// The words of a name in lower case: `RunNo`, `run_no` and `Run No.` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let is_camel = before.is_lowercase() && letter.is_uppercase();
        if (is_camel || !letter.is_alphanumeric()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn is_percentile(word: &str) -> bool {
    word.strip_prefix(['p', 'P']).is_some_and(|rest| rest.parse::<f64>().is_ok())
}

/// The symbol of the unit that the last words of a name are, before those that say which statistic it is:
/// `lat_us_avg`.
fn unit_in(name: &str) -> Option<&'static str> {
    let spelled = |text: &str| PrintedUnit::spelled(text).map(|(symbol, _)| symbol);
    // `MB / s`
    let name = &name.split('/').map(str::trim).collect::<Vec<_>>().join("/");
    if name.len() > 1 && name.ends_with('%') {
        return spelled("%");
    }
    let mut parts: Vec<&str> = name.split([' ', '_', '-', ':']).filter(|part| !part.is_empty()).collect();
    while parts.len() > 1 && parts.last().is_some_and(|last| is_statistic(last) || is_percentile(last)) {
        parts.pop();
    }
    let of_rate = |amount: &str| spelled(&format!("{amount}/s")).filter(|_| !amount.is_empty());
    let is_second = |word: &str| spelled(word) == Some(PrintedUnit::Seconds.symbol());
    match parts[..] {
        // `mb_per_s`, `mb_s`
        [.., amount, "per", second] if is_second(second) => return of_rate(amount),
        [.., amount, second] if is_second(second) && of_rate(amount).is_some() => return of_rate(amount),
        _ => {}
    }
    let (last, rest) = parts.split_last()?;
    // `k IOPS`, `1000 IOPS`
    if rest.last().is_some_and(|before| is_multiple(before)) {
        return None;
    }
    // Alone, `s` is no unit.
    let whole = spelled(last).filter(|_| !rest.is_empty() || last.len() > 1);
    // `RuntimeMS`
    let joined = || {
        let letters = last.char_indices().zip(last.chars().skip(1));
        let begins = letters.filter(|((_, a), b)| a.is_lowercase() && b.is_uppercase()).last();
        let at = begins.map(|((at, letter), _)| at + letter.len_utf8());
        // `kIOPS` and `TiB/s` are not IOPS and B/s.
        at.filter(|at| !is_multiple(&last[..*at])).and_then(|at| spelled(&last[at..]))
    };
    whole.or_else(joined)
}

/// Returns whether a word multiplies the unit after it: a prefix such as `k` or `Mi`, or a number.
fn is_multiple(word: &str) -> bool {
    let digits = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let prefix = word.strip_suffix(['i', 'I']).unwrap_or(word);
    digits(word) || (prefix.len() == 1 && "kKmMgGtTpPeE".contains(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_wherever_people_write_it() {
        for (text, measure) in [
            ("throughput (MB/sec)", Some("throughput (MB/s)")),
            ("throughput(MB/s)", Some("throughput (MB/s)")),
            ("throughput [KB/s]", Some("throughput (KB/s)")),
            ("latency (usec)", Some("latency (us)")),
            ("latency (\u{b5}s)", Some("latency (us)")),
            ("energy (J, less)", Some("energy (J, less)")),
            ("read_iops", Some("read_iops (IOPS)")),
            ("lat_us_avg", Some("lat_us_avg (us)")),
            ("bw_mb_per_sec", Some("bw_mb_per_sec (MB/s)")),
            ("write_mb_s", Some("write_mb_s (MB/s)")),
            ("p99_s", Some("p99_s (s)")),
            ("MiB/s [last]", Some("MiB/s [last] (MiB/s)")),
            ("IO lat us [max]", Some("IO lat us [max] (us)")),
            ("RuntimeMS", Some("RuntimeMS (ms)")),
            ("IOPS", Some("IOPS (IOPS)")),
            ("CPU% [first]", None),
            ("Zeit\u{e9}MS", Some("Zeit\u{e9}MS (ms)")),
            ("status", None),
            ("fs", None),
            ("s", None),
            ("block_size", None),
            ("bw_mbps", None),
            ("x MB / s", Some("x MB / s (MB/s)")),
            ("errors / s", None),
            ("kIOPS", None),
            ("read_k_iops", None),
            ("1000 IOPS", None),
            ("TiB/s", None),
            ("MiOps/s", None),
            ("throughput", None),
        ] {
            let column = Heading::new(text).own_column();
            assert_eq!(column.as_ref().map(|column| column.measure.name()), measure, "{text}");
        }
        assert_eq!(Heading::new("deliveries (mails/s)").unknown_unit(), Some("mails/s"));
        assert_eq!(Heading::new("entries [first]").unknown_unit(), None);
    }

    #[test]
    fn columns_that_tell_runs_apart_are_known_in_any_spelling() {
        for text in [
            "run",
            "Run",
            "RUN",
            "run #",
            "run#",
            "#run",
            "Run No.",
            "run_id",
            "RunNumber",
            "iter",
            "Iteration",
            "iteration (n)",
            "rep",
            "Rep.",
            "trial",
            "sample",
            "round",
            "pass",
            "attempt",
            "#",
            "block",
            "repetition",
            "run (#)",
        ] {
            assert!(Heading::new(text).is_run(), "{text}");
        }
        for text in ["runtime", "block size", "sample_size", "runs", "passes", "filesystem", "round robin"] {
            assert!(!Heading::new(text).is_run(), "{text}");
        }
    }

    #[test]
    fn figures_are_distinguished_from_settings() {
        let is_measured = |text, cells: &[&str]| Heading::new(text).is_measured(cells, Style::Point);
        for (text, cells) in [
            ("write_iops", &["0", "0", "43.04", "0"][..]),
            ("latency_ms", &["1", "1"]),
            ("p99", &["2.5"]),
            ("MiB [first]", &["7460", "7460"]),
            ("clat_mean", &["130", "", "131"]),
            ("runtime_s", &["30.1", "29.8", "31.5", "30.3"]),
            ("cpu", &["12.1", "13.9", "12.8"]),
        ] {
            assert!(is_measured(text, cells), "{text}");
        }
        for (text, cells) in [
            ("iodepth", &["1", "2", "4", "8"][..]),
            ("commit_s", &["5", "30", "5", "30"]),
            ("timeout_ms", &["1", "2", "3", "4"]),
            ("runtime_s", &["60", "60", "60", "60"]),
            ("target_iops", &["1000", "2000", "1000", "2000"]),
            ("latency", &["low", "high"]),
            ("cpu", &["1", "2", "1", "2"]),
        ] {
            assert!(!is_measured(text, cells), "{text}");
        }
    }
}
