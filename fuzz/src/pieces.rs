//! The target for TCP: any stream of a family whose packets tell their ends, in any stretches, to a taker that may leave what
//! it is told.

use crate::packets::inspect_seeds;
use skyhaul_core::wire::keyed::{Keyed, Part, VisitKeyed};
use skyhaul_core::wire::{FAMILIES, Packets};
use skyhaul_io::tcp::pieces::{Found, Heads, fuzzing};
use std::marker::PhantomData;

/// As the receiver reads heads, but for how long they may be.
struct HeadsOf<W>(PhantomData<W>);

impl<W: Keyed> Heads for HeadsOf<W> {
    fn find(&self, bytes: &[u8]) -> Found {
        match W::peek(bytes).map(|head| head.map(|head| W::placement(&head, 0))) {
            Ok(None) => Found::More,
            Ok(Some(place)) => Found::Packet { head: place.start as usize, body: place.length },
            Err(_) => Found::Garbage,
        }
    }

    fn longest_head(&self) -> usize {
        W::LONGEST_HEAD.min(8 + 8 * 64)
    }

    fn magic(&self) -> &[u8] {
        W::MAGIC
    }
}

/// A packet of an object of its own.
fn good<W: Keyed>() -> Vec<u8> {
    let part = Part { number: 9, size: Some(40), payload: &[0xAA; 40], ..Part::default() };
    W::packet(0, &part).unwrap_or_default()
}

/// Choices of the target: what is told whole, how long the stretches are, how much is taken at once.
const CHOICES: [[u8; 3]; 5] = [[0, 0, 0], [20, 7, 0], [255, 40, 200], [3, 15, 250], [90, 255, 128]];

/// Whether packets of a byte stream are found by their first octets. Those of other families only state their length where
/// they are stored.
fn is_streamed<W: Keyed>() -> bool {
    !W::MAGIC.is_empty()
}

/// Whole packets of the family among others, whole and disturbed.
struct Seeds(&'static dyn Packets);

impl VisitKeyed for Seeds {
    type Out = Vec<Vec<u8>>;
    fn visit<W: Keyed>(self) -> Vec<Vec<u8>> {
        let is_whole = |packet: &Vec<u8>| match self.0.place(packet) {
            Ok(Some(place)) => u64::from(place.start) + place.length == packet.len() as u64,
            _ => false,
        };
        if !is_streamed::<W>() {
            return Vec::new();
        }
        let (good, mut seeds) = (good::<W>(), Vec::new());
        for (choices, packet) in CHOICES.iter().cycle().zip(inspect_seeds().iter().filter(|p| is_whole(p))) {
            seeds.push([&choices[..], packet, &good].concat());
            // Cut short, with strays, and a head that promises more than comes.
            let begun = &good[..W::MAGIC.len() + 1];
            seeds.push([&choices[..], b"??", &good, &packet[..packet.len() / 2], &good, begun].concat());
            seeds.push([&choices[..], &good[..20], &good, &[W::MAGIC[0]; 9], packet].concat());
        }
        seeds
    }
}

struct Cut<'a>(&'a [u8]);

impl VisitKeyed for Cut<'_> {
    type Out = ();
    fn visit<W: Keyed>(self) {
        if is_streamed::<W>() {
            fuzzing::cutter(Box::new(HeadsOf::<W>(PhantomData)), &good::<W>(), self.0);
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let of = FAMILIES.iter().filter_map(|family| family.visit_keyed(Seeds(family.packets()?)));
    of.flatten().collect()
}

pub(crate) fn run(bytes: &[u8]) {
    FAMILIES.iter().filter(|family| family.packets().is_some()).for_each(|family| {
        family.visit_keyed(Cut(bytes));
    });
}
