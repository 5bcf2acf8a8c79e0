//! dbench: its command line. It announces no parts.

use super::cut::Stream;
use super::process::Invocation;
use fsdyno_core::workload::external::dbench::{Arguments, LOAD};

/// Returns the invocation of dbench.
pub(super) fn invocation(options: &Arguments) -> Invocation {
    let fixed = ["-D", ".", "-c", LOAD, "-t"].map(str::to_string);
    let times = [options.seconds.to_string()];
    let arguments = fixed.into_iter().chain(times).chain(options.switches.iter().cloned());
    let arguments = arguments.chain([options.clients.to_string()]).collect();
    let (program, input, stream) = ("dbench", String::new(), Stream::Stdout);
    Invocation { program, executable: program, arguments, input, parts: &[], stream }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_in_its_own_directory() {
        let options = invocation(&"-t 5 -s 2".parse().unwrap());
        assert_eq!(options.arguments.join(" "), format!("-D . -c {LOAD} -t 5 -s 2"));
    }
}
