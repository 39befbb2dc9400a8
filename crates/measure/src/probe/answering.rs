//! A port on which one thread answers datagrams, each to where it came from.
//!
//! What comes from the port of a service that answers by itself is not answered: with one packet in its name, two services
//! would answer each other for ever, and one would answer itself. These are this port's own number, and [`SERVICES`].
//!
//! Limits: one datagram for each system call that sends; the thread ends within [`WAIT`] of a stop.

use skyhaul_core::wire::{stamp, udpmon};
use skyhaul_io::udp::both::Both;
use skyhaul_io::udp::noted::{Arrival, Noted};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the thread waits for datagrams before it looks whether to stop.
const WAIT: Duration = Duration::from_millis(100);

/// Ports from which nothing is answered: echo, daytime, quotd, chargen; STAMP, udpmon.
pub(super) const SERVICES: [u16; 6] = [7, 13, 17, 19, stamp::PORT, udpmon::PORT];

/// What is behind the port.
pub(super) trait Answers: Send + 'static {
    /// What it counts.
    type Stats: Clone + Default + Send + 'static;

    /// A datagram came. It is answered on `socket`, or not.
    fn datagram(&mut self, socket: &Both, arrival: &Arrival<'_>);

    /// What was counted so far, with `from_services` datagrams that were not given to it; asked whenever there is nothing more
    /// to do at once.
    fn stats(&mut self, from_services: u64) -> Self::Stats;
}

#[derive(Debug)]
struct Told<S> {
    stats: S,
    error: Option<String>,
}

/// The port and its thread, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Answering<S> {
    local: SocketAddr,
    stop: Arc<AtomicBool>,
    told: Arc<Mutex<Told<S>>>,
    thread: Option<JoinHandle<()>>,
}

impl<S: Clone + Default + Send + 'static> Answering<S> {
    /// Answer at `at`; `[::]` hears IPv4, too.
    ///
    /// # Errors
    /// The port is taken or needs a privilege, or the system has no thread left.
    pub(super) fn start<A>(name: &str, at: SocketAddr, mut answers: A) -> io::Result<Self>
    where
        A: Answers<Stats = S>,
    {
        let mut socket = Noted::new(Both::serve(at)?)?;
        let local = socket.both().local();
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::new(Mutex::new(Told { stats: S::default(), error: None }));
        let (end, tell) = (stop.clone(), told.clone());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut from_services = 0;
            while !end.load(Relaxed) {
                let polled = socket.poll(WAIT, &mut |socket, arrival| {
                    if is_service(arrival.from.port(), local.port()) {
                        from_services += 1;
                        return;
                    }
                    answers.datagram(socket, &arrival);
                });
                let mut told = tell.lock().unwrap_or_else(PoisonError::into_inner);
                told.stats = answers.stats(from_services);
                if let Err(error) = polled {
                    told.error = Some(error.to_string());
                    return;
                }
            }
        })?;
        Ok(Self { local, stop, told, thread: Some(thread) })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn stats(&self) -> S {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).stats.clone()
    }

    /// Why it ended by itself, if it did.
    pub(super) fn error(&self) -> Option<String> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).error.clone();
        let ended = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        told.or_else(|| ended.then(|| "a fault in this program".to_owned()))
    }
}

/// Whether a service answers at this port, which is not to be answered from port `own`.
fn is_service(port: u16, own: u16) -> bool {
    port == own || SERVICES.contains(&port)
}

impl<S> Drop for Answering<S> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was reported where it happened.
            let _ = thread.join();
        }
    }
}
