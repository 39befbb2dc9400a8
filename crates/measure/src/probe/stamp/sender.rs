//! The sender: test packets on schedule, and their reflections.

use super::super::udp::{SentReport, UdpPoint};
use super::summary::{Reflections, StampReport};
use super::{LEN, estimate};
use crate::probe::udp::oneway::unix_now;
use crate::probe::udp::sender::send_headed;
use skyhaul_core::wire::stamp::{Stamp, TestPacket};
use skyhaul_io::udp::UdpOptions;
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::Noted;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Packets of a measurement, at most: the times of each are remembered.
pub const MAX_STAMP_PACKETS: u64 = 1_000_000;
/// How long a read waits, and so a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time to live of test packets (RFC 8762, 4.2.1): the reflector says what is left of it.
const HOPS: u8 = 255;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub struct StampOptions {
    /// The reflector.
    pub to: SocketAddr,
    /// Size (44 octets at least), spacing and number of packets, of which [`MAX_STAMP_PACKETS`] are sent.
    pub point: UdpPoint,
    /// How long to wait for reflections after the last packet.
    pub settle: Duration,
}

impl StampOptions {
    /// Wait a second for the last reflections.
    #[must_use]
    pub fn new(to: SocketAddr, point: UdpPoint) -> Self {
        Self { to, point, settle: Duration::from_secs(1) }
    }
}

/// What both threads see.
struct Shared<'a> {
    /// The time of each packet as it stood in it; 0: not sent yet.
    times: &'a [AtomicU64],
    received: AtomicU64,
    over: AtomicBool,
}

/// Send, and learn from the reflections. It ends early if `stop` is set.
///
/// # Errors
/// The socket fails, or there is no route to the reflector; a size below 44 octets.
pub fn measure(options: &StampOptions, stop: &AtomicBool) -> io::Result<StampReport> {
    let point = UdpPoint { packets: options.point.packets.min(MAX_STAMP_PACKETS), ..options.point };
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    point.check().map_err(wrong)?;
    if (point.size as usize) < LEN {
        return Err(wrong(format!(
            "STAMP test packets have at least {LEN} bytes; got {}\nhint: choose a size from {LEN} to 65507",
            point.size
        )));
    }
    let any = match options.to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let both = Both::bind(any, &UdpOptions::default())?;
    both.connect(options.to)?;
    both.set_hops(HOPS)?;
    let noted = Noted::new(both.try_clone()?)?;
    let times: Vec<AtomicU64> = (0..point.packets).map(|_| AtomicU64::new(0)).collect();
    let shared = Shared { times: &times, received: AtomicU64::new(0), over: AtomicBool::new(false) };
    let (sent, learned) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("stamp".to_owned());
        let receiver = thread.spawn_scoped(scope, || receive(noted, &shared))?;
        let sent = send(&both, &point, &shared, stop);
        settle(&shared, options.settle, sent.as_ref().map_or(0, |sent| sent.packets), stop);
        shared.over.store(true, Ordering::Relaxed);
        let learned = receiver.join().map_err(|_| io::Error::other("the receiving thread stopped"))??;
        io::Result::Ok((sent?, learned))
    })?;
    Ok(learned.report(options.to, point, sent, stop.load(Ordering::Relaxed)))
}

fn send(both: &Both, point: &UdpPoint, shared: &Shared<'_>, stop: &AtomicBool) -> io::Result<SentReport> {
    let estimate = estimate();
    let mut head = TestPacket { error_estimate: estimate.0, ..TestPacket::default() };
    send_headed(both, point, stop, |packet, number, _| {
        head.sequence = number as u32;
        head.timestamp = Stamp::of_unix(unix_now()).0;
        shared.times[number as usize].store(head.timestamp, Ordering::Release);
        packet[..LEN].copy_from_slice(&head.write());
    })
}

/// Until all came back, or long enough.
fn settle(shared: &Shared<'_>, wait: Duration, sent: u64, stop: &AtomicBool) {
    let start = Instant::now();
    while shared.received.load(Ordering::Relaxed) < sent
        && start.elapsed() < wait
        && !stop.load(Ordering::Relaxed)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn receive(mut socket: Noted, shared: &Shared<'_>) -> io::Result<Reflections> {
    let mut learned = Reflections::new();
    while !shared.over.load(Ordering::Relaxed) {
        socket.poll(POLL_INTERVAL, &mut |_, arrival| {
            let at = arrival.time.map_or_else(unix_now, |time| time.0);
            let time = |number: u32| {
                let time = shared.times.get(number as usize)?.load(Ordering::Acquire);
                (time != 0).then_some(time)
            };
            learned.received(arrival.bytes, at, time);
        })?;
        shared.received.store(learned.count(), Ordering::Relaxed);
    }
    Ok(learned)
}
