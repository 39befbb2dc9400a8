//! `skyhaul send` of events: any number of sources, each in a thread of its own.
//!
//! ```text
//!   --data-id 5 --senders 3    sources 5, 6 and 7 send parts of the same ticks (with --tick N)
//! ```

#[cfg(feature = "full")]
mod joining;

use super::sending::{Sender, check_feedback, cpu, mode, rate};
#[cfg(not(feature = "full"))]
pub(crate) use super::unbuilt::senders::{join, leave};
use crate::args::{EventSendArgs, MtuArg, RateArg, SendArgs, TickArg};
use anyhow::{Context, Result, bail, ensure};
#[cfg(feature = "full")]
pub(crate) use joining::{join, leave};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::MappedFile;
use skyhaul::io::host::thread;
use skyhaul::io::udp::largest_datagram;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::send::events::{
    Event, EventConfig, EventDivision, EventSender, EventSenderOptions, SyncOptions, Target, Ticks,
};
use skyhaul::send::{Pacing, SendReport, Stop};
use skyhaul::wire::Addressing;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of an event that is not from a file.
const EVENT: u64 = 1 << 20;

/// The senders.
pub(crate) fn senders(args: &SendArgs) -> Result<Vec<Sender>> {
    ensure!(!args.noise, "events are made from --pattern or --input{}", Hint("leave out --noise"));
    ensure!(args.sky.is_none(), "events are made from --pattern or --input{}", Hint("leave out --sky"));
    let content = content(args)?;
    let jobs = (0..args.senders * args.targets.len()).map(|number| job(args, number, content.clone()));
    let jobs = jobs.collect::<Result<Vec<Job>>>()?;
    Ok(jobs.into_iter().map(|job| Box::new(move |stop: &_| job.run(stop)) as Sender).collect())
}

fn job(args: &SendArgs, number: usize, content: Content) -> Result<Job> {
    let of_events = &args.of_events;
    let mut target = args.targets[number / args.senders % args.targets.len()].clone();
    target.sync = of_events.sync.clone().or(target.sync);
    let source = number % args.senders;
    let id = u16::try_from(source).ok().and_then(|source| of_events.data_id.checked_add(source));
    let data_id = id.with_context(|| {
        format!(
            "data id {} with {} senders exceeds the largest id, 65535{}",
            of_events.data_id,
            args.senders,
            Hint("use a smaller --data-id")
        )
    })?;
    let ticks = match of_events.tick {
        TickArg::Clock => Ticks::default(),
        TickArg::From(next) => Ticks::Counted { next, step: of_events.tick_step },
    };
    let options = EventSenderOptions {
        config: config(args, number, &target)?,
        ticks,
        sockets: of_events.sockets,
        socket: SendOptions { mode: mode(args), buffer: of_events.socket_buffer, ..SendOptions::default() },
        events_per_second: of_events.event_rate.map(|rate| rate as f64),
        syncs: SyncOptions { period: of_events.sync_period.duration(), source: u32::from(data_id) },
        warm_up: of_events.warm_up.duration(),
        faults: args.faults,
    };
    let sender = EventSender::open(&target, options)?;
    let files = content.events().unwrap_or(u64::MAX);
    Ok(Job {
        sender,
        to: target.to_string(),
        content,
        data_id,
        events: of_events.events.unwrap_or(u64::MAX).min(files),
        duration: args.duration.map(|duration| duration.duration()),
        delay: of_events.delay.map(|delay| (delay.duration(), of_events.delay_every)),
        event_rate: of_events.event_rate,
        is_clock: of_events.tick == TickArg::Clock,
        cpu: cpu(args, number),
    })
}

fn config(args: &SendArgs, number: usize, target: &Target) -> Result<EventConfig> {
    let of_events = &args.of_events;
    let asked = rate(args, number)?;
    check_feedback(asked, &args.to)?;
    let (bits, auto) = match asked {
        None | Some(RateArg::Max) => (0, None),
        Some(RateArg::Fixed(rate)) => (rate.bits_per_second(), None),
        Some(RateArg::Auto(_)) if target.is_balancer => {
            bail!(
                "--rate auto does not work through a balancer, which returns no feedback{}",
                Hint("give a rate, such as --rate 8Gbps")
            )
        }
        Some(RateArg::Auto(_)) if of_events.sockets > 1 => {
            bail!(
                "--rate auto needs one socket{}",
                Hint("omit --sockets, or give a rate, such as --rate 8Gbps")
            )
        }
        Some(RateArg::Auto(bounds)) => (0, Some(bounds.control())),
        Some(RateArg::Search(_)) => {
            bail!(
                "--rate search applies only to --format spead{}",
                Hint("use --rate auto, or give a rate, like 8Gbps")
            )
        }
    };
    let addressing =
        Addressing { version: of_events.lb_version, slot: of_events.slot, port: of_events.entropy };
    let division = EventDivision {
        packet_bytes: packet_bytes(of_events, target)?,
        addressing: Some(addressing),
        version: of_events.re_version,
    };
    let pacing = Pacing { rate: bits, auto, ..Pacing::default() };
    Ok(EventConfig { division, pacing, ..EventConfig::default() })
}

fn packet_bytes(of_events: &EventSendArgs, target: &Target) -> Result<usize> {
    Ok(match of_events.mtu {
        MtuArg::Bytes(mtu) => mtu - target.overhead(),
        MtuArg::Auto => largest_datagram(target.first())?,
    })
}

/// What events are made of.
fn content(args: &SendArgs) -> Result<Content> {
    let of_events = &args.of_events;
    if !args.inputs.is_empty() {
        let piece = of_events.event.map(|size| {
            ensure!(
                size.least == size.most,
                "files are cut into events of one size{}",
                Hint("give --event one size, or leave it out for an event of each file")
            );
            Ok(size.most)
        });
        let files = Files::open(&args.inputs, piece.transpose()?, args.r#loop)?;
        return Ok(Content::Files(Arc::new(files)));
    }
    let (least, most) = of_events.event.map_or((EVENT, EVENT), |size| (size.least, size.most));
    Ok(Content::Made { sizes: Sizes { least, most, seed: of_events.seed }, pattern: args.pattern })
}

/// Bytes that are handed to a stream at a time: enough for long trains, little enough to stop soon.
const GROUP_BYTES: u64 = 1 << 20;
/// Most events in it.
const GROUP_EVENTS: u64 = 1024;
/// Between two looks whether it is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// One source and what it is to send.
struct Job {
    sender: EventSender,
    to: String,
    content: Content,
    data_id: u16,
    events: u64,
    duration: Option<Duration>,
    /// A pause, and the events between two of them.
    delay: Option<(Duration, u64)>,
    event_rate: Option<u64>,
    is_clock: bool,
    cpu: Option<usize>,
}

/// What was sent.
#[derive(Default)]
struct Done {
    events: u64,
    first: u64,
    last: u64,
}

impl Job {
    fn run(self, stop: &Stop) -> SendReport {
        stop.add(self.sender.stream().clone());
        // A sender that is not pinned is only less steady.
        let unpinned = self.cpu.and_then(|cpu| thread::pin(cpu).err());
        let notes = unpinned.map(|why| format!("not pinned to a CPU: {why}")).into_iter().collect();
        self.pause(self.sender.warming(), &|| stop.is_set());
        let (cpu, begun) = (thread::cpu_time(), Instant::now());
        let mut done = Done::default();
        let sent = self.send_all(stop, begun, &mut done);
        let took = (begun.elapsed(), thread::cpu_time() - cpu);
        let stream = self.sender.stream();
        let what = format!("{}, source {}", self.content.describe(), self.data_id);
        let mode = stream.describe().to_owned();
        let mut report = SendReport { to: self.to, what, mode, notes, ..SendReport::default() };
        let finished = stream.report(&mut report).map_err(anyhow::Error::from);
        report.error = sent.and(finished).err().map(|error| error.to_string());
        let stats = stream.stats();
        report.numbered = stats.packets;
        (report.events, report.payload_bytes) = (Some(done.events), Some(stats.payload_bytes));
        report.ticks = (done.events > 0).then_some((done.first, done.last));
        report.syncs = self.sender.syncs();
        report.took(took.0, took.1);
        report
    }

    fn send_all(&self, stop: &Stop, begun: Instant, done: &mut Done) -> Result<()> {
        let over = || stop.is_set() || self.duration.is_some_and(|most| begun.elapsed() >= most);
        let mut made: Vec<Event> = Vec::new();
        while done.events < self.events && !over() {
            let count = self.group(done.events);
            let ticks = self.sender.take_ticks(count as usize);
            let numbers = done.events..done.events + count;
            made.clear();
            made.extend(numbers.zip(&ticks).map(|(n, &tick)| self.content.event(n, self.data_id, tick)));
            let group: Vec<(&Event, u64)> = made.iter().zip(ticks.iter().copied()).collect();
            self.sender.send_all(&group)?;
            if done.events == 0 {
                done.first = ticks[0];
            }
            done.last = ticks[ticks.len() - 1];
            done.events += count;
            if let Some((delay, every)) = self.delay
                && done.events.is_multiple_of(every)
            {
                self.pause(delay, &over);
            }
        }
        Ok(())
    }

    /// How many events from number `next` on go together. At a low rate a tenth of a second's worth, so that an end is not
    /// waited for; a thousandth if their ticks are the time.
    fn group(&self, next: u64) -> u64 {
        let parts = if self.is_clock { 1000 } else { 10 };
        let bytes = match self.sender.stream().rate() {
            0 => GROUP_BYTES,
            rate => (rate / 8 / parts).min(GROUP_BYTES),
        };
        let mut most = GROUP_EVENTS.min(self.events - next);
        if let Some(rate) = self.event_rate {
            most = most.min(rate / parts);
        }
        if let Some((_, every)) = self.delay {
            most = most.min(every - next % every);
        }
        let (mut count, mut all) = (1, self.content.bytes(next));
        while count < most {
            all += self.content.bytes(next + count);
            if all > bytes {
                break;
            }
            count += 1;
        }
        count
    }

    /// Wait, unless it is over.
    fn pause(&self, time: Duration, over: &dyn Fn() -> bool) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            && !over()
        {
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}

/// What events are made of.
#[derive(Clone)]
enum Content {
    /// Nothing: each proves itself (`pattern`), or all have the same bytes.
    Made { sizes: Sizes, pattern: bool },
    /// Files.
    Files(Arc<Files>),
}

impl Content {
    /// Event `n`, which is sent with `tick`.
    fn event(&self, n: u64, data_id: u16, tick: u64) -> Event {
        match self {
            Content::Made { sizes, pattern } => {
                Event::pattern(data_id, if *pattern { tick } else { 0 }, sizes.of(n))
            }
            Content::Files(files) => Event::from(data_id, Arc::new(files.part(n))),
        }
    }

    /// Bytes of event `n`.
    fn bytes(&self, n: u64) -> u64 {
        match self {
            Content::Made { sizes, .. } => sizes.of(n),
            Content::Files(files) => files.place(n).1.len() as u64,
        }
    }

    /// How many there are; `None`: without end.
    fn events(&self) -> Option<u64> {
        match self {
            Content::Made { .. } => None,
            Content::Files(files) => Some(files.per_loop.saturating_mul(files.loops)),
        }
    }

    /// In words.
    fn describe(&self) -> String {
        match self {
            Content::Made { sizes, .. } if sizes.least == sizes.most => {
                format!("events of {} bytes", sizes.most)
            }
            Content::Made { sizes, .. } => {
                format!("events of {} to {} bytes (seed {})", sizes.least, sizes.most, sizes.seed)
            }
            Content::Files(files) => format!("{} events of {} files", files.per_loop, files.all.len()),
        }
    }
}

/// Sizes of events: the same for each number whenever it is asked for.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    least: u64,
    most: u64,
    seed: u64,
}

impl Sizes {
    fn of(self, n: u64) -> u64 {
        let more = self.most - self.least;
        if more == 0 {
            return self.least;
        }
        // SplitMix64.
        let mut z = self.seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.least + (z ^ z >> 31) % (more + 1)
    }
}

/// Files, and the events that they are cut into.
struct Files {
    /// Each with the number of its first event.
    all: Vec<(u64, Arc<MappedFile>)>,
    /// Bytes of an event, but for the last of a file.
    piece: u64,
    per_loop: u64,
    loops: u64,
}

impl Files {
    /// Cut files into events of `piece` bytes, or take each as an event.
    fn open(paths: &[PathBuf], piece: Option<u64>, loops: u64) -> Result<Self> {
        let most = u64::from(u32::MAX);
        let mut files =
            Self { all: Vec::with_capacity(paths.len()), piece: piece.unwrap_or(most), per_loop: 0, loops };
        for path in paths {
            let file = MappedFile::open(path)?;
            let bytes = file.len() as u64;
            ensure!(bytes > 0, "{}: the file is empty{}", path.display(), Hint("give another --input"));
            ensure!(
                piece.is_some() || bytes <= most,
                "{}: {bytes} bytes are too many for one event{}",
                path.display(),
                Hint("cut it into events with --event 1GiB")
            );
            files.all.push((files.per_loop, Arc::new(file)));
            files.per_loop += bytes.div_ceil(files.piece);
        }
        Ok(files)
    }

    /// Where event `n` lies.
    fn place(&self, n: u64) -> (&Arc<MappedFile>, Range<usize>) {
        let n = n % self.per_loop;
        let at = self.all.partition_point(|(first, _)| *first <= n) - 1;
        let (first, file) = &self.all[at];
        let start = (n - first) * self.piece;
        (file, start as usize..(start + self.piece).min(file.len() as u64) as usize)
    }

    fn part(&self, n: u64) -> Part {
        let (file, range) = self.place(n);
        Part(file.clone(), range)
    }
}

/// A part of a file as an event.
struct Part(Arc<MappedFile>, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_bounds_and_the_same_again() {
        let sizes = Sizes { least: 10, most: 13, seed: 7 };
        let all: Vec<u64> = (0..1000).map(|n| sizes.of(n)).collect();
        assert!((10..=13).all(|size| all.iter().filter(|&&one| one == size).count() > 200));
        assert!(all.iter().all(|size| (10..=13).contains(size)));
        assert_eq!(sizes.of(500), all[500]);
        assert_eq!(Sizes { most: 10, ..sizes }.of(3), 10);
    }

    #[test]
    fn files_are_cut_into_events() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], b"0123456789").unwrap();
        std::fs::write(&paths[1], b"abc").unwrap();
        let all = |piece, loops| {
            let files = Arc::new(Files::open(&paths, piece, loops).unwrap());
            let content = Content::Files(files.clone());
            let text = |n| String::from_utf8(files.part(n).as_ref().to_vec()).unwrap();
            let all: Vec<String> = (0..content.events().unwrap()).map(text).collect();
            assert!((0..).zip(&all).all(|(n, text)| content.bytes(n) == text.len() as u64));
            all
        };
        assert_eq!(all(Some(4), 1), ["0123", "4567", "89", "abc"]);
        assert_eq!(all(None, 2), ["0123456789", "abc", "0123456789", "abc"]);
        let empty = directory.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        assert!(Files::open(&[empty], None, 1).err().unwrap().to_string().contains("is empty"));
    }
}
