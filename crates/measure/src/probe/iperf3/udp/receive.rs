//! Datagrams of one stream, in trains, and what their numbers say.

use super::{LONGEST_DRAIN, QUIET, Shared, State};
use crate::probe::iperf3::datagram::Meter;
use skyhaul_core::placement::Nanos;
use skyhaul_io::source::Source as _;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long one look waits.
const WAIT: Duration = Duration::from_millis(10);

impl Shared {
    /// Receive until it is over, and then until nothing is under way any more. Its time ends with the last datagram, or when
    /// it was over, if no number of bytes was to end it.
    pub(super) fn receive(&self, state: &State, socket: UdpSocket) -> io::Result<Duration> {
        let mut source = UdpSource::from_fd(OwnedFd::from(socket), &UdpOptions::default())?;
        let mut meter = Meter::new(self.params.wide);
        let mut over: Option<Instant> = None;
        let (mut quiet, mut last) = (Instant::now(), self.begin);
        loop {
            let n = source.poll(WAIT, &mut |train| {
                let at = train.time.unwrap_or_else(now);
                train.packets().for_each(|datagram| meter.arrived(datagram, at));
            })?;
            if n > 0 {
                state.publish(meter.counts());
                quiet = Instant::now();
                last = quiet;
            }
            if over.is_none() && self.is_over() {
                over = Some(Instant::now());
                quiet = Instant::now();
            }
            if over.is_some_and(|over| quiet.elapsed() >= QUIET || over.elapsed() >= LONGEST_DRAIN) {
                let over = over.filter(|_| self.left.is_none());
                return Ok(over.map_or(last, |over| over.max(last)) - self.begin);
            }
        }
    }
}

fn now() -> Nanos {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}
