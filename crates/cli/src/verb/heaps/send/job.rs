//! One stream at work: the heaps that are made for it, in groups, between their descriptors and the stop heap.
//!
//! Apart from what the command line asks for, which is settled before a job is made.

use crate::verb::heaps::counters::Counters;
use anyhow::Result;
use skyhaul::io::file::MappedFile;
use skyhaul::io::host::thread;
use skyhaul::send::{FoundRate, SendReport, Stop};
use skyhaul::spead::send::{Batch, Heap, HeapOptions, Order, Stream};
use skyhaul::wire::spead::Flavour;
use skyhaul::wire::spead::descriptor::{BugCompat, Descriptor};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Id of the first item; the others follow. The second where a flavour has no such large ids.
pub(super) const FIRST_ITEM: [u64; 2] = [0x1000, 0x20];
/// Payload that is handed to a stream at a time, in bytes: enough for long trains, little enough to stop soon.
const GROUP_BYTES: usize = 1 << 20;
/// Most heaps in it.
const GROUP_HEAPS: usize = 1024;

/// What heaps are filled with.
#[derive(Clone)]
pub(super) enum Content {
    /// The same bytes in all, never touched again.
    Still,
    /// Each proves itself.
    Pattern,
    /// A file, again and again.
    File(Arc<Mapped>),
}

/// A file's bytes, shared among heaps.
pub(super) struct Mapped(pub(super) MappedFile);

/// A part of a file as an item.
struct Part(Arc<Mapped>, std::ops::Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0.0[self.1.clone()]
    }
}

/// One stream and what it is to send.
pub(super) struct Job {
    pub(super) stream: Arc<Stream>,
    pub(super) to: String,
    pub(super) how: String,
    pub(super) content: Content,
    pub(super) flavour: Flavour,
    pub(super) heap_bytes: usize,
    pub(super) items: usize,
    pub(super) repeat: bool,
    pub(super) bare: bool,
    pub(super) counters: Counters,
    pub(super) heaps: u64,
    pub(super) duration: Option<Duration>,
    pub(super) substreams: usize,
    pub(super) cpu: Option<usize>,
    /// What a search found.
    pub(super) found: Option<FoundRate>,
}

/// The largest id of an item that can be described: in a descriptor, the id is a value.
pub(super) fn most_id(flavour: Flavour) -> u64 {
    flavour.max_id().min(flavour.max_value())
}

impl Job {
    /// Whether heaps can be made, and cut into packets of this size.
    pub(super) fn check(&self) -> Result<()> {
        let heaps = [self.heap(0)?, self.descriptors()?];
        let heaps = heaps.into_iter().map(|heap| (Arc::new(heap), HeapOptions::default()));
        Batch::new(heaps.collect(), self.stream.config())?;
        Ok(())
    }

    pub(super) fn run(self, stop: &Stop) -> SendReport {
        stop.add(self.stream.clone());
        // A sender that is not pinned is only less steady.
        let unpinned = self.cpu.and_then(|cpu| thread::pin(cpu).err());
        let notes = unpinned.map(|why| format!("not pinned to a processor: {why}")).into_iter().collect();
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
