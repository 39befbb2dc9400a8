//! Faults, with severities drawn from the seed.

use super::path::Path;
use crate::random::Random;
use crate::traces::path::{Bucket, Change, Cut, Failing, Pauses, Queue};
use skyhaul_core::diagnose::Cause;

/// Give the path this fault. Causes of TCP are not of paths of datagrams and change nothing.
pub(super) fn set(cause: Cause, path: &mut Path, random: &mut Random) {
    // Between packets of the first point, ns.
    let spacing = 8e9 * 1538.0 / path.rate;
    match cause {
        Cause::Policer
        | Cause::PacketRate
        | Cause::FullQueue
        | Cause::Microburst
        | Cause::Sender
        | Cause::BitErrors
        | Cause::BurstLoss
        | Cause::Mtu
        | Cause::Firewall => limit(cause, path, spacing, random),
        Cause::Spraying
        | Cause::Polarisation
        | Cause::RouteChange
        | Cause::ClockStep
        | Cause::Duplication
        | Cause::Pause => way(cause, path, spacing, random),
        _ => host(cause, path, spacing, random),
    }
}

/// What does not pass, or not at this rate.
fn limit(cause: Cause, path: &mut Path, spacing: f64, random: &mut Random) {
    let rate = path.rate;
    match cause {
        Cause::Policer => {
            let most = random.uniform(8.0, 100.0) * 12_304.0;
            path.policer = Some(Bucket {
                per_second: rate * random.uniform(0.35, 0.85),
                most,
                packets: false,
                tokens: most,
                at: 0.0,
            });
        }
        Cause::PacketRate => {
            let most = random.uniform(5.0, 80.0);
            let per_second = 1e9 / spacing * random.uniform(0.35, 2.8);
            path.policer = Some(Bucket { per_second, most, packets: true, tokens: most, at: 0.0 });
        }
        Cause::FullQueue => {
            let drain = rate * random.uniform(0.35, 0.85);
            let delay = random.uniform(150e-6, 3e-3).min(1.5e6 / drain);
            path.queue = Some(Queue::bits(drain, (drain * delay / 8.0).max(20_000.0)));
        }
        Cause::Microburst => {
            path.queue =
                Some(Queue::bits(rate * random.uniform(1.4, 3.0), random.uniform(8.0, 35.0) * 1538.0));
        }
        Cause::Sender => {
            path.sender =
                Some(Queue::bits(rate * random.uniform(0.4, 0.9), random.uniform(5.0, 60.0) * 1538.0));
        }
        Cause::BitErrors => {
            path.bit_errors = 10f64.powf(random.uniform(-6.7, -5.3));
            path.damage_counted = random.chance(0.5);
        }
        Cause::BurstLoss => {
            let packets = 10f64.powf(random.uniform(0.9, 2.0));
            let part = random.uniform(0.006, 0.05);
            path.failing = Some(Failing {
                begins: part / packets,
                ends: 1.0 / packets,
                arrives: random.uniform(0.0, 0.35),
                bad: false,
            });
        }
        Cause::Mtu => path.mtu = random.pick(&[1500, 1600, 2048, 4096, 8000]),
        Cause::Firewall => {
            let cuts = [
                Cut::Silence(random.pick(&[30.0, 60.0, 120.0, 180.0])),
                Cut::After(random.uniform(0.3, 0.9)),
            ];
            path.cut = Some(random.pick(&cuts));
        }
        _ => {}
    }
}

/// Where packets go, how often they come, and what the clocks say of it.
fn way(cause: Cause, path: &mut Path, spacing: f64, random: &mut Random) {
    match cause {
        Cause::Spraying => {
            let paths = random.between(2, 8);
            path.spread = (0..paths).map(|n| n as f64 * spacing * random.uniform(1.3, 12.0)).collect();
            path.round_robin = random.chance(0.5);
        }
        Cause::Polarisation => {
            let bad = random.between(1, 5) as usize;
            let loss = random.uniform(0.03, 0.4);
            path.links = vec![0.0; 9];
            (0..bad).for_each(|n| path.links[1 + (n * 3 + 2) % 8] = loss);
        }
        Cause::RouteChange => {
            let sign = random.pick(&[1.0, -1.0]);
            path.route = Some(Change {
                point: random.below(3) as usize,
                part: random.uniform(0.3, 0.65),
                gap: random.between(8, 120),
                nanos: (sign * random.uniform(60e3, 2e6)).max(-0.8 * path.least[0]),
                hops: random.below(3) as u8,
            });
        }
        Cause::ClockStep => {
            let size = (path.least[0] + path.least[1]) * random.uniform(1.5, 20.0) + 200e3;
            let nanos = size * random.pick(&[1.0, -1.0]);
            path.step = Some(Change {
                point: random.between(2, 12) as usize,
                part: random.uniform(0.2, 0.8),
                gap: 0,
                nanos,
                hops: 0,
            });
        }
        Cause::Duplication => path.doubled = 10f64.powf(random.uniform(-2.7, -0.7)),
        Cause::Pause => {
            path.pause =
                Some(Pauses { chance: random.uniform(2e-3, 1e-2), length: random.uniform(400e3, 1e6) });
        }
        _ => {}
    }
}

/// What the receiving host does.
fn host(cause: Cause, path: &mut Path, spacing: f64, random: &mut Random) {
    match cause {
        Cause::NicRing => {
            let room = random.uniform(20.0, 200.0);
            let pauses = Pauses {
                chance: random.uniform(2e-3, 6e-3),
                length: room * spacing * random.uniform(1.5, 4.0),
            };
            path.starved = Some((pauses, room));
        }
        Cause::Backlog => {
            path.backlog =
                Some(Queue::packets(1e9 / spacing * random.uniform(0.4, 0.9), random.uniform(5.0, 60.0)));
        }
        Cause::Moderation => path.comb = spacing * random.uniform(4.0, 15.0) + 25e3,
        Cause::IdleStates => {
            path.wake = Some((spacing * random.uniform(10.0, 25.0), random.uniform(40e3, 250e3)));
        }
        Cause::Reader => {
            (path.service, path.socket) =
                (spacing / random.uniform(0.3, 0.9), random.between(20, 200) as usize);
        }
        Cause::SocketBuffer | Cause::UdpMemory => {
            path.socket = random.between(20, 150) as usize;
            path.memory = cause == Cause::UdpMemory;
            let length = path.socket as f64 * spacing * random.uniform(1.5, 5.0);
            path.away = Pauses { chance: random.uniform(1e-3, 4e-3), length };
        }
        _ => {}
    }
}
