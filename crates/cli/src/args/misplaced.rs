//! Options that do not apply to the chosen format: reported instead of silently ignored.
//!
//! Those of SPEAD and of events are recognised by their heading in `--help`; those of the other formats are listed here, each
//! with what to use instead.

use super::bench::BenchWhat;
use super::cli::{Cli, Verb};
use super::heading::{EVENTS, HEAPS};
use super::heaps::Experiment;
use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory};
use skyhaul::wire::Objects;
use std::collections::BTreeMap;

/// Verb, argument, and what to use for SPEAD instead.
const NOT_FOR_SPEAD: [(&str, &str, &str); 43] = [
    ("receive", "start", "--start-heap, or --start-at for a wall-clock time"),
    ("receive", "stop", "--stop-items, or --stop-at for a wall-clock time"),
    ("receive", "chunk", "--memory limits all heaps together"),
    ("receive", "window", "--heap-window"),
    ("receive", "flush", "--heap-timeout"),
    ("receive", "strip", LEAVE),
    ("receive", "keep", LEAVE),
    ("receive", "place", LEAVE),
    ("receive", "frame_rate", LEAVE),
    ("receive", "threads", LEAVE),
    ("receive", "station", LEAVE),
    ("receive", "split_threads", "use --by-sender to tell senders apart"),
    ("receive", "keep_partial_sets", LEAVE),
    ("record", "start", "--start-heap, or --start-at for a wall-clock time"),
    ("record", "stop", "--stop-items, or --stop-at for a wall-clock time"),
    ("record", "window", "--heap-window"),
    ("record", "strip", LEAVE),
    ("record", "keep", LEAVE),
    ("record", "place", LEAVE),
    ("record", "frame_rate", LEAVE),
    ("record", "threads", LEAVE),
    ("record", "station", LEAVE),
    ("record", "split_threads", "use --by-sender to tell senders apart"),
    ("record", "keep_partial_sets", LEAVE),
    ("record", "no_fill", "leave it out; gaps in heaps are never filled"),
    ("send", "noise", "SPEAD heaps are made from --pattern or --input"),
    ("send", "packets", "--heaps: SPEAD is sent in whole heaps"),
    ("send", "payload", "--heap-size, and --packet for the packet size"),
    ("send", "threads", "--senders"),
    ("send", "frame_rate", "--rate"),
    ("send", "sequence", LEAVE),
    ("send", "first", "--first-heap"),
    ("send", "restamp", LEAVE),
    ("send", "max_wait", "--rate"),
    (
        "bench",
        "sizes",
        "packets of MTU and default size are measured side by side; or name the path to measure",
    ),
    ("bench", "rate", "--rates, or name the path to measure, such as `receive`"),
    ("bench", "search", PATH),
    ("bench", "candidates", "--experiments, or name the path to measure, such as `receive`"),
    ("bench", "no_gso", PATH),
    (
        "bench",
        "cpus",
        "of the experiments only `limited` keeps programs on processors; or name the path to measure",
    ),
    ("bench", "memory", PATH),
    ("bench", "directory", PATH),
    ("bench", "bytes", PATH),
];
/// Arguments of `send`, and what to use for events instead.
const NOT_FOR_EVENTS: [(&str, &str); 9] = [
    ("noise", "events are made from --pattern or --input"),
    ("packets", "--events: whole events are sent"),
    ("payload", "--event, and --mtu for the packet size"),
    ("threads", "--senders"),
    ("frame_rate", "--event-rate"),
    ("sequence", "leave it out; `--help` lists the options for events under their own heading"),
    ("first", "--tick"),
    ("restamp", "leave it out; events are numbered from --tick on"),
    ("max_wait", "--event-rate"),
];
/// Arguments of `bench` that are not for the sweep of events.
const NOT_FOR_SWEEP: [&str; 10] =
    ["candidates", "sizes", "rate", "search", "directory", "bytes", "netns", "no_gso", "cpus", "memory"];
const PATH: &str =
    "name the path to measure, `receive`, `send` or `record`; without it the experiments of SDP memo 046 run";
const LEAVE: &str = "leave it out; `--help` lists the options for SPEAD heaps under their own heading";

/// Refuse what would have no effect. A file (`from_file`) has defaults for every format, so what it sets for another
/// format is noted and is not an error.
pub(super) fn check(cli: &Cli, matches: &ArgMatches, from_file: &BTreeMap<String, String>) -> Result<()> {
    let format = match &cli.verb {
        Verb::Send(args) => args.format,
        Verb::Receive(args) => args.common.stream.format,
        Verb::Record(args) => args.common.stream.format,
        Verb::Bench(args) => args.format,
        _ => return Ok(()),
    };
    let Some((verb, given)) = matches.subcommand() else { return Ok(()) };
    let given_at = |id: &str| given.value_source(id) == Some(ValueSource::CommandLine);
    let typed = |id: &str| given_at(id) && !from_file.contains_key(id);
    let command = Cli::command();
    let all = command.find_subcommand(verb).into_iter().flat_map(|verb| verb.get_arguments());
    let (of_events, others): (Vec<_>, Vec<_>) = all.partition(|arg| arg.get_help_heading() == Some(EVENTS));
    let mut of_heaps = others.into_iter().filter(|arg| arg.get_help_heading() == Some(HEAPS));
    check_events(cli, verb, &of_events, &typed)?;
    if is_sweep(cli) {
        return check_sweep(verb, of_heaps.map(|arg| arg.get_id().as_str()), &typed);
    }
    if matches!(&cli.verb, Verb::Send(args) if args.scan.is_some()) {
        // Its contents are known once it is opened; only the packet size is the user's choice.
        return match of_heaps.find(|arg| arg.get_id() != "packet" && typed(arg.get_id().as_str())) {
            Some(arg) => bail!(
                "{} is for generated heaps; a recording is sent as it is\nhint: leave it out",
                name(verb, arg.get_id().as_str())
            ),
            None => Ok(()),
        };
    }
    if matches!(&cli.verb, Verb::Bench(args) if args.what.is_some())
        && format.objects().is_some_and(|objects| objects != Objects::Frames)
    {
        return match of_heaps.find(|arg| arg.get_id() != "heap_size" && typed(arg.get_id().as_str())) {
            Some(arg) => bail!(
                "{} is for the experiments of SDP memo 046\nhint: leave it out, or <WHAT>",
                name(verb, arg.get_id().as_str())
            ),
            None => Ok(()),
        };
    }
    let receives = matches!(&cli.verb, Verb::Receive(_) | Verb::Record(_));
    if receives && format.family().is_none() {
        // Whatever comes: each option is for what it is for.
        return Ok(());
    }
    if format
        .objects()
        .is_some_and(|objects| objects == Objects::Heaps || receives && objects != Objects::Frames)
    {
        let pinned =
            matches!(&cli.verb, Verb::Bench(args) if args.heaps.experiments.contains(&Experiment::Limited));
        let of_verb = || NOT_FOR_SPEAD.iter().filter(|(of, id, _)| *of == verb && !(pinned && *id == "cpus"));
        for (id, place) in of_verb().filter_map(|(_, id, _)| Some((id, from_file.get(*id)?))) {
            say!("note: {place}: {} does not apply to SPEAD heaps and is ignored", name(verb, id));
        }
        return match of_verb().find(|(_, id, _)| typed(id)) {
            Some((_, id, instead)) => {
                bail!("{} does not apply to SPEAD heaps\nhint: {instead}", name(verb, id))
            }
            None => Ok(()),
        };
    }
    match of_heaps.find(|arg| typed(arg.get_id().as_str())) {
        Some(arg) => bail!(
            "{} applies only to SPEAD heaps\nhint: add --format spead, or leave it out",
            name(verb, arg.get_id().as_str())
        ),
        None => Ok(()),
    }
}

/// Whether events are sent through a balancer, in every combination.
fn is_sweep(cli: &Cli) -> bool {
    matches!(&cli.verb, Verb::Bench(args) if args.what == Some(BenchWhat::Events))
}

/// The same for that: `of_heaps` are the arguments for heaps only.
fn check_sweep<'a>(
    verb: &str,
    of_heaps: impl Iterator<Item = &'a str>,
    typed: &dyn Fn(&str) -> bool,
) -> Result<()> {
    match of_heaps.filter(|id| !["rates", "report"].contains(id)).chain(NOT_FOR_SWEEP).find(|id| typed(id)) {
        Some(id) => bail!(
            "{} does not apply to the sweep of events\nhint: leave it out; --mtus, --rates and others are varied",
            name(verb, id)
        ),
        None => Ok(()),
    }
}

/// The same for events: `of_events` are the arguments for these only.
fn check_events(cli: &Cli, verb: &str, of_events: &[&Arg], typed: &dyn Fn(&str) -> bool) -> Result<()> {
    let sends = matches!(&cli.verb, Verb::Send(args) if args.is_of_events());
    let mut ids = of_events.iter().map(|arg| arg.get_id().as_str());
    if let Some(id) = ids.find(|id| !sends && !is_sweep(cli) && typed(id)) {
        let way = if verb == "bench" { "measure `bench ejfat`" } else { "add --format ejfat" };
        bail!("{} applies only to events\nhint: {way}, or leave it out", name(verb, id));
    }
    match NOT_FOR_EVENTS.iter().find(|(id, _)| sends && typed(id)) {
        Some((id, instead)) => bail!("{} does not apply to events\nhint: {instead}", name(verb, id)),
        None => Ok(()),
    }
}

/// An argument as it is written on the command line.
fn name(verb: &str, id: &str) -> String {
    let command = Cli::command();
    let mut all = command.find_subcommand(verb).into_iter().flat_map(|verb| verb.get_arguments());
    let long = all.find(|arg| arg.get_id() == id).and_then(|arg| arg.get_long());
    long.map_or_else(|| format!("<{}>", id.to_uppercase()), |long| format!("--{long}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Places, parse};

    fn said(line: &str) -> Option<String> {
        parse(["skyhaul"].into_iter().chain(line.split(' ')), &Places::default())
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn every_argument_that_is_named_exists() {
        let command = Cli::command();
        for (verb, id, _) in NOT_FOR_SPEAD {
            let verb = command.find_subcommand(verb).unwrap();
            assert!(verb.get_arguments().any(|arg| arg.get_id() == id), "{} {id}", verb.get_name());
        }
        for verb in ["send", "receive", "record", "bench"] {
            let verb = command.find_subcommand(verb).unwrap();
            assert!(verb.get_arguments().any(|arg| arg.get_help_heading() == Some(HEAPS)));
        }
    }

    #[test]
    fn options_of_another_format_are_reported() {
        for (line, told) in [
            ("receive --listen udp://:0 --format vdif --in-order", "--in-order applies only to SPEAD heaps"),
            ("receive --listen udp://:0 --format vdif --heaps 3", "--heaps applies only to SPEAD heaps"),
            (
                "send --to udp://10.0.0.1:1 --pattern --heap-size 1MiB",
                "--heap-size applies only to SPEAD heaps",
            ),
            ("send --to udp://10.0.0.1:1 --pattern --event 1MiB", "--event applies only to events"),
            (
                "send --format spead --to udp://10.0.0.1:1 --pattern --data-id 1",
                "--data-id applies only to events",
            ),
            ("send --format ejfat --to udp://10.0.0.1:1 --pattern --packets 5", "--events"),
            ("send --format ejfat --to udp://10.0.0.1:1 --noise", "--pattern or --input"),
            ("send --format ejfat --to udp://10.0.0.1:1 --heaps 5", "--heaps applies only to SPEAD heaps"),
            ("send --to ejfat://lb:1/?data=10.0.0.1 --pattern", "only events go through a balancer"),
            ("send --to udp://10.0.0.1:1 --input a --input b", "one --input, not 2"),
            ("send --pattern", "nothing says where to send"),
            ("bench --pairs 2", "--pairs applies only to SPEAD heaps"),
            ("send --format spead --to udp://10.0.0.1:1 --payload 8000", "--heap-size"),
            ("send --format spead --to udp://10.0.0.1:1 --packets 5", "--heaps"),
            ("receive --format spead --listen udp://:0 --window 4", "--heap-window"),
            ("bench --against x", "--against applies only to SPEAD heaps"),
            ("bench --format spead --cpus 0,1", "limited"),
            ("bench --format spead --search", "name the path to measure"),
            ("bench send --format spead --pairs 2", "--pairs is for the experiments of SDP memo 046"),
            ("bench receive --format ejfat --experiments link", "--experiments is for the experiments"),
            (
                "send --to udp://10.0.0.1:1 --scan x --disk /tmp --heap-size 1MiB",
                "--heap-size is for generated heaps",
            ),
            ("record --format spead --listen udp://:0 --disk /tmp --scan x --no-fill", "--no-fill"),
            ("bench receive --mtus 1500", "--mtus applies only to events"),
            ("bench ejfat --sizes 1472", "--sizes does not apply to the sweep of events"),
            ("bench ejfat --pairs 2", "--pairs does not apply to the sweep of events"),
        ] {
            let said = said(line).unwrap();
            assert!(said.contains(told) && said.contains("\nhint: "), "{line}: {said}");
        }
        for line in [
            "receive --listen udp://:0 --window 4",
            "receive --listen udp://:0 --window 4 --heap-window 8 --feedback",
            "receive --format spead --listen udp://:0 --from 10.0.0.1 --forward udp://10.0.0.2:1",
            "send --to udp://10.0.0.1:1 --scan x --disk /tmp --packet 8972",
            "record --format spead --listen udp://:0 --disk /tmp --scan x --heap-timeout 2s --chunk 16MiB",
            "receive --format spead --listen udp://:0 --feedback --heaps 3",
            "bench --format spead --pairs 2",
            "send --format ejfat --to ejfat://t@lb:1/?data=10.0.0.1&sync=10.0.0.1:1 --pattern --event 1KiB..1MiB --tick 0",
            "send --format ejfat --to udp://10.0.0.1:1 --input a --input b --mtu 9000",
            "bench receive --format spead --search --sizes 8972 --heap-size 64KiB",
            "bench send --format ejfat --cpus 1,0",
            "bench ejfat --mtus 1500 --events 1MiB --rates 1Gbps --report x --rounds 1",
            "bench --format spead --experiments limited --cpus 1,0",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
