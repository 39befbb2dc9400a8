//! The data plane: finds the destination of a packet in an immutable table.
//!
//! ```text
//!   source ─ allow-list ─▶ tick ─ epochs ─▶ calendar ─ slot ─▶ seat ─ members ─▶ address, port, bytes to remove
//! ```
//!
//! A table is replaced as a whole, so any number of threads share it without a lock. A look-up loads a boundary, a slot
//! and a member; packets of one train with the same label are looked up once. Nothing is allocated.

mod bytes;

pub use bytes::NotATable;

use super::{
    allow::AllowList,
    calendar::{Calendar, SLOTS},
    member::{MEMBERS, Member, Seat},
    refusal::{Counters, Refusal},
};
use crate::{
    placement::Reject,
    wire::labelled::{Label, Labelled},
};
use core::net::{IpAddr, SocketAddr};
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

/// The table of one balancer.
#[derive(Clone, Debug)]
pub struct Table {
    allow: AllowList,
    /// Ascending by first tick.
    epochs: Vec<Epoch>,
    members: Box<[Occupant; MEMBERS]>,
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
        Table { allow, epochs, members: seats }
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
        done
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
}

/// The refusal for an unreadable label.
fn unreadable(why: Reject) -> Refusal {
    match why {
        Reject::Truncated => Refusal::Truncated,
        Reject::BadMagic => Refusal::BadMagic,
        _ => Refusal::BadVersion,
    }
}

#[cfg(test)]
mod tests;
