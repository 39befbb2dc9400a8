//! Packets that a receiver lets through: senders, ports, stations, data time, and the wall-clock start and stop.
//!
//! A stream that was arriving before the start begins after everything that arrived until then. At a stop it ends with the last
//! frame that arrived until then; late packets from before are still taken for a moment. So a frame that arrives a moment too
//! early or too late does not count as lost. Limits: a packet that is delayed by more than 0.3 s at the stop is lost.
//!
//! ```text
//!   --from 10.1.0.0/16          any port of a network
//!   --from 10.1.2.3             any port of a host
//!   --from 10.1.2.3:5000-5010   some ports of it
//!   --from [fd00::1]:5000       IPv6 with a port needs brackets
//!   --from :5000                this port of any host
//! ```
//!
//! # Whole frame sets
//!
//! A stream of several threads begins and ends with a whole frame set: one frame of every thread.
//!
//! ```text
//!   arrived   · · 17C 17D │ 18A 18B 18C 18D │ … │ 40A 40B 40C 40D │ 41A 41B · ·
//!   delivered             └─────────────────┴─ … ┴────────────────┘
//!             partial_set                                           partial_set
//! ```
//!
//! A receiver may start, and a sender stop, at any frame. Readers of VDIF take the threads of the first set for all
//! threads, so for them a recording that begins within a set lacks threads although their frames exist. A partial set at either
//! end is cut off and counted ([`Reject::PartialSet`](skyhaul_core::placement::Reject::PartialSet)). The halves of a FILA10G frame
//! are a set of two. A frame lost within the first set does not make the set partial: it is missing, and filled as elsewhere.
//!
//! If frames are placed by time, the layout gives the place of sets. If they are placed by sequence number, a set begins where the
//! time in the headers changes from one packet to the next.
//!
//! Limits: threads whose packets do not arrive set by set, and frames without headers, are not changed; nor is the end of
//! a stream that fell silent before the receiver was stopped, because it was already delivered.

use skyhaul_core::assembly::{Cause, Retired};
use skyhaul_core::hint::Hint;
use skyhaul_core::placement::{Nanos, Reject};
use skyhaul_core::wire::{Place, StreamFormat};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, Range, RangeInclusive};
use std::str::FromStr;

/// Allowed senders: addresses of a network, and their ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// An address of the network, and how many leading bits of it count; `None` is any address.
    network: Option<(IpAddr, u8)>,
    ports: RangeInclusive<u16>,
}

/// Why a text is not a valid [`Origin`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no sender{hint}", hint = Hint("write an address, a network or a port, like 10.1.2.3, 10.1.0.0/16, 10.1.2.3:5000-5010, [fd00::1]:5000 or :5000"))]
pub struct NoOrigin(String);

/// The 128 bits of an address; IPv4 is mapped to `::ffff:0:0/96`.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

impl Origin {
    /// Whether `sender` is one of them.
    #[must_use]
    pub fn admits(&self, sender: SocketAddr) -> bool {
        let near = self.network.is_none_or(|(network, prefix)| {
            let differ = bits(network) ^ bits(sender.ip());
            differ.checked_shr(128 - u32::from(prefix)).is_none_or(|rest| rest == 0)
        });
        near && self.ports.contains(&sender.port())
    }
}

impl FromStr for Origin {
    type Err = NoOrigin;

    fn from_str(text: &str) -> Result<Self, NoOrigin> {
        parse(text.trim()).ok_or_else(|| NoOrigin(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Origin> {
    let (address, ports) = split(text)?;
    let network = match address {
        "" | "*" => None,
        _ => Some(network(address)?),
    };
    if network.is_none() && ports.is_none() {
        return None;
    }
    Some(Origin { network, ports: ports.unwrap_or(0..=u16::MAX) })
}

/// The address, without brackets, and the ports.
fn split(text: &str) -> Option<(&str, Option<RangeInclusive<u16>>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(list) => Some((address, Some(ports(list)?))),
            None => rest.is_empty().then_some((address, None)),
        };
    }
    match text.split_once(':') {
        // More than one colon without brackets: IPv6 without port.
        Some((address, list)) if !list.contains(':') => Some((address, Some(ports(list)?))),
        _ => Some((text, None)),
    }
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let (from, to) = (from.parse::<u16>().ok()?, to.parse::<u16>().ok()?);
    (from <= to).then_some(from..=to)
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
    let ip: IpAddr = address.parse().ok()?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.map_or(Some(most), |p| p.parse::<u8>().ok().filter(|&p| p <= most))?;
    Some((ip, prefix + (128 - most)))
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.network {
            None => {}
            Some((IpAddr::V4(ip), 128)) => write!(f, "{ip}")?,
            Some((IpAddr::V4(ip), prefix)) => write!(f, "{ip}/{}", prefix - 96)?,
            Some((IpAddr::V6(ip), 128)) => write!(f, "[{ip}]")?,
            Some((IpAddr::V6(ip), prefix)) => write!(f, "[{ip}/{prefix}]")?,
        }
        match (*self.ports.start(), *self.ports.end()) {
            (0, u16::MAX) => Ok(()),
            (from, to) if from == to => write!(f, ":{from}"),
            (from, to) => write!(f, ":{from}-{to}"),
        }
    }
}

/// Allowed senders and stations.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// Senders; if empty, all are allowed.
    pub from: Vec<Origin>,
    /// Stations as in VDIF headers: two letters, or a number; if empty, all are allowed.
    pub stations: Vec<String>,
}

impl Allow {
    /// Check that `sender` is allowed.
    ///
    /// # Errors
    /// [`Reject::NotAllowed`].
    pub fn sender(&self, sender: SocketAddr) -> Result<(), Reject> {
        let admitted = self.from.is_empty() || self.from.iter().any(|origin| origin.admits(sender));
        if admitted { Ok(()) } else { Err(Reject::NotAllowed) }
    }

    /// Check that a stream of `station` is allowed. If stations are listed, a stream without one is not.
    ///
    /// # Errors
    /// [`Reject::NotAllowed`].
    pub fn station(&self, station: Option<&str>) -> Result<(), Reject> {
        let named = |station: &str| self.stations.iter().any(|one| one == station);
        let admitted = self.stations.is_empty() || station.is_some_and(named);
        if admitted { Ok(()) } else { Err(Reject::NotAllowed) }
    }
}

/// A second of data time, as a UNIX time.
pub type DataTime = i64;

/// Lets packets through from one second of data time (included) to another (excluded).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// First second that passes.
    pub start: Option<DataTime>,
    /// First second that does not pass any more.
    pub stop: Option<DataTime>,
}

impl Gate {
    /// Whether it passes everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.start.is_none() && self.stop.is_none()
    }

    /// Check that a packet of second `time` passes.
    ///
    /// # Errors
    /// [`Reject::BeforeStart`] or [`Reject::AfterStop`].
    pub fn admit(&self, time: DataTime) -> Result<(), Reject> {
        if self.start.is_some_and(|start| time < start) {
            return Err(Reject::BeforeStart);
        }
        if self.stop.is_some_and(|stop| time >= stop) {
            return Err(Reject::AfterStop);
        }
        Ok(())
    }
}

/// Where a gate cut a stream, by the numbers of its packets: for packets that do not state a time, such as second halves of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cut {
    /// Behind all packets of the last frame before the start.
    start: u64,
    /// The first packet of the first frame that was admitted.
    begun: Option<u64>,
    /// The first packet of the first frame after the stop.
    stop: Option<u64>,
}

impl Cut {
    /// The sender's counter restarted.
    pub(super) fn restart(&mut self) {
        *self = Cut { begun: self.begun.map(|_| 0), ..Cut::default() };
    }

    /// Packet `number`, the first of the `parts` of a frame, was admitted, or was not.
    pub(super) fn note(&mut self, admitted: Result<(), Reject>, number: u64, parts: u64) {
        match admitted {
            Ok(()) => self.begun = Some(self.begun.map_or(number, |begun| begun.min(number))),
            Err(Reject::BeforeStart) => self.start = self.start.max(number.saturating_add(parts)),
            Err(Reject::AfterStop) => self.stop = Some(self.stop.map_or(number, |stop| stop.min(number))),
            Err(_) => {}
        }
    }

    /// Check that a packet without a time belongs to a frame that passes. Before the first frame that was admitted, its own may
    /// be one from before the start that arrives late.
    pub(super) fn admit(&self, gate: &Gate, number: u64) -> Result<(), Reject> {
        let is_early = gate.start.is_some() && self.begun.is_none_or(|begun| number < begun);
        if is_early || number < self.start {
            return Err(Reject::BeforeStart);
        }
        if self.stop.is_some_and(|stop| number >= stop) {
            return Err(Reject::AfterStop);
        }
        Ok(())
    }
}

/// Senders that are remembered from before the start.
const MAX_EARLY_SENDERS: usize = 1024;
/// A sender that was silent for this long before its first packet was not cut off.
const MAX_SILENCE: Nanos = Nanos::SECOND;

/// Check that a frame is within the edges of its stream.
///
/// # Errors
/// [`Reject::BeforeStart`] or [`Reject::AfterStop`].
pub(super) fn admit(only: &Range<u64>, number: u64) -> Result<(), Reject> {
    if number < only.start {
        return Err(Reject::BeforeStart);
    }
    if number >= only.end {
        return Err(Reject::AfterStop);
    }
    Ok(())
}

/// Senders whose packets arrived before the start, and when the last one did.
#[derive(Debug, Default)]
pub(super) struct Early(HashMap<SocketAddr, Nanos>);

impl Early {
    /// A packet of `sender` arrived too early.
    pub(super) fn heard(&mut self, sender: SocketAddr, now: Nanos) {
        if self.0.len() < MAX_EARLY_SENDERS || self.0.contains_key(&sender) {
            self.0.insert(sender, now);
        }
    }

    /// Whether a stream whose first packet came at `since` was arriving already.
    pub(super) fn was_cut(&self, sender: SocketAddr, since: Nanos) -> bool {
        self.0.get(&sender).is_some_and(|&last| since.since(last) < MAX_SILENCE)
    }
}

/// Frames of a part that are searched for the start of a set.
const MAX_SEARCHED_FRAMES: u64 = 1024;

/// Where the sets of one stream begin, and whether it has begun with one.
#[derive(Debug)]
pub(super) struct Sets {
    /// Frames of a set; 1 if there is nothing to do.
    group: u64,
    /// Incomplete sets are kept.
    keep: bool,
    /// Bytes of a frame.
    unit: u64,
    epoch: u32,
    begun: bool,
    /// The frame in an object, modulo the group, that is the first of its set; `None` if unknown.
    first: Option<u64>,
}

impl Sets {
    /// For a stream; `keep`: keep incomplete sets.
    pub(super) fn new(format: &StreamFormat, unit: u32, keep: bool) -> Self {
        let group = if keep { 1 } else { format.group() as u64 };
        Self { group, keep, unit: u64::from(unit.max(1)), epoch: 0, begun: false, first: None }
    }

    /// For a stream that has begun with a set already.
    pub(super) fn begun(format: &StreamFormat, unit: u32, keep: bool) -> Self {
        Self { begun: true, first: Some(0), ..Self::new(format, unit, keep) }
    }

    /// Whether incomplete sets are kept.
    pub(super) fn keeps_partial(&self) -> bool {
        self.keep
    }

    /// Cut incomplete sets off `part` at the stream's beginning, or at its end if it is the `last`. Returns the number of
    /// frames cut off; the part may become empty.
    pub(super) fn trim<B: Deref<Target = [u8]>>(
        &mut self,
        part: &mut Retired<B>,
        format: &StreamFormat,
        last: bool,
    ) -> u64 {
        if self.group < 2 {
            return 0;
        }
        if part.epoch != self.epoch {
            (self.epoch, self.begun) = (part.epoch, false);
        }
        let came = part.received();
        if !self.begun {
            self.first = self.first_of_set(part, format);
            self.begin(part);
            // Frames before the beginning are not a gap.
            part.after = None;
            self.begun = part.received() > 0;
        }
        if last && part.cause == Cause::Finish {
            self.end(part);
        }
        (came - part.received()) / self.unit
    }

    fn begin<B>(&self, part: &mut Retired<B>) {
        let Some(first) = self.first else { return };
        // Sets that are missing entirely are not the beginning either.
        let from = self.at_or_after(part.range.start, first);
        let lost = part.missing.iter().find(|hole| hole.start <= from && from < hole.end);
        let came = lost.map_or(from, |hole| hole.end);
        let whole = self.at_or_before(came, first).max(from);
        keep(part, whole..part.range.end);
    }

    fn end<B>(&self, part: &mut Retired<B>) {
        let Some(first) = self.first else { return };
        let whole = self.at_or_before(part.range.end, first);
        keep(part, part.range.start..whole);
    }

    /// The start of the first set that begins at byte `at` or later.
    fn at_or_after(&self, at: u64, first: u64) -> u64 {
        let within = (at / self.unit + self.group - first) % self.group;
        at + (self.group - within) % self.group * self.unit
    }

    /// The start of the last set that begins at byte `at` or before; for an object's first bytes, the object's start.
    fn at_or_before(&self, at: u64, first: u64) -> u64 {
        let within = (at / self.unit + self.group - first) % self.group;
        at.saturating_sub(within * self.unit)
    }

    /// Where in a group sets begin.
    fn first_of_set<B: Deref<Target = [u8]>>(&self, part: &Retired<B>, format: &StreamFormat) -> Option<u64> {
        if format.place == Place::Time || format.threads.len() < 2 {
            return Some(0);
        }
        let time = |at: u64| {
            let missing = part.missing.iter().any(|hole| hole.contains(&(at * self.unit)));
            let bytes = (at * self.unit) as usize..((at + 1) * self.unit) as usize;
            let time = (!missing).then(|| format.frame_time(part.block.get(bytes)?)).flatten()?;
            Some((time.unix_seconds, time.frame))
        };
        let (from, to) = (part.range.start / self.unit, part.range.end / self.unit);
        let changes = |at: &u64| time(at - 1).zip(time(*at)).is_some_and(|(before, now)| before != now);
        let found = (from + 1..to.min(from + MAX_SEARCHED_FRAMES)).find(changes)?;
        // A set must follow, or threads do not alternate.
        let mut set = (found..to.min(found + self.group)).filter_map(time);
        let one = set.next();
        set.all(|time| Some(time) == one).then_some(found % self.group)
    }
}

/// Reduce a part to `range`.
fn keep<B>(part: &mut Retired<B>, range: Range<u64>) {
    let start = range.start.clamp(part.range.start, part.range.end);
    let range = start..range.end.clamp(start, part.range.end);
    part.missing.retain_mut(|hole| {
        *hole = hole.start.max(range.start)..hole.end.min(range.end);
        hole.start < hole.end
    });
    part.range = range;
}

#[cfg(test)]
mod tests;
