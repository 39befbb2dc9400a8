//! Measurements of simulated paths with a known fault, as the ends see them: packets with stamps, an account, counters.
//!
//! ```text
//!   sender ─▶ its queue ─▶ network: damage, policer, queue, paths … ─▶ ring ─▶ kernel ─▶ socket ─▶ reader
//! ```
//!
//! One campaign has 24 points (rates, sizes, bursts, eight ports twice, a silence) of some hundred packets each. The severity of the
//! fault and everything else are drawn from the seed. Paths without a fault have cross traffic, interrupts that come late,
//! and readers that are not always there.
//!
//! TCP flows are played round trip by round trip, with a known limit ([`play_flow`]).

mod fault;
pub mod matrix;
mod path;

use crate::random::Random;
use path::Path;
use skyhaul_core::diagnose::tcp::{Flow, ReaderTimes, Round};
use skyhaul_core::diagnose::{Account, Case, Cause, Point, Setting};
use skyhaul_core::measure::clock::ClockFit;

/// The points of a campaign at this rate, bit/s, and the time at which each begins, ns.
fn points(rate: f64) -> Vec<Setting> {
    let at = |size: u32, part: f64, sent| {
        let spacing = 8e9 * (f64::from(size) + 66.0) / (rate * part);
        Setting { size, spacing, burst: 1, sent, ..Setting::default() }
    };
    let mut all = vec![at(1472, 1.0, 1600), at(1472, 0.5, 800), at(1472, 0.25, 800), at(340, 1.0, 2400)];
    all.push(Setting { burst: 64, ..at(1472, 0.25, 1280) });
    // Ports are measured twice: what their hash decides does not change.
    all.extend((1..=8).chain(1..=8).map(|flow| Setting { flow, ..at(1472, 0.25, 300) }));
    all.push(Setting { idle: 200.0, ..at(1472, 0.25, 300) });
    all.push(at(8972, 0.5, 250));
    all.push(at(1472, 0.125, 500));
    all
}

/// Play a campaign on a path with these faults.
#[must_use]
pub fn play(causes: &[Cause], seed: u64) -> Case {
    let mut rng = Random(seed);
    let rate = 10f64.powf(rng.uniform(8.3, 9.3));
    let settings = points(rate);
    let mut path = Path::new(rate, &mut rng);
    causes.iter().for_each(|&cause| fault::set(cause, &mut path, &mut rng));
    let mut case = Case::default();
    let mut exchanges = Vec::new();
    let mut account =
        Account { nic_out: Some(0), nic_in: Some(0), ip_in: Some(0), udp_in: Some(0), ..Account::default() };
    let mut clock = 1e9;
    for (index, setting) in settings.iter().enumerate() {
        clock += 1e9 + setting.idle * 1e9;
        let (arrived, counts) = path.run(setting, index, clock, &mut rng);
        let add = |total: &mut Option<u64>, n: u64| *total = total.map(|t| t + n);
        account.sent += setting.sent;
        add(&mut account.nic_out, counts.nic_out);
        add(&mut account.nic_in, counts.nic_in);
        add(&mut account.ip_in, counts.ip_in);
        add(&mut account.udp_in, counts.udp_in);
        let point = Point::of(&Setting { reader_busy: counts.reader_busy, ..*setting }, &arrived);
        let behind = counts.nic_in.saturating_sub(arrived.len() as u64);
        let point = Point { in_hosts: setting.sent - counts.nic_out + behind, ..point };
        account.received += point.received;
        case.points.push(point);
        exchanges.extend((0..12).map(|n| path.exchange(clock + 5e8 + f64::from(n) * 1e7, &mut rng)));
        clock += setting.spacing * setting.sent as f64;
    }
    case.account = account;
    case.counters = path.counters;
    case.clock_steps =
        ClockFit::new(&exchanges).map_or(Vec::new(), |fit| fit.steps().map(|step| step.nanos).collect());
    case
}

/// The limits of a flow.
pub const LIMITS: [Cause; 7] = [
    Cause::ReceiverWindow,
    Cause::SendBuffer,
    Cause::SlowApplication,
    Cause::SlowDisk,
    Cause::Loss,
    Cause::ShallowBuffer,
    Cause::PausingReader,
];

/// What bounds the flow, segments and parts of the path's rate.
struct Bounds {
    receiver: f64,
    sender: f64,
    application: f64,
    reader: f64,
    loss: f64,
    buffer: f64,
    disk: bool,
}

/// A flow of CUBIC over a path, bounded by this, or by the path alone.
#[must_use]
pub fn play_flow(cause: Option<Cause>, seed: u64) -> Flow {
    let mut random = Random(seed ^ 0x7C9);
    let segments = 10f64.powf(random.uniform(2.0, 3.7));
    let rtt = random.uniform(0.005, 0.2);
    let mut bounds = Bounds {
        receiver: segments * random.uniform(4.0, 10.0),
        sender: segments * random.uniform(4.0, 10.0),
        application: random.uniform(2.0, 5.0),
        reader: random.uniform(2.0, 5.0),
        loss: 0.0,
        buffer: random.uniform(0.6, 1.5),
        disk: false,
    };
    let part = random.uniform(0.15, 0.7);
    match cause {
        Some(Cause::ReceiverWindow) => bounds.receiver = segments * part,
        Some(Cause::SendBuffer) => bounds.sender = segments * part,
        Some(Cause::SlowApplication | Cause::SlowDisk) => {
            bounds.disk = cause == Some(Cause::SlowDisk);
            let sends = random.pick(&[0, 1]) == 0;
            *if sends { &mut bounds.application } else { &mut bounds.reader } = part;
        }
        // Seen from the sender, it is as slow as what it reads in the mean.
        Some(Cause::PausingReader) => bounds.reader = part,
        Some(Cause::Loss) => bounds.loss = random.uniform(8.0, 60.0) / segments / segments,
        Some(Cause::ShallowBuffer) => bounds.buffer = random.uniform(0.01, 0.2),
        _ => {}
    }
    let is_slow = bounds.reader < 1.0;
    let flow = rounds(&bounds, segments, rtt, &mut random);
    Flow { reader: Some(reader(cause, is_slow, &mut random)), ..flow }
}

/// What the receiver's thread did: on any host, it pauses now and then.
fn reader(cause: Option<Cause>, is_slow: bool, random: &mut Random) -> ReaderTimes {
    let (short, paused) = match (cause, is_slow) {
        (Some(Cause::PausingReader), _) => (random.uniform(0.0, 0.05), random.uniform(0.15, 0.9)),
        (_, true) => (random.uniform(0.7, 0.98), random.uniform(0.0, 0.02)),
        _ => (random.uniform(0.0, 0.1), random.uniform(0.0, 0.02)),
    };
    ReaderTimes { waited: 1.0 - short - paused, short, paused, room: 1.0, ..ReaderTimes::default() }
}

fn rounds(bounds: &Bounds, segments: f64, rtt: f64, random: &mut Random) -> Flow {
    let mut flow = Flow { min_rtt: rtt, ..Flow::default() };
    let (mut window, mut top, mut since, mut starting) = (10.0f64, 0.0f64, 0.0, true);
    let (mut away, mut disk) = (0.0, 0.0);
    // Segments that the sender's system hands down as one, and how many are lost each time.
    let burst = random.uniform(1.0, 44.0).min(segments / 8.0);
    for _ in 0..1500 {
        let read =
            if bounds.reader < 1.0 { bounds.receiver.min(segments * bounds.reader) } else { bounds.receiver };
        let given = segments * bounds.application * random.uniform(0.9, 1.1);
        let sent = window.min(read).min(bounds.sender).min(given).min(segments * (1.0 + bounds.buffer));
        let queue = ((sent - segments) / segments).max(0.0);
        let time = rtt * (1.0 + queue) + random.uniform(0.0, 3e-4);
        let at = flow.seconds;
        flow.seconds += time;
        flow.segments += sent as u64;
        let idle = if given <= sent * 1.001 { (1.0 - given / segments).max(0.0) } else { 0.0 };
        flow.busy += time * (1.0 - idle);
        let held = window > sent * 1.001 && idle == 0.0;
        flow.rwnd_limited += if held && sent >= read { time } else { 0.0 };
        flow.sndbuf_limited += if held && sent >= bounds.sender { time } else { 0.0 };
        let slow = if bounds.reader < 1.0 { 1.0 - bounds.reader * 0.3 } else { 0.02 };
        away += time * slow;
        disk += if bounds.disk { time * random.uniform(0.5, 0.95) } else { time * random.uniform(0.0, 0.1) };
        let (mut lost, before) = (0, window);
        let overflow = sent >= segments * (1.0 + bounds.buffer) * 0.999 - burst * random.uniform(0.0, 1.0);
        let hit = random.chance(1.0 - (1.0 - bounds.loss).powf(sent));
        if overflow || hit {
            // All of a burst that finds no room, or one by chance and now and then another.
            lost = 1 + random.below(if overflow { burst as u64 } else { 2 }) as u32;
            (top, window, since, starting) = (sent, sent * 0.7, 0.0, false);
        } else if starting {
            window = (window * 2.0).min(segments * 20.0);
        } else {
            since += time;
            let k = (top * 0.3 / 0.4f64).cbrt();
            window = (0.4 * (since - k).powi(3) + top).max(window + 0.5);
        }
        let (sent, rate) = (sent as u32, sent / time);
        flow.rounds.push(Round { at, rtt: time, window: before, lost, sent, rate });
    }
    (flow.reader_away, flow.disk_wait) = (away / flow.seconds, disk / flow.seconds);
    flow.retransmitted = flow.rounds.iter().map(|round| u64::from(round.lost)).sum();
    flow
}
