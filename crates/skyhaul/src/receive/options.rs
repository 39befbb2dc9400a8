//! What a receiver is asked for, and what of that its engines are.
//!
//! Apart from the receiver, so that every option can be read in one place.

use super::allow::Allow;
use super::engine::EngineOptions;
use super::gate::Gate;
use super::objects::ObjectOptions;
use skyhaul_core::assembly::OrderedConfig;
use skyhaul_core::placement::{Geometry, Grain, Nanos};
use skyhaul_core::wire::LearnOptions;
use skyhaul_io::address::Endpoint;
use skyhaul_io::fault::Faults;
use skyhaul_io::udp::UdpOptions;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, SystemTime};

/// What to receive, and how.
#[derive(Clone, Debug)]
pub struct ReceiverOptions {
    /// Where to listen; one socket and thread each.
    pub listen: Vec<Endpoint>,
    /// Sockets and threads for each UDP address (`SO_REUSEPORT`: the kernel spreads senders over them).
    pub threads: usize,
    /// How UDP is received.
    pub udp: UdpOptions,
    /// How streams are recognised and placed.
    pub learn: LearnOptions,
    /// Make a stream of each VDIF thread of a sender, instead of one of all.
    pub split_threads: bool,
    /// Keep what there is of sets of threads that were under way when a stream began or ended.
    pub keep_partial_sets: bool,
    /// Objects under construction for each stream.
    pub window: usize,
    /// How old the data of a slow stream may grow before they are handed on.
    pub flush: Duration,
    /// Data time to let through.
    pub gate: Gate,
    /// Stop after about this many bytes were placed.
    pub stop_bytes: Option<u64>,
    /// Most senders followed at a time, for each socket.
    pub max_streams: usize,
    /// Who may send.
    pub allow: Allow,
    /// Receive nothing before this time: what comes earlier is counted and let go.
    pub begin: Option<SystemTime>,
    /// Processors for the threads, in turn; empty leaves it to the system.
    pub cpus: Vec<usize>,
    /// Real-time priority of the threads (`SCHED_FIFO`).
    pub realtime: Option<u8>,
    /// Where to send everything on to.
    pub forward: Vec<Endpoint>,
    /// Damage done on purpose to what arrives.
    pub faults: Option<Faults>,
    /// Report to senders what arrives over UDP, if they ask ([`control`](crate::control)).
    pub feedback: bool,
    /// How heaps and events are received; `None`: they are refused, as no frames.
    pub objects: Option<ObjectOptions>,
}

impl ReceiverOptions {
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
            learn: LearnOptions::default(),
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
