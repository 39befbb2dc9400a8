//! EJFAT as a family of keyed objects: an event is a tick of one data id, regardless of the ports of its segments.

use super::{
    Addressing, BalancerV2, BalancerV3, BalancerVersion, MAGIC, OldReassembly, PortRule, REASSEMBLY,
    Reassembly, balancer_bytes,
};
use crate::placement::{Key, Placement, Reject};
use crate::wire::frame::{Divided, Packets};
use crate::wire::keyed::{Keyed, Left, Part, Stored, source_of};

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
        store(left, to)
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

    /// The last segment, which is shorter.
    #[inline]
    fn continues(first: &Segment, end: u64, packet: &[u8]) -> Option<Segment> {
        let next = Segment::read(packet).ok()?;
        let is_same = next.tick == first.tick && next.data_id == first.data_id && next.size == first.size;
        (is_same && u64::from(next.offset) == end).then_some(next)
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

/// Bytes of both headers.
pub(super) const HEADS: usize = BalancerV3::LEN + Reassembly::LEN;

/// Packets as they are stored.
///
/// Stored events, one packet after another.
///
/// ```text
///   │ balancer │ reassembly │ payload │ balancer │ reassembly │ payload, up to a gap │ balancer │ reassembly │ payload …
///        └ slot and port select: octets of the payload
/// ```
///
/// A segment does not state its length: it ends with its datagram. Stored segments have no datagram around them, so
/// each has a balancer's header of version 3. Its slot and port select, which are of no use after the packet has
/// arrived, hold the number of payload bytes (32 bits). So the stored data are EJFAT packets, which any program that
/// knows both headers can read, and each can be verified by a magic number, a length, and a tick that is stated twice.
#[derive(Debug)]
pub(super) struct StoredEvents;

impl Packets for StoredEvents {
    fn place(&self, bytes: &[u8]) -> Result<Option<Placement>, Reject> {
        Ok(read(bytes)?.map(|(segment, length)| Placement {
            key: Key { source: u64::from(segment.data_id), number: segment.tick },
            offset: segment.offset.into(),
            start: HEADS as u32,
            length: length.into(),
            size: Some(segment.length.into()),
            number_bits: 64,
        }))
    }

    fn is_data(&self, head: &[u8]) -> bool {
        matches!(read(head), Ok(Some(_)))
    }

    /// Segments without a balancer's header, as receivers see them.
    fn divide(&self, head: &[u8], done: Divided, most: usize, to: &mut Vec<u8>) -> Option<Divided> {
        let (segment, length) = read(head).ok()??;
        let left = u64::from(length).saturating_sub(done.payload);
        if left == 0 {
            return None;
        }
        let room = most.saturating_sub(Reassembly::LEN).max(1) as u64;
        let payload = left.min(room);
        // Within the event, whose length has 32 bits.
        let offset = segment.offset.saturating_add(done.payload as u32);
        to.extend(Reassembly { offset, ..segment }.write());
        Some(Divided { packets: done.packets + 1, items: 0, payload: done.payload + payload })
    }
}

/// The reassembly header of a stored packet, and bytes of its payload. `None`: more bytes are needed.
fn read(bytes: &[u8]) -> Result<Option<(Reassembly, u32)>, Reject> {
    let known = bytes.len().min(4);
    let [high, low] = MAGIC.to_be_bytes();
    if bytes[..known.min(2)] != [high, low][..known.min(2)] {
        return Err(Reject::BadMagic);
    }
    if bytes[..known] != [high, low, 3, REASSEMBLY][..known] {
        return Err(Reject::BadVersion);
    }
    let Some((balancer, behind)) = BalancerV3::read(bytes) else { return Ok(None) };
    let Some((segment, _)) = Reassembly::read(behind) else { return Ok(None) };
    let length = u32::from(balancer.slot_select) << 16 | u32::from(balancer.port_select);
    if segment.version > 2 {
        return Err(Reject::BadVersion);
    }
    if length == 0 || balancer.tick != segment.tick {
        return Err(Reject::BadField);
    }
    if u64::from(segment.offset) + u64::from(length) > u64::from(segment.length) {
        return Err(Reject::Outside);
    }
    Ok(Some((segment, length)))
}

/// Append the head of a part of an event, as much of what is `left` as fits.
pub(super) fn store(left: &Left, to: &mut Vec<u8>) -> Option<Stored> {
    let payload = left.payload.len().min(left.room.checked_sub(HEADS)?);
    let is_all = payload == left.payload.len();
    let stored = Stored { items: 0, payload, is_all };
    if left.payload.is_empty() {
        return Some(stored);
    }
    let told = |octets: u64| u32::try_from(octets).ok();
    let length = told(payload as u64).filter(|&length| length > 0)?;
    let (slot_select, port_select) = ((length >> 16) as u16, length as u16);
    let tick = left.number;
    let balancer =
        BalancerV3 { magic: MAGIC, version: 3, protocol: REASSEMBLY, slot_select, port_select, tick };
    let (offset, size) = (told(left.payload.start as u64)?, told(left.size?)?);
    let like = Reassembly { version: 1, data_id: left.source, tick, ..Reassembly::default() };
    to.extend(balancer.write());
    to.extend(Reassembly { offset, length: size, ..like }.write());
    Some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ejfat::{MAGIC, Segment};
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

        #[test]
        fn what_continues_is_read_behind_the_same_event(offset in 0u32..40, step in 0u32..60, size in 0u32..200, last in 0usize..40, change in proptest::option::of(0usize..20)) {
            let first = packet(1, offset, 200, 20);
            let mut next = packet(1, step, 200 - size % 3, last);
            if let Some(at) = change {
                next[at] ^= 1;
            }
            let (head, end) = (Segment::read(&first).unwrap(), offset + 20);
            let expected = Segment::read(&next).ok().filter(|next| {
                (next.tick, next.data_id, next.size, next.offset) == (head.tick, head.data_id, head.size, end)
            });
            prop_assert_eq!(EjfatWire::continues(&head, u64::from(end), &next), expected);
        }
    }

    fn left(payload: std::ops::Range<usize>, room: usize) -> Left {
        Left { number: 77, source: 5, size: Some(100_000), payload, items: 0, room }
    }

    /// A stored part whose payload counts up.
    fn stored(payload: std::ops::Range<usize>) -> Vec<u8> {
        let mut packet = Vec::new();
        let all = store(&left(payload.clone(), usize::MAX), &mut packet).unwrap();
        assert_eq!(all, Stored { items: 0, payload: payload.len(), is_all: true });
        packet.extend(payload.map(|n| n as u8));
        packet
    }

    #[test]
    fn a_stored_part_states_its_place_and_is_a_packet() {
        let packet = stored(1000..71_000);
        let place = StoredEvents.place(&packet).unwrap().unwrap();
        assert_eq!((place.offset, place.length, place.size), (1000, 70_000, Some(100_000)));
        assert_eq!((place.start, place.key), (36, Key { source: 5, number: 77 }));
        assert!(StoredEvents.is_data(&packet[..36]));
        let segment = Segment::read(&packet).unwrap();
        assert_eq!((segment.tick, segment.data_id, segment.offset, segment.length), (77, 5, 1000, 70_000));
        for short in 0..36 {
            assert_eq!(StoredEvents.place(&packet[..short]), Ok(None), "{short}");
        }
    }

    #[test]
    fn what_is_not_stored_is_refused_by_name() {
        let packet = stored(0..50);
        let with = |at: usize, value: u8| {
            let mut packet = packet.clone();
            packet[at] = value;
            StoredEvents.place(&packet).unwrap_err()
        };
        assert_eq!((with(0, 1), with(1, 0)), (Reject::BadMagic, Reject::BadMagic));
        assert_eq!(
            (with(2, 2), with(3, 2), with(16, 0x40)),
            (Reject::BadVersion, Reject::BadVersion, Reject::BadVersion)
        );
        assert_eq!((with(7, 0), with(15, 1)), (Reject::BadField, Reject::BadField));
        assert_eq!((with(4, 1), with(20, 255)), (Reject::Outside, Reject::Outside));
        assert_eq!(StoredEvents.place(&packet[16..]), Err(Reject::BadMagic), "a segment alone");
    }

    #[test]
    fn a_part_goes_on_where_the_room_ended() {
        let mut to = Vec::new();
        assert_eq!(store(&left(0..50, 35), &mut to), None);
        assert_eq!(store(&left(0..50, 36), &mut to), None);
        assert!(to.is_empty());
        let some = store(&left(0..50, 66), &mut to).unwrap();
        assert_eq!((some.payload, some.is_all), (30, false));
        let rest = store(&left(30..50, 66), &mut to).unwrap();
        assert_eq!((rest.payload, rest.is_all, to.len()), (20, true, 72));
    }

    proptest! {
        #[test]
        fn a_stored_part_is_divided_without_loss(start in 0usize..1000, length in 1usize..5000, most in 1usize..2000) {
            let packet = stored(start..start + length);
            let (head, payload) = packet.split_at(HEADS);
            let (mut done, mut at) = (Divided::default(), start);
            loop {
                let mut packet = Vec::new();
                let Some(next) = StoredEvents.divide(head, done, most, &mut packet) else { break };
                prop_assert!(next > done);
                packet.extend_from_slice(&payload[done.payload as usize..next.payload as usize]);
                prop_assert!(packet.len() <= most.max(21));
                let segment = Segment::read(&packet).unwrap();
                prop_assert_eq!((segment.offset as usize, segment.data_id, segment.tick, segment.size), (at, 5, 77, 100_000));
                at += segment.length as usize;
                done = next;
            }
            prop_assert_eq!(at, start + length);
        }

        #[test]
        fn any_stored_octets_are_placed_inside_or_refused(mut raw in proptest::collection::vec(any::<u8>(), 0..60), made: bool) {
            if made {
                let front = stored(0..50);
                let n = raw.len().min(20);
                raw[..n].copy_from_slice(&front[..n]);
            }
            if let Ok(Some(place)) = StoredEvents.place(&raw) {
                prop_assert!(place.length > 0 && place.offset + place.length <= place.size.unwrap());
            }
        }
    }
}
