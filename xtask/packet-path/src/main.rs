//! `packet-path CASE`: the fixed inputs of `skyhaul packet-path`, built in the release profile of what a packet meets and nothing else.
//!
//! `make test` counts instructions with it (`cargo xtask instructions`): the whole command would take three times as long to build.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[path = "../../../crates/measure/src/bench/heaps/fixed.rs"]
#[allow(unreachable_pub, reason = "public where it is a module of the library")]
mod fixed;

fn main() -> ExitCode {
    let case = std::env::args().nth(1).unwrap_or_default();
    match fixed::fixed_input(&case) {
        Ok(packets) => {
            println!("{packets}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}
