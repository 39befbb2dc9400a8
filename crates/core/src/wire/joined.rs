//! Several packets in one record: trains captured before the card segmented them (GSO), or after the kernel had merged
//! them (GRO).
//!
//! ```text
//!   record   │ head │ payload │ head │ payload │ head │ pay │      each packet states its length
//! ```

use super::keyed::Keyed;

/// Returns the length of the packet at the front of a record. `None`: there is no packet of this family.
pub type PacketEnd = fn(&[u8]) -> Option<usize>;

/// The length according to this family.
pub fn end_of<W: Keyed>(bytes: &[u8]) -> Option<usize> {
    let place = W::placement(&W::peek(bytes).ok()??, 0);
    usize::try_from(place.length).ok()?.checked_add(place.start as usize)
}

/// The packets of `record`, if it consists of several packets that all begin with the same four bytes. `None`: it is one
/// packet, or has other content.
#[must_use]
pub fn packets(record: &[u8], end: PacketEnd) -> Option<impl Iterator<Item = &[u8]>> {
    let split = move |bytes| split(bytes, end);
    let (first, mut rest) = split(record)?;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (packet, behind) = split(rest)?;
        if packet.get(..4) != first.get(..4) {
            return None;
        }
        rest = behind;
    }
    let mut rest = record;
    Some(std::iter::from_fn(move || {
        let (packet, behind) = split(rest)?;
        rest = behind;
        Some(packet)
    }))
}

/// The packet at the front, and the rest.
fn split(bytes: &[u8], end: PacketEnd) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(end(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::spead::{Flavour, SpeadWire};
    use proptest::prelude::*;

    fn packet(bits: u8, payload: u64) -> Vec<u8> {
        let flavour = Flavour::new(bits).unwrap();
        let mut packet = vec![0x53, 4, 8 - bits / 8, bits / 8, 0, 0, 0, 3];
        for (id, value) in [(1, 7), (3, 0), (4, payload)] {
            packet.extend(flavour.immediate(id, value).to_be_bytes());
        }
        packet.resize(packet.len() + payload as usize, 0x53);
        packet
    }

    fn cut(record: &[u8]) -> Option<Vec<Vec<u8>>> {
        packets(record, end_of::<SpeadWire>).map(|packets| packets.map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a_train_is_cut_and_nothing_else_is() {
        let (long, short) = (packet(48, 100), packet(48, 3));
        let train = [&long[..], &long, &short].concat();
        assert_eq!(cut(&train), Some(vec![long.clone(), long.clone(), short]));
        let other = packet(40, 5);
        let mut wrong = train.clone();
        wrong[long.len()] = 0x54;
        for record in [&long[..], &[], &[&train[..], &[0]].concat(), &train[..train.len() - 1], &wrong] {
            assert_eq!(cut(record), None);
        }
        assert_eq!(cut(&[&long[..], &other].concat()), None, "another flavour");
        assert_eq!(cut(&[&long[..], &[0; 30]].concat()), None, "padding");
    }

    proptest! {
        #[test]
        fn what_was_put_together_comes_apart(width in 1u8..8, lengths in proptest::collection::vec(0u64..60, 2..9)) {
            let packets: Vec<_> = lengths.iter().map(|&length| packet(width * 8, length)).collect();
            prop_assert_eq!(cut(&packets.concat()), Some(packets));
        }

        #[test]
        fn pieces_are_the_record(record in proptest::collection::vec(any::<u8>(), 0..90)) {
            if let Some(pieces) = cut(&record) {
                prop_assert_eq!(pieces.concat(), record);
            }
        }
    }
}
