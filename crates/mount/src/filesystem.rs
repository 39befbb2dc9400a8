//! The kernel's side: one directory with a file for each datastream.
//!
//! Files that grow are read past the page cache, so that their end is where it is now; finished ones through it.

use crate::names::ROOT;
use crate::served::{OpenScan, Respond, Served, ServedFile};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, Request,
};
use skyhaul::recording::{ExtentContent, ScanExtent};
use skyhaul_io::lock::lock;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

/// Bytes that the kernel asks for at once, at most.
pub(crate) const MAX_READ_BYTES: u32 = 1 << 20;
/// How long the kernel may believe what it was told of a file.
const ATTRIBUTES_TTL: Duration = Duration::from_secs(1);
/// The same for one that grows.
const GROWING_TTL: Duration = Duration::from_millis(50);
/// Requests of read-ahead that the kernel has under way.
const MAX_BACKGROUND: u16 = 32;
/// Without an index, a file whose last chunk is older than this is taken to be finished.
const SETTLED_AGE: Duration = Duration::from_secs(600);
const BLOCK_BYTES: u32 = 4096;

pub(crate) struct ScanFilesystem {
    served: Arc<Served>,
    /// Open files by their handles, and whether each is read past the page cache.
    open: Mutex<HashMap<u64, (Arc<OpenScan>, bool)>>,
    next: AtomicU64,
    mounted: SystemTime,
    owner: (u32, u32),
}

impl ScanFilesystem {
    pub(crate) fn new(served: Arc<Served>) -> Self {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        Self { served, open: Mutex::default(), next: AtomicU64::new(1), mounted: SystemTime::now(), owner }
    }

    fn attributes(&self, inode: u64, size: u64, time: SystemTime, kind: FileType) -> FileAttr {
        let (perm, nlink) = if kind == FileType::Directory { (0o555, 2) } else { (0o444, 1) };
        FileAttr {
            ino: INodeNo(inode),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: MAX_READ_BYTES,
            flags: 0,
        }
    }

    fn of_file(&self, file: &ServedFile) -> (FileAttr, Duration) {
        let state = file.state();
        let ttl = if state.layout.is_growing { GROWING_TTL } else { ATTRIBUTES_TTL };
        (self.attributes(file.inode, file.bytes(), file.modified(), FileType::RegularFile), ttl)
    }

    fn root(&self) -> FileAttr {
        self.attributes(ROOT, 0, self.mounted, FileType::Directory)
    }

    fn handle(&self, handle: FileHandle) -> Option<(Arc<OpenScan>, bool)> {
        lock(&self.open).get(&handle.0).cloned()
    }
}

/// A read of the kernel.
struct KernelRead(ReplyData);

impl Respond for KernelRead {
    fn data(self: Box<Self>, bytes: &[u8]) {
        self.0.data(bytes);
    }

    fn error(self: Box<Self>) {
        self.0.error(Errno::EIO);
    }
}

impl Filesystem for ScanFilesystem {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.set_max_write(MAX_READ_BYTES);
        if let Err(most) = config.set_max_readahead(MAX_READ_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        for wanted in [
            InitFlags::FUSE_ASYNC_READ,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let tree = self.served.tree();
        let file = name.to_str().filter(|_| parent.0 == ROOT).and_then(|name| tree.by_name.get(name));
        let Some(file) = file else { return reply.error(Errno::ENOENT) };
        let (attributes, ttl) = self.of_file(file);
        reply.entry(&ttl, &attributes, Generation(0));
    }

    fn getattr(&self, _: &Request, inode: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        if inode.0 == ROOT {
            return reply.attr(&ATTRIBUTES_TTL, &self.root());
        }
        // A file that is open stays what it was, whatever has its name now.
        let open = handle.and_then(|handle| self.handle(handle)).map(|(open, _)| Arc::clone(&open.file));
        let Some(file) = open.or_else(|| self.served.tree().by_inode.get(&inode.0).cloned()) else {
            return reply.error(Errno::ENOENT);
        };
        let (attributes, ttl) = self.of_file(&file);
        reply.attr(&ttl, &attributes);
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let Some(file) = self.served.tree().by_inode.get(&inode.0).cloned() else {
            return reply.error(Errno::ENOENT);
        };
        let is_direct = is_direct(&file);
        let flags = match is_direct {
            true => FopenFlags::FOPEN_DIRECT_IO,
            // What was filled because a disk failed may be there when it is opened again.
            false if self.served.fills() => FopenFlags::empty(),
            false => FopenFlags::FOPEN_KEEP_CACHE,
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.open).insert(number, (Arc::new(self.served.open(file)), is_direct));
        reply.opened(FileHandle(number), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // In the page cache, an answer that is too short would be taken for zeros.
        let Some((open, is_partial)) = self.handle(handle) else { return reply.error(Errno::EBADF) };
        let size = u64::from(size.min(MAX_READ_BYTES));
        self.served.read(&open, (offset, size), is_partial, Box::new(KernelRead(reply)));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let closed = lock(&self.open).remove(&handle.0);
        closed.into_iter().for_each(|(open, _)| self.served.close(&open));
        reply.ok();
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if inode.0 != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let tree = self.served.tree();
        let dots = [".", ".."].map(|name| (ROOT, FileType::Directory, name));
        let files = tree.by_name.values().map(|file| (file.inode, FileType::RegularFile, &file.name[..]));
        let entries = dots.into_iter().chain(files);
        for (at, (inode, kind, name)) in
            entries.enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX))
        {
            if reply.add(INodeNo(inode), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (space, files) = (*lock(&self.served.space), self.served.tree().by_name.len() as u64);
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        let name_bytes = crate::names::MAX_NAME_BYTES as u32;
        reply.statfs(
            blocks(space.total_bytes),
            blocks(space.free_bytes),
            blocks(space.available_bytes),
            files,
            0,
            BLOCK_BYTES,
            name_bytes,
            BLOCK_BYTES,
        );
    }
}

/// Whether a file is read past the page cache: it grows or may grow, or bytes of it are known to be missing.
fn is_direct(file: &ServedFile) -> bool {
    let state = file.state();
    let is_new = file.modified().elapsed().is_ok_and(|age| age < SETTLED_AGE);
    let may_grow = file.session.is_empty() && is_new;
    let is_missing = |extent: &ScanExtent| match &extent.content {
        ExtentContent::Chunk(entry) => entry.bytes.is_none_or(|bytes| bytes < extent.bytes),
        ExtentContent::Missing(_) => true,
    };
    state.layout.is_growing || may_grow || state.layout.extents.iter().any(is_missing)
}
