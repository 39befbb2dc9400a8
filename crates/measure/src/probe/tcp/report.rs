//! What flows did, as data.

use super::flow::FlowDirection;
use super::reader::ReaderReport;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::{Hint, lines};
use skyhaul_core::predict::{MAX_WINDOW, Path, cubic_rate, mathis_rate, window_rate};
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
    /// Whether nothing was measured.
    pub(super) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

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
    pub direction: FlowDirection,
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
    /// Seconds that its thread was ready to run and waited for a CPU.
    #[serde(default)]
    pub cpu_wait_seconds: f64,
    /// CPU seconds per 10⁹ bytes.
    pub cpu_seconds_per_gb: f64,
    /// System calls that moved data, or waited.
    pub calls: u64,
    /// Intervals.
    pub intervals: Vec<FlowInterval>,
    /// Every sample that was kept.
    pub trace: Vec<TcpSample>,
    /// What the kernel counted in the time that is counted.
    pub counts: TcpCounts,
    /// What it waited for, if it was a sender.
    pub waited: Option<SenderWaits>,
    /// What bounded it, if it was a sender.
    pub verdict: Option<FlowVerdict>,
    /// What its thread did, if it was a receiver that reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<ReaderReport>,
    /// The error that ended it.
    pub error: Option<String>,
}

/// A reading of the kernel's state of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TcpSample {
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

impl TcpSample {
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
pub struct FlowInterval {
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
pub struct TcpCounts {
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
    /// Means of the samples of each fifth of the time, the smallest and the largest, in seconds: a flow fills queues of its own, and its
    /// mean differs from run to run as it does within one. `None` of fewer than four samples a fifth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_mean_range: Option<[f64; 2]>,
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

/// Parts of the counted time of a sender, 0 to 1 each; `application`, `receive_window`, `send_buffer` and `path` are together 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderWaits {
    /// Nothing was there to be sent: the application was slow.
    pub application: f64,
    /// The peer's window was full: its buffer is small, or its application slow.
    pub receive_window: f64,
    /// Of `receive_window`: the window was far below the largest that was announced before, because the receiving application did
    /// not read. It is no fifth part.
    #[serde(default)]
    pub reader_away: f64,
    /// Of `receive_window`: the window was growing, and became more than twice as large. It is no fifth part either.
    #[serde(default)]
    pub window_outgrown: f64,
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

/// What bounded a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TcpBottleneck {
    /// The sending application had nothing to send.
    Application,
    /// The sending thread used its CPU up.
    Cpu,
    /// The receiver's window is smaller than what the path holds.
    ReceiveWindow,
    /// The receiving application reads too slowly.
    SlowReceiver,
    /// The receiving application stops reading for a while, again and again.
    PausingReceiver,
    /// The send buffer is smaller than what the path holds.
    SendBuffer,
    /// Losses that do not depend on how much is under way.
    Loss,
    /// Losses whenever the same amount is under way.
    ShallowBuffer,
    /// Losses at the same rate each time, without a queue.
    Policer,
    /// Losses of many segments at a time, whatever the rate.
    BurstLoss,
    /// Segments that arrive out of order are sent again, or slow the sender down.
    Spraying,
    /// It ended before the window was open.
    SlowStart,
    /// A limit of the rate that was set on this end.
    Pacing,
    /// The path carried what it can.
    Path,
    /// Too little was seen.
    Unknown,
}

/// What bounded a flow, and what would change it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowVerdict {
    /// The cause.
    pub bound: TcpBottleneck,
    /// Its part of the time, 0 to 1.
    pub share: f64,
    /// In a sentence.
    pub text: String,
    /// What to do.
    pub hint: Option<String>,
}

impl FlowVerdict {
    /// The sentence and the hint, a line each behind `indent`.
    #[must_use]
    pub fn lines(&self, indent: &str) -> String {
        let hint = self.hint.iter().map(|hint| Hint(hint).to_string()).collect::<String>();
        lines(indent, &format!("{}{hint}", self.text))
    }
}

/// Predictions for a path with the round trip, the segments and the losses of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TcpPrediction {
    /// The rate that is asked about: the wanted one, or the measured one. Bits per second.
    pub bits_per_second: f64,
    /// Bytes under way at that rate.
    pub in_flight: f64,
    /// The most that the largest window of TCP (1 073 725 440 bytes) lets through, in bits per second.
    pub largest_window: f64,
    /// The most that the buffers that were granted let through, in bits per second.
    pub granted_window: f64,
    /// Flows that fill that rate with the largest window.
    pub flows_needed: f64,
    /// Seconds of slow start.
    pub slow_start_seconds: f64,
    /// Bytes sent until its end.
    pub slow_start_bytes: f64,
    /// Bits per second of Reno at the losses that were seen (Mathis); none: nothing was lost.
    pub reno: Option<f64>,
    /// The same of CUBIC (RFC 9438).
    pub cubic: Option<f64>,
    /// Seconds until Reno has forgotten one loss.
    pub reno_recovery_seconds: f64,
    /// The same of CUBIC.
    pub cubic_recovery_seconds: f64,
    /// Part of the segments that may be lost with Reno.
    pub reno_loss_budget: f64,
    /// The same with CUBIC.
    pub cubic_loss_budget: f64,
}

impl TcpPrediction {
    /// For a flow that sent; `wanted` is the rate that it is to reach, or the one that was measured is taken. `None` if no round
    /// trip was measured.
    #[must_use]
    pub fn of(flow: &FlowReport, wanted: Option<f64>) -> Option<Self> {
        let rtt = flow.counts.rtt_least;
        let rate = wanted.unwrap_or(flow.bits_per_second);
        if flow.direction != FlowDirection::Send || rtt <= 0.0 || rate <= 0.0 || flow.segment_bytes == 0 {
            return None;
        }
        let mss = f64::from(flow.segment_bytes);
        let path = Path { rate, rtt, mss };
        let lost = flow.counts.retransmits.saturating_sub(flow.counts.doubled);
        let loss = f64::from(lost) / f64::from(flow.counts.segments.max(1));
        let slow_start = path.slow_start();
        let window = (flow.send_buffer as f64).min(flow.counts.peer_window_most as f64).min(MAX_WINDOW);
        Some(Self {
            bits_per_second: rate,
            in_flight: path.bdp(),
            largest_window: window_rate(MAX_WINDOW, rtt),
            granted_window: window_rate(window, rtt),
            flows_needed: path.flows_needed(MAX_WINDOW),
            slow_start_seconds: slow_start.seconds,
            slow_start_bytes: slow_start.bytes,
            reno: (loss > 0.0).then(|| mathis_rate(mss, rtt, loss)),
            cubic: (loss > 0.0).then(|| cubic_rate(mss, rtt, loss)),
            reno_recovery_seconds: path.reno_recovery(),
            cubic_recovery_seconds: path.cubic_recovery(),
            reno_loss_budget: path.reno_budget().loss,
            cubic_loss_budget: path.cubic_budget().loss,
        })
    }
}
