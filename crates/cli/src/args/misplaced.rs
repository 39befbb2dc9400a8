//! Options that the chosen format has no use for: told, instead of silently left out.
//!
//! Those of SPEAD are known by their heading in `--help`; those that only other formats have are listed here, with what
//! stands in their place.

use super::{Cli, Experiment, Verb, spead};
use anyhow::{Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};
use skyhaul::wire::Objects;
use std::collections::BTreeMap;

/// Verb, argument, and what a user of SPEAD takes instead.
const NOT_FOR_SPEAD: [(&str, &str, &str); 43] = [
    ("receive", "start", "--start-heap, or --start-at for a wall time"),
    ("receive", "stop", "--stop-items, or --stop-at for a wall time"),
    ("receive", "chunk", "--memory is all heaps' together"),
    ("receive", "window", "--heap-window"),
    ("receive", "flush", "--heap-timeout"),
    ("receive", "strip", LEAVE),
    ("receive", "keep", LEAVE),
    ("receive", "place", LEAVE),
    ("receive", "frame_rate", LEAVE),
    ("receive", "threads", LEAVE),
    ("receive", "station", LEAVE),
    ("receive", "split_threads", "--by-sender tells senders apart"),
    ("receive", "keep_partial_sets", LEAVE),
    ("record", "start", "--start-heap, or --start-at for a wall time"),
    ("record", "stop", "--stop-items, or --stop-at for a wall time"),
    ("record", "window", "--heap-window"),
    ("record", "strip", LEAVE),
    ("record", "keep", LEAVE),
    ("record", "place", LEAVE),
    ("record", "frame_rate", LEAVE),
    ("record", "threads", LEAVE),
    ("record", "station", LEAVE),
    ("record", "split_threads", "--by-sender tells senders apart"),
    ("record", "keep_partial_sets", LEAVE),
    ("record", "no_fill", "what is missing of a heap is not written"),
    ("send", "noise", "SPEAD heaps are made of --pattern or --input"),
    ("send", "packets", "--heaps: SPEAD is sent in whole heaps"),
    ("send", "faults", "damage them at the receiver: receive --faults"),
    ("send", "payload", "--heap-size, and --packet for the length of packets"),
    ("send", "threads", "--senders"),
    ("send", "frame_rate", "--rate"),
    ("send", "sequence", LEAVE),
    ("send", "first", "--first-heap"),
    ("bench", "what", "--experiments chooses what is measured"),
    ("bench", "sizes", "MTU and default packets are measured beside each other; --heap-size sets the heaps"),
    ("bench", "rate", "--rates"),
    ("bench", "search", "the experiment `pairs` shows the loss at rising rates"),
    ("bench", "candidates", "--experiments chooses what is measured"),
    ("bench", "no_gso", LEAVE),
    ("bench", "cpus", "only the experiment `limited` keeps programs on processors"),
    ("bench", "memory", LEAVE),
    ("bench", "directory", LEAVE),
    ("bench", "bytes", LEAVE),
];
const LEAVE: &str = "leave it out; --help shows under SPEAD what is for heaps";

/// Refuse what would have no effect. A file (`from_file`) has defaults for every format: what is not for this one is told,
/// and no mistake.
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
    let mut of_heaps = all.filter(|arg| arg.get_help_heading() == Some(spead::HEADING));
    if matches!(&cli.verb, Verb::Send(args) if args.scan.is_some()) {
        // What it holds is known when it is opened; only the length of packets is chosen.
        return match of_heaps.find(|arg| arg.get_id() != "packet" && typed(arg.get_id().as_str())) {
            Some(arg) => bail!(
                "{} is for heaps that are made: a recording is sent as it is\nhint: leave it out",
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
            matches!(&cli.verb, Verb::Bench(args) if args.spead.experiments.contains(&Experiment::Limited));
        let of_verb = || NOT_FOR_SPEAD.iter().filter(|(of, id, _)| *of == verb && !(pinned && *id == "cpus"));
        for (id, place) in of_verb().filter_map(|(_, id, _)| Some((id, from_file.get(*id)?))) {
            eprintln!("note: {place}: {} is not for SPEAD heaps, and left out", name(verb, id));
        }
        return match of_verb().find(|(_, id, _)| typed(id)) {
            Some((_, id, instead)) => bail!("{} is not for SPEAD heaps\nhint: {instead}", name(verb, id)),
            None => Ok(()),
        };
    }
    match of_heaps.find(|arg| typed(arg.get_id().as_str())) {
        Some(arg) => bail!(
            "{} is for SPEAD heaps\nhint: add --format spead, or leave it out",
            name(verb, arg.get_id().as_str())
        ),
        None => Ok(()),
    }
}

/// An argument as it is typed.
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
            assert!(verb.get_arguments().any(|arg| arg.get_help_heading() == Some(spead::HEADING)));
        }
    }

    #[test]
    fn options_of_another_format_are_told() {
        for (line, told) in [
            ("receive --listen udp://:0 --format vdif --feedback", "--feedback is for SPEAD heaps"),
            ("receive --listen udp://:0 --format vdif --heaps 3", "--heaps is for SPEAD heaps"),
            ("send --to udp://10.0.0.1:1 --pattern --heap-size 1MiB", "--heap-size is for SPEAD heaps"),
            ("bench --pairs 2", "--pairs is for SPEAD heaps"),
            ("send --format spead --to udp://10.0.0.1:1 --payload 8000", "--heap-size"),
            ("send --format spead --to udp://10.0.0.1:1 --packets 5", "--heaps"),
            ("receive --format spead --listen udp://:0 --window 4", "--heap-window"),
            ("bench --against x", "--against is for SPEAD heaps"),
            ("bench --format spead --cpus 0,1", "limited"),
            ("bench --format spead send", "<WHAT> is not for SPEAD heaps"),
            (
                "send --to udp://10.0.0.1:1 --scan x --disk /tmp --heap-size 1MiB",
                "--heap-size is for heaps that are made",
            ),
            ("record --format spead --listen udp://:0 --disk /tmp --scan x --no-fill", "--no-fill"),
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
            "bench --format spead --experiments limited --cpus 1,0",
        ] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
