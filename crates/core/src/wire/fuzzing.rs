//! One entry for each parser, to be given any octets: it must return, and what it returns must be true.
//!
//! The fuzz targets call these and nothing else, so that a failing input is a line in a test here.

mod spead;

pub use spead::{spead_bits, spead_descriptor, spead_head, spead_items, spead_packets};

use super::{
    AnyLayout, Blocks, Format, Keep, LearnOptions, Learner, Order, Place, Restamper,
    ejfat::EjfatLayout,
    fila10g::{DATAGRAM, Fila10gLayout, Phase},
    inspect::inspect as inspect_packet,
    mark5b::{FRAME, Mark5bLayout},
    spead::{Flavour, SpeadLayout},
    vdif::{Vdif, VdifLayout},
};
use crate::placement::{Grain, Layout};

/// Whatever is placed lies in the packet and in its object.
fn place(layout: &AnyLayout, packet: &[u8]) {
    let Ok(place) = layout.place(packet) else { return };
    let geometry = layout.geometry();
    let (start, length) = (place.start as usize, place.length as usize);
    assert!(length > 0 && start + length <= packet.len());
    assert!(place.size.unwrap_or(geometry.object_bytes) <= geometry.object_bytes);
    assert!(place.offset + place.length <= place.size.unwrap_or(geometry.object_bytes));
    if let Grain::Units(unit) = geometry.grain {
        assert!(place.length == u64::from(unit) && place.offset.is_multiple_of(u64::from(unit)));
    }
    assert_eq!(layout.units_between(place.key.number, place.key.number).unwrap_or_default(), 0);
}

/// VDIF by time and by number; the first octet chooses.
pub fn vdif(input: &[u8]) {
    let Some((&choice, packet)) = input.split_first() else { return };
    let network = if choice & 1 == 1 { 8 } else { 0 };
    let (frame, head) = (packet.len().saturating_sub(network), if choice & 2 == 2 { 16 } else { 32 });
    let Some(shape) = frame.checked_sub(head).and_then(|p| Vdif::shape(p, 1, 2, false, head == 16)) else {
        return;
    };
    let threads: Vec<(u16, i64)> =
        (0..u16::from(choice >> 4) + 1).map(|t| (t, i64::from(choice) - 9)).collect();
    let Ok(blocks) = Blocks::new(packet.len(), network, threads.len(), 1 << 20) else { return };
    let by_time = VdifLayout::by_time(blocks, &shape, &threads, (choice & 4 == 4).then_some(1600));
    let by_number = VdifLayout::by_sequence(blocks, &shape, Order::Big);
    let legal = Vdif::read(packet.get(network..).unwrap_or_default()).map(|(vdif, _)| {
        let mut legal = packet.to_vec();
        let vdif = Vdif { length8: shape.length8, legacy: shape.legacy, ..vdif };
        legal[network..network + 16].copy_from_slice(&vdif.write());
        legal
    });
    for layout in [by_time, by_number].into_iter().flatten().map(AnyLayout::Vdif) {
        place(&layout, packet);
        legal.iter().for_each(|packet| place(&layout, packet));
    }
}

/// Mark 5B and its halves; short inputs are lengthened, so that headers are reached.
pub fn mark5b(input: &[u8]) {
    let mut packet = input.to_vec();
    packet.resize(FRAME, 0);
    for fps in [None, Some(6400), Some(51_200)] {
        let layout =
            Blocks::new(FRAME, 0, 1, 1 << 20).and_then(|blocks| Mark5bLayout::new(blocks, None, fps));
        layout.iter().for_each(|layout| place(&AnyLayout::Mark5b(layout.clone()), &packet));
    }
    packet.truncate(DATAGRAM);
    for phase in [Phase::Even, Phase::Odd] {
        let layout =
            Blocks::new(DATAGRAM, 8, 2, 1 << 20).and_then(|blocks| Fila10gLayout::new(blocks, phase));
        layout.iter().for_each(|layout| place(&AnyLayout::Fila10g(layout.clone()), &packet));
    }
}

/// SPEAD, in the flavour the packet claims.
pub fn spead(packet: &[u8]) {
    let claimed = packet.get(3).and_then(|octets| Flavour::new(octets.checked_mul(8)?));
    if let Some(flavour) = claimed.or(Flavour::new(48)) {
        place(&AnyLayout::Spead(SpeadLayout { flavour, heap_bytes: 1 << 24 }), packet);
    }
}

/// EJFAT, with and without the balancer's header.
pub fn ejfat(packet: &[u8]) {
    place(&AnyLayout::Ejfat(EjfatLayout { data_id: None, event_bytes: 1 << 24 }), packet);
}

/// All packets that `input` divides into are inspected and learned, in every format; what is learned places and
/// fills. The first octet is the length of the packets.
pub fn learn(input: &[u8]) {
    let Some((&length, input)) = input.split_first() else { return };
    let packets = input.chunks(usize::from(length).max(1));
    for (format, keep) in Format::ALL
        .into_iter()
        .zip([Keep::StripNetwork, Keep::All, Keep::StripLeading(3)].into_iter().cycle())
    {
        let place_by = if length & 1 == 0 { Place::Auto } else { Place::Time };
        let options =
            LearnOptions { format, keep, place: place_by, object_bytes: 4096, ..LearnOptions::default() };
        let mut learner = Learner::new(options);
        packets.clone().for_each(|packet| learner.observe(packet));
        let Some(Ok(learned)) = learner.conclude(true) else { continue };
        assert!(!learned.describe().is_empty());
        let Ok(layout) = learned.layout() else { continue };
        packets.clone().for_each(|packet| place(&layout, packet));
        let mut block = input.to_vec();
        let filled = learned.filler().fill(block.as_mut_slice(), &[1..2, 3..9]);
        assert!(filled.predicted + filled.unpredicted <= 7);
    }
}

/// Any octets, shown.
pub fn inspect(packet: &[u8]) {
    for format in Format::ALL {
        let seen = inspect_packet(format, packet);
        assert!(seen.payload <= packet.len());
        assert!(seen.rows.iter().all(|row| row.byte + row.width <= packet.len()));
    }
}

/// Any file, sent again.
pub fn restamp(file: &[u8]) {
    for format in [Format::Vdif, Format::Mark5b] {
        let Ok(restamper) = Restamper::new(file, format, Some(1600)) else { continue };
        for (iteration, index) in [(0, 0), (7, restamper.frames_per_loop() - 1), (u64::MAX, 0)] {
            assert!(restamper.header(iteration, index, &mut [0; 32]) <= 32);
            assert!(restamper.payload(index).end <= file.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_entry_returns(input in proptest::collection::vec(any::<u8>(), 0..400)) {
            for entry in [vdif, mark5b, spead, ejfat, learn, inspect, restamp] {
                entry(&input);
            }
            for entry in [spead_head, spead_items, spead_descriptor, spead_bits, spead_packets] {
                entry(&input);
            }
        }

        #[test]
        fn also_what_looks_like_frames(mut words: [u8; 16], count in 1u8..20, length8 in 3u8..30, network: bool) {
            words[8..11].copy_from_slice(&[length8, 0, 0]);
            let mut packet = vec![0; if network { 8 } else { 0 }];
            packet.extend(words);
            packet.resize(packet.len() - 16 + usize::from(length8) * 8, 0x44);
            let mut input = vec![packet.len() as u8];
            (0..count).for_each(|_| input.extend(&packet));
            learn(&input);
            restamp(&input[1..]);
            inspect(&packet);
            vdif(&packet);
        }
    }
}
