//! Plans from the whole grammar, as a stranger might write them: every key, mostly with values that it takes,
//! now and then with one that is meant to do harm.

use super::machine::{ALIAS, DISKS};
use super::words::{
    HOSTILE, HOSTILE_MKFS, HOSTILE_MOUNT, HOSTILE_SYSCTLS, HUGE, IMAGES, KNOWN_SYSCTLS, MKFS, MOUNT, SIZES,
    TIMES,
};
use fsdyno_core::axis::{AXES, Axis, Levels, OF_SERVING};
use fsdyno_core::filesystem;
use fsdyno_core::workload::parameter::Listed;
use fsdyno_core::{Measure, Workload};
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;
use std::fmt;

/// A plan in parts, so that one that fails can be made smaller.
#[derive(Debug, Clone)]
pub struct Draft {
    /// Each with its heading first; the heading of the first is empty.
    pub tables: Vec<Vec<String>>,
}

impl fmt::Display for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tables.iter().flatten().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Draft {
    /// Every plan that is this one without a table or a line.
    pub fn smaller(&self) -> Vec<Draft> {
        let tables = self.tables.len();
        let without_table = (1..tables).map(|table| {
            let mut draft = self.clone();
            draft.tables.remove(table);
            draft
        });
        let lines =
            (0..tables).flat_map(|table| (1..self.tables[table].len()).map(move |line| (table, line)));
        let without_line = lines.map(|(table, line)| {
            let mut draft = self.clone();
            draft.tables[table].remove(line);
            draft
        });
        without_table.chain(without_line).collect()
    }
}

/// A generator of plans.
pub struct Grammar<'a> {
    random: &'a mut Xoshiro256PlusPlus,
    /// The share of values that are meant to do harm.
    malice: f64,
}

impl<'a> Grammar<'a> {
    pub fn new(random: &'a mut Xoshiro256PlusPlus) -> Self {
        // Where everything is meant to do harm, nothing gets further than the parser.
        let malice = *[0.0, 0.0, 0.02, 0.1].choose(random).expect("a list");
        Grammar { random, malice }
    }

    /// Any plan.
    pub fn plan(&mut self) -> Draft {
        let device = self.device();
        let is_directory = device.iter().flatten().any(|line| line.starts_with("directory"));
        let mut tables = vec![self.head()];
        tables.extend(device);
        if !is_directory || self.is(0.05) {
            tables.extend(self.axes());
            for number in 0..self.count(&[0, 0, 0, 1, 2]) {
                tables.push(self.configuration(number));
            }
        }
        for _ in 0..self.count(&[1, 1, 1, 2]) {
            tables.push(self.workload());
        }
        if self.is(0.1) {
            tables.push(self.guest());
        }
        Draft { tables }
    }

    fn is(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    /// A value as it is, or one that is meant to do harm.
    fn bare<'t>(&mut self, known: &[&'t str], hostile: &[&'t str]) -> &'t str {
        let malicious = self.malice > 0.0 && self.is(self.malice);
        self.one(if malicious { hostile } else { known })
    }

    fn count(&mut self, among: &[usize]) -> usize {
        *among.choose(self.random).expect("a list")
    }

    fn one<'t>(&mut self, among: &[&'t str]) -> &'t str {
        among.choose(self.random).expect("a list")
    }

    /// A string that a key takes, or one that is meant to do harm.
    fn text(&mut self, known: &[&str], hostile: &[&str]) -> String {
        let malicious = self.malice > 0.0 && self.is(self.malice);
        if malicious && self.is(0.1) {
            return quoted(&"x".repeat(self.count(&[256, 4096, 70_000])));
        }
        quoted(self.one(if malicious { hostile } else { known }))
    }

    /// A key with a value of its own, sometimes one of another type.
    fn pair(&mut self, key: &str, known: &[&str], hostile: &[&str]) -> String {
        let malicious = self.malice > 0.0 && self.is(self.malice / 4.0);
        if malicious {
            let other =
                self.one(&["true", "-9223372036854775808", "1e308", "[]", "{}", "1979-05-27", "[[0]]"]);
            return format!("{key} = {other}");
        }
        format!("{key} = {}", self.text(known, hostile))
    }

    fn head(&mut self) -> Vec<String> {
        // An engine that hangs is waited for as long as the plan says: never longer than this, here.
        let mut table = vec![String::new(), "watchdog = \"20ms\"".to_string()];
        if self.is(0.5) {
            table.push(self.pair("name", &["night", "a b", "ä"], HOSTILE));
        }
        if self.is(0.3) {
            let known = ["1", "2", "{ min = 2, max = 3, until = \"5%\" }"];
            let repetitions = self.bare(&known, &["0", "100001", "-1", "{ min = 9, max = 1 }"]);
            table.push(format!("repetitions = {repetitions}"));
        }
        if self.is(0.3) {
            let seed = self.bare(&["0", "7", "18446744073709551615"], &["-1", "1.5", "{}"]);
            table.push(format!("seed = {seed}"));
        }
        if self.is(0.2) {
            let measures: Vec<&str> = Measure::named().map(|(name, _)| name).collect();
            table.push(self.pair("measure", &measures, HOSTILE));
        }
        if self.is(0.5) {
            table.push("telemetry = false".to_string());
        }
        table
    }

    /// `[device]`, with its journals.
    fn device(&mut self) -> Vec<Vec<String>> {
        let mut table = vec!["[device]".to_string()];
        match self.random.random_range(0..100) {
            0..50 => table.extend(self.disk(true)),
            50..70 => table.extend(self.disk(false)),
            70..80 => {
                let known = ["/data", "/data/deep"];
                table.push(self.pair("directory", &known, HOSTILE));
            }
            80..90 => {
                let level = self.text(&["raid0", "raid1", "raid5", "raid6", "raid10"], HOSTILE);
                table.push(format!("md = {{ level = {level}, disks = {} }}", self.disks()));
            }
            90..95 => table.push(format!("pool = {{ disks = {} }}", self.disks())),
            _ => {
                let stripes = self.bare(&["1", "2"], &["3", "0", "4294967296"]);
                table.push(format!("lvm = {{ stripes = {stripes}, disks = {} }}", self.disks()));
            }
        }
        let mut tables = vec![table];
        if self.is(0.3) {
            let mut journals = vec!["[device.journals]".to_string()];
            for name in ["disk", "side"].into_iter().take(self.count(&[1, 1, 2])) {
                let is_image = self.is(0.7);
                let disk = self.disk(is_image).join(", ").replace("/scratch", &format!("/{name}"));
                journals.push(format!("{name} = {{ {disk} }}"));
            }
            tables.push(journals);
        }
        tables
    }

    /// A disk as the lines of its table.
    fn disk(&mut self, image: bool) -> Vec<String> {
        let mut lines = Vec::new();
        if image {
            lines.push(self.pair("image", IMAGES, HOSTILE));
            lines.push(self.pair("size", &["512M", "1G", "4G"], HUGE));
            if self.is(0.2) {
                lines.push("direct_io = false".to_string());
            }
        } else {
            let disks = [DISKS, &[ALIAS]].concat();
            lines.push(self.pair("block", &disks, HOSTILE));
            if self.is(0.1) {
                lines.push(self.pair("identity", &["FAKE1"], HOSTILE));
            }
        }
        if self.is(0.1) {
            lines.push(self.pair("delay", &["1ms", "20ms"], HUGE));
        }
        lines
    }

    fn disks(&mut self) -> String {
        if self.is(0.4) {
            let count = self.bare(&["2", "4"], &["27", "-1"]);
            return format!("{{ {}, count = {count} }}", self.disk(true).join(", "));
        }
        let number = self.count(&[2, 2, 3, 4]);
        let mut disks = Vec::new();
        for index in 0..number {
            let is_image = self.is(0.6);
            let disk = self.disk(is_image).join(", ").replace(".img", &format!("{index}.img"));
            disks.push(format!("{{ {} }}", disk.replace(DISKS[0], DISKS[index % DISKS.len()])));
        }
        format!("[{}]", disks.join(", "))
    }

    /// `[axes]`, and those of some filesystems.
    fn axes(&mut self) -> Vec<Vec<String>> {
        let mut general = vec!["[axes]".to_string()];
        let number = self.count(&[1, 1, 2, 3]);
        let usual = ["ext4", "xfs", "btrfs", "ext2", "ext3"];
        let names: Vec<String> = (0..number)
            .map(|_| {
                if self.is(0.8) {
                    self.text(&usual, HOSTILE)
                } else {
                    self.text(&filesystem::names().collect::<Vec<_>>(), HOSTILE)
                }
            })
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        general.push(format!("filesystem = [{}]", names.join(", ")));
        let everywhere = |axis: &Axis| axis.general && !OF_SERVING.contains(&axis.name);
        let few = self.count(&[0, 1, 2, 3]);
        general.extend(self.settings(few, everywhere, true));
        let mut tables = vec![general];
        if self.is(0.3) {
            let filesystem = self.one(&usual);
            let mut nested = vec![format!("[axes.{filesystem}]")];
            let few = self.count(&[1, 2]);
            nested.extend(self.settings(few, |axis| axis.applies_to(filesystem), true));
            tables.push(nested);
        }
        tables
    }

    fn configuration(&mut self, number: usize) -> Vec<String> {
        let mut table = vec!["[[configurations]]".to_string()];
        table.push(self.pair("name", &[["tuned", "plain"][number % 2]], HOSTILE));
        table.push(self.pair("filesystem", &["ext4", "xfs", "btrfs", "ext3"], HOSTILE));
        if self.is(0.1) {
            table.push(self.pair("impossible", &["no tool knows it"], HOSTILE));
        }
        let few = self.count(&[0, 1, 2, 4]);
        table.extend(self.settings(few, |_| true, false));
        table
    }

    /// Some of these axes, and sysctls.
    fn settings(&mut self, number: usize, wanted: impl Fn(&Axis) -> bool, several: bool) -> Vec<String> {
        let axes: Vec<&Axis> = AXES.iter().filter(|axis| axis.name != "filesystem" && wanted(axis)).collect();
        let chosen: Vec<&Axis> = axes.sample(self.random, number).copied().collect();
        let mut lines = Vec::new();
        for axis in chosen {
            let levels: Vec<String> =
                (0..if several { self.count(&[1, 1, 2]) } else { 1 }).map(|_| self.level(axis)).collect();
            let levels: Vec<String> = levels.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            let value = if several { format!("[{}]", levels.join(", ")) } else { levels[0].clone() };
            lines.push(format!("{} = {value}", axis.name));
        }
        if self.is(0.25) {
            let hostile = self.is(0.15);
            let key = self.one(if hostile { HOSTILE_SYSCTLS } else { KNOWN_SYSCTLS });
            let value = self.text(&["1", "10", "1048576"], HOSTILE);
            lines.push(format!("{} = {value}", quoted(&format!("sysctl.{key}"))));
        }
        lines
    }

    fn level(&mut self, axis: &Axis) -> String {
        let hostile = self.is(0.15);
        let words = |number: usize, words: &[&'static str], random: &mut Xoshiro256PlusPlus, by: &str| {
            words.sample(random, number).copied().collect::<Vec<_>>().join(by)
        };
        match (axis.name, axis.levels) {
            ("mkfs", _) => {
                let list = if hostile { HOSTILE_MKFS } else { MKFS };
                let number = self.count(&[1, 1, 2]);
                quoted(&words(number, list, self.random, " "))
            }
            ("mount", _) => {
                let list = if hostile { HOSTILE_MOUNT } else { MOUNT };
                let number = self.count(&[1, 1, 2]);
                quoted(&words(number, list, self.random, ","))
            }
            (_, Levels::Filesystem) => self.text(&filesystem::names().collect::<Vec<_>>(), HOSTILE),
            (_, Levels::Words(known)) => self.text(known, HOSTILE),
            (_, Levels::Compression) => self.text(&["no", "zlib", "lzo", "zstd", "zstd:3"], HOSTILE),
            (_, Levels::Size) => self.text(SIZES, HUGE),
            (_, Levels::Count) => self.text(&["2", "4", "8", "64", "128"], HUGE),
            (_, Levels::Seconds) => self.text(&["1", "5", "30"], HUGE),
            (_, Levels::Percent) => self.text(&["1%", "50%", "95%"], HUGE),
            (_, Levels::Switch) => self.text(&["0", "1", "on"], HOSTILE),
            (_, Levels::Journal) => {
                self.text(&["internal", "none", "external", "external:disk", "external:side"], HOSTILE)
            }
            (_, Levels::Kernel) => self.text(&["host", "host", "debian:6.1"], HOSTILE),
            (_, Levels::Text | Levels::Sysctl) => self.text(&["1"], HOSTILE),
        }
    }

    /// A workload of any kind, with some of its parameters.
    fn workload(&mut self) -> Vec<String> {
        let kind = if self.is(0.6) { "null" } else { self.one(Workload::KINDS) };
        let mut table = vec!["[[workloads]]".to_string(), format!("kind = {}", quoted(kind))];
        let workload = Workload::of_kind(kind).expect("a kind");
        let parameters: Vec<Listed> = workload.list();
        if parameters.iter().any(|parameter| parameter.name == "tree_size") {
            table.push("tree_size = \"16M\"".to_string());
        }
        let number = self.count(&[0, 0, 1, 2, 3]);
        let chosen: Vec<&Listed> = parameters.sample(self.random, number).collect();
        for parameter in chosen.into_iter().filter(|parameter| parameter.name != "tree_size") {
            let known = [parameter.value.as_str()];
            let known = if parameter.value.is_empty() { TIMES } else { &known };
            table.push(match parameter.value.parse::<f64>() {
                Ok(number) if !self.is(self.malice) => format!("{} = {number}", parameter.name),
                _ if parameter.value == "true" || parameter.value == "false" => {
                    format!("{} = {}", parameter.name, parameter.value)
                }
                _ => self.pair(parameter.name, known, HOSTILE),
            });
        }
        table
    }

    fn guest(&mut self) -> Vec<String> {
        let mut table = vec!["[guest]".to_string()];
        let processors = self.bare(&["1", "2"], &["0", "256"]);
        table.push(format!("processors = {processors}"));
        table.push(self.pair("memory", &["256M", "1G"], HUGE));
        table
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}
