//! What the headers of a thread say of time, station and validity.

use super::finding::{ClockGuess, QualityFinding};
use crate::wire::FrameTime;

/// Data time may differ from the time of arrival by this much: the time a formatter holds a frame and the error of a host's clock
/// that follows NTP are some milliseconds.
const MAX_CLOCK_OFFSET_NANOS: i128 = 200_000_000;
/// Of this many frames, so many must be marked invalid.
const MIN_FRAMES: u64 = 8;
const MAX_INVALID: f64 = 0.01;
/// Frames by which threads of a set may be apart.
const MAX_FRAMES_APART: i64 = 8;
/// Frames that must differ before the clock of a thread is said to: a single header may be damaged.
const MIN_DIFFERENT: u64 = 3;

const SECOND: i128 = 1_000_000_000;

/// Seconds from 2000-01-01 to the start of half-year `n`.
fn half_year(n: i64) -> i64 {
    let (year, half) = (n.div_euclid(2), n.rem_euclid(2));
    let leaps =
        |year: i64| (year + 3).div_euclid(4) - (year + 99).div_euclid(100) + (year + 399).div_euclid(400);
    let is_leap = leaps(year + 1) > leaps(year);
    let days = year * 365 + leaps(year) + half * (181 + i64::from(is_leap));
    days * 86_400
}

/// Unix time of 2000-01-01, the first reference epoch.
const EPOCH_2000: i64 = 946_684_800;
/// TAI − UTC since 2017-01-01, and GPS − UTC, seconds.
const TAI_SECONDS: i64 = 37;
const GPS_SECONDS: i64 = 18;

/// What an offset of data time from UTC looks like; `host` is the Unix time at which the data arrived, nanoseconds.
#[must_use]
pub fn guess_clock(offset_nanos: i128, host: i128) -> ClockGuess {
    let Ok(seconds) = i64::try_from((offset_nanos + SECOND / 2).div_euclid(SECOND)) else {
        return ClockGuess::Unknown;
    };
    let is_whole = (offset_nanos - i128::from(seconds) * SECOND).abs() <= MAX_CLOCK_OFFSET_NANOS;
    if !is_whole || seconds == 0 {
        return ClockGuess::Unknown;
    }
    match seconds {
        GPS_SECONDS => return ClockGuess::Gps,
        TAI_SECONDS => return ClockGuess::Tai,
        EPOCH_2000 => return ClockGuess::UnixSeconds,
        _ => {}
    }
    let hours = seconds / 3600;
    if seconds % 3600 == 0 && (-12..=14).contains(&hours) {
        return ClockGuess::TimeZone(hours);
    }
    let now = i64::try_from(host.div_euclid(SECOND)).unwrap_or(0) - EPOCH_2000;
    // Epochs to which the seconds may belong: a formatter keeps that of its last start.
    let of_now = (now / (182 * 86_400)).clamp(0, 63);
    for right in (of_now - 8).max(0)..=(of_now + 1).min(63) {
        let wrong = (0..64).find(|&wrong| wrong != right && half_year(wrong) - half_year(right) == seconds);
        if let Some(wrong) = wrong {
            return ClockGuess::ReferenceEpoch((wrong - right) as i32);
        }
    }
    ClockGuess::WholeSeconds
}

/// What some headers of a thread say.
#[derive(Clone, Debug, Default)]
pub struct HeaderStats {
    frames: u64,
    invalid: u64,
    /// Frames whose time differs from that of the others of their set, and the last difference.
    differing: (u64, i64, i64),
    station: Option<u32>,
    other_station: (u64, u32),
    /// Data time less the time of arrival of the freshest frames, nanoseconds, the one nearest to 0, and the arrival.
    offset: Option<(i128, i128)>,
}

impl HeaderStats {
    /// Takes a frame of the thread: whether it is valid, its time and station, and those of most frames of its set. `rate`: frames of
    /// a thread in a second, if that is known. Threads may be some frames apart, as they are sent one after the other.
    pub fn add(
        &mut self,
        is_valid: bool,
        own: (FrameTime, Option<u32>),
        set: (FrameTime, Option<u32>),
        rate: Option<u32>,
    ) {
        self.frames += 1;
        self.invalid += u64::from(!is_valid);
        let seconds = own.0.unix_seconds.saturating_sub(set.0.unix_seconds);
        let frames = i64::from(own.0.frame) - i64::from(set.0.frame);
        let apart = match rate {
            Some(rate) => {
                seconds.saturating_mul(rate.into()).saturating_add(frames).saturating_abs() > MAX_FRAMES_APART
            }
            // The end of a second looks like a step of one.
            None => seconds != 0 && frames.abs() <= MAX_FRAMES_APART || seconds.saturating_abs() > 1,
        };
        if apart {
            self.differing = (self.differing.0 + 1, seconds, frames);
        }
        self.station = own.1.or(self.station);
        if let (Some(own), Some(other)) = (own.1, set.1)
            && own != other
        {
            self.other_station = (self.other_station.0 + 1, other);
        }
    }

    /// A frame that began at Unix time `data` arrived at `host`, both nanoseconds; it may have been taken up to `within` later.
    pub fn arrived(&mut self, data: i128, within: i128, host: i128) {
        let (least, most) = (data - host, data + within - host);
        let offset = if least > 0 { least } else { most.min(0) };
        // Waiting in queues makes data late: the one that waited least counts.
        if self.offset.is_none_or(|(known, _)| offset.abs() < known.abs()) {
            self.offset = Some((offset, host));
        }
    }

    /// Data time less the time of arrival in nanoseconds, if it is known.
    #[must_use]
    pub fn offset_nanos(&self) -> Option<i128> {
        self.offset.map(|(offset, _)| offset)
    }

    /// Its station, as it is coded.
    #[must_use]
    pub fn station(&self) -> Option<u32> {
        self.station
    }

    /// The share of frames that are marked invalid.
    #[must_use]
    pub fn invalid_share(&self) -> f64 {
        self.invalid as f64 / self.frames.max(1) as f64
    }

    /// Appends what is wrong with them. `shift`: seconds by which the clock of the thread was found to be wrong when the stream
    /// began, and by which its times are corrected.
    pub fn judge(&self, shift: i64, found: &mut Vec<QualityFinding>) {
        if self.frames >= MIN_FRAMES && self.invalid_share() > MAX_INVALID {
            found.push(QualityFinding::InvalidFrames { share: self.invalid_share() });
        }
        // A wrong clock or station is in every frame; of threads that are sent in bursts, a set has frames of two times now and then.
        let is_usual = |count: u64| count >= MIN_DIFFERENT && 2 * count >= self.frames;
        let (differing, seconds, frames) = self.differing;
        if shift != 0 {
            found.push(QualityFinding::ThreadTime { seconds: -shift, frames: 0 });
        } else if is_usual(differing) {
            found.push(QualityFinding::ThreadTime { seconds, frames });
        }
        let (count, others) = self.other_station;
        if let Some(station) = self.station.filter(|_| is_usual(count)) {
            found.push(QualityFinding::ThreadStation { station, others });
        }
        if let Some((offset_nanos, host)) = self.offset
            && offset_nanos.abs() > MAX_CLOCK_OFFSET_NANOS
        {
            let guess = guess_clock(offset_nanos, host);
            found.push(QualityFinding::DataTime { offset_nanos, guess });
        }
    }
}
