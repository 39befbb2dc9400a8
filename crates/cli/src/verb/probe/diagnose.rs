//! `--diagnose`: what is wrong with a path, why that is believed, and what to type next.

use super::super::receiving::print_json;
use super::page;
use super::report::CommandReport;
use super::table::{Table, account};
use crate::args::{PathArgs, ValueList};
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::Progress;
use anyhow::{Result, bail};
use skyhaul::core::hint::Hint;
use skyhaul_measure::probe::udp::{
    CauseReport, DiagnosisHosts, DiagnosisOptions, MIN_DATAGRAM, TestDirection, UdpClient, UdpDiagnosis,
    spacing,
};
use std::fmt::Write as _;
use std::time::Duration;

/// Length of the first point, unless chosen.
const FIRST: Duration = Duration::from_secs(1);
/// Packets of a point that are told one by one, of the first and of each other.
const SAMPLES: (usize, usize) = (4096, 128);

pub(super) fn udp(
    args: &PathArgs,
    client: &mut UdpClient,
    mut told: CommandReport,
    direction: TestDirection,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Outcome> {
    if args.points() > 1 || args.flows != [1] {
        bail!(
            "a diagnosis needs one flow and one load{}",
            Hint("give one of --sizes, one of --spacing or --rates")
        );
    }
    let mut table = (!args.output.json).then(|| Table::begin(&told.here, &told.there));
    let size = size(args, &told);
    let time = args.time.map_or(FIRST, |time| time.duration());
    let asked = DiagnosisOptions { size, spacing_ps: load(args, size), direction, time };
    let mut each = |report: &_| {
        progress.clear();
        if let Some(table) = &mut table {
            table.row(report);
        }
        progress.show("more points");
    };
    let (mut found, points) = client.diagnose(&asked, &interrupt.flag(), &mut each);
    progress.clear();
    told.points = points;
    told.round_trip_seconds = client.round_trip().map(|trip| trip.as_secs_f64());
    told.clock = client.compare_clocks(&mut told.points);
    told.interrupted = interrupt.is_set();
    found.advise(&hosts(args, &told, size, direction));
    thin(&mut told);
    if !args.output.json {
        tell_text!("{}", text(&found));
    }
    let short = found.cut_short.is_some();
    told.diagnosis = Some(found);
    if let Some(directory) = &args.report {
        page::udp(directory, &told)?;
    }
    if args.output.json {
        print_json(&told)?;
    }
    if told.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(if short { Outcome::Failed } else { Outcome::Done })
}

/// The size that was asked for, as far as it passes whole: half a datagram is another packet for whoever counts.
fn size(args: &PathArgs, told: &CommandReport) -> u32 {
    let (asked, longest) =
        (args.sizes.values()[0], told.here.largest_datagram.min(told.there.largest_datagram));
    let size = asked.min(u32::try_from(longest).unwrap_or(asked).max(MIN_DATAGRAM));
    if size < asked {
        say!("note: using datagrams of {size} bytes: {asked} would be fragmented on this path");
    }
    size
}

/// The load that was asked for.
fn load(args: &PathArgs, size: u32) -> u64 {
    match args.rates.first() {
        Some(rate) => spacing(size, rate.bits_per_second()),
        None => args.spacing.values()[0],
    }
}

fn hosts(args: &PathArgs, told: &CommandReport, size: u32, direction: TestDirection) -> DiagnosisHosts {
    let (sender, receiver) = match direction {
        TestDirection::Reverse => (&told.there, &told.here),
        _ => (&told.here, &told.there),
    };
    DiagnosisHosts {
        probe: command(args),
        sender: sender.interface.clone(),
        receiver: receiver.interface.clone(),
        size,
        buffer: receiver.buffers.0,
    }
}

/// The command of a probe to this server, without a test.
pub(super) fn command(args: &PathArgs) -> String {
    let host = args.host.as_deref().unwrap_or_default();
    let token =
        args.token_file.as_ref().map_or(String::new(), |file| format!(" --token-file {}", file.display()));
    format!("skyhaul probe {host}{token}{}", if args.reverse { " --reverse" } else { "" })
}

/// Keep some of the packets: all were needed to judge, not to tell.
fn thin(told: &mut CommandReport) {
    for (n, report) in told.points.iter_mut().enumerate() {
        let most = if n == 0 { SAMPLES.0 } else { SAMPLES.1 };
        for received in report.client.received.iter_mut().chain(&mut report.server.received) {
            let step = received.samples.len().div_ceil(most).max(1);
            received.samples = received.samples.iter().copied().step_by(step).collect();
        }
    }
}

/// A cause in lines.
pub(super) fn cause(named: &CauseReport) -> String {
    let mut text = format!("cause: {}: {} (confidence {:.2})\n", named.cause, named.title, named.confidence);
    for line in &named.evidence {
        let _ = writeln!(text, "  evidence: {line}");
    }
    for line in &named.next {
        let _ = writeln!(text, "  next: {line}");
    }
    text
}

/// The identity, the causes, and what remains.
fn text(found: &UdpDiagnosis) -> String {
    let mut text = String::new();
    let identity = &found.identity;
    let _ = writeln!(text, "where packets went, all points together:");
    let _ = writeln!(text, "  {:<34} {:>12}", "sent by the application", identity.sent);
    text += &account(&identity.stages);
    let _ = writeln!(
        text,
        "  {:<34} {:>12}   lost {} in all",
        "arrived at the reader", identity.arrived, identity.lost
    );
    match identity.residual {
        Some(residual) => {
            let _ = writeln!(
                text,
                "  residual {residual}: packets that came to the receiver's interface, and that no drop and no reader explains"
            );
        }
        None => text += "  residual unknown: the receiver's interface does not count\n",
    }
    for named in &found.causes {
        text += &cause(named);
    }
    if let Some(remark) = found.remark() {
        let _ = writeln!(text, "{remark}");
    }
    text
}
