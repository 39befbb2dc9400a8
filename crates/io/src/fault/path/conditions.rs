//! What a path does to packets at one time, and how it is written.

use crate::fault::{Faults, NotFaults, probability};
use crate::quantity::{Rate, Size, Span};
use std::fmt::Display;
use std::str::FromStr;

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
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), NotFaults> {
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
pub(super) fn belongs_to_a_flow(key: &str) -> bool {
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
