use super::*;
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

proptest! {
    /// At any position and length, the vector code gives bit by bit what the core gives, and writes nothing else.
    #[test]
    fn vectors_decode_as_the_core(
        octets in prop::collection::vec(any::<u8>(), 0..400),
        from in 0usize..40,
        to in 0usize..20,
        cold in any::<bool>(),
    ) {
        let target = if cold { Target::Cold } else { Target::Warm };
        for coding in ALL {
            let width = (coding.bits() as usize / 8).max(1);
            let begin = from.min(octets.len());
            let octets = &octets[begin..];
            let octets = &octets[..octets.len() / width * width];
            let decoder = Decoder::<f32>::new(coding).unwrap();
            let count = coding.samples_in(octets.len());
            let mut expected = vec![-9.0; count];
            decoder.decode(octets, &mut expected);
            let mut samples = vec![-9.0; to + count + 20];
            decode(&decoder, octets, &mut samples[to..to + count], target);
            let bits = |samples: &[f32]| samples.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&samples[to..to + count]), bits(&expected), "{}", coding);
            prop_assert!(samples[..to].iter().chain(&samples[to + count..]).all(|&x| x == -9.0));
            if coding.bits() <= 16 {
                let mut back = vec![0; octets.len()];
                encode(coding, &expected, &mut back);
                prop_assert_eq!(&back, octets, "{}", coding);
            }
        }
    }

    /// Rows decoded in one pass equal transposed columns bit by bit, and nothing else is written.
    #[test]
    fn rows_are_columns_turned(
        octets in prop::collection::vec(any::<u8>(), 0..1200),
        threads in 2usize..34,
        each in (0u32..6).prop_map(|n| 1usize << n),
        gone in any::<u64>(),
        from in 0usize..20,
        cold in any::<bool>(),
    ) {
        let target = if cold { Target::Cold } else { Target::Warm };
        for coding in ALL {
            let decoder = Decoder::<f32>::new(coding).unwrap();
            // Eight rows fill whole bytes.
            let eight = coding.octets_of(8 * each);
            let length = octets.len() / threads / eight * eight;
            let there = |thread: usize| gone >> thread & 1 == 0;
            let of = |thread: usize| there(thread).then(|| &octets[thread * length..][..length]);
            let all: Vec<_> = (0..threads).map(of).collect();
            let column = coding.samples_in(length);
            let mut columns = vec![f32::MISSING; column * threads];
            for (octets, to) in all.iter().zip(columns.chunks_mut(column.max(1))) {
                octets.iter().for_each(|octets| decoder.decode(octets, to));
            }
            let mut expected = columns.clone();
            if column > 0 {
                turn(&columns, threads, each, &mut expected);
            }
            let mut out = vec![-9.0; from + expected.len() + 20];
            let rows = decode_rows(&decoder, &all, each, &mut out[from..from + expected.len()], target);
            let done = rows * threads * each;
            prop_assert_eq!(rows * each * coding.bits() as usize % 8, 0);
            let bits = |samples: &[f32]| samples.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&out[from..from + done]), bits(&expected[..done]), "{} {}", coding, rows);
            prop_assert!(out[..from].iter().chain(&out[from + done..]).all(|&x| x == -9.0));
            let registers = [2, 4, 8, 16, 32].contains(&threads) && coding.bits() <= 4 && (threads * each) <= 8;
            if cfg!(target_arch = "x86_64") && registers && !cold && gone & 3 == 0 && best() {
                prop_assert_eq!(rows, length / 4 * 32 / coding.bits() as usize / each);
            }
        }
    }

    #[test]
    fn a_turn_is_a_transposition(threads in 1usize..20, each in 1usize..6, many in 1usize..50) {
        let columns: Vec<u32> = (0..(threads * each * many) as u32).collect();
        let mut out = vec![u32::MAX; columns.len()];
        turn(&columns, threads, each, &mut out);
        for thread in 0..threads {
            for row in 0..many {
                let column = &columns[(thread * many + row) * each..][..each];
                prop_assert_eq!(&out[(row * threads + thread) * each..][..each], column);
            }
        }
    }
}

/// Whether this CPU decodes rows in one pass.
fn best() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[test]
fn integers_are_decoded_too() {
    let mut out = [0i8; 4];
    decode(&Decoder::new(Coding::Offset(2)).unwrap(), &[0b11_10_01_00], &mut out, Target::Warm);
    assert_eq!(out, [-2, -1, 0, 1]);
}
