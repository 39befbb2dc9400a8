//! `skyhaul probe HOST --iperf3`: a client of iperf3.

use super::super::receiving::print_json;
use super::path::resolve_port;
use crate::args::PathArgs;
use crate::outcome::Outcome;
use crate::outcome::{INTERRUPTED, Interrupt};
use crate::print::{self, Progress};
use anyhow::{Context, Result, bail};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::Size;
use skyhaul_measure::probe::iperf3::{
    Iperf3ClientOptions, Iperf3Error, Iperf3Params, Iperf3Progress as Progressed, TestDirection, json, lines,
    run as measure,
};
use std::time::Duration;

/// Time of a test, as with iperf3.
const TIME: Duration = Duration::from_secs(10);

pub(super) fn run(args: &PathArgs, port: u16) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let host = args.host.as_ref().context("a host")?;
    let params = params(args)?;
    let by_path = params.udp && args.tcp.write.is_none();
    let addresses = resolve_port(host, port)?;
    let mut shown = Progress::new(args.output.quiet);
    let mut before = (Duration::ZERO, 0);
    let mut each = |progress: Progressed| {
        let moved = progress.sent + progress.received;
        let seconds = (progress.elapsed - before.0).as_secs_f64().max(1e-9);
        let rate = (moved - before.1) as f64 * 8.0 / seconds;
        shown.show(&format!("{:.0} s, {}", progress.elapsed.as_secs_f64(), print::rate(rate)));
        before = (progress.elapsed, moved);
    };
    let mut addresses = addresses.iter();
    let (to, report) = loop {
        let &to = addresses.next().context("no address")?;
        let options = Iperf3ClientOptions {
            params: params.clone(),
            datagrams_by_path: by_path,
            ..Iperf3ClientOptions::new(to)
        };
        match measure(&options, &interrupt.flag(), &mut each) {
            // Nobody is there: another address of the same name is tried.
            Err(Iperf3Error::Control(error)) if addresses.len() > 0 && is_away(&error) => {
                say!("{to}: {error}");
            }
            other => break (to, other),
        }
    };
    shown.clear();
    let report = report.with_context(|| format!("iperf3 with {to}"))?;
    if args.output.json {
        // Beside iperf3's own names, all that skyhaul knows.
        let mut json = json(&report);
        json["skyhaul"] = serde_json::to_value(&report)?;
        print_json(&json)?;
    } else {
        tell_text!("{}", lines(&report));
    }
    if interrupt.is_set() {
        say!("{INTERRUPTED}");
    }
    let failed = interrupt.is_set() || report.error.is_some();
    Ok(if failed { Outcome::Failed } else { Outcome::Done })
}

/// Whether nothing listens at an address, or no way leads there.
fn is_away(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{
        AddrNotAvailable, ConnectionRefused, HostUnreachable, NetworkUnreachable, TimedOut,
    };
    matches!(
        error.kind(),
        AddrNotAvailable | ConnectionRefused | HostUnreachable | NetworkUnreachable | TimedOut
    )
}

/// The only value of an option that other measurements sweep.
fn one<T: Clone>(values: &[T], option: &str) -> Result<Option<T>> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value.clone())),
        _ => {
            bail!("--iperf3 measures one point at a time{}", Hint(format_args!("give one value to {option}")))
        }
    }
}

fn params(args: &PathArgs) -> Result<Iperf3Params> {
    let (tcp, iperf3) = (&args.tcp, &args.iperf3);
    let time = args.time.map_or(TIME, |time| time.duration());
    let omit = tcp.omit.duration();
    if time.subsec_nanos() != 0 || omit.subsec_nanos() != 0 || time.is_zero() {
        bail!("iperf3 needs whole seconds{}", Hint("write --time and --omit like 10s"));
    }
    let windows = tcp.windows.as_ref().map_or(&[][..], |windows| windows.0.as_slice());
    let counted = tcp.bytes.is_some() || iperf3.blocks.is_some();
    Ok(Iperf3Params {
        udp: args.udp,
        way: match (args.reverse, args.both) {
            (true, _) => TestDirection::Reverse,
            (false, true) => TestDirection::Both,
            (false, false) => TestDirection::Forward,
        },
        streams: usize::from(one(&args.flows, "--flows")?.unwrap_or(1)),
        time: if counted { Duration::ZERO } else { time },
        omit,
        bytes: tcp.bytes.map_or(0, Size::bytes),
        blocks: iperf3.blocks.unwrap_or(0),
        block: tcp.write.unwrap_or(Size::from_bytes(128 << 10)),
        window: one(windows, "--windows")?,
        rate: one(&args.rates, "--rates")?.unwrap_or_default(),
        pacing: tcp.pacing.unwrap_or_default(),
        burst: iperf3.burst.unwrap_or(0),
        segment: tcp.segment,
        no_delay: iperf3.no_delay,
        tos: iperf3.tos,
        congestion: one(&tcp.cc, "--cc")?,
        wide: iperf3.wide,
        zero_copy: tcp.zerocopy,
        server_output: iperf3.server_output,
        title: iperf3.title.clone(),
        version: String::new(),
    })
}
