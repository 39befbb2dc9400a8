//! Reasons for which a balancer does not forward a packet, and its counters.

use super::member::{MEMBERS, Seat};

macro_rules! refusals {
    ($( $(#[$doc:meta])* $name:ident = $text:literal ),+ $(,)?) => {
        /// Why a packet was not forwarded. Each reason is a counter in every report, and each has a test.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Refusal { $( $(#[$doc])* $name ),+ }

        impl Refusal {
            /// Every reason, in order of its number.
            pub const ALL: &'static [Refusal] = &[$( Refusal::$name ),+];
            /// Number of reasons.
            pub const COUNT: usize = Self::ALL.len();

            /// Whether the packet is valid and only has no member to go to.
            #[must_use]
            pub fn is_for_want_of_a_member(self) -> bool {
                matches!(
                    self,
                    Refusal::NoEpoch
                        | Refusal::UnassignedSlot
                        | Refusal::NoMember
                        | Refusal::Evicted
                        | Refusal::Unusable
                )
            }

            /// Whether it follows from the tick, and from the table.
            #[must_use]
            pub(super) fn is_by_tick(self) -> bool {
                self.is_for_want_of_a_member() || self == Refusal::TooOld
            }

            /// Its name in reports and metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $( Refusal::$name => $text ),+ }
            }
        }
    };
}

refusals! {
    /// Its sender is not allowed.
    BlockedSource = "blocked_source",
    /// It is shorter than a label.
    Truncated = "truncated",
    /// It has no label.
    BadMagic = "bad_magic",
    /// Its label has an unsupported version.
    BadVersion = "bad_version",
    /// It has a label and no payload.
    Empty = "empty",
    /// There is no calendar yet.
    NoEpoch = "no_epoch",
    /// Its tick is before the oldest calendar that is kept. The newest calendar would send it to another member than
    /// the rest of its event.
    TooOld = "too_old",
    /// No member has its slot.
    UnassignedSlot = "unassigned_slot",
    /// The member that has its slot is not in the table.
    NoMember = "no_member",
    /// The member that has its slot was evicted.
    Evicted = "evicted",
    /// The address of the member that has its slot leads back to the balancer, or to no single host.
    Unusable = "unusable_member",
    /// The balancer itself sent the packet: a member's address leads back to it.
    OwnPacket = "own_packet",
    /// Its time to live is used up, as happens to a packet that circulates.
    HopLimit = "hop_limit",
}

/// Traffic sent to one member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes in them, as forwarded.
    pub bytes: u64,
}

/// The ticks of the packets since the last call of [`Counters::take_ticks`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// The highest tick of packets that were forwarded or had no member.
    pub newest: Option<u64>,
    /// The lowest and the highest tick of packets that were [too old](Refusal::TooOld).
    pub old: Option<(u64, u64)>,
}

impl Ticks {
    /// Merges the ticks seen by another thread.
    pub fn merge(&mut self, other: &Ticks) {
        self.newest = self.newest.max(other.newest);
        self.old = match (self.old, other.old) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

/// Counters of one thread of a balancer, of fixed size. They outlive tables. The counters of a seat continue when
/// another member takes it; a program that reports them must subtract their values at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Packets received, whether forwarded or not.
    pub packets: u64,
    refused: [u64; Refusal::COUNT],
    members: Box<[Traffic; MEMBERS]>,
    ticks: Ticks,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            packets: 0,
            refused: [0; Refusal::COUNT],
            members: Box::new([Traffic::default(); MEMBERS]),
            ticks: Ticks::default(),
        }
    }
}

impl Counters {
    /// Counters of another process: packets received, packets refused by number of the reason, and traffic to each
    /// seat.
    #[must_use]
    pub fn of(packets: u64, refused: &[u64], members: impl IntoIterator<Item = (Seat, Traffic)>) -> Counters {
        let mut counters = Counters { packets, ..Counters::default() };
        counters.refused.iter_mut().zip(refused).for_each(|(mine, theirs)| *mine = *theirs);
        members.into_iter().for_each(|(seat, traffic)| counters.members[seat.number()] = traffic);
        counters
    }

    /// The traffic of each seat to which anything was sent.
    pub fn members(&self) -> impl Iterator<Item = (Seat, Traffic)> {
        let all = self.members.iter().enumerate().filter(|(_, traffic)| traffic.packets > 0);
        all.filter_map(|(seat, traffic)| Some((Seat::new(seat)?, *traffic)))
    }

    /// Packets refused for this reason.
    #[must_use]
    pub fn refused(&self, why: Refusal) -> u64 {
        self.refused[why as usize]
    }

    /// Packets refused for any reason.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// The traffic to the member in this seat.
    #[must_use]
    pub fn member(&self, seat: Seat) -> Traffic {
        self.members[seat.number()]
    }

    /// Returns the ticks since the last call.
    pub fn take_ticks(&mut self) -> Ticks {
        std::mem::take(&mut self.ticks)
    }

    /// Add the counts of another thread.
    pub fn merge(&mut self, other: &Counters) {
        self.packets += other.packets;
        self.ticks.merge(&other.ticks);
        self.refused.iter_mut().zip(other.refused).for_each(|(mine, theirs)| *mine += theirs);
        for (mine, theirs) in self.members.iter_mut().zip(&*other.members) {
            mine.packets += theirs.packets;
            mine.bytes += theirs.bytes;
        }
    }

    /// Counts a train of this many packets that was refused before its look-up.
    #[cold]
    pub fn refuse_train(&mut self, why: Refusal, packets: u64) {
        self.packets += packets;
        self.refused[why as usize] += packets;
    }

    #[inline]
    pub(super) fn refuse(&mut self, why: Refusal) {
        self.packets += 1;
        self.refused[why as usize] += 1;
    }

    /// Also notes the tick of the refused packet. Otherwise, no calendar could begin after one in which nobody has a
    /// slot, nor one for ticks that begin again.
    #[inline]
    pub(super) fn refuse_tick(&mut self, why: Refusal, tick: u64) {
        self.refuse(why);
        match why {
            Refusal::TooOld => self.ticks.merge(&Ticks { newest: None, old: Some((tick, tick)) }),
            _ => self.ticks.newest = self.ticks.newest.max(Some(tick)),
        }
    }

    #[inline]
    pub(super) fn forward(&mut self, seat: Seat, bytes: u64, tick: u64) {
        self.packets += 1;
        let member = &mut self.members[seat.number() & (MEMBERS - 1)];
        member.packets += 1;
        member.bytes += bytes;
        self.ticks.newest = self.ticks.newest.max(Some(tick));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_added() {
        let (mut a, mut b) = (Counters::default(), Counters::default());
        a.forward(Seat(3), 100, 7);
        b.forward(Seat(3), 50, 9);
        b.forward(Seat(1023), 1, 8);
        (0..4).for_each(|_| b.refuse(Refusal::TooOld));
        b.refuse_train(Refusal::HopLimit, 3);
        a.merge(&b);
        assert_eq!(a.member(Seat(3)), Traffic { packets: 2, bytes: 150 });
        assert_eq!((a.packets, a.refused(Refusal::TooOld), a.refused_total()), (10, 4, 7));
        assert_eq!(a.refused(Refusal::HopLimit), 3);
        assert_eq!((a.take_ticks().newest, a.take_ticks()), (Some(9), Ticks::default()));
    }

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Refusal::ALL.iter().map(|why| why.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Refusal::COUNT);
    }
}
