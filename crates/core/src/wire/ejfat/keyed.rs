//! EJFAT as a family of keyed objects: an event is a tick of one data id, regardless of the ports of its segments.

use super::stored::{self, HEADS};
use super::{Addressing, BalancerV2, BalancerVersion, OldReassembly, PortRule, Reassembly, balancer_bytes};
use crate::{
    placement::{Key, Placement, Reject},
    wire::keyed::{Keyed, Left, Part, Stored, source_of},
};

/// How EJFAT segments are read.
#[derive(Debug)]
pub struct EjfatWire;

/// The fields of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Version that its writer states: 0, 1 or 2.
    pub version: u8,
    /// Source.
    pub data_id: u16,
    /// Event.
    pub tick: u64,
    /// Bytes of the whole event.
    pub size: u32,
    /// Where its payload belongs in the event.
    pub offset: u32,
    /// Bytes of its payload.
    pub length: u32,
    /// Bytes from the packet's start to its payload.
    pub start: usize,
}

impl Segment {
    /// The fields of `packet`, after a balancer's header if there is one.
    ///
    /// # Errors
    /// [`Reject::Truncated`], [`Reject::BadVersion`] for versions that no sender uses and the [old layout](OldReassembly),
    /// [`Reject::BadField`] without payload, [`Reject::Outside`] if the payload exceeds the event.
    #[inline]
    pub fn read(packet: &[u8]) -> Result<Segment, Reject> {
        let at = balancer_bytes(packet)?;
        let behind = packet.get(at..).ok_or(Reject::Truncated)?;
        let (header, payload) = Reassembly::read(behind).ok_or(Reject::Truncated)?;
        if header.version > 2 {
            return Err(Reject::BadVersion);
        }
        let length = u32::try_from(payload.len()).map_err(|_| Reject::Outside)?;
        if length == 0 {
            return Err(Reject::BadField);
        }
        let Reassembly { data_id, tick, length: size, offset, .. } = header;
        if u64::from(offset) + u64::from(length) > u64::from(size) {
            let is_old = OldReassembly::recognise(behind).is_some();
            return Err(if is_old { Reject::BadVersion } else { Reject::Outside });
        }
        Ok(Segment {
            version: header.version as u8,
            data_id,
            tick,
            size,
            offset,
            length,
            start: at + Reassembly::LEN,
        })
    }
}

impl Keyed for EjfatWire {
    type Head<'a> = Segment;
    type Kept = ();
    const MAGIC: &'static [u8] = &[];
    const LONGEST_HEAD: usize = BalancerV2::LEN + Reassembly::LEN;
    const COUNTED_BY_SENDER: bool = false;
    const STATES_SIZE: bool = true;
    const LARGEST: u64 = u32::MAX as u64;

    #[inline]
    fn read(packet: &[u8]) -> Result<Segment, Reject> {
        Segment::read(packet)
    }

    /// A segment does not state its length; only a stored one does.
    fn peek(_: &[u8]) -> Result<Option<Segment>, Reject> {
        Err(Reject::Unrecognised)
    }

    fn describe((): &()) -> String {
        "EJFAT".to_owned()
    }

    fn heads_bytes((): &(), parts: usize) -> usize {
        parts.max(1) * HEADS
    }

    fn store((): &(), left: &Left, to: &mut Vec<u8>) -> Option<Stored> {
        stored::store(left, to)
    }

    /// The forms are without a balancer's header, and with one of each version.
    fn head(form: u8, part: &Part<'_>) -> Option<Vec<u8>> {
        let (v2, v3) = (BalancerVersion::V2, BalancerVersion::V3);
        let version = *[None, Some(v2), Some(v3)].get(usize::from(form))?;
        let told = |octets: u64| u32::try_from(octets).ok();
        let (length, offset) = (told(part.size?)?, told(part.offset)?);
        let mut head = Vec::new();
        if let Some(version) = version {
            let addressing = Addressing { version, port: PortRule::Source, ..Addressing::default() };
            head.extend(addressing.header(part.number, part.own));
        }
        let like = Reassembly { version: 1, data_id: part.own, ..Reassembly::default() };
        head.extend(Reassembly { offset, length, tick: part.number, ..like }.write());
        (!part.payload.is_empty() && part.control.is_none()).then_some(head)
    }

    #[inline]
    fn placement(head: &Segment, sender: u64) -> Placement {
        head.placement(sender)
    }

    #[inline]
    fn following<'a>(head: &Segment, packet: &'a [u8]) -> Option<impl Fn(u64, &[u8]) -> bool> {
        let next = Next { first: *head, head: packet.get(..head.start)? };
        Some(
            #[inline]
            move |n, packet: &[u8]| next.is(n, packet),
        )
    }

    fn begin(_: &Segment) {}

    #[inline]
    fn keep(_: &mut (), _: &Segment) -> Result<u64, Reject> {
        Ok(0)
    }

    fn join(_: &mut (), _: &()) -> Result<u64, Reject> {
        Ok(0)
    }
}

impl Segment {
    /// Where its payload belongs, among the events of sender number `sender`.
    #[inline]
    #[must_use]
    pub fn placement(&self, sender: u64) -> Placement {
        Placement {
            key: Key { source: source_of(sender, self.data_id), number: self.tick },
            offset: u64::from(self.offset),
            start: self.start as u32,
            length: u64::from(self.length),
            size: Some(u64::from(self.size)),
            number_bits: 64,
        }
    }
}

/// Recognises consecutive segments of an event: their heads are equal except for the offset.
#[derive(Clone, Copy, Debug)]
struct Next<'a> {
    first: Segment,
    head: &'a [u8],
}

/// Position of the offset, from the end of a head.
const OFFSET: usize = Reassembly::LEN - 4;

impl Next<'_> {
    /// Whether `packet` is the `n`th after the first.
    #[inline]
    fn is(&self, n: u64, packet: &[u8]) -> bool {
        let (at, length) = (self.head.len() - OFFSET, u64::from(self.first.length));
        let offset = u64::from(self.first.offset) + n * length;
        let Some((before, rest)) = packet.split_at_checked(at) else { return false };
        let Some((here, behind)) = rest.split_first_chunk::<4>() else { return false };
        u64::from(u32::from_be_bytes(*here)) == offset
            && offset + length <= u64::from(self.first.size)
            && *before == self.head[..at]
            && behind.get(..OFFSET - 4) == Some(&self.head[at + 4..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ejfat::MAGIC;
    use proptest::prelude::*;

    fn packet(version: u16, offset: u32, length: u32, payload: usize) -> Vec<u8> {
        let mut packet =
            Reassembly { version, reserved: 0, data_id: 0x1234, offset, length, tick: 77 }.write().to_vec();
        packet.resize(20 + payload, 0);
        packet
    }

    fn balanced(version: u8) -> Vec<u8> {
        let header = BalancerV2 { magic: MAGIC, version, protocol: 1, tick: 77, ..BalancerV2::default() };
        header.write().to_vec()
    }

    #[test]
    fn every_version_in_use_is_placed() {
        for nibble in 0..3 {
            let bare = packet(nibble, 100, 1000, 50);
            let place = Placement {
                key: Key { source: 3 << 16 | 0x1234, number: 77 },
                offset: 100,
                start: 20,
                length: 50,
                size: Some(1000),
                number_bits: 64,
            };
            assert_eq!(EjfatWire::read(&bare).unwrap().placement(3), place);
            for version in [2, 3] {
                let both = [&balanced(version)[..], &bare].concat();
                assert_eq!(EjfatWire::read(&both).unwrap().placement(3), Placement { start: 36, ..place });
            }
        }
    }

    #[test]
    fn each_refusal() {
        let read = |packet: &[u8]| Segment::read(packet).unwrap_err();
        assert_eq!(read(&packet(3, 0, 10, 10)), Reject::BadVersion);
        assert_eq!(read(&packet(1, 0, 10, 10)[..19]), Reject::Truncated);
        assert_eq!(read(&packet(1, 0, 10, 0)), Reject::BadField);
        assert_eq!(read(&packet(1, 1, 10, 10)), Reject::Outside);
        assert_eq!(read(&packet(1, u32::MAX, u32::MAX, 10)), Reject::Outside);
        assert_eq!(read(&[&balanced(4)[..], &packet(1, 0, 10, 10)].concat()), Reject::BadVersion);
        assert_eq!(EjfatWire::peek(&packet(1, 0, 10, 10)), Err(Reject::Unrecognised));
        let old = OldReassembly { version: 1, first: 1, data_id: 9, tick: 77, ..OldReassembly::default() };
        assert_eq!(read(&[&old.write()[..], &[5; 100]].concat()), Reject::BadVersion);
    }

    proptest! {
        #[test]
        fn any_octets_are_placed_inside_or_refused(raw in proptest::collection::vec(any::<u8>(), 0..100), offset: u32, length: u32, made: bool) {
            let raw = if made { packet(1, offset % 2000, length % 2000, raw.len()) } else { raw };
            if let Ok(segment) = Segment::read(&raw) {
                let place = segment.placement(0);
                prop_assert_eq!(u64::from(place.start) + place.length, raw.len() as u64);
                prop_assert!(place.offset + place.length <= place.size.unwrap());
            }
        }

        #[test]
        fn what_follows_is_what_is_read_behind(n in 1u64..9, offset in 0u32..40, step in 0u32..60, size in 0u32..200, lb: bool, change in proptest::option::of(0usize..36)) {
            let front = if lb { balanced(2) } else { Vec::new() };
            let first = [&front[..], &packet(1, offset, 200, 20)].concat();
            let mut next = [&front[..], &packet(1, step, 200 - size % 3, 20)].concat();
            if let Some(at) = change {
                next[at % front.len().max(20)] ^= 1;
            }
            let head = Segment::read(&first).unwrap();
            let follows = EjfatWire::following(&head, &first).unwrap()(n, &next);
            let same_front = next[..front.len()] == first[..front.len()];
            let reserved_and_version = next.get(front.len()..front.len() + 2) == first.get(front.len()..front.len() + 2);
            let expected = Segment::read(&next).is_ok_and(|next| {
                next == Segment { offset: offset + n as u32 * 20, ..head }
            });
            prop_assert_eq!(follows, expected && same_front && reserved_and_version);
        }
    }
}
