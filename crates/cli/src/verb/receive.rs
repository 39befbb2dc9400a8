//! `skyhaul receive`.

use super::heaps;
use super::receiving::{self, Ended, Snapshot};
use crate::Outcome;
use crate::args::{ReceiveArgs, ReceiveCommon};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use anyhow::Result;
use skyhaul::io::memory::Pool;
use skyhaul::io::pcap::PcapSource;
use skyhaul::receive::{Collector, Nowhere, Receiver};
use skyhaul::wire::Objects;
use std::path::Path;

pub(crate) fn run(args: &ReceiveArgs) -> Result<Outcome> {
    if args.common.stream.format.objects() == Some(Objects::Heaps) {
        return heaps::receive::run(args);
    }
    receiving::check_format(&args.common, "receive")?;
    receiving::check_times(&args.common)?;
    let capture = capture(&args.common)?;
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.common.output.quiet);
    let output = args.output_file.as_deref().map(receiving::open_output).transpose()?;
    let to_stdout = args.output_file.as_deref().is_some_and(|path| path == Path::new("-"));
    let pool = Pool::new(&receiving::pool(&args.common, false))?;
    let mut options = receiving::options(&args.common);
    options.learn.object_bytes = pool.block_bytes() as u64;
    let mut receiver = Receiver::open(options, pool.clone())?;
    add_capture(&args.common, capture, &mut receiver);
    let addresses: Vec<_> = receiver.addresses().map(str::to_string).collect();
    receiving::say_listening("receiving", &addresses, &pool, &args.common);
    let collector = match output.is_some() || args.verify {
        true => Some(Collector::start(output, args.verify)?),
        false => None,
    };
    let mut running =
        receiver.start(|_| collector.as_ref().map_or_else(|| Box::new(Nowhere) as _, Collector::sink))?;
    let ended = receiving::watch(
        &mut || {
            let closed = collector.as_ref().is_some_and(Collector::is_closed);
            let snapshot = Snapshot::of(&running, &pool);
            (Snapshot { over: snapshot.over || closed, ..snapshot }, running.progress())
        },
        &args.common,
        &interrupt,
        &mut progress,
        &mut || {
            collector
                .as_ref()
                .filter(|_| args.verify)
                .map_or_else(String::new, |c| format!("  wrong {}", c.wrong()))
        },
    );
    let mut done = running.finish();
    let collected = collector.map(Collector::finish);
    done.report.pattern_errors = collected.as_ref().filter(|_| args.verify).map(|c| c.wrong);
    if args.common.output.json && !to_stdout {
        receiving::print_json(&done.report)?;
    } else {
        eprint!("{}", print::receive_summary(&done.report));
        if ended == Ended::Nothing {
            eprintln!("  {}", receiving::NOTHING);
        }
    }
    for note in &done.notes {
        eprintln!("note: {note}");
    }
    if let Some(error) = collected.as_ref().and_then(|c| c.error.as_ref()) {
        eprintln!("error: write: {error}");
        return Ok(Outcome::Failed);
    }
    let right = done.report.pattern_errors.unwrap_or(0) == 0
        && done.report.kernel_drops() == 0
        && done.report.no_buffer() == 0
        && done.report.cut_short() == 0
        && done.report.errors.is_empty()
        && ended != Ended::Nothing;
    Ok(if right { Outcome::Done } else { Outcome::Failed })
}

/// The capture file that is to be received from, opened before anything is made for what is in it.
pub(crate) fn capture(args: &ReceiveCommon) -> Result<Option<PcapSource>> {
    Ok(args.pcap.as_ref().map(|path| PcapSource::open(path, None)).transpose()?)
}

/// A capture file becomes one more source.
pub(crate) fn add_capture(args: &ReceiveCommon, capture: Option<PcapSource>, receiver: &mut Receiver) {
    if let Some((path, capture)) = args.pcap.as_ref().zip(capture) {
        receiver.add_source(path.display().to_string(), Box::new(capture));
    }
}
