//! The data plane: finds the destination of a packet in an immutable table.
//!
//! ```text
//!   source ─ allow-list ─▶ tick ─ epochs ─▶ calendar ─ slot ─▶ seat ─ members ─▶ address, port, bytes to remove
//! ```
//!
//! A table is replaced as a whole, so any number of threads share it without a lock. A look-up loads a boundary, a slot
//! and a member; packets of one train with the same label are looked up once. Nothing is allocated.

use super::allow::AllowList;
use super::calendar::{Calendar, SLOTS};
use super::member::{MEMBERS, Member, PortRange, Seat};
use super::refusal::{Counters, Refusal};
use super::tick_range::TickRange;
use crate::hint::Hint;
use crate::placement::Reject;
use crate::wire::labelled::{Label, Labelled};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::fmt;
use std::sync::Arc;

/// Maximum number of epochs in a table.
pub const EPOCHS: usize = 32;

/// How a label's slot selects a slot of the calendar: the low `bits` of `slot ^ xor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSelect {
    mask: u16,
    xor: u16,
}

impl SlotSelect {
    /// The low `bits` of `slot ^ xor`; `None` for more than the calendar's 9.
    #[must_use]
    pub fn new(bits: u8, xor: u16) -> Option<SlotSelect> {
        (bits <= 9).then_some(SlotSelect { mask: (1 << bits) - 1, xor })
    }

    /// Mask and xor.
    pub(super) fn parts(self) -> (u16, u16) {
        (self.mask, self.xor)
    }
}

impl Default for SlotSelect {
    /// Uses all bits of the slot unchanged.
    fn default() -> SlotSelect {
        SlotSelect { mask: SLOTS as u16 - 1, xor: 0 }
    }
}

/// A calendar, and the first tick for which it is used; it ends where the next epoch begins.
#[derive(Clone, Debug)]
pub struct Epoch {
    /// First tick.
    pub first: u64,
    /// The owner of each slot.
    pub calendar: Arc<Calendar>,
    /// How a slot is chosen.
    pub select: SlotSelect,
}

impl Epoch {
    /// Whether both send each slot to the same member.
    #[must_use]
    pub(super) fn is_as(&self, other: &Epoch) -> bool {
        self.select == other.select
            && (Arc::ptr_eq(&self.calendar, &other.calendar) || self.calendar == other.calendar)
    }
}

/// The occupant of a seat of the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Occupant {
    /// Nobody.
    #[default]
    None,
    /// A member.
    Member(Member),
    /// A member that was evicted, but is still named by an epoch.
    Evicted,
    /// A member with an unusable address: see [`Table::bar`].
    Barred,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// To this member.
    pub seat: Seat,
    /// To this port of it.
    pub port: u16,
    /// Bytes to remove from the front of the packet: the label, or none.
    pub skip: u16,
}

/// How many packets of a train were routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routed {
    /// As many, from the first one on.
    pub packets: usize,
    /// The tick of the next one, which is not settled; `None`: there is none, or no room for its route.
    pub unsettled: Option<u64>,
}

/// The table of one balancer.
#[derive(Clone, Debug)]
pub struct Table {
    allow: AllowList,
    /// Ascending by first tick.
    epochs: Vec<Epoch>,
    members: Box<[Occupant; MEMBERS]>,
    era: u64,
}

impl Table {
    /// A table of these epochs and members. Epochs are sorted by first tick; if there are more than [`EPOCHS`], the
    /// last are used.
    #[must_use]
    pub fn new(allow: AllowList, mut epochs: Vec<Epoch>, members: &[(Seat, Occupant)]) -> Table {
        epochs.sort_by_key(|epoch| epoch.first);
        epochs.drain(..epochs.len().saturating_sub(EPOCHS));
        let mut seats = Box::new([Occupant::None; MEMBERS]);
        members.iter().for_each(|&(seat, occupant)| seats[seat.number()] = occupant);
        Table { allow, epochs, members: seats, era: 0 }
    }

    /// The same table, of this era.
    #[must_use]
    pub fn with_era(self, era: u64) -> Table {
        Table { era, ..self }
    }

    /// The same table with other epochs, ascending by first tick. The last [`EPOCHS`] of them are used.
    #[must_use]
    pub(super) fn with_epochs(self, mut epochs: Vec<Epoch>) -> Table {
        epochs.drain(..epochs.len().saturating_sub(EPOCHS));
        Table { epochs, ..self }
    }

    /// A number that changes when ticks that were forwarded get another calendar on purpose, because a sender began to
    /// count again.
    #[must_use]
    pub fn era(&self) -> u64 {
        self.era
    }

    /// Whether packets of `source` are forwarded.
    #[must_use]
    pub fn admits(&self, source: IpAddr) -> bool {
        self.allow.admits(source)
    }

    /// The senders that are allowed.
    #[must_use]
    pub fn allow(&self) -> &AllowList {
        &self.allow
    }

    /// The epochs, oldest first.
    #[must_use]
    pub fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    /// The members, by their seats.
    pub fn members(&self) -> impl Iterator<Item = (Seat, &Member)> {
        self.members.iter().enumerate().filter_map(|(number, occupant)| match occupant {
            Occupant::Member(member) => Some((Seat::new(number)?, member)),
            Occupant::None | Occupant::Evicted | Occupant::Barred => None,
        })
    }

    /// Bars members with unusable addresses: packets for them are refused. Returns how many there are.
    pub fn bar(&mut self, mut is_unusable: impl FnMut(&Member) -> bool) -> usize {
        let mut barred = 0;
        for occupant in &mut *self.members {
            if matches!(occupant, Occupant::Member(member) if is_unusable(member)) {
                *occupant = Occupant::Barred;
                barred += 1;
            }
        }
        barred
    }

    /// Finds the destination of `packet`, whose source is allowed.
    ///
    /// # Errors
    /// The reason for which the packet is not forwarded. [`Refusal::BlockedSource`] is not checked.
    #[inline]
    pub fn route<L: Labelled>(&self, packet: &[u8]) -> Result<Route, Refusal> {
        self.route_one::<L>(packet, &mut (&[], 0, Err(Refusal::Empty)))
    }

    /// Finds the destination of a packet with this label.
    #[inline]
    fn find(&self, label: &Label) -> Result<Route, Refusal> {
        // Search from the newest: it is nearly always the newest epoch or the one before.
        let epoch = self.epochs.iter().rfind(|epoch| epoch.first <= label.tick);
        let none = if self.epochs.is_empty() { Refusal::NoEpoch } else { Refusal::TooOld };
        let epoch = epoch.ok_or(none)?;
        let slot = (label.slot ^ epoch.select.xor) & epoch.select.mask;
        let seat = epoch.calendar.member(slot).ok_or(Refusal::UnassignedSlot)?;
        match &self.members[seat.number() & (MEMBERS - 1)] {
            Occupant::Member(member) => Ok(Route {
                seat,
                port: member.port + (label.port & member.mask),
                skip: if member.keep_label { 0 } else { label.bytes },
            }),
            Occupant::Evicted => Err(Refusal::Evicted),
            Occupant::Barred => Err(Refusal::Unusable),
            Occupant::None => Err(Refusal::NoMember),
        }
    }

    /// Finds the destination of each packet of a train from `source`. Writes as many `routes` as there are packets, or
    /// as fit, and counts these packets. Returns their number.
    #[inline]
    pub fn route_train<'p, L: Labelled>(
        &self,
        source: IpAddr,
        packets: impl IntoIterator<Item = &'p [u8]>,
        routes: &mut [Result<Route, Refusal>],
        counters: &mut Counters,
    ) -> usize {
        self.route_settled::<L>(source, packets, TickRange::ALL, routes, counters).packets
    }

    /// The same for packets with `settled` ticks only: it stops before the first packet with another tick.
    #[inline]
    pub fn route_settled<'p, L: Labelled>(
        &self,
        source: IpAddr,
        packets: impl IntoIterator<Item = &'p [u8]>,
        settled: TickRange,
        routes: &mut [Result<Route, Refusal>],
        counters: &mut Counters,
    ) -> Routed {
        let allowed = self.admits(source);
        let mut before: (&[u8], u64, Result<Route, Refusal>) = (&[], 0, Err(Refusal::Truncated));
        let mut done = 0;
        for (to, packet) in routes.iter_mut().zip(packets) {
            done += 1;
            if !allowed {
                *to = Err(Refusal::BlockedSource);
                counters.refuse(Refusal::BlockedSource);
                continue;
            }
            let (label, tick, route) = before;
            let again = !label.is_empty() && packet.len() > label.len() && packet.starts_with(label);
            *to = if again { route } else { self.route_one::<L>(packet, &mut before) };
            let tick = if again { tick } else { before.1 };
            if !again && !settled.contains(tick) && to.as_ref().err().is_none_or(|why| why.is_by_tick()) {
                return Routed { packets: done - 1, unsettled: Some(tick) };
            }
            match *to {
                Ok(Route { seat, skip, .. }) => {
                    counters.forward(seat, packet.len() as u64 - u64::from(skip), tick);
                }
                Err(why) if why.is_for_want_of_a_member() || why == Refusal::TooOld => {
                    counters.refuse_tick(why, tick);
                }
                Err(why) => counters.refuse(why),
            }
        }
        Routed { packets: done, unsettled: None }
    }

    /// Finds the destination of `packet`, and keeps its label: a next packet with the same label has the same
    /// destination.
    #[inline]
    fn route_one<'p, L: Labelled>(
        &self,
        packet: &'p [u8],
        before: &mut (&'p [u8], u64, Result<Route, Refusal>),
    ) -> Result<Route, Refusal> {
        let label = L::label(packet).map_err(unreadable)?;
        let (octets, payload) = packet.split_at_checked(label.bytes.into()).ok_or(Refusal::Truncated)?;
        if payload.is_empty() {
            return Err(Refusal::Empty);
        }
        let route = self.find(&label);
        *before = (octets, label.tick, route);
        route
    }

    /// The address of a route; `None` if the route is from another table.
    #[inline]
    #[must_use]
    pub fn address(&self, route: Route) -> Option<SocketAddr> {
        match &self.members[route.seat.number() & (MEMBERS - 1)] {
            Occupant::Member(member) => Some(SocketAddr::new(member.ip, route.port)),
            Occupant::None | Occupant::Evicted | Occupant::Barred => None,
        }
    }

    /// Serialises the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let (any, v4, v6) = self.allow.ranges();
        out.push(any.into());
        count(&mut out, v4.len());
        v4.iter().for_each(|(from, to)| [from, to].iter().for_each(|ip| out.extend(ip.octets())));
        count(&mut out, v6.len());
        v6.iter().for_each(|(from, to)| [from, to].iter().for_each(|ip| out.extend(ip.octets())));
        count(&mut out, self.epochs.len());
        for Epoch { first, calendar, select } in &self.epochs {
            out.extend(first.to_be_bytes());
            [select.mask, select.xor].iter().for_each(|half| out.extend(half.to_be_bytes()));
            calendar.owners().for_each(|owner| out.extend(owner.to_be_bytes()));
        }
        let seats = self.members.iter().enumerate();
        let taken: Vec<_> = seats.filter(|(_, occupant)| **occupant != Occupant::None).collect();
        count(&mut out, taken.len());
        for (seat, occupant) in taken {
            out.extend((seat as u16).to_be_bytes());
            let Occupant::Member(member) = occupant else {
                out.push(0);
                continue;
            };
            match member.ip {
                IpAddr::V4(ip) => (out.push(4), out.extend(ip.octets())),
                IpAddr::V6(ip) => (out.push(6), out.extend(ip.octets())),
            };
            [member.port, member.mask].iter().for_each(|half| out.extend(half.to_be_bytes()));
            out.push(member.keep_label.into());
        }
        out.extend(self.era.to_be_bytes());
        out
    }

    /// Reads a serialised table.
    ///
    /// # Errors
    /// [`NotATable`].
    pub fn from_bytes(octets: &[u8]) -> Result<Table, NotATable> {
        let mut read = Read(octets);
        if read.array::<7>()? != *MAGIC {
            return Err(NotATable("it does not begin as one, or is of another version"));
        }
        let any = read.bit()?;
        let v4 = read.ranges(|read| Ok(Ipv4Addr::from(read.array::<4>()?)))?;
        let v6 = read.ranges(|read| Ok(Ipv6Addr::from(read.array::<16>()?)))?;
        let epochs = read.list(EPOCHS, Read::epoch)?;
        if !epochs.windows(2).all(|two| two[0].first < two[1].first) {
            return Err(NotATable("its epochs are out of order"));
        }
        let members = read.list(MEMBERS, Read::occupant)?;
        if !members.windows(2).all(|two| two[0].0 < two[1].0) {
            return Err(NotATable("its members are out of order"));
        }
        let era = read.u64()?;
        if !read.0.is_empty() {
            return Err(NotATable("octets are left over"));
        }
        Ok(Table::new(AllowList::of_ranges(any, v4, v6), epochs, &members).with_era(era))
    }
}

/// The refusal for an unreadable label.
fn unreadable(why: Reject) -> Refusal {
    match why {
        Reject::Truncated => Refusal::Truncated,
        Reject::BadMagic => Refusal::BadMagic,
        _ => Refusal::BadVersion,
    }
}

const MAGIC: &[u8; 7] = b"SKYTAB\x02";
/// Maximum number of networks in an allow-list: more than anyone types, and few enough to fit into memory.
const RANGES: usize = 1 << 16;

/// Error: the bytes are not a table.
///
/// Serialised tables, so that forwarding and control can run in separate processes.
///
/// ```text
///   "SKYTAB" version │ anyone? │ n, n × (from, to) IPv4 │ n, n × (from, to) IPv6
///                    │ n, n × (first tick, mask, xor, 512 × seat) │ n, n × (seat, occupant) │ era
/// ```
///
/// Big-endian; numbers of elements have 32 bits. Input is not trusted: [`Table::from_bytes`] only returns tables that
/// the constructors in the neighbouring modules could have made, and serialising such a table gives the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATable(&'static str);

impl fmt::Display for NotATable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "not a table of a balancer: {}{}",
            self.0,
            Hint("both processes must be of the same version")
        )
    }
}

impl std::error::Error for NotATable {}

fn count(out: &mut Vec<u8>, n: usize) {
    // Fits into 32 bits because of the limits above.
    out.extend((n as u32).to_be_bytes());
}

struct Read<'a>(&'a [u8]);

impl Read<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotATable> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(NotATable("it is cut short"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, NotATable> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, NotATable> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn bit(&mut self) -> Result<bool, NotATable> {
        match self.array::<1>()? {
            [octet @ 0..=1] => Ok(octet == 1),
            _ => Err(NotATable("a yes or no is neither")),
        }
    }

    fn list<T>(
        &mut self,
        most: usize,
        one: impl Fn(&mut Self) -> Result<T, NotATable>,
    ) -> Result<Vec<T>, NotATable> {
        let n = u32::from_be_bytes(self.array()?) as usize;
        if n > most {
            return Err(NotATable("it has more elements than a table holds"));
        }
        (0..n).map(|_| one(self)).collect()
    }

    /// Ranges in ascending order that do not touch, as a look-up needs them.
    fn ranges<T: Ord + Copy>(
        &mut self,
        ip: impl Fn(&mut Self) -> Result<T, NotATable>,
    ) -> Result<Vec<(T, T)>, NotATable> {
        let all = self.list(RANGES, |read| Ok((ip(read)?, ip(read)?)))?;
        let ordered =
            all.iter().all(|(from, to)| from <= to) && all.windows(2).all(|two| two[0].1 < two[1].0);
        ordered.then_some(all).ok_or(NotATable("its ranges of senders are out of order"))
    }

    fn epoch(&mut self) -> Result<Epoch, NotATable> {
        let first = self.u64()?;
        let (mask, xor) = (self.u16()?, self.u16()?);
        if usize::from(mask) >= SLOTS || mask & mask.wrapping_add(1) != 0 {
            return Err(NotATable("it chooses slots that do not exist"));
        }
        let mut calendar = Calendar::default();
        for slot in 0..SLOTS as u16 {
            let owner = self.u16()?;
            let seat = Seat::new(owner.into());
            if seat.is_none() && owner != u16::MAX {
                return Err(NotATable("a slot is of a seat that does not exist"));
            }
            calendar.set(slot, seat);
        }
        Ok(Epoch { first, calendar: Arc::new(calendar), select: SlotSelect { mask, xor } })
    }

    fn occupant(&mut self) -> Result<(Seat, Occupant), NotATable> {
        let seat =
            Seat::new(self.u16()?.into()).ok_or(NotATable("a member has a seat that does not exist"))?;
        let ip: IpAddr = match self.array::<1>()? {
            [0] => return Ok((seat, Occupant::Evicted)),
            [4] => self.array::<4>()?.into(),
            [6] => self.array::<16>()?.into(),
            _ => return Err(NotATable("a member has an unknown kind of address")),
        };
        let (port, mask) = (self.u16()?, self.u16()?);
        let ports = PortRange::of_mask(mask);
        let keep_label = self.bit()?;
        let member = ports.and_then(|ports| Member::new(ip, port, ports, keep_label));
        let member = member.ok_or(NotATable("a member has ports that do not exist"))?;
        Ok((seat, Occupant::Member(member)))
    }
}

#[cfg(test)]
mod tests;
