//! A plane: a thread that forwards what arrives at its socket.
//!
//! ```text
//!   train ─ route each packet ─▶ packets of one route in a row ─ gathered without their labels ─▶ one sendmsg
//! ```
//!
//! Packets of an object come in a row, so a train is usually one lookup and one system call. Before there is a table packets stay in
//! the socket, so that a plane that is started again loses none that arrived once its socket was open.
//!
//! A packet is sent on with one hop less than it had, as a router does it, so none circulates for ever, whoever sends it back.

use super::shared::{Done, Planes, Shared};
use crate::receive::reader::Consumer;
use crate::report::SourceReport;
use skyhaul_core::balance::{Counters, Refusal, Route, Table};
use skyhaul_core::wire::labelled::Labelled;
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::host::thread;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::UdpSource;
use skyhaul_io::udp::forward::{Forwarded, Forwarder};
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
            forwarder,
            counters,
            forwarded,
            labels: PhantomData,
        }
    }

    fn adopt(&mut self) {
        if let Some(table) = self.shared.newer(&mut self.known) {
            self.table = table;
        }
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
            let ip = train.sender.ip();
            let count = self.table.route_train::<L>(ip, packets.clone(), &mut routes, &mut self.counters);
            self.send(packets.by_ref().take(count), &routes[..count]);
            if count < MAX_TRAIN_PACKETS {
                return;
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

    /// Send packets to one address, without their first `skip` octets.
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
