//! `skyhaul fleet`: what a fleet of stations does, and what it is to do, through the etcd that its stations share.
//!
//! ```text
//!   [fleet] of --config, options ─▶ Fleet ─ list ─▶ FleetSnapshot ─▶ status, run
//!                                     └─ schedules/, current/, desired/ ◀─ load, start, stop, run
//! ```
//!
//! The command writes what a scheduler writes, and nothing of a recorder. A store that is away is one line, and exit status 1.

mod access;
mod desired;
mod load;
mod place;
mod run;
mod snapshot;
mod status;
mod table;

use crate::args::{FleetArgs, FleetWhat};
use crate::outcome::Outcome;
use crate::print;
use anyhow::Result;
use skyhaul_daemon::fleet::FleetStoreError;

pub(super) use access::Fleet;
pub(super) use snapshot::{FleetSnapshot, Recorder};
pub(super) use status::{age_seconds, json as status_json};

pub(crate) fn run(args: &FleetArgs) -> Result<Outcome> {
    let file = args.file.as_deref();
    failed_if_away(match &args.what {
        FleetWhat::Status(what) => status::run(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Load(what) => load::run(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Start(what) => desired::start(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Stop(what) => desired::stop(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Run(what) => run::run(&Fleet::open(file, &what.at)?, what),
    })
}

/// A store that is away is no wrong usage: the command was right.
pub(super) fn failed_if_away(done: Result<Outcome>) -> Result<Outcome> {
    match done {
        Err(error) if error.is::<FleetStoreError>() => {
            print::error(&error);
            Ok(Outcome::Failed)
        }
        done => done,
    }
}
