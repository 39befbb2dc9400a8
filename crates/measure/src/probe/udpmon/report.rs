//! What a test with a responder showed.

use super::super::udp::{SentReport, UdpPoint, overhead};
use serde::{Deserialize, Serialize};
use skyhaul::report::{Distribution, VERSION};
use skyhaul_core::hint::Hint;
use skyhaul_core::measure::Histogram;
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::udpmon::structs::Bins;
use skyhaul_core::wire::udpmon::{Command, Message, VERSION as PROTOCOL_VERSION};
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// What a test showed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestReport {
    /// [`VERSION`](skyhaul::report::VERSION).
    pub version: u32,
    /// The responder.
    pub to: SocketAddr,
    /// Whether the responder was built for integers that begin with the most significant octet.
    pub big_endian: bool,
    /// What was asked for.
    pub point: UdpPoint,
    /// What was sent.
    pub sent: SentReport,
    /// Packets that the responder received. udpmon's counts those that came twice.
    pub received: u64,
    /// Packets that did not arrive: sent less received.
    pub lost: u64,
    /// Losses that the responder counted from numbers. udpmon's counts late packets, too.
    pub lost_by_number: u64,
    /// Packets out of order, as the responder counts them. udpmon's counts those that came twice, too.
    pub disordered: u64,
    /// Datagrams that the responder's whole host failed to deliver to programs meanwhile (UDP InErrors).
    pub host_in_errors: Option<u64>,
    /// Losses that these do not explain.
    pub lost_in_network: u64,
    /// Seconds from the first packet to the last, at the responder.
    pub seconds: f64,
    /// Bits per second of payload sent.
    pub sent_bits_per_second: f64,
    /// Bits per second of payload received.
    pub user_bits_per_second: f64,
    /// The same on the wire, with all that is around each payload.
    pub wire_bits_per_second: f64,
    /// Nanoseconds between arrivals, by the responder's histogram: lower ends of its bins.
    pub gaps_ns: Option<Distribution>,
    /// Packets below and above the range of that histogram.
    pub outside: (u64, u64),
    /// The test was interrupted.
    pub interrupted: bool,
}

/// What a responder told of a test.
#[derive(Clone, Debug)]
pub(super) struct ResponderResults {
    pub(super) stats: Message,
    pub(super) bins: Option<Bins>,
    /// UDP InErrors of its host, before and after.
    pub(super) errors: Option<(u64, u64)>,
}

impl RequestReport {
    pub(super) fn new(
        to: SocketAddr,
        point: UdpPoint,
        sent: SentReport,
        told: &ResponderResults,
        interrupted: bool,
    ) -> Self {
        let stats = &told.stats;
        let (went, received) =
            (sent.packets - sent.refused.min(sent.packets), u64::from(stats.head.received));
        let lost = went.saturating_sub(received);
        let host_in_errors = told.errors.map(|(before, after)| after.saturating_sub(before));
        let seconds = stats.tail.first_to_last as f64 / 1e7;
        let octets = f64::from(point.size);
        let per_second =
            |packets: u64, seconds: f64| if seconds > 0.0 { packets as f64 / seconds } else { 0.0 };
        // Between n packets are n − 1 gaps.
        let arrived = per_second(received.saturating_sub(1), seconds);
        let around = overhead(to.is_ipv6()) as f64;
        Self {
            version: VERSION,
            to,
            big_endian: stats.order == Order::Big,
            point,
            received,
            lost,
            lost_by_number: stats.tail.lost.into(),
            disordered: stats.tail.disordered.into(),
            host_in_errors,
            lost_in_network: lost.saturating_sub(host_in_errors.unwrap_or(0)),
            seconds,
            sent_bits_per_second: per_second(went, sent.seconds) * octets * 8.0,
            user_bits_per_second: arrived * octets * 8.0,
            wire_bits_per_second: arrived * (octets + around) * 8.0,
            gaps_ns: told.bins.as_ref().map(gaps),
            outside: told
                .bins
                .as_ref()
                .map_or((0, 0), |bins| (bins.counts[0], bins.counts[bins.counts.len() - 1])),
            interrupted,
            sent,
        }
    }
}

/// Bins are of 0.1 µs.
fn gaps(bins: &Bins) -> Distribution {
    let mut histogram = Histogram::default();
    let used = bins.counts.iter().enumerate().skip(1).take(bins.used as usize);
    for (n, &count) in used.filter(|bin| *bin.1 > 0) {
        let low = i64::from(bins.low) + (n as i64 - 1) * i64::from(bins.width);
        histogram.record_many(u64::try_from(low.saturating_mul(100)).unwrap_or(0), count);
    }
    Distribution::from(&histogram)
}

/// Why there is no report.
#[derive(Debug, Error)]
pub enum UdpmonError {
    /// A system error; its text names the operation and the address.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Nothing came back.
    #[error(
        "{0} does not answer as a udpmon responder{hint}",
        hint = Hint(format_args!(
            "start `udpmon_resp` or `skyhaul probe serve --udpmon` there, and let UDP port {} through",
            .0.port()
        ))
    )]
    Silent(SocketAddr),
    /// It speaks another version.
    #[error(
        "the responder speaks version {0} of udpmon's protocol, not {PROTOCOL_VERSION}{hint}", hint = Hint("install udpmon 1.5, or skyhaul, there"))]
    OtherVersion(u32),
    /// It has another test.
    #[error(
        "the responder is busy with another test{}",
        Hint("udpmon_resp runs one test at a time and holds it for 60 s; try again later")
    )]
    Busy,
    /// An answer is none.
    #[error("invalid answer to {0:?}{hint}", hint = Hint("check that a udpmon responder listens there"))]
    Broken(Command),
    /// It was interrupted before there was anything to report.
    #[error("interrupted before the test began")]
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::udpmon::Command;
    use std::time::Duration;

    #[test]
    fn figures_are_of_what_the_responder_counted() {
        let mut stats = Message::new(Order::Little, Command::GetStats, 0);
        (stats.head.received, stats.tail.lost, stats.tail.first_to_last) = (91, 10, 90_000);
        let mut bins = Bins::new(0, 0, 10, 150);
        (0..90).for_each(|_| bins.record(1000));
        bins.record(-1);
        let told = ResponderResults { stats, bins: Some(bins), errors: Some((3, 7)) };
        let point = UdpPoint::even(1472, 100_000_000, Duration::from_millis(10));
        let sent = SentReport { packets: 101, refused: 1, seconds: 0.01, ..SentReport::default() };
        let report = RequestReport::new(([192, 0, 2, 9], 1).into(), point, sent, &told, false);
        assert_eq!((report.received, report.lost, report.lost_in_network), (91, 9, 5));
        assert!((report.user_bits_per_second - 1472.0 * 8.0 * 10_000.0).abs() < 1.0, "{report:?}");
        assert!((report.wire_bits_per_second - 1538.0 * 8.0 * 10_000.0).abs() < 1.0, "{report:?}");
        assert!((report.sent_bits_per_second - 1472.0 * 8.0 * 10_000.0).abs() < 1.0, "{report:?}");
        let gaps = report.gaps_ns.unwrap();
        assert_eq!((gaps.count, report.outside), (90, (1, 0)));
        assert!(gaps.p50.abs_diff(100_000) < 1000, "{gaps:?}");
    }

    #[test]
    fn a_responder_that_lies_spoils_figures_and_nothing_else() {
        let mut stats = Message::new(Order::Big, Command::GetStats, 0);
        (stats.head.received, stats.tail.lost, stats.tail.first_to_last) = (u32::MAX, u32::MAX, u64::MAX);
        let mut bins = Bins::new(0, i32::MAX, i32::MAX, 998);
        bins.counts.fill(u64::MAX);
        let told = ResponderResults { stats, bins: Some(bins), errors: Some((u64::MAX, 0)) };
        let point = UdpPoint::even(64, 0, Duration::from_millis(1));
        let report =
            RequestReport::new(([192, 0, 2, 9], 1).into(), point, SentReport::default(), &told, true);
        assert_eq!((report.lost, report.lost_in_network, report.big_endian), (0, 0, true));
    }
}
