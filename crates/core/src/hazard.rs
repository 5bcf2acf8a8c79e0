//! The effect of a setting on what survives a power cut.
//!
//! A setting is declared along with its hazard, and whatever is not declared harmless is not durable: it
//! weakens what survives, or what it does is unknown. A list of dangerous settings instead would pass the
//! next one that a kernel or a tool adds. What a hazard means for a word or a level is in
//! [`weakening`](crate::weakening).

/// The effect of a word of mkfs or mount, or of a level of an axis, on durability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Hazard {
    /// Nothing.
    Harmless,
    /// It weakens it: the setting and its risk, as a warning says it.
    Weakens(&'static str),
    /// Nobody has decided.
    Unknown,
    /// That of the first entry with this word, or with what precedes its colon; unknown if there is none.
    By(&'static [(&'static [&'static str], Hazard)]),
    /// Nothing if it is one of these words; without flushes if the descriptor of the filesystem has it among
    /// those that switch barriers off.
    Flushes(&'static [&'static str]),
    /// Seconds between commits, of which more than the default of the filesystem lose more.
    Commits,
    /// A time after which data is written, of which more than this loses more.
    AtMost(u32),
    /// The same for one of which 0 means never.
    AtMostNotZero(u32),
    /// That of the words of mkfs or mount that the level becomes, or of the filesystem itself.
    OfItsWords,
}

/// A filesystem without a journal.
pub const NO_JOURNAL: Hazard =
    Hazard::Weakens("no journal: after a power cut a full check is needed, and files may be lost");
