//! Verbs missing from builds without the feature `full`, such as the first build of `make demo`. Each says how to get it.

use crate::args::{JoinArgs, ReceiveCommon};
use crate::outcome::Outcome;
use anyhow::{Result, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::receive::{ReceiverOptions, Running};
use skyhaul::report::SessionReport;
use std::convert::Infallible;

const MISSING: &str = "this build of skyhaul has only what a first demo needs";
const BUILD_HINT: Hint<&str> = Hint("build everything with `make build`");

/// A verb that this build does not have.
pub(crate) fn run<A>(_: &A) -> Result<Outcome> {
    bail!("{MISSING}{BUILD_HINT}")
}

/// `station`, which this build does not have.
pub(crate) fn station<A>(_: &A) -> Result<Outcome> {
    bail!("{MISSING}{BUILD_HINT}")
}

/// `record --schedule`, which this build does not have.
pub(crate) fn follow<A, S>(_: &A, _: &S) -> Result<Outcome> {
    bail!("{MISSING}{BUILD_HINT}")
}

/// A balancer to join: there is none.
pub(crate) struct Joining(Infallible);

impl Joining {
    /// Returns none.
    ///
    /// # Errors
    /// One was asked for.
    pub(crate) fn prepare(args: &JoinArgs, _: &ReceiveCommon, _: bool) -> Result<Option<Self>> {
        ensure!(!args.join, "{MISSING}{BUILD_HINT}");
        Ok(None)
    }

    pub(crate) fn adapt(&self, _: &mut ReceiverOptions) {
        match self.0 {}
    }

    pub(crate) fn join(&self, _: &[String], _: &Running) -> Result<Worker> {
        match self.0 {}
    }
}

/// A worker of a balancer: there is none.
pub(crate) enum Worker {}

impl Worker {
    pub(crate) fn is_running(&self) -> bool {
        match *self {}
    }

    pub(crate) fn report(&self) -> SessionReport {
        match *self {}
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as the worker of a whole build is")]
pub(crate) fn leave(worker: Worker, _: &Running, _: bool) -> SessionReport {
    match worker {}
}

/// `send --join`: there is no balancer to join.
pub(crate) mod senders {
    use super::{BUILD_HINT, MISSING};
    use crate::args::SendArgs;
    use anyhow::{Result, ensure};
    use skyhaul::send::SendReport;
    use std::convert::Infallible;

    /// Returns none.
    ///
    /// # Errors
    /// One was asked for.
    pub(crate) fn join(args: &SendArgs) -> Result<Vec<Infallible>> {
        ensure!(!args.of_events.join, "{MISSING}{BUILD_HINT}");
        Ok(Vec::new())
    }

    /// Nothing was refused by a balancer that was not joined.
    pub(crate) fn leave(_: Vec<Infallible>, _: &mut [SendReport]) -> bool {
        false
    }
}
