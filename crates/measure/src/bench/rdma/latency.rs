//! From a Write of 64 bytes until a polling reader sees them.
//!
//! Each of the eight words of a message is the time at which it was sent, so that one which is half there is not taken for whole. The next
//! is sent when the last was seen, or given up.

use super::options::{End, LATENCY_MESSAGE_BYTES, RdmaBenchOptions};
use super::remote::{placed_by, region, serving, unplaced};
use super::report::{Ran, RdmaBenchRun, WriteLatency, metered};
use super::writer::HEAD_BYTES;
use skyhaul::rdma::{ClientWrite, PlacementTier, RdmaClient, RdmaClientOptions, RdmaService};
use skyhaul_core::placement::rule::BarePlacement;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::baseline::BarePlacer;
use skyhaul_io::memory::remote::RemoteMemory;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const MESSAGE_BYTES: usize = LATENCY_MESSAGE_BYTES;
const WORDS: usize = MESSAGE_BYTES / 8;
/// A message that was not seen by then is lost.
const GIVE_UP: Duration = Duration::from_millis(200);
/// A run without a message that was seen ends then.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between one message that was seen and the next: the receiving end has gone to sleep, if it does.
const GAP: Duration = Duration::from_micros(100);

/// The memory.
const PAGE: u64 = 4096;

type Message = [u8; MESSAGE_BYTES];

fn message(nanos: u64) -> Message {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&nanos.to_ne_bytes()));
    bytes
}

/// The time in a message that is whole; `None`: it is not, or is none.
fn time_of(words: [u64; WORDS]) -> Option<u64> {
    (words[0] != 0 && words.iter().all(|word| *word == words[0])).then_some(words[0])
}

/// One message after the other, each when the last was seen or given up. Returns how many were sent, and given up.
fn write_in_turn(
    options: &RdmaBenchOptions,
    now: &dyn Fn() -> u64,
    seen: &AtomicU64,
    send: &mut dyn FnMut(&Message) -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let (began, is_seen) = (Instant::now(), || seen.load(Ordering::Acquire) > 0);
    let is_wanted = || began.elapsed() < options.time || !is_seen() && began.elapsed() < PATIENCE;
    let (mut sent, mut lost) = (0, 0);
    while is_wanted() && !options.stop.is_set() {
        let time = now();
        send(&message(time))?;
        sent += 1;
        let asked = Instant::now();
        while seen.load(Ordering::Acquire) != time && asked.elapsed() < GIVE_UP {
            std::thread::sleep(GAP);
        }
        lost += u64::from(seen.load(Ordering::Acquire) != time);
        std::thread::sleep(GAP);
    }
    Ok((sent, lost))
}

/// Send until the time is over and a message was seen; `look` returns the time in the newest message, if there is one.
///
/// The time counts from when both ends run: on a busy host a thread may wait for its CPU as long as a short run takes, and a run without
/// a message would have no result. It ends without one after [`PATIENCE`].
fn exchange(
    options: &RdmaBenchOptions,
    mut send: impl FnMut(&Message) -> io::Result<()> + Send,
    mut look: impl FnMut() -> io::Result<Option<u64>> + Send,
    how: String,
) -> io::Result<Ran> {
    let (epoch, seen, done) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
    let (ready, both_run) = mpsc::channel();
    let now = || u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1);
    let (sent, looked) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let ready = ready;
            options.enter(End::Receiver)?;
            let _ = ready.send(());
            drop(ready);
            metered(|| {
                let (mut last, mut nanos) = (0, Vec::new());
                while !done.load(Ordering::Acquire) {
                    match look()? {
                        Some(time) if time != last => {
                            nanos.push(now().saturating_sub(time));
                            last = time;
                            seen.store(time, Ordering::Release);
                        }
                        _ => std::hint::spin_loop(),
                    }
                }
                Ok(nanos)
            })
        });
        let sender = scope.spawn(|| {
            let both_run = both_run;
            options.enter(End::Sender)?;
            metered(|| {
                // An error: the reader has failed, which says why.
                if both_run.recv().is_err() {
                    return Ok((0, 0));
                }
                write_in_turn(options, &now, &seen, &mut send)
            })
        });
        let sent = sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender has failed")));
        done.store(true, Ordering::Release);
        (sent, reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader has failed"))))
    });
    let (nanos, reader) = looked?;
    let ((sent, lost), sender) = sent?;
    let placed = nanos.len() as u64;
    // One that was seen after it had been given up is both.
    let lost = lost.min(sent.saturating_sub(placed));
    let bytes = MESSAGE_BYTES as u64;
    let run = RdmaBenchRun {
        sent,
        placed,
        lost,
        sent_bytes: sent * bytes,
        placed_bytes: placed * bytes,
        messages: sent,
        whole: Some(placed),
        is_lossy: lost > 0,
        latency: Some(WriteLatency::of(nanos)),
        ..RdmaBenchRun::default()
    };
    Ok(Ran { run: run.settle(epoch.elapsed().as_secs_f64(), &sender, &reader)?, how })
}

/// A socket that sends to this address.
fn sender(options: &RdmaBenchOptions, peer: SocketAddr) -> io::Result<UdpSocket> {
    options.inside(End::Sender, || {
        let any: IpAddr =
            if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let from = UdpSocket::bind(SocketAddr::new(any, 0))?;
        from.connect(peer)?;
        Ok(from)
    })
}

/// A program that places without a check: the least time of a Write that the kernel places.
pub(super) fn place(options: &RdmaBenchOptions) -> io::Result<Ran> {
    let layout = BarePlacement {
        datagram_bytes: (HEAD_BYTES + MESSAGE_BYTES) as u16,
        head_bytes: HEAD_BYTES as u16,
        offset_at: (HEAD_BYTES - 8) as u16,
        train: 1,
        memory: PAGE,
    };
    let at = Endpoint::udp(SocketAddr::new(options.address, 0));
    let placer = options.inside(End::Receiver, || BarePlacer::open(&at, &layout, false))?;
    let from = sender(options, placer.local())?;
    let send = |bytes: &Message| {
        let mut datagram = [0; HEAD_BYTES + MESSAGE_BYTES];
        datagram[HEAD_BYTES..].copy_from_slice(bytes);
        from.send(&datagram).map(|_| ())
    };
    let look = || Ok(time_of(std::array::from_fn(|at| placer.memory().get(at))));
    let how = "a program in the kernel that places without a check, and memory looked at without waiting";
    let mut ran = exchange(options, send, look, how.into())?;
    ran.run.placed_by_kernel = placer.count();
    Ok(ran)
}

/// A UDP socket that is read without waiting.
pub(super) fn socket(options: &RdmaBenchOptions) -> io::Result<Ran> {
    let to = options.inside(End::Receiver, || UdpSocket::bind(SocketAddr::new(options.address, 0)))?;
    let from = sender(options, to.local_addr()?)?;
    to.connect(from.local_addr()?)?;
    to.set_nonblocking(true)?;
    let look = || {
        let mut bytes = [0; MESSAGE_BYTES];
        match to.recv(&mut bytes) {
            Ok(MESSAGE_BYTES) => Ok(time_of(words(&bytes))),
            Ok(_) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    };
    exchange(
        options,
        |bytes| from.send(bytes).map(|_| ()),
        look,
        "UDP socket: send, and recv without waiting".into(),
    )
}

fn words(bytes: &Message) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    words
}

/// A Write into memory that is looked at without waiting.
pub(super) fn write(options: &RdmaBenchOptions, tier: PlacementTier) -> io::Result<Ran> {
    let serve = serving(options, PAGE, tier, Transport::Udp, None)?;
    let start = || RdmaService::start(serve, 16).map_err(|error| unplaced(tier, error));
    let service = options.inside(End::Receiver, start)?;
    let memory: Arc<RemoteMemory> = service.regions()[0].1.clone();
    let connecting = RdmaClientOptions {
        to: region(service.local(), Transport::Udp)?,
        arriving: None,
        leaving: None,
        datagram_bytes: Some(options.datagram_bytes),
        crc: None,
    };
    let client = options.inside(End::Sender, || RdmaClient::connect(connecting, &options.stop))?;
    let how = ClientWrite { offset: 0, message_bytes: MESSAGE_BYTES as u64, immediate: false, rate: 0 };
    let send = |bytes: &Message| client.write(Arc::new(*bytes), &how, &options.stop).map(|_| ());
    let look = || {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(memory.words()) {
            *word = from.load(Ordering::Acquire);
        }
        Ok(time_of(words))
    };
    let mut ran = exchange(options, send, look, "RDMA Write, and memory looked at without waiting".into())?;
    client.close()?;
    let served = service.stop()?;
    ran.run.placed_by_kernel = served.datagrams.placed_by_kernel;
    // The memory shows the newest only: the server's count must have each that was seen.
    if served.datagrams.placed < ran.run.placed {
        let (own, seen) = (served.datagrams.placed, ran.run.placed);
        return Err(io::Error::other(format!("the counts do not agree: {own} Writes placed, {seen} seen")));
    }
    placed_by(tier, &served)?;
    ran.how = format!("{}; placed by {}", ran.how, served.placing);
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::super::tests::options;
    use super::*;

    #[test]
    fn a_run_that_is_shorter_than_its_threads_take_to_begin_has_a_message() {
        let options = RdmaBenchOptions { time: Duration::from_nanos(1), ..options() };
        let run = socket(&options).unwrap().run;
        assert!(run.placed >= 1 && run.sent == run.placed + run.lost, "{run:?}");
        assert_eq!(run.latency.unwrap().samples, run.placed);
    }
}
