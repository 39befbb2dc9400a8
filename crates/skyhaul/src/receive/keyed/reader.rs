//! The readers' threads: one for each source, whatever it is.

use super::lock::TableLock;
use super::own::Reader;
use super::state::StreamState;
use super::store::Store;
use crate::control::{Answering, Gauge};
use crate::panics::reason;
use skyhaul_core::placement::Reject;
use skyhaul_core::wire::keyed::{Head, Keyed};
use skyhaul_io::host;
use skyhaul_io::source::{Source, SourceStats};
use skyhaul_io::tcp::pieces::PieceStats;
use skyhaul_io::udp::UdpSource;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What a reader's thread reads.
pub(crate) trait Input<S: Store>: Send {
    /// Wait up to `me.wait` for packets and place them. Returns how many came.
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize>;

    /// Nothing more is read: hand on what is not part of the stream yet.
    fn close(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) {
        let _ = (core, me);
    }

    /// Whether nothing can come any more.
    fn is_finished(&self) -> bool;

    /// What it received and lost. Costs system calls.
    fn stats(&self) -> (SourceStats, Option<PieceStats>);
}

/// How often a source's own account is read.
const ACCOUNT: Duration = Duration::from_millis(200);

/// Read `input` on a thread of its own until it, or the stream, ends.
pub(crate) fn spawn<S: Store>(
    core: &Arc<StreamState<S>>,
    name: String,
    can_be_held: bool,
    input: impl Input<S> + 'static,
) -> io::Result<()> {
    if core.is_over() {
        let text = format!(
            "read {name}: the stream has ended; hint: make a new one, or have it wait for start() until it has all of its \
             readers (explicit_start)"
        );
        return Err(io::Error::new(io::ErrorKind::NotConnected, text));
    }
    if !can_be_held {
        // What cannot wait is lost while the kernel looks for memory.
        core.memory.keep_ahead(core.ahead);
    }
    let me = core.enter(name, can_be_held);
    let (of, number) = (core.clone(), me.number);
    // The system takes no zero in it.
    let thread = std::thread::Builder::new().name(format!("{}-{number}", core.name).replace('\0', " "));
    let stats = me.stats.clone();
    // Known from the beginning: how large the socket's buffer is, and what would help.
    super::own::lock(&stats).source = input.stats().0;
    let (running, runs) = mpsc::channel::<()>();
    let run = move || {
        drop(running);
        of.as_reader(|| run(&of, input, me));
    };
    match thread.spawn(run) {
        Ok(thread) => {
            core.adopt(thread);
            // On a busy machine a new thread may wait for its first turn longer than the socket's buffer holds what comes; one
            // that waits for packets is woken at once. So whoever has added a reader has one that reads.
            let _ = runs.recv();
            Ok(())
        }
        Err(error) => {
            core.never_ran(&stats, &error);
            let text =
                format!("start a reader of {}: {error}; hint: fewer threads, or raise ulimit -u", core.name);
            Err(io::Error::new(error.kind(), text))
        }
    }
}

fn run<S: Store>(core: &StreamState<S>, mut input: impl Input<S>, mut me: Reader<S::Out>) {
    // A source or rule of the program's own that panics ends its reader, as any error does, and nobody waits for it.
    let read = catch_unwind(AssertUnwindSafe(|| read(core, &mut input, &mut me)));
    // Whoever is told that the stream has ended may bind its ports again.
    let closed = catch_unwind(AssertUnwindSafe(|| drop(input)));
    let error = read.and_then(|error| closed.map(|()| error)).unwrap_or_else(|panic| {
        let text = reason(&*panic);
        Some(format!("read: panicked: {text}; hint: a defect of the source or rule, see the backtrace"))
    });
    core.exit(me, error);
}

/// Until the end. Returns what was wrong.
fn read<S: Store>(
    core: &StreamState<S>,
    input: &mut impl Input<S>,
    me: &mut Reader<S::Out>,
) -> Option<String> {
    let mut error = core.cpu(me.number).and_then(|cpu| host::thread::pin(cpu).err()).map(|e| e.to_string());
    core.wait_for_start(me);
    let mut account = Instant::now();
    while !core.is_over() {
        match input.look(core, me) {
            Ok(packets) => core.after_look(me, packets),
            Err(failed) => {
                error = Some(failed.to_string());
                break;
            }
        }
        if input.is_finished() {
            break;
        }
        if account.elapsed() >= ACCOUNT {
            account = Instant::now();
            publish(input, me);
        }
    }
    input.close(core, me);
    publish(input, me);
    error
}

fn publish<S: Store>(input: &impl Input<S>, me: &Reader<S::Out>) {
    let (source, tcp) = input.stats();
    let mut stats = super::own::lock(&me.stats);
    (stats.source, stats.tcp, stats.cpu) = (source, tcp, host::thread::cpu_time());
}

/// Anything that gives trains: UDP, captures, in-process queues.
pub(crate) struct Trains(pub(crate) Box<dyn Source>);

impl<S: Store> Input<S> for Trains {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        let wait = me.wait;
        let mut held = TableLock::new(core);
        let looked = self.0.poll(wait, &mut |train| core.train(&mut held, me, &train));
        held.finish(me);
        looked
    }

    fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    fn stats(&self) -> (SourceStats, Option<PieceStats>) {
        (self.0.stats(), None)
    }
}

/// UDP whose senders are answered: their marks never reach the stream, and they learn what it refuses.
pub(crate) struct Answered {
    source: Answering<UdpSource>,
    gauge: Arc<Gauge>,
}

impl Answered {
    pub(crate) fn new(source: UdpSource) -> io::Result<Self> {
        let gauge = Arc::new(Gauge::default());
        Ok(Self { source: Answering::new(source, gauge.clone())?, gauge })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.source.local()
    }
}

impl<S: Store> Input<S> for Answered {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        let (gauge, wait) = (&self.gauge, me.wait);
        gauge.no_memory.store(me.counts.rejects.get(Reject::NoBuffer), Ordering::Relaxed);
        gauge.ring_full.store(me.counts.ring_full, Ordering::Relaxed);
        gauge.ring_fill.store(core.ring.fill(), Ordering::Relaxed);
        let mut held = TableLock::new(core);
        let looked = self.source.poll(wait, &mut |train| core.train(&mut held, me, &train));
        held.finish(me);
        looked
    }

    fn is_finished(&self) -> bool {
        self.source.is_finished()
    }

    fn stats(&self) -> (SourceStats, Option<PieceStats>) {
        (self.source.stats(), None)
    }
}

/// Packets that follow each other in memory: a file, or what a TCP connection carried.
pub(crate) struct Bytes<T> {
    bytes: T,
    at: usize,
    sender: Option<SocketAddr>,
    packets: u64,
    /// The next head is searched for.
    lost: bool,
    /// Packets of a heap follow each other: where those of another begin, it is over. The heap that is under way.
    whole: bool,
    heap: Option<u64>,
}

/// Bytes of memory that are read in one look, however often each of them is.
const STRETCH: usize = 1 << 20;

impl<T: AsRef<[u8]>> Bytes<T> {
    pub(crate) fn new(bytes: T) -> Self {
        Self { bytes, at: 0, sender: None, packets: 0, lost: false, whole: false, heap: None }
    }

    /// The same of bytes in which all that there is of a heap lies together; `heap` went on before them.
    pub(crate) fn heap_by_heap(bytes: T, heap: Option<u64>) -> Self {
        Self { whole: true, heap, ..Self::new(bytes) }
    }

    /// The heap that is under way at the end.
    pub(crate) fn heap(&self) -> Option<u64> {
        self.heap
    }
}

impl<S: Store, T: AsRef<[u8]> + Send> Input<S> for Bytes<T> {
    fn look(&mut self, core: &StreamState<S>, me: &mut Reader<S::Out>) -> io::Result<usize> {
        // Readers of memory are told apart by a port of nobody's address.
        let port = me.number as u16;
        let from = *self.sender.get_or_insert(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
        let (bytes, before) = (self.bytes.as_ref(), self.packets);
        let mut read = 0;
        core.look_at_clock(me);
        let mut held = TableLock::new(core);
        while self.at < bytes.len() && read < STRETCH && !core.is_over() {
            let rest = &bytes[self.at..];
            let found = if self.lost { Err(Reject::BadMagic) } else { S::Wire::peek(rest) };
            if let Ok(Some(head)) = found
                && let place = head.placement(0)
                && let Some(payload) = rest
                    .get(place.start as usize..)
                    .zip(usize::try_from(place.length).ok())
                    .and_then(|(behind, length)| behind.get(..length))
            {
                let end = place.start as usize + payload.len();
                me.counts.bytes += end as u64;
                if self.whole
                    && self.heap.replace(place.key.number).is_some_and(|heap| heap != place.key.number)
                {
                    held.table().end_heaps(me.now);
                }
                let sender = StreamState::sender(held.table(), me, &from);
                let placed = sender.and_then(|sender| held.part(me, &head, 0, payload, &sender));
                if let Err(why) = placed {
                    me.counts.rejects.add(why);
                    me.counts.refused_bytes += payload.len() as u64;
                }
                self.packets += 1;
                self.at += end;
                read += end;
                continue;
            }
            let skip = match found {
                // It ends beyond the bytes: what is in it may look like packets, and is none.
                Ok(_) => {
                    me.counts.rejects.add(Reject::Truncated);
                    rest.len()
                }
                Err(_) => {
                    let (skip, is_head) = next_head::<S::Wire>(rest, usize::from(!self.lost), &mut read);
                    self.lost = !is_head;
                    skip
                }
            };
            me.counts.skipped_bytes += skip as u64;
            self.at += skip;
        }
        let packets = self.packets - before;
        me.counts.packets += packets;
        me.counts.trains += 1;
        held.finish(me);
        Ok(packets as usize)
    }

    fn is_finished(&self) -> bool {
        self.at >= self.bytes.as_ref().len()
    }

    fn stats(&self) -> (SourceStats, Option<PieceStats>) {
        let stats = SourceStats {
            packets: self.packets,
            bytes: self.at as u64,
            tier: "bytes",
            because: "they are in memory".into(),
            ..SourceStats::default()
        };
        (stats, None)
    }
}

/// Bytes from `from` on until something that can be a head, and whether there is; or as many as could be searched before
/// a [`STRETCH`] was `read`. A head that is none costs what it makes us read of it, again and again.
fn next_head<W: Keyed>(bytes: &[u8], from: usize, read: &mut usize) -> (usize, bool) {
    for at in from..bytes.len() {
        if *read >= STRETCH {
            return (at, false);
        }
        *read += 1;
        let rest = &bytes[at..];
        if W::MAGIC.first().is_none_or(|first| rest[0] == *first) {
            if matches!(W::peek(rest), Ok(Some(_))) {
                return (at, true);
            }
            *read += W::examined(rest);
        }
    }
    (bytes.len(), false)
}

#[cfg(test)]
mod tests {
    use super::super::config::StreamConfig;
    use super::super::ring::Ring;
    use super::super::store::ObjectStore;
    use super::*;
    use crate::spead::receive::tests::{config, packets};
    use skyhaul_core::placement::Nanos;
    use skyhaul_core::wire::spead::SpeadWire;

    fn core(config: &StreamConfig) -> StreamState<ObjectStore<SpeadWire>> {
        let store = ObjectStore::new(config.memory.cache(), Nanos(0));
        StreamState::new(config, Instant::now(), store, Arc::new(Ring::new(config.ring)))
    }

    /// Looks until the end; the most bytes that one of them passed, and how many there were.
    fn looks(bytes: &[u8], heaps: u64) -> (usize, usize) {
        let core = core(&config());
        let mut me = core.enter("test".into(), true);
        let mut input = Bytes::new(bytes);
        let (mut most, mut looks) = (0, 0);
        while !Input::<ObjectStore<SpeadWire>>::is_finished(&input) {
            let before = input.at;
            input.look(&core, &mut me).unwrap();
            assert!(input.at > before, "a look brings it further");
            (most, looks) = (most.max(input.at - before), looks + 1);
        }
        assert_eq!((me.counts.heaps, me.counts.rejects.total()), (heaps, 0));
        assert_eq!(me.counts.bytes + me.counts.skipped_bytes, bytes.len() as u64);
        (most, looks)
    }

    #[test]
    fn garbage_ends_a_look_as_packets_do() {
        let good: Vec<u8> = packets(1, 1000, 1472).concat();
        let noise = vec![0xAA; 5 * STRETCH];
        let (most, count) = looks(&[&noise[..], &good].concat(), 1);
        assert!(most <= STRETCH + good.len() && count >= 5, "{most} bytes in one of {count} looks");
        // Nothing is found later than it would be without the bound: what looks like a head, and ends beyond the bytes, is
        // passed over wherever a look ends.
        let claims = [0x53, 4, 2, 6, 0, 0, 0xFF, 0xFF].repeat(1000);
        let (_, count) = looks(&[&noise[..STRETCH - 100], &claims, &good].concat(), 1);
        assert!(count > 100, "each of them costs its half megabyte, not {count} looks");
    }

    #[test]
    fn heads_that_are_none_and_long_to_read_end_a_look() {
        // Each is read to its end, half a megabyte further, before it is seen that nothing in it tells a heap.
        let bad = [0x53, 4, 2, 6, 0, 0, 0xFF, 0xFF].repeat(70_000);
        let core = core(&config());
        let mut me = core.enter("test".into(), true);
        let mut input = Bytes::new(bad);
        for _ in 0..50 {
            let before = input.at;
            input.look(&core, &mut me).unwrap();
            assert!((1..=64).contains(&(input.at - before)), "{} bytes", input.at - before);
        }
    }
}
