//! Events of several senders, through a load balancer, to several workers: what arrives whole, and where the rest was lost.
//!
//! ```text
//!   sender 1 ─┐                     ┌─▶ worker 1
//!   sender 2 ─┼─▶ balancer (as many threads as requested) ─┼─▶ worker 2      all of this process
//!   …         ┘                     └─▶ …
//! ```
//!
//! Every combination of packet size, event size, senders, workers, threads and rate is measured in several rounds. Loss is the
//! difference of exact counts: packets sent, arrived at the balancer, sent on, and received.
//!
//! Limits: with more threads than CPUs, the machine is measured. On the loopback the kernel's work for a packet is done
//! by whoever sends it.

use crate::invalid;
use serde::{Deserialize, Serialize};
use skyhaul::balance::{Balance, BalanceOptions, BalanceStatus};
use skyhaul::receive::{Nowhere, Receiver, ReceiverOptions, Running};
use skyhaul::send::Pacing;
use skyhaul::send::events::{
    Event, EventConfig, EventDivision, EventSender, EventSenderOptions, Target, Ticks,
};
use skyhaul::stop::StopFlag;
use skyhaul_core::balance::AllowList;
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::{FamilyRef, Format, LearnOptions};
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::machine::Machine;
use skyhaul_io::host::thread;
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_measure::bench::{Spread, join, load_average, object_options, start_balancer};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where packets were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventLosses {
    /// Before the balancer: its sockets were full.
    pub before: u64,
    /// In the balancer: refused, or not sent on.
    pub balancer: u64,
    /// Behind it: the workers' sockets were full.
    pub behind: u64,
    /// In workers: received, and not used for an event.
    pub workers: u64,
}

/// What came of one combination.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventPoint {
    /// The combination.
    #[serde(flatten)]
    pub setting: EventSetting,
    /// Bits per second of event payload that were sent.
    pub sent: Spread,
    /// Bits per second of events that arrived whole.
    pub whole: Spread,
    /// Whole events per second.
    pub events_per_second: Spread,
    /// Packets per second that the balancer sent on.
    pub packets_per_second: Spread,
    /// CPU seconds of the senders for 10⁹ bytes of payload sent, waiting included.
    pub send_cpu: Spread,
    /// CPU seconds of the balancer for 10⁹ bytes of payload sent.
    pub balance_cpu: Spread,
    /// CPU seconds of the workers, and of all else, for 10⁹ bytes of payload sent.
    pub receive_cpu: Spread,
    /// Events sent in all rounds.
    pub events: u64,
    /// Those that did not arrive whole.
    pub events_lost: u64,
    /// Packets sent in all rounds.
    pub packets: u64,
    /// Those that were lost, by place.
    pub lost: EventLosses,
    /// The part of its share by which the worker furthest from it was off.
    pub imbalance: Spread,
}

/// The results.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EventBenchReport {
    /// [`skyhaul::report::VERSION`].
    pub version: u32,
    /// CPU model, cores, memory, kernel.
    pub machine: String,
    /// Load average before and after.
    pub others: (f64, f64),
    /// Seconds of a run.
    pub seconds: f64,
    /// Rounds.
    pub rounds: usize,
    /// Each combination.
    pub points: Vec<EventPoint>,
    /// How packets were sent on.
    pub mode: String,
    /// Whether it was stopped before all was measured.
    pub interrupted: bool,
}

/// Measure. `progress` receives status messages.
///
/// # Errors
/// If nothing is to be measured, an event cannot be divided into such packets, or the system refuses sockets or threads.
pub fn run(options: &EventBenchOptions, progress: &mut dyn FnMut(&str)) -> io::Result<EventBenchReport> {
    let settings = options.settings();
    if settings.iter().any(|s| s.senders == 0 || s.workers == 0 || s.threads == 0) || settings.is_empty() {
        return Err(invalid(format_args!(
            "nothing to measure{}",
            Hint("give at least one sender, worker and thread")
        )));
    }
    let before = load_average();
    let rounds = options.rounds.max(1);
    let mut runs: Vec<Vec<Round>> = settings.iter().map(|_| Vec::new()).collect();
    'all: for round in 1..=rounds {
        for (at, setting) in settings.iter().enumerate() {
            if options.stop.is_set() {
                break 'all;
            }
            let EventSetting { mtu, event_bytes, senders, workers, rate, .. } = setting;
            let text = format!(
                "round {round} of {rounds}: MTU {mtu}, events of {event_bytes} B, {senders} to {workers}"
            );
            progress(
                &(text
                    + &if *rate > 0 { format!(" at {:.3} Gb/s", *rate as f64 / 1e9) } else { String::new() }),
            );
            match options.stop.unless_set(one_round(options, setting))? {
                Some(one) => runs[at].push(one),
                None => break 'all,
            }
        }
    }
    let mode = runs.iter().flatten().map(|one| one.mode.clone()).next().unwrap_or_default();
    let points = settings.iter().zip(&runs).filter(|(_, runs)| !runs.is_empty());
    Ok(EventBenchReport {
        version: skyhaul::report::VERSION,
        machine: Machine::this().to_string(),
        others: (before, load_average()),
        seconds: options.time.as_secs_f64(),
        rounds,
        points: points.map(|(setting, runs)| EventPoint::of(*setting, runs)).collect(),
        mode,
        interrupted: options.stop.is_set(),
    })
}

impl EventPoint {
    fn of(setting: EventSetting, runs: &[Round]) -> EventPoint {
        let spread = |of: &dyn Fn(&Round) -> f64| Spread::of(runs.iter().map(of));
        let sum = |of: &dyn Fn(&Round) -> u64| runs.iter().map(of).sum();
        let bytes = |events: u64| (events * setting.event_bytes) as f64;
        let per_gb = |cpu: Duration, one: &Round| cpu.as_secs_f64() * 1e9 / bytes(one.events).max(1.0);
        EventPoint {
            setting,
            sent: spread(&|one| bytes(one.events) * 8.0 / one.seconds),
            whole: spread(&|one| bytes(one.whole) * 8.0 / one.seconds),
            events_per_second: spread(&|one| one.whole as f64 / one.seconds),
            packets_per_second: spread(&|one| one.forwarded as f64 / one.seconds),
            send_cpu: spread(&|one| per_gb(one.send_cpu, one)),
            balance_cpu: spread(&|one| per_gb(one.balance_cpu, one)),
            receive_cpu: spread(&|one| per_gb(one.receive_cpu, one)),
            events: sum(&|one| one.events),
            events_lost: sum(&|one| one.events - one.whole),
            packets: sum(&|one| one.packets),
            lost: EventLosses {
                before: sum(&|one| one.packets - one.arrived),
                balancer: sum(&|one| one.arrived - one.forwarded),
                behind: sum(&|one| one.forwarded - one.received),
                workers: sum(&|one| one.rejected),
            },
            imbalance: spread(&|one| one.imbalance),
        }
    }
}

/// What came of it. Packets that arrived were sent, those forwarded arrived, and so on.
#[derive(Clone, Debug, Default)]
struct Round {
    seconds: f64,
    events: u64,
    whole: u64,
    packets: u64,
    arrived: u64,
    forwarded: u64,
    received: u64,
    rejected: u64,
    send_cpu: Duration,
    balance_cpu: Duration,
    receive_cpu: Duration,
    imbalance: f64,
    mode: String,
}

/// Memory of a worker, bytes, at least so many events.
const MEMORY: u64 = 64 << 20;
const EVENTS: u64 = 16;
/// How long nothing arrives when all has.
const QUIET: Duration = Duration::from_millis(100);

fn one_round(options: &EventBenchOptions, setting: &EventSetting) -> io::Result<Round> {
    let workers = (0..setting.workers).map(|_| worker(options, setting)).collect::<io::Result<Vec<_>>>()?;
    let balance = BalanceOptions {
        family: options.family,
        data: vec![SocketAddr::new(options.address, 0)],
        threads: setting.threads,
        allow: AllowList::anyone(),
        ..BalanceOptions::default()
    };
    let balance = start_balancer(&balance, &workers.iter().map(|(at, _)| *at).collect::<Vec<_>>())?;
    // What it took to begin does not count.
    let (process, balanced) = (thread::process_cpu_time(), balance.status().cpu);
    let start = Arc::new(Barrier::new(setting.senders));
    let begin = |n| sender(options, setting, &balance, n, &start);
    let senders = (0..setting.senders).map(begin).collect::<io::Result<Vec<_>>>()?;
    let mut round = Round::default();
    for sender in senders {
        let sent = join(sender)??;
        round.seconds = round.seconds.max(sent.seconds);
        round.events += sent.events;
        round.packets += sent.packets;
        round.send_cpu += sent.cpu;
    }
    finish(&mut round, balance, workers);
    round.balance_cpu = round.balance_cpu.saturating_sub(balanced);
    let others = round.send_cpu + round.balance_cpu;
    round.receive_cpu = (thread::process_cpu_time() - process).saturating_sub(others);
    Ok(round)
}

/// A receiver that counts, and where it listens.
fn worker(options: &EventBenchOptions, setting: &EventSetting) -> io::Result<(SocketAddr, Running)> {
    let pool = Pool::new(&PoolOptions { total_bytes: 1 << 20, block_bytes: 1 << 20, shared: false })?;
    let learn = LearnOptions { format: Format::Of(options.family), ..LearnOptions::default() };
    let listen = vec![Endpoint::udp(SocketAddr::new(options.address, 0))];
    let mut objects = object_options(MEMORY.max(setting.event_bytes * EVENTS));
    objects.stream.heaps.largest = objects.stream.heaps.largest.max(setting.event_bytes);
    let all = ReceiverOptions { listen, learn, objects: Some(objects), ..ReceiverOptions::default() };
    let receiver = Receiver::open(all, pool)?;
    let at = receiver.addresses().next().and_then(|at| at.parse::<Endpoint>().ok());
    let at = at.ok_or_else(|| io::Error::other("a receiver without an address"))?;
    Ok((at.address, receiver.start(|_| Box::new(Nowhere))?))
}

/// What a sender did.
struct Sent {
    seconds: f64,
    events: u64,
    packets: u64,
    cpu: Duration,
}

/// A sender of events, every `senders`-th tick of all.
fn sender(
    options: &EventBenchOptions,
    setting: &EventSetting,
    balance: &Balance,
    number: usize,
    start: &Arc<Barrier>,
) -> io::Result<JoinHandle<io::Result<Sent>>> {
    let EventSetting { mtu, event_bytes, senders, rate, .. } = *setting;
    let to = Target::balancer(Endpoint::udp(balance.data()[0]));
    let division =
        EventDivision { packet_bytes: mtu.saturating_sub(to.overhead()), ..EventDivision::default() };
    let pacing = Pacing { rate: rate / senders as u64, ..Pacing::default() };
    let ticks = Ticks::Counted { next: number as u64, step: senders as u64 };
    let config = EventConfig { division, pacing, ..EventConfig::default() };
    let sender =
        EventSender::open(&to, EventSenderOptions { config, ticks, ..EventSenderOptions::default() });
    let sender = sender.map_err(io::Error::other)?;
    let (time, stop, start) = (options.time, options.stop.clone(), Arc::clone(start));
    std::thread::Builder::new().name("bench-send".into()).spawn(move || {
        let event = Event::from(0, vec![1; event_bytes as usize]);
        let cpu = thread::cpu_time();
        start.wait();
        let (begun, mut events) = (Instant::now(), 0);
        while begun.elapsed() < time && !stop.is_set() {
            sender.send(&event, None).map_err(io::Error::other)?;
            events += 1;
        }
        let (seconds, cpu) = (begun.elapsed().as_secs_f64().max(1e-9), thread::cpu_time() - cpu);
        let packets = sender.stream().stats().packets;
        Ok(Sent { seconds, events, packets, cpu })
    })
}

/// Wait until nothing is under way, and count.
fn finish(round: &mut Round, balance: Balance, workers: Vec<(SocketAddr, Running)>) {
    let mut last = (0, Instant::now());
    while last.1.elapsed() < QUIET || workers.iter().any(|(_, running)| running.idle() < QUIET) {
        let packets = balance.status().packets;
        if packets != last.0 {
            last = (packets, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let status: BalanceStatus = balance.stop();
    (round.arrived, round.forwarded) = (status.packets, status.forwarded.packets);
    (round.balance_cpu, round.mode) = (status.cpu, status.mode);
    let even = status.workers.iter().map(|worker| worker.packets).sum::<u64>() as f64 / workers.len() as f64;
    let off = |packets: u64| (packets as f64 / even.max(1.0) - 1.0).abs();
    round.imbalance = status.workers.iter().map(|worker| off(worker.packets)).fold(0.0, f64::max);
    for (_, running) in workers {
        let report = running.finish();
        round.received += report.packets;
        round.rejected += report.rejects.values().sum::<u64>();
        round.whole += report.objects.values().map(|objects| objects.complete).sum::<u64>();
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct EventBenchOptions {
    /// The family of events, which must be labelled.
    pub family: FamilyRef,
    /// Largest IP packets, bytes.
    pub mtus: Vec<usize>,
    /// Bytes of an event.
    pub events: Vec<u64>,
    /// Senders, each a thread.
    pub senders: Vec<usize>,
    /// Workers, each a receiver with a thread.
    pub workers: Vec<usize>,
    /// Threads of the balancer.
    pub threads: Vec<usize>,
    /// Bits per second of all senders together; 0: as fast as they can.
    pub rates: Vec<u64>,
    /// Length of a run.
    pub time: Duration,
    /// Rounds.
    pub rounds: usize,
    /// Where all of it is.
    pub address: IpAddr,
    /// Ends it early.
    pub stop: StopFlag,
}

/// One combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSetting {
    /// Largest IP packet, bytes.
    pub mtu: usize,
    /// Bytes of an event.
    pub event_bytes: u64,
    /// Senders.
    pub senders: usize,
    /// Workers.
    pub workers: usize,
    /// Threads of the balancer.
    pub threads: usize,
    /// Bits per second of all senders; 0: as fast as they could.
    pub rate: u64,
}

impl EventBenchOptions {
    /// Every combination.
    fn settings(&self) -> Vec<EventSetting> {
        let mut all = vec![EventSetting::default()];
        let mut vary = |set: &dyn Fn(EventSetting) -> Vec<EventSetting>| {
            all = all.iter().flat_map(|one| set(*one)).collect();
        };
        vary(&|s| self.mtus.iter().map(|&mtu| EventSetting { mtu, ..s }).collect());
        vary(&|s| self.events.iter().map(|&event_bytes| EventSetting { event_bytes, ..s }).collect());
        vary(&|s| self.senders.iter().map(|&senders| EventSetting { senders, ..s }).collect());
        vary(&|s| self.workers.iter().map(|&workers| EventSetting { workers, ..s }).collect());
        vary(&|s| self.threads.iter().map(|&threads| EventSetting { threads, ..s }).collect());
        vary(&|s| self.rates.iter().map(|&rate| EventSetting { rate, ..s }).collect());
        all
    }
}

#[cfg(test)]
mod tests;
