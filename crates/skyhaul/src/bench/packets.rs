//! The packets that every candidate gets: frames of a telescope that never ends, numbered where the family allows it.

use super::options::wrong;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::{FAMILIES, Format, Generated, Made, Numbering, PREFIX};
use std::io;

/// Bytes of packets kept ready: they fit no L2, as a telescope's do not.
const READY: usize = 8 << 20;
/// Bytes of the largest header.
const HEADER: usize = 64;
/// Frames per second: so many that a second outlasts a benchmark at most sizes.
const FRAMES_PER_SECOND: u32 = 4_000_000;
/// The first second: 2026-01-01.
const START: i64 = 1_767_225_600;
/// Bytes of a payload are a multiple of this.
const STEP: usize = 8;

/// Packets of a family in one size.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) frames: Box<dyn Generated>,
    /// Bytes of payload in a frame.
    pub(super) payload: usize,
    /// How packets are numbered, if they are.
    pub(super) numbering: Option<Numbering>,
    /// Bytes of a datagram.
    pub(super) bytes: usize,
}

impl Shape {
    /// The largest datagram of at most `size` bytes.
    ///
    /// # Errors
    /// The format cannot be generated, or has no such small datagram.
    pub(super) fn new(format: Format, size: usize) -> io::Result<Self> {
        let mut asked =
            FAMILIES.iter().filter(|&&family| format.family().is_none_or(|asked| asked == family));
        let generator = asked.find_map(|family| family.generator());
        let generator = generator
            .ok_or_else(|| wrong(&format!("streams of {format} cannot be generated; hint: omit --format")))?;
        let numbering = generator.takes_sequence().then_some(Numbering::whole(Order::Little));
        let prefix = numbering.map_or(0, |_| PREFIX);
        let impossible =
            || wrong(&format!("datagrams of {size} bytes are not possible; hint: use 48 to 65507"));
        if size > 65_507 {
            return Err(impossible());
        }
        let made = |payload| Made {
            payload,
            threads: 1,
            frames_per_second: FRAMES_PER_SECOND,
            start: START,
            station: "Sk".into(),
            pattern: false,
        };
        let most = size.saturating_sub(prefix) / STEP;
        let fits = |steps: usize| {
            let frames = generator.begin(made(steps * STEP)).ok()?;
            let bytes = prefix + frames.frame_bytes();
            (bytes <= size).then_some(Self { frames, payload: steps * STEP, numbering, bytes })
        };
        // A header, and a payload in steps of up to 128 bytes.
        (most.saturating_sub(24).max(1)..=most).rev().find_map(fits).ok_or_else(impossible)
    }
}

/// Contiguous packets, numbered as they are requested.
#[derive(Debug)]
pub(super) struct Packets {
    shape: Shape,
    bytes: Vec<u8>,
    at: usize,
    next: u64,
}

impl Packets {
    pub(super) fn new(format: Format, size: usize) -> io::Result<Self> {
        let shape = Shape::new(format, size)?;
        let mut bytes = vec![0; (READY / shape.bytes).max(1) * shape.bytes];
        for (n, packet) in (0..).zip(bytes.chunks_exact_mut(shape.bytes)) {
            let mut head = [0; HEADER];
            let (_, payload) = shape.frames.frame(n, &mut head);
            packet[shape.bytes - payload.len()..].copy_from_slice(payload);
        }
        Ok(Self { shape, bytes, at: 0, next: 0 })
    }

    /// The next `count` packets, or fewer at the end of what is kept ready.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        let size = self.shape.bytes;
        let most = self.bytes.len() / size;
        if self.at == most {
            self.at = 0;
        }
        let count = count.min(most - self.at);
        let range = self.at * size..(self.at + count) * size;
        for packet in self.bytes[range.clone()].chunks_exact_mut(size) {
            let mut header = packet;
            if let Some(numbering) = self.shape.numbering {
                let (number, rest) = header.split_at_mut(PREFIX);
                number.copy_from_slice(&numbering.write(self.next));
                header = rest;
            }
            self.shape.frames.frame(self.next, header);
            self.next += 1;
        }
        self.at += count;
        &self.bytes[range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::FAMILIES;

    #[test]
    fn packets_are_numbered_frames_of_their_time() {
        let mut made = 0;
        for family in FAMILIES.iter().filter(|family| family.generator().is_some()) {
            let format = family.name().parse::<Format>().unwrap();
            let mut packets = Packets::new(format, 8047).unwrap();
            let size = packets.shape.bytes;
            assert!((7000..=8047).contains(&size), "{format}: {size}");
            let all = packets.bytes.len() / size;
            (packets.next, packets.at) = (u64::from(FRAMES_PER_SECOND) - 1, all - 1);
            for number in [FRAMES_PER_SECOND - 1, FRAMES_PER_SECOND] {
                let taken = packets.take(5).to_vec();
                assert_eq!(taken.len() % size, 0);
                let mut expected = [0; HEADER];
                let prefix = packets.shape.numbering.map_or(0, |_| PREFIX);
                let (length, payload) = packets.shape.frames.frame(u64::from(number), &mut expected);
                assert_eq!(taken[prefix..prefix + length], expected[..length], "{format}");
                assert_eq!(payload.len() + length + prefix, size);
                if let Some(numbering) = packets.shape.numbering {
                    assert_eq!(taken[..PREFIX], numbering.write(u64::from(number)));
                }
            }
            made += 1;
        }
        assert!(made >= 2);
        assert!(Shape::new(Format::Auto, 40).is_err() && Shape::new(Format::Auto, 65_508).is_err());
        assert_eq!(Shape::new(Format::Auto, 8972).unwrap().bytes, 8968);
    }
}
