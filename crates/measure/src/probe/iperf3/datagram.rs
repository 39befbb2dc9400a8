//! The head of a datagram, and what its number says.
//!
//! ```text
//!   0        4              8                     12                16
//!   │ seconds │ microseconds │ number (32 bits)    │ payload …
//!   │ seconds │ microseconds │ number (64 bits)                      │ payload …     --udp-counters-64bit
//! ```
//!
//! Everything is big-endian. The first datagram has the number 1. The time is that of the sender's monotonic clock, so
//! only differences mean something.
//!
//! iperf3 subtracts a loss for each datagram behind the highest number, so that one that came twice hides one that was
//! lost. Here a bitmap of the last [`WINDOW`] numbers tells them apart; what is older than that counts as late.

use skyhaul_core::placement::Nanos;

/// Datagrams behind the highest number that are distinguished.
pub const WINDOW: u64 = 1 << 16;
/// What a client says first, from the port from which it will send or on which it will receive.
pub const HELLO: [u8; 4] = 0x3637_3839_u32.to_le_bytes();
/// What the server answers.
pub const REPLY: [u8; 4] = 0x3938_3736_u32.to_le_bytes();
/// The same in old versions, which wrote the integer of their machine.
pub const OLD_HELLO: [u8; 4] = 123_456_789_u32.to_le_bytes();
/// The answer of old versions.
pub const OLD_REPLY: [u8; 4] = 987_654_321_u32.to_le_bytes();

/// Whether these are the first words of a client, and the answer it understands.
#[must_use]
pub fn answer(datagram: &[u8]) -> Option<[u8; 4]> {
    let word: [u8; 4] = datagram.try_into().ok()?;
    let reversed = |mut word: [u8; 4]| {
        word.reverse();
        word
    };
    [(HELLO, REPLY), (OLD_HELLO, OLD_REPLY)].into_iter().find_map(|(hello, reply)| {
        // Old versions wrote the integer of their machine, whose other order is told by what comes.
        if word == hello {
            Some(reply)
        } else if hello == OLD_HELLO && word == reversed(hello) {
            Some(reversed(reply))
        } else {
            None
        }
    })
}

/// Whether this is a server's answer.
#[must_use]
pub fn is_answer(datagram: &[u8]) -> bool {
    [REPLY, OLD_REPLY].iter().any(|reply| datagram == reply)
}

/// Seconds, microseconds and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// When it was sent.
    pub time: Nanos,
    /// Its number, from 1.
    pub number: u64,
}

impl Head {
    /// Its length.
    #[must_use]
    pub const fn length(wide: bool) -> usize {
        if wide { 16 } else { 12 }
    }

    /// Read it; `None`: the datagram is too short.
    #[inline]
    #[must_use]
    pub fn read(datagram: &[u8], wide: bool) -> Option<Self> {
        let word = |at: usize| datagram.get(at..)?.first_chunk().map(|w| u64::from(u32::from_be_bytes(*w)));
        let number = if wide { u64::from_be_bytes(*datagram.get(8..)?.first_chunk()?) } else { word(8)? };
        Some(Self { time: Nanos(word(0)? * 1_000_000_000 + word(4)? * 1000), number })
    }

    /// Write it into 16 octets, of which the first [`length`](Self::length) are it.
    #[inline]
    #[must_use]
    pub fn write(self, wide: bool) -> [u8; 16] {
        let mut octets = [0; 16];
        octets[..4].copy_from_slice(&((self.time.0 / 1_000_000_000) as u32).to_be_bytes());
        octets[4..8].copy_from_slice(&((self.time.0 % 1_000_000_000 / 1000) as u32).to_be_bytes());
        if wide {
            octets[8..].copy_from_slice(&self.number.to_be_bytes());
        } else {
            octets[8..12].copy_from_slice(&(self.number as u32).to_be_bytes());
        }
        octets
    }
}

/// Counts what a receiver of one stream got.
#[derive(Clone, Debug)]
pub struct Meter {
    wide: bool,
    /// Highest number so far.
    highest: u64,
    /// Datagrams with numbers of their own.
    unique: u64,
    /// Behind the highest when they came.
    late: u64,
    /// With a number that had come before.
    doubled: u64,
    /// Without a number: too short.
    foreign: u64,
    bytes: u64,
    seen: Box<[u64]>,
    transit: Option<i64>,
    /// RFC 3550 §6.4.1, in nanoseconds.
    jitter: f64,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metered {
    /// Bytes of all datagrams.
    pub bytes: u64,
    /// Highest number: what was sent, as far as known.
    pub packets: u64,
    /// Of these, never seen.
    pub lost: u64,
    /// Out of order.
    pub late: u64,
    /// More than once.
    pub doubled: u64,
    /// Too short to have a number.
    pub foreign: u64,
    /// Jitter in seconds.
    pub jitter: f64,
}

impl Meter {
    /// Nothing yet.
    #[must_use]
    pub fn new(wide: bool) -> Self {
        let words = usize::try_from(WINDOW / 64).unwrap_or(0);
        Self {
            wide,
            highest: 0,
            unique: 0,
            late: 0,
            doubled: 0,
            foreign: 0,
            bytes: 0,
            seen: vec![0; words].into(),
            transit: None,
            jitter: 0.0,
        }
    }

    /// A datagram arrived at `now`.
    #[inline]
    pub fn arrived(&mut self, datagram: &[u8], now: Nanos) {
        let Some(head) = Head::read(datagram, self.wide) else {
            self.foreign += 1;
            return;
        };
        self.bytes += datagram.len() as u64;
        let number = if self.wide { head.number } else { widened(head.number, self.highest) };
        self.number(number);
        let transit = (now.0 as i64).wrapping_sub(head.time.0 as i64);
        let change = self.transit.map_or(0, |before| transit.wrapping_sub(before).unsigned_abs());
        self.transit = Some(transit);
        self.jitter += (change as f64 - self.jitter) / 16.0;
    }

    #[inline]
    fn number(&mut self, number: u64) {
        let bit = 1u64 << (number % 64);
        let word = usize::try_from(number % WINDOW / 64).unwrap_or(0);
        if number > self.highest {
            let ahead = number - self.highest;
            if ahead == 1 {
                self.seen[word] &= !bit;
            } else {
                self.forget(ahead);
            }
            self.highest = number;
        } else {
            self.late += 1;
            if self.highest - number >= WINDOW {
                // Too long ago to say whether it had come.
                self.unique += 1;
                return;
            }
            if self.seen[word] & bit != 0 {
                self.doubled += 1;
                return;
            }
        }
        self.seen[word] |= bit;
        self.unique += 1;
    }

    /// Clear the places of the next `ahead` numbers.
    fn forget(&mut self, ahead: u64) {
        if ahead >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for number in self.highest + 1..=self.highest + ahead {
            self.seen[usize::try_from(number % WINDOW / 64).unwrap_or(0)] &= !(1 << (number % 64));
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Metered {
        Metered {
            bytes: self.bytes,
            packets: self.highest,
            lost: self.highest.saturating_sub(self.unique),
            late: self.late,
            doubled: self.doubled,
            foreign: self.foreign,
            jitter: self.jitter / 1e9,
        }
    }
}

/// A counter of 32 bits that has wrapped since, near `highest`.
#[inline]
fn widened(number: u64, highest: u64) -> u64 {
    const LAP: u64 = 1 << 32;
    let near = highest & !(LAP - 1) | number & (LAP - 1);
    if near + LAP / 2 < highest {
        near + LAP
    } else if near > highest + LAP / 2 && near >= LAP {
        near - LAP
    } else {
        near
    }
}

/// Datagrams of any octets and numbers; for the fuzzer.
pub fn fuzz(input: &[u8]) {
    for wide in [false, true] {
        let mut meter = Meter::new(wide);
        let mut arrived = 0;
        for datagram in input.chunks(Head::length(wide)) {
            meter.arrived(datagram, Nanos(7));
            arrived += 1;
            let counts = meter.counts();
            assert!(counts.lost <= counts.packets);
            assert!(counts.doubled <= counts.late && counts.late + counts.foreign <= arrived);
        }
        let _ = (answer(input), is_answer(input));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn datagram(number: u64, wide: bool) -> Vec<u8> {
        Head { time: Nanos(5_000_001_000), number }.write(wide)[..Head::length(wide)].to_vec()
    }

    #[test]
    fn heads_are_those_of_iperf3() {
        let octets = Head { time: Nanos(3_000_002_000), number: 258 }.write(false);
        assert_eq!(octets[..12], [0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 1, 2]);
        let wide = Head { time: Nanos(3_000_002_000), number: 1 << 40 };
        assert_eq!(Head::read(&wide.write(true), true), Some(wide));
        assert_eq!((Head::read(&[0; 11], false), Head::read(&[0; 15], true)), (None, None));
    }

    #[test]
    fn first_words_are_answered_in_the_way_they_were_said() {
        assert_eq!(answer(b"9876"), Some(*b"6789"));
        assert_eq!(answer(&OLD_HELLO), Some(OLD_REPLY));
        let other = |mut word: [u8; 4]| {
            word.reverse();
            word
        };
        assert_eq!(answer(&other(OLD_HELLO)), Some(other(OLD_REPLY)));
        assert_eq!((answer(b"6789"), answer(b"98765"), answer(b"")), (None, None, None));
        assert!(is_answer(b"6789") && is_answer(&OLD_REPLY) && !is_answer(b"9876"));
    }

    #[test]
    fn a_datagram_that_came_twice_hides_none_that_was_lost() {
        let mut meter = Meter::new(false);
        for number in [1, 2, 2, 5, 4, 4, 6] {
            meter.arrived(&datagram(number, false), Nanos(0));
        }
        meter.arrived(&[0; 3], Nanos(0));
        let counts = meter.counts();
        assert_eq!(
            (counts.packets, counts.lost, counts.late, counts.doubled, counts.foreign),
            (6, 1, 3, 2, 1)
        );
        assert_eq!(counts.bytes, 7 * 12);
    }

    #[test]
    fn a_counter_of_32_bits_wraps() {
        let mut meter = Meter::new(false);
        meter.highest = u64::from(u32::MAX) - 1;
        meter.unique = meter.highest;
        for number in [0xFFFF_FFFF, 0, 2, 1, 3, 0xFFFF_FFFF] {
            meter.arrived(&datagram(number, false), Nanos(0));
        }
        let counts = meter.counts();
        assert_eq!((counts.packets, counts.lost, counts.late, counts.doubled), ((1 << 32) + 3, 0, 2, 1));
    }

    #[test]
    fn jitter_is_that_of_rfc_3550() {
        let mut meter = Meter::new(false);
        for (sent, came) in [(0, 10), (10, 20), (20, 46)] {
            let head = Head { time: Nanos(sent * 1_000_000), number: sent / 10 + 1 };
            meter.arrived(&head.write(false)[..12], Nanos(came * 1_000_000));
        }
        assert!((meter.counts().jitter - 16e-3 / 16.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn counts_are_exact_within_the_window(numbers in proptest::collection::vec(1u64..3000, 1..2000)) {
            let mut meter = Meter::new(true);
            let (mut set, mut highest, mut late) = (BTreeSet::new(), 0, 0);
            for &number in &numbers {
                meter.arrived(&datagram(number, true), Nanos(0));
                late += u64::from(number <= highest);
                highest = highest.max(number);
                set.insert(number);
            }
            let counts = meter.counts();
            prop_assert_eq!(counts.packets, highest);
            prop_assert_eq!(counts.lost, highest - set.len() as u64);
            prop_assert_eq!(counts.late, late);
            prop_assert_eq!(counts.doubled, (numbers.len() - set.len()) as u64);
        }
    }
}
