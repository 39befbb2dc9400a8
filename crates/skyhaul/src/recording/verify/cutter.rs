//! The bytes of a file, as they are read, cut into frames of one size, or into packets that give their own.
//!
//! ```text
//!   reads     │            4 MiB            │            4 MiB            │
//!   frames    │ frame │ frame │ frame │ fra… me │ frame │                     each seen whole
//!   packets   │ head │ payload             … payload │ head │ payload │      heads are kept, payload goes by
//! ```

use skyhaul_core::pattern;
use skyhaul_core::placement::Placement;
use skyhaul_core::wire::Packets;

use crate::frames::{self, FrameReader, FramesOf};
use crate::recording::index::record::Datastream;
use crate::recording::verify::seen::Seen;

/// Cuts the bytes of a file.
pub(in crate::recording) enum Cutter {
    /// Into frames.
    Frames(FrameCutter),
    /// Into packets.
    Packets(PacketCutter),
}

impl Cutter {
    /// For the chunks of a datastream, if its format is known. `verify` whether payloads are the pattern.
    pub(in crate::recording) fn of(about: Option<&Datastream>, verify: bool) -> Option<Cutter> {
        let about = about?;
        if let Some(packets) = frames::packets_of(about) {
            return Some(Cutter::Packets(PacketCutter::new(packets, verify)));
        }
        Some(Cutter::frames(about, Box::new(FramesOf::datastream(about, verify)?)))
    }

    /// Into the frames of a datastream, for this reader.
    pub(in crate::recording) fn frames(about: &Datastream, reader: Box<dyn FrameReader>) -> Cutter {
        Cutter::Frames(FrameCutter { unit: about.info.unit_bytes as usize, rest: Vec::new(), reader })
    }

    /// The next bytes of the file.
    pub(in crate::recording) fn feed(&mut self, bytes: &[u8], seen: &mut Seen) {
        match self {
            Cutter::Frames(cutter) => cutter.feed(bytes, seen),
            Cutter::Packets(cutter) => cutter.feed(bytes, seen),
        }
    }

    /// Those were all.
    pub(in crate::recording) fn finish(self, seen: &mut Seen) {
        let (what, within) = match self {
            Cutter::Frames(cutter) => ("the file ends within a frame", !cutter.rest.is_empty()),
            Cutter::Packets(cutter) => ("the file ends within a packet", cutter.is_within()),
        };
        if within {
            seen.refuse(what);
        }
    }
}

/// Cuts bytes into frames of one size.
pub(in crate::recording) struct FrameCutter {
    unit: usize,
    rest: Vec<u8>,
    reader: Box<dyn FrameReader>,
}

impl FrameCutter {
    fn feed(&mut self, mut bytes: &[u8], seen: &mut Seen) {
        if self.unit == 0 {
            return;
        }
        if !self.rest.is_empty() {
            let n = (self.unit - self.rest.len()).min(bytes.len());
            self.rest.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.rest.len() < self.unit {
                return;
            }
            seen.add_frame(self.reader.see(&self.rest));
            self.rest.clear();
        }
        let frames = bytes.chunks_exact(self.unit);
        self.rest.extend_from_slice(frames.remainder());
        frames.for_each(|frame| seen.add_frame(self.reader.see(frame)));
    }
}

/// Cuts bytes into packets. After invalid data, nothing further can be recognised.
pub(in crate::recording) struct PacketCutter {
    packets: &'static dyn Packets,
    verify: bool,
    /// The beginning of a head.
    head: Vec<u8>,
    /// The current packet, how much of its payload has been read, and whether it must match the pattern.
    payload: Option<(Placement, u64, bool)>,
    lost: bool,
}

impl PacketCutter {
    fn new(packets: &'static dyn Packets, verify: bool) -> PacketCutter {
        PacketCutter { packets, verify, head: Vec::new(), payload: None, lost: false }
    }

    fn is_within(&self) -> bool {
        !self.lost && (self.payload.is_some() || !self.head.is_empty())
    }

    fn feed(&mut self, mut bytes: &[u8], seen: &mut Seen) {
        while !bytes.is_empty() && !self.lost {
            bytes = match self.payload.take() {
                Some((place, came, is_pattern)) => self.payload(place, came, is_pattern, bytes, seen),
                None => self.head(bytes, seen),
            };
        }
    }

    /// A head, or more of one; what follows it.
    fn head<'a>(&mut self, bytes: &'a [u8], seen: &mut Seen) -> &'a [u8] {
        let before = self.head.len();
        if before > 0 {
            self.head.extend_from_slice(bytes);
        }
        let whole = if before > 0 { &self.head[..] } else { bytes };
        match self.packets.place(whole) {
            Err(why) => {
                seen.refuse(why.name());
                self.lost = true;
                &[]
            }
            Ok(None) => {
                if before == 0 {
                    self.head.extend_from_slice(bytes);
                }
                &[]
            }
            Ok(Some(place)) => {
                let start = place.start as usize;
                let is_pattern = self.verify && self.packets.is_data(&whole[..start.min(whole.len())]);
                seen.add_packet(place.key);
                self.head.clear();
                if place.length > 0 {
                    self.payload = Some((place, 0, is_pattern));
                }
                bytes.get(start.saturating_sub(before)..).unwrap_or_default()
            }
        }
    }

    /// Payload, or more of it; what follows it.
    fn payload<'a>(
        &mut self,
        place: Placement,
        came: u64,
        is_pattern: bool,
        bytes: &'a [u8],
        seen: &mut Seen,
    ) -> &'a [u8] {
        let left = usize::try_from(place.length - came).unwrap_or(usize::MAX);
        let (here, rest) = bytes.split_at(left.min(bytes.len()));
        let is_wrong =
            is_pattern && pattern::first_error(place.key.number, place.offset + came, here).is_some();
        if is_wrong {
            seen.refuse("its payload does not match the pattern");
        }
        let came = came + here.len() as u64;
        if came < place.length {
            // One is enough to say of a packet.
            self.payload = Some((place, came, is_pattern && !is_wrong));
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::FAMILIES;
    use skyhaul_core::wire::spead::Flavour;
    use skyhaul_core::wire::spead::stored::NewHead;

    /// Packets of heaps 1 to `heaps`, each of `parts` packets.
    fn file(heaps: u64, parts: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for counter in 1..=heaps {
            for part in 0..parts {
                let (flavour, size) = (Flavour::SPEAD_64_48, Some(1000 * parts));
                let pointers = [flavour.addressed(0x1000, 0)];
                NewHead { flavour, counter, size, offset: 1000 * part, length: 1000, pointers: &pointers }
                    .write(&mut bytes);
                bytes.extend_from_slice(pattern::slice(counter, 1000 * part, 1000));
            }
        }
        bytes
    }

    fn cut(bytes: &[u8], step: usize) -> Seen {
        let packets = FAMILIES.iter().find_map(|family| family.packets()).unwrap();
        let (mut seen, mut cutter) = (Seen::default(), Cutter::Packets(PacketCutter::new(packets, true)));
        bytes.chunks(step).for_each(|piece| cutter.feed(piece, &mut seen));
        cutter.finish(&mut seen);
        seen
    }

    #[test]
    fn packets_are_found_however_the_file_is_read() {
        let bytes = file(7, 3);
        for step in [1, 7, 40, 48, 1000, 1047, 1048, 1049, 5000, bytes.len()] {
            let seen = cut(&bytes, step);
            assert_eq!((seen.frames, seen.objects, seen.illegal), (21, 7, 0), "{step}");
            assert_eq!(seen.proven_by_frames(None, None), Ok(()));
        }
    }

    #[test]
    fn what_is_no_packet_ends_the_proof() {
        let whole = file(4, 2);
        for (at, packets) in [(0, 0), (1048, 1), (1048 + 6, 1), (7 * 1048 + 1, 7)] {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            let seen = cut(&bytes, 1000);
            assert!(seen.illegal > 0 && seen.frames <= 8 && seen.frames >= packets, "{at}");
            assert!(seen.proven_by_frames(None, None).is_err(), "{at}");
        }
        for cut_off in [1, 999, 1000, 1001, 1047] {
            let seen = cut(&whole[..whole.len() - cut_off], 4096);
            assert_eq!(
                (seen.illegal, seen.illegal_why),
                (1, Some("the file ends within a packet")),
                "{cut_off}"
            );
        }
        let mut wrong = whole.clone();
        wrong[500] ^= 1;
        assert_eq!(cut(&wrong, 4096).illegal_why, Some("its payload does not match the pattern"));
        assert!(cut(&[], 10).proven_by_frames(None, None).is_err(), "an empty file proves nothing");
    }
}
