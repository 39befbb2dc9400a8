//! Disk → network → disk: which part bounds a transfer.
//!
//! Predicted from the rates measured for disks alone and the rate given for the network, and measured with the parts at
//! work together: files read into a paced TCP connection on the loopback, and a paced connection written to files. Each
//! way is measured by itself, because on the two ends of a real transfer they are on different hosts.
//!
//! Limits: on the loopback this host does the network's work of both ends, so a result of [`TransferBottleneck::Host`] may be twice as
//! good between two hosts.

use super::options::{CacheMode, DiskOperation, MeasureOptions};
use super::pipe::{self, PipeWaits};
use super::report::DiskPoint;
use super::report::{TransferBottleneck, TransferBudget, TransferRate};
use std::io;

/// The highest rate of the points of an operation, past the page cache if that was measured.
fn best(points: &[DiskPoint], operation: DiskOperation) -> Option<&DiskPoint> {
    let of = |mode: CacheMode| {
        points
            .iter()
            .filter(|point| point.operation == operation && point.mode == mode && point.bytes > 0)
            .max_by(|a, b| a.bytes_per_second.total_cmp(&b.bytes_per_second))
    };
    of(CacheMode::Direct).or_else(|| of(CacheMode::Buffered))
}

/// Predict from `points`, then measure both ways.
///
/// # Errors
/// If the loopback cannot be used.
pub(super) fn run(
    options: &MeasureOptions,
    rate: u64,
    points: &[DiskPoint],
    progress: &mut dyn FnMut(&str),
) -> io::Result<TransferBudget> {
    let network = rate as f64;
    let mut budget = TransferBudget { network_bits_per_second: network, ..TransferBudget::default() };
    let mut parts = vec![(network, TransferBottleneck::Network)];
    for (operation, bound) in
        [(DiskOperation::Read, TransferBottleneck::Read), (DiskOperation::Write, TransferBottleneck::Write)]
    {
        let Some(point) = best(points, operation) else { continue };
        let disk = point.bytes_per_second * 8.0;
        parts.push((disk, bound));
        let (predicted, of) = slowest(&[(network, TransferBottleneck::Network), (disk, bound)]);
        let waited = pipe::run(options, point, rate, progress)?;
        let piped = Some(TransferRate {
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
        if operation == DiskOperation::Read {
            (budget.read_bits_per_second, budget.sending) = (Some(disk), piped);
        } else {
            (budget.write_bits_per_second, budget.receiving) = (Some(disk), piped);
        }
    }
    let (through, bound) = slowest(&parts);
    (budget.through_bits_per_second, budget.bound) = (Some(through), Some(bound));
    Ok(budget)
}

fn slowest(parts: &[(f64, TransferBottleneck)]) -> (f64, TransferBottleneck) {
    parts
        .iter()
        .copied()
        .reduce(|a, b| if b.0 < a.0 { b } else { a })
        .unwrap_or((0.0, TransferBottleneck::Host))
}

/// The part that is never waiting is the one that bounds.
fn verdict(waited: &PipeWaits, disk: TransferBottleneck) -> TransferBottleneck {
    // Held to its rate most of the time, the network could not have been faster.
    if waited.network > waited.disk && waited.network > waited.paced {
        disk
    } else if waited.paced >= 0.1 {
        TransferBottleneck::Network
    } else {
        TransferBottleneck::Host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_that_never_waits_bounds() {
        let of = |disk, network, paced| PipeWaits { disk, network, paced, ..PipeWaits::default() };
        assert_eq!(verdict(&of(0.02, 0.9, 0.0), TransferBottleneck::Read), TransferBottleneck::Read);
        assert_eq!(verdict(&of(0.9, 0.05, 0.8), TransferBottleneck::Read), TransferBottleneck::Network);
        assert_eq!(verdict(&of(0.8, 0.1, 0.0), TransferBottleneck::Write), TransferBottleneck::Host);
        assert_eq!(
            slowest(&[
                (9.0, TransferBottleneck::Network),
                (3.0, TransferBottleneck::Write),
                (5.0, TransferBottleneck::Read)
            ]),
            (3.0, TransferBottleneck::Write)
        );
    }
}
