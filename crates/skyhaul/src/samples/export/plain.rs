//! NumPy's files, and numbers with nothing around them.

use super::layout::{Element, Layout};
use super::output::Output;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

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
        // The array begins at a multiple of 64 octets.
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
