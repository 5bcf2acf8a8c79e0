//! The file sets of a flow.

use super::value::{FlowWord, Share, amend_by_name};
use crate::units::Bytes;
use crate::workload::fields::Fields;
use crate::workload::parameter::{Inside, Literal, Parameter, ParameterError, Refusal, Surroundings};
use crate::workload::{SizeRange, TreeModel};
use serde::{Deserialize, Serialize};

/// The largest number of files in a set.
pub(super) const MAX_FILES: u64 = 100_000_000;
/// The largest file of a set.
pub(super) const MAX_FILE: Bytes = Bytes(16 * 1024 * Bytes::GIB);
/// Sizes drawn from a gamma distribution are at most this many times the mean, which one file in some
/// millions would be.
const GAMMA_LIMIT: u64 = 16;

/// Files of one kind: their names, how many can exist, and what they are like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileSet {
    /// By which steps name it.
    pub name: String,
    /// The number of names, and so the number of files that can exist at once.
    pub count: u64,
    /// Sizes of the files that are there at the beginning, and of those that are written whole.
    pub size: FileSize,
    /// The number of files in a directory; all are in one directory if absent.
    pub per_directory: Option<u32>,
    /// The share of the files that exist at the beginning.
    pub prefill: f64,
    /// `true` if each worker has directories of its own.
    pub private: bool,
    /// A file that is appended to is emptied first when it has this size.
    pub limit: Bytes,
}

/// Sizes of files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileSize {
    /// Uniform between two sizes, or a single one.
    Range(SizeRange),
    /// Gamma-distributed, as in filebench.
    Gamma {
        /// The mean.
        mean: Bytes,
        /// The shape.
        gamma: f64,
    },
    /// As in the trees of `fileserver`.
    Model(TreeModel),
}

impl FileSize {
    /// Always this size.
    pub const fn exactly(size: Bytes) -> Self {
        FileSize::Range(SizeRange { low: size, high: size })
    }

    /// The mean in bytes; what the published tables imply for `home`, and the body of the distribution for
    /// `impressions`.
    pub fn mean(&self) -> u64 {
        match self {
            FileSize::Range(range) => range.low.0.midpoint(range.high.0),
            FileSize::Gamma { mean, .. } => mean.0,
            FileSize::Model(TreeModel::Home) => 38_000,
            // exp(mu + sigma^2 / 2) of its lognormal body.
            FileSize::Model(TreeModel::Impressions) => 270_000,
            FileSize::Model(TreeModel::Profile(profile)) => profile.bytes / profile.files.max(1),
        }
    }

    /// No file is larger.
    pub fn largest(&self) -> u64 {
        match self {
            FileSize::Range(range) => range.high.0,
            FileSize::Gamma { mean, .. } => mean.0.saturating_mul(GAMMA_LIMIT),
            FileSize::Model(_) => 256 * Bytes::MIB,
        }
    }

    /// No file is smaller.
    pub fn least(&self) -> u64 {
        match self {
            FileSize::Range(range) => range.low.0,
            FileSize::Gamma { .. } | FileSize::Model(_) => 0,
        }
    }
}

impl Parameter for FileSize {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        match literal {
            Literal::Table(_) => {
                let fields = Fields::of(literal, surroundings)?;
                fields.only(&["mean", "gamma"])?;
                let (mean, gamma) = (fields.required("mean")?, fields.required::<f64>("gamma")?);
                let sensible = gamma > 0.0 && gamma.is_finite();
                let expected = || ParameterError::Expected("a number greater than zero".to_string());
                if sensible { Ok(FileSize::Gamma { mean, gamma }) } else { Err(expected().within("gamma")) }
            }
            Literal::Text(text)
                if text == "home" || text == "impressions" || text.starts_with("profile:") =>
            {
                TreeModel::read(literal, surroundings).map(FileSize::Model)
            }
            other => {
                let range = SizeRange::read(other, surroundings)?;
                let expected = || ParameterError::Expected("two sizes, the smaller one first".to_string());
                if range.low <= range.high { Ok(FileSize::Range(range)) } else { Err(expected()) }
            }
        }
    }

    fn written(&self) -> String {
        match self {
            FileSize::Range(range) => range.written(),
            FileSize::Gamma { mean, gamma } => format!("{{ mean = \"{mean}\", gamma = {gamma} }}"),
            FileSize::Model(model) => model.written(),
        }
    }
}

impl FileSet {
    /// The first thing that is wrong with a set.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let refuse = |key: &str, text: String| {
            let place = vec![Inside::Key(self.name.clone()), Inside::Key(key.to_string())];
            Err(Refusal::sentence("files", place, text))
        };
        let name = &self.name;
        if self.count == 0 || self.count > MAX_FILES {
            return refuse(
                "count",
                format!("set '{name}' must have from 1 to {MAX_FILES} files, not {}", self.count),
            );
        }
        if self.size.largest() > MAX_FILE.0 {
            return refuse("size", format!("files of set '{name}' must not be larger than {MAX_FILE}"));
        }
        if self.per_directory == Some(0) {
            return refuse("per_directory", format!("a directory of set '{name}' must have at least 1 file"));
        }
        if self.limit.0 == 0 {
            return refuse("limit", format!("the limit of set '{name}' must be greater than zero"));
        }
        Ok(())
    }

    /// A set whose size is still to be set.
    fn named(name: &str) -> Self {
        FileSet {
            name: name.to_string(),
            count: 1,
            size: FileSize::exactly(Bytes(0)),
            per_directory: None,
            prefill: 1.0,
            private: false,
            limit: Bytes(Bytes::GIB),
        }
    }

    fn amend(&mut self, literal: &Literal, surroundings: &dyn Surroundings) -> Result<(), ParameterError> {
        let fields = Fields::of(literal, surroundings)?;
        fields.only(&["count", "size", "per_directory", "prefill", "private", "limit"])?;
        fields.set("count", &mut self.count)?;
        fields.set("size", &mut self.size)?;
        if let Some(files) = fields.get("per_directory")? {
            self.per_directory = Some(files);
        }
        if let Some(Share(share)) = fields.get("prefill")? {
            self.prefill = share;
        }
        fields.set("private", &mut self.private)?;
        fields.set("limit", &mut self.limit)
    }

    /// Returns the number of files that exist at the beginning, out of this many names.
    pub fn prefilled(&self, of: u64) -> u64 {
        (of as f64 * self.prefill).round() as u64
    }
}

/// The file sets of a flow, by name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileSets(pub Vec<FileSet>);

impl FileSets {
    /// The set of this name.
    pub fn find(&self, name: &str) -> Option<&FileSet> {
        self.0.iter().find(|set| set.name == name)
    }
}

impl Parameter for FileSets {
    fn read(literal: &Literal, surroundings: &dyn Surroundings) -> Result<Self, ParameterError> {
        let mut sets = FileSets::default();
        sets.amend(literal, surroundings)?;
        Ok(sets)
    }

    fn amend(&mut self, literal: &Literal, surroundings: &dyn Surroundings) -> Result<(), ParameterError> {
        let fresh = |name: &str| {
            let text = Literal::Text(name.to_string());
            FlowWord::read(&text, surroundings).map(|FlowWord(name)| FileSet::named(&name))
        };
        amend_by_name(
            &mut self.0,
            literal,
            |set| &set.name,
            fresh,
            |set, literal| set.amend(literal, surroundings),
        )
    }

    fn written(&self) -> String {
        self.0.iter().map(|set| set.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}
