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
//!
//! The page shows the account, and the workers' shares and queues over time.

use super::super::output::{command_line, write};
use super::super::receiving;
use super::place::take;
use crate::args::DemoArgs;
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress};
use crate::report::chart::{Chart, Panel, Series, WIDTH};
use crate::report::drawing::Scale;
use crate::report::page::Page;
use crate::report::table::Table;
use crate::report::words::json;
use account::{Account, CommandReport, KILLED, Ports, SLOW, WORKERS, name};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use skyhaul::io::file::failed;
use skyhaul::io::host::limit::Limit;
use skyhaul::io::host::machine::Machine;
use skyhaul::io::host::program::{Place, Program};
use skyhaul::io::quantity::{Rate, Size, Span};
use skyhaul::report::VERSION;
use skyhaul_daemon::client::{ClientOptions, ControlPlane};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

mod account;

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
    let place = take(args.directory.as_deref(), "demo-ejfat")?;
    let directory = &place.path;
    let demo = play(args, directory, &interrupt)?;
    write(directory, "report.html", &page(&demo))?;
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
    let (balancer, uri) = balancer(directory, &ports)?;
    let plane = ControlPlane::new(&uri.parse()?, &ClientOptions::default())?;
    let even = EVENT as f64 * 8.0 / rate.bits_per_second() as f64 * WORKERS as f64;
    let work = |n| if n == SLOW { Duration::from_secs_f64(even / SLOW_PART) } else { Duration::ZERO };
    let start = |n| Ok(Some(worker(directory, n, ports.workers[n], &uri, work(n))?));
    let mut workers = (0..WORKERS).map(start).collect::<Result<Vec<Option<Child>>>>()?;
    // The first calendar is the first worker's; the others share what follows as soon as something is known of ticks.
    wait("not all four workers have registered", || {
        workers.iter_mut().flatten().try_for_each(Child::expect_running)?;
        Ok(plane.status()?.workers.len() == WORKERS)
    })?;

    let mut sender = sender(&uri, rate, Size::from_bytes(EVENT), args.duration)?;
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
        ensure!(now < args.duration.duration() + START_TIMEOUT, "the sender does not end");
    }
    progress.show("waiting for the last events");
    let send = sender.end(START_TIMEOUT)?;
    // A worker that leaves waits for its last packets, and works off its queue.
    let end = |worker: Option<Child>| worker.map(|worker| worker.end(START_TIMEOUT)).transpose();
    let workers = workers.into_iter().map(end).collect::<Result<Vec<_>>>()?;
    let balance = balancer.end(START_TIMEOUT)?;
    progress.clear();
    let lists = (0..WORKERS).map(|n| account::read(&list(directory, n)));
    let told = CommandReport {
        send: &send,
        balance: &balance,
        workers: &workers,
        lists: lists.collect::<Result<_>>()?,
    };
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

/// How long anything may take to begin or to end.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The list of events of worker `n`.
fn list(directory: &Path, n: usize) -> PathBuf {
    directory.join(format!("worker-{}.csv", n + 1))
}

/// A balancer with a reservation for this host, and its URI.
fn balancer(directory: &Path, ports: &Ports) -> Result<(Child, String)> {
    let path = directory.join("uri");
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(failed("remove", &path, &error).into());
        }
        _ => {}
    }
    let mut command = command(&["balance", "--in-process", "--instances", "1", "--reserve", "demo"])?;
    command.args(["--api", &format!("127.0.0.1:{}", ports.api)]);
    command.args(["--data-port", &ports.data.to_string(), "--sync-port", &ports.sync.to_string()]);
    command.arg("--token-file").arg(directory.join("token")).arg("--uri-file").arg(&path);
    let mut child = Child::start("balance", command)?;
    let mut uri = String::new();
    wait("the balancer has not begun", || {
        child.expect_running()?;
        uri = std::fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
        Ok(!uri.is_empty())
    })?;
    Ok((child, uri))
}

/// A worker that takes `work` over each event.
fn worker(directory: &Path, n: usize, port: u16, uri: &str, work: Duration) -> Result<Child> {
    let name = format!("worker-{}", n + 1);
    let mut command = command(&["receive", "--format", "ejfat", "--join", "--verify", "--memory", "256MiB"])?;
    command.env("EJFAT_URI", uri).args(["--name", &name, "--listen", &format!("udp://127.0.0.1:{port}")]);
    if work > Duration::ZERO {
        command.args(["--work", &format!("{}us", work.as_micros())]);
    }
    command.arg("--list").arg(list(directory, n));
    Child::start(&name, command)
}

/// A sender of events that verify themselves, with ticks from 1 on.
fn sender(uri: &str, rate: Rate, event: Size, duration: Span) -> Result<Child> {
    let mut command = command(&["send", "--format", "ejfat", "--pattern", "--mtu", "9000", "--tick", "1"])?;
    command.env("EJFAT_URI", uri).args(["--event", &event.to_string(), "--rate", &rate.to_string()]);
    command.args(["--duration", &duration.to_string()]);
    Child::start("send", command)
}

/// This command, with a report, and without the reader's configuration.
fn command(words: &[&str]) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.args(words).args(["--json", "--quiet"]).env("SKYHAUL_CONFIG", "/dev/null");
    Ok(command)
}

/// One process; it is killed when this is dropped.
struct Child {
    name: String,
    program: Program,
}

impl Child {
    fn start(name: &str, command: Command) -> Result<Child> {
        let program = Program::start(command, &Place::default(), Limit::none())?;
        Ok(Child { name: name.to_owned(), program })
    }

    /// Whether it has ended.
    fn has_ended(&mut self) -> Result<bool> {
        Ok(self.program.ended().with_context(|| format!("wait for {}", self.name))?.is_some())
    }

    /// # Errors
    /// If it has ended, with what it said last.
    fn expect_running(&mut self) -> Result<()> {
        match self.program.ended().with_context(|| format!("wait for {}", self.name))? {
            Some(how) => bail!("{} ended: {how}", self.name),
            None => Ok(()),
        }
    }

    /// End it as Ctrl-C does, and read its report.
    fn end(self, patience: Duration) -> Result<serde_json::Value> {
        let Child { name, program } = self;
        let ended = program.finish(patience).with_context(|| format!("end {name}"))?;
        if ended.status.is_none() {
            bail!("{name} does not end after {} s", patience.as_secs());
        }
        serde_json::from_slice(&ended.stdout).with_context(|| format!("read the report of {name}"))
    }
}

/// Until something is so.
fn wait(problem: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    let since = Instant::now();
    while !is()? {
        ensure!(since.elapsed() < START_TIMEOUT, "{problem} after {} s", START_TIMEOUT.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The page.
fn page(demo: &BalanceDemo) -> String {
    let mut page = Page::new("Skyhaul demo: a load balancer", "SKYHAUL DEMO");
    let holds = demo.account.holds();
    let verdict = if holds { "every event is accounted for" } else { "not every event is accounted for" };
    page.headline(
        &format!("{} events,", print::count(demo.account.sent)),
        Some((holds, verdict)),
        &[
            &format!(
                "One sender of {}, a load balancer, four workers: one slow, one killed after {:.1} s.",
                print::rate(demo.rate as f64),
                demo.killed_at
            ),
            &demo.machine,
        ],
    );
    page.section(
        "Every event accounted for",
        "Workers list what they received; the balancer counts the packets that it sent to each.",
        &(events(demo) + &workers(demo)),
    );
    let share = |sample: &Sample, n: usize| f64::from(sample.slots[n]) / f64::from(demo.slots.max(1)) * 100.0;
    page.section(
        "Shares",
        "Each event goes to the worker that has its slot of the calendar. The slow worker loses slots, and the others take over \
         those of the one that was killed, 2 s after it was last heard.",
        &plot(demo, "share of the slots, %", &share),
    );
    let fill = |sample: &Sample, n: usize| f64::from(sample.fill[n]) * 100.0;
    page.section(
        "Queues",
        "What workers last reported. A worker that is behind is given less, before its queue is full.",
        &plot(demo, "queue, % full", &fill),
    );
    page.source(&demo.command, &json(demo));
    page.finish()
}

fn events(demo: &BalanceDemo) -> String {
    let rows = demo.account.rows();
    let table = Table::new(&["#events", ""]);
    rows.into_iter().fold(table, |table, (what, count)| table.row(&[&print::count(count), what])).html()
}

fn workers(demo: &BalanceDemo) -> String {
    let mut table = Table::new(&["worker", "#events whole", "#packets sent to it"]);
    for (n, part) in demo.account.parts.iter().enumerate() {
        table = table.row(&[name(n), print::count(part.whole), print::count(part.packets)]);
    }
    table.html()
}

/// A value of each worker over time.
fn plot(demo: &BalanceDemo, title: &str, value: &dyn Fn(&Sample, usize) -> f64) -> String {
    let line = |n: usize| Series::line(name(n), demo.samples.iter().map(move |s| (s.seconds, value(s, n))));
    let last = demo.samples.last().map_or(1.0, |sample| sample.seconds);
    Chart::new(title)
        .x(Scale::linear("seconds").to(last))
        .panel(Panel::new(210.0, Scale::linear(title).at_least(1.0)).all((0..WORKERS).map(line)))
        .mark(demo.killed_at, "killed")
        .inline(WIDTH)
}

/// Shares at one time.
#[derive(Clone, Debug, Serialize)]
struct Sample {
    /// Since the sender began.
    pub(super) seconds: f64,
    /// Slots of each worker, of all that there are.
    pub(super) slots: [u32; WORKERS],
    /// How full their queues are, 0 to 1.
    pub(super) fill: [f32; WORKERS],
}

/// What the demo showed.
#[derive(Clone, Debug, Serialize)]
struct BalanceDemo {
    pub(super) version: u32,
    /// The command that produced it.
    command: String,
    machine: String,
    rate: u64,
    event_bytes: u64,
    /// When the worker was killed, in seconds since the sender began.
    killed_at: f64,
    slots: u32,
    account: Account,
    samples: Vec<Sample>,
    send: serde_json::Value,
    workers: Vec<Option<serde_json::Value>>,
    balance: serde_json::Value,
    interrupted: bool,
}
