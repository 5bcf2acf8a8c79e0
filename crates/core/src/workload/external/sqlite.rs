//! The work of sqlite3 on a database: the tests of "Database Speed Comparison"
//! (<https://www.sqlite.org/speed.html>), scaled by the number of rows, with the journal of the plan.

use std::fmt::Write;
use std::str::FromStr;

/// The most rows.
const MOST_ROWS: u32 = 10_000_000;
/// Rows for each transaction of its own, for each lookup by an index, and for each scan.
const ROWS_PER_TRANSACTION: u32 = 20;
const ROWS_PER_LOOKUP: u32 = 5;
const ROWS_PER_SCAN: u32 = 500;
/// Values of `b` are below this; each scan looks for so many of them.
const VALUES: u32 = 100_000;
const SPAN: u32 = 1000;
/// The fewest rows.
const LEAST_ROWS: u32 = 1000;

/// The arguments of sqlite3, as `key=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// Rows of the large table.
    pub rows: u32,
    /// PRAGMA journal_mode.
    pub journal_mode: String,
    /// PRAGMA synchronous.
    pub synchronous: String,
}

/// Names of journal modes, and of what is synced (<https://www.sqlite.org/pragma.html>).
const JOURNAL_MODES: [&str; 5] = ["delete", "truncate", "persist", "wal", "off"];
const SYNCHRONOUS: [&str; 4] = ["off", "normal", "full", "extra"];

impl FromStr for Arguments {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut arguments =
            Arguments { rows: 25_000, journal_mode: "delete".to_string(), synchronous: "full".to_string() };
        for word in text.split_whitespace() {
            let one_of = |value: &str, known: &[&str]| known.contains(&value).then(|| value.to_string());
            let taken = match word.split_once('=') {
                Some(("rows", rows)) => rows
                    .parse()
                    .ok()
                    .filter(|rows| (LEAST_ROWS..=MOST_ROWS).contains(rows))
                    .map(|rows| arguments.rows = rows),
                Some(("journal_mode", mode)) => {
                    one_of(mode, &JOURNAL_MODES).map(|mode| arguments.journal_mode = mode)
                }
                Some(("synchronous", level)) => {
                    one_of(level, &SYNCHRONOUS).map(|level| arguments.synchronous = level)
                }
                _ => None,
            };
            taken.ok_or_else(|| unknown(word))?;
        }
        Ok(arguments)
    }
}

fn unknown(word: &str) -> String {
    format!(
        "`rows=` from {LEAST_ROWS} to {MOST_ROWS}, `journal_mode=` one of {}, `synchronous=` one of {} \
         (invalid: '{word}')",
        JOURNAL_MODES.join(", "),
        SYNCHRONOUS.join(", ")
    )
}

/// A test: its phase, and how many transactions or statements it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// The name of its phase.
    pub phase: &'static str,
    /// The number of transactions, if each statement is one, else the number of statements or rows.
    pub items: u32,
}

/// The word before the name of a test and its time in the output.
pub const MARK: &str = "fsdyno";

impl Arguments {
    /// The tests, in their order.
    pub fn tests(&self) -> [Test; 7] {
        let rows = self.rows;
        let test = |phase, items| Test { phase, items };
        [
            test("insert each", (rows / ROWS_PER_TRANSACTION).max(1)),
            test("insert all", rows),
            test("scan", (rows / ROWS_PER_SCAN).max(1)),
            test("index", rows),
            test("look up", (rows / ROWS_PER_LOOKUP).max(1)),
            test("update", (rows / ROWS_PER_LOOKUP).max(1)),
            test("delete", rows),
        ]
    }

    /// The script for sqlite3: before each test and after the last one a line with the time, in seconds with
    /// three decimals. Statements that are transactions of their own are timed one by one (`.timer`). The
    /// seed makes the values.
    pub fn script(&self, seed: u64) -> String {
        let mut script = format!(
            ".bail on\nPRAGMA journal_mode={};\nPRAGMA synchronous={};\n\
             CREATE TABLE small(a INTEGER, b INTEGER, c TEXT);\n\
             CREATE TABLE large(a INTEGER, b INTEGER, c TEXT);\n",
            self.journal_mode, self.synchronous
        );
        let mut value = Values(seed);
        for Test { phase, items } in self.tests() {
            mark(&mut script, phase);
            match phase {
                "insert each" => {
                    script.push_str(".timer on\n");
                    (1..=items).for_each(|row| insert(&mut script, "small", row, &mut value));
                    script.push_str(".timer off\n");
                }
                "insert all" => in_one(&mut script, |script| {
                    (1..=items).for_each(|row| insert(script, "large", row, &mut value));
                }),
                "scan" => in_one(&mut script, |script| {
                    for _ in 0..items {
                        let low = value.below(VALUES);
                        line(
                            script,
                            format_args!(
                                "SELECT count(*), avg(b) FROM large WHERE b >= {low} AND b < {};",
                                low + SPAN
                            ),
                        );
                    }
                }),
                "index" => {
                    script.push_str("CREATE INDEX by_a ON large(a);\nCREATE INDEX by_b ON large(b);\n")
                }
                "look up" => in_one(&mut script, |script| {
                    for _ in 0..items {
                        let row = 1 + value.below(self.rows);
                        line(script, format_args!("SELECT c FROM large WHERE a = {row};"));
                    }
                }),
                "update" => in_one(&mut script, |script| {
                    for _ in 0..items {
                        let (row, b) = (1 + value.below(self.rows), value.below(VALUES));
                        line(script, format_args!("UPDATE large SET b = {b} WHERE a = {row};"));
                    }
                }),
                _ => script.push_str("DELETE FROM large;\n"),
            }
        }
        mark(&mut script, "end");
        script
    }
}

/// Prints what begins, and the time.
fn mark(script: &mut String, phase: &str) {
    line(
        script,
        format_args!("SELECT '{MARK}', '{phase}', printf('%.3f', (julianday('now') - 2440587.5) * 86400.0);"),
    );
}

fn in_one(script: &mut String, statements: impl FnOnce(&mut String)) {
    script.push_str("BEGIN;\n");
    statements(script);
    script.push_str("COMMIT;\n");
}

/// A row with a text of about a hundred bytes, as in the original's tests.
fn insert(script: &mut String, table: &str, row: u32, value: &mut Values) {
    let b = value.below(VALUES);
    line(script, format_args!("INSERT INTO {table} VALUES({row}, {b}, printf('%0100d', {b}));"));
}

fn line(script: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string never fails.
    let _ = writeln!(script, "{text}");
}

/// Values that follow from a seed (Knuth's linear congruential generator, MMIX).
struct Values(u64);

impl Values {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(limit)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_and_rows_are_accepted_and_statements_are_not() {
        let options: Arguments = "rows=2000 journal_mode=wal synchronous=normal".parse().unwrap();
        assert_eq!((options.rows, &*options.journal_mode, &*options.synchronous), (2000, "wal", "normal"));
        for bad in
            ["rows=10", "rows=1e9", "journal_mode=memory", "synchronous=full;", "db=/etc/x", ".shell", "wal"]
        {
            assert!(bad.parse::<Arguments>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_script_has_as_many_statements_as_its_tests_say() {
        let arguments: Arguments = "rows=1000".parse().unwrap();
        let script = arguments.script(7);
        let count = |begin: &str| script.lines().filter(|line| line.starts_with(begin)).count() as u32;
        let items: Vec<u32> = arguments.tests().iter().map(|test| test.items).collect();
        assert_eq!(items, [50, 1000, 2, 1000, 200, 200, 1000]);
        assert_eq!(count("INSERT INTO small"), 50);
        assert_eq!(count("INSERT INTO large"), 1000);
        assert_eq!((count("SELECT count"), count("SELECT c "), count("UPDATE")), (2, 200, 200));
        assert_eq!(count("SELECT 'fsdyno'"), 8);
        assert_eq!(script, arguments.script(7));
        assert_ne!(script, arguments.script(8));
    }
}
