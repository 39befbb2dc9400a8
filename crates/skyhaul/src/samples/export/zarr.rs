//! Zarr, version 3: a directory with an array in chunks, one file each.
//!
//! ```text
//!   x.zarr/zarr.json                 the group, with attributes
//!   x.zarr/samples/zarr.json         shape, type, chunks
//!   x.zarr/samples/c/12/0/0          chunk 12: whole frames of all threads and channels, little-endian
//!   x.zarr/valid/…                   (frame, thread)
//! ```
//!
//! Source: Zarr core specification, version 3.0 (2024).

use super::layout::{Element, Layout, Output};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Bytes of a chunk, about.
const CHUNK_BYTES: u64 = 16 << 20;

/// The two arrays.
pub(super) struct Zarr {
    samples: Array,
    valid: Array,
}

/// An array along its first axis; chunks are whole in all others.
struct Array {
    directory: PathBuf,
    /// `0/0` for axes behind the first.
    rest: String,
    /// Bytes of a whole chunk.
    bytes: usize,
    fill: Vec<u8>,
    chunk: Vec<u8>,
    next: u64,
}

impl Zarr {
    pub(super) fn create(path: &Path, layout: &Layout) -> io::Result<Self> {
        fs::create_dir(path)?;
        let attributes: Map<String, Value> =
            layout.attributes.iter().map(|(name, value)| ((*name).to_owned(), value.into())).collect();
        let group = json!({ "zarr_format": 3, "node_type": "group", "attributes": attributes });
        write_json(&path.join("zarr.json"), &group)?;
        let row = layout.sample_bytes() / layout.shape[0].max(1);
        let rows = (CHUNK_BYTES / row.max(1)).max(1).next_multiple_of(layout.frame_rows);
        let nan = |element: Element| match element {
            Element::F32 => (json!("NaN"), f32::NAN.to_le_bytes().to_vec()),
            Element::C64 => (json!(["NaN", "NaN"]), [f32::NAN.to_le_bytes(); 2].concat()),
            Element::I8 => (json!(i8::MIN), i8::MIN.to_le_bytes().to_vec()),
            Element::I16 => (json!(i16::MIN), i16::MIN.to_le_bytes().to_vec()),
            Element::I32 => (json!(i32::MIN), i32::MIN.to_le_bytes().to_vec()),
        };
        let samples = Array::create(
            path.join("samples"),
            layout.element.numpy(),
            &layout.shape,
            &layout.axes,
            rows.min(layout.shape[0].max(1)),
            nan(layout.element),
        )?;
        let frames = (CHUNK_BYTES / layout.threads).clamp(1, layout.frames.max(1));
        let shape = [layout.frames, layout.threads];
        let fill = (json!(false), vec![0]);
        let valid = Array::create(path.join("valid"), "bool", &shape, &["frame", "thread"], frames, fill)?;
        Ok(Self { samples, valid })
    }
}

impl Output for Zarr {
    fn samples(&mut self, octets: &[u8]) -> io::Result<()> {
        self.samples.append(octets)
    }

    fn valid(&mut self, valid: &[bool]) -> io::Result<()> {
        let octets: Vec<u8> = valid.iter().map(|&valid| u8::from(valid)).collect();
        self.valid.append(&octets)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.samples.finish()?;
        self.valid.finish()
    }
}

impl Array {
    fn create(
        directory: PathBuf,
        kind: &str,
        shape: &[u64],
        axes: &[&str],
        rows: u64,
        (fill_value, fill): (Value, Vec<u8>),
    ) -> io::Result<Self> {
        fs::create_dir(&directory)?;
        let chunk: Vec<u64> =
            std::iter::once(rows).chain(shape[1..].iter().map(|&length| length.max(1))).collect();
        // A single octet has no order.
        let bytes = if fill.len() == 1 {
            json!({ "name": "bytes" })
        } else {
            json!({ "name": "bytes", "configuration": { "endian": "little" } })
        };
        let about = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": kind,
            "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": chunk } },
            "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
            "fill_value": fill_value,
            "codecs": [bytes],
            "attributes": {},
            "dimension_names": axes,
        });
        write_json(&directory.join("zarr.json"), &about)?;
        let bytes = chunk.iter().product::<u64>() as usize * fill.len();
        let rest = vec!["0"; shape.len() - 1].join("/");
        Ok(Self { directory, rest, bytes, fill, chunk: Vec::new(), next: 0 })
    }

    fn append(&mut self, mut octets: &[u8]) -> io::Result<()> {
        while !octets.is_empty() {
            let (now, later) = octets.split_at(octets.len().min(self.bytes - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            if self.chunk.len() == self.bytes {
                self.flush()?;
            }
            octets = later;
        }
        Ok(())
    }

    /// The last chunk is filled up: all have one size.
    fn finish(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let lack = (self.bytes - self.chunk.len()) / self.fill.len();
        self.chunk.extend(self.fill.repeat(lack));
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        let path = self.directory.join(format!("c/{}/{}", self.next, self.rest));
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, &self.chunk)?;
        self.chunk.clear();
        self.next += 1;
        Ok(())
    }
}

fn write_json(path: &Path, value: &Value) -> io::Result<()> {
    fs::write(path, serde_json::to_vec_pretty(value)?)
}
