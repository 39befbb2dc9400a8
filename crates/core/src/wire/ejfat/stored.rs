//! Stored events, one packet after another.
//!
//! ```text
//!   │ balancer │ reassembly │ payload │ balancer │ reassembly │ payload, up to a gap │ balancer │ reassembly │ payload …
//!        └ slot and port select: octets of the payload
//! ```
//!
//! A segment does not state its length: it ends with its datagram. Stored segments have no datagram around them, so
//! each has a balancer's header of version 3. Its slot and port select, which are of no use after the packet has
//! arrived, hold the number of payload bytes (32 bits). So the stored data are EJFAT packets, which any program that
//! knows both headers can read, and each can be verified by a magic number, a length, and a tick that is stated twice.

use super::{BalancerV3, MAGIC, REASSEMBLY, Reassembly};
use crate::{
    placement::{Key, Placement, Reject},
    wire::{
        frame::{Divided, Packets},
        keyed::{Left, Stored},
    },
};

/// Bytes of both headers.
pub(super) const HEADS: usize = BalancerV3::LEN + Reassembly::LEN;

/// Packets as they are stored.
#[derive(Debug)]
pub(super) struct StoredEvents;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ejfat::Segment;
    use proptest::prelude::*;

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
        fn any_octets_are_placed_inside_or_refused(mut raw in proptest::collection::vec(any::<u8>(), 0..60), made: bool) {
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
