//! HDF5: two contiguous datasets and their attributes, the least that the format needs.
//!
//! ```text
//!   0      superblock, version 2
//!   48     header of the group `/`: links to `samples` and `valid`, attributes
//!   …      header of `samples`, header of `valid`
//!   4096   samples, one after another
//!   …      valid: an octet for each frame of each thread
//! ```
//!
//! Complex numbers and booleans are as h5py writes them: a compound of `r` and `i`, an enumeration of `FALSE` and `TRUE`.
//!
//! Source: HDF5 File Format Specification, version 3.0 (2020), clauses II.A (superblock), IV.A.1.b (object header) and
//! IV.A.2 (messages).

use super::layout::{Attribute, Element, Layout, Output};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// No address.
const NONE: u64 = u64::MAX;
const SUPERBLOCK_BYTES: u64 = 48;
/// Where data begin: a multiple of this.
const PAGE_BYTES: u64 = 4096;

/// A file of samples.
pub(super) struct Hdf5 {
    file: File,
    samples: u64,
    valid: u64,
}

impl Hdf5 {
    pub(super) fn create(path: &Path, layout: &Layout) -> io::Result<Self> {
        let group = |samples, valid| {
            let mut messages = vec![
                // No creation order, and links within the header.
                message(0x02, &[&[0, 0][..], &NONE.to_le_bytes(), &NONE.to_le_bytes()].concat()),
                message(0x0A, &[0, 0]),
                link("samples", samples),
                link("valid", valid),
            ];
            messages.extend(layout.attributes.iter().map(|(name, value)| attribute(name, value)));
            header(&messages)
        };
        let frames = [layout.frames, layout.threads];
        let size = layout.sample_bytes();
        let of_samples = |at| dataset(&element(layout.element), &layout.shape, at, size);
        let of_valid = |at| dataset(&boolean(), &frames, at, frames.iter().product());
        // Headers have the same length whatever addresses they hold.
        let group_at = SUPERBLOCK_BYTES;
        let samples_at = group_at + group(0, 0).len() as u64;
        let valid_at = samples_at + of_samples(0).len() as u64;
        let samples = (valid_at + of_valid(0).len() as u64).next_multiple_of(PAGE_BYTES);
        let valid = samples + size;
        let end = valid + frames.iter().product::<u64>();
        let mut octets = superblock(group_at, end);
        octets.extend(group(samples_at, valid_at));
        octets.extend(of_samples(samples));
        octets.extend(of_valid(valid));
        let file = File::create_new(path)?;
        file.write_all_at(&octets, 0)?;
        file.set_len(end)?;
        Ok(Self { file, samples, valid })
    }
}

impl Output for Hdf5 {
    fn samples(&mut self, octets: &[u8]) -> io::Result<()> {
        self.file.write_all_at(octets, self.samples)?;
        self.samples += octets.len() as u64;
        Ok(())
    }

    fn valid(&mut self, valid: &[bool]) -> io::Result<()> {
        let octets: Vec<u8> = valid.iter().map(|&valid| u8::from(valid)).collect();
        self.file.write_all_at(&octets, self.valid)?;
        self.valid += octets.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

fn superblock(root: u64, end: u64) -> Vec<u8> {
    let mut octets = b"\x89HDF\r\n\x1a\n".to_vec();
    // Version 2; addresses and lengths of 8 bytes; no flags.
    octets.extend([2, 8, 8, 0]);
    for address in [0, NONE, end, root] {
        octets.extend(address.to_le_bytes());
    }
    checked(octets)
}

/// Metadata with its checksum.
fn checked(mut octets: Vec<u8>) -> Vec<u8> {
    let sum = lookup3(&octets);
    octets.extend(sum.to_le_bytes());
    octets
}

/// An object header, version 2, in one chunk.
fn header(messages: &[Vec<u8>]) -> Vec<u8> {
    let mut octets = b"OHDR".to_vec();
    // Version 2; the length of the chunk has four bytes.
    octets.extend([2, 0b10]);
    octets.extend((messages.iter().map(Vec::len).sum::<usize>() as u32).to_le_bytes());
    messages.iter().for_each(|message| octets.extend(message));
    checked(octets)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut octets = vec![kind];
    octets.extend((body.len() as u16).to_le_bytes());
    octets.push(0);
    octets.extend(body);
    octets
}

/// A hard link.
fn link(name: &str, address: u64) -> Vec<u8> {
    let mut body = vec![1, 0, name.len() as u8];
    body.extend(name.bytes());
    body.extend(address.to_le_bytes());
    message(0x06, &body)
}

fn dataset(datatype: &[u8], shape: &[u64], address: u64, size: u64) -> Vec<u8> {
    // Nothing is stored of an empty one.
    let address = if size == 0 { NONE } else { address };
    let mut layout = vec![3, 1];
    layout.extend(address.to_le_bytes());
    layout.extend(size.to_le_bytes());
    header(&[
        message(0x01, &dataspace(shape)),
        message(0x03, datatype),
        // Version 3; allocated early, fill never written, no value.
        message(0x05, &[3, 0b0101]),
        message(0x08, &layout),
    ])
}

fn dataspace(shape: &[u64]) -> Vec<u8> {
    // Version 2; no maxima; simple, or scalar.
    let mut body = vec![2, shape.len() as u8, 0, u8::from(!shape.is_empty())];
    shape.iter().for_each(|length| body.extend(length.to_le_bytes()));
    body
}

fn element(element: Element) -> Vec<u8> {
    match element {
        Element::F32 => float(),
        Element::C64 => {
            // Class 6 of version 3, two members.
            let mut body = vec![0x36, 2, 0, 0];
            body.extend(8u32.to_le_bytes());
            for (name, offset) in [(b"r\0", 0), (b"i\0", 4)] {
                body.extend(name);
                body.push(offset);
                body.extend(float());
            }
            body
        }
        Element::I8 => integer(1),
        Element::I16 => integer(2),
        Element::I32 => integer(4),
    }
}

/// IEEE 754, 32 bits, little-endian.
fn float() -> Vec<u8> {
    // Class 1 of version 1; the mantissa's first bit is implied, the sign is bit 31.
    let mut body = vec![0x11, 0x20, 31, 0];
    body.extend(4u32.to_le_bytes());
    body.extend([0, 0, 32, 0, 23, 8, 0, 23]);
    body.extend(127u32.to_le_bytes());
    body
}

/// Signed, little-endian.
fn integer(bytes: u32) -> Vec<u8> {
    let mut body = vec![0x10, 0b1000, 0, 0];
    body.extend(bytes.to_le_bytes());
    body.extend([0, 0]);
    body.extend((bytes as u16 * 8).to_le_bytes());
    body
}

fn boolean() -> Vec<u8> {
    // Class 8 of version 3, two values.
    let mut body = vec![0x38, 2, 0, 0];
    body.extend(1u32.to_le_bytes());
    body.extend(integer(1));
    body.extend(b"FALSE\0TRUE\0\x00\x01");
    body
}

/// Text in UTF-8, as long as it is.
fn text(length: usize) -> Vec<u8> {
    // Class 3 of version 1, padded with zeros.
    let mut body = vec![0x13, 0x11, 0, 0];
    body.extend((length as u32).to_le_bytes());
    body
}

fn attribute(name: &str, value: &Attribute) -> Vec<u8> {
    let (datatype, shape, octets) = match value {
        Attribute::Text(words) => {
            // A string of no bytes is illegal.
            let octets = if words.is_empty() { vec![0] } else { words.clone().into_bytes() };
            (text(octets.len()), vec![], octets)
        }
        Attribute::Integer(number) => (integer(8), vec![], number.to_le_bytes().to_vec()),
        Attribute::Integers(numbers) => {
            let octets = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            (integer(8), vec![numbers.len() as u64], octets)
        }
    };
    let space = dataspace(&shape);
    // Version 3; nothing is shared; the name is ASCII.
    let mut body = vec![3, 0];
    for length in [name.len() + 1, datatype.len(), space.len()] {
        body.extend((length as u16).to_le_bytes());
    }
    body.push(0);
    body.extend(name.bytes());
    body.push(0);
    body.extend(datatype);
    body.extend(space);
    body.extend(octets);
    message(0x0C, &body)
}

/// The checksum of these bytes.
pub(super) fn lookup3(octets: &[u8]) -> u32 {
    let mut state = [0xDEAD_BEEF_u32.wrapping_add(octets.len() as u32); 3];
    let mut rest = octets;
    while rest.len() > 12 {
        let (block, behind) = rest.split_at(12);
        add(&mut state, block);
        mix(&mut state);
        rest = behind;
    }
    if rest.is_empty() {
        return state[2];
    }
    add(&mut state, rest);
    last(&mut state)
}

/// Add up to twelve bytes, little-endian.
fn add(state: &mut [u32; 3], octets: &[u8]) {
    for (n, &octet) in octets.iter().enumerate() {
        state[n / 4] = state[n / 4].wrapping_add(u32::from(octet) << (n % 4 * 8));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    *state = [a, b, c];
}

fn last(state: &mut [u32; 3]) -> u32 {
    let [mut a, mut b, mut c] = *state;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    c
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    #[test]
    fn known_values() {
        // From the author's own test, `driver5`.
        assert_eq!(lookup3(b""), 0xDEAD_BEEF);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
