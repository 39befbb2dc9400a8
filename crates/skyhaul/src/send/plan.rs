//! Which packets are sent, in which order, and which are damaged.

use super::report::SendReport;
use skyhaul_io::fault::{Damage, Faults, Line};

/// One packet to send now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) number: u64,
    pub(super) damage: Damage,
}

/// Numbers in, numbers to send out.
#[derive(Debug)]
pub(super) struct Plan {
    line: Option<Line<u64>>,
}

impl Plan {
    pub(super) fn new(faults: Option<&Faults>) -> Self {
        Self { line: faults.filter(|f| f.any()).map(Line::new) }
    }

    /// Packet `number` is next; whatever is to be sent now goes to `due`.
    pub(super) fn feed(&mut self, number: u64, due: &mut Vec<Due>) {
        match &mut self.line {
            None => due.push(Due { number, damage: Damage::NONE }),
            Some(line) => line.pass(number, &mut |number, damage| due.push(Due { number, damage })),
        }
    }

    /// No packet follows: packets held back are sent.
    pub(super) fn flush(&mut self, due: &mut Vec<Due>) {
        if let Some(line) = &mut self.line {
            line.flush(&mut |number, damage| due.push(Due { number, damage }));
        }
    }

    /// Enter what was done wrong on purpose.
    pub(super) fn report(&self, report: &mut SendReport) {
        let Some(line) = &self.line else { return };
        let done = line.injected();
        report.lost = done.lost();
        report.lost_ranges = done.lost_packets.ranges().iter().map(|r| (r.start, r.end)).collect();
        report.lost_not_listed = done.lost_packets.unlisted();
        report.duplicated = done.duplicated;
        report.reordered = done.reordered;
        report.corrupted = done.corrupted;
        report.truncated = done.truncated;
    }
}
