//! The packets that every candidate gets: frames of a telescope that never ends, or heaps and events, all of one size.

use super::options::{BenchOptions, BenchTarget, wrong};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::keyed::{Keyed, Part, VisitKeyed};
use skyhaul_core::wire::labelled::{Label, Labelled, VisitLabelled};
use skyhaul_core::wire::{FAMILIES, Format, Generated, Made, Numbering, PREFIX, SynthPayload};
use std::io;

/// Bytes of packets kept ready: they fit no L2, as a telescope's do not.
const READY: usize = 8 << 20;
/// Bytes of the largest header of a frame.
const HEADER: usize = 64;
/// Frames per second: so many that a second outlasts a benchmark at most sizes.
const FRAMES_PER_SECOND: u32 = 4_000_000;
/// The first second: 2026-01-01.
const START: i64 = 1_767_225_600;
/// Bytes of a payload are a multiple of this.
const STEP: usize = 8;
/// Bytes of the largest datagram.
const LARGEST: usize = 65_507;

impl BenchOptions {
    /// The packets of a datagram size.
    pub(super) fn shape(&self, size: usize) -> io::Result<Shape> {
        match self.what {
            BenchTarget::Balance => Shape::labelled(self.format, size, self.object_bytes),
            _ => Shape::new(self.format, size, self.object_bytes),
        }
    }
}

/// Packets of a family in one size.
#[derive(Debug)]
pub(super) struct Shape {
    content: Content,
    /// Bytes of payload in a packet.
    pub(super) payload: usize,
    /// Bytes of a datagram.
    pub(super) bytes: usize,
}

/// What packets hold.
#[derive(Debug)]
enum Content {
    /// A frame, numbered if the family allows it.
    Frame { frames: Box<dyn Generated>, numbering: Option<Numbering> },
    /// A part of an object, behind a label for a balancer if it has one.
    Part { head: WriteHead, parts: u64, label: Option<WriteLabel> },
}

/// See [`Labelled::write_label`].
type WriteLabel = fn(&Label) -> Vec<u8>;

/// See [`Keyed::head`].
type WriteHead = fn(u8, &Part<'_>) -> Option<Vec<u8>>;

impl Shape {
    /// The largest datagram of at most `size` bytes; objects have about `object` bytes.
    ///
    /// # Errors
    /// The format cannot be generated, or has no such small datagram.
    pub(super) fn new(format: Format, size: usize, object: usize) -> io::Result<Self> {
        if size > LARGEST {
            return Err(impossible(size));
        }
        match format.family().and_then(|family| family.visit_keyed(Head)) {
            Some(head) => Self::of_parts(head, None, size, object),
            None => Self::of_frames(format, size),
        }
    }

    /// The same for a balancer.
    fn labelled(format: Format, size: usize, object: usize) -> io::Result<Self> {
        let families = FAMILIES.iter().filter(|&&family| format.family().is_none_or(|asked| asked == family));
        let mut found =
            families.filter_map(|family| Some((family.visit_keyed(Head)?, family.visit_labelled(Labels)?)));
        let none = || {
            wrong(format_args!("packets of {format} have no label for a balancer{}", Hint("omit --format")))
        };
        let (head, label) = found.next().ok_or_else(none)?;
        Self::of_parts(head, Some(label), size.min(LARGEST), object)
    }

    fn of_frames(format: Format, size: usize) -> io::Result<Self> {
        let mut asked =
            FAMILIES.iter().filter(|&&family| format.family().is_none_or(|asked| asked == family));
        let generator = asked.find_map(|family| family.generator());
        let generator = generator.ok_or_else(|| {
            wrong(format_args!("streams of {format} cannot be generated{}", Hint("omit --format")))
        })?;
        let numbering = generator.takes_sequence().then_some(Numbering::whole(Order::Little));
        let prefix = numbering.map_or(0, |_| PREFIX);
        let made = |payload| Made {
            payload,
            threads: 1,
            frames_per_second: FRAMES_PER_SECOND,
            start: START,
            station: "Sk".into(),
            payloads: SynthPayload::Noise,
        };
        let most = size.saturating_sub(prefix) / STEP;
        let fits = |steps: usize| {
            let frames = generator.begin(made(steps * STEP)).ok()?;
            let bytes = prefix + frames.frame_bytes();
            let content = Content::Frame { frames, numbering };
            (bytes <= size).then_some(Self { content, payload: steps * STEP, bytes })
        };
        // A header, and a payload in steps of up to 128 bytes.
        (most.saturating_sub(24).max(1)..=most).rev().find_map(fits).ok_or_else(|| impossible(size))
    }

    /// All packets of an object are of one size, as the trains of a sender need them.
    fn of_parts(head: WriteHead, label: Option<WriteLabel>, size: usize, object: usize) -> io::Result<Self> {
        let sample = head(0, &Part { size: Some(0), payload: &[0; STEP], items: true, ..Part::default() });
        let label_bytes = label.map_or(0, |label| label(&Label::default()).len());
        let overhead = label_bytes + sample.ok_or_else(|| impossible(size))?.len();
        let payload = size.saturating_sub(overhead) / STEP * STEP;
        if payload == 0 {
            return Err(impossible(size));
        }
        let parts = (object / payload).max(1) as u64;
        Ok(Self { content: Content::Part { head, parts, label }, payload, bytes: overhead + payload })
    }

    /// Bytes before the frame in a datagram.
    pub(super) fn prefix(&self) -> usize {
        match self.content {
            Content::Frame { numbering: Some(_), .. } => PREFIX,
            _ => 0,
        }
    }

    /// Bytes of the label in front of a packet, which a balancer removes.
    pub(super) fn label(&self) -> usize {
        match self.content {
            Content::Part { label: Some(label), .. } => label(&Label::default()).len(),
            _ => 0,
        }
    }

    /// Payload of an object, if packets hold parts of objects.
    pub(super) fn object(&self) -> Option<usize> {
        match self.content {
            Content::Part { parts, .. } => Some(parts as usize * self.payload),
            Content::Frame { .. } => None,
        }
    }

    /// Write packet number `n`, but not its payload.
    fn write_head(&self, n: u64, packet: &mut [u8]) {
        match &self.content {
            Content::Frame { frames, numbering: None } => {
                frames.frame(n, packet);
            }
            Content::Frame { frames, numbering: Some(numbering) } => {
                let (number, frame) = packet.split_at_mut(PREFIX);
                number.copy_from_slice(&numbering.write(n));
                frames.frame(n, frame);
            }
            Content::Part { head, parts, label } => {
                let overhead = packet.len() - self.payload;
                let number = 1 + n / parts;
                let label = label
                    .map(|label| label(&Label { tick: number, slot: number as u16, ..Label::default() }));
                let label = label.unwrap_or_default();
                let part = Part {
                    number,
                    size: Some(parts * self.payload as u64),
                    offset: n % parts * self.payload as u64,
                    payload: &packet[overhead..],
                    items: true,
                    ..Part::default()
                };
                if let Some(head) = head(0, &part) {
                    let (first, second) = packet[..overhead].split_at_mut(label.len());
                    first.copy_from_slice(&label);
                    second.copy_from_slice(&head);
                }
            }
        }
    }
}

fn impossible(size: usize) -> io::Error {
    wrong(format_args!(
        "datagrams of {size} bytes are not possible{}",
        Hint(format_args!("use 72 to {LARGEST}"))
    ))
}

/// How a family writes heads.
struct Head;

impl VisitKeyed for Head {
    type Out = WriteHead;
    fn visit<W: Keyed>(self) -> WriteHead {
        W::head
    }
}

/// How a family writes labels.
struct Labels;

impl VisitLabelled for Labels {
    type Out = WriteLabel;
    fn visit<L: Labelled>(self) -> WriteLabel {
        L::write_label
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
    pub(super) fn new(shape: Shape) -> Self {
        let mut bytes = vec![0; (READY / shape.bytes).max(1) * shape.bytes];
        if let Content::Frame { frames, .. } = &shape.content {
            for (n, packet) in (0..).zip(bytes.chunks_exact_mut(shape.bytes)) {
                let mut head = [0; HEADER];
                let (_, payload) = frames.frame(n, &mut head);
                packet[shape.bytes - payload.len()..].copy_from_slice(payload);
            }
        }
        Self { shape, bytes, at: 0, next: 0 }
    }

    /// How many packets the last object still lacks.
    pub(super) fn unfinished(&self) -> usize {
        match self.shape.content {
            Content::Part { parts, .. } => ((parts - self.next % parts) % parts) as usize,
            Content::Frame { .. } => 0,
        }
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
            self.shape.write_head(self.next, packet);
            self.next += 1;
        }
        self.at += count;
        &self.bytes[range]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn packets(format: Format, size: usize) -> Packets {
        Packets::new(Shape::new(format, size, 100_000).unwrap())
    }

    #[test]
    fn packets_are_numbered_frames_of_their_time() {
        let mut made = 0;
        for family in FAMILIES.iter().filter(|family| family.generator().is_some()) {
            let format = family.name().parse::<Format>().unwrap();
            let mut packets = packets(format, 8047);
            let size = packets.shape.bytes;
            assert!((7000..=8047).contains(&size), "{format}: {size}");
            let all = packets.bytes.len() / size;
            (packets.next, packets.at) = (u64::from(FRAMES_PER_SECOND) - 1, all - 1);
            for number in [FRAMES_PER_SECOND - 1, FRAMES_PER_SECOND] {
                let taken = packets.take(5).to_vec();
                assert_eq!(taken.len() % size, 0);
                let Content::Frame { frames, numbering } = &packets.shape.content else { panic!("{format}") };
                let mut expected = [0; HEADER];
                let prefix = numbering.map_or(0, |_| PREFIX);
                let (length, payload) = frames.frame(u64::from(number), &mut expected);
                assert_eq!(taken[prefix..prefix + length], expected[..length], "{format}");
                assert_eq!(payload.len() + length + prefix, size);
                if let Some(numbering) = numbering {
                    assert_eq!(taken[..PREFIX], numbering.write(u64::from(number)));
                }
            }
            made += 1;
        }
        assert!(made >= 2);
        assert_eq!(Shape::new(Format::Auto, 8972, 0).unwrap().bytes, 8968);
    }

    #[test]
    fn parts_cover_their_objects() {
        struct Places<'a>(usize, &'a [u8]);
        impl VisitKeyed for Places<'_> {
            type Out = Vec<(u64, u64, u64)>;
            fn visit<W: Keyed>(self) -> Self::Out {
                let place = |packet| {
                    let place = W::placement(&W::read(packet).unwrap(), 0);
                    (place.key.number, place.offset, place.size.unwrap())
                };
                self.1.chunks(self.0).map(place).collect()
            }
        }
        let mut made = 0;
        for family in FAMILIES {
            let format = family.name().parse::<Format>().unwrap();
            let Some(object) = Shape::new(format, 1472, 10_000).ok().and_then(|shape| shape.object()) else {
                continue;
            };
            let mut packets = packets(format, 1472);
            let (size, payload) = (packets.shape.object().unwrap() as u64, packets.shape.payload as u64);
            let parts = size / payload;
            assert!(size > 90_000 && object < 10_001 && size.is_multiple_of(payload));
            let bytes = packets.shape.bytes;
            let places = family.visit_keyed(Places(bytes, packets.take(200))).unwrap();
            let expected = (0..200).map(|n| (1 + n / parts, n % parts * payload, size));
            assert!(places.into_iter().eq(expected), "{format}");
            made += 1;
        }
        assert!(made >= 2);
    }

    #[test]
    fn impossible_sizes_are_rejected() {
        assert!(Shape::new(Format::Auto, 40, 0).is_err());
        for family in FAMILIES {
            let format: Format = family.name().parse().unwrap();
            assert!(Shape::new(format, 8, 0).is_err() && Shape::new(format, LARGEST + 1, 0).is_err());
        }
    }
}
