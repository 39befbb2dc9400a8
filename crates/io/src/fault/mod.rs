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

mod line;
pub mod path;
mod plan;
mod source;

pub use line::Line;
pub use plan::{Damage, Fate, FaultPlan, Injected, LostPackets};
pub use source::FaultSource;

use std::{fmt, str::FromStr};

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
        write!(f, "faults: {}; hint: use any of {}", self.said, self.example)
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
}
