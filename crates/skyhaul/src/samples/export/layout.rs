//! An exported array (type, shape, attributes), and its plain form without a container.

use crate::samples::Samples;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

/// The type of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A level.
    F32,
    /// Two levels: real and imaginary part.
    C64,
    /// An integer of up to 8 bits.
    I8,
    /// Of 16 bits.
    I16,
    /// Of 32 bits.
    I32,
}

impl Element {
    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Element::I8 => 1,
            Element::I16 => 2,
            Element::F32 | Element::I32 => 4,
            Element::C64 => 8,
        }
    }

    /// Its name in NumPy and Zarr.
    #[must_use]
    pub const fn numpy(self) -> &'static str {
        match self {
            Element::F32 => "float32",
            Element::C64 => "complex64",
            Element::I8 => "int8",
            Element::I16 => "int16",
            Element::I32 => "int32",
        }
    }
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// Text.
    Text(String),
    /// A number.
    Integer(i64),
    /// Numbers.
    Integers(Vec<i64>),
}

impl From<&Attribute> for serde_json::Value {
    fn from(attribute: &Attribute) -> Self {
        match attribute {
            Attribute::Text(text) => text.as_str().into(),
            Attribute::Integer(number) => (*number).into(),
            Attribute::Integers(numbers) => numbers.as_slice().into(),
        }
    }
}

/// An array of samples, and of the validity of their frames.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    pub(super) axes: Vec<&'static str>,
    pub(super) frames: u64,
    pub(super) threads: u64,
    pub(super) frame_rows: u64,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
}

impl Layout {
    pub(super) fn new(samples: &Samples, rows: &Range<u64>, integers: bool) -> Self {
        let bits = samples.coding().bits();
        let element = match (integers, samples.is_complex()) {
            (false, false) => Element::F32,
            (false, true) => Element::C64,
            (true, _) if bits <= 8 => Element::I8,
            (true, _) if bits == 16 => Element::I16,
            (true, _) => Element::I32,
        };
        let threads = samples.threads().len() as u64;
        let mut shape = vec![rows.end - rows.start, threads, u64::from(samples.channels())];
        let mut axes = vec!["time", "thread", "channel"];
        if integers && samples.is_complex() {
            shape.push(2);
            axes.push("component");
        }
        let frame_rows = samples.frame_rows();
        let frames =
            if rows.is_empty() { 0 } else { rows.end.div_ceil(frame_rows) - rows.start / frame_rows };
        let format = samples.format();
        let threads_list = samples.threads().iter().map(|&thread| i64::from(thread)).collect();
        let attributes = vec![
            ("start", Attribute::Text(samples.time_of(rows.start))),
            ("sample_rate", Attribute::Integer(samples.sample_rate() as i64)),
            ("format", Attribute::Text(format.describe())),
            ("station", Attribute::Text(format.station.clone().unwrap_or_default())),
            ("bits", Attribute::Integer(i64::from(bits))),
            ("threads", Attribute::Integers(threads_list)),
            ("frame_samples", Attribute::Integer(frame_rows as i64)),
            ("skip", Attribute::Integer((rows.start % frame_rows) as i64)),
        ];
        Self { element, shape, axes, frames, threads, frame_rows, attributes }
    }

    /// Bytes of all samples.
    pub(super) fn sample_bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.element.bytes()
    }

    /// What is known of them, as JSON.
    pub(super) fn note(&self, missing: u64) -> String {
        let mut all = serde_json::Map::new();
        all.insert("dtype".into(), self.element.numpy().into());
        all.insert("byte_order".into(), "little".into());
        all.insert("shape".into(), self.shape.as_slice().into());
        all.insert("axes".into(), self.axes.as_slice().into());
        all.extend(self.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.into())));
        all.insert("frames".into(), (self.frames * self.threads).into());
        all.insert("missing_frames".into(), missing.into());
        let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// A file that samples are written to, in order.
pub(super) trait Output {
    /// The next samples, as bytes.
    fn samples(&mut self, octets: &[u8]) -> io::Result<()>;
    /// The next frames' validity, by frame and thread.
    fn valid(&mut self, valid: &[bool]) -> io::Result<()>;
    /// Everything was given.
    fn finish(&mut self) -> io::Result<()>;
}

/// One array in one file.
pub(super) struct Plain(File);

impl Plain {
    pub(super) fn raw(path: &Path) -> io::Result<Self> {
        File::create_new(path).map(Self)
    }

    /// With NumPy's header, version 1.0.
    pub(super) fn npy(path: &Path, layout: &Layout) -> io::Result<Self> {
        let kind = match layout.element {
            Element::F32 => "<f4",
            Element::C64 => "<c8",
            Element::I8 => "|i1",
            Element::I16 => "<i2",
            Element::I32 => "<i4",
        };
        let shape: Vec<String> = layout.shape.iter().map(ToString::to_string).collect();
        let shape = shape.join(", ");
        let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
        // The array begins at a multiple of 64 bytes.
        let length = (10 + dictionary.len() + 1).next_multiple_of(64) - 10;
        let mut header = b"\x93NUMPY\x01\x00".to_vec();
        header.extend((length as u16).to_le_bytes());
        header.extend(format!("{dictionary:<width$}\n", width = length - 1).bytes());
        let mut file = File::create_new(path)?;
        file.write_all(&header)?;
        Ok(Self(file))
    }
}

impl Output for Plain {
    fn samples(&mut self, octets: &[u8]) -> io::Result<()> {
        self.0.write_all(octets)
    }

    fn valid(&mut self, _valid: &[bool]) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}
