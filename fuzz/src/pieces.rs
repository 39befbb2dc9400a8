//! The target for TCP: any stream of SPEAD, in any stretches, to a taker that may leave what it is told.

use crate::spead::packet_seeds;
use skyhaul_core::wire::spead::{Flavour, Head};
use skyhaul_io::tcp::pieces::{Found, Heads, fuzzing};

/// As the receiver reads heads, but for how long they may be.
struct SpeadHeads;

impl Heads for SpeadHeads {
    fn find(&self, bytes: &[u8]) -> Found {
        match Head::peek(bytes) {
            Ok(None) => Found::More,
            Ok(Some(head)) => Found::Packet { head: head.start, body: head.length },
            Err(_) => Found::Garbage,
        }
    }

    fn longest_head(&self) -> usize {
        8 + 8 * 64
    }

    fn magic(&self) -> &[u8] {
        &[0x53, 4]
    }
}

/// A packet of a heap of its own.
fn good() -> Vec<u8> {
    let Some(flavour) = Flavour::new(48) else { return Vec::new() };
    let mut packet = vec![0x53, 4, 2, 6, 0, 0, 0, 4];
    for (id, value) in [(1, 9), (2, 40), (3, 0), (4, 40)] {
        packet.extend(flavour.immediate(id, value).to_be_bytes());
    }
    packet.extend([0xAA; 40]);
    packet
}

/// Choices of the target: what is told whole, how long the stretches are, how much is taken at once.
const CHOICES: [[u8; 3]; 5] = [[0, 0, 0], [20, 7, 0], [255, 40, 200], [3, 15, 250], [90, 255, 128]];

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let packets = packet_seeds();
    let good = good();
    let mut seeds = Vec::new();
    for (choices, packet) in CHOICES.iter().cycle().zip(&packets) {
        seeds.push([&choices[..], packet, &good].concat());
        // Cut short, with strays, and a head that promises more than comes.
        seeds.push([&choices[..], b"??", &good, &packet[..packet.len() / 2], &good, b"S\x04\x02"].concat());
        seeds.push([&choices[..], &good[..20], &good, &[0x53; 9], packet].concat());
    }
    seeds
}

pub(crate) fn run(bytes: &[u8]) {
    fuzzing::cutter(Box::new(SpeadHeads), &good(), bytes);
}
