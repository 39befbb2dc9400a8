//! `skyhaul receive`. Finished heaps and events pass through a chain of sinks:
//!
//! ```text
//!   finished ─▶ Worked (--work) ─▶ Listed (--list) ─▶ Payloads (--output-file), or nowhere
//! ```
//!
//! Frames, heaps and events share one file. With `--build`, ticks are built from the events of several sources.

use super::joining::Joining;
use super::output::{open_list, open_output};
use super::receiving::{Ended, Extra, Snapshot};
use super::{joining, receiving};
use crate::args::{ReceiveArgs, ReceiveCommon};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress};
use anyhow::{Result, ensure};
use skyhaul::core::assembly::building::{BuildConfig, Builder, Built};
use skyhaul::core::hint::Hint;
use skyhaul::core::placement::Nanos;
use skyhaul::core::wire::keyed::Data;
use skyhaul::io::file::failed;
use skyhaul::io::lock::lock;
use skyhaul::io::pcap::PcapSource;
use skyhaul::receive::{Collector, Nowhere, ObjectSink, Received, Receiver};
use skyhaul::report::{BuildReport, ReceiveReport};
use skyhaul::wire::Objects;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

pub(crate) fn run(args: &ReceiveArgs) -> Result<Outcome> {
    receiving::check(&args.common)?;
    check_build(args)?;
    let joining = Joining::prepare(&args.worker, &args.common, args.output.quiet)?;
    let capture = capture(&args.common)?;
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.output.quiet);
    let output = args.output_file.as_deref().map(open_output).transpose()?.map(Output::new);
    let to_stdout = args.output_file.as_deref().is_some_and(|path| path == Path::new("-"));
    let mut options = receiving::options(&args.common, args.verify)?;
    let pool = options.pool(&receiving::pool(&args.common, false))?;
    options.learn.object_bytes = pool.block_bytes() as u64;
    joining.iter().for_each(|joining| joining.adapt(&mut options));
    let mut receiver = Receiver::open(options, pool.clone())?;
    add_capture(&args.common, capture, &mut receiver);
    let addresses: Vec<_> = receiver.addresses().map(str::to_string).collect();
    if !args.output.quiet {
        receiving::say_listening("receiving", &addresses, &pool, &args.common);
    }
    let collector = match output.is_some() || args.verify {
        true => {
            let output = output.clone().map(|output| Box::new(output) as _);
            Some(Collector::start(output, args.verify)?)
        }
        false => None,
    };
    let (objects, built) = objects(args, output)?;
    let sink = |_| collector.as_ref().map_or_else(|| Box::new(Nowhere) as _, Collector::sink);
    let mut running = receiver.start_with(sink, objects)?;
    let worker = joining.map(|joining| joining.join(&addresses, &running)).transpose()?;
    let ended = receiving::watch(
        &mut || {
            let closed = collector.as_ref().is_some_and(Collector::is_closed)
                || worker.as_ref().is_some_and(|worker| !worker.is_running());
            let snapshot = Snapshot::of(&running, &pool);
            (Snapshot { over: snapshot.over || closed, ..snapshot }, running.progress())
        },
        &args.common,
        &interrupt,
        &mut progress,
        &mut || {
            let verified = collector.as_ref().filter(|_| args.verify);
            let rest = verified.map_or_else(String::new, |c| format!("  wrong {}", c.wrong()));
            Extra { rest, ..Extra::default() }
        },
    );
    let removed = worker.as_ref().is_some_and(|worker| worker.report().removed);
    let left = !removed && worker.as_ref().is_some_and(|worker| !worker.is_running());
    let worker = worker.map(|worker| joining::leave(worker, &running, args.output.quiet));
    let mut report = running.finish();
    report.worker = worker;
    if left {
        report.errors.push("a bug in this program ended the session with the balancer".to_owned());
    }
    report.building = built.map(|built| *lock(&built));
    let collected = collector.map(Collector::finish);
    if let Some(frames) = collected.as_ref().filter(|_| args.verify) {
        report.pattern_errors = Some(report.pattern_errors.unwrap_or(0) + frames.wrong);
    }
    let error = collected.and_then(|collected| collected.error);
    report.errors.extend(error.map(|error| format!("write: {error}")));
    let ended = if removed { Ended::Asked("removed") } else { ended };
    ended.enter(&mut report);
    tell(args, &report, to_stdout)?;
    Ok(if report.is_whole() { Outcome::Done } else { Outcome::Failed })
}

/// Print the report; standard output may be for the data.
fn tell(args: &ReceiveArgs, report: &ReceiveReport, to_stdout: bool) -> Result<()> {
    if args.output.json && !to_stdout {
        receiving::print_json(report)?;
    } else {
        let text = print::receive_summary(report);
        match to_stdout {
            true => say_text!("{text}"),
            false => tell_text!("{text}"),
        }
    }
    print::advise(report, args.output.json && !to_stdout);
    Ok(())
}

/// What becomes of finished heaps and events.
fn objects(args: &ReceiveArgs, output: Option<Output>) -> Result<(Box<dyn ObjectSink>, Option<Shared>)> {
    if let Some(config) = args.build.config() {
        let list = args.list.as_deref().map(open_list).transpose()?;
        let ticks = Ticks::new(config, list, output)?;
        let built = ticks.report();
        return Ok((worked(args, Box::new(ticks)), Some(built)));
    }
    let mut sink: Box<dyn ObjectSink> = match output {
        Some(output) => Box::new(Payloads { output, fill: args.incomplete }),
        None => Box::new(Nowhere),
    };
    if let Some(path) = &args.list {
        let failed = |error| failed("write", path, &error);
        sink = Box::new(Listed::new(open_list(path)?, sink).map_err(failed)?);
    }
    Ok((worked(args, sink), None))
}

/// The same, but taking its time.
fn worked(args: &ReceiveArgs, sink: Box<dyn ObjectSink>) -> Box<dyn ObjectSink> {
    match args.work {
        Some(work) => Box::new(Worked { time: work.duration(), next: sink }),
        None => sink,
    }
}

/// Only events have ticks that several sources share.
fn check_build(args: &ReceiveArgs) -> Result<()> {
    let objects = args.common.stream.format.objects();
    ensure!(
        args.build.config().is_none() || objects == Some(Objects::Events),
        "--build is for events of several sources{}",
        Hint("add --format ejfat, or leave it out")
    );
    Ok(())
}

/// The capture file that is to be received from, opened before anything is made for what is in it.
pub(crate) fn capture(args: &ReceiveCommon) -> Result<Option<PcapSource>> {
    let Some(path) = &args.pcap else { return Ok(None) };
    let source = PcapSource::open(path, None)?;
    Ok(Some(match args.stream.format.packet_end() {
        Some(end) => source.cut(end),
        None => source,
    }))
}

/// A capture file becomes one more source.
pub(crate) fn add_capture(args: &ReceiveCommon, capture: Option<PcapSource>, receiver: &mut Receiver) {
    if let Some((path, capture)) = args.pcap.as_ref().zip(capture) {
        receiver.add_source(path.display().to_string(), Box::new(capture), true);
    }
}

/// What stands where nothing arrived.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Writes the data of heaps and events, one after the other.
struct Payloads {
    output: Output,
    /// Incomplete ones too, their gaps zero.
    fill: bool,
}

impl ObjectSink for Payloads {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        if !object.complete && !self.fill {
            return Ok(());
        }
        object.data().try_for_each(|data| self.output.write_all(data))?;
        // A large event that is mostly missing has memory only for its beginning: write zeros for the rest.
        let all = object.size.filter(|_| object.data == Data::All).unwrap_or(0);
        let mut left = all.saturating_sub(object.payload.len() as u64);
        while left > 0 {
            let zeros = &ZEROS[..ZEROS.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            self.output.write_all(zeros)?;
            left -= zeros.len() as u64;
        }
        Ok(())
    }

    fn finished(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// The first line of a list.
pub(crate) const COLUMNS: &str = "number,source,bytes,missing";

/// Writes a line for each, at once: a list is whole up to where its program was killed.
struct Listed {
    file: Box<dyn Write + Send>,
    next: Box<dyn ObjectSink>,
}

impl Listed {
    /// # Errors
    /// If the first line cannot be written.
    fn new(mut file: Box<dyn Write + Send>, next: Box<dyn ObjectSink>) -> io::Result<Self> {
        writeln!(file, "{COLUMNS}")?;
        file.flush()?;
        Ok(Self { file, next })
    }
}

impl ObjectSink for Listed {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        // What is missing of an object of unknown size is unknown: it is incomplete, so at least one byte.
        let missing = object.size.map_or(0, |size| size.saturating_sub(object.received));
        let missing = if object.complete { 0 } else { missing.max(1) };
        writeln!(self.file, "{},{},{},{missing}", object.number, object.source, object.received)?;
        self.file.flush()?;
        self.next.object(object)
    }

    fn tick(&mut self) {
        self.next.tick();
    }

    fn finished(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.next.finished()
    }
}

/// Takes its time over each.
struct Worked {
    time: Duration,
    next: Box<dyn ObjectSink>,
}

impl ObjectSink for Worked {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        std::thread::sleep(self.time);
        self.next.object(object)
    }

    fn tick(&mut self) {
        self.next.tick();
    }

    fn finished(&mut self) -> io::Result<()> {
        self.next.finished()
    }
}

/// The file of `--output-file`.
#[derive(Clone)]
pub(super) struct Output(Arc<Mutex<Box<dyn Write + Send>>>);

impl Output {
    pub(super) fn new(file: Box<dyn Write + Send>) -> Self {
        Self(Arc::new(Mutex::new(file)))
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).write(bytes)
    }

    /// Frames and heaps stay whole.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        lock(&self.0).flush()
    }
}

/// The first line of a list.
const TICK_COLUMNS: &str = "tick,sources,bytes,lacking,sizes";

/// Counts of ticks by outcome so far, for reports.
pub(super) type Shared = Arc<Mutex<BuildReport>>;

/// A whole event.
struct Part {
    bytes: u64,
    /// Empty where nobody wants it.
    payload: Vec<u8>,
}

/// Builds ticks, and writes them.
pub(super) struct Ticks {
    builder: Builder<Part>,
    begun: Instant,
    list: Option<Box<dyn Write + Send>>,
    output: Option<Output>,
    /// Incomplete events, which are in no tick.
    incomplete: u64,
    /// What could not be written while no event came.
    failed: Option<io::Error>,
    shared: Shared,
}

impl Ticks {
    /// `list` gets a line for each tick, `output` the events of whole ones, in order of their data ids.
    ///
    /// # Errors
    /// If the first line cannot be written.
    pub(super) fn new(
        config: BuildConfig,
        list: Option<Box<dyn Write + Send>>,
        output: Option<Output>,
    ) -> io::Result<Self> {
        let mut ticks = Self {
            builder: Builder::new(config),
            begun: Instant::now(),
            list,
            output,
            incomplete: 0,
            failed: None,
            shared: Shared::default(),
        };
        if let Some(list) = &mut ticks.list {
            writeln!(list, "{TICK_COLUMNS}")?;
            list.flush()?;
        }
        Ok(ticks)
    }

    /// What became of ticks, from now on.
    pub(super) fn report(&self) -> Shared {
        self.shared.clone()
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Write what has ended.
    fn hand_on(&mut self) -> io::Result<()> {
        while let Some(built) = self.builder.poll_built() {
            if let Some(list) = &mut self.list {
                writeln!(list, "{}", line(&built))?;
                list.flush()?;
            }
            if let Some(output) = self.output.as_mut().filter(|_| built.lacking == 0) {
                built.parts.iter().try_for_each(|(_, part)| output.write_all(&part.payload))?;
            }
        }
        let report = BuildReport::new(self.builder.counts(), self.incomplete);
        *lock(&self.shared) = report;
        Ok(())
    }
}

/// `7,1+2+5,3000,0,1000+500+1500`: the events of a whole tick have these sizes in the output, in this order.
fn line(built: &Built<Part>) -> String {
    let sources: Vec<String> = built.parts.iter().map(|(source, _)| source.to_string()).collect();
    let bytes: u64 = built.parts.iter().map(|(_, part)| part.bytes).sum();
    let sizes: Vec<String> = built.parts.iter().map(|(_, part)| part.bytes.to_string()).collect();
    format!("{},{},{bytes},{},{}", built.number, sources.join("+"), built.lacking, sizes.join("+"))
}

impl ObjectSink for Ticks {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if object.complete {
            let payload = if self.output.is_some() { object.payload.to_vec() } else { Vec::new() };
            let (held, now) = (payload.len() as u64, self.now());
            let part = Part { bytes: object.received, payload };
            self.builder.add(object.number, object.source, held, part, now);
        } else {
            self.incomplete += 1;
        }
        self.hand_on()
    }

    fn tick(&mut self) {
        self.builder.handle_timeout(self.now());
        // A write error is returned with the next event, or at the end: the list lacks this tick.
        if self.failed.is_none() {
            self.failed = self.hand_on().err();
        }
    }

    fn finished(&mut self) -> io::Result<()> {
        let failed = self.failed.take();
        self.builder.finish();
        self.hand_on()?;
        self.list.as_mut().map_or(Ok(()), |list| list.flush())?;
        self.output.as_mut().map_or(Ok(()), Write::flush)?;
        failed.map_or(Ok(()), Err)
    }
}
