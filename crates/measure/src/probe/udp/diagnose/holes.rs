//! Sizes that do not pass, in either direction: long datagrams vanish and short ones arrive, again and again.

use super::super::plan::{Direction, LONGEST, Point, SHORTEST};
use super::super::report::PointReport;
use super::ends::Ends;
use skyhaul::peer::PeerError;
use skyhaul_core::diagnose::{Cause, Finding};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Packets with which a size is tried: one that arrives is enough.
const TRY: u64 = 5;
/// Time between them, in picoseconds.
const APART_PS: u64 = 2_000_000_000;
/// How often the long ones must vanish, and the short ones between them arrive: a link that is gone for a moment takes both.
const TIMES: usize = 3;

/// A direction in which long datagrams vanish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hole {
    direction: Direction,
    /// Octets of the longest payload that passes, and of a longer one that does not.
    pub(super) passes: u32,
    vanishes: u32,
    ipv6: bool,
}

/// The hole of a direction, if there is one.
pub(super) fn hole(
    ends: &mut dyn Ends,
    direction: Direction,
    stop: &AtomicBool,
) -> Result<Option<Hole>, PeerError> {
    let vanishes = ends.longest();
    if vanishes <= SHORTEST {
        return Ok(None);
    }
    for _ in 0..TIMES {
        if passes(ends, vanishes, direction, stop)? || !passes(ends, SHORTEST, direction, stop)? {
            return Ok(None);
        }
    }
    let passes = longest(ends, direction, vanishes, &mut |_, _| {}, stop)?;
    Ok(Some(Hole { direction, passes, vanishes, ipv6: ends.is_ipv6() }))
}

/// Whether datagrams of a size pass without being cut.
fn passes(
    ends: &mut dyn Ends,
    size: u32,
    direction: Direction,
    stop: &AtomicBool,
) -> Result<bool, PeerError> {
    let even = Point::even(size, APART_PS, Duration::from_secs(1));
    let point = Point { packets: TRY, whole: true, only: Some(0), ..even };
    let report = ends.point(&point, direction, stop)?;
    let PointReport { forward, reverse, .. } = report;
    let way = if direction == Direction::Reverse { reverse } else { forward };
    Ok(way.is_some_and(|way| way.arrived > 0))
}

/// The longest datagram that passes without being cut; `tried` is told of each size. What `guess` says is right, mostly; so it and its
/// neighbour are tried first.
pub(in crate::probe::udp) fn longest(
    ends: &mut dyn Ends,
    direction: Direction,
    guess: u32,
    tried: &mut dyn FnMut(u32, bool),
    stop: &AtomicBool,
) -> Result<u32, PeerError> {
    let (mut least, mut too_long) = (SHORTEST, LONGEST + 1);
    let mut first = vec![guess.saturating_add(1), guess, SHORTEST];
    while too_long - least > 1 {
        if stop.load(Ordering::Relaxed) {
            return Err(PeerError::Stopped);
        }
        let size = first.pop().unwrap_or(least + (too_long - least) / 2);
        if size > LONGEST || size < least || size >= too_long {
            continue;
        }
        let passed = passes(ends, size, direction, stop)?;
        tried(size, passed);
        match passed {
            true => least = size,
            false if size == SHORTEST => return Err(nothing_passes()),
            false => too_long = size,
        }
    }
    Ok(least)
}

fn nothing_passes() -> PeerError {
    let why =
        format!("not even datagrams of {SHORTEST} bytes pass\nhint: see whether the path loses: --diagnose");
    PeerError::Io(std::io::Error::other(why))
}

/// Holes as a cause, if there are any.
pub(super) fn finding(holes: &[Hole]) -> Option<Finding> {
    let evidence: Vec<String> = holes.iter().map(Hole::text).collect();
    (!evidence.is_empty()).then_some(Finding { cause: Cause::Mtu, confidence: 0.98, evidence })
}

impl Hole {
    fn text(&self) -> String {
        let way = match self.direction {
            Direction::Reverse => "from the server to here",
            _ => "from here to the server",
        };
        let mtu = self.passes + if self.ipv6 { 48 } else { 28 };
        format!(
            "{way}, no datagram of {} bytes arrived in {TIMES} tries, and shorter ones between did: the longest that passes has {} bytes, an MTU of {mtu}",
            self.vanishes, self.passes
        )
    }
}
