//! The threads that forward, apart from who decides: in this process, or in another.
//!
//! ```text
//!   one process     Control ── Shared ── threads
//!   two             Control ── Remote ═ Unix socket ═ serve ── Shared ── threads
//! ```
//!
//! With two, packets go on by the last table if the process that decides is killed. The next one that connects is given that
//! table, and goes on with it.

use super::fast::Fast;
use super::options::{BalanceError, BalanceOptions};
use super::plane::{self, Plane};
use super::shared::{Own, Planes, Shared};
use crate::panics::reason;
use crate::receive::reader::Reader;
use skyhaul_core::balance::Reach;
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use skyhaul_io::address::Endpoint;
use skyhaul_io::udp::forward::Forwarder;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

/// The threads that forward what arrives. They stop when it is dropped.
pub struct DataPlane {
    /// A number that no other one has: a controller that connects again knows whether it is the same.
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) data: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
    /// How many of them sockets need; the one before these may end alone: sockets then forward all.
    sockets: usize,
}

impl DataPlane {
    /// Open the sockets of `options.data` and start. Nothing is forwarded before there is a table.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn start(options: &BalanceOptions) -> Result<DataPlane, BalanceError> {
        struct Start<'a>(&'a BalanceOptions);
        impl VisitLabelled for Start<'_> {
            type Out = Result<DataPlane, BalanceError>;
            fn visit<L: Labelled>(self) -> Self::Out {
                DataPlane::of::<L>(self.0)
            }
        }
        let not = BalanceError::NotLabelled(options.family.name());
        options.family.visit_labelled(Start(options)).unwrap_or(Err(not))
    }

    fn of<L: Labelled>(options: &BalanceOptions) -> Result<DataPlane, BalanceError> {
        if options.data.is_empty() {
            return Err(BalanceError::NoData);
        }
        let (mut data, mut planes) = (Vec::new(), Vec::new());
        for &at in &options.data {
            let sources = open(at, options, threads(options))?;
            data.push(sources.first().map_or(at, UdpSource::local));
            for source in sources {
                planes.push((source, Forwarder::open(at.ip(), &options.send)?));
            }
        }
        let fast = Fast::open::<L>(&data, options.fast_path)?;
        // The last one is the program in the kernel, if there is one.
        let own = Own::of(planes.iter().map(|(_, forwarder)| forwarder));
        let reach = Reach::new(data.clone());
        let shared = Shared::new(planes.len() + 1, options.allow.clone()).guarded(reach, own);
        let shared = Arc::new(shared);
        // What has started ends with it if another thread cannot be had.
        let id = RandomState::new().hash_one(std::process::id());
        let number = planes.len();
        let mut all = DataPlane { id, shared, data, threads: Vec::new(), sockets: number };
        match fast {
            Ok(fast) => {
                let (shared, thread) = (Arc::clone(&all.shared), std::thread::Builder::new());
                let thread = thread.name("balance-fast".to_owned());
                all.threads.push(thread.spawn(move || fast.run(number, &shared))?);
            }
            Err(why) => {
                let mut none = all.shared.of(number);
                (none.table, none.mode) = (u64::MAX, why);
            }
        }
        for (number, (source, forwarder)) in planes.into_iter().enumerate() {
            let consumer = Plane::<L>::new(number, Arc::clone(&all.shared), forwarder);
            let reader = Reader { input: source, consumer, tick: plane::TICK, drain: plane::DRAIN };
            let cpu = options.cpus.get(number).copied();
            let thread = std::thread::Builder::new().name(format!("balance-{number}"));
            all.threads.push(thread.spawn(move || reader.run(cpu, None))?);
        }
        Ok(all)
    }

    /// Where packets arrive, with the ports that were found.
    #[must_use]
    pub fn data(&self) -> &[SocketAddr] {
        &self.data
    }

    /// Why a thread that forwards has ended by itself, if one has: what arrives at its socket is lost from then on.
    pub(super) fn fault(&self) -> Option<String> {
        let first = self.threads.len().checked_sub(self.sockets)?;
        let ended = self.threads[first..].iter().any(JoinHandle::is_finished);
        (ended && !self.shared.stops())
            .then(|| format!("a thread that forwards has ended: {}", self.shared.merged().notes.join("; ")))
    }

    /// Forward what is in the sockets, and end.
    pub(super) fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                self.shared.note(format!("a fault in this program ended a thread: {}", reason(&*panic)));
            }
        }
    }
}

impl Drop for DataPlane {
    fn drop(&mut self) {
        self.end();
    }
}

fn threads(options: &BalanceOptions) -> usize {
    let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if options.threads == 0 { processors() } else { options.threads }
}

/// `threads` sockets that share one port.
fn open(at: SocketAddr, options: &BalanceOptions, threads: usize) -> io::Result<Vec<UdpSource>> {
    let udp = UdpOptions {
        buffer: options.receive_buffer,
        timestamps: false,
        hops: true,
        reuse_port: threads > 1,
        ..UdpOptions::default()
    };
    let first = UdpSource::open(&Endpoint::udp(at), &udp)?;
    let at = Endpoint::udp(first.local());
    let others = (1..threads).map(|_| UdpSource::open(&at, &udp));
    std::iter::once(Ok(first)).chain(others).collect()
}

#[cfg(test)]
mod tests;
