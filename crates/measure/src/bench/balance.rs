//! One run of one balancer: the real one, or a bare loop that sends on what it receives.
//!
//! ```text
//!   sender (its CPU) ─▶ balancer (the receiver's CPU) ─▶ members (the sender's CPU): counted, not copied
//!      ▲                                                    │
//!      └──────────────── closed loop ───────────────────────┘
//! ```
//!
//! The figures of the receiving thread are the balancer's. On the loopback, the kernel's work for a packet that is sent on
//! is done on the balancer's CPU, too, so its CPU time is that of both directions.

use super::flow::Flow;
use super::flow::Meter;
use super::options::BenchResult;
use super::options::search;
use super::options::{BenchLoad, BenchOptions, wrong};
use super::receive::{Received, account, give, join, listen, settle};
use skyhaul::balance::{Balance, BalanceOptions, BalanceStatus};
use skyhaul_core::balance::{AllowList, Load as Queue, Member, PortRange, Registration, WorkerState};
use skyhaul_core::hint::Hint;
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::{BareReceiver, BareReceiverOptions, BareSender, Give, Take};
use skyhaul_io::host::thread;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Members, which share one socket.
const MEMBERS: usize = 4;
/// Until a table is in use.
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(options: &BenchOptions, candidate: &str, size: usize) -> io::Result<BenchResult> {
    if options.networks.is_some() {
        return Err(wrong(format_args!("a balancer is measured in one network{}", Hint("omit --netns"))));
    }
    match options.load {
        BenchLoad::Search => {
            search(&options.stop, |rate| once(options, candidate, size, BenchLoad::Rate(rate)))
        }
        load => once(options, candidate, size, load),
    }
}

fn once(options: &BenchOptions, candidate: &str, size: usize, load: BenchLoad) -> io::Result<BenchResult> {
    let flow = Arc::new(Flow::default());
    let process = thread::process_cpu_time();
    let label = if candidate == "skyhaul" { options.shape(size)?.label() } else { 0 };
    let (members, counted) = members(options, size, label, &flow)?;
    let balancer = match candidate {
        "skyhaul" => Balancer::Ours(Box::new(ours(options, members)?)),
        _ => Balancer::bare(options, candidate, members, size, &flow)?,
    };
    let given = give(options, balancer.at(), size, load, &flow);
    flow.done.store(true, Ordering::Release);
    let counted = join(counted)??;
    let (cpu, how) = balancer.end()?;
    let received = Received { cpu, how, ..counted };
    Ok(account(given?, &received, thread::process_cpu_time() - process))
}

/// Count what reaches the members without their labels, as bytes that were sent to the balancer.
fn members(
    options: &BenchOptions,
    size: usize,
    label: usize,
    flow: &Arc<Flow>,
) -> io::Result<(SocketAddr, JoinHandle<io::Result<Received>>)> {
    let (at, flow, cpu) = (listen(options), flow.clone(), options.cpus.0);
    let packet_bytes = size - label;
    let (ready, address) = channel();
    let thread = std::thread::Builder::new().name("bench-members".into()).spawn(move || {
        settle(cpu, None)?;
        let bare = BareReceiverOptions { take: Take::Drain, packet_bytes, strip: 0, memory: 1 << 20 };
        let mut receiver = BareReceiver::open(&at, &bare)?;
        let _ = ready.send(receiver.local());
        let (mut meter, mut all) = (Meter::new(), Received::default());
        loop {
            let before = all.packets;
            receiver.poll(&mut |taken| {
                all.packets += taken.packets;
                all.bytes = all.packets * size as u64;
                flow.received.0.store(all.bytes, Ordering::Relaxed);
            })?;
            if all.packets > before {
                meter.arrived();
            } else if flow.done.load(Ordering::Acquire) {
                break;
            }
        }
        all.wall = meter.read().0;
        Ok(all)
    })?;
    match address.recv() {
        Ok(address) => Ok((address, thread)),
        Err(_) => Err(join(thread)?.err().unwrap_or_else(|| io::Error::other("no members"))),
    }
}

enum Balancer {
    Ours(Box<Balance>),
    Bare(SocketAddr, JoinHandle<io::Result<Duration>>, &'static str),
}

impl Balancer {
    /// Every train, or packet, to one address as it is.
    fn bare(
        options: &BenchOptions,
        candidate: &str,
        to: SocketAddr,
        size: usize,
        flow: &Arc<Flow>,
    ) -> io::Result<Balancer> {
        let (take, give, how) = match candidate {
            "single" => (Take::Single, Give::Single, "recv, send: a packet at a time, unread"),
            _ => (
                Take::Drain,
                Give::Trains,
                "recvmmsg of 4 trains (UDP_GRO), sendmmsg of each (UDP_SEGMENT), unread",
            ),
        };
        let (at, flow, cpu) = (listen(options), flow.clone(), options.cpus.1);
        let (ready, address) = channel();
        let thread = std::thread::Builder::new().name("bench-forward".into()).spawn(move || {
            settle(cpu, None)?;
            let bare = BareReceiverOptions { take, packet_bytes: size, strip: 0, memory: 1 << 20 };
            let mut receiver = BareReceiver::open(&at, &bare)?;
            let mut sender = BareSender::open(&Endpoint::udp(to), give, size)?;
            let _ = ready.send(receiver.local());
            let (mut meter, mut failed) = (Meter::new(), None);
            loop {
                let mut any = false;
                receiver.poll_bytes(&mut |train| {
                    any = true;
                    failed = sender.send(train).err().or(failed.take());
                })?;
                if let Some(error) = failed {
                    return Err(error);
                }
                if any {
                    meter.arrived();
                } else if flow.done.load(Ordering::Acquire) {
                    return Ok(meter.read().1);
                }
            }
        })?;
        match address.recv() {
            Ok(at) => Ok(Balancer::Bare(at, thread, how)),
            Err(_) => Err(join(thread)?.err().unwrap_or_else(|| io::Error::other("no balancer"))),
        }
    }

    fn at(&self) -> Endpoint {
        Endpoint::udp(match self {
            Balancer::Ours(balance) => balance.data()[0],
            Balancer::Bare(at, ..) => *at,
        })
    }

    /// Its CPU time, and how it worked.
    fn end(self) -> io::Result<(Duration, String)> {
        match self {
            Balancer::Ours(balance) => {
                let status = balance.stop();
                let lost = status
                    .refused
                    .iter()
                    .filter(|(_, n)| *n > 0)
                    .map(|(why, n)| format!(", {n} refused: {why}"));
                let lost: String = lost.collect();
                let how = format!("{MEMBERS} members, labels removed, sent as {}{lost}", status.mode);
                Ok((status.cpu, how))
            }
            Balancer::Bare(_, thread, how) => Ok((join(thread)??, how.to_owned())),
        }
    }
}

/// The real one, with a calendar in use.
fn ours(options: &BenchOptions, members: SocketAddr) -> io::Result<Balance> {
    let family = options.format.family();
    let usual = BalanceOptions::default();
    let options = BalanceOptions {
        family: family.unwrap_or(usual.family),
        data: vec![SocketAddr::new(options.address, 0)],
        threads: 1,
        cpus: vec![options.cpus.1],
        allow: AllowList::anyone(),
        ..usual
    };
    start_balancer(&options, &[members; MEMBERS])
}

/// Starts a balancer, and waits until a calendar with equal shares of `members` is in use.
///
/// # Errors
/// The balancer does not start, or refuses a member.
pub fn start_balancer(options: &BalanceOptions, members: &[SocketAddr]) -> io::Result<Balance> {
    let balance = Balance::start(options).map_err(io::Error::other)?;
    for at in members {
        let no = || io::Error::other("no such port");
        let member = Member::new(at.ip(), at.port(), PortRange::default(), false).ok_or_else(no)?;
        let like = Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 };
        let session = balance.register(like).map_err(io::Error::other)?;
        let ready = WorkerState { ready: true, signal: 0.0, load: Queue::default() };
        balance.handle_state(session, ready).map_err(io::Error::other)?;
    }
    let since = Instant::now();
    let is_used = |status: &BalanceStatus| status.epoch > 0 && status.tables.0 == status.tables.1;
    while !is_used(&balance.status()) {
        if since.elapsed() > START_TIMEOUT {
            return Err(io::Error::other("the balancer does not begin"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(balance)
}
