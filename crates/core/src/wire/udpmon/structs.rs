//! The C structures that udpmon sends in their memory layout on 64-bit hosts, in the byte order of the host.
//!
//! | structure | bytes | contents |
//! |---|---|---|
//! | histogram | 8064 | number, low end, width, bins (4 × 32 bits), sum, deviation (64 bits), 1000 bins, a title of 32 |
//! | counters of interfaces and protocols | 26 888 | `/proc/net/dev` and `/proc/net/snmp` as text, before and after |
//! | load of processors | 12 384 | 129 × 96: all together, then each; per cent |
//! | counters of the network card | 136 | 12 × 64 bits, a name of 32, how many there are |
//!
//! The requester parses the texts of interfaces and protocols itself, so a responder must send them as the kernel
//! writes them. Values outside a histogram's range are in bin 0 and bin 999.

use super::super::header::Order;

/// Bytes of a histogram.
pub const HISTOGRAM: usize = 8064;
/// Bytes of the counters of interfaces and protocols.
pub const SNMP: usize = 26_888;
/// Size of the CPU load, bytes.
pub const CPU: usize = 129 * CPU_ENTRY;
/// Bytes of the counters of the network card.
pub const NIC: usize = 136;
/// Bins of a histogram, with those below and above its range.
pub const BINS: usize = 1000;
const CPU_ENTRY: usize = 96;
const TITLE: usize = 32;
const FIRST_BIN: usize = 32;
/// Bytes of a text of the kernel.
const TEXT: usize = 4000;
/// Where the texts of `/proc/net/dev` and `/proc/net/snmp` lie, before and after the test.
const TEXTS: [(usize, usize); 2] = [(0, 4000), (13_440, 17_440)];
/// Offsets of the fields that say which protocols are counted; 1 is IPv4.
const MODES: [usize; 3] = [13_280 + 19 * 8, 26_720 + 19 * 8, 26_884];

/// A histogram of equal bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bins {
    /// Its number: 0 is of times between packets, 1 of runs of losses, 2 of disorder.
    pub number: u32,
    /// Low end of the first bin.
    pub low: i32,
    /// Width of a bin, at least 1.
    pub width: i32,
    /// Bins in use, at most 998.
    pub used: u32,
    /// Sum of all values in range.
    pub sum: i64,
    /// Below the range, the bins, above it.
    pub counts: Box<[u64; BINS]>,
}

impl Bins {
    /// An empty one.
    #[must_use]
    pub fn new(number: u32, low: i32, width: i32, used: u32) -> Self {
        let used = used.min(BINS as u32 - 2);
        Self { number, low, width: width.max(1), used, sum: 0, counts: Box::new([0; BINS]) }
    }

    /// Count a value.
    pub fn record(&mut self, value: i64) {
        let above = i128::from(value) - i128::from(self.low);
        let bin = above.div_euclid(i128::from(self.width)) + 1;
        let at = if bin < 1 {
            0
        } else if bin > i128::from(self.used) {
            BINS - 1
        } else {
            self.sum = self.sum.saturating_add(value);
            bin as usize
        };
        self.counts[at] = self.counts[at].saturating_add(1);
    }

    /// Values in range.
    #[must_use]
    pub fn in_range(&self) -> u64 {
        self.counts[1..=self.used as usize].iter().fold(0, |all, n| all.saturating_add(*n))
    }

    /// As udpmon has it in memory.
    #[must_use]
    pub fn octets(&self, title: &str, order: Order) -> Vec<u8> {
        let mut out = Vec::with_capacity(HISTOGRAM);
        for word in [self.number as i32, self.low, self.width, self.used as i32] {
            out.extend(half(word as u32, order));
        }
        out.extend(whole(self.sum as u64, order));
        out.extend([0; 8]);
        self.counts.iter().for_each(|count| out.extend(whole(*count, order)));
        out.extend(title.bytes().take(TITLE - 1));
        out.resize(HISTOGRAM, 0);
        out
    }

    /// Reads a responder's histogram; `None` if it is not one.
    #[must_use]
    pub fn read(octets: &[u8], order: Order) -> Option<Self> {
        let octets: &[u8; HISTOGRAM] = octets.first_chunk()?;
        let word = |at: usize| octets[at..].first_chunk::<4>().map(|b| half(u32::from_le_bytes(*b), order));
        let word = |at: usize| word(at).map(i32::from_le_bytes);
        let long = |at: usize| octets[at..].first_chunk::<8>().map(|b| whole(u64::from_le_bytes(*b), order));
        let long = |at: usize| long(at).map(i64::from_le_bytes);
        let used = u32::try_from(word(12)?).ok().filter(|used| (*used as usize) < BINS - 1)?;
        let width = word(8).filter(|width| *width > 0)?;
        let mut bins = Self::new(u32::try_from(word(0)?).ok()?, word(4)?, width, used);
        bins.sum = long(16)?;
        for (n, count) in bins.counts.iter_mut().enumerate() {
            *count = u64::try_from(long(FIRST_BIN + 8 * n)?).ok()?;
        }
        Some(bins)
    }
}

fn half(word: u32, order: Order) -> [u8; 4] {
    match order {
        Order::Little => word.to_le_bytes(),
        Order::Big => word.to_be_bytes(),
    }
}

fn whole(word: u64, order: Order) -> [u8; 8] {
    match order {
        Order::Little => word.to_le_bytes(),
        Order::Big => word.to_be_bytes(),
    }
}

/// The counters of interfaces and protocols, from the kernel's texts (`/proc/net/dev`, `/proc/net/snmp`) before and after.
#[must_use]
pub fn snmp(before: (&str, &str), after: (&str, &str), order: Order) -> Vec<u8> {
    let mut out = vec![0; SNMP];
    for ((dev, snmp), (dev_at, snmp_at)) in [before, after].into_iter().zip(TEXTS) {
        for (text, at) in [(dev, dev_at), (snmp, snmp_at)] {
            let text = whole_lines(text);
            out[at..at + text.len()].copy_from_slice(text);
        }
    }
    for at in MODES {
        out[at..at + 4].copy_from_slice(&half(1, order));
    }
    out
}

/// As many whole lines as fit, with a zero after them.
fn whole_lines(text: &str) -> &[u8] {
    let octets = text.as_bytes();
    if octets.len() < TEXT {
        return octets;
    }
    let end = octets[..TEXT - 1].iter().rposition(|c| *c == b'\n').map_or(0, |at| at + 1);
    &octets[..end]
}

/// UDP's `InErrors` before and after, from the counters of a responder; `None` if they are not there.
#[must_use]
pub fn udp_in_errors(octets: &[u8]) -> Option<(u64, u64)> {
    let of = |at: usize| {
        let text = octets.get(at..at + TEXT)?;
        let text = std::str::from_utf8(&text[..text.iter().position(|c| *c == 0)?]).ok()?;
        let mut lines = text.lines().filter(|line| line.starts_with("Udp:"));
        let (names, values) = (lines.next()?.split_whitespace(), lines.next()?.split_whitespace());
        names.zip(values).find(|(name, _)| *name == "InErrors")?.1.parse().ok()
    };
    Some((of(TEXTS[0].1)?, of(TEXTS[1].1)?))
}

/// The CPU load in per cent: user, nice, system, idle, waiting, interrupts, soft interrupts; first of all CPUs
/// together, then of each.
#[must_use]
pub fn cpu(load: &[[u64; 7]], order: Order) -> Vec<u8> {
    let mut out = vec![0; CPU];
    for (entry, load) in out.chunks_exact_mut(CPU_ENTRY).zip(load) {
        let [user, nice, kernel, idle, iowait, irq, softirq] = *load;
        let system = kernel + iowait + irq + softirq;
        let words = [user, nice, system, idle, iowait, irq, softirq, 0, kernel, 0, 0];
        for (place, word) in entry.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&whole(word, order));
        }
    }
    let count = u32::try_from(load.len().min(129)).unwrap_or(0);
    out[88..92].copy_from_slice(&half(count, order));
    out
}

/// Records of packets, four words each: when it arrived and was sent (0.1 µs), and two times of the network card (ns).
#[must_use]
pub fn records(all: &[[u64; 4]], order: Order) -> Vec<u8> {
    all.iter().flatten().flat_map(|word| whole(*word, order)).collect()
}

/// Any bytes are read without a panic, and a histogram is written as it was read.
pub(super) fn fuzz(octets: &[u8]) {
    let _ = udp_in_errors(octets);
    let mut filled = octets.to_vec();
    filled.resize(HISTOGRAM, 0);
    for order in [Order::Little, Order::Big] {
        if let Some(bins) = Bins::read(&filled, order) {
            assert_eq!(Bins::read(&bins.octets("", order), order), Some(bins));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fall_into_their_bins() {
        let mut bins = Bins::new(0, 100, 10, 5);
        for value in [99, 100, 109, 110, 149, 150, i64::MAX, i64::MIN] {
            bins.record(value);
        }
        assert_eq!(
            (bins.counts[0], bins.counts[1], bins.counts[2], bins.counts[5], bins.counts[999]),
            (2, 2, 1, 1, 2)
        );
        assert_eq!((bins.in_range(), bins.sum), (4, 100 + 109 + 110 + 149));
        for (order, used) in [(Order::Little, 12), (Order::Big, 15)] {
            let octets = bins.octets("Time between frames 0.1us, a long title", order);
            assert_eq!((octets.len(), octets[used], octets[HISTOGRAM - 1]), (HISTOGRAM, 5, 0));
            assert_eq!(Bins::read(&octets, order), Some(bins.clone()));
            assert_eq!(Bins::read(&octets[1..], order), None);
            let mut broken = octets.clone();
            broken[8..12].fill(0);
            assert_eq!(Bins::read(&broken, order), None, "bins without width");
        }
    }

    #[test]
    fn counters_are_the_texts_of_the_kernel() {
        let text = |errors: u64| format!("Udp: InDatagrams NoPorts InErrors\nUdp: 5 0 {errors}\n");
        let octets = snmp(("head\n", &text(3)), (&"x: 1\n".repeat(2000), &text(9)), Order::Little);
        assert_eq!((octets.len(), udp_in_errors(&octets)), (SNMP, Some((3, 9))));
        assert_eq!(octets[13_440 + 3994..13_440 + 4000], [b'\n', 0, 0, 0, 0, 0], "whole lines only");
        assert_eq!(udp_in_errors(&octets[..20_000]), None);
        let load = cpu(&[[1, 2, 3, 4, 5, 6, 7], [9; 7]], Order::Little);
        assert_eq!((load.len(), load[16], load[88], load[96]), (CPU, 21, 2, 9));
        assert_eq!(records(&[[1, 2, 3, 4]], Order::Big)[..8], [0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
