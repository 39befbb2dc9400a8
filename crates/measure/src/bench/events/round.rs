//! One combination, once.

use super::options::{EventBenchOptions, Setting};
use crate::bench::balance::begun;
use crate::bench::receive::{join, objects};
use skyhaul::balance::{Balance, BalanceOptions, BalanceStatus};
use skyhaul::receive::{Nowhere, Receiver, ReceiverOptions, Running};
use skyhaul::send::Pacing;
use skyhaul::send::events::{
    Event, EventConfig, EventDivision, EventSender, EventSenderOptions, Target, Ticks,
};
use skyhaul_core::balance::AllowList;
use skyhaul_core::wire::{Format, LearnOptions};
use skyhaul_io::address::Endpoint;
use skyhaul_io::host::thread;
use skyhaul_io::memory::{Pool, PoolOptions};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What came of it. Packets that arrived were sent, those forwarded arrived, and so on.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) seconds: f64,
    pub(super) events: u64,
    pub(super) whole: u64,
    pub(super) packets: u64,
    pub(super) arrived: u64,
    pub(super) forwarded: u64,
    pub(super) received: u64,
    pub(super) rejected: u64,
    pub(super) send_cpu: Duration,
    pub(super) balance_cpu: Duration,
    pub(super) receive_cpu: Duration,
    pub(super) imbalance: f64,
    pub(super) mode: String,
}

/// Memory of a worker, bytes, at least so many events.
const MEMORY: u64 = 64 << 20;
const EVENTS: u64 = 16;
/// How long nothing arrives when all has.
const QUIET: Duration = Duration::from_millis(100);

pub(super) fn run(options: &EventBenchOptions, setting: &Setting) -> io::Result<Round> {
    let workers = (0..setting.workers).map(|_| worker(options, setting)).collect::<io::Result<Vec<_>>>()?;
    let balance = BalanceOptions {
        family: options.family,
        data: vec![SocketAddr::new(options.address, 0)],
        threads: setting.threads,
        allow: AllowList::anyone(),
        ..BalanceOptions::default()
    };
    let balance = begun(&balance, &workers.iter().map(|(at, _)| *at).collect::<Vec<_>>())?;
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
fn worker(options: &EventBenchOptions, setting: &Setting) -> io::Result<(SocketAddr, Running)> {
    let pool = Pool::new(&PoolOptions { total_bytes: 1 << 20, block_bytes: 1 << 20, shared: false })?;
    let learn = LearnOptions { format: Format::Of(options.family), ..LearnOptions::default() };
    let listen = vec![Endpoint::udp(SocketAddr::new(options.address, 0))];
    let mut objects = objects(MEMORY.max(setting.event_bytes * EVENTS));
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
    setting: &Setting,
    balance: &Balance,
    number: usize,
    start: &Arc<Barrier>,
) -> io::Result<JoinHandle<io::Result<Sent>>> {
    let Setting { mtu, event_bytes, senders, rate, .. } = *setting;
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
