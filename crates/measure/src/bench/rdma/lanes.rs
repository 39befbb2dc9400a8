//! Lanes of LOFAR in real time: the most that a receiver takes without loss.
//!
//! ```text
//!   station 0 ─ lanes 0 1 2 3 ─┐
//!   station 1 ─ lanes 0 1 2 3 ─┼─▶ one port, one receiving thread ─▶ a stream of each lane ─▶ ledger
//!   …           a packet of 7824 bytes each 81.92 µs; all lanes together, as boards send
//! ```
//!
//! Each lane has a port of its own to send from. A number of lanes holds if the receiver's ledger has each packet that was sent, and the sender
//! was never late. The number is bisected, and what is found must hold twice. Then all lanes are sent with the clock slowed until they hold.
//!
//! Limits: one sending thread, which may be the limit: the report says so. 16 bit at 200 MHz.

use super::super::flow::CacheLine;
use super::options::{End, RdmaBenchOptions};
use super::remote::unplaced;
use super::report::{Ran, RdmaBenchRun, metered};
use skyhaul::rdma::PlacementTier;
use skyhaul::receive::{Nowhere, Receiver, ReceiverOptions};
use skyhaul::report::ReceiveReport;
use skyhaul_core::wire::{FAMILIES, Format, Generated, LearnOptions, Made, SynthPayload};
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::{BareSender, Give};
use skyhaul_io::host::thread::{self, Usage};
use skyhaul_io::memory::PoolOptions;
use skyhaul_io::udp::{Tier, UdpOptions};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Payload of a packet with all beamlets.
pub(super) const PAYLOAD_BYTES: usize = 7808;
/// Of the header.
const HEAD_BYTES: usize = 16;
/// Lanes of a station.
const STATION_LANES: u16 = 4;
/// Nanoseconds of a packet, times 25: 16 × 1024 cycles at 200 MHz are 81.92 µs.
const PACKET_NANOS_BY_25: u64 = 2_048_000;
/// A sender that is later is not in real time.
const LATE: Duration = Duration::from_millis(50);
/// Blocks of memory for each lane, and their bytes: 11 ms.
const BLOCKS: u64 = 4;
const BLOCK_BYTES: usize = 1 << 20;
/// Nothing came for so long after the end: nothing is on its way.
const QUIET: Duration = Duration::from_millis(60);
/// Attempts to find a clock that is slow enough for all lanes, each slower by this factor.
const SLOWER: [f64; 4] = [1.1, 1.4, 1.9, 2.6];

/// Trials of a run, about.
pub(super) fn trials(most: u16) -> usize {
    (u16::BITS - most.leading_zeros()) as usize + 2
}

/// What a number of lanes gave.
#[derive(Clone, Debug, Default)]
struct Trial {
    sent: u64,
    /// By the receiver's ledger.
    received: u64,
    /// Of one lane at least, another number arrived than was sent; or the ledger's sums are wrong.
    is_uneven: bool,
    is_late: bool,
    seconds: f64,
    sender: Usage,
    receiver: Duration,
    how: String,
}

impl Trial {
    fn holds(&self) -> bool {
        self.sent > 0 && self.sent == self.received && !self.is_uneven && !self.is_late
    }
}

/// The largest number up to `most` that holds, and once more when it was found; 0 if 1 does not.
fn most_that_hold(most: u16, mut holds: impl FnMut(u16) -> io::Result<bool>) -> io::Result<u16> {
    let (mut low, mut high) = (0, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle)? { low = middle } else { high = middle }
    }
    while low > 0 && !holds(low)? {
        low -= 1;
    }
    Ok(low)
}

/// One run: a search.
pub(super) fn run(options: &RdmaBenchOptions, candidate: &str) -> io::Result<Ran> {
    let tier = if candidate == "bpf" { Tier::Bpf } else { Tier::Stage };
    let (mut best, mut last) = (None, Trial::default());
    let lanes = most_that_hold(options.lanes, |lanes| {
        if options.stop.is_set() {
            return Ok(false);
        }
        let trial = attempt(options, tier, lanes, 1.0)?;
        if trial.holds() {
            best = Some((lanes, trial));
            return Ok(true);
        }
        last = trial;
        Ok(false)
    })?;
    let trial = best.filter(|(own, _)| *own == lanes).map_or_else(|| last.clone(), |(_, trial)| trial);
    let slowdown = slowed(options, tier, lanes)?;
    let lost = trial.sent.checked_sub(trial.received).ok_or_else(|| {
        let (sent, received) = (trial.sent, trial.received);
        io::Error::other(format!("the counts do not agree: {sent} packets sent, {received} received"))
    })?;
    let payload = PAYLOAD_BYTES as u64;
    let run = RdmaBenchRun {
        sent: trial.sent,
        placed: trial.received,
        lost,
        sent_bytes: trial.sent * payload,
        placed_bytes: trial.received * payload,
        messages: trial.sent,
        whole: Some(trial.received),
        is_lossy: lanes == 0,
        lanes: Some(lanes.into()),
        slowdown,
        ..RdmaBenchRun::default()
    };
    let receiver = Usage { user: trial.receiver, ..Usage::default() };
    let limit = match (lanes == options.lanes, last.is_late) {
        (true, _) => "all that were tried",
        (_, true) => "with more the sender was late",
        _ => "with more packets were lost",
    };
    Ok(Ran {
        run: run.settle(trial.seconds, &trial.sender, &receiver)?,
        how: format!("{}; {limit}", trial.how),
    })
}

/// By how much the clock must be slowed for all lanes; `None` if not known.
fn slowed(options: &RdmaBenchOptions, tier: Tier, held: u16) -> io::Result<Option<f64>> {
    if held == 0 || held == options.lanes {
        return Ok((held > 0).then_some(1.0));
    }
    for factor in SLOWER {
        let slow = factor * f64::from(options.lanes) / f64::from(held);
        if !options.stop.is_set() && attempt(options, tier, options.lanes, slow)?.holds() {
            return Ok(Some(slow));
        }
    }
    Ok(None)
}

/// So many lanes for the time of a run, with a clock that is slower by a factor.
fn attempt(options: &RdmaBenchOptions, tier: Tier, lanes: u16, slow: f64) -> io::Result<Trial> {
    let (ready, listens) = mpsc::channel();
    let done = CacheLine(AtomicBool::new(false));
    let (sent, received) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(options, tier, lanes, ready, &done.0));
        let sent = listens.recv().map_err(io::Error::other).and_then(|to| {
            let sender = scope.spawn(move || {
                options.enter(End::Sender)?;
                send(options, to, lanes, slow)
            });
            sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender has failed")))
        });
        done.0.store(true, Ordering::Release);
        let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("the receiver has failed")));
        (sent, received)
    });
    // The receiver's error is the cause if it never listened.
    let (report, sent) = (received?, sent?);
    Ok(judge(&report, sent, lanes))
}

/// What the sender sent: packets of each lane.
#[derive(Clone, Copy, Debug)]
struct Sent {
    each: u64,
    is_late: bool,
    seconds: f64,
    usage: Usage,
}

/// By the ledger.
fn judge(report: &ReceiveReport, sent: Sent, lanes: u16) -> Trial {
    let source = report.sources.first();
    let (tier, because) = source.map_or(("", ""), |source| (&*source.tier, &*source.because));
    let is_even = report.streams.len() == usize::from(lanes)
        && report.streams.iter().all(|stream| stream.placed == sent.each);
    Trial {
        sent: sent.each * u64::from(lanes),
        received: report.ledger.received,
        is_uneven: !is_even || !report.unbalanced.is_empty(),
        is_late: sent.is_late,
        seconds: sent.seconds,
        sender: sent.usage,
        receiver: Duration::from_secs_f64(report.cpu.path_seconds.max(0.0)),
        how: format!("LOFAR, a stream of each lane; tier {tier}: {because}"),
    }
}

fn receive(
    options: &RdmaBenchOptions,
    tier: Tier,
    lanes: u16,
    ready: mpsc::Sender<SocketAddr>,
    done: &AtomicBool,
) -> io::Result<ReceiveReport> {
    let placement = if tier == Tier::Bpf { PlacementTier::Bpf } else { PlacementTier::Stage };
    options.enter(End::Receiver)?;
    let format: Format = "lofar".parse().map_err(io::Error::other)?;
    let pool = PoolOptions {
        total_bytes: BLOCKS * u64::from(lanes.max(STATION_LANES)) * BLOCK_BYTES as u64,
        block_bytes: BLOCK_BYTES,
        shared: false,
    };
    let learn = LearnOptions { format, object_bytes: BLOCK_BYTES as u64, ..LearnOptions::default() };
    let udp = UdpOptions { tier, timestamps: false, ..UdpOptions::default() };
    let how = ReceiverOptions {
        listen: vec![Endpoint::udp(SocketAddr::new(options.address, 0))],
        udp,
        learn,
        cpus: vec![options.cpus.1],
        ..ReceiverOptions::default()
    };
    let pool = how.pool(&pool).map_err(|error| unplaced(placement, error))?;
    pool.wait_until_touched()?;
    let receiver = Receiver::open(how, pool).map_err(|error| unplaced(placement, error))?;
    let at: Option<Endpoint> = receiver.addresses().next().and_then(|at| at.parse().ok());
    let at = at.ok_or_else(|| io::Error::other("the receiver has no address"))?;
    let running = receiver.start(|_| Box::new(Nowhere))?;
    let _ = ready.send(at.address);
    drop(ready);
    while !done.load(Ordering::Acquire) || running.idle() < QUIET {
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = running.finish();
    match report.errors.first() {
        Some(error) => Err(io::Error::other(error.clone())),
        None => Ok(report),
    }
}

/// A lane: its socket, and its packets in a train.
struct Lane {
    sender: BareSender,
    train: Vec<u8>,
    /// Of its station, and its number there.
    station: usize,
    rank: u64,
}

fn send(options: &RdmaBenchOptions, to: SocketAddr, lanes: u16, slow: f64) -> io::Result<Sent> {
    let (stations, mut own) = opened(options, to, lanes)?;
    let train = u64::from(options.train);
    let packet = |n: u64| Duration::from_nanos((n as f64 * slow * PACKET_NANOS_BY_25 as f64 / 25.0) as u64);
    let (mut waited, mut late, mut packets) = (Duration::ZERO, false, 0);
    let ((seconds, ()), usage) = metered(|| {
        let began = Instant::now();
        while packet(packets) < options.time && !options.stop.is_set() && !late {
            // A train is whole when its last packet is.
            let due = packet(packets + train - 1);
            let cpu = thread::cpu_time();
            while began.elapsed() < due {
                std::hint::spin_loop();
            }
            waited += thread::cpu_time() - cpu;
            late = began.elapsed().saturating_sub(due) > LATE;
            for lane in &mut own {
                let bytes = HEAD_BYTES + PAYLOAD_BYTES;
                for (n, place) in (packets..).zip(lane.train.chunks_exact_mut(bytes)) {
                    stations[lane.station].frame(n * u64::from(STATION_LANES) + lane.rank, place);
                }
                lane.sender.send(&lane.train)?;
            }
            packets += train;
        }
        Ok((began.elapsed().as_secs_f64(), ()))
    })?;
    let usage =
        Usage { user: (usage.user + usage.system).saturating_sub(waited), system: Duration::ZERO, ..usage };
    Ok(Sent { each: packets, is_late: late, seconds, usage })
}

type Stations = Vec<Box<dyn Generated>>;

/// The stations, and the sockets of their lanes.
fn opened(options: &RdmaBenchOptions, to: SocketAddr, lanes: u16) -> io::Result<(Stations, Vec<Lane>)> {
    let family = FAMILIES.iter().find(|family| family.name() == "lofar");
    let generator = family.and_then(|family| family.generator());
    let generator = generator.ok_or_else(|| io::Error::other("LOFAR cannot be generated"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    let station = |number: u16| {
        let letters = [b'A' + (number / 26) as u8, b'A' + (number % 26) as u8];
        let made = Made {
            payload: PAYLOAD_BYTES,
            threads: STATION_LANES,
            frames_per_second: 12_207,
            start: now.as_secs().cast_signed(),
            station: letters.map(char::from).iter().collect(),
            payloads: SynthPayload::Noise,
        };
        generator.begin(made).map_err(io::Error::other)
    };
    let stations = (0..lanes.div_ceil(STATION_LANES)).map(station).collect::<io::Result<Vec<_>>>()?;
    let bytes = HEAD_BYTES + PAYLOAD_BYTES;
    let give = if options.train == 1 { Give::Single } else { Give::TrainsOf(options.train) };
    let lane = |lane: u16| {
        let sender = BareSender::open(&Endpoint::udp(to), give, bytes)?;
        if sender.batch_packets() < usize::from(options.train) {
            let text = format!("a train of {} packets of {bytes} bytes is too long", options.train);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let train = vec![0x5a; bytes * usize::from(options.train)];
        let (station, rank) = (usize::from(lane / STATION_LANES), u64::from(lane % STATION_LANES));
        Ok(Lane { sender, train, station, rank })
    };
    let lanes = (0..lanes).map(lane).collect::<io::Result<Vec<_>>>()?;
    Ok((stations, lanes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::ledger::FrameLedger;
    use skyhaul::report::StreamSummary;

    #[test]
    fn the_most_that_hold_are_found_and_hold_twice() {
        for most in [1, 2, 7, 50] {
            for limit in 0..=most {
                let mut asked = 0;
                let found = most_that_hold(most, |lanes| {
                    asked += 1;
                    Ok(lanes <= limit)
                });
                assert_eq!(found.unwrap(), limit, "of {most}");
                assert!(asked <= trials(most), "{asked} trials for {limit} of {most}");
            }
        }
        // One that held once and then does not is not the result.
        let mut seen = Vec::new();
        let found = most_that_hold(8, |lanes| {
            let is_second = seen.contains(&lanes);
            seen.push(lanes);
            Ok(lanes < 5 || lanes == 5 && !is_second)
        });
        assert_eq!(found.unwrap(), 4);
    }

    #[test]
    fn the_ledger_decides_whether_lanes_hold() {
        let sent = Sent { each: 10, is_late: false, seconds: 1.0, usage: Usage::default() };
        let report = |placed: [u64; 2]| ReceiveReport {
            streams: placed.map(|placed| StreamSummary { placed, ..StreamSummary::default() }).into(),
            ledger: FrameLedger { received: placed.iter().sum(), ..FrameLedger::default() },
            ..ReceiveReport::default()
        };
        assert!(judge(&report([10, 10]), sent, 2).holds());
        assert!(!judge(&report([10, 9]), sent, 2).holds(), "one is lost");
        assert!(!judge(&report([11, 9]), sent, 2).holds(), "the sum alone is right");
        assert!(!judge(&report([10, 10]), sent, 3).holds(), "a lane is missing");
        assert!(!judge(&report([10, 10]), Sent { is_late: true, ..sent }, 2).holds(), "not in real time");
        let wrong = ReceiveReport { unbalanced: vec!["a sum".into()], ..report([10, 10]) };
        assert!(!judge(&wrong, sent, 2).holds(), "a sum of the ledger is wrong");
    }
}
