//! Small datagrams beside the data of a test: both ends meet, and exchange times.
//!
//! ```text
//!   client                                       server
//!     ── Knock { test, cookie of the test } ──────▶   the control connection gave out this cookie
//!     ◀───────────── Cookie { of this address } ──    as long as the knock: nothing is amplified
//!     ── Echo { that cookie } ───────────────────▶    somebody does receive there
//!     ◀──────────────────────────── Ready ────────    from here on, data may come
//!     ── Ping { t1 } ────────────────────────────▶
//!     ◀──────────────────── Pong { t1, t2, t3 } ──
//! ```
//!
//! All are [`LEN`] octets, big-endian, with a CRC-32C at the end.

use skyhaul_core::placement::Reject;

skyhaul_core::header! {
    /// The datagram.
    Table [64] {
        be u32 @ 0 { /** [`MAGIC`]. */ magic }
        be u8 @ 4 { /** 1. */ version }
        be u8 @ 5 { /** A [`Kind`]. */ kind }
        be u16 @ 6 { /** Flow, from 0. */ flow }
        be u64 @ 8 { /** The test's number. */ test }
        be u64 @ 16 { /** First half of a cookie; in times, t1. */ first }
        be u64 @ 24 { /** Second half of a cookie; in times, t2. */ second }
        be u64 @ 32 { /** In times, t3. */ third }
        be u64 @ 40 { /** Number of the exchange. */ number }
        be u64 @ 48 { /** Zero. */ reserved }
        be u32 @ 56 { /** Zero. */ reserved_b }
        be u32 @ 60 { /** CRC-32C of all octets before. */ checksum }
    }
}

/// Octets of every one.
pub const LEN: usize = 64;
/// Magic number: neither that of test data, nor text.
pub const MAGIC: u32 = 0xF5A4_5B1D;
const VERSION: u8 = 1;
const CHECKED: usize = LEN - 4;

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// A client is here: cookie of the test.
    Knock([u8; 16]),
    /// Send this back to show that you receive here.
    Cookie([u8; 16]),
    /// Here it is.
    Echo([u8; 16]),
    /// Data may be sent, both ways.
    Ready,
    /// What time is it: t1 of the client, in nanoseconds.
    Ping {
        /// Number of the exchange.
        number: u64,
        /// When it was sent.
        sent: u64,
    },
    /// It was t2 when the ping came, and t3 when this was sent.
    Pong {
        /// Number of the exchange.
        number: u64,
        /// t1, sent back.
        sent: u64,
        /// t2.
        came: u64,
        /// t3.
        back: u64,
    },
}

/// A datagram of this kind: of which test and flow, and what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Small {
    /// The test.
    pub test: u64,
    /// The flow.
    pub flow: u16,
    /// What it says.
    pub meeting: Meeting,
}

/// Whether it is one; a comparison or two for data.
#[inline]
#[must_use]
pub fn is_small(datagram: &[u8]) -> bool {
    datagram.len() == LEN && datagram.starts_with(&MAGIC.to_be_bytes())
}

impl Small {
    /// The datagram.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let cookie = |cookie: [u8; 16]| {
            let both = u128::from_be_bytes(cookie);
            ((both >> 64) as u64, both as u64)
        };
        let mut table =
            Table { magic: MAGIC, version: VERSION, test: self.test, flow: self.flow, ..Table::default() };
        (table.kind, table.first, table.second) = match self.meeting {
            Meeting::Knock(bytes) => (1, cookie(bytes).0, cookie(bytes).1),
            Meeting::Cookie(bytes) => (2, cookie(bytes).0, cookie(bytes).1),
            Meeting::Echo(bytes) => (3, cookie(bytes).0, cookie(bytes).1),
            Meeting::Ready => (4, 0, 0),
            Meeting::Ping { number, sent } => {
                table.number = number;
                (5, sent, 0)
            }
            Meeting::Pong { number, sent, came, back } => {
                (table.number, table.third) = (number, back);
                (6, sent, came)
            }
        };
        let mut octets = table.write();
        let checksum = crc32c::crc32c(&octets[..CHECKED]);
        octets[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        octets
    }

    /// Read a datagram.
    ///
    /// # Errors
    /// [`Reject::WrongSize`], [`Reject::BadMagic`], [`Reject::BadChecksum`], [`Reject::BadVersion`], [`Reject::BadField`].
    pub fn read(datagram: &[u8]) -> Result<Self, Reject> {
        if datagram.len() != LEN {
            return Err(Reject::WrongSize);
        }
        let (table, _) = Table::read(datagram).ok_or(Reject::WrongSize)?;
        if table.magic != MAGIC {
            return Err(Reject::BadMagic);
        }
        if table.checksum != crc32c::crc32c(&datagram[..CHECKED]) {
            return Err(Reject::BadChecksum);
        }
        if table.version != VERSION {
            return Err(Reject::BadVersion);
        }
        let cookie = (u128::from(table.first) << 64 | u128::from(table.second)).to_be_bytes();
        let (number, sent) = (table.number, table.first);
        let meeting = match table.kind {
            1 => Meeting::Knock(cookie),
            2 => Meeting::Cookie(cookie),
            3 => Meeting::Echo(cookie),
            4 => Meeting::Ready,
            5 => Meeting::Ping { number, sent },
            6 => Meeting::Pong { number, sent, came: table.second, back: table.third },
            _ => return Err(Reject::BadField),
        };
        Ok(Self { test: table.test, flow: table.flow, meeting })
    }
}

/// Any octets; for the fuzzer.
pub fn fuzz(input: &[u8]) {
    assert!(is_small(input) || Small::read(input).is_err());
    if let Ok(small) = Small::read(input) {
        assert_eq!(Small::read(&small.octets()), Ok(small));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_read_back_and_no_damaged_one_is_read() {
        for meeting in [
            Meeting::Knock([7; 16]),
            Meeting::Cookie([8; 16]),
            Meeting::Echo([9; 16]),
            Meeting::Ready,
            Meeting::Ping { number: 3, sent: u64::MAX },
            Meeting::Pong { number: 3, sent: 1, came: 2, back: 3 },
        ] {
            let small = Small { test: 5, flow: 2, meeting };
            let octets = small.octets();
            assert_eq!(Small::read(&octets), Ok(small));
            assert!(is_small(&octets));
            for bit in 0..LEN * 8 {
                let mut damaged = octets;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(Small::read(&damaged).is_err(), "{meeting:?} {bit}");
                fuzz(&damaged);
            }
            fuzz(&octets);
        }
        assert_eq!(Small::read(&[0; 63]), Err(Reject::WrongSize));
        assert_eq!(Small::read(&[0; 64]), Err(Reject::BadMagic));
        let mut other = Small { test: 5, flow: 2, meeting: Meeting::Ready }.octets();
        for (at, reject) in [(4, Reject::BadVersion), (5, Reject::BadField)] {
            let before = std::mem::replace(&mut other[at], 99);
            let checksum = crc32c::crc32c(&other[..CHECKED]);
            other[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(Small::read(&other), Err(reject));
            other[at] = before;
        }
    }
}
