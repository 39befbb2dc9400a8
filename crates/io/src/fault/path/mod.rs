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

mod flow;
mod judge;
#[cfg(test)]
mod simulated;

pub use flow::{Cause, Counts, Fate, Flow, FlowFilter, Outcome, Packet};
pub use judge::Judge;

use super::NotFaults;
use crate::fault::{Faults, probability};
use crate::quantity::{Rate, Size, Span};
use std::fmt;
use std::fmt::Display;
use std::str::FromStr;

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
            if section.flow.is_some() && !belongs_to_a_flow(key) {
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

/// A loss model of two states, as netem's `gemodel`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gilbert {
    /// From good to bad, at each packet.
    pub worsens: f64,
    /// From bad to good, at each packet.
    pub recovers: f64,
    /// Loss while it is bad.
    pub bad_loss: f64,
    /// Loss while it is good.
    pub good_loss: f64,
}

/// Links side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    /// Links, each with the rate and the queue of the path.
    pub links: u32,
    /// One packet to each in turn, rather than each flow to its link.
    pub spray: bool,
    /// Every link is later than the one before it by this.
    pub apart: Span,
}

/// What a path does to packets at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Loss, bursts, reordering, duplicates, damage.
    pub faults: Faults,
    /// Losses by a model of two states.
    pub gilbert: Option<Gilbert>,
    /// Probability that a bit is wrong; a frame with one is dropped.
    pub bit_errors: f64,
    /// Bits per second.
    pub rate: Option<Rate>,
    /// Bytes that wait for the rate.
    pub buffer: Size,
    /// Additional bytes of each frame on the line.
    pub overhead: u32,
    /// Time that every packet takes.
    pub delay: Span,
    /// Maximum additional delay of a packet.
    pub jitter: Span,
    /// Packets may overtake others that take longer.
    pub jitter_reorders: bool,
    /// Packets beyond this rate and burst are dropped.
    pub police: Option<(Rate, Size)>,
    /// Packets above this rate per second, and above this burst, are dropped.
    pub packet_limit: Option<(u64, u32)>,
    /// Longer IP packets are dropped without any notice.
    pub longest: Option<u32>,
    /// A flow that was silent for longer is cut off.
    pub idle_cut: Option<Span>,
    /// Links side by side.
    pub parallel: Option<Parallel>,
    /// Nothing arrives for the first of these times in every period of the second.
    pub stall: Option<(Span, Span)>,
    /// Packets arrive only at multiples of this time.
    pub comb: Option<Span>,
    /// The first packet after the second of these times without a packet is delayed by the first, and later packets
    /// wait for it.
    pub wake: Option<(Span, Span)>,
    /// Both directions share one rate.
    pub half_duplex: bool,
    /// Routers on the path: each reduces the time to live by 1.
    pub hops: u8,
}

impl Conditions {
    /// A path that does nothing.
    pub const CLEAN: Conditions = Conditions {
        faults: Faults::NONE,
        gilbert: None,
        bit_errors: 0.0,
        rate: None,
        buffer: Size::from_bytes(1 << 20),
        overhead: 0,
        delay: Span::from_nanos(0),
        jitter: Span::from_nanos(0),
        jitter_reorders: false,
        police: None,
        packet_limit: None,
        longest: None,
        idle_cut: None,
        parallel: None,
        stall: None,
        comb: None,
        wake: None,
        half_duplex: false,
        hops: 0,
    };

    /// Change one of them.
    ///
    /// # Errors
    /// There is no such key, or the value is invalid.
    fn set(&mut self, key: &str, value: &str) -> Result<(), NotFaults> {
        match key {
            "rate" => self.rate = optional(key, value)?,
            "buffer" => self.buffer = plain(key, value)?,
            "overhead" => self.overhead = number(key, value, 0..=1000)? as u32,
            "delay" => self.delay = plain(key, value)?,
            "jitter" => {
                let (most, how) = value.split_once('/').unwrap_or((value, "order"));
                self.jitter = plain(key, most)?;
                self.jitter_reorders = one_of(key, how, [("order", false), ("reorder", true)])?;
            }
            "gemodel" => self.gilbert = gilbert(value)?,
            "ber" => self.bit_errors = probability(key, value)?,
            "police" => self.police = police(value)?,
            "pps" => self.packet_limit = packet_limit(value)?,
            "mtu-blackhole" => {
                self.longest = optional::<Size>(key, value)?
                    .map(|size| number(key, &size.bytes().to_string(), 28..=65_535))
                    .transpose()?
                    .map(|octets| octets as u32);
            }
            "idle-cut" => self.idle_cut = optional(key, value)?,
            "paths" => self.parallel = parallel(value)?,
            "stall" => self.stall = time_at(key, value)?,
            "comb" => self.comb = optional(key, value)?.filter(|span: &Span| span.nanos() > 0),
            "wake" => self.wake = time_at(key, value)?,
            "duplex" => self.half_duplex = one_of(key, value, [("full", false), ("half", true)])?,
            "hops" => self.hops = number(key, value, 0..=254)? as u8,
            "seed" => return Err(NotFaults::new("seed= belongs before all other sections".to_owned())),
            _ if self.faults.set(key, value)? => {}
            _ => return Err(NotFaults::new(format!("unknown key '{key}'"))),
        }
        Ok(())
    }
}

/// Whether a flow can have its own value of this key; the others are shared.
fn belongs_to_a_flow(key: &str) -> bool {
    !["rate", "buffer", "overhead", "idle-cut", "paths", "stall", "comb", "wake", "duplex", "hops"]
        .contains(&key)
}

fn plain<T: FromStr>(key: &str, value: &str) -> Result<T, NotFaults>
where
    T::Err: Display,
{
    value.parse().map_err(|wrong| NotFaults::new(format!("{key}: {wrong}")))
}

/// A value, or `off`.
fn optional<T: FromStr>(key: &str, value: &str) -> Result<Option<T>, NotFaults>
where
    T::Err: Display,
{
    if value == "off" { Ok(None) } else { plain(key, value).map(Some) }
}

fn number(key: &str, value: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, NotFaults> {
    value.parse::<u64>().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        NotFaults::new(format!("{key} '{value}' is not a number from {} to {}", range.start(), range.end()))
    })
}

fn one_of<T: Copy>(key: &str, value: &str, all: [(&str, T); 2]) -> Result<T, NotFaults> {
    let found = all.iter().find(|(name, _)| *name == value).map(|(_, is)| *is);
    found.ok_or_else(|| NotFaults::new(format!("{key} '{value}' is neither {} nor {}", all[0].0, all[1].0)))
}

fn gilbert(value: &str) -> Result<Option<Gilbert>, NotFaults> {
    if value == "off" {
        return Ok(None);
    }
    let all: Vec<f64> =
        value.split('/').map(|text| probability("gemodel", text)).collect::<Result<_, _>>()?;
    let (worsens, rest) = match all.split_first() {
        Some((first, rest)) if rest.len() <= 3 => (*first, rest),
        _ => return Err(NotFaults::new(format!("gemodel '{value}' is not P/R/H/K"))),
    };
    let or = |at: usize, default: f64| rest.get(at).copied().unwrap_or(default);
    Ok(Some(Gilbert { worsens, recovers: or(0, 1.0 - worsens), bad_loss: or(1, 1.0), good_loss: or(2, 0.0) }))
}

fn police(value: &str) -> Result<Option<(Rate, Size)>, NotFaults> {
    if value == "off" {
        return Ok(None);
    }
    let (rate, burst) = value
        .split_once('/')
        .ok_or_else(|| NotFaults::new(format!("police '{value}' has no burst: write police=400Mbps/1MiB")))?;
    // A rate has a slash in it if it is written as Mb/s.
    let (rate, burst) = match burst.split_once('/') {
        Some((unit, burst)) => (format!("{rate}/{unit}"), burst),
        None => (rate.to_owned(), burst),
    };
    Ok(Some((plain("police", &rate)?, plain("police", burst)?)))
}

fn packet_limit(value: &str) -> Result<Option<(u64, u32)>, NotFaults> {
    if value == "off" {
        return Ok(None);
    }
    let (rate, burst) = value.split_once('/').unwrap_or((value, "64"));
    let rate = number("pps", rate, 1..=1_000_000_000)?;
    Ok(Some((rate, number("pps", burst, 1..=1_000_000)? as u32)))
}

fn parallel(value: &str) -> Result<Option<Parallel>, NotFaults> {
    if value == "off" {
        return Ok(None);
    }
    let mut parts = value.split('/');
    let links = number("paths", parts.next().unwrap_or(""), 1..=64)? as u32;
    let spray = one_of("paths", parts.next().unwrap_or("hash"), [("hash", false), ("spray", true)])?;
    let apart = parts.next().map_or(Ok(Span::from_nanos(0)), |text| plain("paths", text))?;
    match parts.next() {
        None => Ok(Some(Parallel { links, spray, apart })),
        Some(_) => Err(NotFaults::new(format!("paths '{value}' is not N/spray/TIME"))),
    }
}

/// A time at a longer one.
fn time_at(key: &str, value: &str) -> Result<Option<(Span, Span)>, NotFaults> {
    if value == "off" {
        return Ok(None);
    }
    let wrong =
        || NotFaults::new(format!("{key} '{value}' is not a time at a longer one: write {key}=20ms@1s"));
    let (length, every) = value.split_once('@').ok_or_else(wrong)?;
    let (length, every): (Span, Span) = (plain(key, length)?, plain(key, every)?);
    if length >= every { Err(wrong()) } else { Ok(Some((length, every))) }
}

#[cfg(test)]
mod tests;
