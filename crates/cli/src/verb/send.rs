//! `skyhaul send`.

use super::sending::{Sender, check_feedback, cpu, destination, mode, rate, run_all};
use super::{events, heaps, receiving};
use crate::args::{NumberArg, RateArg, SendArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print::{self, Progress};
use anyhow::{Context, Result, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::frames::{family, packets_of};
use skyhaul::io::address::Transport;
use skyhaul::recording::{Account, Gap, Missing, ReadOptions, Recording, State, Verdict};
use skyhaul::send::{
    FileOptions, FileSupply, Pacing, RecordedOptions, RecordingSupply, SenderOptions, Sequence, Supply,
    SynthOptions, SynthSupply,
};
use skyhaul::wire::{FAMILIES, Objects, Order, SynthPayload};
use std::path::PathBuf;
use std::time::Duration;

/// Frames per second of a synthesised stream without a rate.
const FRAME_RATE: u32 = 62_500;

pub(crate) fn run(args: &SendArgs) -> Result<Outcome> {
    check_pace(args)?;
    let of_heaps = args.format.objects() == Some(Objects::Heaps) && args.scan.is_none();
    ensure!(
        of_heaps
            || args.is_of_events()
            || args.input().is_some()
            || args.scan.is_some()
            || args.format.family().is_none_or(|f| f.generator().is_some()),
        "patterns, noise and sky can be generated as {}, not {}{}",
        made(),
        args.format,
        Hint("send a file of that format with --input")
    );
    let interrupt = Interrupt::listen()?;
    let mut progress = Progress::new(args.output.quiet);
    let mut met = Vec::new();
    let senders = if of_heaps {
        match heaps::send::senders(args, &interrupt, &mut progress)? {
            Some(senders) => senders,
            None => return Ok(Outcome::Failed),
        }
    } else if args.is_of_events() {
        events::senders(args)?
    } else {
        (0..args.senders * args.to.len())
            .map(|number| {
                let supply = supply(args, number, &mut met)?;
                let sender = skyhaul::send::Sender::open(options(args, number)?, supply)?;
                Ok(Box::new(move |stop: &_| sender.run(stop)) as Sender)
            })
            .collect::<Result<_>>()?
    };
    let joined = events::join(args)?;
    let mut turn =
        |progress: &mut Progress| met.iter_mut().for_each(|met: &mut ReadNotes| met.tell(progress));
    let mut reports = run_all(senders, args, &interrupt, &mut progress, &mut turn)?;
    let refused = events::leave(joined, &mut reports);
    for met in met {
        met.end(&mut progress);
    }
    if args.output.json {
        match &reports[..] {
            [only] => receiving::print_json(only)?,
            all => receiving::print_json(&all)?,
        }
    } else {
        reports.iter().for_each(|report| tell_text!("{}", print::sent(report)));
    }
    let failed = refused || reports.iter().any(|report| report.error.is_some());
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// The formats that can be generated, as a list.
fn made() -> String {
    let made = FAMILIES.iter().filter(|f| f.generator().is_some() || f.objects() != Objects::Frames);
    made.map(|family| family.name()).collect::<Vec<_>>().join(" or ")
}

/// Unlimited data need an explicit rate, because any default could overload the network. TCP runs at the rate of its
/// receiver, and a count, a file or a recording limits the data.
fn check_pace(args: &SendArgs) -> Result<()> {
    let objects = args.format.objects();
    let count = match objects {
        Some(Objects::Heaps) => args.of_heaps.heaps,
        Some(Objects::Events) => args.of_events.events.or(args.of_events.event_rate),
        _ => args.packets,
    };
    let endless = args.input().is_none() && args.scan.is_none() && count.is_none();
    let datagrams = args.to.iter().find(|to| to.transport == Transport::Udp);
    let Some(to) = datagrams.filter(|_| endless && args.rate.is_empty()) else { return Ok(()) };
    let (what, limit) = match objects {
        Some(Objects::Heaps) => ("heaps", "--heaps"),
        Some(Objects::Events) => ("events", "--events"),
        _ if args.noise => ("noise", "--packets"),
        _ if args.sky.is_some() => ("a sky", "--packets"),
        _ => ("a pattern", "--packets"),
    };
    bail!(
        "sending {what} without a limit to {to} needs a rate{}",
        Hint(format_args!(
            "add --rate 4Gbps, or --rate max for as fast as this host can; or limit it with {limit} N"
        ))
    )
}

fn options(args: &SendArgs, number: usize) -> Result<SenderOptions> {
    let asked = rate(args, number)?;
    check_feedback(asked, std::slice::from_ref(destination(args, number)))?;
    let auto = match asked {
        Some(RateArg::Auto(bounds)) => Some(bounds.control()),
        _ => None,
    };
    Ok(SenderOptions {
        to: destination(args, number).clone(),
        mode: mode(args),
        pacing: Pacing { rate: fixed_rate(args, number)?, auto, ..Pacing::default() },
        faults: args.faults,
        packets: args.packets,
        duration: args.duration.map(|d| d.duration()),
        cpu: cpu(args, number),
    })
}

/// The same in bits per second, for senders that need a number; 0 is as fast as possible.
fn fixed_rate(args: &SendArgs, number: usize) -> Result<u64> {
    match rate(args, number)? {
        None | Some(RateArg::Max | RateArg::Auto(_)) => Ok(0),
        Some(RateArg::Fixed(rate)) => Ok(rate.bits_per_second()),
        Some(RateArg::Search(_)) => {
            bail!(
                "--rate search applies only to --format spead{}",
                Hint("use --rate auto, or give a rate, like 8Gbps")
            )
        }
    }
}

fn sequence(args: &SendArgs, number: usize) -> Sequence {
    let order = match args.sequence {
        NumberArg::Auto if destination(args, number).transport == Transport::Udp => Some(Order::Little),
        NumberArg::Little => Some(Order::Little),
        NumberArg::Big => Some(Order::Big),
        NumberArg::Auto | NumberArg::None => None,
    };
    Sequence { order, first: args.first }
}

/// The longest wait for a gap, if recorded frames are sent at their own pace: no rate was asked for, and no recorder sets it.
fn own_pace(args: &SendArgs) -> Option<Duration> {
    (args.rate.is_empty() && !args.follow).then(|| args.max_wait.duration())
}

/// The supply of sender `number`.
fn supply(args: &SendArgs, number: usize, met: &mut Vec<ReadNotes>) -> Result<Box<dyn Supply>> {
    if let Some(path) = args.input() {
        let options = FileOptions {
            format: args.format,
            frames_per_second: args.frame_rate,
            assumed_rate: Some(FRAME_RATE),
            sequence: sequence(args, number),
            only_true_numbers: args.sequence == NumberArg::Auto,
            passes: args.r#loop,
            restamp: args.restamp.then(receiving::now),
            max_wait: own_pace(args),
            near: receiving::now(),
        };
        return Ok(Box::new(FileSupply::open(path, options)?));
    }
    if let Some(scan) = &args.scan {
        return recording(args, scan, number, met);
    }
    let packet = (args.payload + 32 + if sequence(args, number).order.is_some() { 8 } else { 0 }) as u64;
    let bits = fixed_rate(args, number)?;
    let of_rate = (bits > 0).then(|| {
        let frames = bits / 8 / packet / u64::from(args.threads.max(1));
        u32::try_from(frames).unwrap_or(u32::MAX).clamp(1, 1 << 24)
    });
    let numbered = || {
        format!("{}{}", char::from(b'A' + (number / 26 % 26) as u8), char::from(b'a' + (number % 26) as u8))
    };
    let options = SynthOptions {
        payload: args.payload,
        threads: args.threads,
        frames_per_second: args.frame_rate.or(of_rate).unwrap_or(FRAME_RATE),
        start: args.start.unwrap_or_else(receiving::nearest_second),
        station: args.sky.as_ref().map_or_else(numbered, |sky| sky.station.clone()),
        payloads: match &args.sky {
            Some(sky) => SynthPayload::Sky(sky.of_sender(number)),
            None if args.noise => SynthPayload::Noise,
            None => SynthPayload::Pattern,
        },
        sequence: sequence(args, number),
        packets: args.packets,
    };
    Ok(Box::new(SynthSupply::of(args.format, options)?))
}

fn recording(
    args: &SendArgs,
    scan: &str,
    number: usize,
    met: &mut Vec<ReadNotes>,
) -> Result<Box<dyn Supply>> {
    ensure!(
        args.targets.iter().all(|target| !target.is_balancer),
        "a recording cannot be sent through a balancer{}",
        Hint("use --to udp://ADDRESS:PORT of a receiver")
    );
    let (recording, at) = open(&args.disk, scan, args.stream, args.follow)?;
    let stream = &recording.datastreams[at];
    let about = recording.about(at);
    let unit = about.as_ref().map_or(0, |about| about.info.unit_bytes);
    let packets = about.as_ref().and_then(packets_of);
    if unit == 0 && packets.is_none() {
        bail!(
            "{}: cannot determine the frame length from an index or the frames{}",
            stream.name,
            Hint("send the chunk files with --input")
        );
    }
    let missing = if args.fill { Missing::Fill } else { Missing::Skip };
    let options = ReadOptions { follow: args.follow, missing, ..ReadOptions::default() };
    let reader = recording.reader(at, &options)?;
    met.push(ReadNotes::new(&recording, reader.account()));
    let name = stream.name.clone();
    ensure!(
        packets.is_none() || !args.restamp,
        "{name}: the times of packets in this format cannot be changed{}",
        Hint("leave out --restamp")
    );
    let header_at = about.as_ref().and_then(|about| about.info.format.get("header_at")?.as_u64());
    let of_index = about.as_ref().and_then(|about| about.info.frames_per_second);
    let recorded = || RecordedOptions {
        unit,
        family: about.as_ref().and_then(family).zip(header_at.map(|at| at as usize)),
        frames_per_second: args.frame_rate.or(of_index),
        sequence: sequence(args, number),
        only_true_numbers: args.sequence == NumberArg::Auto,
        restamp: args.restamp.then(receiving::now),
        max_wait: own_pace(args),
        follow: args.follow,
        near: receiving::now(),
    };
    Ok(Box::new(match packets {
        Some(packets) => {
            RecordingSupply::packets(reader, packets, heaps::send::packet_bytes(args, number)?, name)?
        }
        None => RecordingSupply::frames(reader, recorded(), name)?,
    }))
}

/// Reports on standard error what a reader of a recording encounters: the first gap of a kind at once, and consecutive
/// ones together when the series ends.
pub(crate) struct ReadNotes {
    account: Account,
    gaps: usize,
    notes: usize,
    /// End of the last gap, and what remains to be reported of its series.
    row: Option<(Gap, bool)>,
}

impl ReadNotes {
    /// Report at once what was found when the recording was opened.
    pub(crate) fn new(recording: &Recording, account: Account) -> Self {
        for finding in recording.findings.iter().filter(|finding| finding.verdict > Verdict::Holes) {
            say!("note: {}", print::finding(finding));
        }
        Self { account, gaps: 0, notes: 0, row: None }
    }

    /// Report what was encountered since the last call.
    pub(crate) fn tell(&mut self, progress: &mut Progress) {
        let (notes, gaps) = (self.account.notes_from(self.notes), self.account.gaps_from(self.gaps));
        if notes.is_empty() && gaps.is_empty() {
            return;
        }
        progress.clear();
        notes.iter().for_each(|note| say!("note: {}", print::finding(note)));
        self.notes += notes.len();
        self.gaps += gaps.len();
        gaps.into_iter().for_each(|gap| self.gap(gap));
    }

    fn gap(&mut self, gap: Gap) {
        let goes_on = |row: &Gap| {
            row.has_chunks()
                && gap.has_chunks()
                && row.chunks.1 == gap.chunks.0
                && (row.lack, row.instead, &row.why) == (gap.lack, gap.instead, &gap.why)
        };
        match &mut self.row {
            Some((row, waiting)) if goes_on(row) => {
                if !*waiting {
                    (row.chunks.0, row.from) = (gap.chunks.0, gap.from);
                }
                (row.chunks.1, row.to, *waiting) = (gap.chunks.1, gap.to, true);
            }
            _ => {
                self.end_row();
                say!("{gap}");
                self.row = Some((gap, false));
            }
        }
    }

    fn end_row(&mut self) {
        if let Some((row, true)) = self.row.take() {
            say!("{row}");
        }
    }

    /// Report the rest; return the number of gaps.
    pub(crate) fn end(mut self, progress: &mut Progress) -> u64 {
        self.tell(progress);
        self.end_row();
        self.account.gaps()
    }
}

/// Open a recording and choose a datastream; to `follow` one that is being made, wait until it has data.
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
            // Its description is written with its first chunk.
            Ok(at) if follow && recording.state == State::Live && recording.about(at).is_none() => {
                std::thread::sleep(Duration::from_millis(50));
            }
            picked => return picked.map(|at| (recording, at)),
        }
    }
}

/// The chosen datastream: the only one, or the one with the number.
fn pick(recording: &Recording, stream: Option<u32>) -> Result<usize> {
    let names: Vec<&str> = recording.datastreams.iter().map(|d| d.name.as_str()).collect();
    match stream {
        None if names.len() == 1 => Ok(0),
        None if names.is_empty() => bail!("{}: the recording is empty", recording.label.as_str()),
        None => bail!(
            "{} has {} streams: {}{}",
            recording.label.as_str(),
            names.len(),
            names.join(", "),
            Hint(format_args!("choose one with --stream 0 to {}", names.len() - 1))
        ),
        Some(number) => {
            let suffix = if number == 0 { String::new() } else { format!("_ds{number}") };
            let wanted = format!("{}{suffix}", recording.label.as_str());
            names.iter().position(|name| **name == wanted).with_context(|| {
                let (label, all) = (recording.label.as_str(), names.join(", "));
                format!(
                    "no stream {number} in {label}, only {all}{}",
                    Hint("number streams from 0 with --stream")
                )
            })
        }
    }
}
