//! Two ends that measure points: real ones, and in tests those of a simulated path.

use super::super::bottleneck::{Bottleneck, bottleneck};
use super::super::client::UdpClient;
use super::super::plan::{Direction, Point};
use super::super::receiving::Exchange;
use super::super::report::PointReport;
use skyhaul::peer::PeerError;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a campaign needs of the two ends.
pub(in crate::probe::udp) trait Ends {
    /// Measure a point; once `stop` is set, it ends early.
    fn point(
        &mut self,
        point: &Point,
        direction: Direction,
        stop: &AtomicBool,
    ) -> Result<PointReport, PeerError>;
    /// Send nothing for a time.
    fn rest(&mut self, time: Duration);
    /// Compare clocks while nothing else is sent.
    fn exchange_times(&mut self);
    /// All exchanges of times so far.
    fn exchanges(&self) -> &[Exchange];
    /// Pairs of ports.
    fn flows(&self) -> u16;
    /// Whether the path is one of IPv6.
    fn is_ipv6(&self) -> bool;
    /// Whether both ends have one set of counters.
    fn is_one_host(&self) -> bool;
    /// Octets of the longest datagram that both ends take for one that is not cut.
    fn longest(&self) -> u32;
}

impl Ends for UdpClient {
    fn point(
        &mut self,
        point: &Point,
        direction: Direction,
        stop: &AtomicBool,
    ) -> Result<PointReport, PeerError> {
        UdpClient::point(self, point, direction, stop)
    }

    fn rest(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn exchange_times(&mut self) {
        UdpClient::exchange_times(self);
    }

    fn exchanges(&self) -> &[Exchange] {
        UdpClient::exchanges(self)
    }

    fn flows(&self) -> u16 {
        UdpClient::flows(self)
    }

    fn is_ipv6(&self) -> bool {
        UdpClient::is_ipv6(self)
    }

    fn is_one_host(&self) -> bool {
        UdpClient::is_one_host(self)
    }

    fn longest(&self) -> u32 {
        let longest = self.here.largest_datagram.min(self.there.largest_datagram);
        u32::try_from(longest).unwrap_or(super::super::plan::LONGEST)
    }
}

/// What limited the flow of a point, if anything did.
pub(in crate::probe::udp) fn limited(report: &PointReport, ipv6: bool) -> Option<Bottleneck> {
    let (sender, receiver) = match report.direction.forward() {
        true => (&report.client, &report.server),
        false => (&report.server, &report.client),
    };
    let (sent, received) = sender.sent.first().zip(receiver.received.first())?;
    bottleneck(&report.point, ipv6, sent, received)
}
