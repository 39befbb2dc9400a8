//! The states of the samples of each channel, judged.

use super::finding::QualityFinding;
use crate::samples::Coding;

/// Samples of a channel before its states are judged.
const MIN_SAMPLES: u64 = 4000;
/// Samples of a thread before all states are said to be equally frequent.
const MIN_FLAT: u64 = 300_000;
/// One state, or one value of a bit, holds all samples but for this share.
const MAX_OTHERS: f64 = 0.001;
/// The mean may be off zero by this many standard deviations.
const MAX_OFFSET: f64 = 0.1;
/// The share of two-bit samples in the outer states: 0.33 if the threshold is at one standard deviation. These are 5 dB less and
/// 5.8 dB more power than that.
const OUTER_OF_TWO: (f64, f64) = (0.08, 0.61);
/// The share of wider samples in the two outermost states: clipped.
const MAX_CLIPPED: f64 = 0.2;
/// The standard deviation of wider samples, in codes.
const MIN_DEVIATION: f64 = 1.0;
/// States are even if the share of each differs from that of all by no more: of two bits absolutely, of more relatively.
const EVEN: f64 = 0.0025;
const EVEN_RELATIVE: f64 = 0.1;

/// How often each code of a channel occurs: in offset binary, the lowest level first; of more than 8 bits, by the upper 8.
#[derive(Clone, Copy, Debug)]
pub struct ColumnCounts<'a> {
    /// The channel.
    pub channel: u32,
    /// The counts.
    pub codes: &'a [u64],
}

/// The share of samples in the two outermost states.
fn outer_share(codes: &[u64]) -> f64 {
    let outer = codes.first().copied().unwrap_or(0) + codes.last().copied().unwrap_or(0);
    outer as f64 / codes.iter().sum::<u64>().max(1) as f64
}

/// Appends what is wrong with the states of the channels of one thread, written as `coding` by its headers.
pub fn judge_columns(coding: Coding, columns: &[ColumnCounts<'_>], found: &mut Vec<QualityFinding>) {
    if !coding.is_known() {
        return;
    }
    let bits = coding.bits().min(8);
    let is_flat = flat(bits, columns);
    if let Some(deviation) = is_flat {
        found.push(QualityFinding::FlatStates { deviation });
    }
    for column in columns {
        let total: u64 = column.codes.iter().sum();
        if total >= MIN_SAMPLES && column.codes.len() == 1 << bits {
            judge_column(bits, *column, total as f64, is_flat.is_some(), found);
        }
    }
}

/// The largest deviation from an even distribution, if all channels have one.
fn flat(bits: u32, columns: &[ColumnCounts<'_>]) -> Option<f64> {
    let states = 1usize << bits;
    let mut sums = vec![0u64; states];
    for column in columns {
        // One sign or one dead channel says nothing of the others.
        if column.codes.len() != states {
            return None;
        }
        let total = column.codes.iter().sum::<u64>().max(1) as f64;
        let chance = 6.0 * (1.0 / (states as f64 * total)).sqrt();
        let limit = if bits == 2 { EVEN + chance } else { EVEN_RELATIVE / states as f64 + chance };
        if column.codes.iter().any(|&count| (count as f64 / total - 1.0 / states as f64).abs() > limit) {
            return None;
        }
        sums.iter_mut().zip(column.codes).for_each(|(sum, count)| *sum += count);
    }
    let total: u64 = sums.iter().sum();
    let limit = if bits == 2 { EVEN } else { EVEN_RELATIVE / states as f64 * 3.0 };
    let deviation = sums.iter().map(|&sum| (sum as f64 / total.max(1) as f64 - 1.0 / states as f64).abs());
    let deviation = deviation.fold(0.0, f64::max);
    (bits >= 2 && total >= MIN_FLAT && deviation <= limit).then_some(deviation)
}

fn judge_column(
    bits: u32,
    ColumnCounts { channel, codes }: ColumnCounts<'_>,
    total: f64,
    is_flat: bool,
    found: &mut Vec<QualityFinding>,
) {
    let share = |count: u64| count as f64 / total;
    let most = (0..).zip(codes).max_by_key(|(_, count)| **count);
    if let Some((code, &count)) = most
        && share(count) >= 1.0 - MAX_OTHERS
    {
        found.push(QualityFinding::DeadChannel { channel, code, share: share(count) });
        return;
    }
    let mut is_stuck = false;
    for bit in 0..bits {
        let set: u64 =
            (0u32..).zip(codes).filter(|(code, _)| code >> bit & 1 == 1).map(|(_, count)| count).sum();
        if bits > 1 && !(MAX_OTHERS..=1.0 - MAX_OTHERS).contains(&share(set)) {
            found.push(QualityFinding::StuckBit { channel, bit, is_set: share(set) > 0.5 });
            is_stuck = true;
        }
    }
    // Its states are those of a broken bit.
    if is_stuck {
        return;
    }
    let sigmas = offset(bits, codes, total);
    if sigmas.abs() > MAX_OFFSET {
        found.push(QualityFinding::DcOffset { channel, sigmas });
    }
    let outer = outer_share(codes);
    let (low, high) = match bits {
        1 => (false, false),
        2 => (outer < OUTER_OF_TWO.0, outer > OUTER_OF_TWO.1),
        _ => (deviation(codes, total) < MIN_DEVIATION, outer > MAX_CLIPPED),
    };
    if low {
        found.push(QualityFinding::LevelLow { channel, outer });
    }
    if high && !is_flat {
        found.push(QualityFinding::LevelHigh { channel, outer });
    }
}

/// Mean of the codes, and their standard deviation.
fn moments(codes: &[u64], total: f64) -> (f64, f64) {
    let moment = |power: i32| {
        let sum = (0u32..).zip(codes).map(|(code, &count)| f64::from(code).powi(power) * count as f64);
        sum.sum::<f64>() / total
    };
    let mean = moment(1);
    (mean, (moment(2) - mean * mean).max(0.0).sqrt())
}

fn deviation(codes: &[u64], total: f64) -> f64 {
    moments(codes, total).1
}

/// The offset of the mean from zero in standard deviations of the noise.
fn offset(bits: u32, codes: &[u64], total: f64) -> f64 {
    let half = codes.len() / 2;
    if bits <= 2 {
        // By the sign, whose threshold is at zero, whatever the level is: the slope of the normal distribution there.
        let above = codes[half..].iter().sum::<u64>() as f64 / total;
        return (above - 0.5) * std::f64::consts::TAU.sqrt();
    }
    // Zero is between the middle codes, or in the upper of them: either is in use.
    let (mean, deviation) = moments(codes, total);
    let off = mean - (half as f64 - 0.25);
    let beyond = (off.abs() - 0.25).max(0.0).copysign(off);
    if deviation > 0.0 { beyond / deviation } else { 0.0 }
}
