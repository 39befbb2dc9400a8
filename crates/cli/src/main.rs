//! The `skyhaul` command: arguments become library objects, reports become text or JSON.
//!
//! Results go to standard output, as text or JSON; progress, notes, hints and errors to standard error. Exit status: 0 success; 1 a check failed,
//! data were lost where none may be, or a measurement was interrupted; 2 wrong usage, something could not be opened, or results could not be
//! written to standard output. A standard output that was closed at the start is refused by every verb, services included.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(feature = "full"),
    allow(unused_imports, dead_code, reason = "what only the verbs use that are left out of this build")
)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

/// Writes a line for people to standard error. That it cannot be written changes nothing.
macro_rules! say {
    ($($text:tt)*) => { skyhaul::io::say::line(format_args!($($text)*)) };
}

/// Writes text for people that has its own line ends, likewise.
macro_rules! say_text {
    ($($text:tt)*) => { skyhaul::io::say::text(format_args!($($text)*)) };
}

/// Prints a line of a result on standard output.
macro_rules! tell {
    ($($text:tt)*) => { $crate::print::tell(&format!("{}\n", format_args!($($text)*))) };
}

/// Prints text of a result that has its own line ends, likewise.
macro_rules! tell_text {
    ($($text:tt)*) => { $crate::print::tell(&format!($($text)*)) };
}

mod args;
mod outcome;
mod print;
mod report;
mod verb;

use args::{ConfigPaths, Parsed, Verb};
use outcome::Outcome;
use skyhaul::io::standard_output;
use std::process::ExitCode;

fn main() -> ExitCode {
    // Results, and help, that would be lost are refused before anything is done.
    let open = standard_output::check().map_err(anyhow::Error::from);
    let done =
        open.and_then(|()| args::parse(std::env::args_os(), &ConfigPaths::of_this_user())).and_then(run);
    match done.and_then(|outcome| print::finish().map(|()| outcome)) {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        // The reader of our output has had enough, which is not an error.
        Err(error) if print::is_closed() && is_broken_pipe(&error) => ExitCode::SUCCESS,
        // This includes help and version, which are not errors; clap knows the exit status.
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => print::usage(&error),
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
            print::page(&text)?;
            return Ok(Outcome::Done);
        }
    };
    match verb {
        Verb::Demo(args) => verb::demo::run(&args),
        Verb::Send(args) => verb::send::run(&args),
        Verb::Receive(args) => verb::receive::run(&args),
        Verb::Record(args) => verb::record::run(&args),
        Verb::Schedule(args) => verb::schedule::run(&args),
        Verb::Serve(args) => verb::serve::run(&args),
        Verb::Status(args) => verb::status::run(&args),
        Verb::Top(args) => verb::top::run(&args),
        Verb::Station(args) => verb::status::station(&args),
        Verb::Token(args) => verb::token::run(&args),
        Verb::Scans(args) => verb::scans::run(&args),
        Verb::Transfers(args) => verb::transfers::run(&args),
        Verb::Fleet(args) => verb::fleet::run(&args),
        Verb::Ls(args) => verb::stored::ls(&args),
        Verb::Check(args) => verb::check::run(&args),
        Verb::Cat(args) => verb::stored::cat(&args),
        Verb::Mount(args) => verb::mount::run(&args),
        Verb::Plot(args) => verb::plot::run(&args),
        Verb::Export(args) => verb::stored::export(&args),
        Verb::Inspect(args) => verb::inspect::run(&args),
        Verb::Balance(args) => verb::balance::run(&args),
        Verb::Balancer(args) => verb::balancer::run(&args),
        Verb::DataPlane(args) => verb::data_plane::run(&args),
        Verb::PacketPath(args) => verb::packet_path::run(&args),
        Verb::Host(args) => verb::host::run(&args),
        Verb::Lab(args) => verb::lab::run(&args),
        Verb::Bench(args) => verb::bench::run(&args),
        Verb::Probe(args) => verb::probe::run(&args),
        Verb::Rdma(args) => verb::rdma::run(&args),
        Verb::Copy(args) => verb::copy::run(&args),
        Verb::Disk(args) => verb::disk::run(&args),
        Verb::Report(args) => verb::report::run(&args),
        Verb::Generate(args) => verb::generate::run(&args),
    }
}

/// Whether an error is that of a pipe without a reader.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind)
    };
    error.chain().any(|cause| kind(cause) == Some(std::io::ErrorKind::BrokenPipe))
}
