//! Memory that programs in the kernel share with us.

use super::{call, hinted, open};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;

const ARRAY: u32 = 2;
const PER_PROCESSOR_ARRAY: u32 = 6;
const ARRAY_OF_MAPS: u32 = 12;
/// A map's values can be mapped into memory.
const MAPPABLE: u32 = 1 << 10;

#[repr(C)]
#[derive(Default)]
struct Create {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
    inner: u32,
}

#[repr(C)]
struct Element {
    map: u32,
    zero: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// A kernel array with one element.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    /// Size of the element, for all CPUs together, bytes.
    bytes: usize,
}

impl Map {
    fn create(what: &str, mut create: Create, copies: usize) -> io::Result<Map> {
        let bytes = create.value as usize * copies;
        // SAFETY: there are no addresses in it, and a new map's descriptor is returned.
        let descriptor = unsafe { open(MAP_CREATE, &mut create) };
        let descriptor = descriptor.map_err(|error| hinted(&format!("make {what} in the kernel"), &error))?;
        Ok(Map { descriptor, bytes })
    }

    fn one(kind: u32, value: usize, flags: u32) -> Create {
        Create { kind, key: 4, value: value as u32, entries: 1, flags, inner: 0 }
    }

    /// Creates a map with these contents.
    ///
    /// # Errors
    /// There is no memory or no permission: the error has a hint.
    pub fn of(octets: &[u8]) -> io::Result<Map> {
        let map = Map::create("a table", Map::one(ARRAY, octets.len(), 0), 1)?;
        map.update(octets)?;
        Ok(map)
    }

    /// A place for one of several maps like `first`, which it has.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn holder(first: &Map) -> io::Result<Map> {
        let inner = first.number() as u32;
        let map = Map::create("a place for tables", Create { inner, ..Map::one(ARRAY_OF_MAPS, 4, 0) }, 1)?;
        map.hold(first)?;
        Ok(map)
    }

    /// Hold `next` from now on. When this returns, no program uses the former one.
    ///
    /// # Errors
    /// A system error.
    pub fn hold(&self, next: &Map) -> io::Result<()> {
        self.update(&next.number().to_ne_bytes())
    }

    /// Creates a map with `bytes` bytes for each CPU.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn per_processor(bytes: usize) -> io::Result<Map> {
        let all = Map::one(PER_PROCESSOR_ARRAY, bytes.next_multiple_of(8), 0);
        Map::create("counters", all, possible_processors()?)
    }

    /// `words` numbers that can be read and written without a system call.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn shared(words: usize) -> io::Result<(Map, Words)> {
        let map = Map::create("shared memory", Map::one(ARRAY, 8 * words, MAPPABLE), 1)?;
        let words = Words::map(&map, words)?;
        Ok((map, words))
    }

    /// The number of its descriptor.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn update(&self, octets: &[u8]) -> io::Result<()> {
        let key = 0u32;
        let (key, value) = (std::ptr::from_ref(&key) as u64, octets.as_ptr() as u64);
        let mut element = Element { map: self.number() as u32, zero: 0, key, value, flags: 0 };
        debug_assert_eq!(octets.len(), self.bytes);
        // SAFETY: a key has 4 bytes, and a value of this map as many as `octets`; both live until after the call.
        unsafe { call(MAP_UPDATE, &mut element) }.map_err(|error| hinted("write to the kernel", &error))?;
        Ok(())
    }

    /// Returns its contents; for a per-CPU map, those of all CPUs one after the other.
    ///
    /// # Errors
    /// A system error.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let (key, mut octets) = (0u32, vec![0u8; self.bytes]);
        let (key, value) = (std::ptr::from_ref(&key) as u64, octets.as_mut_ptr() as u64);
        let mut element = Element { map: self.number() as u32, zero: 0, key, value, flags: 0 };
        // SAFETY: a key has 4 bytes; `octets` has room for the value of every processor that there can be.
        unsafe { call(MAP_LOOKUP, &mut element) }.map_err(|error| hinted("read from the kernel", &error))?;
        Ok(octets)
    }
}

/// Processors that this kernel can ever have: it counts for each.
fn possible_processors() -> io::Result<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map(|last| last + 1).ok_or_else(|| io::Error::other(format!("no number of processors: {text}")))
}

/// Numbers shared with a kernel program.
#[derive(Debug)]
pub struct Words {
    first: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: they are atomic, and their memory is unmapped only when they are dropped.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    fn map(map: &Map, count: usize) -> io::Result<Words> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let at = std::ptr::null_mut();
        // SAFETY: a new mapping, of the map's own memory.
        let first = unsafe { libc::mmap(at, 8 * count, protection, flags, map.number(), 0) };
        if first == libc::MAP_FAILED {
            return Err(hinted("map memory of the kernel", &io::Error::last_os_error()));
        }
        let first = NonNull::new(first.cast()).ok_or_else(|| io::Error::other("memory at address 0"))?;
        Ok(Words { first, count })
    }

    /// Write number `at`, if there is one.
    pub fn set(&self, at: usize, value: u64) {
        if at < self.count {
            // SAFETY: it is one of `count` numbers, in memory that lives as long as `self`.
            let word = unsafe { self.first.add(at) };
            // SAFETY: as above; everyone writes it as a whole.
            unsafe { word.as_ref() }.store(value, Ordering::Release);
        }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody else has the address.
        unsafe { libc::munmap(self.first.as_ptr().cast(), 8 * self.count) };
    }
}
