//! # The module `skyhaul._native`
//!
//! What Python cannot do at the rate of the network: receiving and sending streams, and the memory of heaps.
//! The package's own Python code (`python/skyhaul/`) makes items, arrays and item groups of it; users import that,
//! never this module.
//!
//! ```text
//!   skyhaul.spead (Python: descriptors, items, NumPy)  ─▶  skyhaul._native (this crate)  ─▶  skyhaul::spead
//! ```
//!
//! Every call that waits, sends or copies lets other Python threads run meanwhile. No state is shared but what the
//! objects themselves guard, so that the module works without the global lock (free-threaded Python).
#![deny(unsafe_code)]

use pyo3::prelude::*;

/// The module as Python sees it.
#[pymodule(gil_used = false)]
mod _native {
    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
