//! Decides the fate of each packet; the same seed gives the same fates.

use super::Faults;
use std::ops::Range;

/// The fate of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It never arrives.
    pub lost: bool,
    /// Number of places it is late.
    pub late: u32,
    /// If it is duplicated: the number of places by which the duplicate follows.
    pub again: Option<u32>,
    /// Damage to its bytes.
    pub damage: Damage,
}

/// Damage to a packet's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Flip this bit, counted modulo the packet's bits.
    pub flip: Option<u64>,
    /// Keep this many bytes, counted modulo the packet's length.
    pub cut: Option<u64>,
}

impl Damage {
    /// No damage.
    pub const NONE: Damage = Damage { flip: None, cut: None };

    /// Apply it; returns the number of bytes left.
    pub fn apply(&self, packet: &mut [u8]) -> usize {
        let length = packet.len() as u64;
        if length == 0 {
            return 0;
        }
        if let Some(bit) = self.flip {
            let bit = bit % (length * 8);
            packet[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        self.cut.map_or(length, |cut| cut % length) as usize
    }
}

/// The faults injected so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Injected {
    /// Packets that were offered.
    pub offered: u64,
    /// Lost singly.
    pub lost_singly: u64,
    /// Lost in bursts.
    pub lost_in_bursts: u64,
    /// Delivered late.
    pub reordered: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a flipped bit.
    pub corrupted: u64,
    /// Delivered cut short.
    pub truncated: u64,
    /// Numbers of the lost packets, from 0.
    pub lost_packets: LostPackets,
}

impl Injected {
    /// All losses.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_singly + self.lost_in_bursts
    }
}

/// The numbers of lost packets, as ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostPackets {
    ranges: Vec<Range<u64>>,
    unlisted: u64,
}

impl LostPackets {
    /// Maximum number of ranges listed: 16 MiB of them.
    pub const LIMIT: usize = 1 << 20;

    /// In ascending order, never adjacent.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Lost packets not listed because the list was full.
    #[must_use]
    pub fn unlisted(&self) -> u64 {
        self.unlisted
    }

    fn add(&mut self, number: u64) {
        let full = self.ranges.len() >= Self::LIMIT;
        match self.ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ if full => self.unlisted += 1,
            _ => self.ranges.push(number..number + 1),
        }
    }
}

/// Decides the fate of each packet, and counts the faults.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    faults: Faults,
    random: XorShift,
    burst_left: u32,
    injected: Injected,
}

impl FaultPlan {
    /// A plan that depends only on `faults`.
    #[must_use]
    pub fn new(faults: &Faults) -> Self {
        Self {
            faults: *faults,
            random: XorShift::new(faults.seed),
            burst_left: 0,
            injected: Injected::default(),
        }
    }

    /// The fate of the next packet.
    pub fn next_fate(&mut self) -> Fate {
        let number = self.injected.offered;
        self.injected.offered += 1;
        if self.burst_left == 0 && self.random.chance(self.faults.burst_chance) {
            self.burst_left = self.faults.burst;
        }
        let in_burst = self.burst_left > 0;
        self.burst_left = self.burst_left.saturating_sub(1);
        if in_burst || self.random.chance(self.faults.loss) {
            let counter =
                if in_burst { &mut self.injected.lost_in_bursts } else { &mut self.injected.lost_singly };
            *counter += 1;
            self.injected.lost_packets.add(number);
            return Fate { lost: true, ..Fate::default() };
        }
        let mut fate = Fate::default();
        if self.faults.reorder > 0 && self.random.chance(self.faults.reorder_chance) {
            fate.late = 1 + self.random.below(self.faults.reorder);
            self.injected.reordered += 1;
        }
        if self.random.chance(self.faults.duplicate) {
            fate.again = Some(self.random.below(self.faults.reorder.saturating_add(1)));
            self.injected.duplicated += 1;
        }
        if self.random.chance(self.faults.corrupt) {
            fate.damage.flip = Some(self.random.next());
            self.injected.corrupted += 1;
        }
        if self.random.chance(self.faults.truncate) {
            fate.damage.cut = Some(self.random.next());
            self.injected.truncated += 1;
        }
        fate
    }

    /// Whether every packet arrives once, in order and whole, as long as nothing is changed: then no random numbers are
    /// drawn.
    #[must_use]
    pub(super) fn is_idle(&self) -> bool {
        self.burst_left == 0 && !self.faults.any()
    }

    /// Uses other faults from the next packet on; the sequence of random numbers continues.
    pub fn change(&mut self, faults: &Faults) {
        self.faults = Faults { seed: self.faults.seed, ..*faults };
    }

    /// The faults injected so far.
    #[must_use]
    pub fn injected(&self) -> &Injected {
        &self.injected
    }

    /// The faults it follows.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

/// Marsaglia's 64-bit xorshift with Vigna's multiplier: fast, and good enough to choose packets.
#[derive(Clone, Debug)]
pub(super) struct XorShift(u64);

impl XorShift {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds must give unrelated streams, and the state must never be zero.
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self((mixed ^ (mixed >> 31)).max(1))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// True with probability `p`. Draws nothing for 0, so that a fault left out changes no other.
    pub(super) fn chance(&mut self, p: f64) -> bool {
        // 53 bits: the precision of a double.
        p > 0.0 && ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// 0 to `n` - 1, for `n` > 0.
    pub(super) fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> FaultPlan {
        FaultPlan::new(&text.parse().unwrap())
    }

    #[test]
    fn the_same_seed_says_the_same_and_another_does_not() {
        let run = |text: &str| {
            let mut plan = plan(text);
            (0..10_000).map(|_| plan.next_fate()).collect::<Vec<_>>()
        };
        let text = "loss=0.01,burst=50@0.001,reorder=64,duplicate=0.01,corrupt=0.01,truncate=0.01,seed=";
        assert_eq!(run(&format!("{text}7")), run(&format!("{text}7")));
        assert_ne!(run(&format!("{text}7")), run(&format!("{text}8")));
    }

    #[test]
    fn each_fault_is_as_frequent_as_asked() {
        let mut plan = plan(
            "loss=0.01,burst=100@0.0001,reorder=64@0.2,duplicate=0.02,corrupt=0.03,truncate=0.04,seed=3",
        );
        let fates: Vec<_> = (0..1_000_000).map(|_| plan.next_fate()).collect();
        let did = plan.injected();
        let near =
            |n: u64, p: f64| assert!((n as f64 / 1e6 - p).abs() < p * 0.25, "{n} of a million for {p}");
        near(did.lost_in_bursts, 0.0099);
        near(did.lost_singly, 0.0099);
        near(did.reordered, 0.196);
        near(did.duplicated, 0.0196);
        near(did.corrupted, 0.0294);
        near(did.truncated, 0.039);
        assert!(fates.iter().all(|f| f.late <= 64 && f.again.unwrap_or(0) <= 64));
        let listed: u64 = did.lost_packets.ranges().iter().map(|r| r.end - r.start).sum();
        assert_eq!((listed, did.lost_packets.unlisted()), (did.lost(), 0));
        for range in did.lost_packets.ranges() {
            assert!((range.start..range.end).all(|n| fates[n as usize].lost));
            assert!(!fates.get(range.end as usize).is_some_and(|f| f.lost), "ranges do not touch");
        }
    }

    #[test]
    fn certainty_and_nothing_are_exact() {
        let mut all = plan("loss=1");
        assert!((0..1000).all(|_| all.next_fate().lost));
        assert_eq!(all.injected().lost_packets.ranges(), std::slice::from_ref(&(0..1000)));
        let mut none = plan("loss=0");
        assert!((0..1000).all(|_| none.next_fate() == Fate::default()));
    }

    #[test]
    fn a_burst_is_of_the_length_asked() {
        let mut plan = plan("burst=500@0.0005,seed=5");
        for _ in 0..200_000 {
            plan.next_fate();
        }
        let ranges = plan.injected().lost_packets.ranges();
        assert!(ranges.len() > 10);
        assert!(ranges.iter().all(|r| (r.end - r.start) % 500 == 0 || r.end == 200_000), "{ranges:?}");
    }

    #[test]
    fn damage_changes_one_bit_or_the_length() {
        let mut packet = [0u8; 10];
        assert_eq!(Damage { flip: Some(83), cut: None }.apply(&mut packet), 10);
        assert_eq!(packet, [8, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Damage { flip: None, cut: Some(27) }.apply(&mut packet), 7);
        assert_eq!(Damage { flip: Some(1), cut: Some(1) }.apply(&mut []), 0);
    }

    #[test]
    fn the_list_of_losses_is_bounded() {
        let mut lost = LostPackets { ranges: vec![0..1; LostPackets::LIMIT], unlisted: 0 };
        lost.add(5);
        assert_eq!((lost.ranges().len(), lost.unlisted()), (LostPackets::LIMIT, 1));
    }
}
