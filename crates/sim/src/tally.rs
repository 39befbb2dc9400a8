//! What happened, counted.

use skyhaul_core::placement::Rejects;
use std::collections::BTreeMap;

/// What happened, over any number of worlds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Worlds.
    pub worlds: u64,
    /// Worlds in which what is told as missing had to equal what the network lost.
    pub exact: u64,
    /// Datagrams that came.
    pub packets: u64,
    /// Payloads, or pieces of them, put in their place.
    pub accepted: u64,
    /// Of these, given back as no part of the stream.
    pub strays: u64,
    /// Refused, by reason.
    pub rejects: Rejects,
    /// Objects, or parts of them, handed on, by cause.
    pub causes: BTreeMap<&'static str, u64>,
    /// Restarts that were followed.
    pub epochs: u64,
    /// Times a sender said that it began anew.
    pub starts: u64,
    /// Streams that ended because their senders said so.
    pub stopped: u64,
    /// Blocks that a second disk had to write.
    pub rewritten: u64,
    /// Worlds by what is sent.
    pub kinds: BTreeMap<String, u64>,
}

impl Tally {
    /// Add another's counts.
    pub fn add(&mut self, other: &Tally) {
        self.worlds += other.worlds;
        self.exact += other.exact;
        self.packets += other.packets;
        self.accepted += other.accepted;
        self.strays += other.strays;
        self.rejects.merge(&other.rejects);
        self.epochs += other.epochs;
        self.starts += other.starts;
        self.stopped += other.stopped;
        self.rewritten += other.rewritten;
        other.causes.iter().for_each(|(name, count)| *self.causes.entry(name).or_default() += count);
        other.kinds.iter().for_each(|(name, count)| *self.kinds.entry(name.clone()).or_default() += count);
    }

    /// All counts, each with its name.
    pub fn rows(&self) -> Vec<(String, u64)> {
        let row = |name: &str, count: u64| (name.to_owned(), count);
        let mut rows = vec![row("worlds", self.worlds), row("  with exact losses", self.exact)];
        rows.extend(self.kinds.iter().map(|(kind, &count)| row(&format!("  {kind}"), count)));
        rows.extend([row("  ended by their senders", self.stopped), row("packets", self.packets)]);
        rows.extend([row("  in place", self.accepted), row("    of these stray", self.strays)]);
        rows.extend(self.rejects.iter().map(|(why, count)| row(&format!("  {}", why.name()), count)));
        rows.push(row("objects retired", self.causes.values().sum()));
        rows.extend(self.causes.iter().map(|(cause, &count)| row(&format!("  {cause}"), count)));
        rows.extend([row("restarts followed", self.epochs), row("starts", self.starts)]);
        rows.push(row("blocks written again", self.rewritten));
        rows
    }
}
