//! Measures a path: what it carries, what it loses, and what bounds it.
//!
//! [`udp`] sends points of size and spacing and accounts for every packet; [`tcp`] moves bytes over TCP connections and says
//! what they waited for; [`iperf3`], [`stamp`] and [`udpmon`] speak the protocols of other tools; [`monitor`] repeats tests for
//! weeks.

mod answering;
pub mod iperf3;
pub mod monitor;
mod series;
pub mod stamp;
pub mod tcp;
pub mod udp;
pub mod udpmon;

use serde::{Deserialize, Serialize};

/// The direction of a test's data, as the client sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestDirection {
    /// From the client to the server.
    #[default]
    Forward,
    /// From the server to the client.
    Reverse,
    /// Both at the same time.
    Both,
}

impl TestDirection {
    /// Whether the client sends.
    #[must_use]
    pub fn forward(self) -> bool {
        self != Self::Reverse
    }

    /// Whether the server sends.
    #[must_use]
    pub fn reverse(self) -> bool {
        self != Self::Forward
    }

    /// Whether this end sends, the client or the server.
    #[must_use]
    pub fn sends(self, client: bool) -> bool {
        if client { self.forward() } else { self.reverse() }
    }

    /// Whether this end receives, the client or the server.
    #[must_use]
    pub fn receives(self, client: bool) -> bool {
        self.sends(!client)
    }
}

#[cfg(test)]
mod tests {
    use super::TestDirection::{Both, Forward, Reverse};

    #[test]
    fn directions_are_those_of_the_client() {
        assert!(Forward.sends(true) && Forward.receives(false) && !Forward.sends(false));
        assert!(Reverse.sends(false) && Reverse.receives(true) && !Reverse.sends(true));
        assert!([true, false].iter().all(|&client| Both.sends(client) && Both.receives(client)));
    }
}
