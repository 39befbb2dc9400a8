//! What flows did, as data.

use super::bound::Verdict;
use super::flow::Direction;
use serde::{Deserialize, Serialize};
use skyhaul_io::host::stages::Stages;
use skyhaul_io::tcp::info::TcpInfo;
use std::net::SocketAddr;

/// All flows of a measurement, as one end saw them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TcpReport {
    /// Seconds that are counted, from the first flow's beginning (or the end of the omitted time) to the last one's end.
    pub seconds: f64,
    /// Bytes sent, or received, in that time.
    pub bytes: u64,
    /// Payload bits per second.
    pub bits_per_second: f64,
    /// CPU seconds of the flows' threads; with loopback, the kernel's work for the other end is in them.
    pub cpu_seconds: f64,
    /// The same per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// CPU seconds of the thread that reads `TCP_INFO`.
    pub sampler_cpu_seconds: f64,
    /// Each flow.
    pub flows: Vec<FlowReport>,
    /// What the kernel of this host counted meanwhile, by layer.
    #[serde(default)]
    pub counters: Stages,
}

impl TcpReport {
    /// Keep at most so many samples and intervals of all flows together, evenly.
    pub fn thin(&mut self, most: usize) {
        let each = (most / self.flows.len().max(1) / 2).max(2);
        for flow in &mut self.flows {
            let step = flow.trace.len().div_ceil(each).max(1);
            flow.trace = flow.trace.iter().copied().step_by(step).collect();
            // Intervals are whole: the first ones stay.
            flow.intervals.truncate(each);
        }
    }
}

/// One flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowReport {
    /// Which way.
    pub direction: Direction,
    /// This end's address.
    pub local: SocketAddr,
    /// The other's.
    pub remote: SocketAddr,
    /// Congestion control of this end.
    pub congestion: String,
    /// Largest segment in bytes.
    pub segment_bytes: u32,
    /// Send buffer that the kernel granted, in bytes.
    pub send_buffer: u64,
    /// Receive buffer that the kernel granted, in bytes.
    pub receive_buffer: u64,
    /// Seconds since the beginning at which it began.
    pub begin: f64,
    /// Seconds since the beginning at which it ended.
    pub end: f64,
    /// Bytes in the omitted time, not counted elsewhere.
    pub omitted_bytes: u64,
    /// Bytes.
    pub bytes: u64,
    /// Payload bits per second.
    pub bits_per_second: f64,
    /// CPU seconds of its thread in its own code.
    pub cpu_user_seconds: f64,
    /// CPU seconds in the kernel.
    pub cpu_system_seconds: f64,
    /// CPU seconds per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// System calls that moved data, or waited.
    pub calls: u64,
    /// Intervals.
    pub intervals: Vec<Interval>,
    /// Every sample that was kept.
    pub trace: Vec<Sample>,
    /// What the kernel counted in the time that is counted.
    pub counts: Counts,
    /// What it waited for, if it was a sender.
    pub waited: Option<Waited>,
    /// What bounded it, if it was a sender.
    pub verdict: Option<Verdict>,
    /// The error that ended it.
    pub error: Option<String>,
}

/// A reading of the kernel's state of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the beginning.
    pub at: f64,
    /// Bytes moved so far, as the application counts.
    pub bytes: u64,
    /// Congestion window in bytes.
    pub congestion_window: u64,
    /// The peer's window in bytes.
    pub peer_window: u64,
    /// Smoothed round trip in seconds.
    pub rtt: f64,
    /// Its deviation.
    pub rttvar: f64,
    /// Segments retransmitted so far.
    pub retransmits: u32,
    /// Segments sent with data so far.
    pub segments: u32,
    /// Bits per second of the last delivery that the kernel measured.
    pub delivery_bits_per_second: f64,
    /// That rate was bounded by the application.
    pub app_limited: bool,
    /// Bytes waiting to be sent for the first time.
    pub not_sent: u32,
    /// Reordering seen so far.
    pub reordered: u32,
    /// Seconds so far in which data were to be sent.
    pub busy: f64,
    /// Seconds so far in which the peer's window was full.
    pub receive_window: f64,
    /// Seconds so far in which the send buffer was too small.
    pub send_buffer: f64,
}

impl Sample {
    pub(super) fn new(at: f64, bytes: u64, info: &TcpInfo) -> Self {
        Self {
            at,
            bytes,
            congestion_window: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
            peer_window: info.snd_wnd.unwrap_or(0).into(),
            rtt: info.rtt.as_secs_f64(),
            rttvar: info.rttvar.as_secs_f64(),
            retransmits: info.total_retrans,
            segments: info.data_segs_out,
            delivery_bits_per_second: info.delivery_rate as f64 * 8.0,
            app_limited: info.app_limited,
            not_sent: info.notsent,
            reordered: info.reord_seen,
            busy: info.limited.busy.as_secs_f64(),
            receive_window: info.limited.receive_window.as_secs_f64(),
            send_buffer: info.limited.send_buffer.as_secs_f64(),
        }
    }
}

/// One interval of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Seconds since the beginning.
    pub begin: f64,
    /// Seconds since the beginning.
    pub end: f64,
    /// Bytes moved in it.
    pub bytes: u64,
    /// Segments retransmitted in it.
    pub retransmits: u32,
    /// Congestion window at its end in bytes.
    pub congestion_window: u64,
    /// The peer's window at its end in bytes.
    pub peer_window: u64,
    /// Round trip at its end in seconds.
    pub rtt: f64,
    /// Its deviation.
    pub rttvar: f64,
    /// It lies in the omitted time.
    pub omitted: bool,
}

/// What the kernel counted, and the range of what it estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Segments sent with data.
    pub segments: u32,
    /// Segments retransmitted.
    pub retransmits: u32,
    /// Segments that the peer got twice: retransmissions that were not needed.
    pub doubled: u32,
    /// Times that reordering was seen.
    pub reordered: u32,
    /// Smallest round trip in seconds; 0: not measured.
    pub rtt_least: f64,
    /// Mean of the samples in seconds.
    pub rtt_mean: f64,
    /// Largest of the samples in seconds.
    pub rtt_most: f64,
    /// Largest congestion window in bytes.
    pub congestion_window_most: u64,
    /// Mean congestion window in bytes.
    pub congestion_window_mean: u64,
    /// Largest window of the peer in bytes.
    pub peer_window_most: u64,
    /// Path MTU in bytes.
    pub path_mtu: u32,
}

/// Parts of the counted time of a sender, 0 to 1 each, together 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waited {
    /// Nothing was there to be sent: the application was slow.
    pub application: f64,
    /// The peer's window was full: its buffer is small, or its application slow.
    pub receive_window: f64,
    /// The send buffer was too small for the window.
    pub send_buffer: f64,
    /// The rest: the congestion window, or the path.
    pub path: f64,
}

/// Per 10⁹ bytes; 0 if there are none.
pub(super) fn per_gb(seconds: f64, bytes: u64) -> f64 {
    if bytes == 0 { 0.0 } else { seconds * 1e9 / bytes as f64 }
}

/// Bits per second; 0 if there was no time.
pub(super) fn bits_per_second(bytes: u64, seconds: f64) -> f64 {
    if seconds <= 0.0 { 0.0 } else { bytes as f64 * 8.0 / seconds }
}
