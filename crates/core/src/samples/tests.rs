use super::{HIGH, *};
use proptest::prelude::*;

const ALL: [Coding; 8] = [
    Coding::Offset(1),
    Coding::Offset(2),
    Coding::Offset(4),
    Coding::Offset(8),
    Coding::Offset(16),
    Coding::Offset(32),
    Coding::SignMagnitude(1),
    Coding::SignMagnitude(2),
];

fn decoded<T: Number>(coding: Coding, octets: &[u8]) -> Vec<T> {
    let mut samples = vec![T::MISSING; coding.samples_in(octets.len())];
    Decoder::new(coding).unwrap().decode(octets, &mut samples);
    samples
}

fn encoded(coding: Coding, samples: &[f32]) -> Vec<u8> {
    let mut octets = vec![0; coding.octets_of(samples.len())];
    coding.encode(samples, &mut octets);
    octets
}

#[test]
fn higher_codes_of_offset_binary_are_higher_levels_about_zero() {
    for bits in [1, 2, 4, 8] {
        let coding = Coding::Offset(bits);
        let levels: Vec<f32> = (0..1 << bits).map(|code| coding.level(code)).collect();
        assert!(levels.is_sorted_by(|a, b| a < b), "{coding}: {levels:?}");
        if bits != 4 {
            assert!(levels.iter().zip(levels.iter().rev()).all(|(a, b)| a == &-b), "{coding}: {levels:?}");
        }
    }
    assert_eq!(decoded::<f32>(Coding::Offset(16), &[0xFF, 0xFF]), [32_767.5 / 9088.0]);
    assert_eq!(decoded::<f32>(Coding::Offset(4), &[0x8F]), [7.0 / 2.95, 0.0]);
}

/// Mark 5B user's manual, appendix A: sign in the even bitstream, magnitude in the odd one; one bit, set if negative.
#[test]
fn mark5b_has_signs_and_magnitudes() {
    assert_eq!(decoded::<f32>(Coding::SignMagnitude(2), &[0b11_10_01_00]), [-HIGH, 1.0, -1.0, HIGH]);
    assert_eq!(decoded::<i8>(Coding::SignMagnitude(2), &[0b11_10_01_00]), [-2, 0, -1, 1]);
    assert_eq!(decoded::<f32>(Coding::SignMagnitude(1), &[0b0000_0010])[..3], [1.0, -1.0, 1.0]);
}

#[test]
fn integers_are_offset_binary_without_its_offset() {
    assert_eq!(decoded::<i8>(Coding::Offset(1), &[0b10])[..2], [-1, 0]);
    assert_eq!(decoded::<i8>(Coding::Offset(2), &[0b11_10_01_00]), [-2, -1, 0, 1]);
    assert_eq!(decoded::<i8>(Coding::Offset(4), &[0xF0]), [-8, 7]);
    assert_eq!(decoded::<i8>(Coding::Offset(8), &[0, 0x80, 0xFF]), [-128, 0, 127]);
    assert_eq!(decoded::<i16>(Coding::Offset(16), &[0, 0, 0xFF, 0xFF]), [-32_768, 32_767]);
    assert_eq!(
        decoded::<i32>(Coding::Offset(32), &[0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]),
        [i32::MIN, i32::MAX]
    );
}

#[test]
fn unknown_widths_are_rejected() {
    for bits in (0..40).filter(|bits| ![1, 2, 4, 8, 16, 32].contains(bits)) {
        assert!(Decoder::<f32>::new(Coding::Offset(bits)).is_none(), "{bits}");
    }
    assert!(Decoder::<f32>::new(Coding::SignMagnitude(4)).is_none());
    assert!(Decoder::<i8>::new(Coding::Offset(16)).is_none());
}

#[test]
fn levels_beyond_the_outermost_are_clipped_and_nan_is_near_zero() {
    for coding in ALL {
        let many = 8 / coding.bits().min(8) as usize;
        for (level, sign) in [(f32::INFINITY, 1.0), (-1e30, -1.0)] {
            let clipped: Vec<f32> = decoded(coding, &encoded(coding, &vec![level; many]));
            let most: Vec<f32> = decoded(coding, &encoded(coding, &vec![sign * 1e9; many]));
            assert_eq!(clipped, most, "{coding} {level}");
            assert!(clipped[0] * sign >= 1.0);
        }
        let nan: Vec<f32> = decoded(coding, &encoded(coding, &vec![f32::NAN; many]));
        assert!(nan[0].abs() <= 1.0, "{coding} {nan:?}");
    }
}

proptest! {
    #[test]
    fn octets_decoded_and_encoded_are_the_same(octets in prop::collection::vec(any::<u8>(), 0..32)) {
        let whole = &octets[..octets.len() / 4 * 4];
        for coding in ALL.into_iter().filter(|coding| coding.bits() <= 16) {
            prop_assert_eq!(encoded(coding, &decoded(coding, whole)), whole, "{}", coding);
        }
        // 32 bits do not fit into f32: the levels stay, not their last bits.
        let levels: Vec<f32> = decoded(Coding::Offset(32), whole);
        prop_assert_eq!(decoded::<f32>(Coding::Offset(32), &encoded(Coding::Offset(32), &levels)), levels);
    }

    /// The model picks bit by bit.
    #[test]
    fn tracks_are_picked_as_bit_by_bit(
        power in 0u32..=5,
        seed in any::<u64>(),
        count in 1usize..=32,
        octets in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        // A mask of 2^power bits, and bitstreams of it, from the seed.
        let mut state = seed;
        let mut next = |below: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % below
        };
        let mut mask = 0u32;
        while mask.count_ones() < 1 << power {
            mask |= 1 << next(32);
        }
        let recorded: Vec<u32> = (0..32).filter(|track| mask >> track & 1 == 1).collect();
        let order: Vec<u32> = (0..count).map(|_| recorded[next(1 << power) as usize]).collect();
        let tracks = Tracks::new(mask, &order).unwrap();
        let whole = &octets[..octets.len() / 4 * 4];
        let bit = |octets: &[u8], at: usize| octets[at / 8] >> (at % 8) & 1;
        let (from, to) = (recorded.len(), tracks.picked() as usize);
        let mut expected = vec![0; (whole.len() * 8 / from * to).div_ceil(8)];
        for instant in 0..whole.len() * 8 / from {
            for (n, track) in order.iter().enumerate() {
                let place = recorded.iter().position(|recorded| recorded == track).unwrap();
                let at = instant * to + n;
                expected[at / 8] |= bit(whole, instant * from + place) << (at % 8);
            }
        }
        let mut picked = vec![1, 2, 3];
        tracks.pick(whole, &mut picked);
        prop_assert_eq!(picked, expected);
    }
}

#[test]
fn tracks_that_do_not_exist_are_rejected() {
    assert_eq!(Tracks::new(0b111, &[0]), Err(TracksError::Mask(3)));
    assert_eq!(Tracks::new(0, &[0]), Err(TracksError::Mask(0)));
    assert_eq!(Tracks::new(0b1100, &[1]), Err(TracksError::NotRecorded(1)));
    assert_eq!(Tracks::new(u32::MAX, &[32]), Err(TracksError::NotRecorded(32)));
    assert_eq!(Tracks::new(u32::MAX, &[]), Err(TracksError::Count(0)));
    assert_eq!(Tracks::new(u32::MAX, &[0; 33]), Err(TracksError::Count(33)));
}

#[test]
fn a_column_is_what_rows_have_at_its_place() {
    let rows: Vec<f32> = (0..14u8).map(f32::from).collect();
    let mut column = vec![-1.0];
    append_column(&rows, 4, 1..3, &mut column);
    assert_eq!(column, [-1.0, 1.0, 2.0, 5.0, 6.0, 9.0, 10.0]);
    append_column(&rows, 14, 13..14, &mut column);
    assert_eq!(column[7..], [13.0]);
    assert!(is_whole(&rows) && is_whole(&[]) && !is_whole(&[1.0, f32::NAN]));
}
