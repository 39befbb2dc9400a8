//! How fast a sender sends.

use super::{Outlet, SendError};
use skyhaul_core::control::ControlConfig;
use std::time::Duration;

/// A rate, and what happens to packets that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pacing {
    /// Bits per second of packets (datagram payload); 0 is as fast as possible.
    pub rate: u64,
    /// Let receivers control the rate ([`control`](crate::control)); [`rate`](Self::rate) is then ignored.
    pub auto: Option<ControlConfig>,
    /// Bytes that may be sent at once if there is a rate.
    pub burst_bytes: usize,
    /// Delay that a sender makes up at once; that of a burst, if it is longer.
    pub tolerance: Duration,
    /// Delay that it makes up at a 5 % higher rate. Anything beyond counts as slipped.
    pub slack: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        Self {
            rate: 0,
            auto: None,
            burst_bytes: 65_536,
            tolerance: Duration::from_millis(1),
            slack: Duration::from_millis(100),
        }
    }
}

impl Pacing {
    /// The rate before any report.
    pub(crate) fn first_rate(&self) -> u64 {
        self.auto.map_or(self.rate, |auto| auto.start)
    }

    /// Check that receivers can control the rate there, if they are to.
    ///
    /// # Errors
    /// [`SendError::Config`]: not UDP, or a multicast group.
    pub(crate) fn check(&self, outlet: &Outlet) -> Result<(), SendError> {
        if self.auto.is_none() {
            return Ok(());
        }
        if !outlet.is_udp() {
            let text =
                "automatic rates work only over UDP; hint: TCP controls its own rate; otherwise give a rate";
            return Err(SendError::Config(text.into()));
        }
        let Some(group) = outlet.group() else { return Ok(()) };
        Err(SendError::Config(format!(
            "automatic rates need a single receiver, and the group {group} may have many receivers; hint: give a rate, or \
             send to one receiver's own address"
        )))
    }
}
