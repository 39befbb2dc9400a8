//! The `skyhaul` command: arguments become library objects, reports become text or JSON.
//!
//! Text for people goes to standard error, data for programs to standard output. Exit status: 0 success; 1 a check failed,
//! data were lost where none may be, or a measurement was interrupted; 2 wrong usage, or something could not be opened.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "services", feature = "png")),
    allow(unused_imports, dead_code, reason = "what only the verbs use that are left out of this build")
)]

mod args;
mod interrupt;
mod outcome;
mod print;
mod report;
mod verb;

use args::{Parsed, Places, Verb};
use outcome::Outcome;
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse(std::env::args_os(), &Places::of_this_user()).and_then(run) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        // This includes help and version, which are not errors; clap knows the exit status.
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(usage) => usage.exit(),
            Err(error) => {
                print::error(&error);
                ExitCode::from(2)
            }
        },
    }
}

fn run(parsed: Parsed) -> anyhow::Result<Outcome> {
    let verb = match parsed {
        Parsed::Run(cli) => cli.verb,
        Parsed::Show(text) => {
            std::io::stdout().write_all(text.as_bytes())?;
            return Ok(Outcome::Done);
        }
    };
    match verb {
        Verb::Demo(args) => verb::demo::run(&args),
        Verb::Send(args) => verb::send::run(&args),
        Verb::Receive(args) => verb::receive::run(&args),
        Verb::Record(args) => verb::record::run(&args),
        Verb::Ls(args) => verb::ls::run(&args),
        Verb::Check(args) => verb::check::run(&args),
        Verb::Cat(args) => verb::cat::run(&args),
        Verb::Plot(args) => verb::plot::run(&args),
        Verb::Export(args) => verb::export::run(&args),
        Verb::Inspect(args) => verb::inspect::run(&args),
        Verb::Balance(args) => verb::balance::run(&args),
        Verb::Balancer(args) => verb::balancer::run(&args),
        Verb::DataPlane(args) => verb::data_plane::run(&args),
        Verb::Host(args) => verb::host::run(&args),
        Verb::Lab(args) => verb::lab::run(&args),
        Verb::Bench(args) => verb::bench::run(&args),
        Verb::Probe(args) => verb::probe::run(&args),
        Verb::Copy(args) => verb::copy::run(&args),
        Verb::Disk(args) => verb::disk::run(&args),
        Verb::Report(args) => verb::report::run(&args),
        Verb::Generate(args) => verb::generate::run(&args),
    }
}

/// The reader of our output has closed it, which is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        // The writer of JSON wraps the error, and does not name it as its source.
        let json = || cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or_else(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}
