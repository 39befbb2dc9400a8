//! What a receiver notes of one flow in one point: fixed memory, whatever arrives.

use super::report::{Received, Stamped};
use skyhaul::report::Distribution;
use skyhaul_core::measure::{Arrival, Histogram, SequenceMeter};
use skyhaul_core::wire::probe::Probe;
use skyhaul_io::source::Train;

/// Numbers within which lost, late and doubled packets are told apart exactly.
const WINDOW: usize = 1 << 16;
/// Losses kept as ranges of numbers.
const LOSSES: usize = 1024;

/// Arrivals by one kind of stamp.
#[derive(Clone, Debug, Default)]
struct Stamps {
    first: Option<u64>,
    last: u64,
    sent: u64,
    gaps: Histogram,
    /// |change of the time under way| from one arrival to the next.
    variation: Histogram,
    /// RFC 3550, 6.4.1, in nanoseconds.
    jitter: f64,
}

impl Stamps {
    /// An arrival at `time` of what was sent at `sent`.
    #[inline]
    fn arrived(&mut self, time: u64, sent: u64) {
        if self.first.is_none() {
            self.first = Some(time);
        } else {
            self.gaps.record(time.saturating_sub(self.last));
            let change =
                i128::from(time) - i128::from(self.last) - (i128::from(sent) - i128::from(self.sent));
            let change = u64::try_from(change.unsigned_abs()).unwrap_or(u64::MAX);
            self.variation.record(change);
            self.jitter += (change as f64 - self.jitter) / 16.0;
        }
        (self.last, self.sent) = (time, sent);
    }

    fn report(&self) -> Stamped {
        Stamped {
            seconds: self.first.map_or(0.0, |first| self.last.saturating_sub(first) as f64 / 1e9),
            gaps_ns: Distribution::from(&self.gaps),
            variation_ns: Distribution::from(&self.variation),
            jitter_ns: self.jitter,
        }
    }
}

/// Some of the packets, evenly chosen: every second is dropped whenever there are too many.
#[derive(Clone, Debug)]
pub(super) struct Samples {
    kept: Vec<(u64, u64, u64)>,
    most: usize,
    stride: u64,
    count: u64,
}

impl Samples {
    pub(super) fn new(most: usize) -> Self {
        Self { kept: Vec::with_capacity(most), most: most.max(2), stride: 1, count: 0 }
    }

    /// Note (number, sent, arrived) of a packet, if it is its turn.
    #[inline]
    pub(super) fn note(&mut self, sample: (u64, u64, u64)) {
        if self.count.is_multiple_of(self.stride) {
            if self.kept.len() == self.most {
                let mut n = 0;
                self.kept.retain(|_| {
                    n += 1;
                    n % 2 == 1
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.kept.push(sample);
            }
        }
        self.count += 1;
    }
}

/// The meter of one flow in one point.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    /// Number of the point.
    pub(super) run: u32,
    sequence: SequenceMeter,
    bytes: u64,
    arrivals: u64,
    dropped: u64,
    wrong_size: u64,
    size: u32,
    user: Stamps,
    kernel: Stamps,
    /// Nanoseconds from sending to arrival, where arrival is not before by unequal clocks.
    transit: Histogram,
    samples: Samples,
    losses: Losses,
}

/// Ranges of numbers that are missing when later ones arrive: an estimate of where losses are, for plots. A late packet
/// closes its hole.
#[derive(Clone, Debug, Default)]
struct Losses {
    next: u64,
    holes: Vec<(u64, u64)>,
    left_out: u64,
}

impl Losses {
    fn arrived(&mut self, number: u64, arrival: Arrival) {
        match arrival {
            Arrival::InOrder => {
                if number > self.next {
                    self.hole(self.next, number);
                }
                self.next = number.saturating_add(1);
            }
            Arrival::Late { .. } => self.fill(number),
            Arrival::Duplicate | Arrival::TooLate => {}
        }
    }

    fn hole(&mut self, from: u64, to: u64) {
        if self.holes.len() < LOSSES { self.holes.push((from, to)) } else { self.left_out += 1 }
    }

    fn fill(&mut self, number: u64) {
        let at = self.holes.partition_point(|hole| hole.1 <= number);
        let Some(&(from, to)) = self.holes.get(at).filter(|hole| hole.0 <= number) else { return };
        match (from == number, to == number + 1) {
            (true, true) => drop(self.holes.remove(at)),
            (true, false) => self.holes[at].0 = number + 1,
            (false, true) => self.holes[at].1 = number,
            (false, false) => {
                self.holes[at].1 = number;
                if self.holes.len() < LOSSES {
                    self.holes.insert(at + 1, (number + 1, to));
                } else {
                    self.left_out += 1;
                }
            }
        }
    }
}

impl Meter {
    /// For point `run` with datagrams of `size`, of which `samples` are kept.
    pub(super) fn new(run: u32, size: u32, samples: usize) -> Self {
        Self {
            run,
            sequence: SequenceMeter::exact(WINDOW, Some(0)),
            bytes: 0,
            arrivals: 0,
            dropped: 0,
            wrong_size: 0,
            size,
            user: Stamps::default(),
            kernel: Stamps::default(),
            transit: Histogram::default(),
            samples: Samples::new(samples),
            losses: Losses::default(),
        }
    }

    /// A train with packets of this point; `now` is the time at which this program saw it. The stamps are of a train.
    pub(super) fn train(&mut self, train: &Train<'_>, first: &Probe, now: u64) {
        self.arrivals += 1;
        self.dropped += u64::from(train.dropped);
        self.user.arrived(now, first.sent);
        if let Some(time) = train.time {
            self.kernel.arrived(time.0, first.sent);
        }
    }

    /// One packet of it.
    #[inline]
    pub(super) fn packet(&mut self, head: &Probe, length: usize, arrived: u64) {
        let arrival = self.sequence.arrived(head.number);
        self.bytes += length as u64;
        self.wrong_size += u64::from(length != self.size as usize);
        self.losses.arrived(head.number, arrival);
        self.transit.record(arrived.saturating_sub(head.sent));
        self.samples.note((head.number, head.sent, arrived));
    }

    /// Packets so far, each number once.
    pub(super) fn unique(&self) -> u64 {
        self.sequence.packets - self.sequence.duplicates - self.sequence.too_late
    }

    /// The end where nobody says how many were sent: as many as the highest number says.
    pub(super) fn finish_at_highest(self) -> Received {
        let sent = self.sequence.next().unwrap_or(0);
        self.finish(sent)
    }

    /// The end: the sender says that it sent numbers up to `sent`.
    pub(super) fn finish(mut self, sent: u64) -> Received {
        self.sequence.finish(Some(sent));
        if sent > self.losses.next {
            self.losses.hole(self.losses.next, sent);
        }
        let base = self.samples.kept.first().map_or(0, |first| first.1);
        let relative = |&(number, sent, arrived): &(u64, u64, u64)| {
            (number, sent.wrapping_sub(base) as i64, arrived.wrapping_sub(sent) as i64)
        };
        let s = &self.sequence;
        Received {
            packets: s.packets,
            bytes: self.bytes,
            arrivals: self.arrivals,
            lost: s.lost,
            duplicates: s.duplicates,
            too_late: s.too_late,
            reordered: s.reordered,
            extent: Distribution::from(&s.extent),
            runs: Distribution::from(&s.runs),
            distance: Distribution::from(&s.distance),
            wrong_size: self.wrong_size,
            socket_drops: self.dropped,
            user: self.user.report(),
            kernel: self.kernel.first.map(|_| self.kernel.report()),
            transit_ns: Distribution::from(&self.transit),
            base_ns: base,
            samples: self.samples.kept.iter().map(relative).collect(),
            losses: self.losses.holes,
            losses_left_out: self.losses.left_out,
            ..Received::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn meter(numbers: &[u64], sent: u64) -> Received {
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut meter = Meter::new(1, 100, 4);
        for (at, &number) in numbers.iter().enumerate() {
            let head = Probe { run: 1, number, sent: number * 1000, ..Probe::of(100) };
            let now = at as u64 * 1000 + 500;
            meter.train(&Train::single(&[], &from), &head, now);
            meter.packet(&head, 100, now);
        }
        meter.finish(sent)
    }

    #[test]
    fn lost_late_and_doubled_packets_are_told_apart_and_losses_have_a_place() {
        let got = meter(&[0, 1, 4, 2, 4, 7, 9], 12);
        assert_eq!((got.packets, got.lost, got.reordered, got.duplicates), (7, 6, 1, 1));
        assert_eq!(got.losses, [(3, 4), (5, 7), (8, 9), (10, 12)]);
        assert_eq!(got.bytes, 700);
        assert!(got.kernel.is_none());
        assert_eq!(got.user.gaps_ns.count, 6);
        assert!((got.user.gaps_ns.mean - 1000.0).abs() < 2.0);
        let clean = meter(&[0, 1, 2, 3], 4);
        assert_eq!((clean.lost, clean.losses.len()), (0, 0));
        assert!(clean.user.jitter_ns < 1e-9, "evenly sent and received");
    }

    #[test]
    fn a_hole_is_closed_by_late_packets_wherever_they_fall() {
        let whole = meter(&[0, 6, 3, 1, 5, 2, 4], 7);
        assert_eq!((whole.lost, whole.losses.len(), whole.reordered), (0, 0, 5));
    }

    #[test]
    fn samples_are_even_and_few() {
        let mut samples = Samples::new(8);
        (0..1000).for_each(|n| samples.note((n, 0, 0)));
        let numbers: Vec<u64> = samples.kept.iter().map(|s| s.0).collect();
        assert!(numbers.len() <= 8 && numbers.len() >= 4, "{numbers:?}");
        let step = numbers[1] - numbers[0];
        assert!(numbers.windows(2).all(|w| w[1] - w[0] == step), "{numbers:?}");
    }
}
