//! How objects without order are cut: heaps and events, each of its own number of packets.

use super::{SEGMENT, Sender, Spot};
use skyhaul_core::pattern;

impl Sender {
    /// Heap or event of a position, the packet's number in it, and how many packets it has.
    pub(super) fn segment(&self, position: u64) -> (u64, u64, u64) {
        // Four heaps of different sizes, over and over.
        let sizes = [self.units, 1, self.units.div_ceil(2), (self.units / 3).max(1)];
        let round: u64 = sizes.iter().sum();
        let (mut heap, mut rest) = (position / round * 4, position % round);
        for size in sizes {
            if rest < size {
                return (heap, rest, size);
            }
            rest -= size;
            heap += 1;
        }
        (heap, 0, 1)
    }

    /// Octets of a heap: its last packet is shorter than the others.
    pub(super) fn heap_bytes(heap: u64, packets: u64) -> u64 {
        packets * SEGMENT - heap % SEGMENT / 2
    }

    pub(super) fn append(mut packet: Vec<u8>, spot: Spot) -> Vec<u8> {
        let start = packet.len();
        packet.resize(start + spot.length as usize, 0);
        pattern::fill(spot.object, spot.offset, &mut packet[start..]);
        packet
    }
}
