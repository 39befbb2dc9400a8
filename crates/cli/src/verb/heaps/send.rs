//! `skyhaul send --format spead`: any number of streams, each in a thread of its own.
//!
//! Heap counters of the command's senders.
//!
//! ```text
//!   0 ─ first ─▶ first + step ─▶ …        ▏ up to a multiple of the step, then from the front │ control heaps │
//! ```
//!
//! Counters have as few as 8 bits, and wrap. The highest, one for each destination, are reserved for the control heaps
//! (descriptors, stop), so that these are never taken for data. A lap is a multiple of the step: senders that stride
//! their counters stay distinct in every lap.
//!
//! One stream at work: the heaps that are made for it, in groups, between their descriptors and the stop heap.
//!
//! Apart from what the command line asks for, which is settled before a job is made.

use super::super::sending::{Sender, check_feedback, cpu, destination, mode, rate};
use crate::args::{HeapSendArgs, PacketArg, RateArg, SendArgs};
use crate::outcome::Interrupt;
use crate::print::Progress;
use anyhow::{Result, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::{Endpoint, Transport};
use skyhaul::io::file::MappedFile;
use skyhaul::io::host::thread;
use skyhaul::io::tcp::TcpSendOptions;
use skyhaul::io::udp::largest_datagram;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::send::{FoundRate, SendReport, Stop};
use skyhaul::spead::send::{Batch, Heap, HeapOptions, Order, Outlet, PacketSize, SendConfig, Split, Stream};
use skyhaul::wire::spead::Flavour;
use skyhaul::wire::spead::descriptor::{BugCompat, Descriptor};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
        "--substreams needs one sender, not {}{}",
        args.senders,
        Hint("omit --senders or --substreams")
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
                crate::verb::heaps::search(&to[0], &udp_options(args), &config, bounds, interrupt, progress)?;
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
        "SPEAD-64-{} has ids for {most} items, not {}{}",
        of_heaps.flavour.address_bits(),
        of_heaps.items,
        Hint("use fewer --items or another --flavour")
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
            bail!(
                "a datagram cannot hold a whole heap{}",
                Hint("use --packet heap with tcp:// addresses only")
            )
        }
        PacketArg::Heap => PacketSize::Heap,
        PacketArg::Bytes(bytes) if !tcp && bytes > DATAGRAM => {
            bail!(
                "a datagram holds at most 65507 bytes, not {bytes}{}",
                Hint("use --packet 65000, or tcp://")
            )
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
            "substreams are not possible over TCP{}",
            Hint("omit --substreams, and each address gets all heaps")
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
    ensure!(!file.is_empty(), "{}: the file is empty{}", path.display(), Hint("give another --input"));
    let heap = args.of_heaps.heap_size.bytes().max(1);
    let heaps = (file.len() as u64).div_ceil(heap).saturating_mul(args.r#loop);
    Ok((Content::File(Arc::new(Mapped(file))), heaps.min(most)))
}

/// The counters of one sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    first: u64,
    step: u64,
    /// Counters of data heaps are smaller.
    lap: u64,
    highest: u64,
}

impl Counters {
    /// From `first` on in steps of `step`, without the `control` highest.
    pub(super) fn new(flavour: Flavour, first: u64, step: u64, control: usize) -> Result<Self> {
        let highest = flavour.max_value();
        let for_data = (highest + 1).saturating_sub(control as u64);
        let lap = for_data / step.max(1) * step.max(1);
        let bits = flavour.address_bits();
        ensure!(
            first < lap,
            "heap counter {first} in steps of {step} is too large: SPEAD-64-{bits} has {for_data} counters for data heaps{}",
            Hint("use a smaller --first-heap or --heap-step, or a --flavour with more bits")
        );
        Ok(Self { first, step, lap, highest })
    }

    /// Of data heap `number`.
    pub(super) fn data(&self, number: u64) -> u64 {
        let counter = u128::from(self.first) + u128::from(number) * u128::from(self.step);
        (counter % u128::from(self.lap)) as u64
    }

    /// Of the control heaps to this destination.
    pub(super) fn control(&self, substream: usize) -> u64 {
        self.highest - substream as u64
    }
}

/// Id of the first item; the others follow. The second where a flavour has no such large ids.
const FIRST_ITEM: [u64; 2] = [0x1000, 0x20];
/// Payload that is handed to a stream at a time, in bytes: enough for long trains, little enough to stop soon.
const GROUP_BYTES: usize = 1 << 20;
/// Most heaps in it.
const GROUP_HEAPS: usize = 1024;

/// What heaps are filled with.
#[derive(Clone)]
enum Content {
    /// The same bytes in all, never touched again.
    Still,
    /// Each proves itself.
    Pattern,
    /// A file, again and again.
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
    to: String,
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
    /// What a search found.
    found: Option<FoundRate>,
}

/// The largest id of an item that can be described: in a descriptor, the id is a value.
fn most_id(flavour: Flavour) -> u64 {
    flavour.max_id().min(flavour.max_value())
}

impl Job {
    /// Whether heaps can be made, and cut into packets of this size.
    fn check(&self) -> Result<()> {
        let heaps = [self.heap(0)?, self.descriptors()?];
        let heaps = heaps.into_iter().map(|heap| (Arc::new(heap), HeapOptions::default()));
        Batch::new(heaps.collect(), self.stream.config())?;
        Ok(())
    }

    fn run(self, stop: &Stop) -> SendReport {
        stop.add(self.stream.clone());
        // A sender that is not pinned is only less steady.
        let unpinned = self.cpu.and_then(|cpu| thread::pin(cpu).err());
        let notes = unpinned.map(|why| format!("not pinned to a CPU: {why}")).into_iter().collect();
        let cpu = thread::cpu_time();
        let begun = Instant::now();
        let mut heaps = 0;
        let sent = self.send_all(stop, begun, &mut heaps);
        let what = format!("heaps of {} bytes in {} items", self.heap_bytes, self.items);
        let mut report = SendReport { to: self.to, what, mode: self.how, notes, ..SendReport::default() };
        let finished = self.stream.report(&mut report).map_err(anyhow::Error::from);
        report.error = sent.and(finished).err().map(|error| error.to_string());
        let stats = self.stream.stats();
        report.numbered = stats.packets;
        report.rate = report.rate.or(self.found);
        (report.heaps, report.payload_bytes) = (Some(heaps), Some(stats.payload_bytes));
        report.took(begun.elapsed(), thread::cpu_time() - cpu);
        report
    }

    /// Descriptors, heaps, stop heap; `next` counts the heaps that were sent.
    fn send_all(&self, stop: &Stop, begun: Instant, next: &mut u64) -> Result<()> {
        let over = || stop.is_set() || self.duration.is_some_and(|most| begun.elapsed() >= most);
        if !self.bare {
            self.to_all(&self.descriptors()?)?;
        }
        // At a low rate a tenth of a second's worth, so that an end is not waited for.
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
            if let Err(error) = self.stream.send_all(&heaps, Order::Serial) {
                // Cancelled in the middle of a heap: the receiver is still told that this is the end.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn flavour(bits: u8) -> Flavour {
        Flavour::new(bits).unwrap()
    }

    #[test]
    fn data_never_has_a_control_heaps_counter_and_strides_stay_apart() {
        for (first, step, control) in [(1, 1, 1), (0, 1, 4), (3, 4, 1), (1, 3, 2), (7, 16, 1), (254, 1, 1)] {
            let counters = Counters::new(flavour(8), first, step, control).unwrap();
            let seen: BTreeSet<u64> = (0..1000).map(|n| counters.data(n)).collect();
            assert!((0..control).all(|n| !seen.contains(&counters.control(n))), "{seen:?}");
            assert!(seen.iter().all(|counter| counter % step == first % step), "{seen:?}");
            assert_eq!(counters.data(0), first);
            // A counter comes again as late as it can.
            assert_eq!(seen.len() as u64, (256 - control as u64) / step);
        }
    }

    #[test]
    fn wide_counters_are_those_that_are_asked_for() {
        let counters = Counters::new(flavour(48), 1000, 16, 1).unwrap();
        assert_eq!([0, 1, 1 << 30].map(|n| counters.data(n)), [1000, 1016, 1000 + (16 << 30)]);
        assert_eq!(counters.control(0), (1 << 48) - 1);
        assert!(counters.data(u64::MAX) < 1 << 48);
    }

    #[test]
    fn what_has_no_room_is_refused() {
        for (first, step, control) in [(255, 1, 1), (0, 257, 0), (300, 1, 0), (0, 1, 256)] {
            let error = Counters::new(flavour(8), first, step, control).unwrap_err().to_string();
            assert!(error.contains("hint: "), "{error}");
        }
        assert_eq!(Counters::new(flavour(8), 255, 1, 0).unwrap().data(0), 255);
    }
}
