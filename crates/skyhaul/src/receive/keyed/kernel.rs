//! Readers of UDP sockets, and what the kernel places for them.

use super::input::Input;
use super::placing::{HeapPlacing, SenderClaim};
use super::sink::TrainSink;
use super::store::Store;
use super::stream::{Readers, StreamReader, With};
use crate::control::{Answering, Gauge};
use crate::receive::info::StreamInfo;
use crate::receive::kernel::{Kernel, PlacedOf, PlacingOwner, not_placed};
use crate::receive::placer::{Placer, TakenFromLog, Until};
use skyhaul_core::placement::Nanos;
use skyhaul_core::placement::rule::RuleCounts;
use skyhaul_core::wire::keyed::Keyed;
use skyhaul_io::memory::Block;
use skyhaul_io::memory::heap::HeapMemory;
use skyhaul_io::source::{Source, Train};
use skyhaul_io::udp::{Tier, UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

impl<S: Store> Readers<S> {
    pub(crate) fn udp(&self, source: UdpSource, options: &UdpOptions) -> io::Result<SocketAddr> {
        self.udp_through(source, options, |source| Box::new(source))
    }

    /// Reads a socket through another source.
    pub(crate) fn udp_through(
        &self,
        source: UdpSource,
        options: &UdpOptions,
        through: impl FnOnce(UdpSource) -> Box<dyn Source>,
    ) -> io::Result<SocketAddr> {
        let local = source.local();
        let kernel = match options.tier {
            Tier::Bpf => Some(Box::new(self.kernel(&source, options.buffer.bytes())?)),
            _ => None,
        };
        let (with, source) = (With { gauge: None, kernel }, Input::Source(through(source)));
        StreamReader::spawn(&self.core, format!("udp://{local}"), false, with, source)?;
        Ok(local)
    }

    /// For the senders to this socket.
    fn kernel(&self, source: &UdpSource, buffer: u64) -> io::Result<Kernel> {
        let has_memory = S::Wire::IS_PLACED && self.core.table().store.placing().is_some();
        let what = match source.local().ip().is_multicast() {
            true => "multicast",
            false if !has_memory => "a stream of this family",
            false => return Kernel::of_heaps(source, buffer),
        };
        Err(not_placed(what))
    }

    pub(crate) fn udp_answering(&self, source: UdpSource, options: &UdpOptions) -> io::Result<SocketAddr> {
        if options.tier == Tier::Bpf {
            return Err(not_placed("feedback to senders"));
        }
        let (local, gauge) = (source.local(), Arc::new(Gauge::default()));
        let source = Input::Source(Box::new(Answering::new(source, gauge.clone())?));
        let with = With { gauge: Some(gauge), kernel: None };
        StreamReader::spawn(&self.core, format!("udp://{local}"), false, with, source)?;
        Ok(local)
    }
}

impl<S: Store> StreamReader<S> {
    /// Wait up to about `wait`, and take what the kernel has placed, and what came up. Returns how many packets.
    pub(super) fn poll_kernel(&mut self, source: &mut dyn Source, wait: Duration) -> io::Result<usize> {
        let Some(mut kernel) = self.kernel.take() else { return Ok(0) };
        self.packets = 0;
        let polled = kernel.wait(wait).and_then(|()| {
            let packets = source.poll(Duration::ZERO, &mut |train| {
                kernel.hear(self, &train);
                TrainSink::handle_train(self, &train);
            })?;
            // The table has a clock of its own.
            kernel.receive(self, packets == 0, || Nanos(0))
        });
        self.kernel = Some(kernel);
        polled.map(|_| self.packets)
    }

    /// The work of a tick: programs for new senders.
    pub(super) fn tick_kernel(&mut self) {
        let Some(mut kernel) = self.kernel.take() else { return };
        if let Err(error) = kernel.handle_tick(self, Nanos(0)) {
            self.error = Some(error.to_string());
        }
        self.kernel = Some(kernel);
    }

    /// Nothing more is placed; what was placed is taken.
    pub(super) fn close_kernel(&mut self) {
        let Some(mut kernel) = self.kernel.take() else { return };
        kernel.close(self);
        kernel.give_up_senders(self);
        self.kernel = Some(kernel);
    }
}

/// It has no streams of frames.
impl<S: Store> PlacingOwner for StreamReader<S> {
    fn handle_train(&mut self, train: &Train<'_>, _: Nanos) {
        TrainSink::handle_train(self, train);
    }

    fn placeable(&self) -> Vec<(usize, Arc<StreamInfo>)> {
        Vec::new()
    }

    fn is_there(&self, of: PlacedOf) -> bool {
        matches!(of, PlacedOf::Heaps(_))
    }

    fn begin_stream(&mut self, _: usize, _: Placer<Block>) {}

    fn is_heaps(&mut self, _: SocketAddr) -> bool {
        self.can_place()
    }

    fn claim_heaps(&mut self, sender: SocketAddr) -> Option<SenderClaim> {
        self.claim(sender)
    }

    fn heap_memory(&self) -> Option<&HeapMemory> {
        Some(&self.core.memory)
    }

    fn begin_heaps(&mut self, placing: HeapPlacing) {
        self.begin_placing(placing);
    }

    fn end_heaps(&mut self, sender: SocketAddr) {
        self.end_placing(&sender);
    }

    fn forget_heaps(&mut self, sender: SocketAddr) {
        self.forget_placing(&sender);
    }

    fn placed(&self, of: PlacedOf) -> Option<(RuleCounts, u64)> {
        match of {
            PlacedOf::Stream { .. } => None,
            PlacedOf::Heaps(sender) => TrainSink::placed(self, &sender),
        }
    }

    fn take_log(&mut self, of: PlacedOf, until: Until, _: Nanos) -> TakenFromLog {
        match of {
            PlacedOf::Stream { .. } => TakenFromLog::default(),
            PlacedOf::Heaps(sender) => TrainSink::take_log(self, &sender, until),
        }
    }

    fn turn_placing(&mut self, of: PlacedOf) {
        if let PlacedOf::Heaps(sender) = of {
            TrainSink::turn_placing(self, &sender);
        }
    }
}
