//! Reads one file: its bytes, their checksum, and its frames or packets; and whether they verify it.
//!
//! ```text
//!   reads     │            4 MiB            │            4 MiB            │
//!   frames    │ frame │ frame │ frame │ fra… me │ frame │                     each inspected whole
//!   packets   │ head │ payload             … payload │ head │ payload │      heads are kept, payload is not
//! ```
//!
//! A chunk is verified by its index record: length and CRC-32C. A file without a record is verified as far as its frame
//! headers go: all legal, all of one length, in order of time, and between those of its neighbours.

use crate::frames::{self, FrameReader, FramesOf};
use crate::recording::asked::{self, DiskCall};
use crate::recording::contents::Time;
use crate::recording::index::record::{ChunkRecord, Datastream};
use skyhaul_core::pattern;
use skyhaul_core::placement::{Key, Placement};
use skyhaul_core::wire::{FrameSeen, FrameTime, Packets, Sighting, Trace};
use skyhaul_io::disk::{Source, open_regular, while_waiting};
use skyhaul_io::memory::Block;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Bytes of one read.
pub(super) const READ_BYTES: usize = 4 << 20;
/// How long opening a file, or one read, may take. A disk that tries a bad sector again and again takes tens of seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Read at most `most` bytes of the file at `path`, from `offset` on, into blocks of `next`, and hand each with its length to
/// `take`. Ends early, with an error, where `next` gives none, or where the disk hangs.
pub(in crate::recording) fn read_file(
    (path, offset): (&Path, u64),
    most: u64,
    mut cutter: Option<Cutter>,
    mut next: impl FnMut() -> Option<Block>,
    mut take: impl FnMut(Block, usize),
) -> Seen {
    let mut seen = Seen::default();
    let source = match Reading::open(path, offset, READ_TIMEOUT) {
        Ok(source) => source,
        Err(error) => return Seen { error: Some(error.to_string()), ..seen },
    };
    seen.bytes = source.length.saturating_sub(offset);
    let end = most.min(seen.bytes);
    if offset > 0 {
        // Other blocks follow in the file.
        seen.bytes = end;
    }
    while seen.read < end {
        let Some(block) = next() else {
            return Seen { error: Some("no memory to read into".to_owned()), ..seen };
        };
        let most = usize::try_from(end - seen.read).unwrap_or(usize::MAX);
        let (block, length) =
            match source.read(Ask { at: offset + seen.read, block, most, crc32c: seen.crc32c }) {
                Ok((_, 0, _)) => {
                    return Seen { error: Some("it was truncated while it was read".to_owned()), ..seen };
                }
                Ok((block, length, crc32c)) => {
                    seen.crc32c = crc32c;
                    (block, length)
                }
                Err(error) => return Seen { error: Some(error.to_string()), ..seen },
            };
        seen.read += length as u64;
        if let Some(cutter) = &mut cutter {
            cutter.feed(&block[..length], &mut seen);
        }
        let short = length < block.len();
        take(block, length);
        if short {
            break;
        }
    }
    if let Some(cutter) = cutter {
        cutter.finish(&mut seen);
    }
    seen
}

/// A file that is read by a thread of its own, because its disk may hang: the thread is left behind then, with the block that
/// it reads into. Further files of that directory are refused until it returns.
struct Reading {
    asks: Sender<Ask>,
    answers: Receiver<ReadAnswer>,
    call: Arc<DiskCall>,
    timeout: Duration,
    length: u64,
}

/// A read into a block.
struct Ask {
    at: u64,
    block: Block,
    /// Bytes that are wanted; more may be read.
    most: usize,
    /// The checksum of the bytes before. It goes on where the bytes are in the cache of the processor that read them.
    crc32c: u32,
}

enum ReadAnswer {
    Opened(io::Result<u64>),
    /// The block, and the bytes and checksum of what was wanted.
    Read(Block, io::Result<(usize, u32)>),
    /// It waits for a recording that writes to the disk.
    Waits,
}

impl Reading {
    fn open(path: &Path, offset: u64, timeout: Duration) -> io::Result<Self> {
        let directory = path.parent().unwrap_or(path);
        if is_refused(directory, timeout) {
            return Err(asked::silent());
        }
        let (asks, asked_for) = channel::<Ask>();
        let (tell, answers) = channel();
        let call = DiskCall::new(directory);
        let (path, ended) = (path.to_owned(), Arc::clone(&call));
        let run = move || {
            let waits = tell.clone();
            while_waiting(move || drop(waits.send(ReadAnswer::Waits)));
            let source = Source::open_at(&path, offset);
            let opened = source.as_ref().map(Source::len);
            // Who has gone needs no answer.
            let _ = tell.send(ReadAnswer::Opened(opened.map_err(copy_of)));
            if let Ok(source) = source {
                for Ask { at, mut block, most, crc32c } in &asked_for {
                    let read = source.read(at, &mut block).map(|length| {
                        let length = length.min(most);
                        (length, crc32c::crc32c_append(crc32c, &block[..length]))
                    });
                    let _ = tell.send(ReadAnswer::Read(block, read));
                }
            }
            // What was not taken goes back to its pool first.
            while_waiting(|| ());
            drop((tell, asked_for));
            ended.end();
        };
        std::thread::Builder::new().name("read-file".into()).spawn(run)?;
        let mut reading = Self { asks, answers, call, timeout, length: 0 };
        if let ReadAnswer::Opened(length) = reading.answer()? {
            reading.length = length?;
        }
        Ok(reading)
    }

    /// Fills a block, as [`Source::read`]: with the bytes that were wanted of it, and the checksum to these.
    fn read(&self, ask: Ask) -> io::Result<(Block, usize, u32)> {
        self.asks.send(ask).map_err(|_| asked::silent())?;
        match self.answer()? {
            ReadAnswer::Read(block, read) => read.map(|(length, crc32c)| (block, length, crc32c)),
            ReadAnswer::Opened(_) | ReadAnswer::Waits => Err(asked::silent()),
        }
    }

    /// The next answer, within the time that a disk has: that which a recording takes does not count.
    fn answer(&self) -> io::Result<ReadAnswer> {
        let answer = loop {
            match self.answers.recv_timeout(self.timeout) {
                Ok(ReadAnswer::Waits) => {}
                answer => break answer,
            }
        };
        answer.or_else(|_| match self.call.leave(self.timeout) {
            true => Err(asked::silent()),
            // It came in this moment.
            false => self.answers.try_recv().map_err(|_| asked::silent()),
        })
    }
}

/// An error, with its number if the system gave one.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Asks something of a file, on a thread of its own.
fn ask_of_file<T: Send + 'static>(
    path: &Path,
    question: impl Fn(&Path, &dyn Fn()) -> io::Result<T> + Send + Sync + 'static,
) -> io::Result<T> {
    let directory = path.parent().unwrap_or(path).to_owned();
    if is_refused(&directory, READ_TIMEOUT) {
        return Err(asked::silent());
    }
    let path = path.to_owned();
    // It is alone, and waited for twice as long.
    let answer = asked::ask(&[directory], READ_TIMEOUT / 2, move |_, _, alive| question(&path, alive));
    answer.into_iter().next().flatten().unwrap_or_else(|| Err(asked::silent()))
}

/// Whether something hangs in a directory of a scan, or on its disk, which is the parent.
fn is_refused(directory: &Path, timeout: Duration) -> bool {
    directory.ancestors().take(2).any(|place| asked::is_hanging(place, timeout))
}

/// So many bytes of a file, from an offset.
///
/// # Errors
/// A system error, the file is shorter, or its disk hangs.
pub(in crate::recording) fn read_part(path: &Path, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    ask_of_file(path, move |path, _| {
        let mut part = vec![0; bytes];
        std::os::unix::fs::FileExt::read_exact_at(&open_regular(path)?, &mut part, offset)?;
        Ok(part)
    })
}

/// CRC-32C of the first `bytes` bytes of a file.
///
/// # Errors
/// A system error, the file is shorter, or its disk hangs.
pub(in crate::recording) fn checksum(path: &Path, bytes: u64) -> io::Result<u32> {
    ask_of_file(path, move |path, alive| checksum_here(path, bytes, alive))
}

/// The same, by the thread that calls. `alive` is called after each read.
pub(in crate::recording) fn checksum_here(path: &Path, bytes: u64, alive: &dyn Fn()) -> io::Result<u32> {
    use std::io::Read;
    let mut file = open_regular(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut crc, mut left) = (0, bytes);
    while left > 0 {
        let most = left.min(buffer.len() as u64) as usize;
        let n = file.read(&mut buffer[..most])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        crc = crc32c::crc32c_append(crc, &buffer[..n]);
        left -= n as u64;
        alive();
    }
    Ok(crc)
}

/// Results of reading one file.
#[derive(Debug, Default)]
pub(in crate::recording) struct Seen {
    /// Its length.
    pub(in crate::recording) bytes: u64,
    /// How much of it was read.
    pub(in crate::recording) read: u64,
    /// CRC-32C of the bytes read.
    pub(in crate::recording) crc32c: u32,
    pub(in crate::recording) error: Option<String>,
    pub(in crate::recording) frames: u64,
    pub(in crate::recording) illegal: u64,
    pub(super) illegal_why: Option<&'static str>,
    /// Bytes of its last frame, if it ends within one: the frames before it are whole.
    pub(in crate::recording) cut_bytes: u64,
    pub(in crate::recording) filled: u64,
    /// Where these are, in frames.
    pub(in crate::recording) filled_at: Vec<std::ops::Range<u32>>,
    /// Where packets have objects: how many follow each other, and the last one.
    pub(in crate::recording) objects: u64,
    pub(in crate::recording) object: Option<Key>,
    pub(in crate::recording) first_time: Option<Time>,
    pub(in crate::recording) last_time: Option<Time>,
    /// A frame's time is before that of the frame before it.
    pub(super) goes_back: bool,
    /// Times, threads and stations of its valid frames.
    pub(in crate::recording) trace: Trace,
}

impl Seen {
    /// A packet of this object.
    pub(super) fn add_packet(&mut self, object: Key) {
        self.frames += 1;
        self.objects += u64::from(self.object.replace(object) != Some(object));
    }

    /// Count an invalid frame or packet.
    pub(in crate::recording) fn refuse(&mut self, why: &'static str) {
        self.illegal += 1;
        self.illegal_why.get_or_insert(why);
    }

    pub(super) fn add_frame(&mut self, frame: FrameSeen) {
        let place = self.frames;
        self.frames += 1;
        self.filled += crate::recording::holes::mark(&mut self.filled_at, place, frame.filled);
        if let Some((unix_seconds, number)) = frame.time.filter(|_| frame.illegal.is_none() && !frame.filled)
        {
            let time = FrameTime { unix_seconds, frame: number, thread: frame.thread };
            self.trace.add(Sighting { place, time, station: frame.station }, frame.before);
        }
        if let Some(why) = frame.illegal {
            self.refuse(why);
        }
        if frame.time.is_some() {
            self.goes_back |= frame.time < self.last_time;
            self.first_time = self.first_time.or(frame.time);
            self.last_time = frame.time;
        }
    }

    /// Whether the bytes read match `record`.
    ///
    /// # Errors
    /// The difference from the record.
    pub(in crate::recording) fn proves(&self, record: &ChunkRecord) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(format!("it cannot be read: {error}"));
        }
        if self.bytes < record.bytes {
            return Err(format!("it has {} bytes, but its index record says {}", self.bytes, record.bytes));
        }
        if self.read != record.bytes || self.crc32c != record.crc32c {
            let (is, was) = (self.crc32c, record.crc32c);
            return Err(format!("its CRC-32C is {is:08x}, but its index record says {was:08x}"));
        }
        Ok(())
    }

    /// Whether its frame headers prove the whole frames of a file without a record: between what ends at `after` and begins at
    /// `before`. A frame that is [cut](Self::cut_bytes) proves nothing, and is no reason against those before it.
    ///
    /// # Errors
    /// The reason why the file cannot be verified.
    pub(in crate::recording) fn proven_by_frames(
        &self,
        after: Option<Time>,
        before: Option<Time>,
    ) -> Result<(), String> {
        if let Some(error) = &self.error {
            return Err(format!("it cannot be read: {error}"));
        }
        if let Some(why) = self.illegal_why {
            return Err(format!("{} of its frames are invalid: {why}", self.illegal));
        }
        if self.objects > 0 {
            // Heaps have no time: the only test is that the file consists of valid packets.
            return Ok(());
        }
        let (Some(first), Some(last)) = (self.first_time, self.last_time) else {
            return Err("it contains no readable frame header".to_owned());
        };
        if self.goes_back
            || after.is_some_and(|after| first < after)
            || before.is_some_and(|before| last > before)
        {
            return Err("the times of its frames do not fit its place".to_owned());
        }
        Ok(())
    }
}

/// Cuts the bytes of a file.
pub(in crate::recording) enum Cutter {
    /// Into frames.
    Frames(FrameCutter),
    /// Into packets.
    Packets(PacketCutter),
}

impl Cutter {
    /// For the chunks of a datastream, if its format is known. `verify` whether payloads are the pattern.
    pub(in crate::recording) fn of(about: Option<&Datastream>, verify: bool) -> Option<Cutter> {
        let about = about?;
        if let Some(packets) = frames::packets_of(about) {
            return Some(Cutter::Packets(PacketCutter::new(packets, verify)));
        }
        Some(Cutter::frames(about, Box::new(FramesOf::datastream(about, verify)?)))
    }

    /// Into the frames of a datastream, for this reader.
    pub(in crate::recording) fn frames(about: &Datastream, reader: Box<dyn FrameReader>) -> Cutter {
        Cutter::Frames(FrameCutter { unit: about.info.unit_bytes as usize, rest: Vec::new(), reader })
    }

    /// The next bytes of the file.
    pub(in crate::recording) fn feed(&mut self, bytes: &[u8], seen: &mut Seen) {
        match self {
            Cutter::Frames(cutter) => cutter.feed(bytes, seen),
            Cutter::Packets(cutter) => cutter.feed(bytes, seen),
        }
    }

    /// Those were all.
    pub(in crate::recording) fn finish(self, seen: &mut Seen) {
        match self {
            Cutter::Frames(cutter) => seen.cut_bytes = cutter.rest.len() as u64,
            Cutter::Packets(cutter) if cutter.is_within() => seen.refuse("the file ends within a packet"),
            Cutter::Packets(_) => {}
        }
    }
}

/// Cuts bytes into frames of one size.
pub(in crate::recording) struct FrameCutter {
    unit: usize,
    rest: Vec<u8>,
    reader: Box<dyn FrameReader>,
}

impl FrameCutter {
    fn feed(&mut self, mut bytes: &[u8], seen: &mut Seen) {
        if self.unit == 0 {
            return;
        }
        if !self.rest.is_empty() {
            let n = (self.unit - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.rest.len() < self.unit {
                return;
            }
            seen.add_frame(self.reader.see(&self.rest));
            self.rest.clear();
        }
        let frames = bytes.chunks_exact(self.unit);
        self.rest.extend_from_slice(frames.remainder());
        frames.for_each(|frame| seen.add_frame(self.reader.see(frame)));
    }
}

/// Cuts bytes into packets. After invalid data, nothing further can be recognised.
pub(in crate::recording) struct PacketCutter {
    packets: &'static dyn Packets,
    verify: bool,
    /// The beginning of a head.
    head: Vec<u8>,
    /// The current packet, how much of its payload has been read, and whether it must match the pattern.
    payload: Option<(Placement, u64, bool)>,
    lost: bool,
}

impl PacketCutter {
    fn new(packets: &'static dyn Packets, verify: bool) -> PacketCutter {
        PacketCutter { packets, verify, head: Vec::new(), payload: None, lost: false }
    }

    fn is_within(&self) -> bool {
        !self.lost && (self.payload.is_some() || !self.head.is_empty())
    }

    fn feed(&mut self, mut bytes: &[u8], seen: &mut Seen) {
        while !bytes.is_empty() && !self.lost {
            bytes = match self.payload.take() {
                Some((place, came, is_pattern)) => self.payload(place, came, is_pattern, bytes, seen),
                None => self.head(bytes, seen),
            };
        }
    }

    /// A head, or more of one; what follows it.
    fn head<'a>(&mut self, bytes: &'a [u8], seen: &mut Seen) -> &'a [u8] {
        let before = self.head.len();
        if before > 0 {
            self.head.extend_from_slice(bytes);
        }
        let whole = if before > 0 { &self.head[..] } else { bytes };
        match self.packets.place(whole) {
            Err(why) => {
                seen.refuse(why.name());
                self.lost = true;
                &[]
            }
            Ok(None) => {
                if before == 0 {
                    self.head.extend_from_slice(bytes);
                }
                &[]
            }
            Ok(Some(place)) => {
                let start = place.start as usize;
                let is_pattern = self.verify && self.packets.is_data(&whole[..start.min(whole.len())]);
                seen.add_packet(place.key);
                self.head.clear();
                if place.length > 0 {
                    self.payload = Some((place, 0, is_pattern));
                }
                bytes.get(start.saturating_sub(before)..).unwrap_or_default()
            }
        }
    }

    /// Payload, or more of it; what follows it.
    fn payload<'a>(
        &mut self,
        place: Placement,
        came: u64,
        is_pattern: bool,
        bytes: &'a [u8],
        seen: &mut Seen,
    ) -> &'a [u8] {
        let left = usize::try_from(place.length - came).unwrap_or(usize::MAX);
        let (here, rest) = bytes.split_at(left.min(bytes.len()));
        let is_wrong =
            is_pattern && pattern::first_error(place.key.number, place.offset + came, here).is_some();
        if is_wrong {
            seen.refuse("its payload does not match the pattern");
        }
        let came = came + here.len() as u64;
        if came < place.length {
            // One is enough to say of a packet.
            self.payload = Some((place, came, is_pattern && !is_wrong));
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::FAMILIES;
    use skyhaul_core::wire::spead::Flavour;
    use skyhaul_core::wire::spead::stored::NewHead;

    /// Packets of heaps 1 to `heaps`, each of `parts` packets.
    fn file(heaps: u64, parts: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for counter in 1..=heaps {
            for part in 0..parts {
                let (flavour, size) = (Flavour::SPEAD_64_48, Some(1000 * parts));
                let pointers = [flavour.addressed(0x1000, 0)];
                NewHead { flavour, counter, size, offset: 1000 * part, length: 1000, pointers: &pointers }
                    .write(&mut bytes);
                bytes.extend_from_slice(pattern::slice(counter, 1000 * part, 1000));
            }
        }
        bytes
    }

    fn cut(bytes: &[u8], step: usize) -> Seen {
        let packets = FAMILIES.iter().find_map(|family| family.packets()).unwrap();
        let (mut seen, mut cutter) = (Seen::default(), Cutter::Packets(PacketCutter::new(packets, true)));
        bytes.chunks(step).for_each(|piece| cutter.feed(piece, &mut seen));
        cutter.finish(&mut seen);
        seen
    }

    #[test]
    fn packets_are_found_however_the_file_is_read() {
        let bytes = file(7, 3);
        for step in [1, 7, 40, 48, 1000, 1047, 1048, 1049, 5000, bytes.len()] {
            let seen = cut(&bytes, step);
            assert_eq!((seen.frames, seen.objects, seen.illegal), (21, 7, 0), "{step}");
            assert_eq!(seen.proven_by_frames(None, None), Ok(()));
        }
    }

    #[test]
    fn what_is_no_packet_ends_the_proof() {
        let whole = file(4, 2);
        for (at, packets) in [(0, 0), (1048, 1), (1048 + 6, 1), (7 * 1048 + 1, 7)] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let seen = cut(&bytes, 1000);
            assert!(seen.illegal > 0 && seen.frames <= 8 && seen.frames >= packets, "{at}");
            assert!(seen.proven_by_frames(None, None).is_err(), "{at}");
        }
        for cut_off in [1, 999, 1000, 1001, 1047] {
            let seen = cut(&whole[..whole.len() - cut_off], 4096);
            assert_eq!(
                (seen.illegal, seen.illegal_why),
                (1, Some("the file ends within a packet")),
                "{cut_off}"
            );
        }
        let mut wrong = whole.clone();
        wrong[500] ^= 1;
        assert_eq!(cut(&wrong, 4096).illegal_why, Some("its payload does not match the pattern"));
        assert!(cut(&[], 10).proven_by_frames(None, None).is_err(), "an empty file proves nothing");
    }
}
