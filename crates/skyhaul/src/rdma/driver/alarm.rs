//! When a turn that takes what arrives looks at the timers of its endpoint.
//!
//! A poll hands over all that waits in the socket, which may be megabytes. Looking at the timers first would end Reads whose answers are
//! there already; looking only after the poll would end them as late as there is something to take.

use crate::rdma::kernel::Hands;
use skyhaul_core::placement::Nanos;

/// A turn takes what arrives for so long before it looks at the timers, and does so again after the same time.
pub(super) const TURN_LIMIT: Nanos = Nanos(5_000_000);

/// The timers of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarm {
    limit: Nanos,
    /// When the next timer is due, if this turn looks at them.
    due: Option<Nanos>,
    /// When the turn began to take, or looked last.
    since: Option<Nanos>,
}

impl Alarm {
    pub(super) fn new(limit: Nanos, due: Option<Nanos>) -> Alarm {
        Alarm { limit, due, since: None }
    }

    /// Whether the timers are to be looked at now.
    fn rings(&mut self, now: Nanos) -> bool {
        let since = *self.since.get_or_insert(now);
        let rings = self.due.is_some_and(|due| due <= now) && now.since(since) >= self.limit;
        if rings {
            self.since = Some(now);
        }
        rings
    }

    /// The time of what is taken next.
    pub(super) fn pass(&mut self, now: Nanos, hands: &mut Hands<'_, '_>) {
        hands.context.now = now;
        if self.rings(now) {
            hands.endpoint.handle_timeout(hands.context);
            self.due = hands.endpoint.poll_timeout();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::connecting::{close, connect};
    use crate::rdma::driver::{Attempt, HANDSHAKE};
    use crate::rdma::driver::{Driver, DriverOptions};
    use crate::rdma::memory::Memory;
    use crate::rdma::{RdmaAddress, RdmaServer, ServeOptions};
    use crate::stop::StopFlag;
    use skyhaul_core::rdma::{MemorySlice, RdmaEvent, RemoteAddress, RemoteRead};
    use skyhaul_io::memory::remote::RemoteMemory;
    use skyhaul_io::wake::wait_for;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn it_rings_when_a_timer_is_due_and_the_turn_is_long_enough() {
        let rings = |due: Option<u64>, times: &[u64]| {
            let mut alarm = Alarm::new(Nanos(5), due.map(Nanos));
            times.iter().map(|now| alarm.rings(Nanos(*now))).collect::<Vec<_>>()
        };
        assert_eq!(rings(Some(100), &[90, 96, 99, 100, 104, 105]), [false, false, false, true, false, true]);
        assert_eq!(rings(Some(100), &[300, 304, 305, 309, 310]), [false, false, true, false, true]);
        assert_eq!(rings(None, &[0, 1000, 2000]), [false; 3]);
        let mut eager = Alarm::new(Nanos(0), Some(Nanos(7)));
        assert_eq!([6, 7].map(|now| eager.rings(Nanos(now))), [false, true]);
    }

    /// The ranges that a Read of 4096 bytes lacks, and its memory: the answer was in the socket when its deadline had passed.
    fn late_read(limit: Nanos) -> (Vec<std::ops::Range<u64>>, [u8; 4096]) {
        let listen = "rdma+udp://127.0.0.1:0".parse().unwrap();
        let options = ServeOptions::new(listen, vec!["a:4KiB:read".parse().unwrap()]);
        let mut server = RdmaServer::open(ServeOptions { connections: Some(1), ..options }).unwrap();
        server.place("a", 0, &[7; 4096]);
        let to: RdmaAddress = format!("rdma+udp://{}/a", server.local()).parse().unwrap();
        let run = std::thread::spawn(move || server.run(&StopFlag::default(), None).unwrap());
        let attempt = Attempt::new(&StopFlag::default(), HANDSHAKE);
        let mut driver = Driver::open(&DriverOptions::of_client(&to, None, None, &attempt).unwrap()).unwrap();
        driver.turn_limit = limit;
        let region = connect(&mut driver, &to, &attempt).unwrap();
        let memory = driver.add(Memory::Remote(Arc::new(RemoteMemory::new(4096).unwrap())));
        let deadline = driver.now().plus(Nanos(1_000_000));
        let read = RemoteRead {
            sink: MemorySlice { memory, start: 0, length: 4096 },
            from: RemoteAddress { stag: region.stag, offset: 0 },
            deadline,
            ask_again: None,
        };
        driver.with(|endpoint, context| endpoint.read(region.connection, read, context)).unwrap();
        driver.send(1 << 16);
        assert!(wait_for(&[driver.link.descriptor()], Duration::from_secs(20)).unwrap(), "no answer");
        // If that was a repeated control datagram, the answer is not far behind.
        std::thread::sleep(Duration::from_millis(100));
        assert!(driver.now() > deadline);
        driver.receive(Duration::ZERO).unwrap();
        let missing = std::iter::from_fn(|| driver.endpoint.poll_event()).find_map(|event| match event {
            RdmaEvent::ReadDone { missing, .. } => Some(missing),
            _ => None,
        });
        let mut bytes = [0; 4096];
        driver.memory(memory).unwrap().copy(0, &mut bytes);
        close(&mut driver, region.connection, HANDSHAKE).unwrap();
        run.join().unwrap();
        (missing.expect("the Read has ended"), bytes)
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init)]
    fn a_turn_that_has_lasted_ends_reads_before_it_takes_more() {
        assert_eq!(late_read(Nanos(0)), (vec![0..4096], [0; 4096]));
        // In a short turn, what is there is taken.
        assert_eq!(late_read(Nanos(u64::MAX)), (vec![], [7; 4096]));
    }
}
