//! Finds out what the samples of a recording or of files are.

use super::frames::FrameReader;
use super::frames::Kept;
use super::timing::measured_rate;
use super::timing::{Ends, ends_of_seconds};
use super::{First, Options, Samples, SamplesError};
use crate::recording::{Datastream, FilePiece, Pieces, Recording, mark6};
use crate::time::unix_now;
use skyhaul_core::samples::{Coded, Coding};
use skyhaul_core::wire::{ClockFinder, Format, Framing, Keep, LearnOptions, Learner, StreamFormat};
use skyhaul_io::disk::open_regular;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Bytes from which the format is learned.
const LEARNING_BYTES: usize = 4 << 20;
/// Places at which threads are looked for, and frames at each.
const MAX_PLACES: u64 = 16;
const PLACE_UNITS: usize = 64;
/// Pieces that are looked at for that.
const LEARN_FROM: usize = 8;

impl Samples {
    /// The samples of a recording's datastream, by its index in `datastreams`.
    ///
    /// # Errors
    /// As in [`SamplesError`].
    pub fn of_recording(
        recording: &Recording,
        datastream: usize,
        options: &Options,
    ) -> Result<Self, SamplesError> {
        let about = recording.about(datastream);
        let pieces = Pieces::of_recording(recording, datastream);
        let unit = about.as_ref().map(|about| about.info.unit_bytes as usize).filter(|&bytes| bytes > 0);
        let near = about.as_ref().and_then(|about| about.info.format.get("near")?.as_i64());
        let fps = about.as_ref().and_then(|about| about.info.frames_per_second);
        let threads = about.as_ref().map_or_else(Vec::new, recorded_threads);
        let options = Options { near: options.near.or(near), ..options.clone() };
        Self::new(pieces, unit, fps, threads, &options)
    }

    /// The samples of plain files of VDIF or Mark 5B frames, which continue each other; or of the files of a Mark 6, in
    /// any order.
    ///
    /// # Errors
    /// As in [`SamplesError`].
    pub fn of_files<P: Into<PathBuf>>(
        paths: impl IntoIterator<Item = P>,
        options: &Options,
    ) -> Result<Self, SamplesError> {
        let piece = |path: P| {
            let path = path.into();
            match open_regular(&path).and_then(|file| file.metadata()) {
                Ok(about) => Ok(FilePiece::new(path, 0, about.len())),
                Err(error) => Err(SamplesError::File { path, error }),
            }
        };
        let pieces = paths.into_iter().map(piece).collect::<Result<Vec<FilePiece<First>>, _>>()?;
        let pieces = if pieces.iter().any(|piece| mark6::is_scattered(&piece.path)) {
            scattered(&pieces.into_iter().map(|piece| piece.path).collect::<Vec<_>>())?
        } else {
            Pieces::of_files(pieces, Vec::new())
        };
        let mut samples = Self::new(pieces, None, None, Vec::new(), options)?;
        let note = cut_short(&samples.pieces, samples.frames.unit);
        samples.notes.extend(note);
        Ok(samples)
    }

    fn new(
        pieces: Pieces<First>,
        unit: Option<usize>,
        fps: Option<u32>,
        recorded: Vec<u16>,
        options: &Options,
    ) -> Result<Self, SamplesError> {
        check_threads(options)?;
        let Learned { mut format, coded, highest } = learned(&pieces, unit, options)?;
        let threads = match &options.threads {
            Some(chosen) => chosen.clone(),
            None => {
                let mut found: BTreeSet<u16> = format.threads.iter().map(|thread| thread.id).collect();
                found.extend(recorded);
                found.extend(later_threads(&pieces, &format, coded));
                found.into_iter().collect()
            }
        };
        let (coding, channels) = coding(&format, coded, options)?;
        let payload = (format.frame_bytes * format.parts.max(1)).saturating_sub(coded.header) as u64 * 8;
        let elementary = u64::from(channels) * (1 + u64::from(coded.complex));
        // As recorded: bitstreams that are not wanted count too.
        let row_bits = options
            .tracks
            .as_ref()
            .map_or(elementary * u64::from(coding.bits()), |tracks| u64::from(tracks.recorded()));
        let frame_rows = payload / row_bits;
        if frame_rows == 0 || !payload.is_multiple_of(row_bits) {
            let text = format!("{payload} bits in a frame are no whole number of samples of {row_bits} bits");
            return Err(SamplesError::Options(text));
        }
        let mut notes: Vec<String> = format.quirks.iter().map(ToString::to_string).collect();
        let given = options.sample_rate.map(|rate| frames_of(rate, frame_rows)).transpose()?;
        let known = Known { given, stated: fps.or(format.frames_per_second), highest };
        let Rate { frames_per_second, note, doubt } = known.rate(&pieces, &format)?;
        let doubt = doubt.map(|last| doubted(frames_per_second, last, frame_rows));
        notes.extend(note.into_iter().chain(doubt.clone()));
        format.frames_per_second = Some(frames_per_second);
        let frames = FrameReader::new(&format, coded, frames_per_second, &threads)
            .ok_or_else(|| SamplesError::NotDecoded(format.family.to_string()))?;
        let mut samples = Self {
            pieces,
            frames,
            threads,
            coding,
            channels,
            complex: coded.complex,
            tracks: options.tracks.clone(),
            frames_per_second,
            given_rate: given.is_some(),
            notes,
            rate_doubt: doubt,
            frame_rows,
            extent: (0, 0),
            ordered: true,
            chosen: options.threads.is_some(),
            verify: options.verify,
            workers: workers(options),
            kept: Kept::default(),
            format,
        };
        samples.ordered = samples.find_order();
        let first = samples.pieces.all().iter().find(|piece| piece.bytes > 0).map(|piece| piece.path.clone());
        let nowhere = || first.map_or(SamplesError::Empty, SamplesError::NotContinued);
        samples.find_extent().map(|extent| Self { extent, ..samples }).ok_or_else(nowhere)
    }
}

/// A note of files that end within a frame.
fn cut_short(pieces: &Pieces<First>, unit: usize) -> Option<String> {
    let rest = |piece: &FilePiece<First>| piece.bytes % unit as u64;
    let cut: Vec<&FilePiece<First>> = pieces.all().iter().filter(|piece| rest(piece) > 0).collect();
    let [first, others @ ..] = &cut[..] else { return None };
    let more = if others.is_empty() { String::new() } else { format!("; so do {} more", others.len()) };
    let path = first.path.display();
    Some(format!("{path} ends within a frame: its last {} bytes are not decoded{more}", rest(first)))
}

/// What is known of the rate.
struct Known {
    given: Option<u32>,
    stated: Option<u32>,
    /// The highest frame number among the first frames.
    highest: Option<u32>,
}

/// Frames per second that no frame number disproves.
struct Rate {
    frames_per_second: u32,
    /// They are not those that were stated.
    note: Option<String>,
    /// They were given, and this is the last frame number of the only second whose end is in the data.
    doubt: Option<u32>,
}

impl Known {
    fn rate(&self, pieces: &Pieces<First>, format: &StreamFormat) -> Result<Rate, SamplesError> {
        let (fps, ends) = match self.given.or(self.stated).filter(|&fps| fps > 0) {
            Some(fps) => {
                // Where the rate decides which bits are the frame number.
                let format = StreamFormat { frames_per_second: Some(fps), ..format.clone() };
                (fps, ends_of_seconds(pieces, &format))
            }
            None => (measured_rate(pieces, format).ok_or(SamplesError::Rate)?, Ends::default()),
        };
        // Headers that agree with it may be of a stream with pauses.
        let unstated = self.given.is_some() && self.stated != self.given;
        let too_fast = |last: &u32| unstated && last.saturating_add(1) < fps;
        if let Some(last) = ends.last.filter(too_fast) {
            return Err(SamplesError::TooFast { fps, last });
        }
        let Some(frame) = self.highest.max(ends.highest).filter(|&frame| frame >= fps) else {
            return Ok(Rate { frames_per_second: fps, note: None, doubt: ends.unproven.filter(too_fast) });
        };
        let proven = if self.given.is_some() { None } else { measured_rate(pieces, format) };
        let (rate, note) = instead(fps, frame, self.given.is_some(), proven)?;
        Ok(Rate { frames_per_second: rate, note: Some(note), doubt: None })
    }
}

/// What a single end of a second says against the rate that was given.
fn doubted(fps: u32, last: u32, frame_rows: u64) -> String {
    let seen = u64::from(last) + 1;
    format!(
        "the given rate of {} samples/s is {fps} frames/s, but the only second whose end is in the data ends with frame number {last}: \
         the rate is {} samples/s, or {} frames are missing there",
        u64::from(fps) * frame_rows,
        seen * frame_rows,
        u64::from(fps) - seen,
    )
}

/// The rate that the ends of seconds prove where a frame number disproves the stated one, and a note of it.
fn instead(fps: u32, frame: u32, given: bool, proven: Option<u32>) -> Result<(u32, String), SamplesError> {
    let disproved = SamplesError::Disproved { fps, frame, given };
    let proven = proven.filter(|&proven| proven > frame).ok_or(disproved)?;
    let note = format!(
        "{fps} frames/s are stated, but there is frame number {frame} in a second: {proven} frames/s are used, as the ends \
         of seconds show"
    );
    Ok((proven, note))
}

/// The threads of a datastream by its index: its first frames need not be of all of them.
fn recorded_threads(about: &Datastream) -> Vec<u16> {
    let listed = about.info.format.get("threads").and_then(serde_json::Value::as_array);
    let ids = listed.into_iter().flatten().filter_map(serde_json::Value::as_u64);
    ids.filter_map(|id| u16::try_from(id).ok()).filter(|&id| id < 1024).collect()
}

/// Threads of frames at places spread over the data: one that begins late is not among the first frames. A thread of a single
/// frame is a damaged header.
fn later_threads(pieces: &Pieces<First>, format: &StreamFormat, coded: Coded) -> Vec<u16> {
    let (unit, all) = (format.unit_bytes() as u64, pieces.all());
    let (Some(frames), Some(at)) = (format.family.frames(), format.header_at()) else { return Vec::new() };
    let bytes: u64 = all.iter().map(|piece| piece.bytes / unit * unit).sum();
    // By thread: where its frames lie. In short data the places overlap, and one damaged header is met several times.
    let mut seen: BTreeMap<u16, BTreeSet<u64>> = BTreeMap::new();
    let mut head = vec![0; PLACE_UNITS * format.unit_bytes()];
    for place in 1..=MAX_PLACES {
        // The last one ends with the data.
        let back = if place == MAX_PLACES { head.len() as u64 } else { 0 };
        let begin = (bytes / MAX_PLACES * place).saturating_sub(back) / unit * unit;
        let mut from = begin;
        let piece = all.iter().find(|piece| {
            let length = piece.bytes / unit * unit;
            let here = from < length;
            from = if here { from } else { from - length };
            here
        });
        let Some(open) = piece.and_then(|piece| pieces.open_unverified(piece).ok()) else { continue };
        let Ok(read) = open.read(from, &mut head) else { continue };
        for (n, unit) in (begin..).step_by(unit as usize).zip(head[..read].chunks_exact(format.unit_bytes()))
        {
            let known = unit.get(at..).is_some_and(|frame| frames.coded(frame) == Some(coded));
            if let Some(time) = format.frame_time(unit).filter(|_| known) {
                seen.entry(time.thread).or_default().insert(n);
            }
        }
    }
    seen.into_iter().filter(|(id, frames)| frames.len() > 1 && *id < 1024).map(|(id, _)| id).collect()
}

/// The blocks of the files of a Mark 6.
fn scattered(paths: &[PathBuf]) -> Result<Pieces<First>, SamplesError> {
    let found = mark6::blocks(paths).map_err(|(path, error)| SamplesError::File { path, error })?;
    let blocks = found.blocks.into_iter().map(|block| FilePiece::new(block.path, block.offset, block.bytes));
    Ok(Pieces::of_files(blocks.collect(), found.gaps))
}

/// What the first frames say.
struct Learned {
    format: StreamFormat,
    coded: Coded,
    /// The highest frame number of neighbours.
    highest: Option<u32>,
}

/// Learn the format from the first pieces that have one.
fn learned(pieces: &Pieces<First>, unit: Option<usize>, options: &Options) -> Result<Learned, SamplesError> {
    let mut head = Vec::new();
    for piece in pieces.all().iter().take(LEARN_FROM) {
        let file = |error| SamplesError::File { path: piece.path.clone(), error };
        // Only for lack of a better one does a later piece matter.
        // Its bytes may be under another name.
        let elsewhere = |error| pieces.open(piece, options.verify).ok_or(error);
        let open = match pieces.open_unverified(piece).or_else(elsewhere) {
            Ok(open) => open,
            Err(_) if pieces.all().len() > 1 => continue,
            Err(error) => return Err(file(error)),
        };
        head.resize(LEARNING_BYTES.min(usize::try_from(open.bytes).unwrap_or(LEARNING_BYTES)), 0);
        let read = open.read(0, &mut head).map_err(file)?;
        let head = &head[..read];
        let found = unit.and_then(|unit| learn(head, unit, options));
        let framed = || match Format::Auto.framing(head) {
            Framing::Length(unit) => learn(head, unit, options),
            Framing::Incomplete | Framing::Unknown => None,
        };
        if let Some(learned) = found.or_else(framed) {
            return Ok(learned);
        }
    }
    match pieces.all().iter().find(|piece| piece.bytes > 0) {
        Some(piece) => Err(SamplesError::Unrecognised(piece.path.clone())),
        None => Err(SamplesError::Empty),
    }
}

fn learn(head: &[u8], unit: usize, options: &Options) -> Option<Learned> {
    let options = LearnOptions {
        keep: Keep::All,
        threads: options.threads.clone(),
        near: options.near.unwrap_or_else(unix_now),
        ..LearnOptions::default()
    };
    let mut learner = Learner::new(options);
    head.chunks_exact(unit).for_each(|unit| learner.observe(unit));
    let format = learner.conclude(true)?.ok()?;
    if format.unit_bytes() != unit || format.parts > 1 {
        return None;
    }
    let (at, frames) = (format.header_at()?, format.family.frames()?);
    // Damaged and filled frames are a minority.
    let coded: Vec<Coded> =
        head.chunks_exact(unit).take(64).filter_map(|unit| frames.coded(unit.get(at..)?)).collect();
    let best = coded.iter().max_by_key(|one| coded.iter().filter(|other| other == one).count())?;
    let highest = format.family.stamps().and_then(|stamps| {
        let mut seen = ClockFinder::new(stamps, format.near);
        head.chunks_exact(unit).filter_map(|unit| unit.get(at..)).for_each(|frame| seen.frame(frame));
        seen.highest()
    });
    Some(Learned { format, coded: *best, highest })
}

/// Threads to decode with. (The system is asked once: it reads files for the answer.)
fn workers(options: &Options) -> usize {
    match options.workers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        given => given,
    }
}

/// Threads that were asked for, if any: each once.
fn check_threads(options: &Options) -> Result<(), SamplesError> {
    let Some(threads) = &options.threads else { return Ok(()) };
    let distinct: BTreeSet<u16> = threads.iter().copied().collect();
    if threads.is_empty()
        || distinct.len() < threads.len()
        || distinct.last().is_some_and(|&last| last > 1023)
    {
        return Err(SamplesError::Options(format!("threads {threads:?}: give each once, from 0 to 1023")));
    }
    Ok(())
}

/// Coding and channels, from the header or the options.
fn coding(format: &StreamFormat, coded: Coded, options: &Options) -> Result<(Coding, u32), SamplesError> {
    if let (Some(coding), Some(channels)) = (coded.coding, coded.channels) {
        if options.tracks.is_some() || options.channels.is_some_and(|given| given != channels) {
            let text =
                format!("the headers say that there are {channels} channels, and tracks are for Mark 5B");
            return Err(SamplesError::Options(text));
        }
        if options.bits.is_some_and(|bits| bits != coding.bits()) {
            return Err(SamplesError::Options(format!("the headers say {coding}")));
        }
        return if coding.is_known() {
            Ok((coding, channels))
        } else {
            Err(SamplesError::Width(coding.to_string()))
        };
    }
    let coding = Coding::SignMagnitude(options.bits.unwrap_or(2));
    if !coding.is_known() {
        return Err(SamplesError::Width(coding.to_string()));
    }
    let channels = match &options.tracks {
        Some(tracks) if !tracks.wanted().is_multiple_of(coding.bits()) => {
            let text = format!("{} bitstreams are no channels of {} bits", tracks.wanted(), coding.bits());
            return Err(SamplesError::Options(text));
        }
        Some(tracks) => tracks.wanted() / coding.bits(),
        None => options.channels.ok_or_else(|| SamplesError::Channels(format.family.title().to_owned()))?,
    };
    let bits = channels.checked_mul(coding.bits()).filter(|&bits| bits.is_power_of_two() && bits <= 32);
    if options.tracks.is_none() && bits.is_none() {
        let text = format!(
            "{channels} channels of {} bits: Mark 5B records 1, 2, 4, 8, 16 or 32 bitstreams",
            coding.bits()
        );
        return Err(SamplesError::Options(text));
    }
    Ok((coding, channels))
}

/// Frames per second at a sample rate.
fn frames_of(rate: u64, frame: u64) -> Result<u32, SamplesError> {
    let uneven = SamplesError::Uneven { rate, frame };
    if rate == 0 || !rate.is_multiple_of(frame) {
        return Err(uneven);
    }
    u32::try_from(rate / frame).map_err(|_| uneven)
}
