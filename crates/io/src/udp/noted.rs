//! Single datagrams with the kernel's notes: time of arrival, and remaining time to live (hop limit).
//!
//! ```
//! use skyhaul_io::udp::{UdpOptions, both::Both, noted::Noted};
//! use std::time::Duration;
//! let any = "127.0.0.1:0".parse().unwrap();
//! let here = Both::bind(any, &UdpOptions::default())?;
//! here.set_hops(255)?;
//! let mut there = Noted::new(Both::bind(any, &UdpOptions::default())?)?;
//! here.send_to(b"hello", there.both().local())?;
//! there.poll(Duration::from_secs(5), &mut |_, arrival| {
//!     assert_eq!((arrival.bytes, arrival.from), (&b"hello"[..], here.local()));
//!     assert_eq!((arrival.hops, arrival.time.is_some()), (Some(255), true));
//! })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Limits: times are of the clock of the day (`CLOCK_REALTIME`), to the nanosecond.

use super::both::Both;
use super::open::decode;
use super::socket::is_nothing;
use super::socket::{Batch, DEPTH};
use crate::address::Endpoint;
use skyhaul_core::placement::Nanos;
use std::{io, net::SocketAddr, time::Duration};

/// A datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its payload.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// When the kernel took it from the network card, since 1970.
    pub time: Option<Nanos>,
    /// Its time to live (IPv6: hop limit) as it arrived.
    pub hops: Option<u8>,
}

/// A socket whose datagrams are noted.
pub struct Noted {
    both: Both,
    batch: Batch,
}

impl std::fmt::Debug for Noted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Noted").field("both", &self.both).finish_non_exhaustive()
    }
}

impl Noted {
    /// Most datagrams that are taken at a time. Where fewer came, there were no more.
    pub const MOST: usize = DEPTH;

    /// Makes the kernel note times and hop limits of datagrams that arrive at `both`.
    ///
    /// # Errors
    /// A system error.
    pub fn new(both: Both) -> io::Result<Self> {
        both.note_arrivals()?;
        Ok(Self { both, batch: Batch::new() })
    }

    /// The socket, to send with.
    #[must_use]
    pub fn both(&self) -> &Both {
        &self.both
    }

    /// Takes datagrams that have arrived or arrive within `wait`, at most [`Self::MOST`]; returns their number. `each` may send on the
    /// socket.
    ///
    /// # Errors
    /// An error that prevents further work; not what routers reported of earlier datagrams.
    pub fn poll(&mut self, wait: Duration, each: &mut dyn FnMut(&Both, Arrival<'_>)) -> io::Result<usize> {
        self.both.wait_at_most(wait)?;
        self.take(true, each)
    }

    /// Takes datagrams that have arrived, without waiting, at most [`Self::MOST`]; returns their number.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn take_more(&mut self, each: &mut dyn FnMut(&Both, Arrival<'_>)) -> io::Result<usize> {
        self.take(false, each)
    }

    fn take(&mut self, waits: bool, each: &mut dyn FnMut(&Both, Arrival<'_>)) -> io::Result<usize> {
        let came = match self.batch.receive(self.both.fd(), Self::MOST, waits) {
            Ok(came) => came,
            Err(error) if is_nothing(&error) => return Ok(0),
            Err(error) => return Err(Endpoint::udp(self.both.local()).failed("receive from", &error)),
        };
        for n in 0..came {
            let datagram = self.batch.datagram(n);
            let Some(from) = decode(datagram.sender) else { continue };
            let (time, hops) = (datagram.notes.time, datagram.notes.hops);
            each(&self.both, Arrival { bytes: datagram.bytes, from, time, hops });
        }
        Ok(came)
    }
}
