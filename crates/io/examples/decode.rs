//! How fast samples are decoded: each coding, into a hot 256 KiB and into 1 GiB of used memory; and corner turns of hot columns. Rows of
//! several threads in one pass, hot and cold, and with a thread of which nothing is there.
//!
//! ```text
//! cargo run --release -p skyhaul-io --example decode
//! ```

use skyhaul_core::samples::{Coding, Decoder};
use skyhaul_io::samples::{Target, decode, decode_rows, encode, turn};
use std::time::Instant;

/// Samples of the hot output.
const HOT: usize = 64 << 10;
/// Samples of the cold one.
const COLD: usize = 256 << 20;
const ROUNDS: usize = 5;

/// The median of some rounds, in 10^9 samples per second.
fn rate(samples: usize, mut round: impl FnMut()) -> f64 {
    let mut rates: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let began = Instant::now();
            round();
            samples as f64 / began.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[ROUNDS / 2]
}

fn main() {
    // As the arrays of users are: it begins with a line.
    let mut memory = vec![1f32; COLD + 16];
    let first = memory.as_ptr().align_offset(64);
    let out = &mut memory[first..first + COLD];
    println!("{:28} {:>10} {:>10} {:>10}  Gsamples/s", "", "hot", "cold", "encode");
    for coding in
        [1, 2, 4, 8, 16, 32].map(Coding::Offset).into_iter().chain([1, 2].map(Coding::SignMagnitude))
    {
        let Some(decoder) = Decoder::<f32>::new(coding) else { continue };
        let octets: Vec<u8> =
            (0..coding.octets_of(COLD)).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let cold = rate(COLD, || decode(&decoder, &octets, out, Target::Cold));
        let part = coding.octets_of(HOT);
        let hot = rate(COLD, || {
            octets
                .chunks_exact(part)
                .for_each(|octets| decode(&decoder, octets, &mut out[..HOT], Target::Warm));
        });
        let mut back = vec![0; part];
        let encoded = rate(COLD / 8, || {
            (0..COLD / 8 / HOT).for_each(|_| encode(coding, &out[..HOT], &mut back));
        });
        println!("{:28} {hot:10.2} {cold:10.2} {encoded:10.2}", coding.to_string());
    }
    let columns = vec![1f32; 4096];
    for (threads, each) in [(2, 1), (4, 1), (8, 1), (16, 1), (64, 1), (2, 2), (8, 2), (2, 16), (8, 16)] {
        let turned = rate(COLD, || {
            (0..COLD / 4096).for_each(|_| turn(&columns, threads, each, &mut out[..4096]));
        });
        println!("{:28} {turned:10.2}", format!("turn of {threads} threads × {each}"));
    }
    rows(out);
}

/// Of two bits: `threads` with `each` samples in a row.
fn rows(out: &mut [f32]) {
    let decoder = Decoder::<f32>::new(Coding::Offset(2)).expect("levels of two bits");
    for (threads, each) in [(2, 1), (8, 1), (16, 1), (64, 1), (8, 2)] {
        let octets: Vec<u8> = (0..COLD / 4).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let columns =
            |of: usize| -> Vec<Option<&[u8]>> { octets.chunks_exact(of / 4 / threads).map(Some).collect() };
        let (hot, all) = (columns(HOT), columns(COLD));
        let mut part = |some: &[Option<&[u8]>], at: usize, length: usize, target| {
            let rows = decode_rows(&decoder, some, each, &mut out[at..at + length], target);
            assert!(rows == length / threads / each || rows == 0);
        };
        let cold = rate(COLD, || part(&all[..threads], 0, COLD, Target::Cold));
        let warm = rate(COLD, || hot.chunks_exact(threads).for_each(|some| part(some, 0, HOT, Target::Warm)));
        let lossy = rate(COLD, || {
            hot.chunks_exact(threads)
                .for_each(|some| part(&[&[None], &some[1..]].concat(), 0, HOT, Target::Warm));
        });
        println!(
            "{:28} {warm:10.2} {cold:10.2}  one missing: {lossy:.2}",
            format!("rows of {threads} threads × {each}")
        );
    }
}
