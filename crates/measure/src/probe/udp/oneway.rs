//! A sender and a receiver without a control connection: for filtered paths, groups and long runs.
//!
//! The receiver knows nothing of the sender but its packets, so it cannot tell packets lost at the end from packets that were
//! not sent, and compares no clocks. Nothing is sent back.

use super::point::{ReceivedReport, SentReport, UdpPoint};
use super::receiver::Meter;
use super::sender::{self, unix_now};
use skyhaul_core::wire::probe::Probe;
use skyhaul_io::address::Endpoint;
use skyhaul_io::source::Source;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for packets before looking whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Sends a point to an address, even if nothing receives there. `each` receives the number of packets sent about once a second.
///
/// # Errors
/// A system call failed; the error names the address.
pub fn send(
    to: SocketAddr,
    point: &UdpPoint,
    stop: &AtomicBool,
    each: &mut (dyn FnMut(u64) + Send),
) -> io::Result<SentReport> {
    let any = match to.ip() {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let both = Both::bind(SocketAddr::new(any, 0), &UdpOptions::default())?;
    both.connect(to)?;
    // The run says which packets belong together: a receiver that goes on sees where the next one begins.
    let (run, count, done) = ((unix_now() >> 20) as u32, AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut told = Instant::now();
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(POLL_INTERVAL);
                if told.elapsed() >= Duration::from_secs(1) {
                    told = Instant::now();
                    each(count.load(Ordering::Relaxed));
                }
            }
        });
        let sent = sender::send(&both, run, 0, point, stop, &count);
        done.store(true, Ordering::Relaxed);
        sent
    })
}

/// Receive the packets of the first sender that comes, until nothing came for `idle` behind the first packet, `longest` is over,
/// or `stop` is set. `each` receives the number of packets so far about once a second.
///
/// # Errors
/// A system call failed; the error names the address.
pub fn receive(
    at: &Endpoint,
    join: bool,
    idle: Duration,
    longest: Option<Duration>,
    samples: usize,
    stop: &AtomicBool,
    each: &mut dyn FnMut(u64),
) -> io::Result<Option<ReceivedReport>> {
    let options = match join {
        true => UdpOptions { tier: Tier::Stage, ..UdpOptions::default() },
        false => UdpOptions { tier: Tier::Plain, gather: Duration::ZERO, ..UdpOptions::default() },
    };
    let mut source = UdpSource::open(at, &options)?;
    let (mut meter, mut sender): (Option<Meter>, Option<SocketAddr>) = (None, None);
    let (begun, mut heard, mut told) = (Instant::now(), Instant::now(), Instant::now());
    while !stop.load(Ordering::Relaxed) && longest.is_none_or(|longest| begun.elapsed() < longest) {
        let mut came = false;
        source.poll(POLL_INTERVAL, &mut |train| {
            let now = unix_now();
            let arrived = train.time.map_or(now, |time| time.0);
            let mut first = true;
            for packet in train.packets() {
                let Ok(head) = Probe::parse(packet) else { continue };
                let from = *sender.get_or_insert(*train.sender);
                let meter =
                    meter.get_or_insert_with(|| Meter::new(head.run, u32::from(head.octets), samples));
                if from != *train.sender || head.run != meter.run {
                    continue;
                }
                came = true;
                if std::mem::take(&mut first) {
                    meter.train(&train, &head, now);
                }
                meter.packet(&head, packet.len(), arrived);
            }
        })?;
        if came {
            heard = Instant::now();
        } else if meter.is_some() && heard.elapsed() > idle {
            break;
        }
        if told.elapsed() > Duration::from_secs(1) {
            told = Instant::now();
            each(meter.as_ref().map_or(0, Meter::unique));
        }
    }
    Ok(meter.map(Meter::finish_at_highest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_and_a_receiver_need_no_more_than_packets() {
        let at = Both::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap().local();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let idle = Duration::from_secs(2);
                receive(&Endpoint::udp(at), false, idle, None, 64, &stop, &mut |_| {}).unwrap().unwrap()
            });
            // Its socket must be there before the first packet.
            std::thread::sleep(Duration::from_millis(500));
            let point =
                UdpPoint { packets: 300, ..UdpPoint::even(400, 100_000_000, Duration::from_secs(20)) };
            let sent = send(at, &point, &stop, &mut |_| {}).unwrap();
            let got = receiver.join().unwrap();
            assert_eq!((sent.packets, got.packets, got.lost), (300, 300, 0));
            assert_eq!(got.bytes, 300 * 400);
        });
        let nothing =
            receive(&Endpoint::udp(at), false, POLL_INTERVAL, Some(POLL_INTERVAL), 64, &stop, &mut |_| {});
        assert_eq!(nothing.unwrap(), None);
    }
}
