//! Counts packets at the port used by clients that ignore the port in the URI.
//!
//! Such a client knows only the address, so its packets do not show which of the balancers at that address it means. A
//! balancer on that port would accept them and send them to workers of another experiment. So no balancer uses this
//! port; packets that arrive there are counted and dropped.

use super::DATA_PORT;
use skyhaul::io::address::Endpoint;
use skyhaul::io::source::Source;
use skyhaul::io::udp::{UdpOptions, UdpSource};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it checks whether to end.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
struct Shared {
    packets: AtomicU64,
    stop: AtomicBool,
}

/// Counts such packets. It ends when dropped.
pub struct Guard {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Addresses at which another program has the port, or which cannot be used.
    missing: Vec<IpAddr>,
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
        let mut guard = Guard { shared: Arc::default(), threads: Vec::new(), missing: Vec::new() };
        for &ip in listen {
            let options = UdpOptions { timestamps: false, ..UdpOptions::default() };
            let opened = UdpSource::open(&Endpoint::udp(SocketAddr::new(ip, DATA_PORT)), &options);
            let Ok(source) = opened else {
                guard.missing.push(ip);
                continue;
            };
            let shared = Arc::clone(&guard.shared);
            let thread = std::thread::Builder::new().name("balance-guard".to_owned());
            match thread.spawn(move || run(source, &shared)) {
                Ok(thread) => guard.threads.push(thread),
                Err(_) => guard.missing.push(ip),
            }
        }
        guard
    }

    /// Packets so far.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.shared.packets.load(Ordering::Relaxed)
    }

    /// A note for the user, if there is a problem.
    pub(in super::super) fn said(&self) -> Option<String> {
        let missing: Vec<String> = self.missing.iter().map(ToString::to_string).collect();
        match (self.packets(), &missing[..]) {
            (0, []) => None,
            (0, _) => Some(format!(
                "port {DATA_PORT} of {} cannot be guarded: packets of clients that ignore the port in EJFAT_URI are not counted",
                missing.join(", ")
            )),
            _ => Some(format!(
                "packets come to port {DATA_PORT}, which is that of no load balancer here: they are refused (wrong_instance); \
                 hint: the sender ignores the port in EJFAT_URI; --instance-address gives each load balancer an address of its own"
            )),
        }
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

fn run(mut source: UdpSource, shared: &Shared) {
    let mut count = |train: skyhaul::io::source::Train<'_>| {
        shared.packets.fetch_add(train.count() as u64, Ordering::Relaxed);
    };
    while !shared.stop.load(Ordering::Acquire) {
        if source.poll(LOOK, &mut count).is_err() {
            return;
        }
    }
}
