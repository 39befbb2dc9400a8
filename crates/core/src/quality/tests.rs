//! Noise as a radio telescope has it, and the mistakes of stations, made by a generator that shares no code with what judges them.

use super::*;
use crate::samples::{Coded, Coding};
use crate::wire::FrameTime;

/// Pseudo-random numbers: splitmix64, and normal ones by Box and Muller, which come in pairs.
struct Noise(u64, Option<f64>);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        if let Some(other) = self.1.take() {
            return other;
        }
        let length = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        self.1 = Some(length * sine);
        length * cosine
    }
}

/// A receiver, band-limited by a filter over some samples.
#[derive(Clone, Debug)]
struct Station {
    bits: u32,
    channels: usize,
    gain_db: f64,
    /// Taps of the filter.
    taps: Vec<f64>,
    dc: f64,
    /// A tone: cycles per sample, and its amplitude.
    tone: (f64, f64),
    seed: u64,
    frames: usize,
    payload: usize,
}

/// White, sloped, and lower-sideband-like; and one with an echo.
const SHAPES: [&[f64]; 4] =
    [&[1.0], &[1.0, 0.4], &[1.0, -0.35, 0.1], &[1.0, 0.2, 0.0, 0.0, 0.0, 0.0, 0.0, 0.15]];

impl Default for Station {
    fn default() -> Self {
        Self {
            bits: 2,
            channels: 1,
            gain_db: 0.0,
            taps: vec![1.0, 0.4],
            dc: 0.0,
            tone: (0.0, 0.0),
            seed: 1,
            frames: 12,
            payload: 4096,
        }
    }
}

impl Station {
    fn code(&self, x: f64) -> u64 {
        let half = 1i64 << (self.bits - 1);
        // The usual standard deviations: 1, thresholds at 0.98; 2.95 codes; 35.5 codes; the same of 16 bits.
        let scale = match self.bits {
            1 => 1.0,
            2 => 1.0 / 0.981_599,
            4 => 2.95,
            8 => 35.5,
            _ => 35.5 * 256.0,
        };
        ((x * scale).floor() as i64 + half).clamp(0, 2 * half - 1) as u64
    }

    /// Payloads of frames: each sample of each channel in turn, the earliest in the lowest bits.
    fn payloads(&self) -> Vec<Vec<u8>> {
        let mut noise = Noise(self.seed.wrapping_mul(0xD134_2543_DE82_EF95), None);
        let power: f64 = self.taps.iter().map(|tap| tap * tap).sum();
        let gain = 10f64.powf(self.gain_db / 20.0) / power.sqrt();
        let mut past = vec![vec![0.0; self.taps.len()]; self.channels];
        let mut time = 0u64;
        let rows = self.payload * 8 / (self.bits as usize * self.channels);
        let frame = |_| {
            let mut payload = vec![0u8; self.payload];
            for row in 0..rows {
                time += 1;
                let tone = match self.tone {
                    (_, 0.0) => 0.0,
                    (cycles, amplitude) => {
                        amplitude * (std::f64::consts::TAU * (cycles * time as f64).fract()).sin()
                    }
                };
                for (channel, past) in past.iter_mut().enumerate() {
                    past.rotate_right(1);
                    past[0] = noise.normal();
                    let x: f64 = past.iter().zip(&self.taps).map(|(x, tap)| x * tap).sum();
                    let code = self.code(x * gain + self.dc + tone);
                    let at = (row * self.channels + channel) * self.bits as usize;
                    let octets = (self.bits as usize).div_ceil(8);
                    for (n, octet) in code.to_le_bytes().into_iter().take(octets).enumerate() {
                        payload[at / 8 + n] |= octet << (at % 8);
                    }
                }
            }
            payload
        };
        (0..self.frames).map(frame).collect()
    }

    fn coded(&self) -> Coded {
        coded(Coding::Offset(self.bits), self.channels as u32)
    }
}

fn coded(coding: Coding, channels: u32) -> Coded {
    Coded { coding: Some(coding), channels: Some(channels), complex: false, header: 0, by_channel: false }
}

/// Codes of each channel, bit by bit.
fn counts(coded: Coded, payloads: &[Vec<u8>]) -> Vec<Vec<u64>> {
    let coding = coded.coding.unwrap();
    let (bits, channels) = (coding.bits() as usize, coded.channels.unwrap() as usize);
    let shown = bits.min(8);
    let mut counts = vec![vec![0; 1 << shown]; channels];
    for payload in payloads {
        let bit = |k: usize| u32::from(payload[k / 8] >> (k % 8) & 1);
        let (mut channel, mut at) = (0, 0);
        while at + bits <= payload.len() * 8 {
            // The highest bits are shown.
            let code = (at + bits - shown..at + bits).rev().fold(0, |code, k| code << 1 | bit(k));
            let code = if coding == Coding::SignMagnitude(2) { (code & 1) << 1 | code >> 1 } else { code };
            counts[channel][code as usize] += 1;
            channel = if channel + 1 == channels { 0 } else { channel + 1 };
            at += bits;
        }
    }
    counts
}

fn gathered(coded: Coded, payloads: &[Vec<u8>]) -> PayloadStats {
    let mut stats = PayloadStats::new(coded);
    for (n, payload) in payloads.iter().enumerate() {
        stats.add((1000 + n as i64 / 4, n as u32 % 4 * 100), payload);
    }
    stats
}

/// All that is found in payloads that are said to be coded so.
fn judged(coded: Coded, payloads: &[Vec<u8>]) -> Vec<QualityFinding> {
    let stats = gathered(coded, payloads);
    let mut found = Vec::new();
    stats.judge(&mut found);
    stats.judge_copies(0, &[(0, &stats)].into_iter(), &mut found);
    if coded.coding.unwrap().is_known() {
        let counts = counts(coded, payloads);
        let columns: Vec<_> =
            (0..).zip(&counts).map(|(channel, codes)| ColumnCounts { channel, codes }).collect();
        judge_columns(coded.coding.unwrap(), &columns, &mut found);
    }
    found
}

fn names(found: &[QualityFinding]) -> Vec<&'static str> {
    let mut names: Vec<_> = found.iter().map(QualityFinding::name).collect();
    names.dedup();
    names
}

/// Seeds by which the thresholds were set are below 10 000; these are others.
const UNSEEN: u64 = 9_000_000;

/// Clean noise of these numbers is not accused.
fn clean(numbers: impl Iterator<Item = u64>) {
    for n in numbers {
        let mut draw = Noise(UNSEEN + n, None);
        let station = Station {
            bits: [1, 2, 4, 8][(n % 4) as usize],
            channels: [1, 2, 4, 8][(draw.next() % 4) as usize],
            gain_db: draw.uniform() * 6.0 - 3.0,
            taps: SHAPES[(draw.next() % 4) as usize].to_vec(),
            tone: (
                draw.uniform() / 2.0,
                if draw.next().is_multiple_of(2) { 0.0 } else { draw.uniform() * 0.3 },
            ),
            dc: draw.uniform() * 0.06 - 0.03,
            seed: UNSEEN + n,
            frames: 8,
            payload: 2048,
        };
        let found = judged(station.coded(), &station.payloads());
        assert!(found.is_empty(), "{found:?} of {station:?}");
    }
}

/// A thousand, in two tests, as a processor takes a minute for all.
#[test]
fn clean_noise_of_1_and_4_bits_is_never_accused() {
    clean((0..1000).step_by(2));
}

#[test]
fn clean_noise_of_2_and_8_bits_is_never_accused() {
    clean((1..1000).step_by(2));
}

/// A station with so much data that all is judged.
fn long(seed: u64) -> Station {
    Station { seed: UNSEEN + seed, frames: 24, payload: 8000, ..Station::default() }
}

#[test]
fn much_clean_noise_is_not_accused_either() {
    for (n, gain_db) in [-3.0, -1.5, 0.0, 1.5, 3.0].into_iter().enumerate() {
        for bits in [1, 2, 4, 8, 16] {
            let station =
                Station { bits, gain_db, channels: 1 + n % 2, ..long(n as u64 * 16 + u64::from(bits)) };
            let found = judged(station.coded(), &station.payloads());
            assert!(found.is_empty(), "{found:?} of {station:?}");
        }
    }
}

fn each_word(payloads: &mut [Vec<u8>], bytes: usize) {
    payloads.iter_mut().for_each(|payload| payload.chunks_exact_mut(bytes).for_each(<[u8]>::reverse));
}

/// The spare card of 2026: bytes of 32-bit words reversed.
#[test]
fn exchanged_bytes_are_named() {
    let orders = [(2, SampleOrder::Swapped16), (4, SampleOrder::Swapped32), (8, SampleOrder::Swapped64)];
    for seed in 0..2 {
        for (bits, channels) in [(1, 1), (2, 1), (2, 2), (4, 1), (8, 1), (16, 1)] {
            for taps in [SHAPES[1], SHAPES[2]] {
                let station = Station { bits, channels, taps: taps.to_vec(), ..long(100 + seed) };
                let right = station.payloads();
                for (bytes, order) in orders {
                    // A complete sample that fills the word has no neighbours in it.
                    if bits as usize * channels >= bytes * 8 && bits < 16 {
                        continue;
                    }
                    let mut payloads = right.clone();
                    each_word(&mut payloads, bytes);
                    let found = judged(station.coded(), &payloads);
                    let named = found
                        .iter()
                        .any(|f| matches!(f, QualityFinding::ByteOrder { order: is, .. } if *is == order));
                    assert!(named, "{found:?} of {order} in {station:?}");
                }
            }
        }
    }
}

#[test]
fn reversed_bits_and_exchanged_sign_and_magnitude_are_named() {
    for seed in 0..5 {
        for taps in [SHAPES[1], SHAPES[2]] {
            let station = Station { taps: taps.to_vec(), gain_db: seed as f64 - 2.0, ..long(200 + seed) };
            let right = station.payloads();
            let mut payloads = right.clone();
            payloads.iter_mut().flatten().for_each(|octet| *octet = octet.reverse_bits());
            let found = judged(station.coded(), &payloads);
            assert!(
                matches!(found[..], [QualityFinding::ByteOrder { order: SampleOrder::BitsReversed, .. }]),
                "{found:?}"
            );

            let mut payloads = right.clone();
            payloads
                .iter_mut()
                .flatten()
                .for_each(|octet| *octet = (*octet & 0x55) << 1 | *octet >> 1 & 0x55);
            let found = judged(station.coded(), &payloads);
            assert!(matches!(found[..], [QualityFinding::SignMagnitude { .. }]), "{found:?}");
            // And the other way: samples of Mark 5B are right as what they are, and wrong as VDIF's.
            assert!(judged(coded(Coding::SignMagnitude(2), 1), &payloads).is_empty());
            let found = judged(coded(Coding::SignMagnitude(2), 1), &right);
            assert!(matches!(found[..], [QualityFinding::SignMagnitude { .. }]), "{found:?}");
        }
    }
}

#[test]
fn wrong_bits_per_sample_are_named() {
    for seed in 0..4 {
        for gain_db in [-2.0, 0.0, 2.0] {
            let station = |bits| Station { bits, gain_db, taps: vec![1.0], ..long(300 + seed) }.payloads();
            let stations: Vec<_> = [1, 2, 4, 8, 16].map(station).into();
            let station = |bits: u32| &stations[bits.ilog2() as usize];
            let mistakes = [
                (2, 1),
                (2, 3),
                (4, 2),
                (4, 5),
                (8, 2),
                (8, 4),
                (8, 9),
                (16, 8),
                (4, 8),
                (2, 4),
                (2, 8),
                (8, 16),
            ];
            for (found, stated) in mistakes {
                // Too near to even states for its highest bits to be seen.
                if found == 2 && gain_db > 1.0 {
                    continue;
                }
                let all = judged(coded(Coding::Offset(stated), 1), station(found));
                let expected = QualityFinding::BitsPerSample { stated, found };
                assert!(all.contains(&expected), "{found} as {stated} at {gain_db} dB: {all:?}");
            }
            // One bit as two: the states are even, as are those of random bits.
            let all = judged(coded(Coding::Offset(2), 1), station(1));
            assert_eq!(names(&all), ["flat_states"], "{all:?}");
        }
    }
}

/// Two channels at different levels have their highest bits where one of four bits has them.
#[test]
fn a_loud_channel_beside_a_quiet_one_is_no_other_width() {
    for seed in 0..20 {
        let loud = Station { gain_db: 3.0, ..long(600 + seed) }.payloads();
        let quiet = Station { gain_db: -1.0, ..long(700 + seed) }.payloads();
        let spread = |octet: u8| (0..4).fold(0u16, |all, n| all | u16::from(octet >> (2 * n) & 3) << (4 * n));
        let both = |(a, b): (&Vec<u8>, &Vec<u8>)| -> Vec<u8> {
            a.iter().zip(b).flat_map(|(&a, &b)| (spread(a) | spread(b) << 2).to_le_bytes()).collect()
        };
        let payloads: Vec<_> = loud.iter().zip(&quiet).map(both).collect();
        let found = judged(coded(Coding::Offset(2), 2), &payloads);
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn broken_samplers_are_named() {
    let clean = Station { channels: 4, ..long(400) };
    let each = |change: &dyn Fn(usize, u32) -> u32| {
        let mut payloads = clean.payloads();
        for octet in payloads.iter_mut().flatten() {
            let codes = (0..4).map(|channel| (channel, u32::from(*octet >> (2 * channel) & 3)));
            *octet = codes
                .fold(0, |octet, (channel, code)| octet | (change(channel, code) as u8) << (2 * channel));
        }
        judged(clean.coded(), &payloads)
    };
    let found = each(&|channel, code| if channel == 2 { 1 } else { code });
    assert!(matches!(found[..], [QualityFinding::DeadChannel { channel: 2, code: 1, .. }]), "{found:?}");
    for (bit, is_set) in [(0, false), (0, true), (1, false), (1, true)] {
        let found = each(&|channel, code| match (channel, is_set) {
            (3, true) => code | 1 << bit,
            (3, false) => code & !(1 << bit),
            _ => code,
        });
        assert_eq!(found, [QualityFinding::StuckBit { channel: 3, bit, is_set }]);
    }
    for (gain_db, name) in [(-9.0, "level_low"), (9.0, "level_high")] {
        for bits in [2, 4] {
            let gain_db = if bits == 4 { gain_db * 1.3 } else { gain_db };
            let station = Station { bits, gain_db, channels: 2, ..long(401) };
            let found = judged(station.coded(), &station.payloads());
            assert_eq!(names(&found), [name], "{found:?}");
        }
    }
    for bits in [1, 2, 4, 8] {
        for dc in [-0.3, 0.3] {
            let station = Station { bits, dc, ..long(402) };
            let found = judged(station.coded(), &station.payloads());
            let sigmas = match found[..] {
                [QualityFinding::DcOffset { channel: 0, sigmas }] => sigmas,
                _ => panic!("{bits} bits: {found:?}"),
            };
            // Of four bits it is not known whether zero is a code or between two.
            let known = if bits == 4 { sigmas * dc > 0.0 } else { (sigmas / dc - 1.0).abs() < 0.4 };
            assert!(known, "{bits} bits: {sigmas}");
        }
    }
}

#[test]
fn copies_zeros_fill_and_repeated_frames_are_named() {
    let clean = Station { channels: 4, ..long(500) };
    let mut payloads = clean.payloads();
    payloads.iter_mut().flatten().for_each(|octet| *octet = *octet & 0x3F | *octet << 4 & 0xC0);
    let found = judged(clean.coded(), &payloads);
    let copied = QualityFinding::CopiedChannel { channel: 3, of_thread: 0, of_channel: 1 };
    assert_eq!(found, [copied]);

    let other = gathered(clean.coded(), &clean.payloads());
    let (mut found, stranger) =
        (Vec::new(), gathered(clean.coded(), &Station { seed: 9, ..clean.clone() }.payloads()));
    let threads = [(2, &stranger), (4, &other)];
    other.judge_copies(4, &threads.into_iter(), &mut found);
    assert_eq!(found, []);
    other.judge_copies(5, &threads.into_iter(), &mut found);
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[1], QualityFinding::CopiedChannel { channel: 1, of_thread: 4, of_channel: 1 });

    for word in [0u32, 0x1122_3344, 0xFFFF_FFFF] {
        let payloads: Vec<_> =
            clean.payloads().iter().map(|p| word.to_le_bytes().repeat(p.len() / 4)).collect();
        let stats = gathered(clean.coded(), &payloads);
        let mut found = Vec::new();
        stats.judge(&mut found);
        assert_eq!(found, [QualityFinding::ConstantPayload { word, share: 1.0 }]);
    }
    let payloads = clean.payloads();
    let again: Vec<_> = (0..24).map(|n| payloads[n % 3].clone()).collect();
    assert!(names(&judged(clean.coded(), &again)).contains(&"repeated_payload"));
}

const TONES: PhaseCal = PhaseCal { spacing_hz: 1e6, offset_hz: None };

/// A spectrum of so many blocks with tones of `excess` times the noise beside them.
fn spectrum(seed: u64, blocks: u64, step_hz: f64, offset_hz: f64, excess: f64) -> Vec<f64> {
    let mut noise = Noise(UNSEEN + seed, None);
    (0..1024u32)
        .map(|n| {
            let hz = f64::from(n) * step_hz;
            let from_tone = (hz - offset_hz).rem_euclid(1e6);
            let tone =
                if from_tone < step_hz / 2.0 || from_tone > 1e6 - step_hz / 2.0 { excess } else { 0.0 };
            // Sloped like a filter.
            let band = 1.0 - 0.5 * f64::from(n) / 1024.0;
            (band * (1.0 + tone) * (1.0 + noise.normal() / (blocks as f64).sqrt())).max(0.0)
        })
        .collect()
}

#[test]
fn phase_cal_tones_are_found_at_any_offset_and_missed_where_there_are_none() {
    for seed in 0..200 {
        let offset = (seed % 16) as f64 * 62_500.0 + 10.0;
        let with = spectrum(seed, 100, 31_250.0, offset, 0.5);
        let tones = phase_cal_tones(&with, 31_250.0, 100, TONES).unwrap();
        assert!(tones.sigmas > 12.0 && (tones.excess - 0.5).abs() < 0.25, "{tones:?}");
        assert!((tones.offset_hz - offset).abs() < 31_250.0, "{tones:?}");
        let at = PhaseCal { offset_hz: Some(offset), ..TONES };
        assert!(phase_cal_tones(&with, 31_250.0, 100, at).unwrap().sigmas > 12.0);
        let without = spectrum(1000 + seed, 100, 31_250.0, offset, 0.0);
        assert!(phase_cal_tones(&without, 31_250.0, 100, TONES).unwrap().sigmas < 8.0);
        assert!(phase_cal_tones(&without, 31_250.0, 100, at).unwrap().sigmas < 5.0);
    }
    assert_eq!(phase_cal_tones(&[1.0; 1024], 500_000.0, 100, TONES), None, "too coarse");
    assert_eq!(phase_cal_tones(&[1.0; 64], 31_250.0, 100, TONES), None, "too few tones");
    assert_eq!(phase_cal_tones(&[], 31_250.0, 100, TONES), None);
    assert_eq!(phase_cal_tones(&[0.0; 1024], 31_250.0, 100, TONES).unwrap().sigmas, 0.0);
}

#[test]
fn phase_cal_is_written_with_units() {
    let read = |text: &str| text.parse::<PhaseCal>();
    assert_eq!(read("1MHz"), Ok(PhaseCal { spacing_hz: 1e6, offset_hz: None }));
    assert_eq!(read("5MHz@10kHz"), Ok(PhaseCal { spacing_hz: 5e6, offset_hz: Some(1e4) }));
    for wrong in ["", "1", "0MHz", "-1MHz", "1MHz@", "nanHz", "1MHz@5", "1e400Hz"] {
        assert!(read(wrong).unwrap_err().contains("hint: "), "{wrong}");
    }
}

const NOW: i128 = 1_795_862_400_000_000_000;

#[test]
fn offsets_of_clocks_are_explained() {
    let second = 1_000_000_000;
    let half_years =
        [("2026-07-01", 1_782_864_000i64), ("2026-01-01", 1_767_225_600), ("2025-07-01", 1_751_328_000)];
    let between = |a: usize, b: usize| i128::from(half_years[a].1 - half_years[b].1) * second;
    for (offset, guess) in [
        (second, ClockGuess::WholeSeconds),
        (-3 * second + 1_000_000, ClockGuess::WholeSeconds),
        (18 * second - 5_000_000, ClockGuess::Gps),
        (37 * second, ClockGuess::Tai),
        (2 * 3600 * second, ClockGuess::TimeZone(2)),
        (-5 * 3600 * second, ClockGuess::TimeZone(-5)),
        (i128::from(946_684_800) * second, ClockGuess::UnixSeconds),
        (between(0, 1), ClockGuess::ReferenceEpoch(1)),
        (between(1, 0), ClockGuess::ReferenceEpoch(-1)),
        (between(2, 0), ClockGuess::ReferenceEpoch(-2)),
        (second / 2, ClockGuess::Unknown),
        (-second * 3 / 10, ClockGuess::Unknown),
    ] {
        let is = guess_clock(offset, NOW);
        // A year has the same length in several places.
        assert!(
            is == guess
                || matches!((is, guess), (ClockGuess::ReferenceEpoch(a), ClockGuess::ReferenceEpoch(b)) if a == b),
            "{offset}: {is:?}, not {guess:?}"
        );
    }
    for offset in [i128::MAX / 4, i128::MIN / 4] {
        assert_eq!(guess_clock(offset, NOW), ClockGuess::Unknown);
    }
}

#[test]
fn headers_that_differ_are_named_and_single_ones_are_not() {
    let time = |second, frame| FrameTime { unix_seconds: second, frame, thread: 0 };
    let judged = |wrong: u64, change: &dyn Fn() -> (bool, FrameTime, Option<u32>)| {
        let mut stats = HeaderStats::default();
        for n in 0..100 {
            let right = (true, time(5, 7), Some(0x4D68));
            let (valid, own, station) = if n < wrong { change() } else { right };
            stats.add(valid, (own, station), (time(5, 7), Some(0x4D68)), Some(100));
            stats.arrived(5_000_000_000, 0, 5_000_000_000 + i128::from(n) * 3_000_000);
        }
        let mut found = Vec::new();
        stats.judge(0, &mut found);
        found
    };
    let second = || (true, time(6, 7), Some(0x4D68));
    assert_eq!(judged(50, &second), [QualityFinding::ThreadTime { seconds: 1, frames: 0 }]);
    assert_eq!(judged(1, &second), []);
    assert_eq!(judged(20, &second), [], "threads in bursts");
    let frame = || (true, time(5, 57), Some(0x4D68));
    assert_eq!(judged(50, &frame), [QualityFinding::ThreadTime { seconds: 0, frames: 50 }]);
    let end_of_second = || (true, time(4, 99), Some(0x4D68));
    assert_eq!(judged(50, &end_of_second), [], "8 frames before");
    let station = || (true, time(5, 7), Some(0x4F6E));
    let found = judged(100, &station);
    assert_eq!(found, [QualityFinding::ThreadStation { station: 0x4F6E, others: 0x4D68 }]);
    let invalid = || (false, time(5, 7), Some(0x4D68));
    assert_eq!(judged(4, &invalid), [QualityFinding::InvalidFrames { share: 0.04 }]);
    assert_eq!(judged(1, &invalid), []);
    assert_eq!(judged(0, &invalid), []);

    let mut stats = HeaderStats::default();
    stats.add(true, (time(5, 7), None), (time(5, 7), None), None);
    stats.arrived(8_000_000_000, 0, 5_000_000_000);
    stats.arrived(8_000_000_000, 0, 5_300_000_000);
    let mut found = Vec::new();
    stats.judge(-3, &mut found);
    let late = QualityFinding::DataTime { offset_nanos: 2_700_000_000, guess: ClockGuess::Unknown };
    assert_eq!(found, [QualityFinding::ThreadTime { seconds: 3, frames: 0 }, late]);
}

#[test]
fn a_finding_begins_once_and_is_over_when_it_was_not_seen_twice() {
    let high = |outer| QualityFinding::LevelHigh { channel: 1, outer };
    let mut log = FindingLog::default();
    assert_eq!(log.update(&[high(0.7)]), [FindingChange::Begun(high(0.7))]);
    assert_eq!(log.update(&[high(0.8)]), []);
    assert_eq!(log.findings().collect::<Vec<_>>(), [&high(0.8)], "as it was last measured");
    assert_eq!(log.update(&[]), []);
    assert_eq!(log.update(&[high(0.9)]), []);
    assert_eq!(log.update(&[]), []);
    assert_eq!(log.update(&[]), [FindingChange::Ended(high(0.9))]);
    assert_eq!(log.findings().count(), 0);
    let many: Vec<_> = (0..1000).map(|channel| QualityFinding::LevelHigh { channel, outer: 0.9 }).collect();
    assert_eq!(log.update(&many).len(), 32, "no more are followed");
}

#[test]
fn anything_is_survived() {
    let mut draw = Noise(UNSEEN + 77, None);
    for n in 0..400u64 {
        let bits = [1, 2, 3, 4, 5, 8, 16, 31, 32][(draw.next() % 9) as usize];
        let channels = [0, 1, 2, 3, 16, 100, 1 << 20, u32::MAX][(draw.next() % 8) as usize];
        let all = Coded {
            coding: [Some(Coding::Offset(bits)), Some(Coding::SignMagnitude(bits.min(2))), None]
                [(n % 3) as usize],
            channels: [Some(channels), None][(draw.next() % 2) as usize],
            complex: draw.next().is_multiple_of(2),
            header: 0,
            by_channel: false,
        };
        let mut stats = PayloadStats::new(all);
        for k in 0..10 {
            let length = draw.next() % 3000;
            let payload: Vec<u8> = (0..length).map(|_| draw.next() as u8).collect();
            stats.add((k, 0), &payload);
        }
        let mut found = Vec::new();
        stats.judge(&mut found);
        stats.judge_copies(1, &[(0, &stats), (1, &stats)].into_iter(), &mut found);
        judge_columns(Coding::Offset(bits), &[ColumnCounts { channel: 0, codes: &[5000, 0] }], &mut found);
        found.iter().for_each(|finding| assert!(!finding.to_string().is_empty()));
        stats.restart();
        assert_eq!(stats.frames(), 0);
    }
}
