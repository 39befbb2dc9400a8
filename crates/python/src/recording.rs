//! Recordings on disks, read with the reader of `skyhaul cat`: chunk by chunk, or heaps by number, with items as columns.
//!
//! A verified chunk is viewed from Python where it was read ([`ChunkMemory`]). Chunks too long to be read as one piece are
//! copied, and those of a program that keeps many. Waiting (for a disk, or for a recorder) lets other threads run, and Ctrl-C
//! ends it.

use crate::buffer::{ChunkMemory, LentChunks, SharedMut};
use crate::descriptor::{RawDescriptor, compat, raw};
use crate::errors::{Damaged, about_file, system};
use crate::process::Here;
use crate::wait;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use skyhaul::core::hint::Hint;
use skyhaul::frames::FramesOf;
use skyhaul::io::lock::lock;
use skyhaul::recording::{
    self, Account, CheckOptions, Gap, Missing, Next, OpenError, Piece, PieceBytes, ReadOptions, Reader,
};
use skyhaul::spead::recorded::{Field, Form, Heaps, HeapsError, State};
use skyhaul::wire::spead::bits::BitFormat;
use skyhaul::wire::spead::descriptor::Descriptor;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Unix second and frame number.
type Time = Option<(i64, u32)>;
/// A gap: datastream, first chunk, one past the last, lack, from, to, bytes, instead, text.
pub(crate) type RawGap = (String, u32, u32, &'static str, Time, Time, Option<u64>, &'static str, String);
/// A datastream: name, bytes of a frame, frames per second, format.
type RawStream = (String, u32, Option<u32>, String);
/// A finding: verdict, path, text.
type RawFinding = (&'static str, Option<PathBuf>, String);
/// A chunk: number, filled, bytes, times of its first and last frame.
type RawChunk = (u32, bool, ChunkMemory, Time, Time);
/// The longest chunk that is read as one piece, in bytes.
const WHOLE: u64 = 64 << 20;

/// A scan on its disks.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Recording(pub(crate) recording::Recording);

#[pymethods]
impl Recording {
    #[new]
    fn new(py: Python<'_>, disks: Vec<PathBuf>, name: &str) -> PyResult<Self> {
        let Some(first) = disks.first().cloned() else {
            return Err(PyValueError::new_err(format!(
                "no disks{}",
                Hint("give the directories that hold the scan")
            )));
        };
        match py.detach(|| recording::Recording::open(disks, name)) {
            Ok(recording) => Ok(Self(recording)),
            Err(OpenError::Label(error)) => Err(PyValueError::new_err(error.to_string())),
            Err(error @ OpenError::NotFound(_)) => {
                let not_found = io::Error::new(io::ErrorKind::NotFound, error.to_string());
                Err(about_file(&first.join(name), not_found))
            }
            Err(OpenError::NoDisk { path, error, .. }) => Err(about_file(&path, error)),
        }
    }

    /// The scan's label.
    #[getter]
    fn name(&self) -> &str {
        self.0.label.as_str()
    }

    /// State of its recorder: live, ended, interrupted or unindexed.
    #[getter]
    fn state(&self) -> &'static str {
        self.0.state.name()
    }

    /// Disks of the recording that were not given.
    #[getter]
    fn missing_disks(&self) -> Vec<PathBuf> {
        self.0.missing_disks.clone()
    }

    /// What tells it from another scan of this name: its sessions; without an index, the first chunk of each datastream.
    #[getter]
    fn sessions(&self) -> Vec<String> {
        let mut sessions: Vec<String> = self.0.sessions.iter().map(|one| one.session.clone()).collect();
        if sessions.is_empty() {
            sessions = self.first_chunks().filter_map(stamp).collect();
        }
        sessions.sort();
        sessions.dedup();
        sessions
    }

    /// Files that change when another scan takes its name: its indexes; without one, the first chunk of each datastream.
    #[getter]
    fn watched(&self) -> Vec<PathBuf> {
        let indexes: Vec<PathBuf> = self.0.indexes.iter().map(|(path, _)| path.clone()).collect();
        if indexes.is_empty() { self.first_chunks().map(Path::to_owned).collect() } else { indexes }
    }

    /// Its datastreams.
    #[getter]
    fn streams(&self) -> Vec<RawStream> {
        let raw = |(at, stream): (usize, &recording::DatastreamEntry)| {
            let info = self.0.about(at).map(|about| about.info).unwrap_or_default();
            let format =
                info.format.get("format").and_then(|name| name.as_str()).unwrap_or_default().to_owned();
            (stream.name.clone(), info.unit_bytes, info.frames_per_second, format)
        };
        self.0.datastreams.iter().enumerate().map(raw).collect()
    }

    /// Problems found from names, lengths and indexes, without reading data.
    #[getter]
    fn findings(&self) -> Vec<RawFinding> {
        let raw = |f: &recording::Finding| (f.verdict.name(), f.path.clone(), f.text.clone());
        self.0.findings.iter().map(raw).collect()
    }

    /// Read everything and compare it with the index: the report as JSON.
    fn check(&self, py: Python<'_>) -> PyResult<String> {
        let frames = |about: &recording::Datastream| {
            let frames: Box<dyn recording::FrameReader> = Box::new(FramesOf::datastream(about, false)?);
            Some(frames)
        };
        let options = CheckOptions { frames: Some(&frames), ..CheckOptions::default() };
        let report = py.detach(|| self.0.check(&options))?;
        json(&report)
    }

    /// Read a datastream, by its index in `streams`.
    #[pyo3(signature = (stream, missing, verify = true, follow = false))]
    fn reader(&self, stream: usize, missing: &str, verify: bool, follow: bool) -> PyResult<ChunkReader> {
        let options = ReadOptions { whole: WHOLE, ..options(missing, verify, follow)? };
        let reader = self.read(stream, &options)?;
        let account = reader.account();
        let lent = LentChunks::default();
        let reading = Reading { reader, chunk: None, ahead: None, ended: false, lent };
        Ok(ChunkReader(Here::new("reader", Open { reading: Mutex::new(reading), account })))
    }
}

/// All scans on these disks, as JSON.
#[pyfunction]
pub(crate) fn list_scans(py: Python<'_>, disks: Vec<PathBuf>) -> PyResult<String> {
    for disk in &disks {
        std::fs::read_dir(disk).map_err(|error| about_file(disk, error))?;
    }
    json(&py.detach(|| recording::ls(&disks)))
}

/// A file by its name, length and time of change.
fn stamp(path: &Path) -> Option<String> {
    let about = std::fs::metadata(path).ok()?;
    let name = path.file_name()?.to_string_lossy();
    Some(format!("{name} {} {}.{:09}", about.len(), about.mtime(), about.mtime_nsec()))
}

pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

impl Recording {
    /// Read a datastream, with Python's arguments.
    pub(crate) fn open(&self, stream: usize, missing: &str, verify: bool, follow: bool) -> PyResult<Reader> {
        self.read(stream, &options(missing, verify, follow)?)
    }

    fn first_chunks(&self) -> impl Iterator<Item = &Path> {
        self.0.datastreams.iter().filter_map(|one| one.chunks.values().next().map(|chunk| &*chunk.path))
    }

    fn read(&self, stream: usize, options: &ReadOptions) -> PyResult<Reader> {
        if stream >= self.0.datastreams.len() {
            return Err(PyIndexError::new_err("no stream with this index"));
        }
        self.0.reader(stream, options).map_err(system)
    }

    /// The name of a datastream.
    pub(crate) fn name_of(&self, stream: usize) -> String {
        self.0.datastreams.get(stream).map(|stream| stream.name.clone()).unwrap_or_default()
    }
}

/// Python's arguments as options.
fn options(missing: &str, verify: bool, follow: bool) -> PyResult<ReadOptions> {
    let missing = match missing {
        "raise" => Missing::Refuse,
        "skip" => Missing::Skip,
        "fill" => Missing::Fill,
        other => {
            let text = format!("missing={other:?}{}", Hint("\"raise\", \"skip\" or \"fill\""));
            return Err(PyValueError::new_err(text));
        }
    };
    Ok(ReadOptions { missing, verify, follow, ..ReadOptions::default() })
}

/// The gaps found by a reader of a recording.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Gaps(pub(crate) Account);

#[pymethods]
impl Gaps {
    /// The gaps that were met so far, from number `first` on.
    #[pyo3(signature = (first = 0))]
    fn since(&self, first: usize) -> Vec<RawGap> {
        raw_gaps(&self.0, first)
    }
}

fn raw_gaps(account: &Account, first: usize) -> Vec<RawGap> {
    account.gaps_from(first).into_iter().map(raw_gap).collect()
}

pub(crate) fn raw_gap(gap: Gap) -> RawGap {
    let (from, end) = gap.chunks;
    let (lack, instead, text) = (gap.lack.name(), gap.instead.name(), gap.to_string());
    (gap.datastream, from, end, lack, gap.from, gap.to, gap.bytes, instead, text)
}

/// The chunks of a datastream, in order.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct ChunkReader(Here<Open>);

/// What there is where the reading thread is.
struct Open {
    reading: Mutex<Reading>,
    account: Account,
}

struct Reading {
    reader: Reader,
    /// The chunk being assembled.
    chunk: Option<Gathered>,
    /// The first piece of the next chunk.
    ahead: Option<Piece>,
    ended: bool,
    /// Its buffers that Python views.
    lent: LentChunks,
}

/// The bytes of a chunk being assembled.
struct Gathered {
    number: u32,
    filled: bool,
    bytes: PieceBytes,
    times: recording::Times,
}

impl Gathered {
    fn add(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.bytes).into_vec();
        all.extend_from_slice(bytes);
        self.bytes = all.into();
    }
}

impl Reading {
    /// Continue a chunk, waiting at most `wait` for each of its pieces; `None` if it is not complete yet.
    fn go_on(&mut self, wait: Duration) -> Option<io::Result<Option<Gathered>>> {
        loop {
            let next = match self.ahead.take() {
                Some(piece) => Ok(Next::Piece(piece)),
                None if self.ended => Ok(Next::End),
                None => self.reader.next_within(wait),
            };
            let piece = match next {
                Ok(Next::Piece(piece)) => piece,
                Ok(Next::NotYet) => return None,
                Ok(Next::End) => {
                    self.ended = true;
                    return Some(Ok(self.chunk.take()));
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            };
            match &mut self.chunk {
                Some(chunk) if (chunk.number, chunk.filled) != (piece.number, piece.filled) => {
                    self.ahead = Some(piece);
                    return Some(Ok(self.chunk.take()));
                }
                Some(chunk) => chunk.add(piece.bytes()),
                None => {
                    let Piece { number, filled, times, .. } = piece;
                    let last = piece.last;
                    self.chunk = Some(Gathered { number, filled, times, bytes: piece.into_bytes() });
                    if last {
                        return Some(Ok(self.chunk.take()));
                    }
                    continue;
                }
            }
            if piece.last {
                return Some(Ok(self.chunk.take()));
            }
        }
    }
}

impl Open {
    fn reading(&self) -> MutexGuard<'_, Reading> {
        // The guarded state is valid at every step.
        lock(&self.reading)
    }
}

#[pymethods]
impl ChunkReader {
    /// The next chunk: number, filled, its bytes where they are, times of its first and last frame. None at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<RawChunk>> {
        let open = self.0.get()?;
        let Some(next) = wait::in_slices(py, None, |wait| open.reading().go_on(wait))? else {
            return Ok(None);
        };
        let chunk = match next {
            Ok(chunk) => chunk,
            Err(error) if error.get_ref().is_some_and(|inner| inner.is::<recording::Damaged>()) => {
                return Err(Damaged::new_err(error.to_string()));
            }
            Err(error) => return Err(system(error)),
        };
        let raw = |chunk: Gathered| {
            let (first, last) = chunk.times;
            let memory = ChunkMemory::new(chunk.bytes, &open.reading().lent);
            (chunk.number, chunk.filled, memory, first, last)
        };
        Ok(py.detach(|| chunk.map(raw)))
    }

    /// The gaps that were met so far, from number `first` on.
    #[pyo3(signature = (first = 0))]
    fn gaps(&self, first: usize) -> PyResult<Vec<RawGap>> {
        Ok(raw_gaps(&self.0.get()?.account, first))
    }
}

/// Rows between two looks at signals.
const SLICE: u64 = 4096;

/// The recorded heaps of a datastream.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct RecordedHeaps(Here<Heaps>);

fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An item to be read: its descriptor, its bit fields if they are unpacked, the octets or elements of a value, and the octets
/// of a missing element.
type GivenItem = (RawDescriptor, Option<Vec<(char, u32)>>, usize, Vec<u8>);

fn field(item: GivenItem) -> PyResult<Field> {
    let ((id, name, description, shape, format, numpy), bits, count, fill) = item;
    let descriptor = Descriptor { id, name, description, shape, format, numpy };
    let form = match bits {
        Some(bits) => Form::Bits { format: BitFormat::new(&bits).map_err(wrong)?, elements: count },
        None => Form::Octets(count),
    };
    Field::new(descriptor, form, fill, false).map_err(wrong)
}

#[pymethods]
impl RecordedHeaps {
    /// The heaps of a recording's datastream.
    #[new]
    fn new(
        py: Python<'_>,
        recording: &Recording,
        stream: usize,
        verify: bool,
        bug_compat: u8,
    ) -> PyResult<Self> {
        let compat = compat(bug_compat)?;
        if stream >= recording.0.datastreams.len() {
            return Err(PyIndexError::new_err("no stream with this index"));
        }
        let opened = py.detach(|| Heaps::of_recording(&recording.0, stream, verify, compat));
        Ok(Self(Here::new("stream", opened.map_err(wrong)?)))
    }

    /// Number of heaps.
    #[getter]
    fn rows(&self) -> PyResult<u64> {
        Ok(self.0.get()?.rows())
    }

    /// The rows with which the chunks begin.
    fn piece_rows(&self) -> PyResult<Vec<u64>> {
        Ok(self.0.get()?.piece_rows().to_vec())
    }

    /// What is missing, as far as it is known by now.
    #[pyo3(signature = (first = 0))]
    fn gaps(&self, first: usize) -> PyResult<Vec<RawGap>> {
        Ok(self.0.get()?.gaps().into_iter().skip(first).map(raw_gap).collect())
    }

    /// The counters of heaps, 8 octets each, -1 where it is not known.
    fn counters<'py>(&self, py: Python<'py>, first: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let heaps = self.0.get()?;
        let counters = py.detach(|| heaps.counters(first..end)).map_err(wrong)?;
        let number =
            |counter: &Option<u64>| counter.and_then(|counter| i64::try_from(counter).ok()).unwrap_or(-1);
        let octets: Vec<u8> = counters.iter().flat_map(|counter| number(counter).to_ne_bytes()).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// For each heap an octet: 1 if it is there without a gap.
    fn complete<'py>(&self, py: Python<'py>, first: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let heaps = self.0.get()?;
        let complete = py.detach(|| heaps.complete(first..end)).map_err(wrong)?;
        let octets: Vec<u8> = complete.into_iter().map(u8::from).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// The descriptors of items that these heaps may carry, and the ids of items without one.
    fn descriptors(&self, py: Python<'_>, first: u64, end: u64) -> PyResult<(Vec<RawDescriptor>, Vec<u64>)> {
        let heaps = self.0.get()?;
        let (described, unknown) = py.detach(|| heaps.descriptors(first..end)).map_err(wrong)?;
        Ok((described.into_iter().map(raw).collect(), unknown))
    }

    /// The values of an item in the rows from `first` on, into `out`: for each row an octet, 0 unknown, 1 valid, 2 absent,
    /// 3 partial.
    fn read<'py>(
        &self,
        py: Python<'py>,
        first: u64,
        rows: usize,
        item: GivenItem,
        out: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (heaps, field) = (self.0.get()?, field(item)?);
        let mut shared = SharedMut::of(out)?;
        shared.lend()?;
        let bytes = rows.checked_mul(field.bytes()).ok_or_else(|| wrong("too many rows"))?;
        let out = shared.numbers::<u8>(bytes)?;
        let mut states = vec![State::Unknown; rows];
        let mut present = vec![0; rows];
        let slices = states.chunks_mut(SLICE as usize).zip(present.chunks_mut(SLICE as usize));
        let values = out.chunks_mut(SLICE as usize * field.bytes());
        for (n, ((states, present), values)) in (0..).zip(slices.zip(values)) {
            let from = first.saturating_add(n * SLICE);
            let rows = from..from.saturating_add(states.len() as u64);
            let read: Result<(), HeapsError> =
                py.detach(|| heaps.read(rows, &field, values, states, present));
            read.map_err(wrong)?;
            py.check_signals()?;
        }
        let octets: Vec<u8> = states.into_iter().map(|state| state as u8).collect();
        Ok(PyBytes::new(py, &octets))
    }

    /// The last row before `row` whose heap carried all of an item.
    fn carrier_before(&self, py: Python<'_>, row: u64, item: GivenItem) -> PyResult<Option<u64>> {
        let (heaps, field) = (self.0.get()?, field(item)?);
        py.detach(|| heaps.carrier_before(row, &field)).map_err(wrong)
    }
}
