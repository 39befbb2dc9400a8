//! Headings of `--help`, in the order in which a verb shows them.
//!
//! The order is that in which a verb's options are defined: the first option of a heading gives its place. Options for some
//! formats or modes only have a heading that follows from what they [apply to](super::applies).

/// What a receiver takes in.
pub(super) const INPUT: &str = "What to receive";
/// What a sender sends.
pub(super) const SOURCE: &str = "What to send";
/// A worker of a balancer.
pub(super) const WORKER: &str = "Worker of a balancer (--join)";
/// Where a balancer's packets come in, and for whom.
pub(super) const BALANCED: &str = "What to balance";
/// Who tells a balancer what to do.
pub(super) const CONTROL: &str = "Control plane";
/// Files, disks and destinations.
pub(super) const DESTINATION: &str = "Where it goes";
/// Start and end of receiving.
pub(super) const WHEN: &str = "When it starts and ends";
/// Rate and length of what is sent.
pub(super) const PACE: &str = "How fast and how long";
/// What a machine with other memory, CPUs or network cards may need.
pub(super) const HOST: &str = "Memory and threads";
/// Faults on purpose, and payloads that verify themselves.
pub(super) const TESTING: &str = "Testing";
/// An emulated path, and what runs at its ends.
pub(super) const PATH: &str = "Path and ends";
/// Output, configuration and help: of every verb.
pub(super) const GENERAL: &str = "General";
