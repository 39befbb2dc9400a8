//! Counts packets at the port used by clients that ignore the port in the URI.
//!
//! Such a client knows only the address, so its packets do not show which of the balancers at that address it means. A
//! balancer on that port would accept them and send them to workers of another experiment. So no balancer uses this
//! port; packets that arrive there are counted and dropped.

use super::DATA_PORT;
use skyhaul::io::address::Endpoint;
use skyhaul::io::source::{Source, Train};
use skyhaul::io::udp::{UdpOptions, UdpSource};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    stop: AtomicBool,
    /// Why packets of an address are not counted at the moment.
    faults: Mutex<BTreeMap<IpAddr, String>>,
}

impl Shared {
    fn faults(&self) -> MutexGuard<'_, BTreeMap<IpAddr, String>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts such packets. It ends when dropped.
pub struct Guard {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("packets", &self.packets()).finish_non_exhaustive()
    }
}

impl Guard {
    /// Listens on these addresses, except where another program has the port.
    #[must_use]
    pub fn start(listen: &[IpAddr]) -> Guard {
        let mut guard = Guard { shared: Arc::default(), threads: Vec::new() };
        for &ip in listen {
            let options = UdpOptions { timestamps: false, ..UdpOptions::default() };
            let opened = UdpSource::open(&Endpoint::udp(SocketAddr::new(ip, DATA_PORT)), &options);
            // Another program has the port, or the address cannot be used.
            let started = opened.and_then(|source| {
                let shared = Arc::clone(&guard.shared);
                let thread = std::thread::Builder::new().name("balance-guard".to_owned());
                thread.spawn(move || run(source, ip, &shared))
            });
            match started {
                Ok(thread) => guard.threads.push(thread),
                Err(error) => drop(guard.shared.faults().insert(ip, error.to_string())),
            }
        }
        guard
    }

    /// Packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.shared.packets.load(Ordering::Relaxed)
    }

    /// What people should know of it.
    pub(in super::super) fn said(&self) -> Vec<String> {
        let faults = self.shared.faults();
        let mut said: Vec<String> = faults
            .iter()
            .map(|(ip, why)| {
                format!(
                    "port {DATA_PORT} of {ip} cannot be guarded: packets of clients that ignore the port in EJFAT_URI are not counted: {why}"
                )
            })
            .collect();
        if self.packets() > 0 {
            said.push(format!(
                "packets come to port {DATA_PORT}, which is that of no load balancer here: they are refused (wrong_instance); \
                 hint: the sender ignores the port in EJFAT_URI; --instance-address gives each load balancer an address of its own"
            ));
        }
        said
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn run(mut source: impl Source, ip: IpAddr, shared: &Shared) {
    let (mut dropped, mut counted) = (0, Instant::now());
    while !shared.stop.load(Ordering::Acquire) {
        let mut count = |train: Train<'_>| {
            shared.packets.fetch_add(train.count() as u64, Ordering::Relaxed);
        };
        match source.poll(POLL_INTERVAL, &mut count) {
            Ok(_) => drop(shared.faults().remove(&ip)),
            // The interface may be back soon.
            Err(error) => {
                shared.faults().insert(ip, error.to_string());
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        if counted.elapsed() >= POLL_INTERVAL {
            // What found no room in the socket came, too.
            let now = source.stats().socket_drops;
            shared.packets.fetch_add(now.saturating_sub(dropped), Ordering::Relaxed);
            (dropped, counted) = (now, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::io::source::SourceStats;
    use std::io;

    /// Fails, then has a packet, then is stopped; five packets found no room in it.
    struct Flaky(Arc<Shared>, Vec<Vec<String>>);

    impl Source for Flaky {
        fn poll(&mut self, _: Duration, each: &mut dyn FnMut(Train<'_>)) -> io::Result<usize> {
            let known: Vec<String> = self.0.faults().values().cloned().collect();
            self.1.push(known);
            match self.1.len() {
                1 => return Err(io::Error::other("the interface is down")),
                2 => each(Train::single(&[0; 8], &([127, 0, 0, 1], 9).into())),
                _ => {
                    assert_eq!(self.1, [vec![], vec!["the interface is down".to_owned()], vec![]]);
                    self.0.stop.store(true, Ordering::Release);
                }
            }
            Ok(1)
        }
        fn stats(&self) -> SourceStats {
            SourceStats { socket_drops: 5, ..SourceStats::default() }
        }
        fn describe(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn an_error_is_told_and_counting_goes_on() {
        let shared = Arc::<Shared>::default();
        run(Flaky(Arc::clone(&shared), Vec::new()), [127, 0, 0, 1].into(), &shared);
        assert_eq!(shared.packets.load(Ordering::Relaxed), 6);
        let guard = Guard { shared, threads: Vec::new() };
        assert_eq!(guard.said().len(), 1, "packets came");
        guard.shared.faults().insert([127, 0, 0, 2].into(), "in use".to_owned());
        let said = guard.said();
        assert!(said.len() == 2 && said[0].contains("127.0.0.2") && said[0].contains("in use"), "{said:?}");
    }
}
