//! STAMP: a test packet, and its reflection with the times of arrival and departure (RFC 8762, unauthenticated mode).
//!
//! ```text
//!   sender     t1 ──── number, t1 ────▶ t2     reflector
//!              t4 ◀─ number, t2, t3 ─── t3     round trip: (t4 − t1) − (t3 − t2); each way: t2 − t1, t4 − t3
//! ```
//!
//! A *stateless* reflector repeats the sender's number. A *stateful* one counts its reflections, so that the sender can
//! tell loss in the forward direction from loss in the reverse direction. A reflection is as long as its packet and is
//! sent to its source, so a reflector cannot be used to flood another host.
//!
//! ```
//! use skyhaul_core::wire::stamp::{LEN, Reflection, Stamp, TestPacket, reflect};
//! let sent = TestPacket { sequence: 7, timestamp: Stamp::of_unix(1_700_000_000_000_000_000).0, ..TestPacket::default() };
//! let mut packet = sent.write().to_vec();
//! assert_eq!(packet.len(), LEN);
//! reflect(&mut packet, Stamp(20), Stamp(30), 0x8001, 64, None)?;
//! let (back, _) = Reflection::read(&packet).unwrap();
//! assert_eq!((back.sequence, back.sender_sequence, back.sender_timestamp), (7, 7, sent.timestamp));
//! # Ok::<(), skyhaul_core::placement::Reject>(())
//! ```
//!
//! Limits: times are written in NTP format (RFC 8762, 4.2.1), and read in NTP or PTP format; they are taken to lie
//! between 1968 and 2104. Bytes after the 44 of the base format are reflected unchanged: extensions (RFC 8972) are not
//! interpreted.

use crate::placement::Reject;

/// Bytes of a test packet and of a reflection, at least.
pub const LEN: usize = 44;
/// Bytes of a reflection up to and including the sender's error estimate, after which a reflector of TWAMP-Light may
/// end.
const SHORTEST: usize = 38;
/// UDP port of reflectors (RFC 8762, 4.1).
pub const PORT: u16 = 862;
/// Seconds from the beginning of NTP time to that of Unix time.
const SINCE_1900: u64 = 2_208_988_800;

crate::header! {
    /// A test packet of a sender (RFC 8762, figure 2).
    TestPacket [44] {
        be u32 @ 0 { /** Number of the packet, from 0. */ sequence }
        be u64 @ 4 { /** When it was sent: [`Stamp`]. */ timestamp }
        be u16 @ 12 { /** How good that time is: [`Estimate`]. */ error_estimate }
        be u16 @ 14 { /** Number of the session; 0 without extensions (RFC 8972). */ ssid }
        be u64 @ 16 { /** Zero. */ zero_a }
        be u64 @ 24 { /** Zero. */ zero_b }
        be u64 @ 32 { /** Zero. */ zero_c }
        be u32 @ 40 { /** Zero. */ zero_d }
    }
}

crate::header! {
    /// A reflection (RFC 8762, figure 5).
    Reflection [44] {
        be u32 @ 0 { /** The sender's number, or the reflector's own count. */ sequence }
        be u64 @ 4 { /** When it was sent back: [`Stamp`]. */ timestamp }
        be u16 @ 12 { /** How good the reflector's times are: [`Estimate`]. */ error_estimate }
        be u16 @ 14 { /** As in the test packet. */ ssid }
        be u64 @ 16 { /** When the test packet arrived: [`Stamp`]. */ receive_timestamp }
        be u32 @ 24 { /** Number of the test packet. */ sender_sequence }
        be u64 @ 28 { /** When the test packet was sent: [`Stamp`]. */ sender_timestamp }
        be u16 @ 36 { /** As in the test packet. */ sender_error_estimate }
        be u16 @ 38 { /** Zero. */ zero_a }
        be u8 @ 40 { /** Time to live, or hop limit, with which the test packet arrived. */ sender_ttl }
        be u8 @ 41 { /** Zero. */ zero_b }
        be u16 @ 42 { /** Zero. */ zero_c }
    }
}

/// A time: seconds since 1900 and their fraction, each 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The time of this many nanoseconds since 1970.
    #[must_use]
    pub const fn of_unix(nanoseconds: u64) -> Self {
        let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        // Rounded up, so that converting back gives the same nanosecond.
        let fraction = (rest << 32).div_ceil(1_000_000_000);
        Self((seconds.wrapping_add(SINCE_1900) << 32) | fraction)
    }

    /// Nanoseconds since 1970; of a time before it, 0. From 2036 on, seconds begin again from 0 (RFC 4330, 3).
    #[must_use]
    pub const fn unix(self) -> u64 {
        let seconds = self.0 >> 32;
        let seconds = if seconds >> 31 == 0 { seconds + (1 << 32) } else { seconds };
        let fraction = ((self.0 & 0xFFFF_FFFF) * 1_000_000_000) >> 32;
        seconds.saturating_sub(SINCE_1900) * 1_000_000_000 + fraction
    }

    /// The same for a time in the format named by its [`Estimate`]: PTP counts seconds since 1970 and nanoseconds.
    #[must_use]
    pub const fn unix_as(self, estimate: Estimate) -> u64 {
        match estimate.is_ptp() {
            true => (self.0 >> 32) * 1_000_000_000 + (self.0 & 0xFFFF_FFFF),
            false => self.unix(),
        }
    }

    /// Nanoseconds from `earlier` to this time; negative if it is before.
    #[must_use]
    pub const fn since(self, earlier: Self) -> i64 {
        let difference = self.0.wrapping_sub(earlier.0) as i64;
        ((difference as i128 * 1_000_000_000) >> 32) as i64
    }
}

/// How good a time is (RFC 4656, 4.1.2; RFC 8762, 4.2.1): `S Z scale(6) multiplier(8)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate(pub u16);

impl Estimate {
    /// A clock that is wrong by at most `nanoseconds`; `synchronized` if by an outer source. In the NTP format (Z = 0).
    #[must_use]
    pub const fn of(nanoseconds: u64, synchronized: bool) -> Self {
        // In units of 2⁻³² s, rounded up, and at least 1: a multiplier of 0 is not allowed.
        let units = (nanoseconds as u128 * (1 << 32)).div_ceil(1_000_000_000);
        let mut scale = 0;
        while units.div_ceil(1 << scale) > 255 && scale < 63 {
            scale += 1;
        }
        let units = units.div_ceil(1 << scale);
        let multiplier = if units == 0 {
            1
        } else if units > 255 {
            255
        } else {
            units as u16
        };
        Self(((synchronized as u16) << 15) | (scale << 8) | multiplier)
    }

    /// By how many nanoseconds the clock may be wrong; `None` if the estimate is not valid (multiplier 0).
    #[must_use]
    pub const fn nanoseconds(self) -> Option<u64> {
        let (multiplier, scale) = (self.0 & 0xFF, (self.0 >> 8) & 0x3F);
        if multiplier == 0 {
            return None;
        }
        let error = ((multiplier as u128 * 1_000_000_000) << scale) >> 32;
        Some(if error > u64::MAX as u128 { u64::MAX } else { error as u64 })
    }

    /// Whether an outer source keeps the clock.
    #[must_use]
    pub const fn synchronized(self) -> bool {
        self.0 >> 15 == 1
    }

    /// Whether times are in the format of PTP, not of NTP.
    #[must_use]
    pub const fn is_ptp(self) -> bool {
        (self.0 >> 14) & 1 == 1
    }
}

impl Reflection {
    /// Reads a reflection. Those of TWAMP-Light have 41 bytes, those of some of its reflectors 38; bytes missing from
    /// 44 are read as zero.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Option<Self> {
        let mut octets = [0; LEN];
        let length = datagram.len().min(LEN);
        octets[..length].copy_from_slice(&datagram[..length]);
        (length >= SHORTEST).then(|| Self::read(&octets)).flatten().map(|read| read.0)
    }
}

/// Longest time in a reflector, seconds, by which a reflection is known.
const LONGEST_INSIDE: i64 = 60;

/// Whether this is a reflection and not a test packet. If a reflector answered reflections, a single packet with a
/// forged source address could make two reflectors answer each other for ever.
///
/// After its first 16 bytes, a test packet has zeros (RFC 8762, figure 2), or, from TWAMP-Light, any padding. There, a
/// reflection has two times of one clock, within a minute, and zeros between its other fields; random padding looks
/// like that once in 2⁴⁰ packets.
#[must_use]
pub fn is_reflection(packet: &[u8]) -> bool {
    let Some((read, _)) = Reflection::read(packet) else { return false };
    let Reflection { timestamp, receive_timestamp, zero_a, zero_b, zero_c, .. } = read;
    // In both NTP and PTP format, the upper half holds the seconds.
    let inside = (timestamp.wrapping_sub(receive_timestamp) as i64) >> 32;
    receive_timestamp != 0 && inside.abs() <= LONGEST_INSIDE && zero_a == 0 && zero_b == 0 && zero_c == 0
}

/// Turns a test packet into its reflection, in place. `count` is the present count of a stateful reflector.
///
/// # Errors
///
/// The packet is too short.
pub fn reflect(
    packet: &mut [u8],
    received: Stamp,
    now: Stamp,
    error_estimate: u16,
    ttl: u8,
    count: Option<u32>,
) -> Result<(), Reject> {
    let Some((test, _)) = TestPacket::read(packet) else { return Err(Reject::Truncated) };
    let reflection = Reflection {
        sequence: count.unwrap_or(test.sequence),
        timestamp: now.0,
        error_estimate,
        ssid: test.ssid,
        receive_timestamp: received.0,
        sender_sequence: test.sequence,
        sender_timestamp: test.timestamp,
        sender_error_estimate: test.error_estimate,
        sender_ttl: ttl,
        ..Reflection::default()
    };
    packet[..LEN].copy_from_slice(&reflection.write());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by hand from the figures of RFC 8762: number 2, sent at 1970-01-01 00:00:00.5, error 2⁻³² · 2¹⁰ · 3 s.
    const TEST: [u8; 44] = [
        0, 0, 0, 2, // Sequence Number
        0x83, 0xAA, 0x7E, 0x80, 0x80, 0, 0, 0, // Timestamp: 2208988800.5
        0x8A, 0x03, // Error Estimate: S = 1, Z = 0, Scale = 10, Multiplier = 3
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // MBZ
    ];
    /// Its reflection: received a quarter of a second later, sent back after another, by a reflector that has counted 5.
    const REFLECTED: [u8; 44] = [
        0, 0, 0, 5, // Sequence Number
        0x83, 0xAA, 0x7E, 0x81, 0, 0, 0, 0, // Timestamp
        0x00, 0x01, // Error Estimate
        0, 0, // MBZ
        0x83, 0xAA, 0x7E, 0x80, 0xC0, 0, 0, 0, // Receive Timestamp
        0, 0, 0, 2, // Session-Sender Sequence Number
        0x83, 0xAA, 0x7E, 0x80, 0x80, 0, 0, 0, // Session-Sender Timestamp
        0x8A, 0x03, // Session-Sender Error Estimate
        0, 0, // MBZ
        0xFF, 0, 0, 0, // Session-Sender TTL, MBZ
    ];

    #[test]
    fn packets_are_those_of_the_figures() {
        let (test, rest) = TestPacket::read(&TEST).unwrap();
        assert!(rest.is_empty());
        assert_eq!((test.sequence, Stamp(test.timestamp).unix()), (2, 500_000_000));
        assert_eq!(Estimate(test.error_estimate).nanoseconds(), Some(715));
        let mut packet = TEST;
        let at = |milliseconds: u64| Stamp::of_unix(milliseconds * 1_000_000);
        reflect(&mut packet, at(750), at(1000), 1, 255, Some(5)).unwrap();
        assert_eq!(packet, REFLECTED);
        let mut packet = TEST;
        reflect(&mut packet, at(750), at(1000), 1, 255, None).unwrap();
        assert_eq!(packet[..4], [0, 0, 0, 2], "a stateless reflector repeats the number");
    }

    #[test]
    fn what_is_longer_is_reflected_as_long_and_what_is_shorter_is_not() {
        let mut long = [&TEST[..], &[9; 100]].concat();
        reflect(&mut long, Stamp(1), Stamp(2), 1, 1, None).unwrap();
        assert_eq!((long.len(), &long[44..]), (144, &[9; 100][..]));
        let reflection = Reflection::of(&REFLECTED).unwrap();
        assert_eq!(Reflection::of(&long[..38]).map(|short| short.sender_ttl), Some(0));
        assert_eq!(Reflection::of(&REFLECTED[..41]), Some(reflection));
        assert_eq!(Reflection::of(&REFLECTED[..37]), None);
        let mut short = TEST[..43].to_vec();
        assert_eq!(reflect(&mut short, Stamp(1), Stamp(2), 1, 1, None), Err(Reject::Truncated));
        assert_eq!(short, TEST[..43]);
    }

    #[test]
    fn a_reflection_is_known_and_no_test_packet_is_taken_for_one() {
        assert!(is_reflection(&REFLECTED) && !is_reflection(&TEST) && !is_reflection(&REFLECTED[..43]));
        // The reflection of any first packet, with any padding, is recognised.
        for octet in [0, 1, 0x5A, 0xFF] {
            let mut packet = vec![octet; 100];
            assert!(!is_reflection(&packet), "{octet}");
            let now = Stamp::of_unix(1_700_000_000_000_000_000);
            reflect(&mut packet, now, Stamp(now.0 + 1), 1, 64, Some(0)).unwrap();
            assert!(is_reflection(&packet), "{octet}");
        }
        // TWAMP-Light: padding that counts up, and PTP times, whose upper half also holds the seconds.
        let mut padded = TEST;
        (14..44).for_each(|at| padded[at] = at as u8);
        assert!(!is_reflection(&padded));
        let ptp = Reflection {
            timestamp: 1_700_000_001 << 32,
            receive_timestamp: (1_700_000_000 << 32) | 999_999_999,
            ..Reflection::default()
        };
        assert!(is_reflection(&ptp.write()));
    }

    #[test]
    fn errors_are_rounded_up_and_never_have_a_multiplier_of_zero() {
        for (nanoseconds, multiplier, scale) in [(0, 1, 0), (1, 5, 0), (59, 254, 0), (60, 129, 1)] {
            assert_eq!(Estimate::of(nanoseconds, false).0, (scale << 8) | multiplier, "{nanoseconds} ns");
        }
        let far = Estimate::of(u64::MAX, true);
        assert!(far.synchronized() && far.nanoseconds().unwrap() >= u64::MAX / 2);
        assert_eq!(Estimate(0x3F00).nanoseconds(), None);
        assert!(Estimate(0x4001).is_ptp());
    }

    proptest! {
        #[test]
        fn times_come_back_to_the_nanosecond(unix in 0..4_233_462_143_999_999_999u64, later in 0..4_000_000_000_000i64) {
            prop_assert_eq!(Stamp::of_unix(unix).unix(), unix);
            let ptp = Stamp(((unix / 1_000_000_000) << 32) | (unix % 1_000_000_000));
            prop_assert_eq!(ptp.unix_as(Estimate(0x4001)), unix);
            let (a, b) = (Stamp::of_unix(unix), Stamp::of_unix(unix.saturating_add_signed(later)));
            prop_assert!((b.since(a) - later).abs() <= 1);
            prop_assert!((a.since(b) + later).abs() <= 1);
        }

        #[test]
        fn an_estimate_is_at_least_the_error(nanoseconds in 0..u64::MAX / 2, synchronized: bool) {
            let estimate = Estimate::of(nanoseconds, synchronized);
            prop_assert!(estimate.nanoseconds().unwrap() + 1 >= nanoseconds);
            prop_assert!(estimate.nanoseconds().unwrap() <= nanoseconds + nanoseconds / 64 + 1);
            prop_assert_eq!(estimate.synchronized(), synchronized);
        }
    }
}
