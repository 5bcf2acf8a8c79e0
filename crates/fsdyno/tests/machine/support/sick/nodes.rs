//! The files and directories of the sick filesystem, in memory.

use fuser::{Errno, FileAttr, FileType, INodeNo};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Every file and directory, by its number.
pub(super) struct Nodes {
    nodes: HashMap<u64, Node>,
    last: u64,
    /// The number of files that each path has had.
    made: HashMap<PathBuf, u32>,
}

struct Node {
    parent: u64,
    name: OsString,
    predecessors: u32,
    /// `true` if it has lost its last name, and disappears when it is no longer used.
    unlinked: bool,
    content: Content,
}

pub(super) enum Content {
    File(Sparse),
    Directory(BTreeMap<OsString, u64>),
}

/// The bytes of a file, in pieces that exist once they have been written.
#[derive(Default)]
pub(super) struct Sparse {
    size: u64,
    pieces: BTreeMap<u64, Box<[u8]>>,
}

const PIECE: u64 = 64 << 10;

impl Sparse {
    /// Calls `part` with each piece of a range: its number, and where the range begins and ends within it.
    fn parts(offset: u64, length: u64, mut part: impl FnMut(u64, std::ops::Range<usize>)) {
        let mut position = offset;
        while position < offset + length {
            let begin = position % PIECE;
            let end = PIECE.min(begin + offset + length - position);
            part(position / PIECE, begin as usize..end as usize);
            position += end - begin;
        }
    }

    pub(super) fn read(&self, offset: u64, length: u64) -> Vec<u8> {
        let length = length.min(self.size.saturating_sub(offset));
        let mut data = Vec::with_capacity(length as usize);
        Self::parts(offset, length, |number, range| match self.pieces.get(&number) {
            Some(piece) => data.extend_from_slice(&piece[range]),
            None => data.resize(data.len() + range.len(), 0),
        });
        data
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        Self::parts(offset, data.len() as u64, |number, range| {
            let piece = self.pieces.entry(number).or_insert_with(|| vec![0; PIECE as usize].into());
            let (now, later) = rest.split_at(range.len());
            piece[range].copy_from_slice(now);
            rest = later;
        });
        self.size = self.size.max(offset + data.len() as u64);
    }

    pub(super) fn zero(&mut self, offset: u64, length: u64) {
        Self::parts(offset, length, |number, range| {
            if range.len() as u64 == PIECE {
                self.pieces.remove(&number);
            } else if let Some(piece) = self.pieces.get_mut(&number) {
                piece[range].fill(0);
            }
        });
    }

    pub(super) fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size - size);
        }
        self.size = size;
    }

    /// Makes the file at least this long.
    pub(super) fn extend(&mut self, size: u64) {
        self.size = self.size.max(size);
    }
}

impl Nodes {
    /// An empty root directory.
    pub(super) fn new() -> Self {
        let root = Node {
            parent: INodeNo::ROOT.0,
            name: OsString::new(),
            predecessors: 0,
            unlinked: false,
            content: Content::Directory(BTreeMap::new()),
        };
        let last = INodeNo::ROOT.0;
        Nodes { nodes: HashMap::from([(last, root)]), last, made: HashMap::new() }
    }

    /// The path of a node, or of a name in it, and how many others had that path before.
    pub(super) fn known_as(&self, number: u64, name: Option<&OsStr>) -> (PathBuf, u32) {
        let path = self.path(number);
        let path = name.map_or(path.clone(), |name| path.join(name));
        let meant = name.map_or(Ok(number), |name| self.child(number, name));
        let node = meant.ok().and_then(|number| self.nodes.get(&number));
        (path, node.map_or(0, |node| node.predecessors))
    }

    /// Drops a node that is no longer used.
    pub(super) fn forget(&mut self, number: u64) {
        if self.nodes.get(&number).is_some_and(|node| node.unlinked) {
            self.nodes.remove(&number);
        }
    }

    pub(super) fn child(&self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        match &self.nodes.get(&parent).ok_or(Errno::ENOENT)?.content {
            Content::Directory(children) => children.get(name).copied().ok_or(Errno::ENOENT),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    fn children(&mut self, directory: u64) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        match self.nodes.get_mut(&directory).map(|node| &mut node.content) {
            Some(Content::Directory(children)) => Ok(children),
            Some(Content::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    pub(super) fn file(&mut self, number: u64) -> Result<&mut Sparse, Errno> {
        match self.nodes.get_mut(&number).map(|node| &mut node.content) {
            Some(Content::File(file)) => Ok(file),
            Some(Content::Directory(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn path(&self, number: u64) -> PathBuf {
        match self.nodes.get(&number) {
            Some(node) if number != INodeNo::ROOT.0 => self.path(node.parent).join(&node.name),
            _ => PathBuf::new(),
        }
    }

    /// Counts the files of a path.
    fn predecessors(&mut self, parent: u64, name: &OsStr) -> u32 {
        let made = self.made.entry(self.path(parent).join(name)).or_default();
        *made += 1;
        *made - 1
    }

    pub(super) fn add(&mut self, parent: u64, name: &OsStr, content: Content) -> Result<FileAttr, Errno> {
        if self.child(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let predecessors = self.predecessors(parent, name);
        self.last += 1;
        let number = self.last;
        self.children(parent)?.insert(name.to_os_string(), number);
        let node = Node { parent, name: name.to_os_string(), predecessors, unlinked: false, content };
        self.nodes.insert(number, node);
        self.attributes(number)
    }

    pub(super) fn remove(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        let number = self.child(parent, name)?;
        if self.children(number).is_ok_and(|children| !children.is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        self.children(parent)?.remove(name);
        self.nodes.get_mut(&number).ok_or(Errno::ENOENT)?.unlinked = true;
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        replace: bool,
    ) -> Result<(), Errno> {
        let number = self.child(from.0, from.1)?;
        match self.child(to.0, to.1) {
            Ok(_) if !replace => return Err(Errno::EEXIST),
            Ok(_) => self.remove(to.0, to.1)?,
            Err(_) => {}
        }
        self.children(from.0)?.remove(from.1);
        self.children(to.0)?.insert(to.1.to_os_string(), number);
        let predecessors = self.predecessors(to.0, to.1);
        let node = self.nodes.get_mut(&number).ok_or(Errno::ENOENT)?;
        (node.parent, node.name, node.predecessors) = (to.0, to.1.to_os_string(), predecessors);
        Ok(())
    }

    /// The entry of a directory that follows this offset: the next offset, its number, kind and name. Numbers
    /// only grow, so that no entry is skipped when another one is removed.
    pub(super) fn entry(
        &self,
        directory: u64,
        offset: u64,
    ) -> Result<Option<(u64, u64, FileType, OsString)>, Errno> {
        let node = self.nodes.get(&directory).ok_or(Errno::ENOENT)?;
        let Content::Directory(children) = &node.content else { return Err(Errno::ENOTDIR) };
        Ok(match offset {
            0 => Some((1, directory, FileType::Directory, ".".into())),
            1 => Some((2, node.parent, FileType::Directory, "..".into())),
            _ => children
                .iter()
                .filter(|(_, number)| **number + 2 > offset)
                .min_by_key(|(_, number)| **number)
                .and_then(|(name, number)| {
                    Some((number + 2, *number, self.nodes.get(number)?.kind(), name.clone()))
                }),
        })
    }

    pub(super) fn attributes(&self, number: u64) -> Result<FileAttr, Errno> {
        let node = self.nodes.get(&number).ok_or(Errno::ENOENT)?;
        let (size, blocks, perm) = match &node.content {
            Content::File(file) => (file.size, file.pieces.len() as u64 * (PIECE / 512), 0o644),
            Content::Directory(_) => (4096, 8, 0o755),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: node.kind(),
            perm,
            nlink: u32::from(!node.unlinked),
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl Node {
    fn kind(&self) -> FileType {
        match self.content {
            Content::File(_) => FileType::RegularFile,
            Content::Directory(_) => FileType::Directory,
        }
    }
}
