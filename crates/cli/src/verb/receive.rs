//! `skyhaul receive`.

mod objects;
#[cfg(test)]
mod tests;
mod ticks;

use super::extra::Extra;
use super::joining::{self, Joining};
use super::output::{open_list, open_output};
use super::receiving::{self, Ended, Snapshot};
use crate::Outcome;
use crate::args::{ReceiveArgs, ReceiveCommon};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use anyhow::{Result, ensure};
use objects::{Listed, Output, Payloads, Worked};
use skyhaul::io::file::failed;
use skyhaul::io::memory::Pool;
use skyhaul::io::pcap::PcapSource;
use skyhaul::receive::{Collector, Nowhere, ObjectSink, Receiver};
use skyhaul::report::ReceiveReport;
use skyhaul::wire::Objects;
use std::path::Path;
use std::sync::PoisonError;
use ticks::{Shared, Ticks};

pub(crate) fn run(args: &ReceiveArgs) -> Result<Outcome> {
    receiving::check(&args.common)?;
    check_build(args)?;
    let joining = Joining::prepare(&args.worker, &args.common, args.output.quiet)?;
    let capture = capture(&args.common)?;
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.output.quiet);
    let output = args.output_file.as_deref().map(open_output).transpose()?.map(Output::new);
    let to_stdout = args.output_file.as_deref().is_some_and(|path| path == Path::new("-"));
    let pool = Pool::new(&receiving::pool(&args.common, false))?;
    let mut options = receiving::options(&args.common, args.verify)?;
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
        report.errors.push("a fault in this program ended the session with the balancer".to_owned());
    }
    report.building = built.map(|built| *built.lock().unwrap_or_else(PoisonError::into_inner));
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
        "--build is for events of several sources\nhint: add --format ejfat, or leave it out"
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
