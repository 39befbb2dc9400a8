//! How a receiving thread reads, and where its time goes: to waiting for data, or elsewhere while data wait for it.
//!
//! ```text
//!   quick reader     call · waits · │data│ call · waits · │data│       data wake it: they are new when the call returns
//!   it is busy       call│data│ · · · away · · · call│data│            it calls late, and the data are there at once
//!   it is stopped    call · waits · ▾ · away · │data│                  data come at ▾, and the call returns late: they are old
//!   it is slow       call│data│away│call│data│away│call│data│away      the data are always there, and no call waits
//! ```
//!
//! The gap between two reads does not tell these apart, because a small window also brings data with gaps. A call that returned late does: its
//! timeout had passed, or the last byte had come long before. The kernel is asked for that only when a call took long, so a busy flow pays nothing.
//!
//! Limits: data that still come when a stop ends hide it, up to the timeout of a read. Then the window was not full, and the stop cost
//! nothing. The kernel's age of data has steps of its tick, up to 10 ms.

use serde::{Deserialize, Serialize};
use skyhaul_io::quantity::{Rate, Span};
use std::str::FromStr;
use std::time::Duration;

/// An absence of at least this length is a pause: longer than a usual wait for a CPU, and than the tick of any kernel.
const PAUSE: Duration = Duration::from_millis(10);
/// A call that took less than this found data.
const FOUND: Duration = Duration::from_millis(2);

/// How a receiver reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReaderHabit {
    /// As soon as there is something.
    #[default]
    Quick,
    /// It is away for `length` at the end of each `period`, as a program is that waits for something else.
    Pauses {
        /// How long it is away.
        length: Duration,
        /// From one pause to the next.
        period: Duration,
    },
    /// No faster than this, in small pieces, as a slow program.
    Slow(Rate),
}

impl FromStr for ReaderHabit {
    type Err = String;

    /// `TIME@PERIOD` is pauses, `RATE` a slow reader.
    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || format!("expected TIME@PERIOD, such as 50ms@200ms, or RATE, such as 20Mbps; got {text}");
        let Some((length, period)) = text.split_once('@') else {
            let rate = text.parse::<Rate>().map_err(|_| expected())?;
            return if rate.bits_per_second() > 0 { Ok(Self::Slow(rate)) } else { Err(expected()) };
        };
        let span = |text: &str| text.parse::<Span>().map(|span| span.duration()).map_err(|_| expected());
        let (length, period) = (span(length)?, span(period)?);
        if length.is_zero() || length >= period {
            Err(expected())
        } else {
            Ok(Self::Pauses { length, period })
        }
    }
}

impl ReaderHabit {
    /// Bytes to read at a time: of a slow reader, those of 2 ms.
    pub(super) fn piece(self, block: usize) -> usize {
        match self {
            Self::Slow(rate) => {
                usize::try_from(rate.bits_per_second() / 8 / 500).unwrap_or(block).max(1500).min(block)
            }
            Self::Quick | Self::Pauses { .. } => block,
        }
    }

    /// How long the reader is away after a read of `bytes` at `now`, from the beginning on.
    pub(super) fn away(self, now: Duration, bytes: usize) -> Duration {
        match self {
            Self::Quick => Duration::ZERO,
            Self::Pauses { length, period } => {
                let at =
                    Duration::from_nanos(now.as_nanos().checked_rem(period.as_nanos()).unwrap_or(0) as u64);
                if at >= period.saturating_sub(length) { period.saturating_sub(at) } else { Duration::ZERO }
            }
            Self::Slow(rate) => {
                Duration::from_secs_f64(bytes as f64 * 8.0 / rate.bits_per_second().max(1) as f64)
            }
        }
    }
}

/// What the thread of a receiver did with its time up to the last data, the omitted time included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReaderReport {
    /// Seconds of all of it; what the following do not count, it used CPU time in calls.
    pub seconds: f64,
    /// Seconds in which it waited for data.
    pub waited_seconds: f64,
    /// Seconds in absences of less than 10 ms while data waited.
    pub short_seconds: f64,
    /// Seconds in pauses: absences of at least 10 ms while data waited.
    pub paused_seconds: f64,
    /// Number of pauses.
    pub pauses: u32,
    /// Longest pause in seconds.
    pub longest_pause: f64,
    /// How large the kernel may make the receive buffer, in bytes of data.
    pub buffer_limit: u64,
}

/// How a call that read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// With data.
    Data,
    /// Without, by its timeout, a signal, or the end of the stream.
    Nothing,
}

/// A call that read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// From the end of the call before to its beginning.
    pub(super) outside: Duration,
    /// From its beginning to its end.
    pub(super) inside: Duration,
    pub(super) end: CallEnd,
}

/// Where a reader's time went, up to the last data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadTimes {
    /// In calls, without what they returned late.
    inside: Duration,
    /// Elsewhere for less than a pause, while data waited.
    short: Duration,
    /// In pauses, while data waited.
    paused: Duration,
    pauses: u32,
    longest: Duration,
    /// In calls since the last data, and how much of it was beyond their timeout.
    quiet: Duration,
    overdue: Duration,
}

impl ReadTimes {
    /// Take in a call, which had to return after `timeout`; `age` says how long ago the last data came.
    pub(super) fn call(&mut self, call: Call, timeout: Duration, age: impl FnOnce() -> Option<Duration>) {
        // The kernel's clock for timeouts has steps of up to 10 ms.
        let overdue = call.inside.saturating_sub(timeout + PAUSE);
        self.quiet += call.inside;
        if call.end == CallEnd::Nothing {
            // A process that is stopped while it waits returns from the call without data, whatever came meanwhile.
            self.overdue = overdue;
            return;
        }
        let quiet = std::mem::take(&mut self.quiet);
        let age = if quiet >= PAUSE || call.outside >= PAUSE { age() } else { None };
        // A call may take long because its thread has no CPU.
        let at_once = call.inside < FOUND || age.is_some_and(|age| age > call.inside);
        let before = std::mem::take(&mut self.overdue);
        let overdue = if at_once { before + overdue } else { overdue };
        let late = match quiet < PAUSE {
            true => Duration::ZERO,
            false => age.filter(|age| *age >= PAUSE).unwrap_or_default().max(overdue).min(quiet),
        };
        self.inside += quiet - late;
        // Data that came only later did not wait outside.
        let absent = late + if at_once { call.outside } else { Duration::ZERO };
        if absent < PAUSE {
            self.short += absent;
        } else {
            self.paused += absent;
            self.pauses += 1;
            self.longest = self.longest.max(absent);
        }
    }

    /// What the report has of it, of a thread that used so much CPU time: the rest of its calls it waited.
    pub(super) fn report(&self, cpu: Duration, buffer_limit: u64) -> ReaderReport {
        ReaderReport {
            seconds: (self.inside + self.short + self.paused).as_secs_f64(),
            waited_seconds: self.inside.saturating_sub(cpu).as_secs_f64(),
            short_seconds: self.short.as_secs_f64(),
            paused_seconds: self.paused.as_secs_f64(),
            pauses: self.pauses,
            longest_pause: self.longest.as_secs_f64(),
            buffer_limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(20);

    /// Calls by milliseconds outside and inside, whether they found data, and the age of the last byte.
    fn times(calls: &[(u64, u64, bool, u64)]) -> ReaderReport {
        let mut times = ReadTimes::default();
        for &(outside, inside, data, age) in calls {
            let end = if data { CallEnd::Data } else { CallEnd::Nothing };
            let (outside, inside) = (Duration::from_millis(outside), Duration::from_millis(inside));
            times.call(Call { outside, inside, end }, TIMEOUT, || Some(Duration::from_millis(age)));
        }
        times.report(Duration::ZERO, 0)
    }

    fn paused(calls: &[(u64, u64, bool, u64)]) -> (u32, u64) {
        let report = times(calls);
        (report.pauses, (report.paused_seconds * 1e3).round() as u64)
    }

    #[test]
    fn data_that_wake_their_reader_are_no_pause() {
        assert_eq!(paused(&[(0, 15, true, 0), (0, 0, true, 0), (0, 20, false, 0), (0, 20, true, 4)]), (0, 0));
        let mut times = ReadTimes::default();
        let call = Call { outside: Duration::ZERO, inside: Duration::from_millis(3), end: CallEnd::Data };
        times.call(call, TIMEOUT, || panic!("the kernel of a busy flow is not asked"));
        // Nothing was there to be read.
        assert_eq!(paused(&[(50, 15, true, 0), (0, 90, false, 0), (0, 15, true, 0)]), (0, 0));
    }

    #[test]
    fn a_reader_that_is_busy_elsewhere_pauses_while_data_wait() {
        let report = times(&[(0, 5, true, 0), (50, 0, true, 3), (3, 0, true, 0), (70, 1, true, 90)]);
        assert_eq!((report.pauses, report.longest_pause), (2, 0.07));
        assert_eq!(paused(&[(60, 5, true, 62)]), (1, 60), "the call took long, but the data were there");
        assert!((report.paused_seconds - 0.12).abs() < 1e-9 && (report.short_seconds - 0.003).abs() < 1e-9);
        assert!((report.waited_seconds - 0.006).abs() < 1e-9 && (report.seconds - 0.129).abs() < 1e-9);
    }

    #[test]
    fn a_process_that_is_stopped_in_a_call_pauses_for_as_long_as_data_wait() {
        // The call returns with the data, or interrupted and without them.
        assert_eq!(paused(&[(0, 60, true, 48)]), (1, 48));
        assert_eq!(paused(&[(0, 60, false, 0), (0, 0, true, 48)]), (1, 48));
        // Data came until it ended, and the call was overdue all the same.
        assert_eq!(paused(&[(0, 90, true, 0)]), (1, 60));
        assert_eq!(paused(&[(0, 90, false, 0), (0, 0, true, 0)]), (1, 60));
        // It cannot have waited longer than that.
        assert_eq!(paused(&[(0, 12, true, 300)]), (1, 12));
    }

    #[test]
    fn what_is_after_the_last_data_is_not_counted() {
        assert_eq!(times(&[(0, 5, true, 0), (0, 20, false, 0), (0, 20, false, 0)]).seconds, 0.005);
    }

    #[test]
    fn habits_are_read_and_kept() {
        let pauses: ReaderHabit = "50ms@200ms".parse().unwrap();
        let at = |now| pauses.away(Duration::from_millis(now), 1).as_millis();
        assert_eq!((at(0), at(149), at(150), at(199), at(360)), (0, 0, 50, 1, 40));
        let slow: ReaderHabit = "8Mbps".parse().unwrap();
        assert_eq!((slow.piece(1 << 20), slow.away(Duration::ZERO, 2000).as_millis()), (2000, 2));
        assert_eq!((ReaderHabit::Quick.piece(99), slow.piece(99)), (99, 99));
        for wrong in ["", "50ms", "50ms@", "0s@1s", "2s@1s", "1s@1s", "0bps"] {
            let said = wrong.parse::<ReaderHabit>().unwrap_err();
            assert!(said.starts_with("expected TIME@PERIOD") && said.ends_with(wrong), "{said}");
        }
    }
}
