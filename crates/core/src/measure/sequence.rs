//! Loss, reordering and duplicates of a numbered stream, in order of arrival.
//!
//! There are two meters in one. Without a window, it counts packets in order and late packets, in a few instructions
//! each; loss is decided by the code that assembles the packets, and reported to the meter. With a window
//! ([`SequenceMeter::exact`]), it remembers which of the last W numbers arrived, and decides itself:
//!
//! | a packet with number | is |
//! |---|---|
//! | from `next` on | in order; the numbers skipped are missing |
//! | in the window, missing | late: reordered (RFC 4737, 3.3), and not lost |
//! | in the window, here already | a duplicate |
//! | before the window | too late: its number was settled, and stays lost if it was |
//!
//! A number is lost when it leaves the window without having arrived, or at [`finish`](SequenceMeter::finish). So at
//! every moment
//!
//! ```text
//!   numbers before next = packets − duplicates − too late + lost + missing
//! ```
//!
//! ```
//! use skyhaul_core::measure::{Arrival, SequenceMeter};
//!
//! let mut meter = SequenceMeter::exact(1 << 16, Some(0));
//! for number in [0, 1, 4, 2, 4, 7] {
//!     meter.arrived(number);
//! }
//! assert_eq!((meter.reordered, meter.duplicates, meter.missing()), (1, 1, 3));
//! assert_eq!(meter.arrived(3), Arrival::Late { extent: 3 });
//! meter.finish(Some(10)); // the sender says that it sent 10
//! // Lost are 5 and 6, 8 and 9: two runs; a number apart within a run, 2 between them.
//! assert_eq!((meter.lost, meter.runs.count(), meter.distance.max()), (4, 2, 2));
//! ```
//!
//! Memory with a window of W numbers: W/8 bytes of bits, and 4 W bytes that are touched only where numbers are missing.

mod exact;
mod window;

use super::Histogram;
use window::{Settled, Window};

/// The position of a packet among those before it. Without a window, only the first two occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its number is beyond all before.
    InOrder,
    /// It is reordered. With a window, `extent` is the number of packets since the first one beyond it arrived (RFC
    /// 4737, 4.2.2); without, it is the distance to the next number.
    Late {
        /// The reordering extent.
        extent: u64,
    },
    /// Its number arrived already.
    Duplicate,
    /// It is before the window: whether it is late or a duplicate is not known.
    TooLate,
}

/// Watches the sequence numbers of one sender's packets as they arrive.
///
/// Without a window, loss is not decided here (a gap may still fill): the assembly decides it when an object retires, and
/// reports each run of missing packets with [`SequenceMeter::lost_run`].
#[derive(Clone, Debug, Default)]
pub struct SequenceMeter {
    next: Option<u64>,
    /// Packets seen, duplicates included.
    pub packets: u64,
    /// Packets whose number is below that of an earlier one (RFC 4737, 3.3); with a window, without duplicates and those
    /// that are too late.
    pub reordered: u64,
    /// How far behind the highest number each reordered packet was; with a window, its reordering extent (RFC 4737, 4.2.2).
    pub extent: Histogram,
    /// Lengths of runs of lost packets: the loss periods of RFC 3357.
    pub runs: Histogram,
    /// Lost packets.
    pub lost: u64,
    /// Packets whose number had arrived. Only with a window.
    pub duplicates: u64,
    /// Packets before the window. Only with a window.
    pub too_late: u64,
    /// From each lost packet to the next, in numbers (RFC 3357, loss distance): 1 within a run. Only with a window.
    pub distance: Histogram,
    window: Option<Box<Window>>,
}

impl SequenceMeter {
    /// Numbers that the window holds; 0 without one.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.len())
    }

    /// The number after the highest; `None` before the first packet.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Packet `number` arrived.
    #[inline]
    pub fn arrived(&mut self, number: u64) -> Arrival {
        self.packets += 1;
        if self.window.is_some() {
            return self.arrived_exact(number);
        }
        match self.next {
            Some(next) if number < next => {
                self.reordered += 1;
                self.extent.record(next - number);
                Arrival::Late { extent: next - number }
            }
            _ => {
                self.next = Some(number.wrapping_add(1));
                Arrival::InOrder
            }
        }
    }

    /// `count` packets with consecutive numbers from `first` on arrived.
    #[inline]
    pub fn arrived_run(&mut self, first: u64, count: u64) {
        match self.next {
            _ if count == 0 => {}
            Some(next) if first < next => (0..count).for_each(|n| {
                self.arrived(first.wrapping_add(n));
            }),
            _ if self.window.is_some() => self.run_exact(first, count),
            _ => {
                self.packets += count;
                self.next = Some(first.wrapping_add(count));
            }
        }
    }

    /// The sender's counter restarted. With a window, missing numbers count as lost.
    pub fn restart(&mut self) {
        self.finish(None);
        self.next = None;
    }

    /// A run of `length` packets is lost. Do not call this for a meter with a window, which finds losses itself.
    pub fn lost_run(&mut self, length: u64) {
        if length > 0 {
            self.lost += length;
            self.runs.record(length);
        }
    }

    /// Numbers in the window that have not arrived, and may still.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.window.as_ref().map_or(0, |window| window.missing())
    }

    /// No more packets will arrive: missing numbers are lost, up to `end` (the number after the last one sent) if that
    /// is known. Packets that arrive later are too late. Without a window, this has no effect.
    pub fn finish(&mut self, end: Option<u64>) {
        let (Some(mut window), Some(next)) = (self.window.take(), self.next) else { return };
        let end = end.unwrap_or(next).max(next);
        let settled =
            &mut Settled { lost: &mut self.lost, runs: &mut self.runs, distance: &mut self.distance };
        window.advance(next, end, Some(0), settled);
        window.settle_all(end, settled);
        (self.next, self.window) = (Some(end), Some(window));
    }

    /// Add the counts of another meter.
    pub fn merge(&mut self, other: &SequenceMeter) {
        self.packets += other.packets;
        self.reordered += other.reordered;
        self.lost += other.lost;
        self.duplicates += other.duplicates;
        self.too_late += other.too_late;
        self.extent.merge(&other.extent);
        self.runs.merge(&other.runs);
        self.distance.merge(&other.distance);
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
            (0..count).for_each(|n| {
                singles.arrived(first.wrapping_add(n));
            });
            let seen = |m: &SequenceMeter| (m.next, m.packets, m.reordered, m.extent.count(), m.extent.max());
            assert_eq!(seen(&runs), seen(&singles), "{first} {count}");
        }
    }
}
