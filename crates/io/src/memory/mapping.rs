//! One mapping, touched at start, with the largest pages the machine gives.
//!
//! Tried in this order: huge pages set aside (`MAP_HUGETLB`), transparent huge pages (`madvise`), 4 KiB pages. The
//! first two avoid the translation misses that a write to a block outside the cache otherwise costs; [`Pages::remedy`]
//! gives the advice to show if the system granted neither.

use crate::bpf::{Map, Words};
use skyhaul_core::hint::Hint;
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Unit of alignment in bytes, required by `O_DIRECT` and the page tables.
pub const ALIGN: usize = 4096;

pub(super) const HUGE: usize = 2 << 20;

/// Bytes touched before other threads can take the lock of the address space.
const TOUCHED_AT_ONCE: usize = HUGE;

/// Bytes returned to the kernel before others can take the lock: it needs 0.17 s for 4 GiB of small pages at once.
const RETURNED_AT_ONCE: usize = 32 << 20;

/// Length of the pause in which others can take the lock. Without it, this thread would take the lock again before a
/// thread woken for it has run (for up to 4 ms).
const TURN: Duration = Duration::from_micros(1);

/// Which pages back a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Huge pages reserved by the administrator (2 MiB).
    Huge,
    /// Transparent huge pages (2 MiB), at least for half of the pool.
    Transparent,
    /// Ordinary pages (4 KiB).
    Small,
}

impl Pages {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Pages::Huge => "huge",
            Pages::Transparent => "transparent_huge",
            Pages::Small => "small",
        }
    }

    /// Commands with which the user gets larger pages, for a pool of `bytes`.
    #[must_use]
    pub fn remedy(self, bytes: u64) -> Option<String> {
        let pages = bytes.div_ceil(HUGE as u64);
        (self == Pages::Small).then(|| {
            format!(
                "4 KiB pages cost translation misses; as root: `sysctl vm.nr_hugepages={pages}`, or \
                 `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` (for a shared pool: \
                 `echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`)"
            )
        })
    }
}

/// A mapping that is unmapped when dropped. Its bytes are reached through raw pointers only.
#[derive(Debug)]
pub(super) struct Mapping {
    /// The mapping from the kernel, to be unmapped.
    raw: NonNull<c_void>,
    raw_len: usize,
    /// The aligned part in use.
    base: NonNull<u8>,
    len: usize,
    pages: Pages,
    file: Option<OwnedFd>,
    kernel: Option<(Arc<Map>, Arc<Words>)>,
}

// SAFETY: a mapping is plain memory of the process, bound to no thread.
unsafe impl Send for Mapping {}
// SAFETY: `Mapping` itself reads and writes nothing; who uses its pointers answers for races.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Private memory of `len` bytes, aligned to 2 MiB.
    pub(super) fn anonymous(len: usize) -> io::Result<Mapping> {
        let whole = len.next_multiple_of(HUGE);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // Miri, which checks accesses to the memory, supports only this kind of mapping, and no advice.
        if !cfg!(miri) {
            let flags = MapFlags::PRIVATE | MapFlags::HUGETLB;
            // SAFETY: a fresh anonymous mapping where the kernel likes overlaps nothing.
            let huge = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), whole, protection, flags) };
            if let Ok(raw) = huge {
                return Self::finish(raw, whole, len, Pages::Huge, None);
            }
        }
        // Map 2 MiB more, so that it contains an aligned part of `len` bytes.
        let raw_len = whole + HUGE;
        // SAFETY: a fresh anonymous mapping where the kernel likes overlaps nothing.
        let raw =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), raw_len, protection, MapFlags::PRIVATE) }?;
        Self::finish(raw, raw_len, len, Pages::Transparent, None)
    }

    /// Memory of `len` bytes in a memory file of fixed size.
    pub(super) fn memory_file(len: usize) -> io::Result<Mapping> {
        let whole = len.next_multiple_of(HUGE);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let huge = Self::over_file(flags | MemfdFlags::HUGETLB, whole, len, Pages::Huge);
        huge.or_else(|_| Self::over_file(flags, whole, len, Pages::Transparent))
    }

    fn over_file(flags: MemfdFlags, whole: usize, len: usize, pages: Pages) -> io::Result<Mapping> {
        let file = rustix::fs::memfd_create("skyhaul-pool", flags)?;
        rustix::fs::ftruncate(&file, whole as u64)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let raw = map_file(file.as_fd(), whole, ProtFlags::READ | ProtFlags::WRITE)?;
        Self::finish(raw, whole, len, pages, Some(file))
    }

    /// Memory of the kernel for its programs: so many elements, one after the other. It is there from the start.
    pub(super) fn of_kernel(element_bytes: usize, elements: u32) -> io::Result<Mapping> {
        let (map, words) = Map::mapped(element_bytes, elements)?;
        let (base, len) = (words.start(), element_bytes * elements as usize);
        // The words unmap themselves.
        let (raw, raw_len, kernel) = (base.cast(), 0, Some((Arc::new(map), Arc::new(words))));
        Ok(Mapping { raw, raw_len, base, len, pages: Pages::Small, file: None, kernel })
    }

    /// The memory of the kernel behind it.
    pub(super) fn kernel(&self) -> Option<&(Arc<Map>, Arc<Words>)> {
        self.kernel.as_ref()
    }

    /// Another process's memory file, read only. The caller has checked that it cannot shrink.
    pub(super) fn read_only(file: OwnedFd, len: usize) -> io::Result<Mapping> {
        let raw = map_file(file.as_fd(), len, ProtFlags::READ)?;
        let base = NonNull::new(raw.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let raw = base.cast();
        Ok(Mapping { raw, raw_len: len, base, len, pages: Pages::Small, file: Some(file), kernel: None })
    }

    fn finish(
        raw: *mut c_void,
        raw_len: usize,
        len: usize,
        pages: Pages,
        file: Option<OwnedFd>,
    ) -> io::Result<Mapping> {
        // A file's mapping is exactly `raw_len` long, and used from its first byte.
        let skip = if file.is_some() { 0 } else { (raw as usize).next_multiple_of(HUGE) - raw as usize };
        let base = NonNull::new(raw.cast::<u8>().wrapping_add(skip)).ok_or(io::ErrorKind::OutOfMemory)?;
        let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { raw, raw_len, base, len, pages, file, kernel: None };
        if pages == Pages::Transparent && !cfg!(miri) {
            // SAFETY: the range is our own mapping; the advice changes no contents.
            let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        }
        Ok(mapping)
    }

    /// Make the kernel provide every page of `range` now, large ones if possible. No byte of it may be in use yet.
    ///
    /// Whoever maps or returns memory in any thread waits while the kernel's lock of the address space is held, and behind
    /// it every thread that needs the lock, such as a reader whose socket overflows meanwhile. `MADV_POPULATE_WRITE` holds
    /// it for the whole of a call (17 ms for 16 MiB were seen, 5 ms for 2 MiB). A write to a page needs only the lock of
    /// its mapping since Linux 6.4; but where there may be no page for it, in files and reserved pages, it would kill the
    /// process.
    pub(super) fn touch(&self, range: Range<usize>) -> io::Result<()> {
        if cfg!(miri) {
            return Ok(());
        }
        if self.pages == Pages::Transparent && self.file.is_some() {
            self.collapse(range.clone());
        }
        let unit = if self.pages == Pages::Huge { HUGE } else { ALIGN };
        let (from, to) = (range.start / unit * unit, range.end.min(self.len).next_multiple_of(unit));
        for at in (from..to).step_by(TOUCHED_AT_ONCE) {
            let part = at..to.min(at + TOUCHED_AT_ONCE);
            if self.pages == Pages::Huge || self.file.is_some() {
                self.populate(part)?;
            } else {
                self.write_to_pages(part);
            }
            std::thread::sleep(TURN);
        }
        Ok(())
    }

    /// Make the kernel provide the pages of `range`, which is page-aligned, or report that it has none.
    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        let start = self.base.as_ptr().wrapping_add(range.start).cast();
        // SAFETY: the range is in our own mapping; populating it keeps its contents.
        let done = unsafe { rustix::mm::madvise(start, range.len(), Advice::LinuxPopulateWrite) };
        match done {
            Ok(()) => Ok(()),
            // Kernels before 5.14 do not support it.
            Err(rustix::io::Errno::INVAL) => {
                self.write_to_pages(range);
                Ok(())
            }
            Err(error) => Err(io::Error::new(
                io::Error::from(error).kind(),
                format!(
                    "the kernel provided no memory for the pool: {error}{}",
                    Hint("use a smaller --memory")
                ),
            )),
        }
    }

    /// Write a byte to each page of `range`.
    fn write_to_pages(&self, range: Range<usize>) {
        for at in range.step_by(ALIGN) {
            let page = self.base.as_ptr().wrapping_add(at);
            // SAFETY: `at` is in the mapping, and by the caller's word nobody uses it yet.
            unsafe { page.write_volatile(0) };
        }
    }

    /// Split off the first `whole` bytes, a multiple of 2 MiB, as a separate mapping of which `len` are used. For private
    /// memory only.
    ///
    /// # Panics
    /// If the mapping is shorter.
    pub(super) fn split_front(&mut self, whole: usize, len: usize) -> Mapping {
        assert!(whole.is_multiple_of(HUGE) && len <= whole && whole <= self.len && self.file.is_none());
        // The bytes before the aligned part belong to the front.
        let skip = self.base.as_ptr() as usize - self.raw.as_ptr() as usize;
        let front = Mapping {
            raw: self.raw,
            raw_len: skip + whole,
            base: self.base,
            len,
            pages: self.pages,
            file: None,
            kernel: None,
        };
        let base = self.base.as_ptr().wrapping_add(whole);
        self.base = NonNull::new(base).unwrap_or(self.base);
        self.raw = self.base.cast();
        self.raw_len -= skip + whole;
        self.len -= whole;
        front
    }

    /// Request huge pages directly: memory files get none by advice if `shmem_enabled` is `never`, the usual setting.
    /// Kernels before 6.1 refuse.
    fn collapse(&self, range: Range<usize>) {
        let range = range.start.next_multiple_of(HUGE)..range.end.min(self.len) / HUGE * HUGE;
        // Touch one small page in each, so that there is something to collapse, and the rest is not faulted in twice.
        for at in range.clone().step_by(HUGE) {
            let page = self.base.as_ptr().wrapping_add(at);
            // SAFETY: `at` is in the mapping, and by the caller's word nobody uses it yet.
            unsafe { page.write_volatile(0) };
        }
        let start = self.base.as_ptr().wrapping_add(range.start).cast::<libc::c_void>();
        // SAFETY: the range is in our own mapping; collapsing keeps its contents.
        let _ = unsafe { libc::madvise(start, range.len(), libc::MADV_COLLAPSE) };
    }

    /// Whether at least half of its first `touched` bytes are on transparent huge pages, according to the kernel.
    fn is_huge(&self, touched: usize) -> bool {
        let Ok(text) = std::fs::read_to_string("/proc/self/smaps") else { return false };
        let (from, to) = (self.base.as_ptr() as usize, self.base.as_ptr() as usize + self.len);
        let (mut inside, mut huge_kib) = (false, 0);
        for line in text.lines() {
            let word = line.split_whitespace().next().unwrap_or_default();
            if let Some((a, b)) = word.split_once('-')
                && let (Ok(a), Ok(b)) = (usize::from_str_radix(a, 16), usize::from_str_radix(b, 16))
            {
                inside = a < to && b > from;
            } else if inside && (word == "AnonHugePages:" || word == "ShmemPmdMapped:") {
                let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<usize>().ok());
                huge_kib += kib.unwrap_or_default();
            }
        }
        huge_kib * 1024 * 2 >= touched
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The kind of its pages, judged from its first `touched` bytes.
    pub(super) fn pages(&self, touched: usize) -> Pages {
        let is_huge = || !cfg!(miri) && self.is_huge(touched);
        if self.pages == Pages::Transparent && !is_huge() { Pages::Small } else { self.pages }
    }

    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

fn map_file(file: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> io::Result<*mut c_void> {
    // SAFETY: a fresh mapping where the kernel likes overlaps nothing; its bytes are reached by raw pointers.
    let raw = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0) };
    Ok(raw?)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.raw_len == 0 {
            return;
        }
        for at in (0..self.raw_len).step_by(RETURNED_AT_ONCE) {
            if at > 0 {
                std::thread::sleep(TURN);
            }
            let part = self.raw.as_ptr().wrapping_byte_add(at);
            // SAFETY: `raw` and `raw_len` are what mmap gave; every user of the bytes holds the pool that holds this.
            let _ = unsafe { rustix::mm::munmap(part, RETURNED_AT_ONCE.min(self.raw_len - at)) };
        }
    }
}
