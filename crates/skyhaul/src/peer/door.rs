//! Connections whose peer has not proved the token yet: few, each for a few seconds.
//!
//! Whoever opens many without a word pushes out only its own; many addresses together push out the oldest. A peer that
//! knows the token is through within a round trip or two.

use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for one that was pushed out to go.
const DISPLACE_TIME: Duration = Duration::from_millis(50);

/// All of them.
#[derive(Debug)]
pub(super) struct Doorway {
    table: Mutex<Table>,
    left: Condvar,
    most: usize,
    per_peer: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    open: Vec<Guest>,
}

#[derive(Debug)]
struct Guest {
    number: u64,
    who: IpAddr,
    stream: TcpStream,
}

impl Doorway {
    pub(super) fn new(most: usize, per_peer: usize) -> Self {
        Self { table: Mutex::default(), left: Condvar::new(), most: most.max(1), per_peer: per_peer.max(1) }
    }

    /// Let one in, and another out if there are too many; `None`: there is no room even so.
    pub(super) fn enter(&self, who: IpAddr, stream: &TcpStream) -> Option<u64> {
        let stream = stream.try_clone().ok()?;
        let mut table = self.table();
        if let Some(oldest) = table.too_many(who, self.most, self.per_peer) {
            // Its thread sees the end of the stream.
            let _ = table.open[oldest].stream.shutdown(Shutdown::Both);
            let full = |table: &mut Table| table.too_many(who, self.most, self.per_peer).is_some();
            let waited = self.left.wait_timeout_while(table, DISPLACE_TIME, full);
            table = waited.unwrap_or_else(PoisonError::into_inner).0;
            if full(&mut table) {
                return None;
            }
        }
        let number = table.next;
        table.next += 1;
        table.open.push(Guest { number, who, stream });
        Some(number)
    }

    /// It is through, or gone.
    pub(super) fn leave(&self, number: u64) {
        self.table().open.retain(|guest| guest.number != number);
        self.left.notify_all();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table().open.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Whom to push out for one more from `who`, if there are too many. They stand in the order in which they came.
    fn too_many(&self, who: IpAddr, most: usize, per_peer: usize) -> Option<usize> {
        if self.open.iter().filter(|guest| guest.who == who).count() >= per_peer {
            return self.open.iter().position(|guest| guest.who == who);
        }
        (self.open.len() >= most).then_some(0)
    }
}
