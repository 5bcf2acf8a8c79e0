//! Parameters of `postmark` (NetApp, 1997-2001; version 1.5), and its commands.

use super::measures::{Figure, OwnFigure, OwnMeasure};
use super::parameter::{
    Literal, Parameter, ParameterError, Refusal, Shorthand, ShorthandError, Surroundings, parameters,
};
use super::steps::{PhaseSpec, steps, up_to};
use super::{Content, Load, Timing};
use crate::operation::{Operation, Role};
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

parameters! {
    /// A pool of small files, transactions on it, and its removal. Sizes in bytes.
    Postmark {
        number: u32 = 500, "number of files created at the start; the pool has room for twice as many, at 12 \
            bytes of memory each";
        size: SizeRange = SizeRange { low: Bytes(500), high: Bytes(10_000) }, "sizes of new files: \
            `500-10000` (from 500 to just below 10000, which appending never exceeds), or one size for all";
        transactions: u32 = 500, "number of transactions; each reads or appends to a file, and creates or \
            deletes one";
        read: Bytes = Bytes(512), "block size for reading; with `buffering` this is the size requested from \
            the buffer, not from the kernel";
        write: Bytes = Bytes(512), "block size for writing, likewise";
        bias_read: i32 = 5, "how many of 10 transactions read (the others append); -1: neither";
        bias_create: i32 = 5, "how many of 10 transactions create a file (the others delete one); -1: \
            neither";
        subdirectories: u32 = 0, "number of directories to spread the files over; with 0 or 1 there are no \
            subdirectories";
        seed: u32 = 42, "seed for the original's random number generator: the same seed gives the same files \
            in the same order";
        buffering: bool = true, "`true`: make the system calls of C's buffered streams, with `lseek` before \
            appending and `fstat` for the buffer size; `false`: one call per block";
        content: Content = Content::Random, "`\"random\"`, `\"zeros\"` or `{ compressible = 0.5 }`";
        verify: bool = false, "`true`: compare every byte that is read with what was written, and at the end, \
            after unmounting and mounting, look whether every removed file is gone; a wrong byte fails the \
            trial";
    }
}

steps! {
    /// Transactions. The steps of the creator come first.
    transaction {
        CREATE = Create,
        FSTAT = Fstat,
        WRITE = Write,
        CLOSE = Close,
        OPENAT = Openat,
        READ = Read,
        OPEN_APPEND = OpenAppend,
        LSEEK = Lseek,
        UNLINKAT = Unlinkat,
    }
    /// Removing the pool.
    removal { UNLINKAT = Unlinkat }
}

/// The pool is created.
pub const CREATE: PhaseSpec =
    PhaseSpec { name: "create", role: Role::Creator, steps: up_to(transaction::STEPS, transaction::CLOSE) };
/// Transactions are performed on it.
pub const TRANSACTIONS: PhaseSpec =
    PhaseSpec { name: "transactions", role: Role::Transactor, steps: transaction::STEPS };
/// It is removed.
pub const DELETE: PhaseSpec = PhaseSpec { name: "delete", role: Role::Deleter, steps: removal::STEPS };

/// Sizes of files, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest.
    pub low: Bytes,
    /// The largest.
    pub high: Bytes,
}

impl Parameter for SizeRange {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let size = |literal: &Literal| Bytes::read(literal, surroundings);
        let part = |text: &str| size(&Literal::Text(text.trim().to_string()));
        let (low, high) = match literal {
            Literal::Text(text) => match text.split_once('-') {
                Some((low, high)) => (part(low)?, part(high)?),
                None => (part(text)?, part(text)?),
            },
            Literal::Array(ends) => match &ends[..] {
                [low, high] => (size(low)?, size(high)?),
                _ => return Err(ParameterError::Expected("two sizes, the smaller one first".to_string())),
            },
            one => (size(one)?, size(one)?),
        };
        Ok(SizeRange { low, high })
    }

    fn written(&self) -> String {
        match (self.low, self.high) {
            (low, high) if low == high => low.to_string(),
            (low, high) => format!("{low}-{high}"),
        }
    }
}

/// The maximum number of initial files: the table of the pool then takes 2.4 GB.
const MAX_NUMBER: u32 = 100_000_000;
/// The original computes twice the largest size in 31 bits.
const MAX_SIZE: Bytes = Bytes(Bytes::GIB - 1);
const MAX_SUBDIRECTORIES: u32 = 1_000_000;
const MAX_INT: u32 = i32::MAX as u32;

impl Postmark {
    /// Mean size of a new file in bytes.
    pub(crate) fn mean_size(&self) -> u64 {
        self.size.low.0.midpoint(self.size.high.0)
    }
}

/// The minimum memory of the engine for a file: its number, directory and size.
const BYTES_PER_FILE: u64 = 24;

impl Load for Postmark {
    fn check(&self) -> Result<(), Refusal> {
        let whole = |parameter, value: u32, low: u32, high: u32| {
            let expected = format!("a whole number from {low} to {high}");
            Refusal::unless((low..=high).contains(&value), parameter, expected)
        };
        whole("number", self.number, 1, MAX_NUMBER)?;
        whole("transactions", self.transactions, 1, MAX_INT)?;
        whole("subdirectories", self.subdirectories, 0, MAX_SUBDIRECTORIES)?;
        whole("seed", self.seed, 1, MAX_INT)?;
        let SizeRange { low, high } = self.size;
        let ordered = Bytes(1) <= low && low <= high && high <= MAX_SIZE;
        Refusal::unless(ordered, "size", "a size from 1 to below 1G, or two sizes, the smaller one first")?;
        super::check_io_size("read", self.read, false)?;
        super::check_io_size("write", self.write, false)?;
        for (parameter, bias) in [("bias_read", self.bias_read), ("bias_create", self.bias_create)] {
            Refusal::unless((-1..=10).contains(&bias), parameter, "a whole number from -1 to 10")?;
        }
        super::check_content(&self.content)?;
        super::check_verify(self.verify, &self.content)
    }

    fn verifies(&self) -> bool {
        self.verify
    }

    fn in_words(&self) -> Vec<String> {
        super::verified_and_gone_in_words(self.verify)
    }

    fn without_effect(&self) -> Vec<(&'static [&'static str], &'static str)> {
        super::unmet_needs([(
            self.bias_read > 0,
            &["read"][..],
            "transactions that read: `bias_read` above 0",
        )])
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        let most = u64::from(self.number).saturating_add(u64::from(self.number.min(self.transactions)));
        Bytes(most.saturating_mul(self.size.high.0))
    }

    /// Files of the mean size: the largest one is rare.
    fn least_space(&self) -> Bytes {
        Bytes(u64::from(self.number).saturating_mul(self.mean_size()))
    }

    fn moves(&self) -> Bytes {
        let files = u64::from(self.number) + 2 * u64::from(self.transactions);
        Bytes(files.saturating_mul(self.mean_size()))
    }

    fn memory(&self) -> Bytes {
        Bytes(u64::from(self.number).saturating_mul(BYTES_PER_FILE))
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }

    fn title(&self) -> String {
        format!(
            "postmark on {} of {} bytes, {}",
            super::plural(self.number, "file"),
            self.size.written(),
            super::plural(self.transactions, "transaction")
        )
    }

    fn short_runs(&self) -> &'static [&'static str] {
        &["number = 1000\ntransactions = 2000"]
    }

    fn default_measure(&self) -> &'static str {
        "postmark-tps"
    }

    fn measures(&self) -> Vec<OwnMeasure> {
        vec![
            OwnMeasure::of_phase(
                "postmark-tps",
                "postmark transactions per second of the transaction phase",
                TRANSACTIONS,
                Figure::ItemRate,
            ),
            OwnMeasure::of_phase(
                "postmark-create",
                "files per second that postmark creates before the transactions",
                CREATE,
                Figure::ItemRate,
            ),
            OwnMeasure::of_phase(
                "postmark-delete",
                "files per second that postmark deletes after the transactions",
                DELETE,
                Figure::ItemRate,
            ),
            OwnMeasure::new(
                "postmark-read",
                "bytes that postmark read per second of the whole run",
                OwnFigure::CountRate("bytes read"),
            ),
            OwnMeasure::new(
                "postmark-write",
                "bytes that postmark wrote per second of the whole run",
                OwnFigure::CountRate("bytes written"),
            ),
        ]
    }

    fn throughput(&self) -> &'static str {
        "postmark-tps"
    }

    fn latency(&self) -> Option<String> {
        Some(TRANSACTIONS.p999(Operation::Create))
    }

    fn shorthand(&self) -> Option<Shorthand> {
        Some(Shorthand {
            name: "commands",
            help: "postmark commands instead of the keys below, as a list or one per line: `[\"set size 500 \
                10000\", \"set number 1000\", \"run\"]`",
            read: commands,
        })
    }
}

type Setting = (&'static str, Literal);

/// The settings of the original's `set`, and the parameters behind them.
const SETS: &[(&str, &str)] = &[
    ("size", "size"),
    ("number", "number"),
    ("seed", "seed"),
    ("transactions", "transactions"),
    ("subdirectories", "subdirectories"),
    ("read", "read"),
    ("write", "write"),
    ("buffering", "buffering"),
    ("bias read", "bias_read"),
    ("bias create", "bias_create"),
];

/// Commands that do not affect the single run.
const WITHOUT_EFFECT: &[&str] = &["show", "help", "quit", "exit"];

fn commands(text: &str) -> Result<Vec<Setting>, ShorthandError> {
    let mut found = Vec::new();
    let mut over = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [command, ..] if WITHOUT_EFFECT.contains(&command) => {}
            _ if over => {
                let reason = "'run' is the last command, because a workload is one run; add another workload \
                    for a second run";
                return Err(ShorthandError::Refused { word: words.join(" "), reason });
            }
            ["run"] => over = true,
            ["set", ref rest @ ..] => found.push(set(rest)?),
            _ => {
                let known = ["set", "run"].iter().chain(WITHOUT_EFFECT).copied();
                return Err(unknown("command", words.join(" "), known));
            }
        }
    }
    Ok(found)
}

fn unknown(what: &'static str, word: String, known: impl Iterator<Item = &'static str>) -> ShorthandError {
    let nearest = crate::nearest(&word, known);
    ShorthandError::UnknownWord { what, word, nearest }
}

/// `size 500 10000`, `bias read 7`.
fn set(words: &[&str]) -> Result<Setting, ShorthandError> {
    let phrase = words.join(" ");
    let found = SETS.iter().find_map(|(name, parameter)| {
        let value = phrase.strip_prefix(name)?;
        (value.is_empty() || value.starts_with(' ')).then(|| (*name, *parameter, value.trim()))
    });
    let Some((name, parameter, value)) = found else {
        if let ["location" | "report", ..] = words {
            let reason = "fsdyno chooses the directory and reports the results itself";
            return Err(ShorthandError::Refused { word: format!("set {}", words[0]), reason });
        }
        let length = if words.first() == Some(&"bias") { 2 } else { 1 };
        let word = words.iter().take(length).copied().collect::<Vec<_>>().join(" ");
        return Err(unknown("setting", word, SETS.iter().map(|(name, _)| *name)));
    };
    let number = |text: &str| text.parse::<i128>().map(Literal::Integer).ok();
    let numbers: Option<Vec<Literal>> = value.split_whitespace().map(number).collect();
    let literal = match (name, value, numbers.as_deref()) {
        ("buffering", "true" | "false", _) => Some(Literal::Boolean(value == "true")),
        ("buffering", ..) => None,
        ("size", _, Some([low, high])) => Some(Literal::Array(vec![low.clone(), high.clone()])),
        (_, _, Some([one])) => Some(one.clone()),
        _ => None,
    };
    let expected = match name {
        "buffering" => "true or false",
        "size" => "one or two numbers",
        _ => "a whole number",
    };
    let found = (!value.is_empty()).then(|| value.to_string());
    let refused = || ShorthandError::Value { word: format!("set {name}"), expected, found };
    literal.map(|literal| (parameter, literal)).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parameter::{Nowhere, Parameters};

    fn after(text: &str) -> Postmark {
        let mut postmark = Postmark::default();
        for (name, literal) in commands(text).unwrap() {
            postmark.set(name, &literal, &Nowhere).unwrap();
        }
        postmark
    }

    #[test]
    fn commands_of_the_original_are_understood() {
        let postmark = after(
            "set size 500 100000\nset number 20000\n set  bias read 7\nset bias create -1\n\n\
             set buffering false\nrun\nquit\n",
        );
        let expected = Postmark {
            size: SizeRange { low: Bytes(500), high: Bytes(100_000) },
            number: 20_000,
            bias_read: 7,
            bias_create: -1,
            buffering: false,
            ..Postmark::default()
        };
        assert_eq!(postmark, expected);
        assert_eq!(after("set size 4096").size, SizeRange { low: Bytes(4096), high: Bytes(4096) });
    }

    #[test]
    fn what_the_original_would_ignore_is_refused() {
        for (text, error) in [
            ("set nmber 20", "unknown setting 'nmber'; did you mean 'number'?"),
            ("set bias rad 20", "unknown setting 'bias rad'; did you mean 'bias read'?"),
            ("go", "unknown command 'go'"),
            ("set number", "'set number' takes a whole number, but no value is given"),
            ("set number many", "'set number' takes a whole number, not 'many'"),
            ("set size 1 2 3", "'set size' takes one or two numbers, not '1 2 3'"),
            ("set buffering yes", "'set buffering' takes true or false, not 'yes'"),
            ("set location /mnt", "'set location' is not supported: fsdyno chooses the directory"),
            ("run\nset seed 1\nrun", "'set seed 1' is not supported: 'run' is the last command"),
        ] {
            let refused = commands(text).unwrap_err().to_string();
            assert!(refused.starts_with(error), "{refused}");
        }
    }

    #[test]
    fn sizes_are_one_or_two() {
        let read = |literal| SizeRange::read(&literal, &Nowhere);
        let range = |low, high| Ok(SizeRange { low: Bytes(low), high: Bytes(high) });
        assert_eq!(read(Literal::Text("500-10000".into())), range(500, 10_000));
        assert_eq!(read(Literal::Text("4k - 1M".into())), range(4096, 1 << 20));
        assert_eq!(read(Literal::Integer(700)), range(700, 700));
        assert_eq!(read(Literal::Array(vec![Literal::Integer(1), Literal::Integer(2)])), range(1, 2));
        assert!(read(Literal::Array(vec![Literal::Integer(1)])).is_err());
        assert!(read(Literal::Text("500-".into())).is_err());
    }

    #[test]
    fn impossible_parameters_are_refused() {
        let refused = |parameters: Postmark| parameters.check().unwrap_err().parameter;
        let good = Postmark::default;
        let size = |low, high| SizeRange { low: Bytes(low), high: Bytes(high) };
        assert_eq!(refused(Postmark { number: 0, ..good() }), "number");
        assert_eq!(refused(Postmark { transactions: 0, ..good() }), "transactions");
        assert_eq!(refused(Postmark { seed: 0, ..good() }), "seed");
        assert_eq!(refused(Postmark { size: size(0, 1), ..good() }), "size");
        assert_eq!(refused(Postmark { size: size(2, 1), ..good() }), "size");
        assert_eq!(refused(Postmark { size: size(1, Bytes::GIB), ..good() }), "size");
        assert_eq!(refused(Postmark { read: Bytes(0), ..good() }), "read");
        assert_eq!(refused(Postmark { bias_read: 11, ..good() }), "bias_read");
        assert_eq!(refused(Postmark { bias_create: -2, ..good() }), "bias_create");
        assert_eq!(refused(Postmark { subdirectories: u32::MAX, ..good() }), "subdirectories");
    }
}
