//! The results of a task as a table.

use crate::task::{LARGE, Task, Tool};
use crate::tools::Cost;
use std::fmt::Write as _;

/// The median and its 95 % interval: the order statistics between which it lies with at least that
/// probability.
fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let mut rank = 0;
    // Probability that at most `rank` of n fair coins fall on one side.
    let mut term = 0.5_f64.powi(n as i32);
    let mut tail = term;
    while tail <= 0.025 {
        rank += 1;
        term *= (n - rank + 1) as f64 / rank as f64;
        tail += term;
    }
    let low = rank.saturating_sub(1);
    let middle = (values[(n - 1) / 2] + values[n / 2]) / 2.0;
    (middle, values[low], values[n - 1 - low])
}

pub fn table(out: &mut String, task: Task, rounds: &[Vec<Cost>]) {
    let tools = task.usable();
    let large = task.block >= LARGE;
    let (unit, cpu_unit) = if large { ("GB/s", "CPU us per MiB") } else { ("1000/s", "CPU ns per I/O") };
    writeln!(out, "\n{}, {} interleaved rounds of {}", task.name, rounds.len(), task.count).unwrap();
    writeln!(
        out,
        "{:<8} {unit:>10} {cpu_unit:>15}   {:<38} {:<20}",
        "", "fsdyno's rate over its rate", "fsdyno's CPU over its"
    )
    .unwrap();
    for (index, tool) in tools.iter().enumerate() {
        let column = |of: &dyn Fn(&[Cost]) -> f64| median(rounds.iter().map(|round| of(round)).collect());
        let rate = |cost: &Cost| match large {
            true => (task.count * task.block) as f64 / cost.seconds / 1e9,
            false => task.count as f64 / cost.seconds / 1e3,
        };
        let scale = if large { 1e6 } else { 1e9 };
        let cpu = column(&|round| round[index].cpu_seconds * scale / task.count as f64).0;
        write!(out, "{:<8} {:>10.1} {cpu:>15.0}", tool.name(), column(&|round| rate(&round[index])).0)
            .unwrap();
        if *tool != Tool::Fsdyno {
            let ratio = column(&|round| round[index].seconds / round[0].seconds);
            let aim = task.aims.iter().find(|(of, _)| of == tool).map(|(_, aim)| *aim);
            let (aim, verdict) = verdict(aim, ratio);
            let cpu = column(&|round| round[0].cpu_seconds / round[index].cpu_seconds);
            let rates = format!("{:.3} ({:.3}-{:.3}){aim}{verdict}", ratio.0, ratio.1, ratio.2);
            write!(out, "   {rates:<38} {:.3} ({:.3}-{:.3})", cpu.0, cpu.1, cpu.2).unwrap();
        }
        writeln!(out).unwrap();
    }
    for (name, group, aim) in task.aims_at_best {
        let members = tools.iter().enumerate().filter(|(_, tool)| group.contains(tool));
        let ratios = members.map(|(index, tool)| {
            let ratios = rounds.iter().map(|round| round[index].seconds / round[0].seconds);
            (median(ratios.collect()), tool.name())
        });
        let Some((ratio, tool)) = ratios.min_by(|one, other| one.0.0.total_cmp(&other.0.0)) else { continue };
        let (aim, verdict) = verdict(Some(*aim), ratio);
        let (middle, low, high) = ratio;
        writeln!(out, "{name} is {tool}: {middle:.3} ({low:.3}-{high:.3}){aim}{verdict}").unwrap();
    }
}

/// Below this share of an aim, a median is not noise, however wide its interval.
const NEAR: f64 = 0.95;

/// The aim and the result: missed if the whole interval is below it. If only the median is below, it is
/// within noise if it is near, and otherwise unclear.
fn verdict(aim: Option<f64>, (middle, _, high): (f64, f64, f64)) -> (String, &'static str) {
    let Some(aim) = aim else { return Default::default() };
    let verdict = match () {
        () if middle >= aim => "reached",
        () if high < aim => "MISSED",
        () if middle >= aim * NEAR => "within noise",
        () => "UNCLEAR",
    };
    (format!(" aim {aim}: "), verdict)
}
