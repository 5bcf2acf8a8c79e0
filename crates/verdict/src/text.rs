//! Numbers for people: three significant digits, a unit, and `>=` for lower bounds.

use crate::merge::Time;
use fsdyno_core::measure::{Measure, PrintedUnit, Unit};
use fsdyno_core::result::{Quiet, Steadiness};
use fsdyno_core::{Bytes, Nanos};
use std::collections::BTreeSet;

/// A time for a table: `812ns`, `4.61us`, `46.1ms`, `>=30.0s`. Bounds are rounded down, so that they stay
/// bounds.
pub fn time(time: Time) -> String {
    let (number, unit) = scaled(time);
    format!("{number}{unit}")
}

/// The same for a sentence, with a space: `46.1 ms`, `>= 30.0 s`.
pub fn time_in_words(time: Time) -> String {
    let (number, unit) = scaled(time);
    format!("{} {unit}", number.replace(">=", ">= "))
}

/// The number of a trial or block as shown to people, counted from 1. Machine-readable formats count from 0.
pub fn nth(number: u32) -> u32 {
    number.saturating_add(1)
}

/// A list of trial numbers for people: `1, 3, 4`.
pub fn numbers(trials: impl IntoIterator<Item = u32>) -> String {
    trials.into_iter().map(|trial| nth(trial).to_string()).collect::<Vec<_>>().join(", ")
}

fn scaled(time: Time) -> (String, &'static str) {
    let prefix = if time.at_least { ">=" } else { "" };
    if time.ns < 1000 {
        return (format!("{prefix}{}", time.ns), PrintedUnit::Nanoseconds.symbol());
    }
    let ns = time.ns as f64;
    // The first unit in which the rounded number has at most three digits before the point.
    let fits = |unit: &PrintedUnit| ns / unit.factor() < 999.5;
    let unit = PrintedUnit::TIMES.into_iter().find(fits).unwrap_or(PrintedUnit::Seconds);
    let value = ns / unit.factor();
    let decimals = decimals(value);
    let rounded = if time.at_least {
        let power = 10f64.powi(i32::try_from(decimals).unwrap_or(0));
        (value * power + 1e-9).floor() / power
    } else {
        value
    };
    (format!("{prefix}{rounded:.decimals$}"), unit.symbol())
}

/// A duration in the two largest units that matter, for people who wait: `2m 5s`.
pub fn human(duration: Nanos) -> String {
    let seconds = duration.0.div_ceil(1_000_000_000);
    Nanos::from_secs(if seconds >= 3600 { seconds / 60 * 60 } else { seconds }).to_string()
}

/// Returns the text on ramps that waited for the load to be steady, each with its length; `None` without any.
pub fn steadiness(ramps: &[(Nanos, Steadiness)]) -> Option<String> {
    let (least, most) =
        (ramps.iter().map(|(ramp, _)| *ramp).min()?, ramps.iter().map(|(ramp, _)| *ramp).max()?);
    let time = |ramp: Nanos| time_in_words(Time { ns: ramp.0, at_least: false });
    let length = if least == most { time(least) } else { format!("{} to {}", time(least), time(most)) };
    let steady = ramps.iter().filter(|(_, steady)| steady.reached).count();
    Some(match (steady, ramps.len()) {
        (1, 1) => format!("steady after {length} of ramp"),
        (0, 1) => format!("not steady after {length} of ramp"),
        (steady, all) if steady == all => format!("steady in all {all} trials, after {length} of ramp"),
        (steady, all) => format!("steady in {steady} of {all} trials, after {length} of ramp"),
    })
}

/// Returns the text on waiting for a calm device before a phase; `None` if no trial waited.
pub fn quiet(waits: &[Quiet]) -> Option<String> {
    let longest = waits.iter().map(|quiet| quiet.waited_ns).max()?;
    let longest = time_in_words(Time { ns: longest.0, at_least: false });
    let reached = waits.iter().filter(|quiet| quiet.reached).count();
    Some(match (reached, waits.len()) {
        (1, 1) => format!("the device was calm after {longest}"),
        (0, 1) => format!("the device was not calm after {longest}"),
        (reached, all) if reached == all => format!("the device was calm after {longest} at most"),
        (reached, all) => {
            format!("the device was calm in {reached} of {all} trials, after {longest} at most")
        }
    })
}

/// `began with copies of what trials 1 and 9 had prepared`.
pub fn prepared_in(trials: &BTreeSet<u32>) -> Option<String> {
    let numbers: Vec<String> = trials.iter().map(|trial| nth(*trial).to_string()).collect();
    let (last, before) = numbers.split_last()?;
    Some(match before {
        [] => format!("began with a copy of what trial {last} had prepared"),
        _ => format!("began with copies of what trials {} and {last} had prepared", before.join(", ")),
    })
}

/// A duration as it was set, not rounded: `30 s`, `500 ms`, `1.5 s`.
pub fn setting(duration: Nanos) -> String {
    match duration.0 {
        ns if ns >= 1_000_000_000 => format!("{} s", ns as f64 / 1e9),
        ns => format!("{} ms", ns as f64 / 1e6),
    }
}

/// The window of a phase: as it was set, or how long the work took, rounded: `30 s`, `2.13 s`. A window of 0
/// is unknown: an external program reported no time, or, if it reported no rate either, the work was too
/// short for it.
pub fn window(duration: Nanos, has_rates: bool) -> String {
    match duration.0 {
        0 if has_rates => "time not reported".to_string(),
        0 => "too short for the program to report".to_string(),
        ns if ns.is_multiple_of(1_000_000) => setting(duration),
        ns => time_in_words(Time { ns, at_least: false }),
    }
}

/// Three significant digits, no unit: `522`, `57.5`, `4.20`, `0.313`.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let decimals = decimals(value.abs());
    format!("{value:.decimals$}")
}

/// Decimals that give three significant digits, at most four.
fn decimals(value: f64) -> usize {
    match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        v if v >= 0.09995 => 3,
        _ => 4,
    }
}

/// A value of a measure without its unit, except that times include theirs.
pub fn measured(unit: Unit, value: f64, at_least: bool) -> String {
    if unit == Unit::Nanoseconds {
        return time(Time { ns: value.round() as u64, at_least });
    }
    format!("{}{}", if at_least { ">=" } else { "" }, number(unit.shown(value)))
}

/// A value of a measure with its unit, for a sentence.
pub fn quantity(measure: &Measure, value: f64, at_least: bool) -> String {
    match measure.unit() {
        Unit::Nanoseconds => time_in_words(Time { ns: value.round() as u64, at_least }),
        unit => format!("{} {}", measured(unit, value, at_least), unit.symbol()),
    }
}

/// A rate in MB/s (10^6 bytes), without the unit.
pub fn megabytes_per_s(bytes_per_s: f64) -> String {
    number(bytes_per_s / 1e6)
}

/// A time that something took, as a person would say it: in minutes from an hour on, else in seconds, or
/// tenths of them below ten.
pub fn rough(time: Nanos) -> String {
    const SECOND: u64 = 1_000_000_000;
    let step = match time.0 / SECOND {
        0..10 => SECOND / 10,
        10..3600 => SECOND,
        _ => 60 * SECOND,
    };
    Nanos(time.0.saturating_add(step / 2) / step * step).to_string()
}

/// A size for a sentence, base 1024: `512 B`, `152 MiB`, `1.31 GiB`.
pub fn size(bytes: Bytes) -> String {
    let units = [("TiB", Bytes::GIB << 10), ("GiB", Bytes::GIB), ("MiB", Bytes::MIB), ("KiB", Bytes::KIB)];
    // The first unit in which the rounded number is at least 1.
    let found = units.into_iter().find(|(_, unit)| bytes.0 as f64 / *unit as f64 >= 0.9995);
    match found {
        None => format!("{} B", bytes.0),
        Some((name, unit)) if bytes.0.is_multiple_of(unit) => format!("{} {name}", bytes.0 / unit),
        Some((name, unit)) => format!("{} {name}", number(bytes.0 as f64 / unit as f64)),
    }
}

/// A share as a percentage: `0 %`, `0.4 %`, `66.7 %`.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".to_string(),
        tiny if tiny < 0.05 => "<0.1 %".to_string(),
        hundredths => format!("{hundredths:.1} %"),
    }
}

/// A share that something is at most, never rounded down: `64 %`, `4.9 %`, `0.1 %`.
pub fn at_most(share: f64) -> String {
    bound(share.min(1.0))
}

/// The same of a difference, which may be more than all of it: `4.9 %`, `240 %`.
pub fn bound(difference: f64) -> String {
    match (difference * 100.0).max(0.0) {
        hundredths if hundredths >= 10.0 => format!("{:.0} %", (hundredths - 1e-9).ceil()),
        hundredths => format!("{:.1} %", ((hundredths * 10.0 - 1e-9).ceil() / 10.0).max(0.1)),
    }
}

/// Returns the name of the intervals of means over these numbers of trials: only from 6 on do they have the
/// coverage of a 95 % interval, and with 2 to 4 they are no more than the range of the trials.
pub fn interval_name(trials: impl IntoIterator<Item = usize>) -> &'static str {
    let (mut fewest, mut most) = (usize::MAX, 0);
    for count in trials.into_iter().filter(|count| *count > 1) {
        (fewest, most) = (fewest.min(count), most.max(count));
    }
    match (fewest, most) {
        (6.., _) => "95 % interval",
        (_, ..=4) => "range",
        _ => "interval",
    }
}

/// A count with its thousands separated: `43,200`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the text that follows the number of clients.
pub fn whose_trees(shared: bool) -> &'static str {
    if shared { ", which read the same trees" } else { "" }
}

/// `1 reader`, `3 readers`; `readers` if it is not known how many there were, which is 0.
pub fn workers(count: u32, role: &str) -> String {
    if count == 0 { format!("{role}s") } else { plural(count.into(), role) }
}

/// `1 trial`, `3 trials`.
pub fn plural(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// The first few names, and how many more there are.
pub fn several(names: &[String]) -> String {
    match names.len() {
        0..=4 => names.join(", "),
        more => format!("{} and {} more", names[..3].join(", "), more - 3),
    }
}

/// `a, b and c`.
pub(crate) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A share as a percentage with as few decimals as it has, at most one: `5 %`.
pub(crate) fn hundredths(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(ns: u64) -> String {
        time(Time { ns, at_least: false })
    }

    #[test]
    fn times_keep_three_digits_and_the_nearest_unit() {
        for (ns, text) in [
            (0, "0ns"),
            (812, "812ns"),
            (4_610, "4.61us"),
            (9_996, "10.0us"),
            (46_100, "46.1us"),
            (999_400, "999us"),
            (999_600, "1.00ms"),
            (78_354_000, "78.4ms"),
            (19_592_233_000, "19.6s"),
            (3_600_000_000_000, "3600s"),
        ] {
            assert_eq!(exact(ns), text);
        }
    }

    #[test]
    fn a_lower_bound_is_never_rounded_up() {
        assert_eq!(time(Time { ns: 30_099_000_000, at_least: true }), ">=30.0s");
        assert_eq!(time(Time { ns: 30_000_000_000, at_least: true }), ">=30.0s");
        assert_eq!(time_in_words(Time { ns: 30_000_000_000, at_least: true }), ">= 30.0 s");
    }

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (522.051, "522"),
            (57.529, "57.5"),
            (4.203, "4.20"),
            (0.3127, "0.313"),
            (9.999, "10.0"),
            (0.0, "0"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn sizes_are_exact_where_short() {
        for (bytes, text) in
            [(512, "512 B"), (8 << 30, "8 GiB"), ((1 << 30) + (319 << 20), "1.31 GiB"), (1 << 20, "1 MiB")]
        {
            assert_eq!(size(Bytes(bytes)), text);
        }
    }

    #[test]
    fn ramps_say_whether_the_load_was_steady() {
        let ramp = |seconds, reached| {
            (Nanos::from_secs(seconds), Steadiness { reached, rounds: 5, excursion: None })
        };
        assert_eq!(steadiness(&[]), None);
        for (ramps, expected) in [
            (vec![ramp(12, true)], "steady after 12.0 s of ramp"),
            (vec![ramp(60, false)], "not steady after 60.0 s of ramp"),
            (vec![ramp(12, true), ramp(20, true)], "steady in all 2 trials, after 12.0 s to 20.0 s of ramp"),
            (
                vec![ramp(60, false), ramp(20, true)],
                "steady in 1 of 2 trials, after 20.0 s to 60.0 s of ramp",
            ),
        ] {
            assert_eq!(steadiness(&ramps).unwrap(), expected);
        }
    }

    #[test]
    fn settings_and_shares() {
        assert_eq!(setting(Nanos::from_secs(30)), "30 s");
        assert_eq!(setting(Nanos::from_millis(1500)), "1.5 s");
        assert_eq!(setting(Nanos::from_millis(500)), "500 ms");
        assert_eq!(window(Nanos::from_millis(1500), true), "1.5 s");
        assert_eq!(window(Nanos(2_126_254_077), true), "2.13 s");
        assert_eq!(window(Nanos(0), true), "time not reported");
        assert_eq!(window(Nanos(0), false), "too short for the program to report");
        assert_eq!(percent(0.0001), "<0.1 %");
        assert_eq!(percent(2.0 / 3.0), "66.7 %");
        assert_eq!(
            [1.0, 0.6316, 0.0487, 0.01, 1e-9].map(at_most),
            ["100 %", "64 %", "4.9 %", "1.0 %", "0.1 %"]
        );
        assert_eq!(plural(1, "trial"), "1 trial");
        assert_eq!(
            [0, 999, 1000, 43_200, 1_234_567].map(count),
            ["0", "999", "1,000", "43,200", "1,234,567"]
        );
        let names = [vec![2, 2], vec![4, 1], vec![5], vec![3, 12], vec![6, 12]].map(interval_name);
        assert_eq!(names, ["range", "range", "interval", "interval", "95 % interval"]);
    }
}
