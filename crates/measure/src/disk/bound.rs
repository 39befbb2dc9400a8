//! Which part bounds a transfer between disks and a network: the results.

use serde::{Deserialize, Serialize};

/// The part that bounds a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Reading the disks.
    Read,
    /// The network, at the rate given.
    Network,
    /// Writing the disks.
    Write,
    /// This host: its processors, memory or loopback.
    Host,
}

impl Bound {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Bound::Read => "reading the disks",
            Bound::Network => "the network",
            Bound::Write => "writing the disks",
            Bound::Host => "this host (processors, memory, loopback)",
        }
    }
}

/// A transfer with all its parts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Bits a second of the network, as given.
    pub network_bits_per_second: f64,
    /// Bits a second of reading, as measured.
    pub read_bits_per_second: Option<f64>,
    /// Bits a second of writing, as measured.
    pub write_bits_per_second: Option<f64>,
    /// From these disks to the network.
    pub sending: Option<Piped>,
    /// From the network to these disks.
    pub receiving: Option<Piped>,
    /// From disks like these through the network to disks like these: bits a second, predicted.
    pub through_bits_per_second: Option<f64>,
    /// What bounds that.
    pub bound: Option<Bound>,
}

/// One way between disk and network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Piped {
    /// Bits a second, predicted: that of the slower part.
    pub predicted_bits_per_second: f64,
    /// The slower part.
    pub predicted_bound: Bound,
    /// Bits a second, measured.
    pub measured_bits_per_second: f64,
    /// The part that the others waited for.
    pub measured_bound: Bound,
    /// Seconds measured.
    pub seconds: f64,
    /// Fraction of the time in which disks waited for the network.
    pub disk_waited: f64,
    /// Fraction of the time in which the network waited for disks.
    pub network_waited: f64,
    /// Fraction of the time in which the network was held to its rate.
    pub paced: f64,
    /// CPU seconds for 10⁹ bytes, of both ends of the loopback.
    pub cpu_seconds_per_gb: f64,
    /// Why it ended early.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}
