//! `skyhaul send`.

use super::receiving;
use crate::Outcome;
use crate::args::{NumberArg, SendArgs, SendMode as ModeArg};
use crate::interrupt::Interrupt;
use crate::print::{self, Progress};
use anyhow::{Context, Result, bail};
use skyhaul::io::address::Transport;
use skyhaul::io::udp::send::SendMode;
use skyhaul::recording::{ReadOptions, Recording, State};
use skyhaul::send::{
    FileSupply, RecordingSupply, SendReport, Sender, SenderOptions, Sequence, Stop, Supply, SupplyError,
    SynthOptions, SynthSupply,
};
use skyhaul::wire::{Order, RestampError};
use std::path::PathBuf;
use std::time::Duration;

/// Frames per second of a synthesised stream without a rate.
const FRAME_RATE: u32 = 62_500;

pub(crate) fn run(args: &SendArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.output.quiet);
    let mut senders = Vec::new();
    for number in 0..args.senders.max(1) {
        let supply = supply(args, number)?;
        senders.push(Sender::open(options(args), supply)?);
    }
    let stop = Stop::default();
    let threads: Vec<_> = senders
        .into_iter()
        .map(|sender| {
            let stop = stop.clone();
            std::thread::Builder::new().name("send".into()).spawn(move || sender.run(&stop))
        })
        .collect::<std::io::Result<_>>()?;
    let mut before = 0;
    let mut ticks = 0;
    while threads.iter().any(|thread| !thread.is_finished()) {
        std::thread::sleep(Duration::from_millis(20));
        ticks += 1;
        if interrupt.is_set() {
            stop.stop();
        }
        if ticks % 10 == 0 && progress.is_live() {
            let rate = (stop.bytes() - before) as f64 * 8.0 / 0.2;
            before = stop.bytes();
            progress.show(&format!("sent {}  {}", print::bytes(before), print::rate(rate)));
        }
    }
    progress.clear();
    let mut reports = Vec::new();
    for thread in threads {
        reports.push(thread.join().map_err(|_| anyhow::anyhow!("a sending thread ended"))?);
    }
    let failed = reports.iter().any(|r| r.error.is_some());
    if args.output.json {
        match &reports[..] {
            [only] => receiving::print_json(only)?,
            all => receiving::print_json(&all)?,
        }
    } else {
        reports.iter().for_each(|r| eprint!("{}", summary(r)));
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

fn options(args: &SendArgs) -> SenderOptions {
    SenderOptions {
        to: args.to.clone(),
        mode: match args.mode {
            ModeArg::Auto => SendMode::Auto,
            ModeArg::Gso => SendMode::Gso,
            ModeArg::Mmsg => SendMode::Mmsg,
            ModeArg::Plain => SendMode::Plain,
        },
        rate: args.rate.map_or(0, |rate| rate.bits_per_second() / args.senders.max(1) as u64),
        faults: args.faults,
        packets: args.packets,
        duration: args.duration.map(|d| d.duration()),
        cpu: args.cpu,
    }
}

fn sequence(args: &SendArgs) -> Sequence {
    let order = match args.sequence {
        NumberArg::Auto if args.to.transport == Transport::Udp => Some(Order::Little),
        NumberArg::Little => Some(Order::Little),
        NumberArg::Big => Some(Order::Big),
        NumberArg::Auto | NumberArg::None => None,
    };
    Sequence { order, first: args.first }
}

/// What is sent by sender `number`.
fn supply(args: &SendArgs, number: usize) -> Result<Box<dyn Supply>> {
    if let Some(path) = &args.input {
        let open = |rate| FileSupply::open(path, args.format, rate, sequence(args), args.r#loop);
        let supply = match open(args.frame_rate) {
            Err(SupplyError::Restamp { why: RestampError::RateUnknown, .. }) if args.r#loop > 1 => {
                let rate = FRAME_RATE;
                eprintln!(
                    "note: the file does not tell its frame rate; taking {rate} frames/s (--frame-rate)"
                );
                open(Some(rate))
            }
            Err(SupplyError::Restamp { why: RestampError::RateUnknown, .. }) => open(Some(1 << 15)),
            other => other,
        };
        return Ok(Box::new(supply?));
    }
    if let Some(scan) = &args.scan {
        return recording(args, scan);
    }
    let packet = (args.payload + 32 + if sequence(args).order.is_some() { 8 } else { 0 }) as u64;
    let of_rate = args.rate.map(|rate| {
        let frames =
            rate.bits_per_second() / args.senders.max(1) as u64 / 8 / packet / u64::from(args.threads.max(1));
        u32::try_from(frames).unwrap_or(u32::MAX).clamp(1, 1 << 24)
    });
    let station =
        format!("{}{}", char::from(b'A' + (number / 26 % 26) as u8), char::from(b'a' + (number % 26) as u8));
    let options = SynthOptions {
        payload: args.payload,
        threads: args.threads,
        frames_per_second: args.frame_rate.or(of_rate).unwrap_or(FRAME_RATE),
        start: receiving::now(),
        station,
        pattern: !args.noise,
        sequence: sequence(args),
        packets: args.packets,
    };
    Ok(Box::new(SynthSupply::new(options)?))
}

fn recording(args: &SendArgs, scan: &str) -> Result<Box<dyn Supply>> {
    let (recording, at) = open(&args.disk, scan, args.stream, args.follow)?;
    let stream = &recording.datastreams[at];
    let unit = stream.datastream.as_ref().map_or(0, |d| d.info.unit_bytes);
    if unit == 0 {
        bail!(
            "{}: no index tells the length of its frames\nhint: send the chunk files with --input",
            stream.name
        );
    }
    let reader = recording.reader(at, &ReadOptions { follow: args.follow, ..ReadOptions::default() })?;
    let supply = RecordingSupply::new(reader, unit, sequence(args), stream.name.clone())?;
    Ok(Box::new(supply))
}

/// Open a recording and choose a datastream; to `follow` one that is being made, wait until there is something.
pub(crate) fn open(
    disks: &[PathBuf],
    scan: &str,
    stream: Option<u32>,
    follow: bool,
) -> Result<(Recording, usize)> {
    loop {
        let recording = Recording::open(disks.iter(), scan)?;
        let begun = !recording.datastreams.is_empty() && stream.is_none();
        match pick(&recording, stream) {
            Err(_) if follow && !begun && recording.state == State::Live => {
                std::thread::sleep(Duration::from_millis(50));
            }
            picked => return picked.map(|at| (recording, at)),
        }
    }
}

/// The datastream that is meant: the only one, or the one with the number.
fn pick(recording: &Recording, stream: Option<u32>) -> Result<usize> {
    let names: Vec<&str> = recording.datastreams.iter().map(|d| d.name.as_str()).collect();
    match stream {
        None if names.len() == 1 => Ok(0),
        None if names.is_empty() => bail!("{}: nothing was recorded", recording.label.as_str()),
        None => bail!(
            "{} has {} streams: {}\nhint: choose one with --stream 0 to {}",
            recording.label.as_str(),
            names.len(),
            names.join(", "),
            names.len() - 1
        ),
        Some(number) => {
            let suffix = if number == 0 { String::new() } else { format!("_ds{number}") };
            let wanted = format!("{}{suffix}", recording.label.as_str());
            names.iter().position(|name| **name == wanted).with_context(|| {
                format!("no stream {number} in {}; there are: {}", recording.label.as_str(), names.join(", "))
            })
        }
    }
}

/// What was sent, in some lines.
pub(crate) fn summary(r: &SendReport) -> String {
    let mut out = format!(
        "sent {} packets, {} in {:.1} s ({}), CPU {:.3} s/GB\n  {}\n  to {}\n",
        print::count(r.packets),
        print::bytes(r.bytes),
        r.seconds,
        print::rate(r.bits_per_second),
        r.cpu_seconds_per_gb,
        r.what,
        r.mode,
    );
    if r.lost + r.duplicated + r.reordered + r.corrupted + r.truncated > 0 {
        out.push_str(&format!(
            "  on purpose: {} lost, {} doubled, {} late, {} damaged, {} cut\n",
            print::count(r.lost),
            print::count(r.duplicated),
            print::count(r.reordered),
            print::count(r.corrupted),
            print::count(r.truncated)
        ));
    }
    if r.slipped_seconds > 0.01 {
        out.push_str(&format!(
            "  the schedule slipped by {:.2} s: this host could not keep the rate\n",
            r.slipped_seconds
        ));
    }
    if let Some(error) = &r.error {
        out.push_str(&format!("  ended by an error: {error}\n"));
    }
    out
}
