//! Phase-cal tones: power at equal distances of frequency.
//!
//! ```text
//!   power   │      ▲         ▲         ▲         ▲        tones every 1 or 5 MHz, from an offset on that
//!           │ ▁▂▃▄▅█▆▆▆▆▆▆▆▆▆█▆▆▆▆▆▆▆▆▆█▆▆▆▆▆▆▆▅▄█▃▂▁     depends on the local oscillator
//!           └──────┴─────────┴─────────┴─────────┴──▶ f
//! ```
//!
//! Each tone is far below the noise of the band, but all together are not. The median over tones counts, so that one strong
//! line of interference is not taken for a comb.

use crate::hint::Hint;
use std::str::FromStr;

/// Tones and points between them, at least, for a comb to be seen.
const MIN_TONES: usize = 4;
const MIN_POINTS: usize = 8;

/// Tones that are expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseCal {
    /// Their distance, Hz.
    pub spacing_hz: f64,
    /// The frequency of the first in the band, Hz; the strongest comb counts if it is not known.
    pub offset_hz: Option<f64>,
}

/// `1MHz`, or `5MHz@10kHz` with the frequency of the first tone.
impl FromStr for PhaseCal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let hint =
                Hint("write a spacing, like 1MHz, and after @ the frequency of the first tone in the band");
            format!("expected SPACING[@OFFSET], such as 5MHz@10kHz; got `{text}`{hint}")
        };
        let (spacing, offset) = text.split_once('@').map_or((text, None), |(a, b)| (a, Some(b)));
        let spacing_hz = hertz(spacing).filter(|&hz| hz > 0.0).ok_or_else(wrong)?;
        let offset_hz = offset.map(|offset| hertz(offset).ok_or_else(wrong)).transpose()?;
        Ok(Self { spacing_hz, offset_hz })
    }
}

/// A frequency with its unit.
fn hertz(text: &str) -> Option<f64> {
    let units = [("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)];
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let number: f64 = number.trim_end().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * factor)
}

/// Tones that were measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseCalTones {
    /// Their distance, Hz.
    pub spacing_hz: f64,
    /// The frequency of the first, Hz.
    pub offset_hz: f64,
    /// Power at their frequencies beyond that beside them, as a part of it.
    pub excess: f64,
    /// The same in standard deviations of the noise.
    pub sigmas: f64,
}

/// The comb of tones in a spectrum of power that begins at 0 Hz, with points every `step_hz`, each the mean of `blocks`; `None` if
/// the spectrum is too short or too coarse for it.
#[must_use]
pub fn phase_cal_tones(
    power: &[f64],
    step_hz: f64,
    blocks: u64,
    expected: PhaseCal,
) -> Option<PhaseCalTones> {
    let points = expected.spacing_hz / step_hz;
    if !points.is_finite() || points < MIN_POINTS as f64 || blocks == 0 {
        return None;
    }
    // The edges of a band are those of its filters.
    let edge = power.len() / 16;
    let ratios = ratios(power, points.round() as usize);
    let excess_at = |offset: f64| {
        let tones = (0..).map(|n| (offset + f64::from(n) * points).round() as usize);
        let inside = tones.skip_while(|&at| at < edge).take_while(|&at| at + edge < power.len());
        let mut values: Vec<f64> = inside.map(|at| ratios[at]).collect();
        (values.len() >= MIN_TONES).then(|| (median(&mut values) - 1.0, values.len()))
    };
    let offset = match expected.offset_hz {
        Some(offset) => (offset / step_hz).rem_euclid(points),
        None => {
            let all = (0..points.round() as usize).map(|n| n as f64);
            all.filter_map(|offset| Some((offset, excess_at(offset)?.0)))
                .max_by(|a, b| a.1.total_cmp(&b.1))?
                .0
        }
    };
    let (excess, tones) = excess_at(offset)?;
    // A median of exponential variables' means; neighbouring points share a part of their noise.
    let noise = 1.25 / (tones as f64 * blocks as f64).sqrt();
    Some(PhaseCalTones {
        spacing_hz: expected.spacing_hz,
        offset_hz: offset * step_hz,
        excess,
        sigmas: excess / noise,
    })
}

/// Each point as a part of the median of those around it.
fn ratios(power: &[f64], points: usize) -> Vec<f64> {
    let half = points / 2;
    let mut around = Vec::new();
    let mut ratio = |(at, &value): (usize, &f64)| {
        around.clear();
        around.extend_from_slice(&power[at.saturating_sub(half)..(at + half + 1).min(power.len())]);
        let middle = median(&mut around);
        if middle > 0.0 { value / middle } else { 1.0 }
    };
    power.iter().enumerate().map(&mut ratio).collect()
}

fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
