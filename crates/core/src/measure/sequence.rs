//! Reordering and gaps of a numbered stream, in order of arrival.

use super::Histogram;

/// Watches the sequence numbers of one sender's packets as they arrive.
///
/// Loss is not decided here (a gap may still fill): the assembly decides it when an object retires, and reports
/// each run of missing packets with [`SequenceMeter::lost_run`].
#[derive(Clone, Debug, Default)]
pub struct SequenceMeter {
    next: Option<u64>,
    /// Packets seen, duplicates included.
    pub packets: u64,
    /// Packets whose number is below that of an earlier one (RFC 4737, 3.3).
    pub reordered: u64,
    /// How far behind the highest number each reordered packet was.
    pub extent: Histogram,
    /// Lengths of runs of lost packets.
    pub runs: Histogram,
    /// Lost packets.
    pub lost: u64,
}

impl SequenceMeter {
    /// Packet `number` arrived.
    #[inline]
    pub fn arrived(&mut self, number: u64) {
        self.packets += 1;
        match self.next {
            Some(next) if number < next => {
                self.reordered += 1;
                self.extent.record(next - number);
            }
            _ => self.next = Some(number.wrapping_add(1)),
        }
    }

    /// `count` packets with consecutive numbers from `first` on arrived.
    #[inline]
    pub fn arrived_run(&mut self, first: u64, count: u64) {
        match self.next {
            Some(next) if first < next => (0..count).for_each(|n| self.arrived(first.wrapping_add(n))),
            _ if count == 0 => {}
            _ => {
                self.packets += count;
                self.next = Some(first.wrapping_add(count));
            }
        }
    }

    /// The sender's counter restarted.
    pub fn restart(&mut self) {
        self.next = None;
    }

    /// A run of `length` packets is lost for good.
    pub fn lost_run(&mut self, length: u64) {
        if length > 0 {
            self.lost += length;
            self.runs.record(length);
        }
    }

    /// Add the counts of another meter.
    pub fn merge(&mut self, other: &SequenceMeter) {
        self.packets += other.packets;
        self.reordered += other.reordered;
        self.lost += other.lost;
        self.extent.merge(&other.extent);
        self.runs.merge(&other.runs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_behind_the_highest_is_reordered_by_its_distance() {
        let mut m = SequenceMeter::default();
        for n in [10, 11, 15, 12, 16, 11] {
            m.arrived(n);
        }
        assert_eq!((m.packets, m.reordered, m.extent.max()), (6, 2, 6));
        m.lost_run(2);
        m.lost_run(0);
        assert_eq!((m.lost, m.runs.count()), (2, 1));
    }

    #[test]
    fn a_run_is_its_packets_one_by_one() {
        let (mut runs, mut singles) = (SequenceMeter::default(), SequenceMeter::default());
        for (first, count) in [(10, 5), (15, 1), (30, 0), (12, 8), (20, 4), (u64::MAX - 1, 2), (3, 2)] {
            runs.arrived_run(first, count);
            (0..count).for_each(|n| singles.arrived(first + n));
            let seen = |m: &SequenceMeter| (m.next, m.packets, m.reordered, m.extent.count(), m.extent.max());
            assert_eq!(seen(&runs), seen(&singles), "{first} {count}");
        }
    }
}
