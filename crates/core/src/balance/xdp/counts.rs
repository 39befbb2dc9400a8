//! What program and process tell each other besides the table: until when it counts, and what was forwarded.

use crate::balance::{Counters, MEMBERS, Seat, Traffic};

/// Octets of what each processor counts: when, the highest tick since, and for each seat packets and octets.
pub const COUNTS_BYTES: usize = SEATS_AT + 16 * MEMBERS;
pub(super) const PERIOD_AT: usize = 0;
pub(super) const NEWEST_AT: usize = 8;
pub(super) const SEATS_AT: usize = 16;

/// Octets of a lease: until when, and the period.
pub const LEASE_BYTES: usize = 16;
pub(super) const UNTIL_AT: usize = 0;
pub(super) const LEASE_PERIOD_AT: usize = 8;

/// What the program may do for now. Who gives out tables renews it, so that packets take the way of the sockets if that process is
/// stopped or slow, and no table is used for longer than a thread would use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The table counts until then, in nanoseconds of the monotonic clock.
    pub until: u64,
    /// Highest ticks are told by period.
    pub period: u64,
}

impl Lease {
    /// Where `until` and `period` are in the map, in units of 8 octets.
    pub const PLACES: (usize, usize) = (UNTIL_AT / 8, LEASE_PERIOD_AT / 8);
}

/// What all processors counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets and octets by member.
    pub counters: Counters,
    /// Octets of all packets.
    pub bytes: u64,
    /// The highest tick of the period that was asked for or a later one.
    pub newest: Option<u64>,
}

impl Counts {
    /// Read what each processor counted, one after the other; ticks count from `period` on.
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
