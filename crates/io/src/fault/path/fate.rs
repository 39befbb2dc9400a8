//! What happened to a packet, and the sums.

use crate::fault::Damage;

/// Why a packet never arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// `loss=`.
    Random,
    /// `burst=`.
    Burst,
    /// `gemodel=`.
    Model,
    /// `ber=`: a frame with a wrong bit, which the next switch drops.
    Bits,
    /// `police=`.
    Policed,
    /// `pps=`.
    PacketLimit,
    /// The queue before `rate=` was full.
    QueueFull,
    /// `mtu-blackhole=`.
    TooLong,
    /// `idle-cut=`.
    Idle,
}

impl Cause {
    /// All, in the order of their numbers.
    pub const ALL: [Cause; 9] = [
        Cause::Random,
        Cause::Burst,
        Cause::Model,
        Cause::Bits,
        Cause::Policed,
        Cause::PacketLimit,
        Cause::QueueFull,
        Cause::TooLong,
        Cause::Idle,
    ];

    /// Its name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cause::Random => "random",
            Cause::Burst => "burst",
            Cause::Model => "gemodel",
            Cause::Bits => "bit-error",
            Cause::Policed => "policed",
            Cause::PacketLimit => "packet-limit",
            Cause::QueueFull => "queue-full",
            Cause::TooLong => "too-long",
            Cause::Idle => "idle-cut",
        }
    }
}

/// The fate of one copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It never arrives.
    Lost(Cause),
    /// It arrives.
    Sent {
        /// When, in nanoseconds of the path's time.
        due: u64,
        /// Damage to its bytes.
        damage: Damage,
        /// Routers that it passed.
        hops: u8,
        /// It was held back by `reorder=`.
        late: bool,
    },
}

/// A judged copy of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<T> {
    /// What was offered.
    pub item: T,
    /// Its number among the packets of its direction, from 0.
    pub number: u64,
    /// 0 for the packet itself, 1 for its duplicate.
    pub copy: u8,
    /// When it was offered, in nanoseconds.
    pub at: u64,
    /// Bytes of its frame.
    pub octets: u32,
    /// Its fate.
    pub fate: Fate,
}

/// Sums of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets offered.
    pub offered: u64,
    /// Bytes of their frames.
    pub offered_octets: u64,
    /// Copies sent on.
    pub sent: u64,
    /// Bytes of their frames.
    pub sent_octets: u64,
    /// Copies lost, by [`Cause`].
    pub lost: [u64; 9],
    /// Packets held back.
    pub late: u64,
    /// Duplicates, lost ones too.
    pub duplicated: u64,
    /// Copies with a flipped bit.
    pub corrupted: u64,
    /// Copies cut short.
    pub truncated: u64,
    /// Bytes that waited for the rate, at most.
    pub most_waiting: u64,
}

impl Counts {
    /// Copies lost.
    #[must_use]
    pub fn all_lost(&self) -> u64 {
        self.lost.iter().sum()
    }

    pub(super) fn add<T>(&mut self, outcome: &Outcome<T>) {
        self.duplicated += u64::from(outcome.copy > 0);
        match outcome.fate {
            Fate::Lost(cause) => self.lost[cause as usize] += 1,
            Fate::Sent { damage, late, .. } => {
                self.sent += 1;
                self.sent_octets += u64::from(outcome.octets);
                self.late += u64::from(late && outcome.copy == 0);
                self.corrupted += u64::from(damage.flip.is_some());
                self.truncated += u64::from(damage.cut.is_some());
            }
        }
    }
}
