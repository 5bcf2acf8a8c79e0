//! The plans that come with fsdyno: those of `plans/`, part of the program, so that an installation needs no
//! other file to begin with.

use crate::exit::{Status, Trouble};
use anyhow::anyhow;
use fsdyno_sweep::FLOWS;

/// A plan that comes with fsdyno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadyPlan {
    /// Its name, by which every command that takes a plan knows it.
    pub name: &'static str,
    /// The whole text.
    pub text: &'static str,
}

macro_rules! ready {
    ($($name:literal),+ $(,)?) => {
        /// Those of `plans/` itself, what most users ask first.
        const OWN: &[ReadyPlan] =
            &[$(ReadyPlan { name: $name, text: include_str!(concat!("../../../plans/", $name, ".toml")) }),+];
    };
}

ready![
    "demo",
    "which-filesystem",
    "kernels",
    "durability",
    "durability-guests",
    "raid5-durability",
    "io-errors",
    "fsync-costs",
    "shared-directory",
    "nfs-server",
    "nfs-durability",
    "oetiker-2009",
    "schedulers-2009",
    "streaming-ext4-2008",
    "raid1-2008",
    "xfs-tweaks-2003",
];

/// Every one: those of `plans/`, then the flows.
pub fn all() -> impl Iterator<Item = ReadyPlan> + Clone {
    let flows = FLOWS.iter().map(|flow| ReadyPlan { name: flow.name, text: flow.text });
    OWN.iter().copied().chain(flows)
}

impl ReadyPlan {
    /// The plan of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        all().find(|plan| plan.name == name)
    }

    /// The first line of its header.
    pub fn title(self) -> &'static str {
        self.header().next().unwrap_or_default()
    }

    /// Returns the text of its header under this word, on one line.
    pub fn entry(self, word: &str) -> Option<String> {
        let mut lines = self.header().skip_while(|line| line.split_whitespace().next() != Some(word));
        let first = lines.next()?.strip_prefix(word)?.trim().to_string();
        let indented = lines.take_while(|line| line.starts_with(' '));
        Some(indented.fold(first, |all, line| format!("{all} {}", line.trim())))
    }

    /// The comment at its beginning, without its markers.
    fn header(self) -> impl Iterator<Item = &'static str> {
        let comment = self.text.lines().map_while(|line| line.strip_prefix('#'));
        comment.map(|line| line.strip_prefix(' ').unwrap_or(line))
    }
}

/// The error for a plan that is neither a file nor one of these.
pub fn unknown(name: &str) -> Trouble {
    let error = anyhow!("'{name}' is neither a file nor a plan that comes with fsdyno");
    let hint = match fsdyno_core::nearest(name, all().map(|plan| plan.name)) {
        Some(nearest) => format!("did you mean '{nearest}'? fsdyno plans lists them"),
        None => "fsdyno plans lists those that come with fsdyno".to_string(),
    };
    Trouble::new(Status::Usage, error).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsdyno_sweep::{Plan, nominal_time};

    #[test]
    fn every_plan_of_the_repository_is_here_and_says_what_it_takes() {
        let files = ["/../../plans", "/../../plans/flows"].into_iter().flat_map(|folder| {
            let directory = format!("{}{folder}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_dir(directory).expect("plans/").flatten()
        });
        let mut files: Vec<String> = files
            .filter_map(|file| Some(file.file_name().to_str()?.strip_suffix(".toml")?.to_string()))
            .collect();
        let mut names: Vec<&str> = all().map(|plan| plan.name).collect();
        files.sort();
        names.sort_unstable();
        assert_eq!(names, files);
        for plan in all() {
            assert!(plan.title().ends_with(['.', '?']), "{}: {}", plan.name, plan.title());
        }
    }

    /// The first duration in a text, in seconds, at least and at most: `about 2 hours`, `half an hour`,
    /// `10 to 47 minutes`, `20 minutes for each of 4 to 20 blocks`.
    fn seconds(text: &str) -> Option<[f64; 2]> {
        let words: Vec<&str> = text.split([' ', ':', ';', ',']).collect();
        let unit = |word: &&str| match word.trim_end_matches('s') {
            "second" => Some(1.0),
            "minute" => Some(60.0),
            "hour" => Some(3600.0),
            _ => None,
        };
        let (at, unit) = (0..).zip(&words).find_map(|(at, word)| Some((at, unit(word)?)))?;
        let range = |least: &str, most: &str| Some([least.parse().ok()?, most.parse().ok()?]);
        let [least, most]: [f64; 2] = match words[..at] {
            [.., "half", "an"] => [0.5; 2],
            [.., "a" | "an"] => [1.0; 2],
            [.., least, "to", most] => range(least, most)?,
            [.., number] => range(number, number)?,
            [] => return None,
        };
        let [fewest, all] = match words[at + 1..] {
            ["for", "each", "of", fewest, "to", all, ..] => range(fewest, all)?,
            _ => [1.0; 2],
        };
        Some([least * unit * fewest, most * unit * all])
    }

    fn assert_is_estimated(what: &str, text: &str, plan: &Plan) {
        let stated = seconds(text).unwrap_or_else(|| panic!("{what} does not say how long it takes: {text}"));
        let least = nominal_time(plan).as_secs_f64();
        // A plan that decides itself says how long it takes at most.
        let most = match plan.enough.filter(|enough| enough.is_auto()) {
            Some(enough) => least * f64::from(enough.max) / f64::from(plan.repetitions),
            None => least,
        };
        for (stated, estimate) in stated.into_iter().zip([least, most]) {
            let factor = (stated / estimate).max(estimate / stated);
            assert!(factor <= 1.5, "{what} says {stated} s, and is estimated at {estimate:.0} s");
        }
    }

    #[test]
    fn every_plan_takes_as_long_as_it_says() {
        for plan in all() {
            let parsed = Plan::parse(plan.text, &format!("{}.toml", plan.name), &[]).expect("a plan");
            assert_is_estimated(plan.name, &plan.entry("Takes").unwrap_or_default(), &parsed);
        }
    }

    /// README and the first hour begin with the same plan, and say how long it takes.
    #[test]
    fn there_is_one_first_plan_and_it_takes_as_long_as_the_pages_say() {
        let page = |name: &str| {
            let path = format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read_to_string(path).expect("a page")
        };
        let pages = ["README.md", "docs/start.md"].map(|name| (name, page(name)));
        let plans = pages.each_ref().map(|(name, text)| {
            let plan = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
            plan.unwrap_or_else(|| panic!("{name} has no plan"))
        });
        assert_eq!(plans[0], plans[1]);
        let plan = Plan::parse(plans[0], "first.toml", &[]).expect("a plan");
        for (name, text) in &pages {
            let line = text.lines().find(|line| line.contains("fsdyno sweep first.toml")).expect("a command");
            assert_is_estimated(name, line, &plan);
        }
    }

    #[test]
    fn an_entry_ends_where_the_next_begins() {
        let demo = ReadyPlan::named("demo").expect("the demo");
        let takes = "about 4 minutes on 2 cores; up to 4 GiB in /var/tmp, released at the end";
        assert_eq!(demo.entry("Takes").as_deref(), Some(takes));
        assert_eq!(demo.entry("Costs"), None);
    }
}
