//! The parts of a run, if a program reports where they begin and end.
//!
//! bonnie++ and postmark announce each part of their work on a line that they finish when the part is done:
//! `Rewriting...`, and then `done`. They write both at once, without buffering, so a reader of the output
//! knows the edges of a part to a fraction of a millisecond. fio reports nothing like this.

use std::mem;

/// A part of a program's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnnouncedPhase {
    /// The name of the phase.
    pub(super) phase: &'static str,
    /// The beginning of its line. The part ends with the line.
    pub(super) announced: &'static str,
}

/// Where a program announces its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// An edge of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edge {
    Begin(&'static str),
    End,
}

/// Finds the edges in a program's output, in whatever pieces it arrives.
#[derive(Debug)]
pub(super) struct PhaseCutter {
    parts: &'static [AnnouncedPhase],
    /// The line so far.
    line: Vec<u8>,
    within: bool,
}

/// The maximum length of an announcement.
const LONGEST: usize = 128;

impl PhaseCutter {
    pub(super) fn new(parts: &'static [AnnouncedPhase]) -> Self {
        PhaseCutter { parts, line: Vec::new(), within: false }
    }

    /// The edges in the latest output.
    pub(super) fn hear(&mut self, said: &[u8]) -> Vec<Edge> {
        let mut edges = Vec::new();
        for piece in said.split_inclusive(|byte| *byte == b'\n') {
            let room = LONGEST.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            let announced = |part: &&AnnouncedPhase| self.line.starts_with(part.announced.as_bytes());
            if let Some(part) = self.parts.iter().find(announced).filter(|_| !self.within) {
                self.within = true;
                edges.push(Edge::Begin(part.phase));
            }
            if piece.ends_with(b"\n") {
                self.line.clear();
                edges.extend(mem::take(&mut self.within).then_some(Edge::End));
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARTS: &[AnnouncedPhase] = &[
        AnnouncedPhase { phase: "write", announced: "Writing..." },
        AnnouncedPhase { phase: "seek", announced: "start 'em..." },
        AnnouncedPhase { phase: "stat", announced: "Stat..." },
    ];
    const SAID: &str =
        "Using uid:0, gid:0.\nWriting...done\nwhile Writing...\nstart 'em...done...done...\nStat...done.\n";

    #[test]
    fn a_part_begins_with_its_announcement_and_ends_with_its_line() {
        let mut cutter = PhaseCutter::new(PARTS);
        assert_eq!(cutter.hear(b"Using uid:0, gid:0.\nWriting..."), [Edge::Begin("write")]);
        assert_eq!(cutter.hear(b".."), []);
        assert_eq!(cutter.hear(b"done\nStat..."), [Edge::End, Edge::Begin("stat")]);
        assert_eq!(cutter.hear(b"done.\n"), [Edge::End]);
        assert_eq!(cutter.hear(&[b'x'; 1000]), []);
        assert_eq!(cutter.hear(b"Writing...\n"), [], "in the middle of a line");
    }

    proptest! {
        #[test]
        fn edges_do_not_depend_on_how_the_text_is_split(cuts in prop::collection::vec(0..SAID.len(), 0..20)) {
            let mut cuts = cuts;
            cuts.extend([0, SAID.len()]);
            cuts.sort_unstable();
            let mut cutter = PhaseCutter::new(PARTS);
            let edges: Vec<Edge> =
                cuts.windows(2).flat_map(|pair| cutter.hear(&SAID.as_bytes()[pair[0]..pair[1]])).collect();
            let expected = ["write", "seek", "stat"].map(|phase| [Edge::Begin(phase), Edge::End]);
            prop_assert_eq!(edges, expected.concat());
        }
    }
}
