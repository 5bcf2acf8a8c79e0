//! The tables of a plan that name devices: a disk, possibly slowed down, or a stack of several.
//!
//! A disk is an image, a block device, or a directory that is used as it is. `delay` slows it down.
//! `[device.md]` and `[device.lvm]` build one device from several disks, and `[device.pool]` leaves that to
//! the filesystem; `disks` lists them: one table each, or one with `count` for identical images.

use super::document::{Document, Node, Origin, Section, Value};
use super::keys::{self, KeyTable, names};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::device::{
    Bitmap, Block, Conditioning, Delay, Delayed, Image, Lvm, Md, Pool, Preallocation, RaidLevel,
};
use fsdyno_core::{Bytes, DeviceSpec, Nanos};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The most disks of a stack: the bus of a guest has room for these and a journal. Also the most journals:
/// each configuration is compared with all of them.
const MAX_DISKS: u32 = 26;
/// The smallest chunk and stripe: a page.
const LEAST_CHUNK: Bytes = Bytes(4 * Bytes::KIB);
/// The tables of keys that describe a disk.
const DISK: [KeyTable; 3] = [keys::IMAGE, keys::BLOCK, keys::DELAY];

/// A device for journals.
#[derive(Debug)]
pub(crate) struct RawJournal {
    pub spec: DeviceSpec,
    pub at: Origin,
}

/// `[device]`: the data device, and those for journals.
pub(crate) fn devices(
    document: &Document,
    device: &Section<'_>,
) -> Result<(DeviceSpec, BTreeMap<String, RawJournal>), PlanError> {
    device.only(&[names(&DISK), names(&[keys::DEVICE])].concat())?;
    let data = match exactly_one(device, &["image", "block", "directory", "md", "lvm", "pool"])? {
        kind @ ("md" | "lvm" | "pool") => {
            for key in names(&DISK) {
                if device.get(key).is_some() {
                    return Err(pointless(device, key, kind));
                }
            }
            stack(document, device, kind)?
        }
        kind => disk(device, kind)?,
    };
    Ok((data, journals(document, device)?))
}

fn journals(document: &Document, device: &Section<'_>) -> Result<BTreeMap<String, RawJournal>, PlanError> {
    let Some(node) = device.get("journals") else { return Ok(BTreeMap::new()) };
    let mut journals = BTreeMap::new();
    for (name, entry) in Section::new(document, node, "[device.journals]")?.entries() {
        let spec = disk_of(document, &entry.node, format!("[device.journals] {name}"))?;
        journals.insert(name.to_string(), RawJournal { spec, at: entry.key.clone() });
    }
    if journals.len() > MAX_DISKS as usize {
        return Err(device.refuse("journals", format!("at most {MAX_DISKS} devices")));
    }
    Ok(journals)
}

/// A single disk that has a table of its own.
pub(super) fn disk_of(document: &Document, node: &Node, name: String) -> Result<DeviceSpec, PlanError> {
    let table = Section::new(document, node, name)?;
    table.only(&names(&DISK))?;
    disk(&table, exactly_one(&table, &["image", "block"])?)
}

/// Whichever of these keys the table has.
fn exactly_one(table: &Section<'_>, kinds: &[&'static str]) -> Result<&'static str, PlanError> {
    let found: Vec<&str> = kinds.iter().copied().filter(|kind| table.get(kind).is_some()).collect();
    let kind = kinds.iter().copied().find(|kind| found == [*kind]);
    kind.ok_or_else(|| {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_string()).collect();
        let problem = PlanProblem::ExactlyOne {
            section: table.name.clone(),
            known: words(kinds),
            found: words(&found),
        };
        let at = found.last().map_or(table.origin, |last| table.at(last));
        table.document().error(at, problem)
    })
}

fn pointless(table: &Section<'_>, key: &str, beside: &str) -> PlanError {
    table.error(key, PlanProblem::Pointless { key: key.to_string(), beside: beside.to_string() })
}

/// A disk of this kind, possibly slowed down.
fn disk(table: &Section<'_>, kind: &str) -> Result<DeviceSpec, PlanError> {
    let belongs = match kind {
        "image" => names(&[keys::IMAGE, keys::DELAY]),
        "block" => names(&[keys::BLOCK, keys::DELAY]),
        _ => Vec::new(),
    };
    for key in names(&DISK) {
        if table.get(key).is_some() && !belongs.contains(&key) {
            return Err(pointless(table, key, kind));
        }
    }
    let text = table.string(kind)?.unwrap_or_default();
    if text.is_empty() || (kind != "directory" && !text.starts_with('/')) {
        return Err(table.refuse(kind, "an absolute path"));
    }
    // A line break would forge lines of messages. udev makes no such names (`util_replace_chars`).
    if text.chars().any(char::is_control) {
        return Err(table.refuse(kind, "a path without control characters"));
    }
    let path = PathBuf::from(text);
    let disk = match kind {
        "image" => {
            let size: Bytes = table.required("size", table.unit("size")?)?;
            if size.0 == 0 {
                return Err(table.refuse("size", "greater than zero"));
            }
            let direct_io = table.boolean("direct_io")?.unwrap_or(true);
            let sector = table.unit("sector")?.unwrap_or(Image::SECTORS[0]);
            if !Image::SECTORS.contains(&sector) {
                let known: Vec<String> = Image::SECTORS.iter().map(Bytes::to_string).collect();
                return Err(table.refuse("sector", known.join(" or ")));
            }
            // With the usual one, the kernel rounds down.
            if sector != Image::SECTORS[0] && !size.0.is_multiple_of(sector.0) {
                return Err(table.refuse("size", format!("a multiple of sector, {sector}")));
            }
            let preallocate = choice(table, "preallocate", Preallocation::ALL, Preallocation::name)?;
            DeviceSpec::Image(Image { direct_io, sector, preallocate, ..Image::new(path, size) })
        }
        "block" => {
            let identity = table.string("identity")?.map(str::to_string);
            let precondition = choice(table, "precondition", Conditioning::ALL, Conditioning::name)?;
            DeviceSpec::Block(Block { path, identity, precondition })
        }
        _ => DeviceSpec::Directory { path },
    };
    Ok(match delay(table)? {
        Some(delay) => DeviceSpec::Delayed(Delayed { delay, disk: Box::new(disk) }),
        None => disk,
    })
}

/// Returns the time by which a disk delays its answers: `delay` for everything that has no delay of its own.
fn delay(table: &Section<'_>) -> Result<Option<Delay>, PlanError> {
    let one = |key: &str| -> Result<Option<Nanos>, PlanError> {
        match table.unit::<Nanos>(key)? {
            Some(delay) if !delay.0.is_multiple_of(Nanos::from_millis(1).0) => {
                Err(table.refuse(key, "a whole number of milliseconds"))
            }
            delay => Ok(delay),
        }
    };
    let all = one("delay")?;
    let [read, write, flush] = [one("read_delay")?, one("write_delay")?, one("flush_delay")?];
    if [all, read, write, flush].iter().all(Option::is_none) {
        return Ok(None);
    }
    let or_all = |own: Option<Nanos>| own.or(all).unwrap_or_default();
    Ok(Some(Delay { read: or_all(read), write: or_all(write), flush: or_all(flush) }))
}

/// An array, a volume, or several disks for a filesystem that spreads over them.
fn stack(document: &Document, device: &Section<'_>, kind: &str) -> Result<DeviceSpec, PlanError> {
    let Some(node) = device.get(kind) else { return Err(device.refuse(kind, "a table")) };
    let table = Section::new(document, node, format!("[device.{kind}]"))?;
    match kind {
        "md" => md(document, &table),
        "lvm" => lvm(document, &table),
        _ => pool(document, &table),
    }
}

fn md(document: &Document, table: &Section<'_>) -> Result<DeviceSpec, PlanError> {
    table.only(&names(&[keys::MD]))?;
    let names: Vec<&str> = RaidLevel::ALL.iter().map(|level| level.name()).collect();
    let word = table.required_string("level")?;
    let level = RaidLevel::ALL.iter().copied().find(|level| level.name() == word);
    let level =
        level.ok_or_else(|| table.error("level", PlanProblem::unknown_word("level", word, &names)))?;
    if table.get("chunk").is_some() && !level.has_chunks() {
        return Err(pointless(table, "chunk", level.name()));
    }
    if table.get("bitmap").is_some() && !level.is_redundant() {
        return Err(pointless(table, "bitmap", level.name()));
    }
    let bitmap = choice(table, "bitmap", Bitmap::ALL, Bitmap::name)?;
    let disks = disks(document, table)?;
    if disks.len() < level.least_disks() {
        return Err(too_many_or_few(
            table,
            format!("at least {} disks for {word}", level.least_disks()),
            &disks,
        ));
    }
    Ok(DeviceSpec::Md(Md { level, chunk: chunk(table, "chunk")?, bitmap, disks }))
}

/// One of these by its name; the default if the key is absent.
fn choice<T: Copy + Default>(
    table: &Section<'_>,
    key: &'static str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, PlanError> {
    let Some(word) = table.string(key)? else { return Ok(T::default()) };
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    let known = all.iter().copied().find(|one| name(*one) == word);
    known.ok_or_else(|| table.error(key, PlanProblem::unknown_word(key, word, &names)))
}

fn lvm(document: &Document, table: &Section<'_>) -> Result<DeviceSpec, PlanError> {
    table.only(&names(&[keys::LVM]))?;
    let disks = disks(document, table)?;
    let stripes = table.integer("stripes", 1..=MAX_DISKS)?.unwrap_or(1);
    if !(disks.len() as u64).is_multiple_of(stripes.into()) {
        return Err(table.refuse("stripes", format!("a divisor of the number of disks, {}", disks.len())));
    }
    if stripes == 1 && table.get("stripe_size").is_some() {
        return Err(pointless(table, "stripe_size", "a linear volume"));
    }
    Ok(DeviceSpec::Lvm(Lvm { stripes, stripe_size: chunk(table, "stripe_size")?, disks }))
}

fn pool(document: &Document, table: &Section<'_>) -> Result<DeviceSpec, PlanError> {
    table.only(&names(&[keys::POOL]))?;
    let disks = disks(document, table)?;
    match disks.len() {
        1 => Err(too_many_or_few(
            table,
            "at least 2 disks; one alone is `image` or `block`".to_string(),
            &disks,
        )),
        _ => Ok(DeviceSpec::Pool(Pool { disks })),
    }
}

/// Bytes written to one disk before moving on to the next.
fn chunk(table: &Section<'_>, key: &str) -> Result<Option<Bytes>, PlanError> {
    match table.unit::<Bytes>(key)? {
        Some(size) if size < LEAST_CHUNK || !size.0.is_power_of_two() => {
            Err(table.refuse(key, format!("a power of two and at least {LEAST_CHUNK}")))
        }
        size => Ok(size),
    }
}

/// The disks of a stack: a list of tables, or one table with a number of identical images.
fn disks(document: &Document, table: &Section<'_>) -> Result<Vec<DeviceSpec>, PlanError> {
    let node = table.required("disks", table.get("disks"))?;
    let name = format!("{} disks", table.name);
    let disks = match &node.value {
        Value::Array(nodes) => {
            let one = |node: &Node| {
                let table = Section::new(document, node, name.clone())?;
                table.only(&names(&DISK))?;
                disk(&table, exactly_one(&table, &["image", "block"])?)
            };
            nodes.iter().map(one).collect::<Result<Vec<_>, _>>()?
        }
        _ => alike(&Section::new(document, node, name)?)?,
    };
    if disks.is_empty() || disks.len() > MAX_DISKS as usize {
        return Err(too_many_or_few(table, format!("a list of 1 to {MAX_DISKS} disks"), &disks));
    }
    let mut paths: Vec<_> = disks.iter().map(DeviceSpec::path).collect();
    paths.sort();
    if let Some(twice) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        let path = twice[0].display().to_string();
        return Err(table.error("disks", PlanProblem::SameDevice { path }));
    }
    Ok(disks)
}

fn too_many_or_few(table: &Section<'_>, expected: String, disks: &[DeviceSpec]) -> PlanError {
    let found = disks.len().to_string();
    table.error("disks", PlanProblem::Value { key: "disks".to_string(), expected, found })
}

/// Images of the same name with numbers appended, from 1 to `count`.
fn alike(table: &Section<'_>) -> Result<Vec<DeviceSpec>, PlanError> {
    table.only(&[names(&DISK), names(&[keys::ALIKE])].concat())?;
    let kind = exactly_one(table, &["image", "block"])?;
    if kind == "block" {
        return Err(
            table.refuse("block", "a list of disks such as [{ block = \"...\" }, { block = \"...\" }]")
        );
    }
    let count: u32 = table.required("count", table.integer("count", 1..=MAX_DISKS)?)?;
    let first = disk(table, kind)?;
    let numbered = |number: u32| {
        first.on_other_disks(&mut |disk| {
            let DeviceSpec::Image(image) = disk else { return Ok(disk.clone()) };
            Ok(DeviceSpec::Image(image.named_after(&format!(".{number}"))))
        })
    };
    (1..=count).map(numbered).collect()
}
