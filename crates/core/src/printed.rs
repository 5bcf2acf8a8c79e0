//! The output of a program that fails, and the lines of it that give the reason.

/// Output of a program that has failed: the lines that say why, at most `most` of them.
///
/// The cause may be anywhere: mkfs.xfs names it first and prints its usage after it, mkfs.btrfs names it
/// last, fio prints it ahead of its JSON. So these are the last lines, without usage and JSON; but if the
/// first line that reads like an error is not among them, it comes first.
pub fn cause(output: &str, most: usize) -> Vec<&str> {
    let lines = explanation(output);
    let last = &lines[lines.len().saturating_sub(most)..];
    let is_left_out = |line: &&&str| !last.contains(line);
    match lines.iter().find(|line| is_error(line)).filter(is_left_out) {
        Some(first) => [*first].into_iter().chain(last.iter().skip(1).copied()).collect(),
        None => last.to_vec(),
    }
}

/// Both ends of an output of which only so many bytes are kept. Called after each piece is appended, it
/// always keeps the same beginning.
pub fn keep_both_ends(kept: &mut Vec<u8>, most: usize) {
    if kept.len() > most {
        let half = most / 2;
        kept.drain(half..kept.len() - (most - half));
    }
}

/// The lines that are neither blank nor part of usage or JSON.
fn explanation(output: &str) -> Vec<&str> {
    let mut explanation = Vec::new();
    let (mut in_usage, mut in_json) = (false, false);
    for line in output.lines() {
        let text = line.trim();
        let is_edge = |edges: [&str; 2]| line.trim_end() == text && edges.contains(&text);
        in_json |= is_edge(["{", "["]);
        in_usage = match text.to_ascii_lowercase().starts_with("usage:") {
            true => true,
            false => in_usage && !is_message(line),
        };
        if !in_json && !in_usage && !text.is_empty() {
            explanation.push(text);
        }
        in_json &= !is_edge(["}", "]"]);
    }
    explanation
}

/// Returns whether a line after usage is a message again: `mkfs.x: error: no such device`, `ERROR: ...`.
fn is_message(line: &str) -> bool {
    let named = line.split_once(": ").is_some_and(|(program, _)| {
        !program.is_empty() && program.chars().all(|c| c.is_ascii_alphanumeric() || "-_./+".contains(c))
    });
    named && is_error(line)
}

fn is_error(line: &str) -> bool {
    const WORDS: [&str; 22] = [
        "error",
        "fatal",
        "cannot",
        "can't",
        "could not",
        "couldn't",
        "unable",
        "fail",
        "invalid",
        "illegal",
        "no space",
        "not supported",
        "unsupported",
        "unknown",
        "unrecognized",
        "too small",
        "too large",
        "too big",
        "denied",
        "must",
        "no such",
        "not found",
    ];
    let lower = line.to_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_found_ahead_of_usage() {
        // mkfs.xfs 6.1 `-b size=1024 -s size=4096`, shortened.
        let output = "block size 1024 cannot be smaller than sector size 4096\nUsage: mkfs.xfs\n\
                      /* blocksize */\t\t[-b size=num]\n<devicename> is required unless -d name=xxx is given.\n\
                      <num> is xxx (bytes), xxxs (sectors), xxxb (fs blocks), xxxk (xxx KiB),\n\
                      <value> is xxx (512 byte blocks).\n";
        assert_eq!(cause(output, 3), ["block size 1024 cannot be smaller than sector size 4096"]);
        // Python's argparse prints its usage first.
        let output = "usage: tool [-h] FILE\n            [--fast]\ntool: error: unrecognized arguments: -q\n";
        assert_eq!(cause(output, 3), ["tool: error: unrecognized arguments: -q"]);
    }

    #[test]
    fn json_is_no_cause() {
        let json = "{\n  \"fio version\" : \"fio-3.33\",\n  \"jobs\" : [\n    {\n    }\n  ]\n}\n";
        let output = format!("fio: pid=7, err=28/file:filesetup.c: No space left on device\n{json}\n");
        assert_eq!(cause(&output, 3), ["fio: pid=7, err=28/file:filesetup.c: No space left on device"]);
        assert_eq!(cause(json, 3), [""; 0]);
    }

    #[test]
    fn the_first_error_is_kept_with_the_end() {
        assert_eq!(cause("mkfs 1\none\n\ntwo\nERROR: too small\n", 3), ["one", "two", "ERROR: too small"]);
        let output = "mkfs 1\ncannot open '/dev/x'\nstep 1\nstep 2\nstep 3\ngiving up\n";
        assert_eq!(cause(output, 3), ["cannot open '/dev/x'", "step 3", "giving up"]);
        assert_eq!(cause("", 3), [""; 0]);
    }

    #[test]
    fn both_ends_of_a_long_output_are_kept() {
        let mut kept = Vec::new();
        for piece in 0..1000 {
            kept.extend_from_slice(format!("{piece:04} ").as_bytes());
            keep_both_ends(&mut kept, 20);
        }
        assert_eq!(String::from_utf8(kept).unwrap(), "0000 0001 0998 0999 ");
    }
}
