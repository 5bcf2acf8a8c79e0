//! Parameters of `external`: the real bonnie++, postmark, fio, dbench, sqlite3 and
//! pgbench.
//!
//! The plan decides what is passed to these programs, and a plan must not get past the guards: a program that
//! accepts any directory, device or user could be pointed at a mounted disk. So only options that this module
//! knows are passed on, and anything that names a place is rejected unless it is relative and stays below the
//! engine's own directory.

pub mod bonnie;
pub mod dbench;
pub mod fio;
pub mod pgbench;
pub mod postmark;
pub mod sqlite;

pub use fio::JobFile;

use super::parameter::{Refusal, parameters, words};
use super::{Load, Need, Stated, Timing};
use crate::Tool;
use crate::units::Bytes;
use std::collections::BTreeMap;
use std::str::FromStr;

words! {
    /// An external program.
    Program, "program" {
        /// Russell Coker's bonnie++, version 2.00.
        Bonnie = "bonnie++",
        /// NetApp's postmark, version 1.5.
        Postmark = "postmark",
        /// Jens Axboe's fio, version 3.
        Fio = "fio",
        /// Andrew Tridgell's dbench, version 4.
        Dbench = "dbench",
        /// The shell of SQLite, version 3.
        Sqlite = "sqlite3",
        /// pgbench of PostgreSQL, with a server of its own.
        Pgbench = "pgbench",
        /// mdtest, whose results are only imported.
        Mdtest = "mdtest",
        /// IOR, whose results are only imported.
        Ior = "ior",
        /// elbencho, whose results are only imported.
        Elbencho = "elbencho",
        /// iozone, whose results are only imported.
        Iozone = "iozone",
        /// sysbench, whose results are only imported.
        Sysbench = "sysbench",
    }
}

const BONNIE: Tool = Tool { program: "bonnie++", package: "bonnie++", version_argument: None };
const POSTMARK: Tool = Tool { program: "postmark", package: "postmark", version_argument: None };
const FIO: Tool = Tool::new("fio", "fio", "--version");
const DBENCH: Tool = Tool { program: "dbench", package: "dbench", version_argument: None };
const SQLITE: Tool = Tool::new("sqlite3", "sqlite3", "--version");
const PGBENCH: Tool = Tool::new("pgbench", "postgresql", "--version");

/// The bytes per second that programs are assumed to move, for estimates. One that runs for a given time
/// counts as if it moved so many, so that the estimate of its duration is right.
pub const ASSUMED_RATE: u64 = 200_000_000;

impl Program {
    /// Every program that fsdyno runs.
    pub const ALL: &'static [Program] = &[
        Program::Bonnie,
        Program::Postmark,
        Program::Fio,
        Program::Dbench,
        Program::Sqlite,
        Program::Pgbench,
    ];

    /// The workload that is modelled on the program; those without one have their own name.
    pub const fn model(self) -> &'static str {
        match self {
            Program::Bonnie => "bonnie",
            _ => self.name(),
        }
    }

    /// The program and where it comes from. `None` if fsdyno does not run it.
    pub const fn tool(self) -> Option<&'static Tool> {
        match self {
            Program::Bonnie => Some(&BONNIE),
            Program::Postmark => Some(&POSTMARK),
            Program::Fio => Some(&FIO),
            Program::Dbench => Some(&DBENCH),
            Program::Sqlite => Some(&SQLITE),
            Program::Pgbench => Some(&PGBENCH),
            _ => None,
        }
    }

    /// Returns whether the program takes `arguments`.
    const fn takes_arguments(self) -> bool {
        matches!(self, Program::Bonnie | Program::Dbench | Program::Sqlite | Program::Pgbench)
    }
}

parameters! {
    /// A benchmark written by others, run on the testbed.
    External {
        program: Program = Program::Bonnie, "`bonnie++`, `postmark`, `fio`, `dbench`, `sqlite3` or `pgbench`";
        arguments: String = String::new(), "options for bonnie++, such as `-s 496m -n 16:100000:16:64`; \
            accepted are `-s -n -r -f -b -D -c -z`; the sweep sets directory, user and name. For dbench, `-t \
            SECONDS -s -S -F -x` and the number of clients, such as `-t 60 8`. For sqlite3, `rows=`, \
            `journal_mode=` and `synchronous=`, such as `rows=50000 journal_mode=wal synchronous=normal`. \
            For pgbench, `-s -c -j -T` and `-N` or `-S`, such as `-s 100 -c 8 -j 2 -T 60`";
        commands: Vec<String> = Vec::new(), "commands for postmark, such as `[\"set number 20000\", \"set \
            size 500 10000\"]`; the sweep sets location and report";
        job: Option<JobFile> = None, "path of a fio job file; it is read together with the plan and stored \
            with the results, and must not refer to anything outside the engine's directory";
    }
    imported: Stated
}

impl External {
    /// The options of its program by name, from whatever states them: arguments, commands, a job file or an
    /// imported result. `None` if they are unknown.
    pub fn options(&self) -> Option<BTreeMap<String, String>> {
        let mut options = match (&self.imported, &self.job) {
            (Some(stated), _) => stated.options.clone(),
            (None, Some(job)) => job.options(),
            (None, None) => BTreeMap::new(),
        };
        let given =
            [("arguments", self.arguments.trim().to_string()), ("commands", self.commands.join("; "))];
        let given = given.into_iter().filter(|(_, given)| !given.is_empty());
        options.extend(given.map(|(name, given)| (name.to_string(), given)));
        // A plan without arguments and commands asks for the defaults; fio has none that would be enough.
        let known = !options.is_empty() || (self.imported.is_none() && self.program != Program::Fio);
        known.then_some(options)
    }

    /// The parsed arguments of its program.
    ///
    /// # Errors
    /// Which arguments are accepted.
    pub fn parsed_arguments<A: FromStr<Err = String>>(&self) -> Result<A, Refusal> {
        self.arguments.parse().map_err(|expected| Refusal::of("arguments", expected))
    }

    /// Rejects parameters that belong to a program other than the one that runs.
    fn check_belonging(&self) -> Result<(), Refusal> {
        let is_postmark = |program| program == Program::Postmark;
        let is_fio = |program| program == Program::Fio;
        belongs(self, "arguments", self.arguments.trim().is_empty(), Program::takes_arguments)?;
        belongs(self, "commands", self.commands.is_empty(), is_postmark)?;
        belongs(self, "job", self.job.is_none(), is_fio)
    }
}

/// A number from 1 to `most`.
fn number(word: Option<&str>, most: u32) -> Option<u32> {
    word.and_then(|word| word.parse().ok()).filter(|number| (1..=most).contains(number))
}

/// A parameter that only some programs take is unset for the others.
fn belongs(
    external: &External,
    parameter: &'static str,
    is_unset: bool,
    takes: impl Fn(Program) -> bool,
) -> Result<(), Refusal> {
    let known = Program::ALL.iter().filter(|program| takes(**program)).map(|one| one.name());
    let expected = format!("unset unless `program` is {}", known.collect::<Vec<_>>().join(" or "));
    Refusal::unless(is_unset || takes(external.program), parameter, expected)
}

impl Load for External {
    fn check(&self) -> Result<(), Refusal> {
        let runs = Program::ALL.iter().map(|program| program.name()).collect::<Vec<_>>().join(", ");
        let expected = format!("a program that fsdyno runs ({runs}); results of others are only imported");
        Refusal::unless(self.program.tool().is_some(), "program", expected)?;
        self.check_belonging()?;
        match self.program {
            Program::Bonnie => self.parsed_arguments::<bonnie::Arguments>().map(drop),
            Program::Dbench => self.parsed_arguments::<dbench::Arguments>().map(drop),
            Program::Sqlite => self.parsed_arguments::<sqlite::Arguments>().map(drop),
            Program::Pgbench => self.parsed_arguments::<pgbench::Arguments>().map(drop),
            Program::Postmark => postmark::check(&self.commands),
            Program::Fio => match &self.job {
                Some(job) => job.check().map_err(|expected| Refusal::of("job", expected)),
                None => Refusal::unless(false, "job", "set to the path of a job file if `program` is fio"),
            },
            _ => Ok(()),
        }
    }

    fn prepares(&self) -> Bytes {
        Bytes(0)
    }

    fn writes(&self) -> Bytes {
        // Only the programs know how much space they will use.
        Bytes(u64::MAX)
    }

    fn moves(&self) -> Bytes {
        let moved = |bytes: u64, seconds: u32| bytes + u64::from(seconds) * ASSUMED_RATE;
        Bytes(match self.program {
            Program::Bonnie => {
                self.parsed_arguments().map_or(0, |options: bonnie::Arguments| options.parameters.moves().0)
            }
            Program::Postmark => postmark::moves(&self.commands),
            Program::Fio => self.job.as_ref().map_or(0, JobFile::moves),
            Program::Dbench => {
                self.parsed_arguments().map_or(0, |options: dbench::Arguments| moved(0, options.seconds))
            }
            // Each page of 4 KiB of a small transaction is written to the journal and to the database.
            Program::Sqlite => {
                self.parsed_arguments().map_or(0, |options: sqlite::Arguments| u64::from(options.rows) * 2048)
            }
            // Its data about three times: tables, index and log.
            Program::Pgbench => self.parsed_arguments().map_or(0, |options: pgbench::Arguments| {
                moved(u64::from(options.scale) * 48_000_000, options.seconds)
            }),
            _ => 0,
        })
    }

    fn timing(&self) -> Timing {
        Timing::default()
    }

    fn needs(&self) -> &'static [Need] {
        match self.program {
            Program::Bonnie => &[Need::Program(BONNIE)],
            Program::Postmark => &[Need::Program(POSTMARK)],
            Program::Fio => &[Need::Program(FIO)],
            Program::Dbench => &[Need::Program(DBENCH)],
            Program::Sqlite => &[Need::Program(SQLITE)],
            Program::Pgbench => &[Need::Program(PGBENCH)],
            _ => &[],
        }
    }

    fn title(&self) -> String {
        let name = self.program.name();
        let given = match self.program {
            Program::Bonnie | Program::Dbench | Program::Sqlite | Program::Pgbench => {
                self.arguments.trim().to_string()
            }
            Program::Postmark => self.commands.join("; "),
            Program::Fio => self.job.as_ref().map_or(String::new(), |job| job.path.clone()),
            _ => String::new(),
        };
        if given.is_empty() { format!("the real {name}") } else { format!("the real {name}: {given}") }
    }

    /// Its system calls are those of a program.
    fn short_runs(&self) -> &'static [&'static str] {
        &[]
    }

    fn default_measure(&self) -> &'static str {
        match self.program {
            Program::Bonnie => "write block/writer/rate",
            Program::Postmark => "transactions/transactor/item-rate",
            Program::Fio => "read",
            Program::Dbench => "dbench/transactor/rate",
            Program::Sqlite => "insert each/transactor/item-rate",
            Program::Pgbench => "transactions/transactor/item-rate",
            Program::Mdtest => "file creation/creator/item-rate",
            Program::Ior | Program::Elbencho | Program::Iozone => "write/writer/rate",
            Program::Sysbench => "throughput",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(parameters: External) -> &'static str {
        parameters.check().unwrap_err().parameter
    }

    #[test]
    fn a_program_accepts_only_its_own_parameters() {
        let job = || Some(JobFile { path: "a.fio".into(), text: "[a]\nrw=read\nsize=1m\n".into() });
        assert_eq!(External { program: Program::Fio, job: job(), ..Default::default() }.check(), Ok(()));
        assert_eq!(refused(External { program: Program::Fio, ..Default::default() }), "job");
        assert_eq!(refused(External { job: job(), ..Default::default() }), "job");
        let commands = vec!["set number 5".to_string()];
        assert_eq!(refused(External { commands: commands.clone(), ..Default::default() }), "commands");
        let good = External { program: Program::Postmark, commands, ..Default::default() };
        assert_eq!(good.check(), Ok(()));
        assert_eq!(refused(External { arguments: "-b".into(), ..good }), "arguments");
    }

    #[test]
    fn the_measure_of_every_program_exists() {
        for program in Program::ALL {
            let external = External { program: *program, ..Default::default() };
            assert!(external.default_measure().parse::<crate::Measure>().is_ok());
        }
    }
}
