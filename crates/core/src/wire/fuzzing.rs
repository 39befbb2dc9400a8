//! One fuzzing entry point for each parser: given any bytes, it must return, and its result must be consistent.
//!
//! The fuzz targets call only these, so a failing input becomes one line in a test here.

pub mod parser;

use super::{
    Positions,
    families::FAMILIES,
    family::{Format, LearnOptions},
    inspect::inspect as inspect_packet,
    layout::{Keep, Place},
    learn::Learner,
};
use parser::place;

/// The parsers of the family with this number in the registry; the first byte chooses what a packet does not state.
pub fn family(number: usize, input: &[u8]) {
    if let Some((&choice, packet)) = input.split_first() {
        FAMILIES[number].fuzz(choice, packet);
    }
}

/// Divide `input` into packets, inspect and learn them in every format, and place and fill with the result. The first
/// byte is the length of the packets.
pub fn learn(input: &[u8]) {
    let Some((&length, input)) = input.split_first() else { return };
    let packets = input.chunks(usize::from(length).max(1));
    for (format, keep) in
        Format::all().zip([Keep::StripNetwork, Keep::All, Keep::StripLeading(3)].into_iter().cycle())
    {
        let place_by = if length & 1 == 0 { Place::Auto } else { Place::Time };
        let options =
            LearnOptions { format, keep, place: place_by, object_bytes: 4096, ..LearnOptions::default() };
        let mut learner = Learner::new(options);
        packets.clone().for_each(|packet| learner.observe(packet));
        let Some(Ok(learned)) = learner.conclude(true) else { continue };
        assert!(!learned.describe().is_empty());
        let Ok(layout) = learned.layout() else { continue };
        packets.clone().for_each(|packet| place(&*layout, packet));
        let mut block = input.to_vec();
        let filled = learned.filler().fill(block.as_mut_slice(), &[1..2, 3..9]);
        assert!(filled.predicted + filled.unpredicted <= 7);
    }
}

/// Inspect any bytes.
pub fn inspect(packet: &[u8]) {
    for format in Format::all() {
        let seen = inspect_packet(format, packet);
        assert!(seen.payload <= packet.len());
        assert!(seen.rows.iter().all(|row| row.byte + row.width <= packet.len()));
    }
}

/// Place the frames of any file, and move their times.
pub fn restamp(file: &[u8]) {
    for format in Format::all() {
        let Ok(timeline) = Positions::of(file, format, Some(1600), 1_767_225_600) else { continue };
        for (pass, index) in [(0, 0), (7, timeline.frames() - 1), (u64::MAX, 0)] {
            let Some(place) = timeline.frame(index) else { panic!("frame {index}") };
            let frame = &file[place.bytes.start + timeline.prefix()..place.bytes.end];
            if let Some((_, length)) = timeline.stamps().moved(frame, &timeline.moved(pass, 9, None)) {
                assert!(length <= frame.len());
            }
            assert!(timeline.run_end(index) <= timeline.frames());
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
            for entry in [learn, inspect, restamp] {
                entry(&input);
            }
            (0..FAMILIES.len()).for_each(|number| family(number, &input));
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
            (0..FAMILIES.len()).for_each(|number| family(number, &packet));
        }
    }
}
