//! Target for the learner: the bytes are a script of packets, good and bad, of one sender.
//!
//! ```text
//!   first octet  what is asked for (format, what to keep, how to place) and whether to conclude early
//!   then         length octet · that many octets, each set after the first differing from the one before
//! ```
//!
//! Held: whatever is concluded has a layout, or is a family of keyed objects, and every packet that is placed lies inside.

use crate::packets;
use skyhaul_core::placement::{Layout, Reject};
use skyhaul_core::wire::keyed::{self, VisitKeyed};
use skyhaul_core::wire::{FAMILIES, Format, Keep, LearnOptions, Learner, PREFIX, Place};

/// Octets of the largest frames of fixed size: those of Mark 5B.
const LARGE: usize = 10_016;
/// Repeats of the script, so that a short one gives packets enough to conclude from.
const ROUNDS: u8 = 4;

pub(crate) fn run(script: &[u8]) {
    let Some((&asked, packets)) = script.split_first() else { return };
    let options = LearnOptions {
        format: Format::all().nth(usize::from(asked & 7)).unwrap_or_default(),
        keep: [Keep::StripNetwork, Keep::All, Keep::StripLeading(8)][usize::from(asked >> 3 & 3) % 3],
        place: [Place::Auto, Place::Sequence, Place::Time][usize::from(asked >> 5 & 3) % 3],
        object_bytes: 1 << 20,
        ..LearnOptions::default()
    };
    let mut learner = Learner::new(options);
    let mut seen = Vec::new();
    for round in 0..ROUNDS {
        let mut rest = packets;
        while let Some((&length, tail)) = rest.split_first() {
            let (head, tail) = tail.split_at(usize::from(length).min(tail.len()));
            rest = tail;
            let mut packet = head.to_vec();
            // The script gives heads; large frames are made whole, and counters move on.
            if let Some(octet) = packet.first_mut() {
                *octet = octet.wrapping_add(round.wrapping_mul(packets.len() as u8));
            }
            if head.len() > 60 {
                packet.resize(LARGE + PREFIX * usize::from(head[0] & 1), 0);
            }
            learner.observe(&packet);
            seen.push(packet);
        }
    }
    let Some(Ok(mut format)) = learner.conclude(asked & 0x80 != 0) else { return };
    let layout = match format.layout() {
        Ok(layout) => layout,
        Err(Reject::NotFrames) => {
            let known = format.family.visit_keyed(Keyed(&seen));
            return known.expect("what are no frames are objects with keys");
        }
        Err(why) => panic!("what is concluded has a layout: {why:?}"),
    };
    assert!(layout.geometry().object_bytes <= 1 << 20);
    for packet in &seen {
        placed(&*layout, packet);
        let _ = format.frame_time(packet);
    }
    let _ = (format.describe(), format.quirks.iter().map(ToString::to_string).collect::<Vec<_>>());
    if format.set_frames_per_second(u32::from(asked)).is_ok() {
        let layout = format.layout().expect("a rate that was taken fits");
        seen.iter().for_each(|packet| placed(&*layout, packet));
    }
}

/// Packets of heaps or events: what is read of them lies in them.
struct Keyed<'a>(&'a [Vec<u8>]);

impl VisitKeyed for Keyed<'_> {
    type Out = ();
    fn visit<W: keyed::Keyed>(self) {
        for packet in self.0 {
            let Ok(head) = W::read(packet) else { continue };
            let place = W::placement(&head, 1);
            assert_eq!(
                u64::from(place.start) + place.length,
                packet.len() as u64,
                "{place:?} is not the packet"
            );
            assert!(
                place.size.is_none_or(|size| place.offset + place.length <= size),
                "{place:?} is not in its object"
            );
            let follows = W::following(&head, packet).is_some_and(|follows| follows(0, packet));
            assert!(follows || W::following(&head, packet).is_none(), "a packet does not look like itself");
        }
    }
}

/// A payload that was given a place lies in its packet and in its object.
fn placed(layout: &dyn Layout, packet: &[u8]) {
    if let Ok(place) = layout.place(packet) {
        assert!(place.start as usize + place.length as usize <= packet.len(), "{place:?} leaves the packet");
        let end = place.offset.checked_add(place.length).expect("no wrap");
        assert!(end <= layout.geometry().object_bytes, "{place:?} leaves the largest object");
    }
}

/// Packets of one size, one after the other, for the core's own entry.
pub(crate) fn equal_seeds() -> Vec<Vec<u8>> {
    packets::all().iter().map(|frame| [&[frame.len() as u8][..], &frame.repeat(40)].concat()).collect()
}

/// Each family's packets, when anything and when only that family is asked for.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, family) in FAMILIES.iter().enumerate() {
        let only = 0x81 + number as u8;
        for asked in [0x80, only, only | 0x40] {
            let mut all = vec![asked];
            for head in family.seeds() {
                let mut one = vec![asked];
                for n in 0..12u8 {
                    let mut packet = head.clone();
                    packet[0] = packet[0].wrapping_add(n);
                    one.push(packet.len() as u8);
                    one.extend(&packet);
                }
                all.push(head.len() as u8);
                all.extend(&head);
                seeds.push(one);
            }
            seeds.push(all);
        }
    }
    seeds
}
