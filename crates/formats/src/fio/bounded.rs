//! Lists and tables of a document, which end with an error when they are longer than fio's can be: each entry
//! takes many times the memory of its text, and a file may come from anybody.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// More jobs than fio runs: it has room for 4,096 (`REAL_MAX_JOBS` in os/os.h), on each of some clients.
pub(super) const MOST_JOBS: usize = 50_000;
/// More entries than a table can have: a histogram has 1,856 bins (`FIO_IO_U_PLAT_NR` in stat.h), and a job a
/// few hundred options.
const MOST_ENTRIES: usize = 4096;

/// The jobs of a document.
pub(super) fn jobs<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    deserializer.deserialize_seq(List(PhantomData)).map(Some)
}

/// Options, bins or percentiles.
pub(super) fn table<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    deserializer.deserialize_map(Table(PhantomData))
}

struct List<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Vec<T>, A::Error> {
        let mut jobs = Vec::new();
        while let Some(job) = access.next_element()? {
            if jobs.len() == MOST_JOBS {
                return Err(A::Error::custom(format_args!("a result has at most {MOST_JOBS} jobs")));
            }
            jobs.push(job);
        }
        Ok(jobs)
    }
}

struct Table<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for Table<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some((key, value)) = access.next_entry()? {
            if entries.len() == MOST_ENTRIES {
                return Err(A::Error::custom(format_args!("a table has at most {MOST_ENTRIES} entries")));
            }
            entries.insert(key, value);
        }
        Ok(entries)
    }
}
