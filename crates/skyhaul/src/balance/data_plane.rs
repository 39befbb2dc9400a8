//! The threads that forward packets, apart from the one that decides: in this process, or in another.
//!
//! ```text
//!   one process     Control ── Shared ── threads
//!   two             Control ── Remote ═ Unix socket ═ serve ── Shared ── threads
//! ```
//!
//! With two, packets are still forwarded by the last table if the process that decides is killed. The next one that connects
//! receives that table, and continues with it.
//!
//! ```text
//!   plane: train ─ route each packet ─▶ packets of one route in a row ─ gathered without their labels ─▶ one sendmsg
//! ```
//!
//! A plane forwards only ticks that are known to be settled, and asks for others ([`Shared::claim`]): however long it has no processor,
//! other planes and later tables send their packets to the same worker.
//!
//! Packets of an object come in a row, so a train is usually one lookup and one system call. Until there is a table, packets stay in
//! the socket, so a plane that is restarted loses none that arrived after its socket was opened. A packet is forwarded with one hop
//! less than it had, as a router does it, so none circulates for ever.

use super::control::{Done, Own, Planes, Shared};
use super::fast::Fast;
use super::{BalanceError, BalanceOptions};
use crate::panics::reason;
use crate::receive::reader::{Consumer, Reader};
use crate::report::SourceReport;
use skyhaul_core::balance::{Counters, Reach, Refusal, Route, Routed, Table, TickRange};
use skyhaul_core::wire::labelled::{Labelled, VisitLabelled};
use skyhaul_io::address::Endpoint;
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::host::thread;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::forward::{Forwarded, Forwarder};
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::io::IoSlice;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// The threads that forward what arrives. They stop when it is dropped.
pub struct DataPlane {
    /// A unique number, by which a controller that reconnects recognises it.
    pub(super) id: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) data: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that sockets need; the one before these may end alone: sockets then forward all packets.
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
            let reader = Reader { input: source, consumer, tick: TICK, drain: DRAIN };
            let cpu = options.cpus.get(number).copied();
            let thread = std::thread::Builder::new().name(format!("balance-{number}"));
            all.threads.push(thread.spawn(move || reader.run(cpu, None))?);
        }
        Ok(all)
    }

    /// Addresses of data packets, with the ports that were bound.
    #[must_use]
    pub fn data(&self) -> &[SocketAddr] {
        &self.data
    }

    /// The reason, if a forwarding thread has ended unexpectedly: what arrives at its socket is lost from then on.
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

/// How often counters are published.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// How long what the kernel already holds is forwarded after a stop.
pub(super) const DRAIN: Duration = Duration::from_millis(300);
/// How often a plane without a table looks for one.
const FIRST_TABLE: Duration = Duration::from_millis(1);
/// Packets routed at a time: a train of the kernel.
const MAX_TRAIN_PACKETS: usize = 64;

/// See the module.
pub(super) struct Plane<L> {
    number: usize,
    shared: Arc<Shared>,
    /// The table in use, and its number.
    table: Arc<Table>,
    known: u64,
    /// What may be forwarded by it without asking.
    settled: TickRange,
    forwarder: Forwarder,
    pub(super) counters: Counters,
    pub(super) forwarded: Forwarded,
    labels: PhantomData<L>,
}

impl<L: Labelled> Plane<L> {
    pub(super) fn new(number: usize, shared: Arc<Shared>, forwarder: Forwarder) -> Self {
        let (counters, forwarded) = Default::default();
        Plane {
            number,
            table: shared.table(),
            shared,
            known: 0,
            settled: TickRange::NONE,
            forwarder,
            counters,
            forwarded,
            labels: PhantomData,
        }
    }

    fn adopt(&mut self) {
        if let Some(table) = self.shared.newer(&mut self.known) {
            (self.table, self.settled) = (table, TickRange::NONE);
        }
    }

    /// Ask for a tick. It happens once for a table, and once for each step of ticks.
    #[cold]
    fn claim(&mut self, tick: u64) {
        (self.known, self.table, self.settled) = self.shared.claim(tick);
    }

    #[inline]
    pub(super) fn train(&mut self, train: &Train<'_>) {
        // A table may have come while the thread waited for this train.
        self.adopt();
        if let Some(why) = self.circulates(train) {
            return self.counters.refuse_train(why, train.count() as u64);
        }
        let mut routes = [Err(Refusal::Empty); MAX_TRAIN_PACKETS];
        let mut packets = train.packets();
        loop {
            let (ip, settled) = (train.sender.ip(), self.settled);
            let Routed { packets: count, unsettled } =
                self.table.route_settled::<L>(ip, packets.clone(), settled, &mut routes, &mut self.counters);
            self.send(packets.by_ref().take(count), &routes[..count]);
            match unsettled {
                Some(tick) => self.claim(tick),
                None if count < MAX_TRAIN_PACKETS => return,
                None => {}
            }
        }
    }

    /// Whether it was sent on before; if not, it is sent on with one hop less.
    #[inline]
    fn circulates(&mut self, train: &Train<'_>) -> Option<Refusal> {
        if self.shared.own.sent(train.sender) {
            return Some(Refusal::OwnPacket);
        }
        match train.hops {
            Some(0 | 1) => return Some(Refusal::HopLimit),
            Some(hops) => self.forwarder.set_hops(hops - 1),
            None => {}
        }
        None
    }

    /// Send `packets` on, each its way.
    #[inline]
    fn send<'p>(&mut self, mut packets: impl Iterator<Item = &'p [u8]>, routes: &[Result<Route, Refusal>]) {
        for same in routes.chunk_by(PartialEq::eq) {
            let to = same[0].ok().and_then(|route| Some((self.table.address(route)?, route.skip)));
            let packets = packets.by_ref().take(same.len());
            match to {
                Some((to, skip)) => self.send_to(to, usize::from(skip), packets),
                None => packets.for_each(drop),
            }
        }
    }

    /// Send packets to one address, without their first `skip` bytes.
    #[inline]
    fn send_to<'p>(&mut self, to: SocketAddr, skip: usize, packets: impl Iterator<Item = &'p [u8]>) {
        let mut slices = [IoSlice::new(&[]); MAX_TRAIN_PACKETS];
        let mut extents = [Extent::default(); MAX_TRAIN_PACKETS];
        let mut count = 0;
        for (packet, (slice, extent)) in packets.zip(slices.iter_mut().zip(&mut extents)) {
            // A label is no longer than its packet.
            let packet = &packet[skip..];
            *slice = IoSlice::new(packet);
            *extent = Extent { first: count, bytes: packet.len() };
            count += 1;
        }
        let done = self.forwarder.forward(to, Gathered::new(&slices[..count], &extents[..count]));
        self.forwarded.add(&done);
    }
}

impl<L: Labelled> Consumer<UdpSource> for Plane<L> {
    fn begin(&mut self, source: &UdpSource) {
        self.handle_tick(source);
    }

    fn poll(&mut self, source: &mut UdpSource, wait: Duration) -> io::Result<usize> {
        self.adopt();
        if self.known == 0 && !self.shared.stops() {
            std::thread::sleep(wait.min(FIRST_TABLE));
            return Ok(0);
        }
        source.poll(wait, &mut |train| self.train(&train))
    }

    fn after_poll(&mut self) {}

    fn handle_tick(&mut self, source: &UdpSource) {
        let newest = self.counters.take_ticks();
        let report = SourceReport::new(format!("udp://{}", source.local()), source.stats());
        let mut all = self.shared.of(self.number);
        let Done { counters, forwarded, sources, mode, cpu, singly, table, ticks, .. } = &mut *all;
        counters.clone_from(&self.counters);
        *forwarded = self.forwarded;
        *sources = vec![report];
        *mode = self.forwarder.describe();
        *singly = self.forwarder.calls().1;
        *cpu = thread::cpu_time();
        *table = self.known;
        ticks.merge(&newest);
    }

    fn is_over(&self, _: &UdpSource) -> bool {
        self.shared.stops()
    }

    fn note(&mut self, text: String) {
        self.shared.note(text);
    }

    fn failed(&mut self, why: String) {
        self.shared.note(why);
    }

    fn finish(&mut self, _: &mut UdpSource) {}

    fn leave(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::balance::AllowList;

    /// Threads that end when told, and whether that is a fault.
    fn fault_of(names: &[&str], ended: usize, sockets: usize) -> bool {
        let shared = Arc::new(Shared::new(names.len(), AllowList::default()));
        let (keep, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let thread = |at: usize| {
            let wait = Arc::clone(&wait);
            std::thread::spawn(move || {
                if at != ended {
                    let _ = wait.lock().map(|wait| wait.recv());
                }
            })
        };
        let threads: Vec<_> = (0..names.len()).map(thread).collect();
        while threads.get(ended).is_some_and(|thread| !thread.is_finished()) {
            std::thread::yield_now();
        }
        let plane = DataPlane { id: 0, shared, data: Vec::new(), threads, sockets };
        let fault = plane.fault().is_some();
        drop(keep);
        fault
    }

    #[test]
    fn a_thread_of_a_socket_that_ended_is_a_fault_and_the_fast_path_is_not() {
        assert!(!fault_of(&["fast", "0", "1"], 9, 2), "all run");
        assert!(!fault_of(&["fast", "0", "1"], 0, 2), "sockets forward all then");
        assert!(fault_of(&["fast", "0", "1"], 1, 2) && fault_of(&["fast", "0", "1"], 2, 2));
        assert!(fault_of(&["0"], 0, 1));
    }
}
