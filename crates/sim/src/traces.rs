//! Measurements of simulated paths with a known fault, as the ends see them: packets with stamps, an account, counters.
//!
//! ```text
//!   sender ─▶ its queue ─▶ network: damage, policer, queue, paths … ─▶ ring ─▶ kernel ─▶ socket ─▶ reader
//! ```
//!
//! One campaign has 24 points (rates, sizes, bursts, eight ports twice, a silence) of some hundred packets each. The severity of the
//! fault and everything else are drawn from the seed. Paths without a fault have cross traffic, interrupts that come late,
//! and readers that are not always there.

mod fault;
pub mod matrix;
mod parts;
mod path;
pub mod tcp;

use crate::random::Random;
use path::Path;
use skyhaul_core::{
    diagnose::{Account, Case, Cause, Point, Setting},
    measure::clock::ClockFit,
};

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
