//! Disk → network → disk: which part bounds a transfer.
//!
//! Predicted from the rates measured for disks alone and the rate given for the network, and measured with the parts at
//! work together: files read into a paced TCP connection on the loopback, and a paced connection written to files. Each
//! way is measured by itself, because on the two ends of a real transfer they are on different hosts.
//!
//! Limits: on the loopback this host does the network's work of both ends, so a result of [`Bound::Host`] may be twice as
//! good between two hosts.

use super::bound::{Bound, Budget, Piped};
use super::options::{MeasureOptions, Mode, Operation};
use super::pipe::{self, Waited};
use super::report::Point;
use std::io;

/// The highest rate of the points of an operation, past the page cache if that was measured.
fn best(points: &[Point], operation: Operation) -> Option<&Point> {
    let of = |mode: Mode| {
        points
            .iter()
            .filter(|point| point.operation == operation && point.mode == mode && point.bytes > 0)
            .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    };
    of(Mode::Direct).or_else(|| of(Mode::Buffered))
}

/// Predict from `points`, then measure both ways.
///
/// # Errors
/// If the loopback cannot be used.
pub(super) fn run(
    options: &MeasureOptions,
    rate: u64,
    points: &[Point],
    progress: &mut dyn FnMut(&str),
) -> io::Result<Budget> {
    let network = rate as f64;
    let mut budget = Budget { network_bits_per_second: network, ..Budget::default() };
    let mut parts = vec![(network, Bound::Network)];
    for (operation, bound) in [(Operation::Read, Bound::Read), (Operation::Write, Bound::Write)] {
        let Some(point) = best(points, operation) else { continue };
        let disk = point.bytes_per_second * 8.0;
        parts.push((disk, bound));
        let (predicted, of) = slowest(&[(network, Bound::Network), (disk, bound)]);
        let waited = pipe::run(options, point, rate, progress)?;
        let piped = Some(Piped {
            predicted_bits_per_second: predicted,
            predicted_bound: of,
            measured_bits_per_second: waited.bits_per_second(),
            measured_bound: verdict(&waited, bound),
            seconds: waited.seconds,
            disk_waited: waited.disk,
            network_waited: waited.network,
            paced: waited.paced,
            cpu_seconds_per_gb: waited.cpu / (waited.bytes as f64 / 1e9).max(1e-9),
            error: waited.error.clone(),
        });
        if operation == Operation::Read {
            (budget.read_bits_per_second, budget.sending) = (Some(disk), piped);
        } else {
            (budget.write_bits_per_second, budget.receiving) = (Some(disk), piped);
        }
    }
    let (through, bound) = slowest(&parts);
    (budget.through_bits_per_second, budget.bound) = (Some(through), Some(bound));
    Ok(budget)
}

fn slowest(parts: &[(f64, Bound)]) -> (f64, Bound) {
    parts.iter().copied().reduce(|a, b| if b.0 < a.0 { b } else { a }).unwrap_or((0.0, Bound::Host))
}

/// The part that is never waiting is the one that bounds.
fn verdict(waited: &Waited, disk: Bound) -> Bound {
    // Held to its rate most of the time, the network could not have been faster.
    if waited.network > waited.disk && waited.network > waited.paced {
        disk
    } else if waited.paced >= 0.1 {
        Bound::Network
    } else {
        Bound::Host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_never_waits_bounds() {
        let of = |disk, network, paced| Waited { disk, network, paced, ..Waited::default() };
        assert_eq!(verdict(&of(0.02, 0.9, 0.0), Bound::Read), Bound::Read);
        assert_eq!(verdict(&of(0.9, 0.05, 0.8), Bound::Read), Bound::Network);
        assert_eq!(verdict(&of(0.8, 0.1, 0.0), Bound::Write), Bound::Host);
        assert_eq!(
            slowest(&[(9.0, Bound::Network), (3.0, Bound::Write), (5.0, Bound::Read)]),
            (3.0, Bound::Write)
        );
    }
}
