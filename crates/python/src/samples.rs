//! The samples of recordings and files, decoded into NumPy arrays.
//!
//! ```text
//!   read(row, rows) ─▶ memory of earlier arrays that are gone, or new ─▶ decoded, without the GIL ─▶ Bytes ◀─ NumPy views it
//!   read(…, out)    ─▶ the caller's array, lent meanwhile
//! ```
//!
//! Memory is used again when its array is gone: new memory would cost more than decoding into it.

use crate::buffer::{Bytes, Packets, Payload, Plain, SharedMut};
use crate::errors::{Damaged, about_file};
use crate::process::{Here, array_memory};
use crate::recording::{RawGap, Recording, json, raw_gap};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use skyhaul::io::lock::lock;
use skyhaul::recording::mark6;
use skyhaul::samples::export::{ExportError, ExportOptions, FileFormat};
use skyhaul::samples::survey::SurveyOptions;
use skyhaul::samples::{self, Options, SamplesError, Tracks, Vectored, Written};
use skyhaul::wire::{Format, UnknownFormat};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

/// Elementary samples between two looks at signals.
const SLICE: usize = 64 << 20;
/// The samples of a datastream.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct Samples(Here<samples::Samples>);

impl Samples {
    fn new(opened: Result<samples::Samples, SamplesError>) -> PyResult<Self> {
        opened.map(|samples| Self(Here::new("stream", samples))).map_err(raised)
    }
}

fn raised(error: SamplesError) -> PyErr {
    match error {
        SamplesError::File { path, error } if error.raw_os_error().is_some() => about_file(&path, error),
        SamplesError::File { .. } => Damaged::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Options from keywords.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Given {
    sample_rate: Option<u64>,
    threads: Option<Vec<u16>>,
    bits: Option<u32>,
    channels: Option<u32>,
    mask: Option<u32>,
    tracks: Option<Vec<u32>>,
    near: Option<i64>,
    verify: bool,
    workers: usize,
}

impl Given {
    fn options(self) -> PyResult<Options> {
        let tracks = match (self.mask, self.tracks) {
            (None, None) => None,
            (mask, Some(tracks)) => Some((mask.unwrap_or(u32::MAX), tracks)),
            (Some(mask), None) => Some((mask, (0..32).filter(|bit| mask >> bit & 1 == 1).collect())),
        };
        let tracks = tracks.map(|(mask, order)| Tracks::new(mask, &order)).transpose();
        Ok(Options {
            sample_rate: self.sample_rate,
            threads: self.threads,
            bits: self.bits,
            channels: self.channels,
            tracks: tracks.map_err(|error| PyValueError::new_err(error.to_string()))?,
            near: self.near,
            verify: self.verify,
            workers: self.workers,
        })
    }
}

#[pymethods]
impl Samples {
    /// The samples of a recording's datastream.
    #[staticmethod]
    fn of_recording(py: Python<'_>, recording: &Recording, stream: usize, options: Given) -> PyResult<Self> {
        let options = options.options()?;
        if stream >= recording.0.datastreams.len() {
            return Err(PyIndexError::new_err("no stream with this index"));
        }
        Self::new(py.detach(|| samples::Samples::of_recording(&recording.0, stream, &options)))
    }

    /// The samples of plain files.
    #[staticmethod]
    fn of_files(py: Python<'_>, paths: Vec<PathBuf>, options: Given) -> PyResult<Self> {
        let options = options.options()?;
        Self::new(py.detach(|| samples::Samples::of_files(paths, &options)))
    }

    /// What is known of them.
    fn about<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (s, about) = (self.0.get()?, PyDict::new(py));
        about.set_item("threads", s.threads())?;
        about.set_item("channels", s.channels())?;
        about.set_item("complex", s.is_complex())?;
        about.set_item("bits", s.coding().bits())?;
        about.set_item("sample_rate", s.sample_rate())?;
        about.set_item("frames_per_second", s.frames_per_second())?;
        about.set_item("frame_rows", s.frame_rows())?;
        about.set_item("rows", s.rows())?;
        about.set_item("start", s.start())?;
        about.set_item("bytes", s.bytes())?;
        about.set_item("format", s.format().family.name())?;
        about.set_item("describe", s.format().describe())?;
        about.set_item("station", s.format().station.as_deref())?;
        about.set_item("notes", s.notes().to_vec())?;
        about.set_item("rate_doubt", s.rate_doubt())?;
        Ok(about)
    }

    /// Frames that were used so far with a repaired time.
    fn repaired(&self) -> PyResult<u64> {
        Ok(self.0.get()?.repaired())
    }

    /// Rows with which the chunks begin.
    fn piece_rows(&self, py: Python<'_>) -> PyResult<Vec<u64>> {
        let samples = self.0.get()?;
        Ok(py.detach(|| samples.piece_rows()))
    }

    /// What is missing, as far as it is known by now.
    #[pyo3(signature = (first = 0))]
    fn gaps(&self, first: usize) -> PyResult<Vec<RawGap>> {
        Ok(self.0.get()?.gaps().into_iter().skip(first).map(raw_gap).collect())
    }

    /// Decode rows to numbers of this NumPy type, into `out` or new memory: the memory, and for each frame and thread of the
    /// range a byte, 1 if its samples are there.
    #[pyo3(signature = (row, rows, kind, out = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        row: u64,
        rows: usize,
        kind: &str,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Option<Bytes>, Bound<'py, PyBytes>)> {
        match kind {
            "f4" => self.read_as::<f32>(py, row, rows, out),
            "i1" => self.read_as::<i8>(py, row, rows, out),
            "i2" => self.read_as::<i16>(py, row, rows, out),
            "i4" => self.read_as::<i32>(py, row, rows, out),
            other => Err(PyValueError::new_err(format!("no samples of type {other:?}"))),
        }
    }

    /// For each frame from `frame` on, for each thread, a byte: 1 if its samples are there.
    fn validity<'py>(&self, py: Python<'py>, frame: u64, frames: u64) -> PyResult<Bound<'py, PyBytes>> {
        let end = frame.checked_add(frames).ok_or_else(|| PyValueError::new_err("no such frames"))?;
        let samples = self.0.get()?;
        let (mut all, mut from) = (Vec::new(), frame);
        while from < end {
            let to = end.min(from + 4096);
            let read = py.detach(|| samples.validity(from..to));
            all.extend(read.valid.into_iter().map(u8::from));
            py.check_signals()?;
            from = to;
        }
        Ok(PyBytes::new(py, &all))
    }

    /// The headers of frames: fields (name, bits, description), and for each frame that is there its number, thread (2
    /// octets), whether it is valid (1 octet), and the values of its fields (8 octets each).
    fn headers<'py>(&self, py: Python<'py>, frame: u64, frames: u64) -> PyResult<RawHeaders<'py>> {
        let samples = self.0.get()?;
        let end = frame.checked_add(frames).ok_or_else(|| PyValueError::new_err("no such frames"))?;
        let found = py.detach(|| samples.headers(frame..end));
        let fields = found.fields.iter().map(|field| (field.name, field.bits, field.doc.trim())).collect();
        let wide = |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_ne_bytes()).collect() };
        let threads: Vec<u8> = found.threads.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let valid: Vec<u8> = found.valid.iter().map(|&valid| u8::from(valid)).collect();
        let [frames, values] =
            [wide(&found.frames), wide(&found.values)].map(|octets| PyBytes::new(py, &octets));
        Ok((fields, frames, PyBytes::new(py, &threads), PyBytes::new(py, &valid), values))
    }

    /// What they look like, as JSON.
    fn survey(
        &self,
        py: Python<'_>,
        row: u64,
        rows: u64,
        block: usize,
        most: Option<u64>,
        times: usize,
    ) -> PyResult<String> {
        let options = SurveyOptions {
            rows: row..row.saturating_add(rows),
            block,
            most: most.unwrap_or(u64::MAX),
            times,
        };
        let samples = self.0.get()?;
        let mut signal = Ok(());
        let survey = py.detach(|| samples.survey(&options, |_, _| go_on(&mut signal)));
        signal?;
        json(&survey.map_err(raised)?)
    }

    /// Write them to a file: what was written, as JSON.
    fn export(
        &self,
        py: Python<'_>,
        path: PathBuf,
        row: u64,
        rows: u64,
        format: Option<&str>,
        integers: bool,
    ) -> PyResult<String> {
        let format = format.map(str::parse::<FileFormat>).transpose().map_err(PyValueError::new_err)?;
        let options = ExportOptions { rows: row..row.saturating_add(rows), format, integers };
        let samples = self.0.get()?;
        let mut signal = Ok(());
        let done = py.detach(|| samples.export(&path, &options, |_, _| go_on(&mut signal)));
        signal?;
        json(&done.map_err(|error| match error {
            ExportError::Samples(error) => raised(error),
            ExportError::Exists(ref path) => {
                let exists = io::Error::new(io::ErrorKind::AlreadyExists, error.to_string());
                about_file(path, exists)
            }
            ExportError::Write { path, error } => about_file(&path, error),
            _ => PyValueError::new_err(error.to_string()),
        })?)
    }
}

/// Fields (name, bits, description), frame numbers, threads, validity, values.
type RawHeaders<'py> = (
    Vec<(&'static str, u32, &'static str)>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

/// Whether no signal has come, as Ctrl-C.
fn go_on(signal: &mut PyResult<()>) -> bool {
    *signal = Python::attach(|py| py.check_signals());
    signal.is_ok()
}

/// The files of a scan on the disks of a Mark 6; none if there are no such.
#[pyfunction]
pub(crate) fn scattered_files(disks: Vec<PathBuf>, scan: &str) -> Vec<PathBuf> {
    mark6::files(&disks, scan)
}

impl Samples {
    fn read_as<'py, T: Vectored + Plain>(
        &self,
        py: Python<'py>,
        row: u64,
        rows: usize,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Option<Bytes>, Bound<'py, PyBytes>)> {
        let bytes = rows.checked_mul(self.0.get()?.row()).and_then(|count| count.checked_mul(size_of::<T>()));
        let bytes = bytes.ok_or_else(|| PyValueError::new_err(format!("{rows} samples are too many")))?;
        if let Some(out) = out {
            let mut shared = SharedMut::of(out)?;
            shared.lend()?;
            let valid = self.fill::<T>(py, row, shared.numbers(bytes)?)?;
            return Ok((None, valid));
        }
        let Some(mut memory) = array_memory().take(bytes) else {
            return Err(PyMemoryError::new_err(format!("no memory kept for {bytes} bytes")));
        };
        let valid = self.fill::<T>(py, row, crate::buffer::numbers(&mut memory))?;
        let array = Py::new(py, Array(Payload::new(memory)))?;
        Ok((Some(Bytes { heap: array.into_any(), payload: payload_of }), valid))
    }

    /// Decode in slices, between which Ctrl-C ends it.
    fn fill<'py, T: Vectored + Plain>(
        &self,
        py: Python<'py>,
        row: u64,
        out: &mut [T],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let samples = self.0.get()?;
        let (width, frame) = (samples.row(), samples.frame_rows());
        let (mut row, mut out, mut valid) = (row, out, Vec::new());
        let mut last = None;
        while !out.is_empty() {
            // Slices end with a frame, so that none is decoded twice.
            let most = ((SLICE / width) as u64).max(frame);
            let rows = most.saturating_sub((row + most) % frame).max(1) as usize;
            let length = (rows.saturating_mul(width)).min(out.len());
            let Some(slice) = out.split_off_mut(..length) else { break };
            let read = py.detach(|| samples.read(row, slice)).map_err(raised)?;
            // A frame of which the last slice had only a part is in both.
            let skip = if last == Some(read.frames.start) { samples.threads().len() } else { 0 };
            valid.extend(read.valid.iter().skip(skip).map(|&valid| u8::from(valid)));
            last = read.frames.end.checked_sub(1);
            row += (length / width) as u64;
            py.check_signals()?;
        }
        Ok(PyBytes::new(py, &valid))
    }
}

/// Memory of decoded samples.
#[pyclass(frozen, module = "skyhaul._native")]
struct Array(Payload);

fn payload_of<'a>(array: &'a Bound<'_, PyAny>) -> PyResult<&'a Payload> {
    Ok(&array.cast::<Array>()?.get().0)
}

/// Bytes of the largest array that [`Samples::read`] makes; larger ones must be given.
#[pyfunction]
pub(crate) fn most_array_bytes() -> u64 {
    // A quarter: others may be in use.
    array_memory().limit() / 4
}

/// Makes frames from samples.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct FrameMaker(Here<Mutex<samples::FrameMaker>>);

/// A stream to be written, from keywords.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GivenStream {
    bits: u32,
    channels: u32,
    complex: bool,
    sample_rate: u64,
    payload: Option<usize>,
    threads: Vec<u16>,
    start: (i64, u32),
    station: String,
    version: Option<String>,
}

#[pymethods]
impl FrameMaker {
    #[new]
    fn new(format: &str, stream: GivenStream) -> PyResult<Self> {
        let given: Format =
            format.parse().map_err(|error: UnknownFormat| PyValueError::new_err(error.to_string()))?;
        let family = given.family().ok_or_else(|| PyValueError::new_err("format: one by name is needed"))?;
        let GivenStream { bits, channels, complex, sample_rate, payload, threads, start, station, version } =
            stream;
        let written =
            Written { bits, channels, complex, sample_rate, payload, threads, start, station, version };
        let maker = samples::FrameMaker::new(family, &written).map_err(PyValueError::new_err)?;
        Ok(Self(Here::new("writer", Mutex::new(maker))))
    }

    /// Complete samples of a frame.
    #[getter]
    fn frame_rows(&self) -> PyResult<usize> {
        Ok(lock(self.0.get()?).frame_rows())
    }

    /// Bytes of a frame, with its header.
    #[getter]
    fn frame_bytes(&self) -> PyResult<usize> {
        Ok(lock(self.0.get()?).frame_bytes())
    }

    /// The next frames, from float32 or complex64 in C order.
    fn frames<'py>(&self, py: Python<'py>, samples: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let given = Packets::of(samples)?;
        let maker = self.0.get()?;
        let made = py.detach(|| {
            let (mut to, bytes) = (Vec::new(), given.as_ref());
            let rows: Vec<f32> = bytes.as_chunks().0.iter().map(|word| f32::from_ne_bytes(*word)).collect();
            lock(maker).frames(&rows, &mut to).map(|()| to)
        });
        Ok(PyBytes::new(py, &made.map_err(PyValueError::new_err)?))
    }
}
