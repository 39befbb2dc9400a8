//! Fault injection: lost, duplicated, reordered and damaged packets, from a seed.
//!
//! ```text
//!   loss=0.01,burst=500@0.0001,reorder=64@0.1,duplicate=0.01,corrupt=1e-5,truncate=1e-5,seed=7
//! ```
//!
//! | fault | meaning |
//! |---|---|
//! | `loss=P` | each packet is lost with probability P |
//! | `burst=N@P` | with probability P a packet begins a burst: it and the next N-1 are lost |
//! | `reorder=N@P` | with probability P (0.1 if omitted) a packet arrives 1 to N places late |
//! | `duplicate=P` | with probability P a packet arrives twice: at once, or with `reorder` up to N places later |
//! | `corrupt=P` | with probability P one bit of the packet is flipped |
//! | `truncate=P` | with probability P the packet is cut short |
//! | `seed=S` | the same seed and the same packets give the same faults |
//!
//! One engine serves both ends: [`FaultPlan`] decides the fate of each packet, [`Line`] holds back late ones, and
//! [`FaultSource`] applies them to any [`Source`](crate::source::Source). A sender uses a `Line` of packet numbers:
//!
//! ```
//! use skyhaul_io::fault::{Faults, Line};
//! let faults: Faults = "loss=0.1,reorder=4,duplicate=0.05,seed=7".parse()?;
//! let mut line = Line::new(&faults);
//! let mut sent = Vec::new();
//! for number in 0..1000u64 {
//!     line.pass(number, &mut |number, _damage| sent.push(number));
//! }
//! line.flush(&mut |number, _damage| sent.push(number));
//! let did = line.injected();
//! assert_eq!(sent.len() as u64, 1000 - did.lost() + did.duplicated);
//! let lost: u64 = did.lost_packets.ranges().iter().map(|r| r.end - r.start).sum();
//! assert_eq!(lost, did.lost());
//! # Ok::<(), skyhaul_io::fault::NotFaults>(())
//! ```
//!
//! A whole path, with rate, queue, delay and a schedule, is described and judged by [`path`]; these keys mean the same there.
//!
//! Limits: at most 2 × (N + 1) late packets are held, N at most 65 536; the list of lost packets has at most a million
//! ranges, and counts the packets beyond them.

pub mod path;
mod source;

pub use source::{FaultSource, Line};

use skyhaul_core::hint::Hint;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// How likely each fault is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// A packet is lost.
    pub loss: f64,
    /// Length of a burst of losses.
    pub burst: u32,
    /// A packet begins a burst.
    pub burst_chance: f64,
    /// Maximum number of places that a packet is late.
    pub reorder: u32,
    /// A packet is late.
    pub reorder_chance: f64,
    /// A packet is duplicated.
    pub duplicate: f64,
    /// One bit of a packet is flipped.
    pub corrupt: f64,
    /// A packet is cut short.
    pub truncate: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Maximum of `reorder`.
pub const DEEPEST: u32 = 65_536;
/// Probability of a late packet, if only the depth is given.
const REORDER_CHANCE: f64 = 0.1;

impl Faults {
    /// No faults.
    pub const NONE: Faults = Faults {
        loss: 0.0,
        burst: 0,
        burst_chance: 0.0,
        reorder: 0,
        reorder_chance: 0.0,
        duplicate: 0.0,
        corrupt: 0.0,
        truncate: 0.0,
        seed: 1,
    };

    /// Whether any fault can happen.
    #[must_use]
    pub fn any(&self) -> bool {
        Faults { seed: 1, ..*self } != Self::NONE
    }

    /// Change one fault; returns whether there is one of this name.
    ///
    /// # Errors
    /// The value is none of this fault.
    pub(crate) fn set(&mut self, key: &str, value: &str) -> Result<bool, NotFaults> {
        match key {
            "loss" => self.loss = probability(key, value)?,
            "duplicate" => self.duplicate = probability(key, value)?,
            "corrupt" => self.corrupt = probability(key, value)?,
            "truncate" => self.truncate = probability(key, value)?,
            "burst" => {
                let (length, chance) = value.split_once('@').ok_or_else(|| {
                    NotFaults::faults(format!("burst '{value}' has no probability: write burst=500@0.0001"))
                })?;
                self.burst = count(key, length)?;
                self.burst_chance = probability(key, chance)?;
            }
            "reorder" => {
                let (depth, chance) = value.split_once('@').unwrap_or((value, ""));
                self.reorder = count(key, depth)?;
                self.reorder_chance = REORDER_CHANCE;
                if !chance.is_empty() {
                    self.reorder_chance = probability(key, chance)?;
                }
            }
            "seed" => {
                self.seed = value
                    .parse()
                    .map_err(|_| NotFaults::faults(format!("seed '{value}' is not a number")))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self::NONE
    }
}

/// Text that does not describe faults, with a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFaults {
    said: String,
    example: &'static str,
}

/// What a path is made of, for a hint.
const PATH: &str = "rate=1Gbps,buffer=2MiB,delay=15ms,jitter=1ms,loss=1e-4,police=400Mbps/1MiB,seed=7;rev:loss=0;at=10s:delay=25ms";

impl NotFaults {
    /// Text that describes no path.
    fn new(said: String) -> Self {
        Self { said, example: PATH }
    }

    fn faults(said: String) -> Self {
        let example =
            "loss=0.01,burst=500@0.0001,reorder=64,duplicate=0.01,corrupt=1e-5,truncate=1e-5,seed=7";
        Self { said, example }
    }
}

impl fmt::Display for NotFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faults: {}{}", self.said, Hint(format_args!("use any of {}", self.example)))
    }
}

impl std::error::Error for NotFaults {}

impl FromStr for Faults {
    type Err = NotFaults;

    fn from_str(text: &str) -> Result<Self, NotFaults> {
        let mut faults = Self::NONE;
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| NotFaults::faults(format!("'{part}' has no value")))?;
            if !faults.set(key, value)? {
                return Err(NotFaults::faults(format!("unknown fault '{key}'")));
            }
        }
        Ok(faults)
    }
}

/// `0.01`, `1e-5` or `1%`.
fn probability(key: &str, text: &str) -> Result<f64, NotFaults> {
    let (number, scale) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 100.0));
    let value = number.parse::<f64>().ok().map(|p| p / scale).filter(|p| (0.0..=1.0).contains(p));
    value.ok_or_else(|| NotFaults::faults(format!("{key} '{text}' is not a probability from 0 to 1")))
}

fn count(key: &str, text: &str) -> Result<u32, NotFaults> {
    let value = text.parse::<u32>().ok().filter(|n| (1..=DEEPEST).contains(n));
    value.ok_or_else(|| {
        NotFaults::faults(format!("{key} '{text}' is not a number of packets from 1 to {DEEPEST}"))
    })
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, chance) in [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("truncate", self.truncate),
        ] {
            if chance > 0.0 {
                write!(f, "{key}={chance},")?;
            }
        }
        if self.burst > 0 {
            write!(f, "burst={}@{},", self.burst, self.burst_chance)?;
        }
        if self.reorder > 0 {
            write!(f, "reorder={}@{},", self.reorder, self.reorder_chance)?;
        }
        write!(f, "seed={}", self.seed)
    }
}

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
    fn is_idle(&self) -> bool {
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
struct XorShift(u64);

impl XorShift {
    fn new(seed: u64) -> Self {
        // Neighbouring seeds must give unrelated streams, and the state must never be zero.
        let mixed = (seed ^ 0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        Self((mixed ^ (mixed >> 31)).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// True with probability `p`. Draws nothing for 0, so that a fault left out changes no other.
    fn chance(&mut self, p: f64) -> bool {
        // 53 bits: the precision of a double.
        p > 0.0 && ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64
    }

    /// 0 to `n` - 1, for `n` > 0.
    fn below(&mut self, n: u32) -> u32 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_and_shown() {
        let text =
            "loss=0.01,duplicate=0.02,corrupt=0.00001,truncate=0.001,burst=500@0.0001,reorder=64@0.5,seed=7";
        let faults: Faults = text.parse().unwrap();
        assert_eq!((faults.loss, faults.burst, faults.burst_chance, faults.seed), (0.01, 500, 0.0001, 7));
        assert_eq!(faults.to_string(), text);
        assert_eq!(
            "loss=1%, reorder=64".parse::<Faults>().unwrap().to_string(),
            "loss=0.01,reorder=64@0.1,seed=1"
        );
        assert!(!"seed=9".parse::<Faults>().unwrap().any());
        assert!("loss=1e-9".parse::<Faults>().unwrap().any());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wrong) in [
            ("loss", "'loss' has no value"),
            ("loss=2", "loss '2' is not a probability"),
            ("loss=NaN", "not a probability"),
            ("loss=-0.1", "not a probability"),
            ("burst=500", "has no probability"),
            ("burst=0@0.1", "from 1 to 65536"),
            ("reorder=100000", "from 1 to 65536"),
            ("delay=3", "unknown fault 'delay'"),
            ("seed=x", "not a number"),
        ] {
            let said = text.parse::<Faults>().unwrap_err().to_string();
            assert!(said.contains(wrong) && said.contains("hint: use any of loss="), "{text}: {said}");
        }
    }

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
