//! What a measurement of TCP is to do.

use skyhaul_io::quantity::{Rate, Size};
use skyhaul_io::tcp::bulk::{Put, Take};
use std::time::Duration;

/// Flows at once, as many as iperf3 permits.
pub const FLOWS: usize = 128;

/// When a measurement ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// When it is stopped, or the peers close.
    Open,
    /// After this time.
    Time(Duration),
    /// After this many bytes of all flows together.
    Bytes(u64),
    /// After this many blocks of all flows together.
    Blocks(u64),
}

impl Amount {
    /// Bytes, if it is a number of them, with blocks of `block`.
    #[must_use]
    pub fn bytes(self, block: usize) -> Option<u64> {
        match self {
            Self::Open | Self::Time(_) => None,
            Self::Bytes(bytes) => Some(bytes),
            Self::Blocks(blocks) => Some(blocks.saturating_mul(block as u64)),
        }
    }
}

/// How the flows are run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Bytes of one write, or read.
    pub block: Size,
    /// How senders send.
    pub put: Put,
    /// How receivers receive.
    pub take: Take,
    /// When it ends.
    pub amount: Amount,
    /// Time at the beginning that is not counted: slow start.
    pub omit: Duration,
    /// Rate of each flow that senders keep on average by waiting between blocks; 0: as fast as possible. For spacing
    /// of segments see [`Setup::pacing`](skyhaul_io::tcp::setup::Setup::pacing).
    pub rate: Rate,
    /// Each flow begins this long after the one before.
    pub stagger: Duration,
    /// Flow n is kept on CPU `cpus[n % length]`; empty: where the scheduler puts it.
    pub cpus: Vec<usize>,
    /// Distance of samples.
    pub sample: Duration,
    /// Length of the intervals in the report.
    pub interval: Duration,
    /// How long receivers that are stopped wait for what is still under way: until nothing came for this long. Zero: not
    /// at all.
    pub drain: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            block: Size::from_bytes(1 << 20),
            put: Put::Copy,
            take: Take::Copy,
            amount: Amount::Open,
            omit: Duration::ZERO,
            rate: Rate::default(),
            stagger: Duration::ZERO,
            cpus: Vec::new(),
            sample: Duration::from_millis(10),
            interval: Duration::from_secs(1),
            drain: Duration::ZERO,
        }
    }
}
