//! One run of a receiver of the experiment `receivers`: ours, or a bare loop for the same datagrams.
//!
//! ```text
//!   scatter      recvmmsg into the slots that are predicted (with trains: UDP_GRO)
//!   bare         recvmmsg of trains into a hot scratch, streaming copy        the floor of receivers that read a socket
//!   ring         the ring of packets shared with the kernel, a copy to the slot that the head says
//!   place        a program in the kernel that checks nothing                  the floor of programs
//!   drop         a program that drops                                         the kernel's part, which no receiver is without
//!   write-stage  our server places        write-bpf  our program in the kernel places
//! ```

use super::super::flow::Flow;
use super::options::{End, RdmaBenchOptions};
use super::remote::{placed_by, serving, unplaced};
use super::report::{Ran, RdmaBenchRun, metered};
use super::writer::{Datagrams, HEAD_BYTES, Look, Writer};
use skyhaul::rdma::{PlacementTier, RdmaServeReport, RdmaServer};
use skyhaul::stop::StopFlag;
use skyhaul_io::address::{Endpoint, Transport};
use skyhaul_io::baseline::{BarePlacer, BareReceiver, BareReceiverOptions, ScatterReceiver, Take};
use skyhaul_io::copy;
use skyhaul_io::host::thread::Usage;
use skyhaul_io::memory::{Block, Pool, PoolOptions};
use skyhaul_io::source::Source;
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Longest sleep of a thread that waits for the end of a run.
const WAIT: Duration = Duration::from_millis(50);
/// Nothing came for so long after the end: nothing is on its way.
const QUIET: Duration = Duration::from_millis(60);

/// What a receiver counted.
#[derive(Debug, Default)]
struct Received {
    placed: u64,
    /// Arrived, but not put where it belongs.
    refused: u64,
    lost: Option<u64>,
    placed_by_kernel: u64,
    /// When the last came, if it is known.
    last: Option<Instant>,
    how: String,
}

/// A receiver that listens, and how its sender sees how far it is.
type Ready = mpsc::Sender<(SocketAddr, Look)>;

/// One run.
pub(super) fn run(options: &RdmaBenchOptions, candidate: &str) -> io::Result<Ran> {
    let datagrams = Datagrams::of(options)?;
    let tier = match candidate {
        "write-stage" => Some(PlacementTier::Stage),
        "write-bpf" => Some(PlacementTier::Bpf),
        _ => None,
    };
    let (flow, end) = (Arc::new(Flow::default()), StopFlag::default());
    let (ready, listens) = mpsc::channel();
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            options.enter(End::Receiver)?;
            match (candidate, tier) {
                (_, Some(tier)) => server(options, &datagrams, tier, ready, &end),
                ("scatter", _) => scatter(options, &datagrams, ready, &flow),
                ("bare", _) => bare(options, &datagrams, ready, &flow),
                ("ring", _) => ring(options, &datagrams, ready, &flow),
                (name, _) => program(options, &datagrams, name == "drop", ready, &flow),
            }
        });
        let sent = listens.recv().map_err(io::Error::other).and_then(|(to, look)| {
            let flow = &flow;
            let sender = scope.spawn(move || {
                options.enter(End::Sender)?;
                let mut writer = Writer::connect(to, datagrams, tier.is_some())?;
                let wrote = metered(|| writer.write(options, flow, &look))?;
                writer.close()?;
                // What has arrived is in memory now: a server has confirmed the end.
                let absent = match &look {
                    Look::Memory(word) => datagrams.absent(wrote.0.datagrams, word),
                    _ => 0,
                };
                Ok((wrote, absent))
            });
            sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender has failed")))
        });
        flow.done.store(true, Ordering::Release);
        if sent.is_err() || options.stop.is_set() {
            end.stop();
        }
        let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("the receiver has failed")));
        (sent, received)
    });
    // The receiver's error is the cause if it never listened.
    let (received, receiver) = received?;
    let ((wrote, sender), absent) = sent?;
    account(&datagrams, &wrote, absent, received, (&less(sender, wrote.waited), &receiver))
}

/// The run that both ends counted.
fn account(
    datagrams: &Datagrams,
    wrote: &super::writer::Wrote,
    absent: u64,
    received: Received,
    (sender, receiver): (&Usage, &Usage),
) -> io::Result<Ran> {
    let sent = wrote.datagrams;
    let counted = received.placed + received.refused;
    let lost = received.lost.or_else(|| sent.checked_sub(counted)).ok_or_else(|| {
        io::Error::other(format!("the counts do not agree: {sent} datagrams sent, {counted} received"))
    })?;
    if lost == 0 && absent > 0 {
        let text = format!("the counts do not agree: nothing lost, but {absent} datagrams are not in memory");
        return Err(io::Error::other(text));
    }
    let payload = datagrams.payload() as u64;
    let run = RdmaBenchRun {
        sent,
        placed: received.placed,
        lost,
        refused: received.refused,
        placed_by_kernel: received.placed_by_kernel,
        sent_bytes: sent * payload,
        placed_bytes: received.placed * payload,
        messages: wrote.messages,
        whole: (lost + received.refused == 0).then_some(wrote.messages),
        is_lossy: lost + received.refused > 0,
        ..RdmaBenchRun::default()
    };
    let until_last =
        wrote.began.zip(received.last).map(|(began, last)| last.saturating_duration_since(began));
    let seconds = wrote.seconds.max(until_last.unwrap_or_default().as_secs_f64());
    Ok(Ran { run: run.settle(seconds, sender, receiver)?, how: received.how })
}

/// Without the CPU time of waiting.
fn less(used: Usage, waited: Duration) -> Usage {
    let user = used.user.saturating_sub(waited);
    let rest = waited.saturating_sub(used.user - user);
    Usage { user, system: used.system.saturating_sub(rest), ..used }
}

fn at(options: &RdmaBenchOptions) -> Endpoint {
    Endpoint::udp(SocketAddr::new(options.address, 0))
}

/// Polls until the sender is done and nothing more comes; `poll` returns datagrams placed and misplaced.
fn until_done(
    flow: &Flow,
    datagrams: &Datagrams,
    mut poll: impl FnMut() -> io::Result<(u64, u64)>,
) -> io::Result<(Received, Usage)> {
    metered(|| {
        let (mut all, mut last) = (Received::default(), Instant::now());
        loop {
            // Looked at first: what was sent before it is in the socket.
            let was_done = flow.done.load(Ordering::Acquire);
            let (placed, refused) = poll()?;
            if placed + refused > 0 {
                (all.placed, all.refused) = (all.placed + placed, all.refused + refused);
                flow.received.0.store((all.placed + all.refused) * datagrams.bytes as u64, Ordering::Relaxed);
                last = Instant::now();
                all.last = Some(last);
            } else if was_done && last.elapsed() >= QUIET {
                return Ok(all);
            }
        }
    })
}

fn scatter(
    options: &RdmaBenchOptions,
    datagrams: &Datagrams,
    ready: Ready,
    flow: &Flow,
) -> io::Result<(Received, Usage)> {
    let mut receiver = ScatterReceiver::open(&at(options), &datagrams.layout(), datagrams.slots)?;
    let _ = ready.send((receiver.local(), Look::Told));
    drop(ready);
    let (mut all, used) = until_done(flow, datagrams, || {
        let scattered = receiver.poll()?;
        Ok((scattered.placed, scattered.misplaced))
    })?;
    all.how = match datagrams.train {
        1 => "recvmmsg of 32 datagrams into predicted slots".into(),
        train => format!("recvmmsg of 8 trains (UDP_GRO) into {train} predicted slots each"),
    };
    Ok((all, used))
}

fn bare(
    options: &RdmaBenchOptions,
    datagrams: &Datagrams,
    ready: Ready,
    flow: &Flow,
) -> io::Result<(Received, Usage)> {
    let how = BareReceiverOptions {
        take: Take::Trains,
        packet_bytes: datagrams.bytes,
        strip: HEAD_BYTES,
        memory: options.memory as usize,
    };
    let mut receiver = BareReceiver::open(&at(options), &how)?;
    let _ = ready.send((receiver.local(), Look::Told));
    drop(ready);
    let (mut all, used) = until_done(flow, datagrams, || {
        let mut placed = 0;
        receiver.poll(&mut |taken| placed += taken.packets)?;
        Ok((placed, 0))
    })?;
    all.how = "recvmmsg of 4 trains (UDP_GRO) into a hot scratch, streaming copy, heads not looked at".into();
    Ok((all, used))
}

fn ring(
    options: &RdmaBenchOptions,
    datagrams: &Datagrams,
    ready: Ready,
    flow: &Flow,
) -> io::Result<(Received, Usage)> {
    if datagrams.train > 1 {
        let text = "the ring is for single datagrams: use --train 1";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let udp = UdpOptions { tier: Tier::Ring, timestamps: false, ..UdpOptions::default() };
    let mut source = UdpSource::open(&at(options), &udp)?;
    let stats = source.stats();
    if stats.tier != "ring" {
        let hints = stats.remedies.join("; ");
        let text = format!("no ring: {}{}{hints}", stats.because, if hints.is_empty() { "" } else { ". " });
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let mut memory = touched(options.memory)?;
    let _ = ready.send((source.local(), Look::Told));
    drop(ready);
    let (payload, offset_at) = (datagrams.payload(), usize::from(datagrams.layout().offset_at));
    let (mut all, used) = until_done(flow, datagrams, || {
        let (mut placed, mut misplaced) = (0, 0);
        source.poll(WAIT, &mut |train| {
            for datagram in train.packets() {
                let offset = datagram.get(offset_at..).and_then(|rest| rest.first_chunk());
                let at = offset.map(|bytes| u64::from_be_bytes(*bytes) as usize);
                let slot = at.and_then(|at| memory.get_mut(at..at.checked_add(payload)?));
                match (slot, datagram.get(HEAD_BYTES..)) {
                    (Some(slot), Some(bytes)) if bytes.len() == payload => {
                        copy::place(slot, bytes);
                        placed += 1;
                    }
                    _ => misplaced += 1,
                }
            }
        })?;
        copy::fence();
        Ok((placed, misplaced))
    })?;
    all.how = format!("{}, a copy to the place that the head says", source.describe());
    Ok((all, used))
}

/// Memory whose pages are there.
fn touched(bytes: u64) -> io::Result<Block> {
    let pool = Pool::new(&PoolOptions { total_bytes: bytes, block_bytes: bytes as usize, shared: false })?;
    pool.wait_until_touched()?;
    pool.take().ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// A program that places without a check, or drops. This thread has nothing to do.
fn program(
    options: &RdmaBenchOptions,
    datagrams: &Datagrams,
    drops: bool,
    ready: Ready,
    flow: &Flow,
) -> io::Result<(Received, Usage)> {
    let placer = Arc::new(BarePlacer::open(&at(options), &datagrams.layout(), drops)?);
    let own = placer.clone();
    let look = if drops {
        Look::Counted(Box::new(move || own.count()))
    } else {
        Look::Memory(Box::new(move |at| own.memory().get(at)))
    };
    let _ = ready.send((placer.local(), look));
    drop(ready);
    metered(|| {
        while !flow.done.load(Ordering::Acquire) {
            std::thread::sleep(WAIT);
        }
        std::thread::sleep(QUIET);
        let what = if drops { "drops each datagram" } else { "places each payload without a check" };
        let (placed, how) = (placer.count(), format!("a program in the kernel that {what}"));
        Ok(Received { placed, placed_by_kernel: if drops { 0 } else { placed }, how, ..Received::default() })
    })
}

/// Our server, which ends with the connection.
fn server(
    options: &RdmaBenchOptions,
    datagrams: &Datagrams,
    tier: PlacementTier,
    ready: Ready,
    end: &StopFlag,
) -> io::Result<(Received, Usage)> {
    let serve = serving(options, options.memory, tier, Transport::Udp, None)?;
    let mut server = RdmaServer::open(serve).map_err(|error| unplaced(tier, error))?;
    let memory = server.region_memory("bench").ok_or_else(|| io::Error::other("the region has no memory"))?;
    let word = move |at: usize| memory.words().get(at).map_or(0, |word| word.load(Ordering::Acquire));
    let _ = ready.send((server.local(), Look::Memory(Box::new(word))));
    drop(ready);
    let (told, used): (RdmaServeReport, Usage) = metered(|| server.run(end, None))?;
    placed_by(tier, &told)?;
    let at = &told.datagrams;
    let received = Received {
        placed: at.placed,
        refused: at.refused_total(),
        lost: Some(told.datagrams_lost),
        placed_by_kernel: at.placed_by_kernel,
        last: None,
        how: format!("RDMA Writes of {} bytes placed by {}", datagrams.message_bytes(), told.placing),
    };
    Ok((received, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_taken_from_user_time_first() {
        let ms = Duration::from_millis;
        let used = Usage { user: ms(30), system: ms(20), ..Usage::default() };
        for (waited, user, system) in [(10, 20, 20), (30, 0, 20), (40, 0, 10), (60, 0, 0)] {
            let own = less(used, ms(waited));
            assert_eq!((own.user, own.system), (ms(user), ms(system)), "{waited}");
        }
    }
}
