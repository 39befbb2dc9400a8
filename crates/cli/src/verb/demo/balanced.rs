//! `skyhaul demo ejfat`: events of one sender, through a load balancer, to four workers, on this machine alone.
//!
//! ```text
//!                              ┌─▶ worker 1
//!   sender ─▶ skyhaul balance ─┼─▶ worker 2   killed half way
//!                              ├─▶ worker 3   takes its time over each event
//!                              └─▶ worker 4
//! ```
//!
//! Each of them is this command in a process of its own, started as a user would. Workers list the events they received;
//! with the balancer's counters, every event is accounted for: received whole by one worker, or lost with the one that was
//! killed.

mod account;
mod cast;
mod children;
mod page;
mod report;

use super::super::receiving;
use super::super::written::{command_line, write};
use crate::Outcome;
use crate::args::DemoArgs;
use crate::interrupt::Interrupt;
use crate::print::Progress;
use account::{Account, Told};
use anyhow::{Result, ensure};
use cast::{KILLED, SLOW, WORKERS};
use children::{Child, Ports, SOON, wait};
use report::{BalanceDemo, Sample};
use skyhaul::io::host::machine::Machine;
use skyhaul::io::quantity::{Rate, Size};
use skyhaul::report::VERSION;
use skyhaul_daemon::client::{ClientOptions, ControlPlane};
use std::path::Path;
use std::time::{Duration, Instant};

/// Rate if none is given: what any machine can send, balance and receive at a time.
const RATE: u64 = 1_000_000_000;
/// Bytes of an event.
const EVENT: u64 = 256 << 10;
/// How much of its even share the slow worker can take.
const SLOW_PART: f64 = 0.4;
/// How often the balancer is asked.
const SAMPLE: Duration = Duration::from_millis(200);
pub(super) fn run(args: &DemoArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let place = super::place::take(args.directory.as_deref(), "demo-ejfat")?;
    let directory = &place.path;
    let demo = play(args, directory, &interrupt)?;
    write(directory, "report.html", &page::page(&demo))?;
    if args.output.json {
        receiving::print_json(&demo)?;
    } else {
        tell_text!("{}", demo.account);
        say!("  plots: {}", directory.join("report.html").display());
    }
    Ok(if demo.account.holds() && !demo.interrupted { Outcome::Done } else { Outcome::Failed })
}

/// Start all, kill one, wait for the end, and count.
fn play(args: &DemoArgs, directory: &Path, interrupt: &Interrupt) -> Result<BalanceDemo> {
    let mut progress = Progress::new(args.output.quiet);
    let rate = args.rate.unwrap_or(Rate::from_bits_per_second(RATE));
    progress.show("starting a balancer and four workers");
    let ports = Ports::find(WORKERS)?;
    let (balancer, uri) = children::balancer(directory, &ports)?;
    let plane = ControlPlane::new(&uri.parse()?, &ClientOptions::default())?;
    let even = EVENT as f64 * 8.0 / rate.bits_per_second() as f64 * WORKERS as f64;
    let work = |n| if n == SLOW { Duration::from_secs_f64(even / SLOW_PART) } else { Duration::ZERO };
    let start = |n| Ok(Some(children::worker(directory, n, ports.workers[n], &uri, work(n))?));
    let mut workers = (0..WORKERS).map(start).collect::<Result<Vec<Option<Child>>>>()?;
    // The first calendar is the first worker's; the others share what follows as soon as something is known of ticks.
    wait("not all four workers have registered", || {
        workers.iter_mut().flatten().try_for_each(Child::expect_running)?;
        Ok(plane.status()?.workers.len() == WORKERS)
    })?;

    let mut sender = children::sender(&uri, rate, Size::from_bytes(EVENT), args.duration)?;
    let begun = Instant::now();
    let (mut samples, mut killed_at, mut slots) = (Vec::new(), None, 0);
    while !sender.has_ended()? && !interrupt.is_set() {
        std::thread::sleep(SAMPLE);
        let now = begun.elapsed();
        if now >= args.duration.duration() / 2 && killed_at.is_none() {
            drop(workers[KILLED].take());
            killed_at = Some(now.as_secs_f64());
        }
        let (sample, all) = sample(&plane, &ports, now.as_secs_f64())?;
        progress.show(&format!("{:4.1} s, slots of the workers {:?}", sample.seconds, sample.slots));
        slots = all;
        samples.push(sample);
        ensure!(now < args.duration.duration() + SOON, "the sender does not end");
    }
    progress.show("waiting for the last events");
    let send = sender.end(SOON)?;
    // A worker that leaves waits for its last packets, and works off its queue.
    let end = |worker: Option<Child>| worker.map(|worker| worker.end(SOON)).transpose();
    let workers = workers.into_iter().map(end).collect::<Result<Vec<_>>>()?;
    let balance = balancer.end(SOON)?;
    progress.clear();
    let lists = (0..WORKERS).map(|n| account::read(&children::list(directory, n)));
    let told =
        Told { send: &send, balance: &balance, workers: &workers, lists: lists.collect::<Result<_>>()? };
    let account = Account::of(&told, &ports, KILLED)?;
    Ok(BalanceDemo {
        version: VERSION,
        command: command_line(),
        machine: Machine::this().to_string(),
        rate: rate.bits_per_second(),
        event_bytes: EVENT,
        killed_at: killed_at.unwrap_or(0.0),
        slots,
        account,
        samples,
        send,
        workers,
        balance,
        interrupted: interrupt.is_set(),
    })
}

/// The workers' slots and queues, and how many slots there are.
fn sample(plane: &ControlPlane, ports: &Ports, seconds: f64) -> Result<(Sample, u32)> {
    let status = plane.status()?;
    let mut sample = Sample { seconds, slots: [0; WORKERS], fill: [0.0; WORKERS] };
    for worker in &status.workers {
        if let Some(n) = ports.workers.iter().position(|port| u32::from(*port) == worker.udp_port) {
            sample.slots[n] = worker.slots_assigned;
            sample.fill[n] = worker.fill_percent;
        }
    }
    Ok((sample, status.slot_resolution))
}
