//! Connections before the proof of a token: few in all, and of one address.

use crate::admission::ConnectionTable;
use skyhaul_io::lock::{lock, wait_while};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Time for a displaced connection to go.
const DISPLACE_TIMEOUT: Duration = Duration::from_millis(50);

/// Connections whose peer has not proved the token. One that is displaced is shut down, and its thread notices.
pub(super) struct HalfOpen {
    table: Mutex<ConnectionTable<TcpStream>>,
    left: Condvar,
}

impl HalfOpen {
    pub(super) fn new(max_total: usize, max_per_address: usize) -> Self {
        Self { table: Mutex::new(ConnectionTable::new(max_total, max_per_address)), left: Condvar::new() }
    }

    /// Admits a connection, and displaces another if there are too many; `None`: that one did not go in time.
    pub(super) fn enter(&self, from: IpAddr, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let mut table = self.table();
        if let Some(displaced) = table.displaced(from).ok()? {
            let _ = table.get(displaced)?.shutdown(Shutdown::Both);
            let full = |table: &mut ConnectionTable<TcpStream>| table.displaced(from) != Ok(None);
            table = wait_while(&self.left, table, DISPLACE_TIMEOUT, full);
            if full(&mut table) {
                return None;
            }
        }
        Some(table.insert(from, stream))
    }

    /// The peer of a connection has proved the token, or is gone.
    pub(super) fn leave(&self, number: u64) {
        self.table().remove(number);
        self.left.notify_all();
    }

    pub(super) fn len(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable<TcpStream>> {
        lock(&self.table)
    }
}
