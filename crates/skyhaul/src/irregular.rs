//! Irregularities of a stream, in words and as data: live, in reports, and in findings of `check`.

use serde::{Deserialize, Serialize};
use skyhaul_core::wire::{Apart, Change, FamilyRef, FrameTime, Irregular};

/// How often a stream was irregular, and its times against the host's clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IrregularSummary {
    /// Times in headers that jumped against the packets' sequence numbers, and stayed there.
    pub time_jumps: u64,
    /// Times in headers that stood still while packets were sent.
    pub time_stops: u64,
    /// Single frames with a wrong time. A live watch does not inspect every frame of a fast stream.
    pub odd_frames: u64,
    /// Times at which frames of threads were missing for less than a second, though no packet was.
    pub frame_gaps: u64,
    /// Threads that vanished, or that sent nothing.
    pub threads_lost: u64,
    /// Threads that returned.
    pub threads_returned: u64,
    /// Threads that began after the others.
    pub threads_joined: u64,
    /// Changes of the station in the headers.
    pub station_changes: u64,
    /// Seconds whose number of frames differs from the assumed rate.
    pub rate_changes: u64,
    /// Times at which data were lost because their packets were refused: most of the stream, or many in a row.
    #[serde(default)]
    pub refusals: u64,
    /// Data time less the host's clock at the arrival of the last frames, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_seconds: Option<f64>,
    /// The minimum and maximum of these offsets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_offset_range: Option<(f64, f64)>,
}

impl IrregularSummary {
    /// Whether the frames themselves were regular; the host's clock may be wrong.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let Self { time_jumps, time_stops, odd_frames, frame_gaps, .. } = self;
        let Self { threads_lost, threads_returned, threads_joined, station_changes, rate_changes, .. } = self;
        let of_threads = threads_lost + threads_returned + threads_joined;
        let of_headers = station_changes + rate_changes + self.refusals;
        time_jumps + time_stops + odd_frames + frame_gaps + of_threads + of_headers == 0
    }

    /// Whether times, threads, stations or the frame rate are not those of a regular stream: the judgement of `record` and of
    /// `check`. A thread that was only late is no fault of what was recorded, and single frames with wrong times are not one of
    /// the stream.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        let Self { time_jumps, time_stops, frame_gaps, threads_lost, station_changes, rate_changes, .. } =
            self;
        let of_headers = station_changes + rate_changes + self.refusals;
        time_jumps + time_stops + frame_gaps + threads_lost + of_headers > 0
    }

    /// The count of a kind of [`FAULT_EVENTS`].
    pub(crate) fn fault(&mut self, kind: &str) -> &mut u64 {
        match kind {
            STOPPED => &mut self.time_stops,
            THREAD_LOST => &mut self.threads_lost,
            FRAMES_MISSING => &mut self.frame_gaps,
            FRAME_RATE => &mut self.rate_changes,
            STATION => &mut self.station_changes,
            STREAM_REFUSED => &mut self.refusals,
            _ => &mut self.time_jumps,
        }
    }

    /// In words; empty if there is nothing to say.
    #[must_use]
    pub fn words(&self) -> String {
        let all = [
            (self.time_jumps, "time jump", "time jumps"),
            (self.time_stops, "stopped clock", "stopped clocks"),
            (self.odd_frames, "frame with a wrong time", "frames with wrong times"),
            (self.frame_gaps, "gap of a thread", "gaps of threads"),
            (self.threads_lost, "thread lost", "threads lost"),
            (self.threads_returned, "thread returned", "threads returned"),
            (self.threads_joined, "thread joined late", "threads joined late"),
            (self.station_changes, "change of station", "changes of station"),
            (self.rate_changes, "wrong frame rate", "wrong frame rates"),
            (self.refusals, "run of refused packets", "runs of refused packets"),
        ];
        let some = all.iter().filter(|(count, ..)| *count > 0);
        let words =
            some.map(|(count, one, more)| format!("{count} {}", if *count == 1 { one } else { more }));
        words.collect::<Vec<_>>().join(", ")
    }
}

impl From<Irregular> for IrregularSummary {
    fn from(counts: Irregular) -> IrregularSummary {
        IrregularSummary {
            time_jumps: counts.jumps,
            time_stops: counts.stops,
            odd_frames: counts.odd_frames,
            frame_gaps: counts.frame_gaps,
            threads_lost: counts.threads_lost,
            threads_returned: counts.threads_returned,
            threads_joined: counts.threads_joined,
            station_changes: counts.stations,
            rate_changes: counts.rates,
            ..IrregularSummary::default()
        }
    }
}

/// The kind of events about times that jump, or return.
pub(crate) const TIME_JUMP: &str = "time_jump";
/// The kind of events about times that returned before the end of a stream that is placed by them: no frame of these was accepted,
/// so only the recorder saw them.
pub(crate) const TIMES_REPEATED: &str = "times_repeated";
/// In the text of such events when they were of kind [`TIME_JUMP`]: see [`kind_of_recorded`].
const REPEATED_WORDS: &str = " repeat earlier times: ";
/// The kind of events about threads that vanish.
pub(crate) const THREAD_LOST: &str = "thread_lost";
/// The kind of events about frames of a thread that are missing, though no packet is.
const FRAMES_MISSING: &str = "frames_missing";
/// The kind of events about a frame rate that is not the assumed one.
pub(crate) const FRAME_RATE: &str = "frame_rate";
/// The kind of events about another station in the headers.
const STATION: &str = "station";
/// The kind of events about times that stand still.
pub(crate) const STOPPED: &str = "time_stopped";
/// The kind of events about packets that were refused, and data lost with them: most of the stream, or many in a row.
pub(crate) const STREAM_REFUSED: &str = "stream_refused";
/// The kind of events about packets that were refused, where they were few or repeated others.
pub(crate) const PACKETS_REFUSED: &str = "packets_refused";
/// The kind of events about the host's clock.
pub(crate) const CLOCK_OFFSET: &str = "clock_offset";
/// Kinds of events about the quality of what is recorded: a finding that began, or is over.
pub(crate) const QUALITY: &str = "quality";
pub(crate) const QUALITY_OVER: &str = "quality_over";
/// Kinds of events that make a stream irregular, as [`IrregularSummary::is_fault`] counts them.
pub(crate) const FAULT_EVENTS: [&str; 8] =
    [TIME_JUMP, TIMES_REPEATED, STOPPED, FRAMES_MISSING, THREAD_LOST, FRAME_RATE, STATION, STREAM_REFUSED];
/// Kinds of events that are about a stream's times, threads, station, rate and quality.
pub const STREAM_EVENTS: [&str; 15] = [
    TIME_JUMP,
    TIMES_REPEATED,
    STOPPED,
    FRAMES_MISSING,
    THREAD_LOST,
    "thread_returned",
    "thread_joined",
    FRAME_RATE,
    STATION,
    CLOCK_OFFSET,
    "restart",
    STREAM_REFUSED,
    PACKETS_REFUSED,
    QUALITY,
    QUALITY_OVER,
];

/// The kind of an event in an index. Recorders wrote those that are now [`TIMES_REPEATED`] as [`TIME_JUMP`], and only their words
/// told them from jumps between frames that were recorded.
pub(crate) fn kind_of_recorded(kind: String, text: &str) -> String {
    if kind == TIME_JUMP && text.contains(REPEATED_WORDS) { TIMES_REPEATED.to_owned() } else { kind }
}

/// A frame's second in UTC and its number.
pub(crate) fn moment(time: FrameTime) -> String {
    format!("{} frame {}", crate::time::format(time.unix_seconds), time.frame)
}

/// So many frames as seconds, with a sign, where the rate is known.
fn seconds(frames: i64, rate: Option<(u64, u64)>) -> String {
    match rate {
        Some((frames_in, seconds)) if frames_in > 0 => {
            let seconds = frames as f64 * seconds as f64 / frames_in as f64;
            format!("{seconds:+.6} s ({frames:+} frames)")
        }
        _ => format!("{frames:+} frames"),
    }
}

/// How far times are ahead of their places, with a sign.
fn apart(by: Apart, rate: Option<(u64, u64)>) -> String {
    match by {
        Apart { seconds: 0, frames } => seconds(frames, rate),
        Apart { seconds, frames: 0 } => format!("{seconds:+} s"),
        Apart { seconds, frames } => format!("{seconds:+} s and {frames:+} frames"),
    }
}

/// A thread that began after the others, with this frame.
pub(crate) fn began_late(at: FrameTime) -> String {
    format!("thread {} began late, at {}", at.thread, moment(at))
}

/// A short name for a change, and what happened. `rate`: frames of one thread in so many seconds.
pub(crate) fn told(change: &Change, family: FamilyRef, rate: Option<(u64, u64)>) -> (&'static str, String) {
    match *change {
        Change::Jump { from, to, by } => {
            let goes_back = by.seconds < 0 || by.seconds == 0 && by.frames < 0;
            let repeated = if goes_back { "; times are repeated" } else { "" };
            let text = format!(
                "data time jumped by {} against the packets' order, from {} to {}{repeated}",
                apart(by, rate),
                moment(from),
                moment(to)
            );
            (TIME_JUMP, text)
        }
        Change::Stopped(at) => (STOPPED, format!("data time stands still at {}", moment(at))),
        Change::FramesMissing { thread, frames, from, to } => {
            let what = if frames == 1 { "1 frame".to_owned() } else { format!("{frames} frames") };
            let whose = thread.map(|thread| format!(" of thread {thread}")).unwrap_or_default();
            let text = format!(
                "{what}{whose} missing between {} and {}, though no packet is",
                moment(from),
                moment(to)
            );
            (FRAMES_MISSING, text)
        }
        Change::ThreadLost { thread, last: Some(last), .. } => {
            (THREAD_LOST, format!("thread {thread} sends nothing any more; its last frame: {}", moment(last)))
        }
        Change::ThreadLost { thread, last: None, at } => {
            (THREAD_LOST, format!("thread {thread} sent nothing up to {}", moment(at)))
        }
        Change::ThreadReturned(at) => {
            ("thread_returned", format!("thread {} sends again from {} on", at.thread, moment(at)))
        }
        Change::ThreadJoined(at) => {
            ("thread_joined", format!("{}: nothing of it before is recorded", began_late(at)))
        }
        Change::Rate { assumed, frames, at } => {
            let not = assumed.map(|rate| format!(", not {rate} as assumed")).unwrap_or_default();
            (
                FRAME_RATE,
                format!("seconds have {frames} frames{not}, by the end of the one before {}", moment(at)),
            )
        }
        Change::Station { was, is, at } => {
            let name = |code: u32| {
                family.frames().map_or_else(|| code.to_string(), |frames| frames.station_text(code))
            };
            let text = format!(
                "the station in the headers was {}, and is {} since {}",
                name(was),
                name(is),
                moment(at)
            );
            (STATION, text)
        }
    }
}

/// An offset of the data's time from the host's clock, in words.
pub(crate) fn offset_words(nanos: i128) -> String {
    let seconds = nanos.unsigned_abs() as f64 / 1e9;
    let side = if nanos < 0 { "behind" } else { "ahead of" };
    match seconds {
        ..0.0005 => "equal to this host's clock".to_owned(),
        0.0005..120.0 => format!("{seconds:.3} s {side} this host's clock"),
        120.0..7200.0 => format!("{:.1} minutes {side} this host's clock", seconds / 60.0),
        7200.0..172_800.0 => format!("{:.2} hours {side} this host's clock", seconds / 3600.0),
        _ => format!("{:.1} days {side} this host's clock", seconds / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_told_in_units_that_people_use() {
        let second = 1_000_000_000;
        let said = |seconds: i128| offset_words(seconds * second);
        assert_eq!(said(0), "equal to this host's clock");
        assert_eq!(said(1), "1.000 s ahead of this host's clock");
        assert_eq!(said(-25 * 3600), "25.00 hours behind this host's clock");
        assert_eq!(said(-600), "10.0 minutes behind this host's clock");
        assert_eq!(said(864_000), "10.0 days ahead of this host's clock");
    }

    #[test]
    fn a_summary_says_only_what_happened() {
        let mut summary =
            IrregularSummary { time_jumps: 1, threads_joined: 2, ..IrregularSummary::default() };
        assert_eq!(summary.words(), "1 time jump, 2 threads joined late");
        assert!(summary.is_fault() && !summary.is_none());
        summary.time_jumps = 0;
        assert!(!summary.is_fault() && !summary.is_none());
    }

    #[test]
    fn events_of_faults_are_the_counts_of_faults() {
        let family = "vdif".parse::<skyhaul_core::wire::Format>().unwrap().family().unwrap();
        let at = FrameTime { unix_seconds: 1_790_000_000, frame: 3, thread: 0 };
        let by = Apart { seconds: 1, frames: 0 };
        let all = [
            (Change::Jump { from: at, to: at, by }, true),
            (Change::Stopped(at), true),
            (Change::ThreadLost { thread: 0, last: None, at }, true),
            (Change::Rate { assumed: Some(1), frames: 2, at }, true),
            (Change::Station { was: 1, is: 2, at }, true),
            (Change::ThreadReturned(at), false),
            (Change::ThreadJoined(at), false),
        ];
        for (change, is_fault) in all {
            assert_eq!(FAULT_EVENTS.contains(&told(&change, family, None).0), is_fault, "{change:?}");
        }
        for kind in FAULT_EVENTS {
            let mut summary = IrregularSummary::default();
            *summary.fault(kind) += 1;
            assert!(summary.is_fault(), "{kind}");
        }
    }
}
