//! A table in the form that the kernel program reads: one value, replaced as a whole.
//!
//! ```text
//!   anyone? │ 32 × first tick │ 32 × (mask, xor) │ 32 × 512 × seat │ 1024 × member │ 1024 × (from, to) IPv4 │ 1024 × (from, to) IPv6
//! ```
//!
//! Numbers are in host byte order, addresses in network order. Every list has its full length, so that a search always
//! has the same number of steps; unused elements match nothing. What the image cannot represent (a member whose next
//! hop is unknown, a list of senders that is too long) matches nothing either, and its packets go to the sockets.

use crate::balance::{Counters, EPOCHS, MEMBERS, Member, SLOTS, Seat, Table, Traffic};
use core::net::IpAddr;

/// Maximum number of networks for each version of IP.
pub(super) const RANGES: usize = 1024;

pub(super) const FIRST_AT: usize = 16;
pub(super) const SELECT_AT: usize = FIRST_AT + 8 * EPOCHS;
pub(super) const CALENDAR_AT: usize = SELECT_AT + 4 * EPOCHS;
pub(super) const MEMBER_AT: usize = CALENDAR_AT + 2 * SLOTS * EPOCHS;
pub(super) const V4_AT: usize = MEMBER_AT + MEMBER * MEMBERS;
pub(super) const V6_AT: usize = V4_AT + 8 * RANGES;
/// Size of an image, bytes.
pub const IMAGE_BYTES: usize = V6_AT + 32 * RANGES;

/// Size of a member, bytes, and the offsets of its fields.
pub(super) const MEMBER: usize = 64;
pub(super) const IP: usize = 0;
/// Destination and source of the Ethernet header.
pub(super) const LINK: usize = 16;
pub(super) const INTERFACE: usize = 28;
pub(super) const PORT: usize = 32;
pub(super) const MASK: usize = 34;
/// Version of IP; 0 if the seat is not used.
pub(super) const KIND: usize = 36;
pub(super) const CUT: usize = 38;
pub(super) const MTU: usize = 40;
pub(super) const WHOLE: usize = 42;

/// The next hop on the route to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Number of the outgoing interface.
    pub interface: u32,
    /// Hardware address of the interface.
    pub from: [u8; 6],
    /// Hardware address of the next hop.
    pub to: [u8; 6],
    /// Maximum size of an IP packet, bytes.
    pub mtu: u16,
    /// Forward only packets that the receiving driver holds in one contiguous buffer.
    pub whole: bool,
}

fn put(image: &mut [u8], at: usize, octets: &[u8]) {
    image[at..at + octets.len()].copy_from_slice(octets);
}

/// Returns the image of `table` for packets with labels of `label` bytes; `hop` returns the next hop to an address.
#[must_use]
pub fn image(table: &Table, label: u16, mut hop: impl FnMut(IpAddr) -> Option<Hop>) -> Vec<u8> {
    let mut image = vec![0; IMAGE_BYTES];
    let (any, v4, v6) = table.allow().ranges();
    put(&mut image, 0, &u32::from(any).to_ne_bytes());
    // Unused elements are a range from the last address to the first, which contains nothing.
    for n in 0..RANGES {
        let none = (u32::MAX, 0);
        let short = v4.len() <= RANGES;
        let (from, to) =
            v4.get(n).filter(|_| short).map_or(none, |(from, to)| ((*from).into(), (*to).into()));
        put(&mut image, V4_AT + 8 * n, &[from.to_ne_bytes(), to.to_ne_bytes()].concat());
        let none = (u128::MAX, 0);
        let short = v6.len() <= RANGES;
        let (from, to) =
            v6.get(n).filter(|_| short).map_or(none, |(from, to)| ((*from).into(), (*to).into()));
        let halves = |ip: u128| [((ip >> 64) as u64).to_ne_bytes(), (ip as u64).to_ne_bytes()].concat();
        put(&mut image, V6_AT + 32 * n, &[halves(from), halves(to)].concat());
    }
    for n in 0..EPOCHS {
        let epoch = table.epochs().get(n);
        put(&mut image, FIRST_AT + 8 * n, &epoch.map_or(u64::MAX, |epoch| epoch.first).to_ne_bytes());
        let (mask, xor) = epoch.map_or((0, 0), |epoch| epoch.select.parts());
        put(&mut image, SELECT_AT + 4 * n, &[mask.to_ne_bytes(), xor.to_ne_bytes()].concat());
        let at = CALENDAR_AT + 2 * SLOTS * n;
        match epoch {
            Some(epoch) => epoch
                .calendar
                .owners()
                .enumerate()
                .for_each(|(slot, owner)| put(&mut image, at + 2 * slot, &owner.to_ne_bytes())),
            None => image[at..at + 2 * SLOTS].fill(0xFF),
        }
    }
    for (seat, member) in table.members() {
        if let Some(hop) = hop(member.ip) {
            let at = MEMBER_AT + MEMBER * seat.number();
            put_member(&mut image[at..at + MEMBER], member, label, &hop);
        }
    }
    image
}

fn put_member(to: &mut [u8], member: &Member, label: u16, hop: &Hop) {
    let kind: u16 = match member.ip {
        IpAddr::V4(ip) => {
            put(to, IP, &ip.octets());
            4
        }
        IpAddr::V6(ip) => {
            put(to, IP, &ip.octets());
            6
        }
    };
    put(to, LINK, &hop.to);
    put(to, LINK + 6, &hop.from);
    put(to, INTERFACE, &hop.interface.to_ne_bytes());
    let cut = if member.keep_label { 0 } else { label };
    let fields = [
        (PORT, member.port),
        (MASK, member.mask),
        (KIND, kind),
        (CUT, cut),
        (MTU, hop.mtu),
        (WHOLE, hop.whole.into()),
    ];
    fields.iter().for_each(|&(at, value)| put(to, at, &value.to_ne_bytes()));
}

/// Size in bytes of the counters of one CPU: period, highest tick in that period, and packets and bytes for each seat.
pub const COUNTS_BYTES: usize = SEATS_AT + 16 * MEMBERS;
pub(super) const PERIOD_AT: usize = 0;
pub(super) const NEWEST_AT: usize = 8;
pub(super) const SEATS_AT: usize = 16;

/// Size in bytes of a lease: until when it is valid, the period, and the first and the last settled tick.
pub const LEASE_BYTES: usize = 32;
pub(super) const UNTIL_AT: usize = 0;
pub(super) const LEASE_PERIOD_AT: usize = 8;
pub(super) const LEASE_FIRST_AT: usize = 16;
pub(super) const LEASE_LAST_AT: usize = 24;

/// Permission for the program to forward. The process that publishes tables renews it. If that process is stopped or
/// slow, the lease runs out and packets go to the sockets, so no table is used for longer than a thread would use it.
/// It is for [settled](crate::balance::Settled) ticks only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The table is valid until this time, in nanoseconds of the monotonic clock.
    pub until: u64,
    /// Number of the period; the highest tick is counted anew in each.
    pub period: u64,
}

impl Lease {
    /// Indices of `until` and `period` in the map, in units of 8 bytes.
    pub const PLACES: (usize, usize) = (UNTIL_AT / 8, LEASE_PERIOD_AT / 8);
    /// Indices of the first and the last settled tick. The program reads the first, the last, and the first again, and
    /// passes the packet if that has changed; then it looks up the table. So write `u64::MAX` to the first before the last
    /// is changed, and give out a table before the ticks that are settled by it.
    pub const TICKS: [usize; 2] = [LEASE_FIRST_AT / 8, LEASE_LAST_AT / 8];
}

/// The sum of the counters of all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets and bytes by member.
    pub counters: Counters,
    /// Bytes of all packets.
    pub bytes: u64,
    /// The highest tick of the requested period or a later one.
    pub newest: Option<u64>,
}

impl Counts {
    /// Reads the counters of all CPUs, one after the other. Only ticks of `period` and later ones count.
    #[must_use]
    pub fn read(octets: &[u8], period: u64) -> Counts {
        let (mut newest, mut seats) = (None, vec![Traffic::default(); MEMBERS]);
        for one in octets.as_chunks::<COUNTS_BYTES>().0 {
            let mut numbers = one.as_chunks::<8>().0.iter().map(|octets| u64::from_ne_bytes(*octets));
            let mut next = || numbers.next().unwrap_or(0);
            let (when, tick) = (next(), next());
            if when >= period && when > 0 {
                newest = newest.max(Some(tick));
            }
            for seat in &mut seats {
                seat.packets += next();
                seat.bytes += next();
            }
        }
        let packets = seats.iter().map(|seat| seat.packets).sum();
        let bytes = seats.iter().map(|seat| seat.bytes).sum();
        let used = seats.into_iter().enumerate().filter(|(_, traffic)| traffic.packets > 0);
        let members = used.filter_map(|(seat, traffic)| Some((Seat::new(seat)?, traffic)));
        Counts { counters: Counters::of(packets, &[], members), bytes, newest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_added_and_ticks_of_an_earlier_period_forgotten() {
        let one = |period: u64, tick: u64, packets: u64| {
            let mut octets = vec![0; COUNTS_BYTES];
            let at = SEATS_AT + 16 * 3;
            for (at, number) in
                [(PERIOD_AT, period), (NEWEST_AT, tick), (at, packets), (at + 8, packets * 100)]
            {
                octets[at..at + 8].copy_from_slice(&number.to_ne_bytes());
            }
            octets
        };
        let all = [one(1, 99, 2), one(2, 7, 3), one(2, 9, 0)].concat();
        let counts = Counts::read(&all, 2);
        assert_eq!((counts.newest, counts.bytes, counts.counters.packets), (Some(9), 500, 5));
        assert_eq!(counts.counters.member(Seat(3)), Traffic { packets: 5, bytes: 500 });
        assert_eq!(Counts::read(&all, 3).newest, None);
        assert_eq!(Counts::read(&vec![0; COUNTS_BYTES], 0), Counts::default());
    }
}
