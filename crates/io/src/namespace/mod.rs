//! Networks of this program's own, without names: nothing is left of them when the last process and descriptor is gone.
//!
//! ```text
//!   skyhaul ── waits, passes signals on
//!     └─ the lab: process 1 of its own ──┬─ command, in the network of the near end
//!        (user), mount and process       ├─ command, in the network of the far end
//!        namespaces; /etc/hosts its own  └─ threads in the network of the router
//! ```
//!
//! A [`Network`] is made by any thread that may; [`apart`](apart::apart) puts a whole process into namespaces of its own
//! first, which is how an ordinary user may. Whichever process dies, by whatever signal, the kernel ends the others.
//!
//! Limits: an ordinary user needs user namespaces, which some systems forbid; the error says so.

pub mod apart;
pub(crate) mod call;
pub mod network;

pub use apart::{Apart, apart};
pub use network::{Network, ask_to_end};
