//! Journal statistics of filesystems.

use super::{Parsed, number_of, numbers_of};
use fsdyno_core::telemetry::{BtrfsCommits, Jbd2, XfsLog};

/// Bytes of a basic block, in which XFS counts its log (fs/xfs/libxfs/xfs_fs.h).
const XFS_BASIC_BLOCK: u64 = 512;

/// `/proc/fs/jbd2/*/info` (fs/jbd2/journal.c, `jbd2_seq_info_show`). The means are missing until a
/// transaction has been committed.
pub fn jbd2_info(text: &str) -> Parsed<Option<Jbd2>> {
    let Some(Some((transactions, requested))) = text.lines().next().map(transactions) else {
        return Parsed { value: None, unparsed: 1 };
    };
    let mut journal = Jbd2 { transactions, requested, ..Jbd2::default() };
    let mut unparsed = 0;
    for line in text.lines().skip(1).map(str::trim).filter(|line| *line != "average:") {
        unparsed += u64::from(mean(line, &mut journal).is_none());
    }
    Parsed { value: Some(journal), unparsed }
}

/// `2 transactions (2 requested), each up to 1365 blocks`.
fn transactions(line: &str) -> Option<(u64, u64)> {
    let (transactions, rest) = line.split_once(" transactions (")?;
    let (requested, _) = rest.split_once(" requested)")?;
    Some((transactions.parse().ok()?, requested.parse().ok()?))
}

/// `8ms logging transaction`, `480 handles per transaction`.
fn mean(line: &str, journal: &mut Jbd2) -> Option<()> {
    let (number, words) = line.split_once(' ')?;
    let digits = number.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let value: u64 = digits.parse().ok()?;
    let time_ns = match &number[digits.len()..] {
        "" => value,
        "us" => value.checked_mul(1000)?,
        "ms" => value.checked_mul(1_000_000)?,
        _ => return None,
    };
    match words {
        "average transaction commit time" => journal.commit_ns_mean = time_ns,
        "running transaction" => journal.running_ns_mean = time_ns,
        "flushing data (in ordered mode)" => journal.flushing_ns_mean = time_ns,
        "logging transaction" => journal.logging_ns_mean = time_ns,
        "handles per transaction" => journal.handles_mean = value,
        "blocks per transaction" => journal.blocks_mean = value,
        "logged blocks per transaction" => journal.logged_blocks_mean = value,
        "waiting for transaction" | "request delay" | "transaction was being locked" => {}
        _ => return None,
    }
    Some(())
}

/// `/sys/fs/xfs/*/stats/stats` (fs/xfs/xfs_stats.h defines the order of the numbers).
pub fn xfs_stats(text: &str) -> Parsed<Option<XfsLog>> {
    let log = || {
        let log = numbers_of(text, "log")?;
        let [writes, blocks, no_buffer, forces, force_sleeps, ..] = log[..] else { return None };
        let [_try, space_sleeps, ..] = numbers_of(text, "push_ail")?[..] else { return None };
        let [sync_transactions, async_transactions, ..] = numbers_of(text, "trans")?[..] else { return None };
        Some(XfsLog {
            writes,
            bytes: blocks.checked_mul(XFS_BASIC_BLOCK)?,
            no_buffer,
            forces,
            force_sleeps,
            space_sleeps,
            sync_transactions,
            async_transactions,
        })
    };
    let value = log();
    Parsed { value, unparsed: value.is_none().into() }
}

/// `/sys/fs/btrfs/*/commit_stats`.
pub fn btrfs_commits(text: &str) -> Parsed<Option<BtrfsCommits>> {
    let milliseconds = |word| number_of(text, word)?.checked_mul(1_000_000);
    let commits = || {
        Some(BtrfsCommits {
            commits: number_of(text, "commits")?,
            commit_ns: milliseconds("total_commit_ms")?,
            commit_ns_max: milliseconds("max_commit_ms")?,
        })
    };
    let value = commits();
    Parsed { value, unparsed: value.is_none().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const JBD2: &str = "\
2 transactions (1 requested), each up to 1365 blocks
average: 
  0ms waiting for transaction
  0ms request delay
  208ms running transaction
  0ms transaction was being locked
  4ms flushing data (in ordered mode)
  8ms logging transaction
  5203us average transaction commit time
  326 handles per transaction
  12 blocks per transaction
  14 logged blocks per transaction
";

    #[test]
    fn the_journal_of_ext4() {
        let expected = Jbd2 {
            transactions: 2,
            requested: 1,
            commit_ns_mean: 5_203_000,
            running_ns_mean: 208_000_000,
            flushing_ns_mean: 4_000_000,
            logging_ns_mean: 8_000_000,
            handles_mean: 326,
            blocks_mean: 12,
            logged_blocks_mean: 14,
        };
        assert_eq!(jbd2_info(JBD2), Parsed { value: Some(expected), unparsed: 0 });
    }

    #[test]
    fn a_journal_that_has_not_committed_has_no_means() {
        let first = "0 transactions (0 requested), each up to 1365 blocks\n";
        assert_eq!(jbd2_info(first), Parsed { value: Some(Jbd2::default()), unparsed: 0 });
    }

    #[test]
    fn unparsed_lines_are_counted() {
        assert_eq!(jbd2_info(&format!("{JBD2}  7 furlongs per fortnight\n")).unparsed, 1);
        assert_eq!(jbd2_info("").unparsed, 1);
        assert_eq!(xfs_stats("log 1 2\n").unparsed, 1);
        assert_eq!(btrfs_commits("commits 4\n").unparsed, 1);
    }

    #[test]
    fn the_log_of_xfs() {
        let text = "extent_alloc 1338909 11674839 63719 374668\ntrans 3 10365709 0\n\
                    log 30387 1772165 15718 6416 4293\n\
                    push_ail 10367961 21 4540 126553 0 9672 18334 46420 0 183\nlogical 1\n";
        let expected = XfsLog {
            writes: 30387,
            bytes: 1_772_165 * 512,
            no_buffer: 15718,
            forces: 6416,
            force_sleeps: 4293,
            space_sleeps: 21,
            sync_transactions: 3,
            async_transactions: 10_365_709,
        };
        assert_eq!(xfs_stats(text), Parsed { value: Some(expected), unparsed: 0 });
    }

    #[test]
    fn the_commits_of_btrfs() {
        let text = "commits 4\ncur_commit_ms 0\nlast_commit_ms 2\nmax_commit_ms 4\ntotal_commit_ms 10\n";
        let expected = BtrfsCommits { commits: 4, commit_ns: 10_000_000, commit_ns_max: 4_000_000 };
        assert_eq!(btrfs_commits(text), Parsed { value: Some(expected), unparsed: 0 });
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "([0-9]{0,20}|log|commits|ä|ms|us| |transactions|\\(|\n\
            ){0,20}") {
            let _ = (jbd2_info(&text), xfs_stats(&text), btrfs_commits(&text));
        }
    }
}
