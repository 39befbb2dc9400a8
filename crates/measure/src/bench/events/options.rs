//! What is combined.

use serde::{Deserialize, Serialize};
use skyhaul::stop::StopFlag;
use skyhaul_core::wire::FamilyRef;
use std::net::IpAddr;
use std::time::Duration;

/// What is measured.
#[derive(Clone, Debug)]
pub struct EventBenchOptions {
    /// The family of events, which must be labelled.
    pub family: FamilyRef,
    /// Largest IP packets, bytes.
    pub mtus: Vec<usize>,
    /// Bytes of an event.
    pub events: Vec<u64>,
    /// Senders, each a thread.
    pub senders: Vec<usize>,
    /// Workers, each a receiver with a thread.
    pub workers: Vec<usize>,
    /// Threads of the balancer.
    pub threads: Vec<usize>,
    /// Bits per second of all senders together; 0: as fast as they can.
    pub rates: Vec<u64>,
    /// Length of a run.
    pub time: Duration,
    /// Rounds.
    pub rounds: usize,
    /// Where all of it is.
    pub address: IpAddr,
    /// Ends it early.
    pub stop: StopFlag,
}

/// One combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Largest IP packet, bytes.
    pub mtu: usize,
    /// Bytes of an event.
    pub event_bytes: u64,
    /// Senders.
    pub senders: usize,
    /// Workers.
    pub workers: usize,
    /// Threads of the balancer.
    pub threads: usize,
    /// Bits per second of all senders; 0: as fast as they could.
    pub rate: u64,
}

impl EventBenchOptions {
    /// Every combination.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let mut all = vec![Setting::default()];
        let mut vary =
            |set: &dyn Fn(Setting) -> Vec<Setting>| all = all.iter().flat_map(|one| set(*one)).collect();
        vary(&|s| self.mtus.iter().map(|&mtu| Setting { mtu, ..s }).collect());
        vary(&|s| self.events.iter().map(|&event_bytes| Setting { event_bytes, ..s }).collect());
        vary(&|s| self.senders.iter().map(|&senders| Setting { senders, ..s }).collect());
        vary(&|s| self.workers.iter().map(|&workers| Setting { workers, ..s }).collect());
        vary(&|s| self.threads.iter().map(|&threads| Setting { threads, ..s }).collect());
        vary(&|s| self.rates.iter().map(|&rate| Setting { rate, ..s }).collect());
        all
    }
}
