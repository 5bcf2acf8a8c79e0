//! pgbench: a server of its own in the engine's directory, by a script.

use super::cut::{AnnouncedPhase, Stream};
use super::process::Invocation;
use fsdyno_core::workload::external::pgbench::Arguments;
use fsdyno_formats::pgbench::{INITIALISE, TRANSACTIONS};

const PARTS: &[AnnouncedPhase] = &[
    AnnouncedPhase { phase: INITIALISE, announced: "Initialising..." },
    AnnouncedPhase { phase: TRANSACTIONS, announced: "Transactions..." },
];

const SCRIPT: &str = include_str!("pgbench.sh");

/// Returns the invocation of pgbench.
pub(super) fn invocation(options: &Arguments) -> Invocation {
    let numbers =
        [options.scale, options.clients, options.threads, options.seconds].map(|number| number.to_string());
    let fixed = ["-c".to_string(), SCRIPT.to_string(), "pgbench".to_string()];
    let arguments = fixed.into_iter().chain(numbers).chain(options.switches.iter().cloned()).collect();
    let (program, executable) = ("pgbench", "sh");
    let (input, stream) = (String::new(), Stream::Stdout);
    Invocation { program, executable, arguments, input, parts: PARTS, stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_gets_its_numbers_and_switches() {
        let options = invocation(&"-s 5 -c 8 -j 2 -T 30 -N".parse().unwrap());
        assert_eq!(options.arguments[2..].join(" "), "pgbench 5 8 2 30 -N");
    }
}
