//! `skyhaul send --format spead`: any number of streams, each in a thread of its own.

mod job;

use super::counters::Counters;
use crate::args::{HeapSendArgs, PacketArg, RateArg, SendArgs};
use crate::interrupt::Interrupt;
use crate::print::Progress;
use crate::verb::sending::{Sender, check_feedback, cpu, destination, mode, rate};
use anyhow::{Result, bail, ensure};
use job::{Content, FIRST_ITEM, Job, Mapped, most_id};
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::file::MappedFile;
use skyhaul::io::tcp::TcpSendOptions;
use skyhaul::io::udp::{largest_datagram, send::SendOptions};
use skyhaul::spead::send::{Outlet, PacketSize, SendConfig, Split, Stream};
use std::sync::Arc;

/// Largest packet in a datagram, in bytes.
const DATAGRAM: usize = 65_507;

/// The senders; `None` if interrupted.
pub(crate) fn senders(
    args: &SendArgs,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<Vec<Sender>>> {
    ensure!(
        !args.of_heaps.substreams || args.senders == 1,
        "--substreams needs one sender, not {}\nhint: omit --senders or --substreams",
        args.senders
    );
    let count = if args.of_heaps.substreams { 1 } else { args.senders * args.to.len() };
    let jobs = (0..count).map(|number| job(args, number, interrupt, progress));
    let jobs = jobs.collect::<Result<Vec<Option<Job>>>>()?;
    let Some(jobs) = jobs.into_iter().collect::<Option<Vec<Job>>>() else {
        progress.clear();
        say!("interrupted during the search for a rate; nothing was sent");
        return Ok(None);
    };
    for job in &jobs {
        // Impossible heaps are wrong usage, reported before anything is sent.
        job.check()?;
    }
    Ok(Some(jobs.into_iter().map(|job| Box::new(move |stop: &_| job.run(stop)) as Sender).collect()))
}

/// One stream; `None` if interrupted.
fn job(
    args: &SendArgs,
    number: usize,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<Job>> {
    let of_heaps = &args.of_heaps;
    check_items(of_heaps)?;
    let to: Vec<Endpoint> =
        if of_heaps.substreams { args.to.clone() } else { vec![destination(args, number).clone()] };
    let mut config = config(args, &to, number)?;
    let asked = rate(args, number)?;
    check_feedback(asked, &to)?;
    let mut found = None;
    match asked {
        Some(RateArg::Auto(bounds)) => config.auto = Some(bounds.control()),
        Some(RateArg::Search(bounds)) => {
            let report =
                super::rate::search(&to[0], &udp_options(args), &config, bounds, interrupt, progress)?;
            let Some(report) = report else { return Ok(None) };
            config.rate = report.bits_per_second;
            found = Some(report);
        }
        _ => {}
    }
    let outlet = outlet(args, &to)?;
    let outlet = if let Some(faults) = &args.faults { outlet.with_faults(faults) } else { outlet };
    let (how, substreams) = (outlet.describe(), outlet.substreams());
    let (content, heaps) = content(args)?;
    let control = if of_heaps.bare { 0 } else { substreams };
    let counters = Counters::new(of_heaps.flavour, of_heaps.first_heap, of_heaps.heap_step, control)?;
    let stream = Arc::new(Stream::new(outlet, config)?);
    Ok(Some(Job {
        stream,
        to: to.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(", "),
        how,
        content,
        flavour: of_heaps.flavour,
        heap_bytes: of_heaps.heap_size.bytes() as usize,
        items: of_heaps.items,
        repeat: of_heaps.repeat_pointers,
        bare: of_heaps.bare,
        counters,
        heaps,
        duration: args.duration.map(|d| d.duration()),
        substreams,
        cpu: cpu(args, number),
        found,
    }))
}

/// Items have consecutive ids, and a flavour has only so many.
fn check_items(of_heaps: &HeapSendArgs) -> Result<()> {
    let most = most_id(of_heaps.flavour) - FIRST_ITEM[1];
    ensure!(
        of_heaps.items as u64 <= most,
        "SPEAD-64-{} has ids for {most} items, not {}\nhint: use fewer --items or another --flavour",
        of_heaps.flavour.address_bits(),
        of_heaps.items
    );
    Ok(())
}

fn config(args: &SendArgs, to: &[Endpoint], number: usize) -> Result<SendConfig> {
    let packet = packet_size(args.of_heaps.packet, to)?;
    let rate = match rate(args, number)? {
        Some(RateArg::Fixed(rate)) => rate.bits_per_second(),
        _ => 0,
    };
    let split = if args.of_heaps.full_packets { Split::Full } else { Split::Even };
    Ok(SendConfig { packet, rate, split, ..SendConfig::default() })
}

/// Bytes of the packets that stored ones are divided into for sender `number`.
pub(crate) fn packet_bytes(args: &SendArgs, number: usize) -> Result<usize> {
    let to = std::slice::from_ref(destination(args, number));
    Ok(match packet_size(args.of_heaps.packet, to)? {
        PacketSize::Packet(bytes) => bytes,
        _ => usize::MAX,
    })
}

/// Bytes of the packets to these addresses.
fn packet_size(packet: PacketArg, to: &[Endpoint]) -> Result<PacketSize> {
    let tcp = to.iter().any(|at| at.transport == Transport::Tcp);
    Ok(match packet {
        PacketArg::Heap if !tcp => {
            bail!("a datagram cannot hold a whole heap\nhint: use --packet heap with tcp:// addresses only")
        }
        PacketArg::Heap => PacketSize::Heap,
        PacketArg::Bytes(bytes) if !tcp && bytes > DATAGRAM => {
            bail!("a datagram holds at most 65507 bytes, not {bytes}\nhint: use --packet 65000, or tcp://")
        }
        PacketArg::Bytes(bytes) => PacketSize::Packet(bytes),
        PacketArg::Mtu if tcp => PacketSize::Packet(DATAGRAM),
        PacketArg::Mtu => {
            let sizes = to.iter().map(largest_datagram).collect::<std::io::Result<Vec<_>>>()?;
            PacketSize::Packet(sizes.into_iter().min().unwrap_or(1472))
        }
    })
}

fn outlet(args: &SendArgs, to: &[Endpoint]) -> Result<Outlet> {
    if to.iter().all(|at| at.transport == Transport::Udp) {
        return Ok(Outlet::udp(to, &udp_options(args))?);
    }
    match to {
        [only] => Ok(Outlet::tcp(only, &TcpSendOptions::default())?),
        _ => bail!(
            "substreams are not possible over TCP\nhint: omit --substreams, and each address gets all heaps"
        ),
    }
}

fn udp_options(args: &SendArgs) -> SendOptions {
    SendOptions { mode: mode(args), ..SendOptions::default() }
}

/// What is sent, and how many heaps of it.
fn content(args: &SendArgs) -> Result<(Content, u64)> {
    let most = args.of_heaps.heaps.unwrap_or(u64::MAX);
    let Some(path) = args.input() else {
        return Ok((if args.pattern { Content::Pattern } else { Content::Still }, most));
    };
    let file = MappedFile::open(path)?;
    ensure!(!file.is_empty(), "{}: the file is empty\nhint: give another --input", path.display());
    let heap = args.of_heaps.heap_size.bytes().max(1);
    let heaps = (file.len() as u64).div_ceil(heap).saturating_mul(args.r#loop);
    Ok((Content::File(Arc::new(Mapped(file))), heaps.min(most)))
}
