//! One session of copying, as the asking end runs it: a whole copy, or one in small.

use super::aside::Aside;
use super::budget::Account;
use super::destination::Into;
use super::manifest::{Manifest, Root};
use super::message::Message;
use super::names::Allowed;
use super::options::CopyOptions;
use super::receiver::{self, Wishes};
use super::sender;
use super::session::{Purpose, Session};
use super::talk::{Outcome, Progress, Talk, of_peer};
use skyhaul::peer::Token;
use std::io;
use std::time::{Duration, Instant};

/// How long a server may take to remove a copy in small.
const REMOVED: Duration = Duration::from_secs(60);

/// What is here: files to send, or directories to receive into.
pub(super) struct Here<'a> {
    pub(super) roots: &'a [Root],
    pub(super) manifest: &'a Manifest,
    pub(super) into: &'a [Into],
}

/// How it went.
pub(super) struct Ran {
    pub(super) outcome: Outcome,
    /// From asking until all of it was durable.
    pub(super) took: Duration,
    /// The shortest round trip.
    pub(super) rtt: Duration,
}

/// Copy what is here, there; or what is there, here. Of a [`Purpose::Sample`], nothing is left at the destination.
///
/// # Errors
/// The server is not there, or refuses; the destination cannot be written.
pub(super) fn run(
    options: &CopyOptions,
    token: &Token,
    purpose: Purpose,
    here: &Here<'_>,
    progress: &mut dyn FnMut(&Progress),
) -> io::Result<Ran> {
    let begun = Instant::now();
    let Session { mut connection, flows, rtt } = Session::begin(options, token, purpose)?;
    let flag = options.stop.clone();
    let stop = move || flag.is_set();
    let talk = Talk::new(&mut connection, &stop, progress, options.tuning.patience);
    let sample = if let Purpose::Sample(sample) = &purpose { Some(sample) } else { None };
    let account = Account::alone();
    let aside = match sample {
        Some(_) if options.pull => Some(Aside::of(here.into)?),
        _ => None,
    };
    let outcome = match (options.pull, sample) {
        (true, _) => {
            let into = aside.as_ref().map_or_else(|| here.into.to_vec(), Aside::places);
            let allowed = Allowed::by(&options.sources, |at| at % options.into.len().max(1));
            let verify = purpose == Purpose::Verify;
            let wishes = Wishes { into: &into, exists: options.exists, verify, allowed };
            receiver::receive(talk, flows, &wishes, &options.tuning, account)?
        }
        (false, Some(sample)) => {
            let manifest = here.manifest.sample(sample);
            sender::send(talk, flows, here.roots, &manifest, &options.tuning, account)?
        }
        (false, None) => sender::send(talk, flows, here.roots, here.manifest, &options.tuning, account)?,
    };
    let took = begun.elapsed();
    drop(aside);
    if sample.is_some() && outcome.stopped.is_none() {
        // What the server removes would delay what is measured next.
        connection.receive::<Message>(REMOVED).map_err(of_peer)?;
    }
    Ok(Ran { outcome, took, rtt })
}
