//! The streams of a test while they run, whichever protocol they speak, and their results.

use super::control::Iperf3Error;
use super::params::Iperf3Params;
use super::params::{Iperf3Results, StreamResult, stream_id};
use super::report::{StreamInterval, StreamReport, StreamTotals};
use super::udp::{Stream, UdpRun, UdpStream};
use crate::probe::TestDirection;
use crate::probe::tcp::{FlowDirection, FlowReport, TcpFlow, TcpRun, TcpRunOptions, TestAmount};
use skyhaul_io::tcp::bulk::Put;
use skyhaul_io::tcp::setup::Setup;
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Receivers that know of the end continue until nothing arrived for this long.
const QUIET: Duration = Duration::from_millis(40);

/// Sockets in the order in which they were connected.
#[derive(Debug)]
pub(super) enum Sockets {
    Tcp(Vec<TcpStream>),
    Udp(Vec<UdpSocket>),
}

impl Sockets {
    pub(super) fn new(udp: bool) -> Self {
        if udp { Self::Udp(Vec::new()) } else { Self::Tcp(Vec::new()) }
    }
}

/// Streams that run.
pub(super) enum RunningStreams {
    Tcp(TcpRun),
    Udp(UdpRun),
}

/// What came of them.
pub(super) struct FinishedStreams {
    pub(super) results: Iperf3Results,
    pub(super) streams: Vec<StreamReport>,
    pub(super) seconds: f64,
    /// An error of a stream.
    pub(super) error: Option<String>,
}

/// What is set on the connections of a test.
pub(super) fn setup(params: &Iperf3Params) -> Setup {
    Setup {
        window: params.window,
        congestion: params.congestion.clone(),
        largest_segment: params.segment,
        no_delay: params.no_delay,
        tos: params.tos,
        pacing: params.pacing,
        source: None,
    }
}

/// Whether this end sends on the `n`th stream: of both directions, the client's own come first.
fn sends(params: &Iperf3Params, client: bool, n: usize) -> bool {
    match params.way {
        TestDirection::Both => (n < params.streams) == client,
        way => way.sends(client),
    }
}

impl RunningStreams {
    /// Starts. Only a client ends when its time is over; a server is stopped.
    pub(super) fn start(
        sockets: Sockets,
        params: &Iperf3Params,
        client: bool,
        interval: Duration,
    ) -> Result<Self, Iperf3Error> {
        let direction = |n| {
            if sends(params, client, n) { FlowDirection::Send } else { FlowDirection::Receive }
        };
        let work = match sockets {
            Sockets::Tcp(streams) => {
                let flows =
                    streams.into_iter().enumerate().map(|(n, stream)| TcpFlow::new(stream, direction(n)));
                TcpRun::start(flows.collect(), options(params, client, interval)).map(Self::Tcp)
            }
            Sockets::Udp(sockets) => {
                let streams = sockets
                    .into_iter()
                    .enumerate()
                    .map(|(n, socket)| Stream { socket, sends: sends(params, client, n) });
                UdpRun::start(streams.collect(), params, client, interval).map(Self::Udp)
            }
        };
        work.map_err(Iperf3Error::Stream)
    }

    /// To be called several times in an interval.
    pub(super) fn tick(&mut self) {
        if let Self::Udp(run) = self {
            run.tick();
        }
    }

    pub(super) fn moved(&self) -> (u64, u64) {
        match self {
            Self::Tcp(run) => run.moved(),
            Self::Udp(run) => run.moved(),
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        match self {
            Self::Tcp(run) => run.elapsed(),
            Self::Udp(run) => run.elapsed(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Tcp(run) => run.is_done(),
            Self::Udp(run) => run.is_done(),
        }
    }

    pub(super) fn stop(&self) {
        match self {
            Self::Tcp(run) => run.stop(),
            Self::Udp(run) => run.stop(),
        }
    }

    /// Wait until the other end has everything that was sent, as far as that can be known, at most for `patience`.
    pub(super) fn wait_acknowledged(&self, patience: Duration) {
        if let Self::Tcp(run) = self {
            run.wait_acknowledged(patience);
        }
    }

    /// Wait for the end of all streams.
    pub(super) fn finish(self, params: &Iperf3Params) -> FinishedStreams {
        match self {
            Self::Tcp(run) => {
                let report = run.finish();
                done(report.seconds, report.flows.into_iter().enumerate().map(|(n, flow)| tcp(n, flow)))
            }
            Self::Udp(run) => {
                let streams = run.finish();
                let seconds = streams.iter().map(|stream| stream.seconds).fold(0.0, f64::max);
                let omit = params.omit.as_secs_f64();
                done(seconds, streams.into_iter().enumerate().map(|(n, stream)| udp(n, stream, omit)))
            }
        }
    }
}

fn options(params: &Iperf3Params, client: bool, interval: Duration) -> TcpRunOptions {
    let amount = match (params.bytes, params.blocks) {
        (0, 0) if client && !params.time.is_zero() => TestAmount::Time(params.time),
        (0, 0) => TestAmount::Open,
        (0, blocks) => TestAmount::Blocks(blocks),
        (bytes, _) => TestAmount::Bytes(bytes),
    };
    TcpRunOptions {
        block: params.block,
        put: if params.zero_copy { Put::File } else { Put::Copy },
        amount,
        omit: params.omit,
        rate: params.rate,
        interval,
        drain: QUIET,
        ..TcpRunOptions::default()
    }
}

/// A stream's result, its report, and the CPU seconds of its thread: user, system.
type One = (StreamResult, StreamReport, (f64, f64));

fn done(seconds: f64, each: impl Iterator<Item = One>) -> FinishedStreams {
    let (mut results, mut streams, mut cpu) = (Iperf3Results::default(), Vec::new(), (0.0, 0.0));
    for (result, report, (user, system)) in each {
        cpu = (cpu.0 + user, cpu.1 + system);
        results.streams.push(result);
        if report.sends {
            results.has_retransmits = Some(result.retransmits.is_some());
        }
        results.congestion = results.congestion.or(report.congestion.clone());
        streams.push(report);
    }
    let percent = 100.0 / seconds.max(1e-9);
    results.cpu = [(cpu.0 + cpu.1) * percent, cpu.0 * percent, cpu.1 * percent];
    let error = streams.iter().find_map(|stream| stream.error.clone());
    FinishedStreams { results, streams, seconds, error }
}

fn tcp(n: usize, flow: FlowReport) -> One {
    let sends = flow.direction == FlowDirection::Send;
    let result = StreamResult {
        id: stream_id(n),
        bytes: flow.bytes,
        retransmits: sends.then_some(flow.counts.retransmits.into()),
        seconds: if flow.bits_per_second > 0.0 {
            flow.bytes as f64 * 8.0 / flow.bits_per_second
        } else {
            flow.end
        },
        ..StreamResult::default()
    };
    let spans = flow.intervals.iter().map(|i| StreamInterval {
        begin: i.begin,
        end: i.end,
        bytes: i.bytes,
        omitted: i.omitted,
        retransmits: i.retransmits,
        congestion_window: i.congestion_window,
        peer_window: i.peer_window,
        rtt: i.rtt,
        rttvar: i.rttvar,
        ..StreamInterval::default()
    });
    let report = StreamReport {
        id: result.id,
        sends,
        local: flow.local,
        remote: flow.remote,
        here: StreamTotals::of(&result),
        there: None,
        intervals: spans.collect(),
        counts: Some(flow.counts),
        waited: flow.waited,
        verdict: flow.verdict,
        congestion: Some(flow.congestion).filter(|name| !name.is_empty()),
        segment_bytes: flow.segment_bytes,
        buffers: (flow.send_buffer, flow.receive_buffer),
        error: flow.error,
    };
    (result, report, (flow.cpu_user_seconds, flow.cpu_system_seconds))
}

fn udp(n: usize, stream: UdpStream, omit: f64) -> One {
    let UdpStream { sends, all, omitted, .. } = stream;
    let result = StreamResult {
        id: stream_id(n),
        bytes: all.bytes - omitted.bytes,
        retransmits: None,
        jitter: all.jitter,
        errors: all.lost,
        omitted_errors: omitted.lost,
        packets: all.packets,
        omitted_packets: omitted.packets,
        seconds: stream.seconds,
    };
    let span = |pair: &[(f64, super::datagram::Metered)]| {
        let ((begin, from), (end, to)) = (pair[0], pair[1]);
        StreamInterval {
            begin,
            end,
            bytes: to.bytes - from.bytes,
            omitted: (begin + end) / 2.0 < omit,
            packets: to.packets - from.packets,
            // A loss may be taken back when the datagram comes late.
            lost: to.lost.saturating_sub(from.lost),
            jitter: to.jitter,
            ..StreamInterval::default()
        }
    };
    let report = StreamReport {
        id: result.id,
        sends,
        local: stream.local,
        remote: stream.remote,
        here: StreamTotals {
            late: all.late - omitted.late,
            doubled: all.doubled - omitted.doubled,
            ..StreamTotals::of(&result)
        },
        there: None,
        intervals: stream.readings.windows(2).map(span).filter(|span| span.end > span.begin).collect(),
        counts: None,
        waited: None,
        verdict: None,
        congestion: None,
        segment_bytes: 0,
        buffers: (0, 0),
        error: stream.error,
    };
    (result, report, (stream.usage.user.as_secs_f64(), stream.usage.system.as_secs_f64()))
}
