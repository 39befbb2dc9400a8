//! The part that bounds a copy, from where its ends waited.

use super::message::Side;
use serde::{Deserialize, Serialize};

/// The part that bounds a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bounds {
    /// Reading at the source.
    SourceDisk,
    /// The network, or the processors that carry it.
    Network,
    /// The rate asked for.
    Limit,
    /// Writing at the destination.
    DestinationDisk,
}

impl Bounds {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::SourceDisk => "reading the source",
            Self::Network => "the network or the processors that carry it",
            Self::Limit => "the --limit",
            Self::DestinationDisk => "writing the destination",
        }
    }

    /// The end that others waited for.
    #[must_use]
    pub fn of(sender: &Side, receiver: &Side) -> Self {
        if sender.paced >= 0.1 {
            Self::Limit
        } else if receiver.waited_for_disk >= 0.25 && receiver.waited_for_disk >= sender.waited_for_disk {
            Self::DestinationDisk
        } else if sender.waited_for_disk >= 0.25 {
            Self::SourceDisk
        } else {
            Self::Network
        }
    }
}
