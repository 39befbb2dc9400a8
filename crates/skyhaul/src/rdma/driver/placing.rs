//! A driver whose peers' Writes the kernel places.

use super::Driver;
use crate::rdma::kernel::{Hands, Kernel, Target};
use crate::rdma::memory::Memory;
use skyhaul_core::hint::Hint;
use skyhaul_core::rdma::{MemorySlice, RdmaContext};
use skyhaul_io::memory::remote::RemoteMemory;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

impl Driver {
    /// New memory of a region, in the kernel if that places: where it begins there, then.
    ///
    /// # Errors
    /// There is too little.
    pub(in crate::rdma) fn add_region(&mut self, bytes: u64) -> io::Result<(u32, Option<u64>)> {
        let (memory, start) = match &mut self.kernel {
            Ok(kernel) => {
                let (memory, start) = kernel.region(bytes);
                (memory, Some(start))
            }
            Err(_) => (RemoteMemory::new(bytes)?, None),
        };
        Ok((self.add(Memory::Remote(Arc::new(memory))), start))
    }

    /// Whether a program for this connection is being loaded: it is better accepted later.
    pub(in crate::rdma) fn is_loading(&mut self, connection: u32, target: Option<Target>) -> bool {
        let path = self.endpoint.path_of(connection).filter(|(_, has_crc)| target.is_some() && !has_crc);
        path.zip(self.kernel.as_mut().ok()).is_some_and(|((bytes, _), kernel)| kernel.is_loading(bytes))
    }

    /// Has the Writes of a connection placed by the kernel, if that can.
    pub(in crate::rdma) fn place_for(&mut self, peer: SocketAddr, connection: u32, target: Option<Target>) {
        let Some(((kernel, target), (datagram_bytes, has_crc))) =
            self.kernel.as_mut().ok().zip(target).zip(self.endpoint.path_of(connection))
        else {
            return;
        };
        if has_crc {
            return;
        }
        if let Err(why) = kernel.begin(self.local, (peer, connection), datagram_bytes, target, self.buffer) {
            self.refused_program = Some(why.to_string());
        }
    }

    /// Whether a turn may last until there is something to do: the kernel places meanwhile, or nothing comes and others can wake this.
    pub(in crate::rdma) fn may_sleep(&self) -> bool {
        self.is_placing() || self.wake.is_some() && self.is_idle
    }

    fn is_placing(&self) -> bool {
        self.kernel.as_ref().is_ok_and(|kernel| !kernel.is_idle())
    }

    /// An error if the kernel does not place.
    ///
    /// # Errors
    /// That: it says what is missing.
    pub(in crate::rdma) fn must_place(&self) -> io::Result<()> {
        let otherwise = Hint("or use --tier auto, or stage: this process places then");
        self.kernel
            .as_ref()
            .map(drop)
            .map_err(|why| io::Error::other(format!("--tier bpf: {why}{otherwise}")))
    }

    /// How Writes are placed: by the kernel, or why not.
    pub(in crate::rdma) fn placing(&self) -> String {
        match (&self.kernel, &self.refused_program) {
            (Ok(kernel), None) => match kernel.placing().suspended {
                0 => "bpf: the kernel places Writes".to_owned(),
                times => format!(
                    "bpf: the kernel places Writes; set aside {times} times, as most came up the socket"
                ),
            },
            (Ok(_), Some(why)) => format!("stage for some connections: {why}"),
            (Err(why), _) => format!("stage: {why}"),
        }
    }

    /// Ranges of a place that were written by the kernel and not yet handed over.
    pub(in crate::rdma) fn not_handed(&self, place: MemorySlice) -> Vec<Range<u64>> {
        self.kernel.as_ref().map_or_else(|_| Vec::new(), |kernel| kernel.not_handed(place))
    }

    /// For each connection that the kernel places for, the message from which on nothing was placed yet.
    pub(in crate::rdma) fn untouched(&self) -> Vec<(u32, u64)> {
        self.kernel.as_ref().map_or_else(|_| Vec::new(), Kernel::untouched)
    }

    /// What a connection's program has placed is handed over, and the program ends.
    ///
    /// # Errors
    /// Its socket fails.
    pub(in crate::rdma) fn end_placing(&mut self, connection: u32) -> io::Result<()> {
        self.with_kernel(|kernel, hands| kernel.end(connection, hands).map(|()| 0)).map(drop)
    }

    /// The same for all connections.
    ///
    /// # Errors
    /// A socket fails.
    pub(in crate::rdma) fn end_all_placing(&mut self) -> io::Result<()> {
        let connections = self.kernel.as_ref().map_or_else(|_| Vec::new(), Kernel::connections);
        connections.into_iter().try_for_each(|connection| self.end_placing(connection))
    }

    pub(super) fn with_kernel(
        &mut self,
        call: impl FnOnce(&mut Kernel, &mut Hands<'_, '_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let now = self.now();
        let Self { endpoint, memories, proof, numbers, arrived, placed, kernel, .. } = self;
        let Ok(kernel) = kernel else { return Ok(0) };
        let mut context = RdmaContext {
            now,
            random: &mut || numbers.draw(),
            proof: &*proof,
            crc32c: crc32c::crc32c_append,
        };
        let mut hands = Hands { endpoint, context: &mut context, memories, placed, arrived };
        call(kernel, &mut hands)
    }
}
