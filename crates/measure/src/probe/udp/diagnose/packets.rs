//! The test that shows a limit of packets per second.
//!
//! A limit of bits passes more of smaller packets, and what loses a part of any rate passes more of more: only a limit of packets passes
//! the same number of both sizes, and all of less.

use super::cause::evidence;
use super::points::{EACH, SMALL, SMALL_PPS, even, spacing};
use crate::probe::TestDirection;
use crate::probe::udp::point::UdpPointReport;
use crate::probe::udp::search::TestPath;
use skyhaul::peer::PeerError;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Offered, as parts of the limit: packets as long as those that were asked for, small ones, and fewer of the former.
const OFFERED: [f64; 3] = [2.0, 2.0, 0.75];
/// Loss beyond the limit must be at least this, of the half that is expected: a full bucket passes some.
const LEAST_LOSS: f64 = 0.3;
/// Loss below the limit must be less than this.
const MOST_LOSS: f64 = 0.02;
/// By how much the rates of both sizes may differ, from each other and from the one that passed before.
const SAME: f64 = 0.15;
/// How many times longer the longer packets are than the small ones.
const LONGER: u32 = 2;

/// What the test says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PacketLimit {
    /// So many packets per second pass, of small and of long ones.
    Confirmed { small: f64, long: f64 },
    /// Both sizes do not pass at one rate, or fewer packets are lost too.
    Refuted,
    /// No test is possible: packets are short, or the rate is beyond what hosts keep.
    Untested,
}

/// Test whether about `pps` packets per second pass, whatever their size; with the points of the test.
pub(super) fn packet_limit(
    ends: &mut dyn TestPath,
    (size, pps, pause): (u32, f64, Duration),
    time: Duration,
    direction: TestDirection,
    stop: &AtomicBool,
) -> Result<(PacketLimit, Vec<UdpPointReport>), PeerError> {
    if size < LONGER * SMALL || pps * OFFERED[1] > SMALL_PPS {
        return Ok((PacketLimit::Untested, Vec::new()));
    }
    let mut reports = Vec::new();
    for (size, part) in [size, SMALL, size].into_iter().zip(OFFERED) {
        ends.rest(pause);
        reports.push(ends.point(
            &even(size, spacing(part * pps), time.mul_f64(2.0 * EACH)),
            direction,
            stop,
        )?);
    }
    let found = evidence(&reports, None, false);
    let [long, small, below] = &found.case.points[..] else { return Ok((PacketLimit::Untested, reports)) };
    let same = |a: f64, b: f64| (a / b.max(1.0) - 1.0).abs() < SAME;
    let limit = match (long.delivered_pps, small.delivered_pps) {
        // The sender did not keep up, so nothing was tested.
        _ if long.pps().min(small.pps()) < 0.75 * OFFERED[0] * pps => PacketLimit::Untested,
        (by_long, by_small)
            if long.loss().min(small.loss()) > LEAST_LOSS
                && below.loss() < MOST_LOSS
                && same(by_long, by_small)
                && same(by_long, pps) =>
        {
            PacketLimit::Confirmed { small: by_small, long: by_long }
        }
        _ => PacketLimit::Refuted,
    };
    Ok((limit, reports))
}
