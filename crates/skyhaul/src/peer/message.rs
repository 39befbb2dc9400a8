//! The messages of the handshake, and around services.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The server's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// [`VERSION`](super::VERSION).
    pub skyhaul: u32,
    /// Random bytes, as hexadecimal digits.
    pub nonce: String,
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`](super::VERSION).
    pub skyhaul: u32,
    /// Random bytes, as hexadecimal digits.
    pub nonce: String,
    /// That the client knows the token.
    pub proof: String,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Welcome {
    /// That the server knows the token.
    Proof(String),
    /// The client does not.
    WrongToken,
    /// The versions differ; this is the server's.
    Version(u32),
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// A service, which gets `body`.
    Run {
        /// Its name.
        service: String,
        /// What it takes.
        body: Value,
    },
    /// To be a further connection of a service that runs: the stream behind this message is its own.
    Attach {
        /// What the service gave out.
        cookie: String,
    },
}

/// The server's answer to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Others are first.
    Queued(Waiting),
    /// Begin.
    Go,
    /// It will not be done.
    Refused {
        /// Why.
        why: String,
    },
}

/// A place in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many wait before it.
    pub ahead: usize,
    /// Seconds until it begins, if all take as long as they said.
    pub seconds: f64,
}

/// Any bytes as each of the messages; one that was read is written and read back the same.
pub(super) fn fuzz(body: &[u8]) {
    fn back<T: Serialize + for<'de> Deserialize<'de> + PartialEq + std::fmt::Debug>(body: &[u8]) {
        let Ok(message) = serde_json::from_slice::<T>(body) else { return };
        let text = serde_json::to_vec(&message).unwrap_or_default();
        assert!(serde_json::from_slice::<T>(&text).is_ok(), "{message:?} is not read back");
    }
    back::<Challenge>(body);
    back::<Hello>(body);
    back::<Welcome>(body);
    back::<Ask>(body);
    back::<Answer>(body);
}
