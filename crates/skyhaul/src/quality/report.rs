//! What was found, as data.

use serde::{Deserialize, Serialize};

/// The quality of what a recorder receives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QualityReport {
    /// Each thread of each stream that was looked at.
    pub threads: Vec<ThreadQuality>,
    /// Sets of frames that were to be looked at, for which there was no time.
    pub left_out: u64,
    /// CPU time of the analysis, in seconds.
    pub cpu_seconds: f64,
    /// A bug ended the analysis; the recording does not depend on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_failed: bool,
}

impl QualityReport {
    /// Findings that hold, with the number of the stream and the thread.
    pub fn current(&self) -> impl Iterator<Item = (&ThreadQuality, &FindingReport)> {
        let holds = |finding: &&FindingReport| finding.ended_at.is_none();
        self.threads.iter().flat_map(move |thread| {
            thread.findings.iter().filter(holds).map(move |finding| (thread, finding))
        })
    }
}

/// The quality of one thread of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadQuality {
    /// Number of the stream.
    pub stream: u32,
    /// Address of its sender.
    pub sender: String,
    /// The thread.
    pub thread: u16,
    /// Its station.
    pub station: Option<String>,
    /// Frames that were looked at, since the recording began.
    pub frames: u64,
    /// Frames of these with the test pattern as payload: their samples are not judged.
    #[serde(default)]
    pub pattern_frames: u64,
    /// Bits of an elementary sample by the headers, if they state that.
    pub bits: Option<u32>,
    /// Samples have a real and an imaginary part.
    pub complex: bool,
    /// Complete samples per second, if the frame rate is known.
    pub sample_rate: Option<u64>,
    /// Data time minus UTC at the arrival of the last frames, in seconds; 0 if within what is unknown.
    pub clock_offset_seconds: Option<f64>,
    /// The share of 32-bit words of the payload in which each bit is set, the lowest first.
    pub bits_set: Vec<f64>,
    /// Its channels, the first 64; empty if the headers do not state how samples are written.
    pub channels: Vec<ChannelQuality>,
    /// What was wrong, also if it is over; the first 64 for each thread.
    pub findings: Vec<FindingReport>,
}

/// The quality of one channel in the last seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChannelQuality {
    /// Number of the channel.
    pub channel: u32,
    /// Share of each state, the lowest level first; of more than 4 bits, sixteen groups of states.
    pub states: Vec<f64>,
    /// Mean of the samples, of complex samples over both components.
    pub mean: f64,
    /// Root of the mean square of a complete sample.
    pub rms: f64,
    /// Power in up to 128 equal parts of the band, the lowest frequency first, as a part of the mean; empty if unknown.
    pub spectrum: Vec<f64>,
    /// Autocorrelation by lag in complete samples, 1 at lag 0, to lag 31.
    pub autocorrelation: Vec<f64>,
    /// Phase-cal tones: spacing and offset in Hz, excess of power, and that in standard deviations of the noise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_cal: Option<(f64, f64, f64, f64)>,
}

/// A finding from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindingReport {
    /// What it is: a name of `QualityFinding::NAMES`.
    pub finding: String,
    /// The channel, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<u32>,
    /// What was measured, in words.
    pub text: String,
    /// Whether it is an alarm; otherwise only a note.
    pub is_alarm: bool,
    /// When it was first seen.
    pub begun_at: String,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}
