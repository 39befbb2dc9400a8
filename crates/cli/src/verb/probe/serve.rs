//! `skyhaul probe serve`: the other end.

use super::super::receiving::print_json;
use super::super::token_file;
use crate::Outcome;
use crate::args::ServeArgs;
use crate::interrupt::Interrupt;
use anyhow::Result;
use skyhaul::peer::{Limits, Server, ServerOptions, Token};
use skyhaul::probe::udp::UdpService;
use std::net::SocketAddr;
use std::time::Duration;

pub(super) fn run(args: &ServeArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let token = Token::new(&token_file::read_or_make(&args.token_file)?)?;
    let options = ServerOptions {
        tests: args.tests,
        queue: args.queue,
        per_peer: args.per_peer,
        limits: Limits {
            rate: args.most.map(|rate| rate.bits_per_second()),
            duration: args.longest.duration(),
        },
        ..ServerOptions::default()
    };
    let server = Server::start(
        SocketAddr::new(args.listen, args.port),
        token,
        options,
        vec![Box::new(UdpService::new()?)],
    )?;
    eprintln!("serving on {}", server.local());
    while !interrupt.is_set() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let stats = server.stats();
    drop(server);
    if args.json {
        print_json(&stats)?;
    } else {
        eprintln!(
            "{} connections, {} without the token; {} tests done, {} refused, {} broken off",
            stats.accepted, stats.unproven, stats.done, stats.refused, stats.failed
        );
    }
    Ok(Outcome::Done)
}
