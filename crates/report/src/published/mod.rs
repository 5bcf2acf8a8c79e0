//! The figures that the studies published, shipped with the program for comparison with our own.
//!
//! The files are in `published/` next to the source, contain figures and what they measure, and are part of
//! the binary. FsOpBench's tables keep their own layout, which [`fsdyno_formats::fsopbench`] reads. The
//! others are CSV; their column `counterpart` names the configuration of the shipped plan that corresponds to
//! each published row.
//!
//! A [`PublishedTable`] is the same for all: rows that were measured, and columns that are our measures in
//! the study's units. The studies' disks, kernels and processors are not ours, so a ratio says how far apart
//! two machines are before it says anything about a filesystem; compare the *order* of configurations
//! instead.

mod counterpart;
mod side_by_side;
mod table;

pub use counterpart::Counterpart;
pub(crate) use side_by_side::{CounterpartTrials, emulation, unpublished};
pub use side_by_side::{Missing, Ours, Printed, PrintedRow, SideBySide, side_by_side, side_by_side_csv};
pub use table::{PublishedColumn, PublishedError, PublishedRow, PublishedTable};

use fsdyno_core::Study;

/// A set of published figures.
#[derive(Debug)]
pub struct Published {
    /// The name to write after `published:`.
    pub name: &'static str,
    /// The study that published them.
    pub study: Study,
    /// The title: what was measured, and on which machine.
    pub title: &'static str,
    /// Where it was published.
    pub source: &'static str,
    /// The figures themselves.
    figures: FiguresText,
}

/// The form in which figures are stored.
#[derive(Debug)]
enum FiguresText {
    /// CSV: columns of labels, the counterpart, and these columns of figures.
    Csv(&'static str, &'static [table::CsvColumn]),
    /// FsOpBench's own text.
    FsOpBench,
}

/// FsOpBench's tables, each with the number of its run.
pub(crate) const FSOPBENCH: &[(&str, &str)] = &[
    ("00", include_str!("../../published/fsopbench-2009/00.txt")),
    ("01", include_str!("../../published/fsopbench-2009/01.txt")),
    ("02", include_str!("../../published/fsopbench-2009/02.txt")),
    ("04", include_str!("../../published/fsopbench-2009/04.txt")),
    ("06", include_str!("../../published/fsopbench-2009/06.txt")),
    ("09", include_str!("../../published/fsopbench-2009/09.txt")),
];

/// Every set of published figures.
pub static PUBLISHED: &[Published] = &[
    Published {
        name: "xfs-tweaks-2003",
        study: Study::XfsTweaks2003,
        title: "bonnie++ on ext3, ReiserFS and XFS, and on XFS with one setting changed at a time; two \
            Pentium III, 256 MB of memory, one ATA disk",
        source: "a study of XFS settings, 2003",
        figures: FiguresText::Csv(include_str!("../../published/xfs-tweaks-2003.csv"), table::XFS_TWEAKS),
    },
    Published {
        name: "streaming-ext4-2008",
        study: Study::StreamingExt42008,
        title: "one file of about 14 TB written and read back in requests of 4 MiB; 56 disks behind hardware \
            RAID, striped by LVM",
        source: "a study of ext4 with aiod, 2008",
        figures: FiguresText::Csv(include_str!("../../published/streaming-ext4-2008.csv"), table::STREAMING),
    },
    Published {
        name: "fsopbench-2009",
        study: Study::FsOpBench2009,
        title: "readers of small files, alone and with writers, on ext3 and ext4; one disk, and an Areca \
            RAID 6",
        source: "T. Oetiker, https://insights.oetiker.ch/linux/fsopbench/, 2009",
        figures: FiguresText::FsOpBench,
    },
    Published {
        name: "postmark-schedulers-2009",
        study: Study::Schedulers2009,
        title: "postmark on filesystems under two I/O schedulers; Ubuntu 9.04",
        source: "a study of filesystems and schedulers, 2009",
        figures: FiguresText::Csv(
            include_str!("../../published/postmark-schedulers-2009.csv"),
            table::POSTMARK,
        ),
    },
    Published {
        name: "bonnie-schedulers-2009",
        study: Study::Schedulers2009,
        title: "bonnie++ on filesystems under two I/O schedulers; Ubuntu 9.04",
        source: "a study of filesystems and schedulers, 2009",
        figures: FiguresText::Csv(include_str!("../../published/bonnie-schedulers-2009.csv"), table::BONNIE),
    },
];

/// A name that has no published figures.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownPublished {
    /// A study without figures in this program.
    #[error("fsdyno has no published figures of '{0}'")]
    NoFigures(Study),
    /// A study with several sets of figures, each under its own name.
    #[error("'{study}' has several sets of figures: {}", names.join(" and "))]
    Several {
        /// The study.
        study: Study,
        /// The names.
        names: Vec<&'static str>,
    },
    /// No such name.
    #[error("no published figures are named '{name}'{}", did_you_mean(nearest))]
    Name {
        /// As written.
        name: String,
        /// The nearest known name.
        nearest: Option<&'static str>,
    },
}

fn did_you_mean(nearest: &Option<&str>) -> String {
    match nearest {
        Some(word) => format!("; did you mean '{word}'?"),
        None => format!("; expected one of {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// Every name that [`find`] knows.
pub fn names() -> impl Iterator<Item = &'static str> {
    PUBLISHED.iter().map(|published| published.name)
}

/// The figures of this name.
///
/// # Errors
/// [`UnknownPublished`], with the nearest name.
pub fn find(name: &str) -> Result<&'static Published, UnknownPublished> {
    if let Some(published) = PUBLISHED.iter().find(|published| published.name == name) {
        return Ok(published);
    }
    if let Ok(study) = name.parse::<Study>() {
        let names: Vec<&str> = of_study(study).map(|published| published.name).collect();
        return Err(match names.is_empty() {
            true => UnknownPublished::NoFigures(study),
            false => UnknownPublished::Several { study, names },
        });
    }
    let nearest = fsdyno_core::nearest(name, names());
    Err(UnknownPublished::Name { name: name.to_string(), nearest })
}

/// The sets of figures that a study published.
pub(crate) fn of_study(study: Study) -> impl Iterator<Item = &'static Published> {
    PUBLISHED.iter().filter(move |published| published.study == study)
}

impl Published {
    /// The figures as a table.
    ///
    /// # Errors
    /// [`PublishedError`] if a file that is part of the binary is invalid.
    pub fn table(&'static self) -> Result<PublishedTable, PublishedError> {
        match self.figures {
            FiguresText::Csv(text, columns) => table::from_csv(text, columns),
            FiguresText::FsOpBench => table::from_fsopbench(FSOPBENCH),
        }
        .map_err(|problem| PublishedError { name: self.name, problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_gets_the_nearest_as_a_hint() {
        let error = find("fsopbench-2008").unwrap_err().to_string();
        assert!(error.contains("did you mean 'fsopbench-2009'"), "{error}");
        let error = find("raid1-2008").unwrap_err().to_string();
        assert!(error.contains("no published figures of 'raid1-2008'"), "{error}");
        let error = find("schedulers-2009").unwrap_err().to_string();
        assert!(error.contains("postmark-schedulers-2009 and bonnie-schedulers-2009"), "{error}");
    }

    /// The figures in the sources were counted by hand.
    #[test]
    fn every_published_figure_is_included() {
        for (name, rows, figures) in [
            ("xfs-tweaks-2003", 22, 22 * 24),
            ("streaming-ext4-2008", 9, 9),
            ("fsopbench-2009", 6, 6 * (4 * 4 * 6 + 4 * 2)),
            ("postmark-schedulers-2009", 9, 27),
            ("bonnie-schedulers-2009", 11, 33),
        ] {
            let table = find(name).unwrap().table().unwrap();
            let count: usize = table.rows.iter().map(|row| row.figures.iter().flatten().count()).sum();
            assert_eq!((table.rows.len(), count), (rows, figures), "{name}");
        }
    }

    #[test]
    fn figures_are_in_their_columns() {
        let figure = |name: &str, row: usize, column: &str| {
            let table = find(name).unwrap().table().unwrap();
            let index = table.columns.iter().position(|known| known.name == column).unwrap();
            table.rows[row].figures[index].unwrap()
        };
        assert_eq!(figure("xfs-tweaks-2003", 21, "random_delete_cpu"), 35.0);
        assert_eq!(figure("xfs-tweaks-2003", 21, "seq_output_block"), 53158.0);
        assert_eq!(figure("streaming-ext4-2008", 4, "read_mb_per_s"), 570.0);
        assert_eq!(figure("postmark-schedulers-2009", 8, "iops"), 122.0);
        assert_eq!(figure("bonnie-schedulers-2009", 4, "seeks_per_s"), 592.0);
        assert_eq!(figure("fsopbench-2009", 4, "3 readers, 3 writers / I mkdir / max"), 19592.233);
        assert_eq!(figure("fsopbench-2009", 0, "3 readers, 3 writers / J write rate / data"), 522.051);
    }
}
