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

use super::ticks::{Ticks, unix_nanos};
use serde::{Deserialize, Serialize};
use skyhaul_core::wire::FAMILIES;
use skyhaul_core::wire::labelled::{Labelled, Sync, VisitLabelled};
use skyhaul_io::address::Endpoint;
use skyhaul_io::udp::send::{SendMode, SendOptions, UdpSender};
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
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
        *self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Syncs {
    fn drop(&mut self) {
        *self.shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
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
            let over = self.shared.over.lock().unwrap_or_else(PoisonError::into_inner);
            let left = next.saturating_duration_since(Instant::now());
            let (over, _) = self
                .shared
                .wake
                .wait_timeout_while(over, left, |over| !*over)
                .unwrap_or_else(PoisonError::into_inner);
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
        let mut counts = self.shared.counts.lock().unwrap_or_else(PoisonError::into_inner);
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
