//! The points of a campaign.

use crate::probe::udp::point::{Burst, UdpPoint};
use skyhaul_core::placement::Nanos;
use std::time::Duration;

/// Most packets of a point, which must all be kept, duplicates too.
pub(super) const MAX_POINT_PACKETS: u64 = 60_000;
/// Length of each point but the first, of that of the first.
pub(super) const EACH: f64 = 0.4;
/// Packets of a burst, and how many bursts.
const BURST: u32 = 64;
const BURSTS: u64 = 20;
/// Longest time of all bursts, of that of the first point, unless that is less than three.
const BURSTS_TAKE: f64 = 2.0;
/// Smaller packets, to tell a limit of packets from one of bits.
pub(super) const SMALL: u32 = 340;
/// Packets per second of small packets that a receiver on any machine reads.
pub(super) const SMALL_PPS: f64 = 60_000.0;

pub(super) fn even(size: u32, spacing_ps: u64, time: Duration) -> UdpPoint {
    let even = UdpPoint::even(size, spacing_ps, time);
    UdpPoint { packets: even.packets.min(MAX_POINT_PACKETS), only: Some(0), ..even }
}

/// Picoseconds between packets.
pub(super) fn spacing(pps: f64) -> u64 {
    (1e12 / pps.max(0.1)) as u64
}

/// Fractions of a rate, small packets and bursts.
pub(super) fn campaign(size: u32, time: Duration, pps: f64) -> Vec<UdpPoint> {
    let at = |size: u32, pps: f64| even(size, spacing(pps), time.mul_f64(EACH));
    let small = SMALL.min(size);
    // The same bits in smaller packets.
    let more = f64::from(size + 66) / f64::from(small + 66);
    let period_ps = (f64::from(BURST) * 4e12 / pps.max(0.1)) as u64;
    let bursts =
        (Nanos::from(time.mul_f64(BURSTS_TAKE)).0.saturating_mul(1000) / period_ps.max(1)).clamp(3, BURSTS);
    let bursts = UdpPoint {
        packets: u64::from(BURST) * bursts,
        burst: Some(Burst { packets: BURST, period_ps: period_ps.max(1) }),
        only: Some(0),
        ..UdpPoint::even(size, 0, Duration::from_secs(10))
    };
    vec![
        at(size, pps),
        at(size, pps / 2.0),
        at(size, pps / 4.0),
        at(small, (pps * more).min(SMALL_PPS.max(pps))),
        bursts,
        at(size, pps / 8.0),
    ]
}
