//! Synchronisation messages: a thread that tells a balancer where a sender's ticks are.
//!
//! ```text
//!   sender ─ tick it has come to ─▶ ┌────────┐ every period
//!   (an atomic; never waits)        │ thread │ ─▶ tick, ticks per second, time ─▶ sync address
//!                                   └────────┘
//! ```
//!
//! Counted ticks are told as the last one sent, with the rate since the message before (0 while it is not known). Those of a
//! clock are its own time, at its own rate, whether or not anything is sent. Limit: a rate has 32 bits.

use super::event::{Ticks, unix_nanos};
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_core::wire::labelled::{Labelled, Sync, VisitLabelled};
use skyhaul_core::wire::{BalancerUri, DataAddress, FAMILIES, UriError};
use skyhaul_io::address::{Endpoint, NotAnEndpoint, Transport};
use skyhaul_io::lock::{lock, wait_while};
use skyhaul_io::udp::send::{SendMode, SendOptions, UdpSender};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What messages say, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncOptions {
    /// Time from one to the next.
    pub period: Duration,
    /// The sender, as it calls itself.
    pub source: u32,
}

impl Default for SyncOptions {
    fn default() -> Self {
        Self { period: Duration::from_secs(1), source: 0 }
    }
}

/// Messages so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncCounts {
    /// Sent.
    pub sent: u64,
    /// Not sent: the kernel refused them.
    pub failed: u64,
    /// Reports that nobody listens at the address.
    pub unreachable: u64,
}

/// Sends messages until it is dropped.
#[derive(Debug)]
pub struct Syncs {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    tick: AtomicU64,
    counts: Mutex<SyncCounts>,
    over: Mutex<bool>,
    wake: Condvar,
}

impl Syncs {
    /// Start telling `to` of `ticks`; the first message goes at once.
    ///
    /// # Errors
    /// The socket cannot be opened: the error names the operation and the address, and has a hint.
    pub fn start(to: &Endpoint, options: &SyncOptions, ticks: Ticks) -> io::Result<Self> {
        let one = SendOptions { mode: SendMode::Plain, ..SendOptions::default() };
        let socket = UdpSender::open(to, &one)?;
        let write = writer().ok_or(io::ErrorKind::Unsupported)?;
        let shared = Arc::new(Shared {
            tick: AtomicU64::new(ticks.peek(unix_nanos() / 1000)),
            counts: Mutex::default(),
            over: Mutex::default(),
            wake: Condvar::new(),
        });
        let is_clock = matches!(ticks, Ticks::Clock { .. });
        let mut teller = Teller {
            shared: shared.clone(),
            socket,
            write,
            options: options.clone(),
            is_clock,
            before: None,
        };
        // Before any event, whenever the thread begins.
        teller.tell();
        let thread = std::thread::Builder::new().name("sync".into()).spawn(move || teller.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The sender has come to this tick.
    #[inline]
    pub fn at(&self, tick: u64) {
        self.shared.tick.store(tick, Ordering::Relaxed);
    }

    /// Messages so far.
    #[must_use]
    pub fn counts(&self) -> SyncCounts {
        *lock(&self.shared.counts)
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        *lock(&self.shared.over) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

/// Writes a message.
type Write = fn(&Sync) -> Vec<u8>;

/// How the family with such messages writes them.
fn writer() -> Option<Write> {
    struct Writer;
    impl VisitLabelled for Writer {
        type Out = Write;
        fn visit<L: Labelled>(self) -> Write {
            L::write_sync
        }
    }
    FAMILIES.iter().find_map(|family| family.visit_labelled(Writer))
}

/// The thread.
struct Teller {
    shared: Arc<Shared>,
    socket: UdpSender,
    write: Write,
    options: SyncOptions,
    is_clock: bool,
    /// Tick and time of the message before.
    before: Option<(u64, Instant)>,
}

impl Teller {
    fn run(mut self) {
        let mut next = Instant::now();
        loop {
            next += self.options.period;
            let over = lock(&self.shared.over);
            let left = next.saturating_duration_since(Instant::now());
            let over = wait_while(&self.shared.wake, over, left, |over| !*over);
            if *over {
                return;
            }
            drop(over);
            self.tell();
        }
    }

    fn tell(&mut self) {
        let sent = unix_nanos();
        let (tick, rate) = match self.is_clock {
            true => (sent / 1000, Ticks::CLOCK_RATE),
            false => self.counted(),
        };
        let message = (self.write)(&Sync { source: self.options.source, tick, rate, sent });
        let told = self.socket.send_train(&[[IoSlice::new(&message)]]);
        let mut counts = lock(&self.shared.counts);
        match told {
            Ok(_) => counts.sent += 1,
            Err(_) => counts.failed += 1,
        }
        counts.unreachable = self.socket.stats().unreachable;
    }

    /// The tick that the sender has come to, and ticks per second since the message before.
    fn counted(&mut self) -> (u64, u32) {
        let (tick, now) = (self.shared.tick.load(Ordering::Relaxed), Instant::now());
        let rate = self.before.map_or(0.0, |(before, then)| {
            tick.wrapping_sub(before) as f64 / (now - then).as_secs_f64().max(1e-6)
        });
        self.before = Some((tick, now));
        // Too high a rate is told as the highest.
        (tick, rate as u32)
    }
}

/// Where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// One address for each port that may be used, at least one; of a long range only the first
    /// [`PORTS`](Self::PORTS).
    data: Vec<Endpoint>,
    /// Where synchronisation messages go.
    pub sync: Option<Endpoint>,
    /// Whether a balancer is there, which needs its header.
    pub is_balancer: bool,
}

/// Why a text does not say where events go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The URI is malformed.
    #[error("{0}")]
    Uri(#[from] UriError),
    /// The address is malformed.
    #[error("{0}")]
    Address(#[from] NotAnEndpoint),
    /// The URI names only the control plane.
    #[error(
        "the URI of {control} has no data=, and this sender does not ask the control plane for it{}",
        Hint(
            "use the URI that the reservation printed, with data= and sync=, like ejfat://…/lb/1?data=10.0.0.1:19522&sync=10.0.0.1:19010"
        )
    )]
    NoData {
        /// The control plane.
        control: String,
    },
    /// Not the transport of events.
    #[error("events go over UDP, not {transport}{}", Hint("use a udp:// address"))]
    Transport {
        /// The transport asked for.
        transport: &'static str,
    },
}

impl Target {
    /// Most ports of a range that are used.
    pub const PORTS: usize = 256;

    /// Read a balancer's URI, or an address with or without `udp://`. Of several addresses the first IPv4 one is taken, or with
    /// `ipv6` the first IPv6 one; if there is none of that kind, the first.
    ///
    /// # Errors
    /// See [`TargetError`]. A token is in none of them.
    pub fn read(text: &str, ipv6: bool) -> Result<Target, TargetError> {
        // No address has `@`: what has one is a URI with a mistake in its scheme, and its token is not to be shown.
        if BalancerUri::is_meant(text) || text.contains('@') {
            return Target::of(&text.parse()?, ipv6);
        }
        let whole = if text.contains("://") { text.to_owned() } else { format!("udp://{text}") };
        Target::direct(whole.parse()?)
    }

    /// To a receiver.
    ///
    /// # Errors
    /// [`TargetError::Transport`].
    pub fn direct(to: Endpoint) -> Result<Target, TargetError> {
        if to.transport != Transport::Udp {
            return Err(TargetError::Transport { transport: to.transport.scheme() });
        }
        Ok(Target { data: vec![to], sync: None, is_balancer: false })
    }

    /// To a balancer that is told of no ticks.
    #[must_use]
    pub fn balancer(at: Endpoint) -> Target {
        Target { data: vec![at], sync: None, is_balancer: true }
    }

    /// To the balancer of a URI.
    ///
    /// # Errors
    /// [`TargetError::NoData`].
    pub fn of(uri: &BalancerUri, ipv6: bool) -> Result<Target, TargetError> {
        let liked = uri.data.iter().find(|data| data.ip.is_ipv6() == ipv6);
        let Some(DataAddress { ip, ports }) = liked.or(uri.data.first()) else {
            return Err(TargetError::NoData { control: format!("{}:{}", uri.host, uri.port) });
        };
        let alike = uri.sync.iter().find(|sync| sync.is_ipv6() == ip.is_ipv6());
        let sync = alike.or(uri.sync.first()).copied().map(Endpoint::udp);
        let data = ports.clone().take(Self::PORTS).map(|port| Endpoint::udp(SocketAddr::new(*ip, port)));
        Ok(Target { data: data.collect(), sync, is_balancer: true })
    }

    /// Addresses for so many sockets: the ports in turn.
    #[must_use]
    pub fn endpoints(&self, sockets: usize) -> Vec<Endpoint> {
        self.data.iter().cycle().take(sockets.max(1)).cloned().collect()
    }

    /// The first address.
    #[must_use]
    pub fn first(&self) -> &Endpoint {
        &self.data[0]
    }

    /// Bytes of IP and UDP header of its datagrams.
    #[must_use]
    pub fn overhead(&self) -> usize {
        if self.first().address.is_ipv6() { 48 } else { 28 }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.first())?;
        if let [first, .., last] = &self.data[..]
            && first.address.port() != last.address.port()
        {
            write!(f, " to port {}", last.address.port())?;
        }
        if self.is_balancer { write!(f, " (balancer)") } else { Ok(()) }
    }
}
