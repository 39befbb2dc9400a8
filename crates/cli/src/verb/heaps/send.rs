//! `skyhaul send --format spead`: any number of streams, each in a thread of its own.

use super::counters::Counters;
use super::rate::RateReport;
use super::sent::{SpeadSendReport, summary};
use super::watch::{End, watch};
use crate::Outcome;
use crate::args::{HeapSendArgs, PacketArg, RateArg, SendArgs};
use crate::interrupt::Interrupt;
use crate::print::Progress;
use crate::verb::receiving::print_json;
use crate::verb::sending::{cpu, destination, mode, rate};
use anyhow::{Result, bail, ensure};
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::file::MappedFile;
use skyhaul::io::host::thread;
use skyhaul::io::tcp::TcpSendOptions;
use skyhaul::io::udp::{largest_datagram, send::SendOptions};
use skyhaul::report::VERSION;
use skyhaul::spead::send::{Batch, Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Split, Stream};
use skyhaul::wire::spead::Flavour;
use skyhaul::wire::spead::descriptor::{BugCompat, Descriptor};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Id of the first item; the others follow. The second is for flavours without such large ids.
const FIRST_ITEM: [u64; 2] = [0x1000, 0x20];
/// Payload handed to a stream at a time, in bytes: enough for long trains, little enough to stop soon.
const GROUP_BYTES: usize = 1 << 20;
/// Maximum number of heaps in it.
const GROUP_HEAPS: usize = 1024;
/// Largest packet in a datagram, in bytes.
const DATAGRAM: usize = 65_507;

/// Contents of heaps.
#[derive(Clone)]
enum Content {
    /// The same bytes in all heaps, written once.
    Still,
    /// Heaps that verify themselves.
    Pattern,
    /// A file, repeatedly.
    File(Arc<Mapped>),
}

/// A file's bytes, shared among heaps.
struct Mapped(MappedFile);

/// A part of a file as an item.
struct Part(Arc<Mapped>, std::ops::Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0.0[self.1.clone()]
    }
}

/// One stream and what it is to send.
struct Job {
    stream: Arc<Stream>,
    to: Vec<String>,
    how: String,
    content: Content,
    flavour: Flavour,
    heap_bytes: usize,
    items: usize,
    repeat: bool,
    bare: bool,
    counters: Counters,
    heaps: u64,
    duration: Option<Duration>,
    substreams: usize,
    cpu: Option<usize>,
    /// Result of a search.
    found: Option<RateReport>,
}

pub(crate) fn run(args: &SendArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.output.quiet);
    ensure!(
        !args.spead.substreams || args.senders == 1,
        "--substreams needs one sender, not {}\nhint: omit --senders or --substreams",
        args.senders
    );
    let count = if args.spead.substreams { 1 } else { args.senders * args.to.len() };
    let jobs = (0..count).map(|number| job(args, number, &interrupt, &mut progress));
    let jobs = jobs.collect::<Result<Vec<Option<Job>>>>()?;
    let Some(jobs) = jobs.into_iter().collect::<Option<Vec<Job>>>() else {
        progress.clear();
        eprintln!("interrupted during the search for a rate; nothing was sent");
        return Ok(Outcome::Failed);
    };
    for job in &jobs {
        // Impossible heaps are wrong usage, reported before anything is sent.
        job.check()?;
    }
    let streams: Vec<Arc<Stream>> = jobs.iter().map(|job| job.stream.clone()).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let threads = jobs
        .into_iter()
        .map(|job| {
            let stop = stop.clone();
            std::thread::Builder::new().name("send".into()).spawn(move || job.run(&stop))
        })
        .collect::<std::io::Result<Vec<_>>>()?;
    let end = End { interrupt, begun: Instant::now(), duration: args.duration.map(|d| d.duration()) };
    watch(&streams, &|| threads.iter().all(|t| t.is_finished()), &end, &stop, &mut progress);
    let mut reports = Vec::new();
    for thread in threads {
        reports.push(thread.join().map_err(|_| anyhow::anyhow!("a sending thread panicked"))?);
    }
    if args.output.json {
        match &reports[..] {
            [only] => print_json(only)?,
            all => print_json(&all)?,
        }
    } else {
        reports.iter().for_each(|report| eprint!("{}", summary(report)));
    }
    let failed = reports.iter().any(|report| report.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// One stream; `None` if interrupted.
fn job(
    args: &SendArgs,
    number: usize,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<Job>> {
    let spead = &args.spead;
    check_items(spead)?;
    let to: Vec<Endpoint> =
        if spead.substreams { args.to.clone() } else { vec![destination(args, number).clone()] };
    let mut config = config(args, &to, number)?;
    let asked = rate(args, number)?;
    check_rate(asked, &to)?;
    let mut found = None;
    match asked {
        Some(RateArg::Auto(bounds)) => config.auto = Some(super::rate::control(bounds)),
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
    let (how, substreams) = (outlet.describe(), outlet.substreams());
    let (content, heaps) = content(args)?;
    let control = if spead.bare { 0 } else { substreams };
    let counters = Counters::new(spead.flavour, spead.first_heap, spead.heap_step, control)?;
    let stream = Arc::new(Stream::new(outlet, config)?);
    Ok(Some(Job {
        stream,
        to: to.iter().map(Endpoint::to_string).collect(),
        how,
        content,
        flavour: spead.flavour,
        heap_bytes: spead.heap_size.bytes() as usize,
        items: spead.items,
        repeat: spead.repeat_pointers,
        bare: spead.bare,
        counters,
        heaps,
        duration: args.duration.map(|d| d.duration()),
        substreams,
        cpu: cpu(args, number),
        found,
    }))
}

/// Items have consecutive ids, and a flavour has only so many.
fn check_items(spead: &HeapSendArgs) -> Result<()> {
    let most = most_id(spead.flavour) - FIRST_ITEM[1];
    ensure!(
        spead.items as u64 <= most,
        "SPEAD-64-{} has ids for {most} items, not {}\nhint: use fewer --items or another --flavour",
        spead.flavour.address_bits(),
        spead.items
    );
    Ok(())
}

/// The largest id of an item that can be described: in a descriptor, the id is a value.
fn most_id(flavour: Flavour) -> u64 {
    flavour.max_id().min(flavour.max_value())
}

fn config(args: &SendArgs, to: &[Endpoint], number: usize) -> Result<SendConfig> {
    let packet = packet_size(args.spead.packet, to)?;
    let rate = match rate(args, number)? {
        Some(RateArg::Fixed(rate)) => rate.bits_per_second(),
        _ => 0,
    };
    let split = if args.spead.full_packets { Split::Full } else { Split::Even };
    Ok(SendConfig { packet, rate, split, ..SendConfig::default() })
}

/// Bytes of the packets that stored ones are divided into for sender `number`.
pub(crate) fn packet_bytes(args: &SendArgs, number: usize) -> Result<usize> {
    let to = std::slice::from_ref(destination(args, number));
    Ok(match packet_size(args.spead.packet, to)? {
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
    let most = args.spead.heaps.unwrap_or(u64::MAX);
    let Some(path) = &args.input else {
        return Ok((if args.pattern { Content::Pattern } else { Content::Still }, most));
    };
    let file = MappedFile::open(path)?;
    ensure!(!file.is_empty(), "{}: the file is empty\nhint: give another --input", path.display());
    let heap = args.spead.heap_size.bytes().max(1);
    let heaps = (file.len() as u64).div_ceil(heap).saturating_mul(args.r#loop);
    Ok((Content::File(Arc::new(Mapped(file))), heaps.min(most)))
}

/// Finding a rate needs a receiver that answers.
fn check_rate(rate: Option<RateArg>, to: &[Endpoint]) -> Result<()> {
    if matches!(rate, None | Some(RateArg::Fixed(_) | RateArg::Max)) {
        return Ok(());
    }
    ensure!(
        matches!(to, [one] if one.transport == Transport::Udp),
        "--rate auto and search need a udp:// address\nhint: omit --rate; TCP controls its own rate"
    );
    ensure!(
        !to[0].is_multicast(),
        "--rate auto and search need a single receiver, not a multicast group\nhint: give a rate, such as --rate 1Gbps, or send to one receiver"
    );
    Ok(())
}

impl Job {
    /// Whether heaps can be made, and cut into packets of this size.
    fn check(&self) -> Result<()> {
        let heaps = [self.heap(0)?, self.descriptors()?];
        let heaps = heaps.into_iter().map(|heap| (Arc::new(heap), HeapOptions::default()));
        Batch::new(heaps.collect(), self.stream.config())?;
        Ok(())
    }

    fn run(self, stop: &AtomicBool) -> SpeadSendReport {
        // A sender that is not pinned only runs less steadily.
        let unpinned = self.cpu.and_then(|cpu| thread::pin(cpu).err());
        let notes = unpinned.map(|why| format!("not pinned to a processor: {why}")).into_iter().collect();
        let cpu = thread::cpu_time();
        let begun = Instant::now();
        let sent = self.send_all(stop, begun);
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = (thread::cpu_time() - cpu).as_secs_f64();
        let followed = self.stream.progress();
        let rate = followed.first().map(RateReport::followed).or(self.found);
        let totals = self.stream.stats();
        let (heaps, error) = match sent {
            Ok(heaps) => (heaps, None),
            Err((heaps, error)) => (heaps, Some(error.to_string())),
        };
        SpeadSendReport {
            version: VERSION,
            to: self.to,
            how: self.how,
            seconds,
            heaps,
            heaps_per_second: heaps as f64 / seconds.max(1e-9),
            bits_per_second: totals.wire_bytes as f64 * 8.0 / seconds.max(1e-9),
            payload_bytes: totals.payload_bytes,
            wire_bytes: totals.wire_bytes,
            cpu_seconds_per_gb: if totals.wire_bytes > 0 {
                cpu * 1e9 / totals.wire_bytes as f64
            } else {
                0.0
            },
            totals,
            rate,
            error,
            notes,
        }
    }

    /// Send descriptors, heaps and the stop heap; return the number of heaps sent.
    fn send_all(&self, stop: &AtomicBool, begun: Instant) -> Result<u64, (u64, anyhow::Error)> {
        let mut next = 0;
        let result = self.try_send(stop, begun, &mut next);
        result.map(|()| next).map_err(|error| (next, error))
    }

    fn try_send(&self, stop: &AtomicBool, begun: Instant, next: &mut u64) -> Result<()> {
        let over =
            || stop.load(Ordering::Relaxed) || self.duration.is_some_and(|most| begun.elapsed() >= most);
        if !self.bare {
            self.to_all(&self.descriptors()?)?;
        }
        // At a low rate, a tenth of a second's worth, so that stopping takes no longer.
        let most = match self.stream.rate() {
            0 => GROUP_BYTES,
            rate => usize::try_from(rate / 80).unwrap_or(usize::MAX).min(GROUP_BYTES),
        };
        let group = (most / self.heap_bytes.max(1)).clamp(1, GROUP_HEAPS) as u64;
        let still = self.heap(0)?;
        let mut made = Vec::new();
        while *next < self.heaps && !over() {
            let upto = self.heaps.min(*next + group);
            made.clear();
            if !matches!(self.content, Content::Still) {
                for number in *next..upto {
                    made.push(self.heap(number)?);
                }
            }
            let heaps: Vec<(&Heap, HeapOptions)> = (*next..upto)
                .map(|number| {
                    let heap = made.get((number - *next) as usize).unwrap_or(&still);
                    (heap, self.options(number))
                })
                .collect();
            if let Err(error) = self.stream.send_heaps(&heaps, Order::Serial) {
                // Cancelled in the middle of a heap: the receiver still gets the stop heap.
                if over() {
                    let _ = self.end();
                }
                return Err(error.into());
            }
            *next = upto;
        }
        self.end()
    }

    /// The stop heap.
    fn end(&self) -> Result<()> {
        if self.bare {
            return Ok(());
        }
        let mut end = Heap::new(self.flavour);
        end.add_end();
        self.to_all(&end)
    }

    /// A control heap, to each destination.
    fn to_all(&self, heap: &Heap) -> Result<()> {
        for substream in 0..self.substreams {
            let counter = Some(self.counters.control(substream));
            self.stream.send(heap, &HeapOptions { counter, substream, rate: Some(0) })?;
        }
        Ok(())
    }

    fn options(&self, number: u64) -> HeapOptions {
        let substream = (number % self.substreams as u64) as usize;
        HeapOptions { counter: Some(self.counters.data(number)), substream, rate: None }
    }

    /// Ids of the items.
    fn ids(&self) -> std::ops::RangeFrom<u64> {
        let fits = most_id(self.flavour) >= FIRST_ITEM[0] + self.items as u64;
        FIRST_ITEM[usize::from(!fits)]..
    }

    /// Lengths of the items of a heap of `bytes`.
    fn lengths(&self, bytes: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let items = self.items;
        (0..items).map(move |n| bytes * n / items..bytes * (n + 1) / items)
    }

    fn heap(&self, number: u64) -> Result<Heap> {
        let mut heap = Heap::new(self.flavour);
        let counter = self.counters.data(number);
        match &self.content {
            Content::File(file) => {
                let per_loop = file.0.len().div_ceil(self.heap_bytes.max(1)) as u64;
                let start = (number % per_loop.max(1)) as usize * self.heap_bytes;
                let end = (start + self.heap_bytes).min(file.0.len());
                for (id, part) in self.ids().zip(self.lengths(end - start)) {
                    let part = Part(file.clone(), start + part.start..start + part.end);
                    heap.add_item(id, Arc::new(part))?;
                }
            }
            Content::Still | Content::Pattern => {
                for (id, part) in self.ids().zip(self.lengths(self.heap_bytes)) {
                    heap.add_pattern(id, counter, part.start as u64..part.end as u64)?;
                }
            }
        }
        heap.set_repeat_pointers(self.repeat);
        Ok(heap)
    }

    /// The items as arrays of bytes.
    fn descriptors(&self) -> Result<Heap> {
        let mut heap = Heap::new(self.flavour);
        heap.add_start();
        for (id, part) in self.ids().zip(self.lengths(self.heap_bytes)) {
            let descriptor = Descriptor {
                id,
                name: format!("data{id:x}"),
                description: "payload sent by skyhaul".into(),
                shape: vec![Some(part.len() as u64)],
                format: Vec::new(),
                numpy: Some(format!(
                    "{{'descr': '|u1', 'fortran_order': False, 'shape': ({},)}}",
                    part.len()
                )),
            };
            heap.add_descriptor(&descriptor, BugCompat::default())?;
        }
        Ok(heap)
    }
}
