//! The tables of a plan that name devices: a disk, possibly slowed down, or a stack of several.
//!
//! A disk is an image, a block device, or a directory that is used as it is. `delay` slows it down.
//! `[device.md]` and `[device.lvm]` build one device from several disks, and `[device.pool]` leaves that to
//! the filesystem; `disks` lists them: one table each, or one with `count` for identical images.

use super::document::{Node, Origin, Section, Value};
use super::keys::{KeyTable, Keys, table};
use crate::error::{PlanError, PlanProblem};
use fsdyno_core::device::{
    Bitmap, Block, Conditioning, Delay, Delayed, DiskModelText, Image, Lvm, Md, Pool, Preallocation,
    RaidLevel,
};
use fsdyno_core::units::Size;
use fsdyno_core::{Bytes, DeviceSpec, Nanos};
use fsdyno_disk::DiskModel;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most disks of a stack: the bus of a guest has room for these and a journal. Also the most journals:
/// each configuration is compared with all of them.
const MAX_DISKS: u32 = 26;
/// The smallest chunk and stripe: a page.
const LEAST_CHUNK: Bytes = Bytes(4 * Bytes::KIB);
/// The key of a disk's model.
const MODEL: &str = "model";
/// The key of the part of it that is modelled.
const SPAN: &str = "span";
/// The longest file of a model.
const MODEL_MOST: u64 = 64 << 10;
/// The keys that describe a disk.
const DISK: [&[&str]; 3] = [ImageKeys::NAMES, BlockKeys::NAMES, DelayKeys::NAMES];
/// The kinds of disks that have a table of their own.
const KINDS: [&str; 2] = ["image", "block"];

table! {
    "[device]",
    "What filesystems are created on: exactly one of `image`, `block`, `directory`, `md`, `lvm` and `pool`.";
    struct DeviceKeys {
        directory: PathBuf, directory,
            "measure an existing directory as it is: nothing is formatted, and no axis applies; an absolute \
             path, or relative to where fsdyno runs";
        md: DeviceSpec, |device, key| device.table(key, "[device.md]")?.map(md).transpose(),
            "an array of several disks; see `[device.md]`";
        lvm: DeviceSpec, |device, key| device.table(key, "[device.lvm]")?.map(lvm).transpose(),
            "a logical volume on several disks; see `[device.lvm]`";
        pool: DeviceSpec, |device, key| device.table(key, "[device.pool]")?.map(pool).transpose(),
            "several disks for a filesystem that spreads over them; see `[device.pool]`";
        journals: BTreeMap<String, RawJournal> = BTreeMap::new(), journals,
            "at most 26 devices for external journals, by name, for the axis `journal`: each is a disk with \
             the keys below";
    }
}

table! {
    "an image",
    "A file that the sweep creates, attaches to a loop device, and removes: in `[device]`, in a table of \
     `[device.journals]`, or as one of the `disks` of an array, a volume or a pool.";
    struct ImageKeys {
        image: PathBuf as required, absolute, "absolute path of the file; it must not exist";
        size: Bytes as required, size, "required: its size, such as `\"8G\"`";
        preallocate: Preallocation = Preallocation::default(), Section::word,
            "`\"write\"`: written in full once per sweep and kept for its trials, as a disk would be; \
             `\"none\"`: new and sparse in each trial";
        sector: u64 = Image::SECTORS[0].0, sector, "bytes of a logical block of the loop device: 512 or 4096";
        direct_io: bool = true, Section::boolean,
            "whether the loop device bypasses the page cache of the filesystem that holds the image";
        model: Vec<DiskModelText> = Vec::new(), models,
            "the disk whose times the image has while a load runs: a name of `fsdyno disks`, or the absolute \
             path of a file like one of them; all other steps run at the speed of this machine. A list has \
             several disks, each with an answer of its own";
        span: f64, span,
            "the part of a modelled hard disk, from its beginning, that the image is: with `\"10%\"` the head moves \
             as far as between files that fill a tenth of the disk. All of it, unless given";
    }
}

table! {
    "a block device",
    "A disk or a partition, in the same places. Everything on it is lost; `--destroy` must confirm it.";
    struct BlockKeys {
        block: PathBuf as required, absolute, "its absolute path, best from /dev/disk/by-id";
        identity: String, |table, key| Ok(table.string(key)?.map(str::to_string)),
            "refuse any device but this one; `fsdyno plan` prints the line";
        precondition: Conditioning = Conditioning::default(), Section::word,
            "what is done to all of it before each filesystem is created: `\"discard\"`, `\"fill-once\"` or \
             `\"fill-twice\"` (written in order with random data; mkfs then does not discard), or `\"none\"`";
    }
}

table! {
    "a slow disk", "Any image or block device can delay its answers (dm-delay). Whole milliseconds.";
    struct DelayKeys {
        delay: Nanos, milliseconds, "delay of everything that has no delay of its own";
        read_delay: Nanos, milliseconds, "delay of reads";
        write_delay: Nanos, milliseconds, "delay of writes";
        flush_delay: Nanos, milliseconds, "delay of cache flushes";
    }
}

table! {
    "[device.md]", "An array of Linux' md driver.";
    struct MdKeys {
        level: RaidLevel as required, Section::word,
            "required: `\"raid0\"`, `\"raid1\"`, `\"raid5\"`, `\"raid6\"` or `\"raid10\"`";
        disks: Vec<DeviceSpec> as required, disks, "required: a list of disks, or one image with `count`";
        chunk: Bytes, chunk, "bytes on one disk before the next one, for levels that stripe; a power of two";
        bitmap: Bitmap = Bitmap::default(), Section::word,
            "write-intent bitmap of a redundant array: `\"none\"` or `\"internal\"`";
    }
}

table! {
    "[device.lvm]", "A logical volume.";
    struct LvmKeys {
        disks: Vec<DeviceSpec> as required, disks, "required: a list of disks, or one image with `count`";
        stripes: u32 = 1, |table, key| table.integer(key, 1..=MAX_DISKS),
            "number of stripes, a divisor of the number of disks; 1: linear";
        stripe_size: Bytes, chunk, "bytes on one disk before the next one; a power of two";
    }
}

table! {
    "[device.pool]",
    "Disks over which the filesystem spreads itself: btrfs, by the axes `data_profile` and `profile`.";
    struct PoolKeys {
        disks: Vec<DeviceSpec> as required, disks,
            "required: a list of at least two disks, or one image with `count`";
    }
}

table! {
    "disks",
    "Several equal images at once, as one table in place of a list: the keys of an image, and this one.";
    struct AlikeKeys {
        count: u32 as required, |table, key| table.integer(key, 1..=MAX_DISKS),
            "how many; the names of the files end in `.1`, `.2` and so on";
    }
}

/// The tables that name devices, for the reference.
pub(super) fn tables() -> Vec<KeyTable> {
    vec![
        DeviceKeys::table(),
        ImageKeys::table(),
        BlockKeys::table(),
        DelayKeys::table(),
        MdKeys::table(),
        LvmKeys::table(),
        PoolKeys::table(),
        AlikeKeys::table(),
    ]
}

/// A device for journals.
#[derive(Debug)]
pub(crate) struct RawJournal {
    pub spec: DeviceSpec,
    pub at: Origin,
}

/// The devices of a plan as written.
#[derive(Debug)]
pub(crate) struct RawDevices {
    /// The device with the data.
    pub data: DeviceSpec,
    /// The models whose times it has, one after the other; empty if it has those of the machine.
    pub models: Vec<DiskModelText>,
    /// Those for journals, by name.
    pub journals: BTreeMap<String, RawJournal>,
}

/// Reads `[device]`.
pub(super) fn devices(plan: &Section<'_>, key: &'static str) -> Result<Option<RawDevices>, PlanError> {
    plan.table(key, "[device]")?.map(|device| of_table(&device)).transpose()
}

fn of_table(device: &Section<'_>) -> Result<RawDevices, PlanError> {
    device.only(&[&DISK.concat(), DeviceKeys::NAMES].concat())?;
    let kind = exactly_one(device, &["image", "block", "directory", "md", "lvm", "pool"])?;
    if !KINDS.contains(&kind) {
        refuse_others(device, &[], kind)?;
    }
    let DeviceKeys { directory, md, lvm, pool, journals } = DeviceKeys::read(device)?;
    let models = models(device, MODEL)?.unwrap_or_default();
    let directory = directory.map(|path| DeviceSpec::Directory { path });
    let data = match directory.or(md).or(lvm).or(pool) {
        Some(data) => data,
        None => disk(device, kind)?,
    };
    Ok(RawDevices { data, models, journals })
}

fn journals(
    device: &Section<'_>,
    key: &'static str,
) -> Result<Option<BTreeMap<String, RawJournal>>, PlanError> {
    let Some(table) = device.table(key, "[device.journals]")? else { return Ok(None) };
    let mut journals = BTreeMap::new();
    for (name, entry) in table.entries() {
        let own = Section::new(device.document(), &entry.node, format!("[device.journals] {name}"))?;
        journals.insert(name.to_string(), RawJournal { spec: disk_of(&own)?, at: entry.key.clone() });
    }
    if journals.len() > MAX_DISKS as usize {
        return Err(device.refuse(key, format!("at most {MAX_DISKS} devices")));
    }
    Ok(Some(journals))
}

/// A disk that has a table of its own, and its own times.
pub(super) fn disk_of(table: &Section<'_>) -> Result<DeviceSpec, PlanError> {
    if table.get(MODEL).is_some() {
        return Err(table.refuse(MODEL, "given in [device], for an image or the disks of a stack"));
    }
    member_of(table)
}

/// A disk of a stack that has a table of its own.
fn member_of(table: &Section<'_>) -> Result<DeviceSpec, PlanError> {
    table.only(&DISK.concat())?;
    member(table, exactly_one(table, &KINDS)?)
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

/// Refuses keys of disks that do not belong to this kind.
fn refuse_others(table: &Section<'_>, belong: &[&str], kind: &str) -> Result<(), PlanError> {
    let other = DISK.concat().into_iter().find(|key| table.get(key).is_some() && !belong.contains(key));
    other.map_or(Ok(()), |key| Err(pointless(table, key, kind)))
}

/// One of the disks of a stack: a list of models is that of a plan whose device is one disk.
fn member(table: &Section<'_>, kind: &str) -> Result<DeviceSpec, PlanError> {
    match table.get(MODEL).map(|node| &node.value) {
        Some(Value::Array(_)) => Err(table.refuse(MODEL, "one model, as this is one disk of several")),
        _ => disk(table, kind),
    }
}

/// A disk of this kind, possibly slowed down.
fn disk(table: &Section<'_>, kind: &str) -> Result<DeviceSpec, PlanError> {
    let own = if kind == "image" { ImageKeys::NAMES } else { BlockKeys::NAMES };
    refuse_others(table, &[own, DelayKeys::NAMES].concat(), kind)?;
    let disk = if kind == "image" {
        let ImageKeys { image, size, preallocate, sector, direct_io, model, span } = ImageKeys::read(table)?;
        if !model.is_empty() {
            let others = ["preallocate", "direct_io"].iter().chain(DelayKeys::NAMES);
            let contradicts = others.copied().find(|key| table.get(key).is_some());
            contradicts.map_or(Ok(()), |key| Err(pointless(table, key, MODEL)))?;
        } else if span.is_some() {
            return Err(table.refuse(SPAN, "given beside 'model', the disk of which the image is a part"));
        }
        let (path, model) = (image, model.into_iter().next());
        DeviceSpec::Image(Image { path, size, direct_io, sector: Bytes(sector), preallocate, model })
    } else {
        let BlockKeys { block, identity, precondition } = BlockKeys::read(table)?;
        DeviceSpec::Block(Block { path: block, identity, precondition })
    };
    Ok(match delay(DelayKeys::read(table)?) {
        Some(delay) => DeviceSpec::Delayed(Delayed { delay, disk: Box::new(disk) }),
        None => disk,
    })
}

/// Returns the time by which a disk delays its answers, if it does.
fn delay(keys: DelayKeys) -> Option<Delay> {
    let DelayKeys { delay: all, read_delay: read, write_delay: write, flush_delay: flush } = keys;
    let or_all = |own: Option<Nanos>| own.or(all).unwrap_or_default();
    let any = [all, read, write, flush].iter().any(Option::is_some);
    any.then(|| Delay { read: or_all(read), write: or_all(write), flush: or_all(flush) })
}

fn milliseconds(table: &Section<'_>, key: &'static str) -> Result<Option<Nanos>, PlanError> {
    match table.unit::<Nanos>(key)? {
        Some(delay) if !delay.0.is_multiple_of(Nanos::from_millis(1).0) => {
            Err(table.refuse(key, "a whole number of milliseconds"))
        }
        delay => Ok(delay),
    }
}

/// Models of disks, each by its name or its file: one, or a list of them.
fn models(table: &Section<'_>, key: &'static str) -> Result<Option<Vec<DiskModelText>>, PlanError> {
    let Some(node) = table.get(key) else { return Ok(None) };
    let nodes = match &node.value {
        Value::Array(nodes) if nodes.is_empty() => return Err(table.refuse(key, "at least one model")),
        Value::Array(nodes) => &nodes[..],
        _ => std::slice::from_ref(node),
    };
    let mut models: Vec<DiskModelText> = Vec::new();
    for node in nodes {
        let model = model(table, key, node)?;
        if models.contains(&model) {
            return Err(not_a_model(table, key, node, "a model that is not in the list yet".to_string()));
        }
        models.push(model);
    }
    Ok(Some(models))
}

/// The share of a disk that is modelled.
fn span(table: &Section<'_>, key: &'static str) -> Result<Option<f64>, PlanError> {
    match table.unit::<Size>(key)? {
        None => Ok(None),
        Some(Size::Percent(percent)) if percent > 0.0 => Ok(Some(percent / 100.0)),
        Some(_) => Err(table.refuse(key, "a share of the disk, such as '10%'")),
    }
}

fn model(table: &Section<'_>, key: &'static str, node: &Node) -> Result<DiskModelText, PlanError> {
    let refused = |expected: String| not_a_model(table, key, node, expected);
    let Value::String(named) = &node.value else {
        return Err(refused("the name of a model, or a list of names".to_string()));
    };
    let text = match DiskModel::own_text(named) {
        Some(text) => text.to_string(),
        None if Path::new(named).is_absolute() => {
            model_file(Path::new(named)).map_err(|why| refused(format!("a file that can be read: {why}")))?
        }
        None => {
            let own = DiskModel::own_names().collect::<Vec<_>>().join(", ");
            return Err(refused(format!("one of {own}, or the absolute path of a file")));
        }
    };
    let parsed = |name: &str, text: &str| {
        DiskModel::parse(name, text).map_err(|error| refused(format!("the model of a disk: {error}")))
    };
    let whole = parsed(named, &text)?;
    let Some(share) = span(table, SPAN)? else { return Ok(DiskModelText { name: named.clone(), text }) };
    if !whole.is_rotational() {
        return Err(table.refuse(SPAN, format!("left out, because '{named}' has no platters")));
    }
    let name = format!("{named} (first {})", Size::Percent(share * 100.0));
    let text = DiskModel::with_span(&text, share);
    parsed(&name, &text)?;
    Ok(DiskModelText { name, text })
}

/// Refuses a model, at its place in a list.
fn not_a_model(table: &Section<'_>, key: &'static str, node: &Node, expected: String) -> PlanError {
    let problem = PlanProblem::Value { key: key.to_string(), expected, found: node.describe() };
    table.document().error(&node.origin, problem)
}

/// The text of a file that is as short as a model.
fn model_file(path: &Path) -> Result<String, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() || found.len() > MODEL_MOST {
        return Err(format!("a regular file of at most {} KiB", MODEL_MOST >> 10));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// A path that may be relative.
fn directory(table: &Section<'_>, key: &'static str) -> Result<Option<PathBuf>, PlanError> {
    match table.string(key)? {
        None => Ok(None),
        Some("") => Err(table.refuse(key, "an absolute path")),
        // A line break would forge lines of messages. udev makes no such names (`util_replace_chars`).
        Some(text) if text.chars().any(char::is_control) => {
            Err(table.refuse(key, "a path without control characters"))
        }
        Some(text) => Ok(Some(PathBuf::from(text))),
    }
}

fn absolute(table: &Section<'_>, key: &'static str) -> Result<Option<PathBuf>, PlanError> {
    match directory(table, key)? {
        Some(path) if path.is_relative() => Err(table.refuse(key, "an absolute path")),
        path => Ok(path),
    }
}

fn size(table: &Section<'_>, key: &'static str) -> Result<Option<Bytes>, PlanError> {
    match table.unit(key)? {
        Some(Bytes(0)) => Err(table.refuse(key, "greater than zero")),
        size => Ok(size),
    }
}

fn sector(table: &Section<'_>, key: &'static str) -> Result<Option<u64>, PlanError> {
    let Some(sector) = table.unit(key)? else { return Ok(None) };
    if !Image::SECTORS.contains(&sector) {
        let known: Vec<String> = Image::SECTORS.iter().map(Bytes::to_string).collect();
        return Err(table.refuse(key, known.join(" or ")));
    }
    // With the usual one, the kernel rounds down.
    let divides = |size: Bytes| sector == Image::SECTORS[0] || size.0.is_multiple_of(sector.0);
    if !size(table, "size")?.is_none_or(divides) {
        return Err(table.refuse("size", format!("a multiple of sector, {sector}")));
    }
    Ok(Some(sector.0))
}

fn md(table: Section<'_>) -> Result<DeviceSpec, PlanError> {
    let MdKeys { level, disks, chunk, bitmap } = table.read()?;
    if chunk.is_some() && !level.has_chunks() {
        return Err(pointless(&table, "chunk", level.name()));
    }
    if table.get("bitmap").is_some() && !level.is_redundant() {
        return Err(pointless(&table, "bitmap", level.name()));
    }
    if disks.len() < level.least_disks() {
        let expected = format!("at least {} disks for {}", level.least_disks(), level.name());
        return Err(too_many_or_few(&table, expected, &disks));
    }
    Ok(DeviceSpec::Md(Md { level, chunk, bitmap, disks }))
}

fn lvm(table: Section<'_>) -> Result<DeviceSpec, PlanError> {
    let LvmKeys { disks, stripes, stripe_size } = table.read()?;
    if !(disks.len() as u64).is_multiple_of(stripes.into()) {
        return Err(table.refuse("stripes", format!("a divisor of the number of disks, {}", disks.len())));
    }
    if stripes == 1 && stripe_size.is_some() {
        return Err(pointless(&table, "stripe_size", "a linear volume"));
    }
    Ok(DeviceSpec::Lvm(Lvm { stripes, stripe_size, disks }))
}

fn pool(table: Section<'_>) -> Result<DeviceSpec, PlanError> {
    let PoolKeys { disks } = table.read()?;
    match disks.len() {
        1 => Err(too_many_or_few(
            &table,
            "at least 2 disks; one alone is `image` or `block`".to_string(),
            &disks,
        )),
        _ => Ok(DeviceSpec::Pool(Pool { disks })),
    }
}

/// Bytes written to one disk before moving on to the next.
fn chunk(table: &Section<'_>, key: &'static str) -> Result<Option<Bytes>, PlanError> {
    match table.unit::<Bytes>(key)? {
        Some(size) if size < LEAST_CHUNK || !size.0.is_power_of_two() => {
            Err(table.refuse(key, format!("a power of two and at least {LEAST_CHUNK}")))
        }
        size => Ok(size),
    }
}

/// The disks of a stack: a list of tables, or one table with a number of identical images.
fn disks(table: &Section<'_>, key: &'static str) -> Result<Option<Vec<DeviceSpec>>, PlanError> {
    let Some(node) = table.get(key) else { return Ok(None) };
    let own = |node| Section::new(table.document(), node, format!("{} disks", table.name));
    let disks = match &node.value {
        Value::Array(nodes) => {
            nodes.iter().map(|node| member_of(&own(node)?)).collect::<Result<Vec<_>, _>>()?
        }
        _ => alike(&own(node)?)?,
    };
    if disks.is_empty() || disks.len() > MAX_DISKS as usize {
        return Err(too_many_or_few(table, format!("a list of 1 to {MAX_DISKS} disks"), &disks));
    }
    let mut paths: Vec<_> = disks.iter().map(DeviceSpec::path).collect();
    paths.sort();
    if let Some(twice) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        let path = twice[0].display().to_string();
        return Err(table.error(key, PlanProblem::SameDevice { path }));
    }
    let like_first = |disk: &DeviceSpec| match (disk, &disks[0]) {
        (DeviceSpec::Image(one), DeviceSpec::Image(first)) => {
            *one == Image { path: one.path.clone(), ..first.clone() }
        }
        _ => false,
    };
    if disks.iter().any(|disk| disk.model().is_some()) && !disks.iter().all(like_first) {
        return Err(table.refuse(key, "disks that are alike but for their paths, as some have a model"));
    }
    Ok(Some(disks))
}

fn too_many_or_few(table: &Section<'_>, expected: String, disks: &[DeviceSpec]) -> PlanError {
    let found = disks.len().to_string();
    table.error("disks", PlanProblem::Value { key: "disks".to_string(), expected, found })
}

/// Images of the same name with numbers appended, from 1 to `count`.
fn alike(table: &Section<'_>) -> Result<Vec<DeviceSpec>, PlanError> {
    table.only(&[&DISK.concat(), AlikeKeys::NAMES].concat())?;
    let kind = exactly_one(table, &KINDS)?;
    if kind == "block" {
        return Err(
            table.refuse("block", "a list of disks such as [{ block = \"...\" }, { block = \"...\" }]")
        );
    }
    let AlikeKeys { count } = AlikeKeys::read(table)?;
    let first = member(table, kind)?;
    let numbered = |number: u32| {
        first.on_other_disks(&mut |disk| {
            let DeviceSpec::Image(image) = disk else { return Ok(disk.clone()) };
            Ok(DeviceSpec::Image(image.named_after(&format!(".{number}"))))
        })
    };
    (1..=count).map(numbered).collect()
}
