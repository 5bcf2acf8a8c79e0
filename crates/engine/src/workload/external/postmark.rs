//! postmark: its commands, and how it announces its parts.

use super::cut::{AnnouncedPhase, Stream};
use super::process::Invocation;
use fsdyno_core::workload::postmark as native;

const PARTS: &[AnnouncedPhase] = &[
    AnnouncedPhase { phase: native::CREATE.name, announced: "Creating files..." },
    AnnouncedPhase { phase: native::TRANSACTIONS.name, announced: "Performing transactions" },
    AnnouncedPhase { phase: native::DELETE.name, announced: "Deleting files..." },
];

/// Returns the invocation of postmark. The commands come from standard input, because a file would be on the
/// filesystem under test.
pub(super) fn invocation(commands: &[String]) -> Invocation {
    let mut input = String::from("set location .\n");
    for command in commands {
        input.push_str(command);
        input.push('\n');
    }
    input.push_str("set report terse\nshow\nrun\nquit\n");
    let arguments = vec!["/dev/stdin".to_string()];
    let program = "postmark";
    Invocation { program, executable: program, arguments, input, parts: PARTS, stream: Stream::Stdout }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_commands_end_in_a_report() {
        let invocation = invocation(&["set number 7".to_string()]);
        assert_eq!(invocation.input, "set location .\nset number 7\nset report terse\nshow\nrun\nquit\n");
    }
}
