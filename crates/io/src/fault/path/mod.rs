//! A simulated path between two hosts: its effects on packets, by time, direction and flow.
//!
//! ```text
//!   rate=1Gbps,buffer=2MiB,delay=15ms,seed=7                          both directions
//!   ; rev: loss=1e-4                                                  from the far end to the near one
//!   ; flow=udp/5001: police=100Mbps/256KiB                            packets of one flow, before the shared link
//!   ; at=10s: delay=25ms,hops=3                                       from then on: another route
//!
//!   packet ─▶ flow= ─▶ loss burst gemodel ber reorder duplicate corrupt truncate
//!          ─▶ mtu-blackhole ─▶ police ─▶ pps ─▶ idle-cut ─▶ queue of `rate` ─▶ delay jitter ─▶ stall ─▶ comb
//!          ─▶ wake ─▶
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | keys of [`fault`](super) | as there, by the packets of each direction |
//! | `rate=R` | packets leave one after another at rate R; a frame includes its Ethernet header, as in `tc` |
//! | `buffer=S` | bytes that wait for the rate, including the packet itself (1MiB) |
//! | `overhead=N` | additional bytes of each frame: 24 for the line of a real Ethernet |
//! | `delay=T` | every packet is delayed by T |
//! | `jitter=T[/reorder]` | an additional delay of 0 to T; in order, unless `reorder` |
//! | `gemodel=P/R/H/K` | Gilbert-Elliott: good to bad, bad to good, loss while bad (1), while good (0) |
//! | `ber=P` | each bit is wrong with probability P, and a frame with one is dropped |
//! | `police=R/B` | packets that exceed rate R and burst B are dropped |
//! | `pps=N[/B]` | packets that exceed N per second and a burst of B (64) are dropped |
//! | `mtu-blackhole=S` | longer IP packets are dropped without any notice |
//! | `idle-cut=T` | a flow that was silent for longer is dropped, until a SYN, or a datagram of the near end |
//! | `paths=N/hash` | N parallel links, each with its own rate and buffer; each flow has its link |
//! | `paths=N/spray/T` | packets use the links in turn; the delay of each link is T longer than that of the one before |
//! | `stall=T@E` | nothing arrives in the last T of every period E; all of it arrives afterwards |
//! | `comb=T` | packets arrive only at multiples of T, as with interrupt moderation |
//! | `wake=T@S` | the first packet after a silence of S is delayed by T, as by a sleeping CPU; later packets wait for it |
//! | `duplex=half` | both directions share one rate |
//! | `hops=N` | the time to live is reduced by N |
//! | `seed=S` | the same seed and the same packets give the same fates |
//!
//! `off` removes an optional key. [`Judge`] applies the path. It is pure: the caller passes the time, so that simulated
//! worlds and sockets share it.
//!
//! ```
//! use skyhaul_io::fault::path::{Direction, Fate, Judge, Packet, Path};
//! let path: Path = "rate=1Gbps,delay=15ms,loss=1%,seed=7".parse()?;
//! let mut judge = Judge::new(&path);
//! let mut lost = 0;
//! for number in 0..1000 {
//!     let packet = Packet { at: number * 100_000, octets: 1514, ..Packet::default() };
//!     judge.offer(Direction::Forward, packet, number, &mut |outcome| match outcome.fate {
//!         Fate::Lost(_) => lost += 1,
//!         Fate::Sent { due, .. } => assert_eq!(due - outcome.at, 15_000_000 + 12_112),
//!     });
//! }
//! assert_eq!(judge.counts(Direction::Forward).all_lost(), lost);
//! # Ok::<(), skyhaul_io::fault::NotFaults>(())
//! ```
//!
//! Limits: 64 sections; times of a path end after 106 days; 65 536 flows are remembered for `idle-cut`, others pass.

mod conditions;
mod fate;
mod firewall;
mod flow;
mod judge;
mod link;
#[cfg(test)]
mod simulated;
mod stage;
#[cfg(test)]
mod tests;

pub use conditions::{Conditions, Gilbert, Parallel};
pub use fate::{Cause, Counts, Fate, Outcome};
pub use flow::{Flow, FlowFilter, Packet};
pub use judge::Judge;

use super::NotFaults;
use crate::quantity::Span;
use std::{fmt, str::FromStr};

/// Maximum number of sections of a path.
const SECTIONS: usize = 64;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the near end to the far one: `fwd`.
    Forward,
    /// Back: `rev`.
    Reverse,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Forward, Direction::Reverse];

    /// As it is written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Direction::Forward => "fwd",
            Direction::Reverse => "rev",
        }
    }
}

/// What changes at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// When, in nanoseconds of the path's time.
    at: u64,
    /// In this direction only.
    direction: Option<Direction>,
    /// For this flow only.
    flow: Option<FlowFilter>,
    /// Keys and values, which have been tried.
    set: Vec<(String, String)>,
}

/// A path, as text describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    seed: u64,
    /// In the order of their times.
    sections: Vec<Section>,
}

impl Path {
    /// A path that does nothing.
    pub const CLEAN: Path = Path { seed: 1, sections: Vec::new() };

    /// The seed of its random numbers.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same path with another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What it does to all packets of a direction at a time, in nanoseconds.
    #[must_use]
    pub fn conditions(&self, direction: Direction, at: u64) -> Conditions {
        let mut conditions = Conditions::CLEAN;
        let of = |section: &&Section| {
            section.at <= at && section.flow.is_none() && section.direction.is_none_or(|is| is == direction)
        };
        for (key, value) in self.sections.iter().filter(of).flat_map(|section| &section.set) {
            // They were tried when the text was read.
            let _ = conditions.set(key, value);
        }
        conditions
    }
}

impl FromStr for Path {
    type Err = NotFaults;

    fn from_str(text: &str) -> Result<Self, NotFaults> {
        let mut path = Path { seed: 1, sections: Vec::new() };
        for section in text.split(';').map(str::trim).filter(|section| !section.is_empty()) {
            if path.sections.len() == SECTIONS {
                return Err(NotFaults::new(format!("more than {SECTIONS} sections")));
            }
            path.read(section)?;
        }
        // Sections of one time keep their order.
        path.sections.sort_by_key(|section| section.at);
        Ok(path)
    }
}

impl Path {
    fn read(&mut self, text: &str) -> Result<(), NotFaults> {
        let mut section = Section { at: 0, direction: None, flow: None, set: Vec::new() };
        let mut rest = text;
        let mut general = true;
        while let Some((head, more)) = rest.split_once(':') {
            match head.trim() {
                "fwd" => section.direction = Some(Direction::Forward),
                "rev" => section.direction = Some(Direction::Reverse),
                head => match head.split_once('=') {
                    Some(("at", time)) => {
                        section.at = time
                            .parse::<Span>()
                            .map_err(|wrong| NotFaults::new(format!("at: {wrong}")))?
                            .nanos();
                    }
                    Some(("flow", flow)) => section.flow = Some(flow.parse()?),
                    _ => {
                        let said = format!("'{head}:' is none of fwd:, rev:, at=TIME: and flow=FLOW:");
                        return Err(NotFaults::new(said));
                    }
                },
            }
            (rest, general) = (more, false);
        }
        let mut tried = Conditions::CLEAN;
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| NotFaults::new(format!("'{part}' has no value")))?;
            if key == "seed" && general {
                self.seed =
                    value.parse().map_err(|_| NotFaults::new(format!("seed '{value}' is not a number")))?;
                continue;
            }
            if section.flow.is_some() && !conditions::belongs_to_a_flow(key) {
                return Err(NotFaults::new(format!("{key} is shared by all flows: leave out flow=")));
            }
            tried.set(key, value)?;
            section.set.push((key.to_owned(), value.to_owned()));
        }
        if !section.set.is_empty() {
            self.sections.push(section);
        }
        Ok(())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed={}", self.seed)?;
        for section in &self.sections {
            write!(f, ";")?;
            if section.at > 0 {
                write!(f, "at={}:", Span::from_nanos(section.at))?;
            }
            if let Some(direction) = section.direction {
                write!(f, "{}:", direction.name())?;
            }
            if let Some(flow) = &section.flow {
                write!(f, "flow={flow}:")?;
            }
            let set: Vec<String> = section.set.iter().map(|(key, value)| format!("{key}={value}")).collect();
            write!(f, "{}", set.join(","))?;
        }
        Ok(())
    }
}
