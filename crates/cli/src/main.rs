//! The `skyhaul` command: what is typed becomes library objects, reports become text or JSON.
//!
//! Everything human goes to standard error, everything for machines to standard output. Exit status: 0 done, 1 it
//! did not hold or data were lost where none may be, 2 wrong use or something could not be opened.
#![forbid(unsafe_code)]

mod args;
mod html;
mod interrupt;
mod outcome;
mod print;
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
        // Also help and version, which are no errors; it knows its own exit status.
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
        Verb::Inspect(args) => verb::inspect::run(&args),
        Verb::Bench(args) => verb::bench::run(&args),
        Verb::Generate(args) => verb::generate::run(&args),
    }
}

/// Whoever reads our output had enough: that is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
