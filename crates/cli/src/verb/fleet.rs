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
use access::Fleet;
use anyhow::Result;
use skyhaul_daemon::fleet::FleetStoreError;

pub(crate) fn run(args: &FleetArgs) -> Result<Outcome> {
    let file = args.file.as_deref();
    let done = match &args.what {
        FleetWhat::Status(what) => status::run(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Load(what) => load::run(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Start(what) => desired::start(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Stop(what) => desired::stop(&Fleet::open(file, &what.at)?, what),
        FleetWhat::Run(what) => run::run(&Fleet::open(file, &what.at)?, what),
    };
    match done {
        // The command was right, and the store is away: not wrong usage.
        Err(error) if error.is::<FleetStoreError>() => {
            print::error(&error);
            Ok(Outcome::Failed)
        }
        done => done,
    }
}
