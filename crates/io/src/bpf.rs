//! Kernel programs that see packets before any socket does (XDP), and the memory that they share with this process.
//!
//! ```text
//!   octets of a program ─▶ Program ─ attach ─▶ Attached      it ends when the last of them is dropped, or the process ends
//!                            └── Map ── read and written by both
//! ```
//!
//! Nothing is pinned, so the programs of a killed process are removed. System calls are made directly, because the
//! usual libraries load object files of a C compiler, and there are none here.
//!
//! Limits: Linux 5.18 (packets in pieces), root or `CAP_BPF` with `CAP_NET_ADMIN`.

use crate::udp::set_option;
use skyhaul_core::hint::Hint;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PROGRAM_LOAD: libc::c_long = 5;
const TEST_RUN: libc::c_long = 10;
const LINK_CREATE: libc::c_long = 28;

const SOCKET_FILTER: u32 = 1;
const XDP_PROGRAM: u32 = 6;
const XDP_ATTACH: u32 = 37;
/// A packet may be in pieces.
const IN_PIECES: u32 = 1 << 5;
const LICENSE: &CStr = c"Apache-2.0";
/// What the verifier writes, at most.
const LOG: usize = 1 << 20;

/// Calls `bpf`; `what` holds the arguments of the command.
///
/// # Safety
/// Addresses in `what` must be of memory as large as the command asks for, and live during the call.
unsafe fn call<T>(command: libc::c_long, what: &mut T) -> io::Result<libc::c_long> {
    // SAFETY: the kernel reads and writes `what` within its size; the caller answers for addresses in it.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(what), size_of::<T>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}

/// Like [`call`], of commands that return a descriptor.
///
/// # Safety
/// As [`call`]; the command returns a new descriptor.
unsafe fn open<T>(command: libc::c_long, what: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller answers for it.
    let descriptor = unsafe { call(command, what) }?;
    // SAFETY: the kernel gave us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

fn hinted(what: &str, error: &io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => Some("run as root, or with CAP_BPF and CAP_NET_ADMIN"),
        Some(libc::ENOSYS) => Some("use a kernel with bpf(2)"),
        _ => None,
    };
    let hint = hint.map(|hint| Hint(hint).to_string()).unwrap_or_default();
    io::Error::new(error.kind(), format!("{what}: {error}{hint}"))
}

#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    steps: u32,
    octets: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    answer: u32,
    input_bytes: u32,
    output_bytes: u32,
    input: u64,
    output: u64,
    repeat: u32,
    nanos: u32,
    context_input_bytes: u32,
    context_output_bytes: u32,
    context_input: u64,
    context_output: u64,
}

#[repr(C)]
struct Attach {
    program: u32,
    interface: u32,
    kind: u32,
    flags: u32,
}

/// A program that the kernel found safe.
#[derive(Debug)]
pub struct Program(OwnedFd);

impl Program {
    /// Loads a program for packets, which may be in several buffers.
    ///
    /// # Errors
    /// There is no permission, or the kernel does not accept the program as safe: the error ends with the kernel's
    /// message.
    pub fn load(steps: &[[u8; 8]]) -> io::Result<Program> {
        let load = Load { kind: XDP_PROGRAM, flags: IN_PIECES, attach: XDP_ATTACH, ..Load::default() };
        Program::load_as(load, steps)
    }

    /// Loads a program that judges the packets of a socket.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_filter(steps: &[[u8; 8]]) -> io::Result<Program> {
        Program::load_as(Load { kind: SOCKET_FILTER, ..Load::default() }, steps)
    }

    /// Lets the program judge all packets of this socket from now on, in place of another.
    ///
    /// # Errors
    /// A system error.
    pub fn filter(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_BPF, &self.0.as_raw_fd())
    }

    fn load_as(mut load: Load, steps: &[[u8; 8]]) -> io::Result<Program> {
        (load.steps, load.octets) = (steps.len() as u32, steps.as_ptr() as u64);
        (load.license, load.name) = (LICENSE.as_ptr() as u64, *b"skyhaul\0\0\0\0\0\0\0\0\0");
        // SAFETY: there are so many steps and a license, which live until after the call; a descriptor is returned.
        let first = match unsafe { open(PROGRAM_LOAD, &mut load) } {
            Ok(descriptor) => return Ok(Program(descriptor)),
            Err(error) => error,
        };
        let what = "load a program for packets into the kernel";
        if matches!(first.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) {
            return Err(hinted(what, &first));
        }
        // Once more, to get the reason.
        let mut log = vec![0u8; LOG];
        (load.log_level, load.log_bytes, load.log) = (1, LOG as u32, log.as_mut_ptr() as u64);
        // SAFETY: as above, and the log has that many bytes.
        match unsafe { open(PROGRAM_LOAD, &mut load) } {
            Ok(descriptor) => Ok(Program(descriptor)),
            // Of the first attempt: this one may have failed for the length of the log.
            Err(_) => {
                let said = String::from_utf8_lossy(&log);
                let lines: Vec<&str> = said.trim_end_matches('\0').lines().collect();
                let last = lines[lines.len().saturating_sub(12)..].join("\n  ");
                Err(hinted(&format!("{what}: {last}"), &first))
            }
        }
    }

    /// Run it over one packet without sending anything. Returns its answer and the packet afterwards.
    ///
    /// # Errors
    /// A system error: no permission, or a packet that is too short or too long for it.
    pub fn test(&self, packet: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        self.run(packet, 1).map(|(answer, output, _)| (answer, output))
    }

    /// Mean time of one run over a packet, which the program must not change, over `runs` runs.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn time(&self, packet: &[u8], runs: u32) -> io::Result<Duration> {
        self.run(packet, runs).map(|(_, _, nanos)| Duration::from_nanos(nanos.into()))
    }

    fn run(&self, packet: &[u8], repeat: u32) -> io::Result<(u32, Vec<u8>, u32)> {
        let mut output = vec![0u8; packet.len() + 256];
        let mut run = Run {
            program: self.0.as_raw_fd() as u32,
            input_bytes: packet.len() as u32,
            output_bytes: output.len() as u32,
            input: packet.as_ptr() as u64,
            output: output.as_mut_ptr() as u64,
            repeat,
            ..Run::default()
        };
        // SAFETY: all of these are as long as is said, and live until after the call.
        unsafe { call(TEST_RUN, &mut run) }.map_err(|error| hinted("try a program", &error))?;
        output.truncate(run.output_bytes as usize);
        Ok((run.answer, output, run.nanos))
    }

    /// Attaches the program to the packets that arrive at `interface`.
    ///
    /// # Errors
    /// The interface's driver does not support it, or another program is attached: the error has a hint.
    pub fn attach(&self, interface: u32, place: Place) -> io::Result<Attached> {
        let flags = match place {
            Place::Driver => 1 << 2,
            Place::Stack => 1 << 1,
        };
        let program = self.0.as_raw_fd() as u32;
        let mut attach = Attach { program, interface, kind: XDP_ATTACH, flags };
        // SAFETY: there are no addresses in it, and a descriptor is returned.
        match unsafe { open(LINK_CREATE, &mut attach) } {
            Ok(descriptor) => Ok(Attached { _link: descriptor, place }),
            Err(error) => {
                let hint = match error.raw_os_error() {
                    Some(libc::EBUSY | libc::EEXIST) => {
                        Hint("another program is there (`ip link` shows it)").to_string()
                    }
                    Some(libc::EOPNOTSUPP) if place == Place::Driver => {
                        "; its driver has no place for programs".to_owned()
                    }
                    Some(libc::ERANGE | libc::EINVAL) => {
                        Hint("its MTU may be too long for its driver's programs").to_string()
                    }
                    _ => String::new(),
                };
                let text = format!("attach a program in {}: {error}{hint}", place.name());
                Err(io::Error::new(error.kind(), text))
            }
        }
    }
}

/// Where in the kernel a program sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the driver, before the kernel processes the packets.
    Driver,
    /// Behind it, when trains may have been joined: with every driver, and slower.
    Stack,
}

impl Place {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Place::Driver => "the driver",
            Place::Stack => "the stack",
        }
    }
}

/// A program at work. It ends when this is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
    /// Where it is.
    pub place: Place,
}

/// The time in nanoseconds of the clock that the programs also use.
#[must_use]
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Since the start of this host: never negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

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

    /// `elements` elements of `bytes` bytes each, a multiple of eight, and all of them in memory, one after the other.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn mapped(bytes: usize, elements: u32) -> io::Result<(Map, Words)> {
        let create = Create { entries: elements, ..Map::one(ARRAY, bytes, MAPPABLE) };
        let map = Map::create("shared memory", create, 1)?;
        let words = Words::map(&map, bytes / 8 * elements as usize)?;
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
pub(crate) fn possible_processors() -> io::Result<usize> {
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

impl Words {
    /// Number `at`, 0 if there is none.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> u64 {
        if at >= self.count {
            return 0;
        }
        // SAFETY: it is one of `count` numbers, in memory that lives as long as `self`.
        let word = unsafe { self.first.add(at) };
        // SAFETY: as above; everyone writes it as a whole.
        unsafe { word.as_ref() }.load(Ordering::Acquire)
    }

    /// Their first byte, with the right to write all of them.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.first.cast()
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[AtomicU64] {
        // SAFETY: so many are mapped as long as `self` lives, and everyone writes them as atomics, or as bytes whose value is
        // anyone's: the kernel's copies are not known to the compiler.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody else has the address.
        unsafe { libc::munmap(self.first.as_ptr().cast(), 8 * self.count) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_shared_and_a_bad_program_refused_with_a_reason() {
        let (map, words) = match Map::shared(2) {
            Ok(both) => both,
            Err(error) => {
                assert!(error.to_string().contains("hint: "), "{error}");
                return eprintln!("SKIPPED: {error}");
            }
        };
        words.set(1, 77);
        words.set(2, 78);
        assert_eq!(map.read().unwrap(), [0u64.to_ne_bytes(), 77u64.to_ne_bytes()].concat());
        let (one, two) = (Map::of(&[1; 8]).unwrap(), Map::of(&[2; 8]).unwrap());
        let holder = Map::holder(&one).unwrap();
        holder.hold(&two).unwrap();
        assert_eq!(two.read().unwrap(), [2; 8]);
        let counters = Map::per_processor(24).unwrap().read().unwrap();
        assert_eq!((counters.len() % 24, counters.iter().max()), (0, Some(&0)));
        // exit, without an answer
        let error = Program::load(&[[0x95, 0, 0, 0, 0, 0, 0, 0]]).unwrap_err().to_string();
        assert!(error.contains("R0 !read_ok"), "{error}");
        // r0 = 2; exit
        let program = Program::load(&[[0xB7, 0, 0, 0, 2, 0, 0, 0], [0x95, 0, 0, 0, 0, 0, 0, 0]]).unwrap();
        assert_eq!(program.test(&[7; 60]).unwrap(), (2, vec![7; 60]));
        let error = program.attach(999_999, Place::Driver).unwrap_err().to_string();
        assert!(error.contains("attach a program in the driver"), "{error}");
    }
}
