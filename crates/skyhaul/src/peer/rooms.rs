//! Further connections of a service that runs: it gives out a cookie, and who brings it is let in.

use super::token::{hex, random, unhex};
use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Cookie = [u8; 16];

/// All rooms of a server.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<HashMap<Cookie, SyncSender<TcpStream>>>);

/// Where a service finds its further connections. Nobody is let in any more once it is gone.
#[derive(Debug)]
pub struct Room {
    cookie: Cookie,
    streams: Receiver<TcpStream>,
    rooms: Arc<Rooms>,
}

impl Rooms {
    pub(super) fn open(self: &Arc<Self>, places: usize) -> io::Result<Room> {
        let (give, streams) = sync_channel(places);
        let cookie = random()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(cookie, give);
        Ok(Room { cookie, streams, rooms: self.clone() })
    }

    /// The door that `cookie` opens.
    pub(super) fn door(&self, cookie: &str) -> Option<SyncSender<TcpStream>> {
        let rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.get(&unhex::<16>(cookie)?).cloned()
    }
}

impl Room {
    /// What the other end brings with [`attach`](super::attach).
    #[must_use]
    pub fn cookie(&self) -> String {
        hex(&self.cookie)
    }

    /// The next connection, if one comes in time.
    #[must_use]
    pub fn next(&self, within: Duration) -> Option<TcpStream> {
        self.streams.recv_timeout(within).ok()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.rooms.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.cookie);
    }
}
