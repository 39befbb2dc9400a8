//! What a receiver is asked to do.

use super::engine::EngineOptions;
use super::filter::{Allow, Gate};
use super::kernel::not_placed;
use super::objects::ObjectOptions;
use crate::time::unix_now;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Geometry, Grain, Nanos};
use skyhaul_core::wire::LearnOptions;
use skyhaul_io::address::Endpoint;
use skyhaul_io::fault::Faults;
use skyhaul_io::memory::{Pool, PoolOptions};
use skyhaul_io::tcp::TcpOptions;
use skyhaul_io::udp::{Tier, UdpOptions};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, SystemTime};

/// Options of a receiver.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Where to listen; one socket and thread each.
    pub listen: Vec<Endpoint>,
    /// Sockets and threads for each UDP address (`SO_REUSEPORT`: the kernel distributes senders over them).
    pub threads: usize,
    /// How UDP is received.
    pub udp: UdpOptions,
    /// How frames are received over TCP; heaps and events are received as [`objects`](Self::objects) says.
    pub tcp: TcpOptions,
    /// How streams are recognised and placed.
    pub learn: LearnOptions,
    /// Make a stream of each VDIF thread of a sender, instead of one of all.
    pub split_threads: bool,
    /// Keep incomplete sets of threads at the beginning and end of a stream.
    pub keep_partial_sets: bool,
    /// Objects under construction for each stream.
    pub window: usize,
    /// Maximum age of a slow stream's data before they are delivered.
    pub flush: Duration,
    /// Data time to let through.
    pub gate: Gate,
    /// Stop after about this many bytes have been placed.
    pub stop_bytes: Option<u64>,
    /// Maximum number of senders followed at a time, for each socket.
    pub max_streams: usize,
    /// Allowed senders and stations.
    pub allow: Allow,
    /// Receive nothing before this time: earlier packets are counted and dropped.
    pub begin: Option<SystemTime>,
    /// CPUs for the threads, in turn; empty leaves it to the system.
    pub cpus: Vec<usize>,
    /// Real-time priority of the threads (`SCHED_FIFO`).
    pub realtime: Option<u8>,
    /// Where to forward everything.
    pub forward: Vec<Endpoint>,
    /// Faults to inject into the received packets.
    pub faults: Option<Faults>,
    /// Send feedback over UDP to senders that request it ([`control`](crate::control)).
    pub feedback: bool,
    /// Options for heaps and events; `None`: they are rejected as not frames.
    pub objects: Option<ObjectOptions>,
}

impl ReceiverOptions {
    /// The memory for packets: of the kernel, if it is to place them.
    ///
    /// # Errors
    /// As [`Pool::new`] and [`Pool::in_kernel`].
    pub fn pool(&self, options: &PoolOptions) -> io::Result<Pool> {
        if self.udp.tier == Tier::Bpf { Pool::in_kernel(options) } else { Pool::new(options) }
    }

    /// The kernel places only what a thread would place without looking at it.
    pub(super) fn check_tier(&self) -> io::Result<()> {
        if self.udp.tier != Tier::Bpf {
            return Ok(());
        }
        let others = [
            (self.faults.is_some(), "injected faults"),
            (!self.forward.is_empty(), "forwarding"),
            (self.feedback, "feedback to senders"),
            (self.threads > 1, "several threads at an address"),
            (self.split_threads, "a stream of each thread"),
            (!self.gate.is_open(), "a start or stop time of data"),
            (self.listen.iter().any(Endpoint::is_multicast), "multicast"),
        ];
        let Some((_, what)) = others.iter().find(|(is_asked, _)| *is_asked) else { return Ok(()) };
        Err(not_placed(what))
    }

    /// Those of an engine that receives at `listen`.
    pub(super) fn of_engine(&self, listen: String, next_stream: Arc<AtomicU32>) -> EngineOptions {
        EngineOptions {
            learn: self.learn.clone(),
            assembly: OrderedConfig {
                window: self.window.max(1),
                flush: Nanos(self.flush.as_nanos().min(u128::from(u64::MAX / 4)) as u64),
                ..OrderedConfig::new(Geometry { object_bytes: 1, grain: Grain::Bytes(1) })
            },
            gate: self.gate,
            split_threads: self.split_threads,
            keep_partial_sets: self.keep_partial_sets,
            max_streams: self.max_streams,
            allow: self.allow.clone(),
            listen,
            next_stream,
        }
    }
}

impl Default for ReceiverOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            threads: 1,
            udp: UdpOptions::default(),
            tcp: TcpOptions::default(),
            learn: LearnOptions { near: unix_now(), ..LearnOptions::default() },
            split_threads: false,
            keep_partial_sets: false,
            window: 2,
            flush: Duration::from_secs(5),
            gate: Gate::default(),
            stop_bytes: None,
            max_streams: 1024,
            allow: Allow::default(),
            begin: None,
            cpus: Vec::new(),
            realtime: None,
            forward: Vec::new(),
            faults: None,
            feedback: false,
            objects: None,
        }
    }
}
