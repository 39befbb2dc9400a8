//! What the kernel program and the process exchange besides the table: the lease and the counters.

use crate::balance::{Counters, MEMBERS, Seat, Traffic};

/// Size in bytes of the counters of one CPU: period, highest tick in that period, and packets and bytes for each seat.
pub const COUNTS_BYTES: usize = SEATS_AT + 16 * MEMBERS;
pub(super) const PERIOD_AT: usize = 0;
pub(super) const NEWEST_AT: usize = 8;
pub(super) const SEATS_AT: usize = 16;

/// Size in bytes of a lease: until when it is valid, and the period.
pub const LEASE_BYTES: usize = 16;
pub(super) const UNTIL_AT: usize = 0;
pub(super) const LEASE_PERIOD_AT: usize = 8;

/// Permission for the program to forward. The process that publishes tables renews it. If that process is stopped or
/// slow, the lease runs out and packets go to the sockets, so no table is used for longer than a thread would use it.
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
