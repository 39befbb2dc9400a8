//! Samples as arrays in files that other programs open: NumPy, raw numbers, HDF5, Zarr.
//!
//! ```text
//!   rows ─▶ blocks of some MiB ─▶ Output: samples at their place ─┐
//!       └▶ validity of frames ──▶         valid at its place ─────┴─▶ a part file ─▶ renamed when whole
//! ```
//!
//! | format | samples | validity and what is known |
//! |---|---|---|
//! | NumPy (`.npy`) | one array | beside it, in `<name>.json` |
//! | raw (`.f32`, `.c64`, `.i8`, …) | numbers one after another, little-endian | the same |
//! | HDF5 (`.h5`, `.hdf5`) | dataset `samples` | dataset `valid`, attributes |
//! | Zarr, version 3 (`.zarr`) | array `samples` | array `valid`, attributes |
//!
//! Samples have the axes (time, thread, channel), `valid` (frame, thread). Missing samples are NaN, or the lowest integer.
//! Nothing is compressed: samples of noise do not get smaller.

mod hdf5;
mod layout;
mod zarr;

pub use layout::{Attribute, Element};

use super::{Samples, SamplesError, Vectored};
use layout::{Layout, Output};
use serde::Serialize;
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::publish;
use std::ffi::OsString;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of samples that are decoded at once.
const BLOCK_BYTES: usize = 16 << 20;

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// An array of NumPy.
    Npy,
    /// Numbers, nothing else.
    Raw,
    /// HDF5.
    Hdf5,
    /// Zarr, version 3: a directory.
    Zarr,
}

impl FileFormat {
    /// The format that the name of a file tells.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        Some(match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "npy" => FileFormat::Npy,
            "f32" | "c64" | "i8" | "i16" | "i32" | "raw" => FileFormat::Raw,
            "h5" | "hdf5" => FileFormat::Hdf5,
            "zarr" => FileFormat::Zarr,
            _ => return None,
        })
    }
}

impl std::str::FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "npy" | "numpy" => Ok(FileFormat::Npy),
            "raw" => Ok(FileFormat::Raw),
            "hdf5" | "h5" => Ok(FileFormat::Hdf5),
            "zarr" => Ok(FileFormat::Zarr),
            _ => Err(format!("'{text}' is no format of files: npy, raw, hdf5 or zarr")),
        }
    }
}

/// What is exported, and how.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Rows; they must be within the data.
    pub rows: Range<u64>,
    /// The format; that of the file's name, if not given.
    pub format: Option<FileFormat>,
    /// Integers, as they were recorded, instead of levels.
    pub integers: bool,
}

/// What was exported.
#[derive(Clone, Debug, Serialize)]
pub struct Exported {
    /// The file, or directory.
    pub path: PathBuf,
    /// Its format.
    pub format: &'static str,
    /// Type of a number, as NumPy names it.
    pub dtype: &'static str,
    /// Axes of the samples: time, thread, channel, and component for complex integers.
    pub shape: Vec<u64>,
    /// Bytes of the samples.
    pub bytes: u64,
    /// Frames of threads in the range, and how many of them are missing.
    pub frames: u64,
    /// How many of these are missing.
    pub missing: u64,
    /// Recorded frames that have no place in the array: their times are outside it, or another frame of the thread has the same.
    pub not_shown: u64,
    /// Frames that were used with a repaired time, because the clock of their thread is wrong.
    pub repaired: u64,
    /// What a user of the samples has to know.
    pub notes: Vec<String>,
}

/// Why samples were not exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// They cannot be read.
    #[error(transparent)]
    Samples(#[from] SamplesError),
    /// Wrong use.
    #[error("{0}")]
    Options(String),
    /// There is something of that name.
    #[error("{} exists{}", .0.display(), Hint("remove it, or choose another name"))]
    Exists(PathBuf),
    /// It cannot be written.
    #[error("{}: {error}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Ended on request; nothing is left of it.
    #[error("interrupted: nothing was written")]
    Interrupted,
}

impl FileFormat {
    fn create(self, path: &Path, layout: &Layout) -> io::Result<Box<dyn Output>> {
        Ok(match self {
            FileFormat::Npy => Box::new(layout::Plain::npy(path, layout)?),
            FileFormat::Raw => Box::new(layout::Plain::raw(path)?),
            FileFormat::Hdf5 => Box::new(hdf5::Hdf5::create(path, layout)?),
            FileFormat::Zarr => Box::new(zarr::Zarr::create(path, layout)?),
        })
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FileFormat::Npy => "npy",
            FileFormat::Raw => "raw",
            FileFormat::Hdf5 => "hdf5",
            FileFormat::Zarr => "zarr",
        }
    }
}

impl Samples {
    /// Write samples to `path`. `go_on` is told the rows that were written, and of how many; with `false` from it the export
    /// ends, and nothing is left of it.
    ///
    /// # Errors
    /// As in [`ExportError`]. What was written is removed.
    pub fn export(
        &self,
        path: &Path,
        options: &ExportOptions,
        mut go_on: impl FnMut(u64, u64) -> bool,
    ) -> Result<Exported, ExportError> {
        let rows = &options.rows;
        if rows.start > rows.end || rows.end > self.rows() {
            let (from, to, all) = (rows.start, rows.end, self.rows());
            return Err(ExportError::Options(format!("samples {from} to {to} of {all}")));
        }
        let format = options.format.or_else(|| FileFormat::of(path)).ok_or_else(|| {
            let hint = Hint("end it with .npy, .f32, .h5 or .zarr, or give the format");
            ExportError::Options(format!("{}: its name tells no format{hint}", path.display()))
        })?;
        let note = beside(path, ".json");
        let has_note = matches!(format, FileFormat::Npy | FileFormat::Raw);
        for path in [Some(path), has_note.then_some(&*note)].into_iter().flatten() {
            if path.symlink_metadata().is_ok() {
                return Err(ExportError::Exists(path.to_owned()));
            }
        }
        let layout = Layout::new(self, rows, options.integers);
        let repaired = self.repaired();
        let part = Part::beside(path);
        let failed = |error| ExportError::Write { path: path.to_owned(), error };
        let mut output = format.create(&part.0, &layout).map_err(failed)?;
        let missing = match layout.element {
            Element::F32 | Element::C64 => self.write::<f32>(&layout, rows, &mut *output, &mut go_on),
            Element::I8 => self.write::<i8>(&layout, rows, &mut *output, &mut go_on),
            Element::I16 => self.write::<i16>(&layout, rows, &mut *output, &mut go_on),
            Element::I32 => self.write::<i32>(&layout, rows, &mut *output, &mut go_on),
        };
        let (missing, placed) = missing.map_err(|error| error.at(path))?;
        output.finish().map_err(failed)?;
        drop(output);
        if has_note {
            write_note(&note, &layout.note(missing)).map_err(|error| named(&note, error))?;
        }
        publish(&part.0, path).map_err(|error| {
            if has_note {
                // Left behind, it would keep the next export from beginning.
                let _ = std::fs::remove_file(&note);
            }
            named(path, error)
        })?;
        Ok(Exported {
            path: path.to_owned(),
            format: format.name(),
            dtype: layout.element.numpy(),
            shape: layout.shape.clone(),
            bytes: layout.sample_bytes(),
            frames: layout.frames * self.threads.len() as u64,
            missing,
            not_shown: self.not_shown(rows, placed),
            repaired: self.repaired() - repaired,
            notes: self.notes.clone(),
        })
    }

    fn write<T: Vectored + Octets>(
        &self,
        layout: &Layout,
        rows: &Range<u64>,
        output: &mut dyn Output,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(u64, u64), Failed> {
        let (width, threads) = (self.row(), self.threads.len());
        // Whole frames, so that each is in one block.
        let each = ((BLOCK_BYTES / (width * size_of::<T>())).max(1) as u64).next_multiple_of(self.frame_rows);
        let (mut numbers, mut octets, mut missing) = (Vec::new(), Vec::new(), 0);
        let mut placed = 0;
        let mut at = rows.start;
        while at < rows.end {
            if !go_on(at - rows.start, rows.end - rows.start) {
                return Err(Failed::Interrupted);
            }
            let to = (at / self.frame_rows * self.frame_rows + each).min(rows.end);
            numbers.resize((to - at) as usize * width, T::MISSING);
            let read = self.read(at, &mut numbers).map_err(Failed::Samples)?;
            octets.clear();
            T::append(&numbers, &mut octets);
            output.samples(&octets).map_err(Failed::Write)?;
            output.valid(&read.valid).map_err(Failed::Write)?;
            placed += read.placed;
            missing += read.valid.iter().filter(|&&valid| !valid).count() as u64;
            debug_assert_eq!(read.valid.len() % threads, 0, "whole frames of {layout:?}");
            at = to;
        }
        go_on(rows.end - rows.start, rows.end - rows.start);
        Ok((missing, placed))
    }
}

/// Why writing ended.
enum Failed {
    Samples(SamplesError),
    Write(io::Error),
    Interrupted,
}

impl Failed {
    fn at(self, path: &Path) -> ExportError {
        match self {
            Failed::Samples(error) => ExportError::Samples(error),
            Failed::Write(error) => ExportError::Write { path: path.to_owned(), error },
            Failed::Interrupted => ExportError::Interrupted,
        }
    }
}

/// Numbers as little-endian bytes.
trait Octets: Sized {
    fn append(numbers: &[Self], to: &mut Vec<u8>);
}

macro_rules! octets {
    ($($t:ty)*) => {$(
        impl Octets for $t {
            fn append(numbers: &[$t], to: &mut Vec<u8>) {
                to.reserve(size_of_val(numbers));
                numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
            }
        }
    )*};
}
octets!(f32 i8 i16 i32);

/// A name with something behind it.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(more);
    name.into()
}

/// A file or directory could not get its name: one of that name may have been made meanwhile.
fn named(path: &Path, error: io::Error) -> ExportError {
    match error.kind() {
        io::ErrorKind::AlreadyExists => ExportError::Exists(path.to_owned()),
        _ => ExportError::Write { path: path.to_owned(), error },
    }
}

/// Writes the note beside the samples; nothing of it is left if that fails.
fn write_note(path: &Path, text: &str) -> io::Result<()> {
    let mut note = std::fs::File::create_new(path)?;
    note.write_all(text.as_bytes()).inspect_err(|_| {
        // Part of it would keep the next export from beginning.
        let _ = std::fs::remove_file(path);
    })
}

/// What is being written; removed unless it was renamed.
struct Part(PathBuf);

impl Part {
    /// A name beside `path` that nothing has, nor another export of this program.
    fn beside(path: &Path) -> Part {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = || format!(".{}-{}.part", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut names = std::iter::repeat_with(|| beside(path, &next()));
        let is_free = |name: &PathBuf| name.symlink_metadata().is_err();
        Part(names.find(is_free).unwrap_or_else(|| beside(path, ".part")))
    }

    fn remove(&self) {
        let directory = self.0.symlink_metadata().is_ok_and(|about| about.is_dir());
        // It may not be there.
        let _ = if directory { std::fs::remove_dir_all(&self.0) } else { std::fs::remove_file(&self.0) };
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests;
