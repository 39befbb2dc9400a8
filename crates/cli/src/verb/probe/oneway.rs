//! `skyhaul probe send` and `probe receive`: a path in one direction, without a control connection.

use super::super::receiving::print_json;
use super::live::Live;
use crate::args::{OneWayReceiveArgs, OneWaySendArgs, SendingArg};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{count, counted};
use anyhow::{Result, anyhow};
use skyhaul::io::address::Endpoint;
use skyhaul::io::udp::largest_datagram;
use skyhaul_measure::probe::udp::{MIN_DATAGRAM, SpacingMode, UdpPoint, oneway};
use std::net::SocketAddr;
use std::time::Instant;

/// Packets reported one by one.
const SAMPLES: usize = 4096;

pub(super) fn send(args: &OneWaySendArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (mode, train) = match args.mode {
        SendingArg::Single => (SpacingMode::Single, 1),
        SendingArg::Trains => (SpacingMode::Trains, args.train),
        SendingArg::Kernel => (SpacingMode::Kernel, 1),
    };
    let size = args.size.unwrap_or_else(|| whole(args.to));
    let point = UdpPoint { mode, train, ..UdpPoint::even(size, args.spacing, args.time.duration()) };
    point.check().map_err(|why| anyhow!(why))?;
    let (mut live, begun) = (Live::new(args.output.quiet), Instant::now());
    let mut each = |packets| live.show(begun.elapsed(), packets * u64::from(size), "sent");
    let sent = oneway::send(args.to, &point, &interrupt.flag(), &mut each)?;
    if args.output.json {
        print_json(&sent)?;
    } else {
        tell!(
            "sent {}, {} in {:.3} s: {}",
            counted(sent.packets, "packet"),
            counted(sent.bytes, "byte"),
            sent.seconds,
            sent.how
        );
        tell!(
            "gaps: mean {:.3} us, 99 % {:.3} us; {:.2} % within a fifth; {} refused, {} unreachable",
            sent.gaps_ns.mean / 1e3,
            sent.gaps_ns.p99 as f64 / 1e3,
            sent.within_fifth * 100.0,
            sent.refused,
            sent.unreachable
        );
    }
    match sent.error {
        Some(error) => Err(anyhow!("send to {}: {error}", args.to)),
        None => Ok(ended(&interrupt)),
    }
}

/// Bytes of a datagram that is not cut on its way to an address: its header of IP is longer with IPv6.
fn whole(to: SocketAddr) -> u32 {
    let usual = if to.ip().to_canonical().is_ipv4() { 1472 } else { 1452 };
    let longest = largest_datagram(&Endpoint::udp(to)).ok().and_then(|bytes| u32::try_from(bytes).ok());
    longest.map_or(usual, |longest| longest.clamp(MIN_DATAGRAM, usual))
}

pub(super) fn receive(args: &OneWayReceiveArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let longest = args.time.map(|time| time.duration());
    let quiet = args.output.quiet;
    // Each second, from the first packet on.
    let mut each = |packets| {
        if !quiet && packets > 0 {
            say!("{}", counted(packets, "packet"));
        }
    };
    let flag = interrupt.flag();
    let got = oneway::receive(&args.at, args.join, args.idle.duration(), longest, SAMPLES, &flag, &mut each)?;
    if args.output.json {
        print_json(&got)?;
    }
    let Some(got) = got else {
        say!("no probe packet arrived");
        return Ok(Outcome::Failed);
    };
    if !args.output.json {
        tell!(
            "received {}, {}; lost {}, reordered {}, duplicate {}",
            counted(got.packets, "packet"),
            counted(got.bytes, "byte"),
            count(got.lost),
            count(got.reordered),
            count(got.duplicates)
        );
        let stamped = got.kernel.as_ref().unwrap_or(&got.user);
        tell!(
            "gaps: mean {:.3} us, 99 % {:.3} us; jitter {:.3} us",
            stamped.gaps_ns.mean / 1e3,
            stamped.gaps_ns.p99 as f64 / 1e3,
            stamped.jitter_ns / 1e3
        );
    }
    Ok(ended(&interrupt))
}

fn ended(interrupt: &Interrupt) -> Outcome {
    if interrupt.is_set() {
        say!("{INTERRUPTED}");
        return Outcome::Failed;
    }
    Outcome::Done
}
