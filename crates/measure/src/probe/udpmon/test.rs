//! One test of a responder: what arrived, and what is answered about it. Pure: it takes times as numbers.

use skyhaul_core::measure::{Arrival, SequenceMeter};
use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::udpmon::structs::{Bins, records};
use skyhaul_core::wire::udpmon::{Message, Tail};

/// Packets in the window that distinguishes lost, late and duplicate ones.
const WINDOW: usize = 1 << 16;
/// Words of a record.
const WORDS: usize = 4;
/// Bins of histograms of time, and of counts.
const TIME_BINS: u32 = 150;
const COUNT_BINS: u32 = 10;

#[derive(Debug)]
pub(super) struct ResponderTest {
    /// The origin of times: when the requester first began, ns.
    pub(super) zero: u64,
    /// When it began, and was last heard, ns.
    pub(super) began: u64,
    pub(super) heard: u64,
    meter: SequenceMeter,
    first: Option<u64>,
    last: Option<u64>,
    times: Bins,
    runs: Bins,
    disorder: Bins,
    records: Vec<[u64; WORDS]>,
    wanted: usize,
    most: usize,
    skip: u64,
    lost_only: bool,
    highest: Option<u64>,
}

impl ResponderTest {
    /// One that keeps at most so many records.
    pub(super) fn new(message: &Message, now: u64, most: usize) -> Self {
        let head = &message.head;
        let (low, width) = (head.low as i32, head.width as i32);
        Self {
            zero: now,
            began: now,
            heard: now,
            meter: SequenceMeter::exact(WINDOW, Some(0)),
            first: None,
            last: None,
            times: Bins::new(0, low, width, TIME_BINS),
            runs: Bins::new(1, 0, 1, COUNT_BINS),
            disorder: Bins::new(2, 0, 1, COUNT_BINS),
            records: Vec::new(),
            wanted: (head.response_length as usize / 8 / WORDS).min(most),
            most,
            skip: u64::from(head.skip),
            lost_only: head.lost_only == 1,
            highest: None,
        }
    }

    /// Restarts the counts, with the current options; the origin of times stays.
    pub(super) fn again(&self, message: &Message, now: u64) -> Self {
        Self { zero: self.zero, ..Self::new(message, now, self.most) }
    }

    /// A packet of the test arrived, by the clock of the kernel.
    pub(super) fn data(&mut self, message: &Message, now: u64) {
        let frame = message.head.frame;
        if let Some(last) = self.last {
            self.times.record(i64::try_from(now.saturating_sub(last) / 100).unwrap_or(i64::MAX));
        }
        self.first.get_or_insert(now);
        self.last = Some(now);
        let before = self.highest;
        match self.meter.arrived(frame) {
            Arrival::InOrder => self.in_order(message, before, now),
            Arrival::Late { extent } => self.disorder.record(i64::try_from(extent).unwrap_or(i64::MAX)),
            Arrival::Duplicate | Arrival::TooLate => {}
        }
        self.record(message, now);
    }

    fn in_order(&mut self, message: &Message, before: Option<u64>, now: u64) {
        let frame = message.head.frame;
        self.highest = Some(frame);
        let gap = before.map_or(frame, |before| frame - before - 1);
        if gap == 0 {
            return;
        }
        self.runs.record(i64::try_from(gap).unwrap_or(i64::MAX));
        if self.lost_only && frame >= self.skip {
            let (arrived, sent) = (now.saturating_sub(self.zero) / 100, message.head.send_time);
            let room = self.wanted.saturating_sub(self.records.len()) as u64;
            for lost in frame - gap..frame - gap + gap.min(room) {
                self.records.push([arrived, sent, lost, 0]);
            }
        }
    }

    /// Keep its times at the place of its number.
    fn record(&mut self, message: &Message, now: u64) {
        let at = message.head.frame.checked_sub(self.skip).and_then(|at| usize::try_from(at).ok());
        let Some(at) = at.filter(|at| *at < self.wanted && !self.lost_only) else { return };
        if self.records.len() <= at {
            self.records.resize(at + 1, [0; WORDS]);
        }
        self.records[at] = [now.saturating_sub(self.zero) / 100, message.head.send_time, 0, 0];
    }

    /// Packets that arrived, each counted once.
    pub(super) fn received(&self) -> u64 {
        self.meter.packets - self.meter.duplicates - self.meter.too_late
    }

    /// Those that did not, before the highest number.
    pub(super) fn lost(&self) -> u64 {
        self.meter.lost + self.meter.missing()
    }

    pub(super) fn duplicates(&self) -> u64 {
        self.meter.duplicates
    }

    pub(super) fn reordered(&self) -> u64 {
        self.meter.reordered
    }

    /// Put the counts into an answer; those beyond 32 bits stay at the highest that fits.
    pub(super) fn stats(&self, answer: &mut Message) {
        let word = |count: u64| u32::try_from(count).unwrap_or(i32::MAX as u32).min(i32::MAX as u32);
        answer.head.received = word(self.received());
        let first_to_last = self.first.zip(self.last).map_or(0, |(first, last)| (last - first) / 100);
        answer.tail = Tail {
            lost: word(self.lost()),
            disordered: word(self.reordered()),
            first_to_last,
            ..answer.tail
        };
    }

    /// A histogram by its number; those of network cards are empty.
    pub(super) fn histogram(&self, number: u32, order: Order) -> Vec<u8> {
        match number {
            0 => self.times.octets("Time between frames 0.1us", order),
            1 => self.runs.octets("Lost-frame sequence", order),
            2 => self.disorder.octets("Out-of-order", order),
            _ => Bins::new(number, 0, 250, TIME_BINS).octets("not measured", order),
        }
    }

    /// Records from word `index` on, at most `octets`, with zeros for what did not arrive. Of lost packets, three words each.
    pub(super) fn records(&self, index: usize, octets: usize, order: Order) -> Vec<u8> {
        let words = if self.lost_only { 3 } else { WORDS };
        let (first, count) = (index / words, octets / 8 / words);
        let from = first.min(self.records.len());
        let to = first.saturating_add(count).min(self.records.len());
        let mut out = records(&self.records[from..to], order);
        if self.lost_only {
            out = out.chunks_exact(8 * WORDS).flat_map(|record| &record[..24]).copied().collect();
        }
        out.resize(octets, 0);
        out
    }
}

/// The kernel's statistics of interfaces, protocols and CPUs, as text.
#[derive(Clone, Debug, Default)]
pub(super) struct KernelCounters {
    pub(super) dev: String,
    pub(super) snmp: String,
    stat: String,
}

impl KernelCounters {
    /// As they are now: three files.
    pub(super) fn read() -> Self {
        let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        Self { dev: text("/proc/net/dev"), snmp: text("/proc/net/snmp"), stat: text("/proc/stat") }
    }

    /// CPU time of all CPUs and of each, in ticks.
    fn times(&self) -> Vec<[u64; 7]> {
        let line = |line: &str| {
            let mut words = line.strip_prefix("cpu")?.split_whitespace();
            // The name of one processor is cpu0; that of all has no number.
            if !line.starts_with("cpu ") {
                words.next()?;
            }
            let mut times = [0; 7];
            for time in &mut times {
                *time = words.next()?.parse().ok()?;
            }
            Some(times)
        };
        self.stat.lines().filter_map(line).collect()
    }
}

/// CPU usage during a test, in percent.
pub(super) fn load(before: &KernelCounters, after: &KernelCounters) -> Vec<[u64; 7]> {
    let part = |(before, after): (&[u64; 7], &[u64; 7])| {
        let each: Vec<u64> = before.iter().zip(after).map(|(a, b)| b.saturating_sub(*a)).collect();
        let all: u64 = each.iter().sum();
        let mut out = [0; 7];
        for (out, ticks) in out.iter_mut().zip(each) {
            *out = (ticks * 100).checked_div(all).unwrap_or(0);
        }
        out
    };
    before.times().iter().zip(&after.times()).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::udpmon::Command;

    const MAX_RECORDS: usize = 1000;

    fn begin(octets: u32, lost_only: u32) -> ResponderTest {
        let mut message = Message::new(Order::Little, Command::ZeroStats, 0);
        (message.head.width, message.head.response_length, message.head.lost_only) = (10, octets, lost_only);
        ResponderTest::new(&message, 1_000, MAX_RECORDS)
    }

    fn send(test: &mut ResponderTest, frames: &[u64]) {
        for (n, frame) in frames.iter().enumerate() {
            let mut message = Message::new(Order::Little, Command::Data, *frame);
            message.head.send_time = frame.wrapping_mul(100);
            test.data(&message, 1_000 + 10_000 * n as u64);
        }
    }

    #[test]
    fn late_packets_are_not_lost_and_doubled_ones_not_out_of_order() {
        let mut test = begin(0, 0);
        send(&mut test, &[0, 1, 4, 2, 4, 7]);
        assert_eq!((test.received(), test.lost(), test.reordered(), test.duplicates()), (5, 3, 1, 1));
        let mut answer = Message::new(Order::Little, Command::GetStats, 0);
        test.stats(&mut answer);
        assert_eq!((answer.head.received, answer.tail.lost, answer.tail.disordered), (5, 3, 1));
        assert_eq!(answer.tail.first_to_last, 500);
        let bins = Bins::read(&test.histogram(0, Order::Little), Order::Little).unwrap();
        assert_eq!((bins.in_range(), bins.counts[11], bins.sum), (5, 5, 500));
        assert_eq!(Bins::read(&test.histogram(1, Order::Little), Order::Little).unwrap().in_range(), 2);
    }

    #[test]
    fn records_stand_at_the_place_of_their_number() {
        let word = |octets: &[u8], n: usize| u64::from_le_bytes(*octets[8 * n..].first_chunk().unwrap());
        let mut test = begin(3 * 32, 0);
        send(&mut test, &[0, 2, 1, 9]);
        let octets = test.records(0, 96, Order::Little);
        assert_eq!([0, 4, 8].map(|n| word(&octets, n)), [0, 200, 100], "arrival, 0.1 µs");
        assert_eq!([1, 5, 9].map(|n| word(&octets, n)), [0, 100, 200], "sent");
        assert_eq!(test.records(1 << 40, 1416, Order::Little).len(), 1416);
        let mut lost = begin(1 << 30, 1);
        send(&mut lost, &[0, 3, u64::MAX - 1, u64::MAX]);
        let octets = lost.records(0, 72, Order::Little);
        assert_eq!([2, 5, 8].map(|n| word(&octets, n)), [1, 2, 4], "numbers of lost packets");
        assert!(lost.records.len() <= MAX_RECORDS);
    }
}
