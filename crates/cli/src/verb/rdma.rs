//! `skyhaul rdma`: memory of one host, which others write and read.

use super::output::open_output;
use super::receiving::print_json;
use crate::args::{RdmaArgs, RdmaMessageArgs, RdmaReadArgs, RdmaServeArgs, RdmaWhat};
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::{self, Progress, counted};
use anyhow::{Context, Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::open_regular;
use skyhaul::rdma::{
    ClientRead, DatagramReport, MessageKind, RdmaReadOptions, RdmaReadReport, RdmaServeReport, RdmaServer,
    RdmaWriteOptions, RdmaWriteReport, ServeOptions, ServeProgress, TakeSends, WriteSource, read, write,
};
use skyhaul::stop::StopFlag;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// The profile in which nothing is lost.
const STREAM: &str = "tcp";
/// Maximum number of losses listed.
const MAX_LISTED: usize = 10;

pub(crate) fn run(args: &RdmaArgs) -> Result<Outcome> {
    match &args.what {
        RdmaWhat::Serve(args) => serve(args),
        RdmaWhat::Write(args) => writing(&args.what, MessageKind::Write { immediate: args.imm }),
        RdmaWhat::Send(args) => {
            let (is_solicited, invalidates) = (args.solicited, args.invalidate);
            writing(&args.what, MessageKind::Send { is_solicited, invalidates })
        }
        RdmaWhat::Read(args) => reading(args),
    }
}

fn serve(args: &RdmaServeArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let mut server = RdmaServer::open(ServeOptions {
        listen: args.listen.clone(),
        regions: args.region.clone(),
        duration: args.duration.map(|duration| duration.duration()),
        connections: args.connections,
        sends: (args.messages.is_some() || args.verify)
            .then(|| TakeSends { longest: args.longest.bytes(), to: args.messages.clone() }),
        verify: args.verify,
        faults: args.faults,
        datagram_bytes: args.path.packet,
        crc: args.path.crc(),
        tier: args.tier.into(),
    })?;
    let mut line = Progress::new(args.output.quiet);
    for region in &args.region {
        say!("serving {} at {}", print::bytes(region.bytes), server.address(Some(&region.name)));
    }
    let is_live = line.is_live();
    let mut show = |now: &ServeProgress| {
        let [complete, incomplete, lost] = now.messages;
        let open = counted(now.open as u64, "connection");
        let text = format!(
            "{:.0} s, {open}, {}, {complete} messages, {incomplete} incomplete, {lost} lost",
            now.seconds,
            print::rate(now.bits_per_second)
        );
        line.show(&text);
    };
    let progress: Option<&mut dyn FnMut(&ServeProgress)> = if is_live { Some(&mut show) } else { None };
    let report = server.run(&StopFlag::from(interrupt.flag()), progress)?;
    line.clear();
    if args.output.json {
        print_json(&report)?;
    } else {
        tell_text!("{}", served(&report));
    }
    if let Some(error) = &report.write_error {
        say!("{} not written, the first because: {error}", counted(report.not_written, "message"));
    }
    let differs = report.verify.as_ref().is_some_and(|verify| verify.different_bytes > 0);
    Ok(if differs || report.not_written > 0 { Outcome::Failed } else { Outcome::Done })
}

fn served(report: &RdmaServeReport) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "served {} in {:.1} s: {} of Writes, CPU {:.3} s",
        counted(report.connections.len() as u64 + report.connections_not_listed, "connection"),
        report.seconds,
        print::bytes(report.written_bytes),
        report.cpu_seconds
    );
    let _ = writeln!(
        out,
        "  messages: {} complete, {} incomplete, {} lost; {} datagrams did not arrive",
        report.complete, report.incomplete, report.lost, report.datagrams_lost
    );
    if report.received + report.received_incomplete > 0 {
        let _ = writeln!(
            out,
            "  Sends: {} complete, {} incomplete, {}",
            report.received,
            report.received_incomplete,
            print::bytes(report.received_bytes)
        );
    }
    if !report.invalidated.is_empty() {
        let _ = writeln!(out, "  ended by a Send: {}", report.invalidated.join(", "));
    }
    for loss in report.losses.iter().take(MAX_LISTED) {
        let (first, last) = (loss.messages.0, loss.messages.1 - 1);
        let name =
            if first == last { format!("message {first}") } else { format!("messages {first} to {last}") };
        let what = match &loss.missing[..] {
            _ if loss.whole => "lost whole".to_owned(),
            [] if loss.immediate || loss.is_send || report.profile == STREAM => "lacks its end".to_owned(),
            [] => "without its immediate data".to_owned(),
            _ if !loss.in_region && !loss.is_send => {
                "all its bytes lost, but not its immediate data".to_owned()
            }
            ranges => {
                let listed: Vec<String> = ranges.iter().take(4).map(|(a, b)| format!("{a}..{b}")).collect();
                let more = if ranges.len() > listed.len() { " …" } else { "" };
                format!("lacks bytes {}{more}", listed.join(", "))
            }
        };
        let _ = writeln!(out, "    connection {}, {name}: {what}", loss.connection);
    }
    let told: u64 = report.losses.iter().take(MAX_LISTED).map(|loss| loss.messages.1 - loss.messages.0).sum();
    let more = report.incomplete + report.received_incomplete + report.lost - told;
    if more > 0 {
        let _ = writeln!(out, "    and {more} more: see --json");
    }
    datagrams(&mut out, &report.profile, &report.datagrams);
    let placed = &report.datagrams;
    let _ = writeln!(
        out,
        "  placing: {}; {} of {} datagrams placed by the kernel, which counts {} arrivals as errors for that",
        report.placing, placed.placed_by_kernel, placed.placed, placed.counted_as_errors
    );
    if let Some(verify) = &report.verify {
        let _ = writeln!(
            out,
            "  verified: {} compared, {} different, {} overwritten before their message ended",
            print::bytes(verify.compared_bytes),
            counted(verify.different_bytes, "byte"),
            print::bytes(verify.overwritten_bytes)
        );
    }
    out
}

fn datagrams(out: &mut String, profile: &str, datagrams: &DatagramReport) {
    let unit = if profile == STREAM { "frames" } else { "datagrams" };
    let refused: Vec<String> =
        datagrams.refused.iter().map(|(why, count)| format!("{why} {count}")).collect();
    let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
    let _ = writeln!(
        out,
        "  {unit}: {} arrived, refused: {refused}, kernel drops {}; {} sent, {} not accepted by the kernel",
        datagrams.arrived,
        datagrams.kernel_drops,
        datagrams.sent(),
        datagrams.unsent
    );
    if datagrams.arrivals_lost_on_purpose > 0 {
        let _ = writeln!(out, "  injected faults: {} lost on arrival", datagrams.arrivals_lost_on_purpose);
    }
    if datagrams.lost_on_purpose + datagrams.duplicated_on_purpose + datagrams.reordered_on_purpose > 0 {
        let _ = writeln!(
            out,
            "  injected faults: {} lost, {} duplicated, {} delayed, {} damaged",
            datagrams.lost_on_purpose,
            datagrams.duplicated_on_purpose,
            datagrams.reordered_on_purpose,
            datagrams.damaged_on_purpose
        );
    }
}

fn writing(args: &RdmaMessageArgs, kind: MessageKind) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    ensure!(
        args.rate.is_some() || args.messages.is_some() || args.input.is_some(),
        "a pattern without a limit to {} needs a rate{}",
        args.to,
        Hint("add --rate 4Gbps, or --rate max for as fast as this host can; or limit it with --messages N")
    );
    let source = match &args.input {
        Some(path) => WriteSource::Bytes(contents(path).with_context(|| format!("read {}", path.display()))?),
        None => WriteSource::Pattern,
    };
    let options = RdmaWriteOptions {
        to: args.to.clone(),
        source,
        message_bytes: args.message.bytes(),
        kind,
        rate: args.rate.unwrap_or_default().bits_per_second(),
        messages: args.messages,
        duration: args.duration.map(|duration| duration.duration()),
        deadline: args.deadline.duration(),
        faults: args.faults,
        datagram_bytes: args.path.packet,
        crc: args.path.crc(),
    };
    let mut line = Progress::new(args.output.quiet);
    let report = write(&options, &StopFlag::from(interrupt.flag()), &mut |now| {
        let (bytes, rate) = (print::bytes(now.bytes), print::rate(now.bits_per_second));
        line.show(&format!("{:.0} s, {} messages, {bytes}, {rate}", now.seconds, now.messages));
    })?;
    line.clear();
    if args.output.json {
        print_json(&report)?;
    } else {
        tell_text!("{}", written(&report));
    }
    let is_whole = report.closed_by == "here" && report.datagrams.unsent == 0;
    Ok(if is_whole { Outcome::Done } else { Outcome::Failed })
}

/// The bytes of a regular file, as long as it is now.
fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn written(report: &RdmaWriteReport) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} {} in {:.1} s ({}), CPU {:.3} s/GB: {} to {}",
        if report.operation == "send" { "sent" } else { "wrote" },
        print::bytes(report.bytes),
        report.seconds,
        print::rate(report.bits_per_second),
        report.cpu_seconds_per_gb,
        counted(report.messages, "message"),
        report.to
    );
    datagrams(&mut out, &report.profile, &report.datagrams);
    if report.slipped_seconds >= 0.1 {
        let _ = writeln!(
            out,
            "  the schedule slipped by {:.2} s: this host could not keep the rate",
            report.slipped_seconds
        );
    }
    match report.closed_by.as_str() {
        "here" => {}
        "peer" => out.push_str("  the peer closed the connection before all was handed out\n"),
        by => {
            let _ = writeln!(out, "  the connection ended by {by}: what arrived at the end is not known");
        }
    }
    if report.profile != STREAM {
        out.push_str("  what did not arrive is in the report of the peer: messages are not acknowledged\n");
    } else if report.closed_by == "here" {
        out.push_str("  the peer has read the stream to its end\n");
    }
    out
}

fn reading(args: &RdmaReadArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let options = RdmaReadOptions {
        from: args.from.clone(),
        range: args.range.clone(),
        how: ClientRead {
            deadline: args.deadline.duration(),
            message_bytes: args.message.bytes(),
            outstanding: args.outstanding,
        },
        faults: args.faults,
        datagram_bytes: args.path.packet,
        crc: args.path.crc(),
    };
    let is_piped = args.to.as_deref() == Some(Path::new("-"));
    ensure!(
        !is_piped || !args.output.json,
        "--output - and --json both write to standard output{}",
        Hint("write to a file, or leave out --json")
    );
    let mut output = args.to.as_deref().map(open_output).transpose()?;
    let mut line = Progress::new(args.output.quiet);
    let mut take = |_: u64, bytes: &[u8]| {
        output.iter_mut().try_for_each(|output| output.write_all(bytes)).map_err(|error| {
            let path = args.to.as_deref().unwrap_or(Path::new("-")).display();
            io::Error::new(error.kind(), format!("write {path}: {error}"))
        })
    };
    let report = read(&options, &StopFlag::from(interrupt.flag()), &mut take, &mut |now| {
        let (done, of) = (print::bytes(now.done), print::bytes(now.of));
        line.show(&format!("{:.0} s, {done} of {of}, {}", now.seconds, print::rate(now.bits_per_second)));
    })?;
    line.clear();
    output.iter_mut().try_for_each(|output| output.flush())?;
    let text = was_read(&report);
    if args.output.json {
        print_json(&report)?;
    } else if is_piped {
        say!("{}", text.trim_end());
    } else {
        tell_text!("{text}");
    }
    Ok(if report.missing_bytes == 0 { Outcome::Done } else { Outcome::Failed })
}

fn was_read(report: &RdmaReadReport) -> String {
    let mut out = String::new();
    if report.interrupted {
        let _ = writeln!(out, "{INTERRUPTED}");
    }
    let _ = writeln!(
        out,
        "read {} in {:.3} s ({}): {} of {} complete, {} sent",
        print::bytes(report.bytes),
        report.seconds,
        print::rate(report.bits_per_second),
        report.complete,
        counted(report.reads, "Read"),
        counted(report.requests, "request")
    );
    if report.missing_bytes > 0 {
        let ranges = &report.missing;
        let listed: Vec<String> = ranges.iter().take(MAX_LISTED).map(|(a, b)| format!("{a}..{b}")).collect();
        let more = if ranges.len() > listed.len() { " …" } else { "" };
        let _ = writeln!(
            out,
            "  missing: {}: bytes {}{more}",
            print::bytes(report.missing_bytes),
            listed.join(", ")
        );
    }
    datagrams(&mut out, &report.profile, &report.datagrams);
    out
}
