use super::*;
use crate::args::cli::{Cli, definition};
use crate::args::config::merge;
use crate::args::situation::situation;
use crate::args::{ConfigPaths, parse};
use clap::FromArgMatches as _;
use std::collections::BTreeSet;

const RECEIVE: &str = "receive --listen udp://:0";
const RECORD: &str = "record --listen udp://:0 --disk /tmp --scan x";
const SEND: &str = "send --to udp://10.0.0.1:1";

fn said(line: &str) -> Option<String> {
    parse(["skyhaul"].into_iter().chain(line.split(' ')), &ConfigPaths::default())
        .err()
        .map(|error| error.to_string())
}

/// `line` with each of `options` is refused, by name, with the hint behind the option, if there is one.
fn refused(line: &str, options: &[(&str, &str)]) {
    for (option, hint) in options {
        let said = said(&format!("{line} {option}")).unwrap_or_else(|| panic!("{line} {option} is accepted"));
        let name = option.split(' ').next().unwrap();
        let (what, found) = said.split_once("; hint: ").unwrap_or_else(|| panic!("no hint: {said}"));
        assert!(
            what.starts_with(&format!("{name} does nothing with ")) && what.contains(": it applies only to "),
            "{line} {option}: {said}"
        );
        assert!(found.contains(hint), "{line} {option}: {said}");
    }
}

fn accepted(line: &str, options: &[&str]) {
    for option in options {
        assert_eq!(said(&format!("{line} {option}")), None, "{line} {option}");
    }
}

#[test]
fn options_for_frames_are_refused_where_heaps_or_events_are_received() {
    let frames = [
        ("--start 2026-01-01T00:00:00Z", "--start-heap, or --start-at for a wall-clock time"),
        ("--stop 2026-01-01T00:00:00Z", "--stop-items or --heaps, or --stop-at for a wall-clock time"),
        ("--window 4", "--heap-window"),
        ("--strip 8", "leave it out"),
        ("--keep packet", "leave it out"),
        ("--place time", "leave it out"),
        ("--frame-rate 4", "leave it out"),
        ("--threads 0", "leave it out"),
        ("--station Aa", "--from"),
        ("--split-threads", "--by-sender"),
        ("--keep-partial-sets", "leave it out"),
    ];
    for format in ["spead", "ejfat"] {
        refused(&format!("{RECEIVE} --format {format}"), &frames);
        refused(&format!("{RECORD} --format {format}"), &frames);
        refused(
            &format!("{RECEIVE} --format {format}"),
            &[("--chunk 16MiB", "--memory"), ("--flush 1s", "--heap-timeout")],
        );
        // A recording has chunks and is flushed, whatever is in it.
        accepted(&format!("{RECORD} --format {format}"), &["--chunk 16MiB", "--flush 1s"]);
        refused(&format!("{RECORD} --format {format}"), &[("--no-fill", "leave it out")]);
    }
    for line in [RECEIVE, RECORD] {
        accepted(line, &frames.map(|(option, _)| option));
        accepted(&format!("{line} --format vdif"), &frames.map(|(option, _)| option));
    }
}

#[test]
fn options_for_heaps_are_refused_where_frames_are_received() {
    let heaps = [
        "--heap-window 4",
        "--largest-heap 1MiB",
        "--heap-timeout 1s",
        "--remember 1s",
        "--by-sender",
        "--in-order",
        "--stop-items never",
        "--heaps 3",
        "--start-heap 4",
    ];
    let hinted = heaps.map(|option| (option, "use --format spead"));
    for line in [RECEIVE, RECORD] {
        refused(&format!("{line} --format vdif"), &hinted);
        refused(&format!("{line} --format mark5b"), &hinted);
        accepted(line, &heaps);
        accepted(&format!("{line} --format spead"), &heaps);
        accepted(&format!("{line} --format ejfat"), &heaps[..6]);
        refused(&format!("{line} --format vdif --listen tcp://:0"), &hinted);
        accepted(&format!("{line} --format spead --listen tcp://:0"), &heaps);
    }
    let own = [("--list x", "use --format spead or ejfat"), ("--work 1ms", "use --format spead or ejfat")];
    refused(&format!("{RECEIVE} --format vdif"), &own);
    refused(
        &format!("{RECEIVE} --format vdif"),
        &[("--join", "use --format ejfat"), ("--build 1,2", "use --format ejfat")],
    );
    refused(&format!("{RECEIVE} --format ejfat"), &[("--stop-items never", "use --format spead")]);
    // It needs a file to write them to.
    assert!(said(&format!("{RECEIVE} --incomplete")).is_some_and(|said| said.contains("--output-file")));
    refused(&format!("{RECEIVE} --format vdif -o x"), &[("--incomplete", "use --format spead or ejfat")]);
}

#[test]
fn options_of_a_transport_are_refused_without_it() {
    let udp = ["--socket-buffer 1MiB", "--receive-threads 2", "--tier plain", "--feedback"];
    accepted(RECEIVE, &udp);
    refused("receive --listen tcp://:0", &udp[..3].iter().map(|o| (*o, "use a udp://")).collect::<Vec<_>>());
    refused("receive --listen tcp://:0", &[(udp[3], "TCP controls its own rate")]);
    refused("receive --pcap x", &udp.map(|option| (option, "use a udp:// address")));
    for format in ["auto", "vdif", "spead"] {
        let tcp = ["--end-with-connections"];
        refused(&format!("{RECEIVE} --format {format}"), &tcp.map(|option| (option, "use a tcp:// address")));
        accepted(&format!("receive --listen tcp://:0 --format {format}"), &tcp);
    }
    refused("send --pattern --to tcp://10.0.0.1:1", &[("--mode gso", "use a udp:// address")]);
    accepted(SEND, &["--rate max --mode gso"]);
}

#[test]
fn options_for_frames_are_refused_where_heaps_or_events_are_sent() {
    for (option, of_heaps, of_events) in [
        ("--noise", "heaps are made from --pattern or --input", "events are made from --pattern or --input"),
        ("--packets 5", "--heaps: whole heaps are sent", "--events: whole events are sent"),
        ("--payload 8000", "--heap-size, and --packet for the packet size", "--event, and --mtu for the"),
        ("--threads 2", "--senders", "--senders"),
        ("--frame-rate 4", "--rate", "--event-rate"),
        ("--sequence none", "leave it out", "leave it out"),
        ("--first 4", "--first-heap", "--tick"),
        ("--restamp", "leave it out", "events are numbered from --tick on"),
        ("--max-wait 1s", "--rate", "--event-rate"),
    ] {
        refused(&format!("{SEND} --format spead"), &[(option, of_heaps)]);
        refused(&format!("{SEND} --format ejfat"), &[(option, of_events)]);
        accepted(SEND, &[option]);
    }
    refused(
        &format!("{SEND} --input x"),
        &[("--payload 8000", "leave it out"), ("--threads 2", "leave it out")],
    );
}

#[test]
fn options_for_heaps_or_events_are_refused_where_others_are_sent() {
    let heaps = [
        "--heap-size 1MiB",
        "--heaps 5",
        "--packet 8972",
        "--flavour 40",
        "--items 2",
        "--repeat-pointers",
        "--substreams",
        "--first-heap 4",
        "--heap-step 2",
        "--full-packets",
        "--bare",
    ];
    let events = [
        "--event 1MiB",
        "--seed 3",
        "--events 5",
        "--event-rate 5",
        "--delay 1ms",
        "--mtu 9000",
        "--tick 4",
        "--tick 4 --tick-step 2",
        "--data-id 1",
        "--lb-version 3",
        "--slot spread",
        "--entropy source",
        "--re-version 2",
        "--sockets 2",
        "--socket-buffer 1MiB",
        "--join",
        "--ipv6",
        "--sync udp://10.0.0.1:2",
        "--sync-period 2s",
        "--warm-up 2s",
    ];
    let (of_heaps, of_events) =
        (heaps.map(|o| (o, "use --format spead")), events.map(|o| (o, "use --format ejfat")));
    for line in [SEND, "send --to udp://10.0.0.1:1 --format vdif --pattern"] {
        refused(line, &of_heaps);
        refused(line, &of_events);
    }
    refused(&format!("{SEND} --format ejfat"), &of_heaps);
    refused(&format!("{SEND} --format spead"), &of_events);
    accepted(&format!("{SEND} --format spead"), &heaps);
    let joins = |option: &&&str| **option != "--join";
    accepted(&format!("{SEND} --format ejfat"), &events.iter().filter(joins).copied().collect::<Vec<_>>());
    // A recording is sent as it is; only the packet size is the user's choice.
    let scan = format!("{SEND} --scan x --disk /tmp");
    for option in heaps.iter().filter(|option| !option.starts_with("--packet")).chain(&events) {
        refused(&scan, &[(option, "a recording is sent as it is")]);
    }
    accepted(&scan, &["--packet 8972", "--frame-rate 4", "--sequence none", "--restamp", "--packets 5"]);
    refused(&scan, &[("--payload 8000", "leave it out"), ("--threads 2", "leave it out")]);
}

#[test]
fn options_of_one_benchmark_are_refused_in_another() {
    let path = ["--candidates bare", "--sizes 1472", "--rate 1Gbps", "--search", "--no-gso", "--memory 1MiB"];
    let disk = ["--directory /tmp", "--bytes 1GiB"];
    let experiments = ["--experiments link", "--pairs 2", "--interfaces 127.0.0.1"];
    let limited = ["--receiver-cpu 50%", "--packet 1472", "--against x"];
    let shared = ["--rates 1Gbps", "--report x"];
    let sweep = ["--mtus 1500", "--events 1MiB", "--senders 2", "--workers 2", "--balancer-threads 2"];
    let hint = |options: &[&'static str], hint: &'static str| {
        options.iter().map(|option| (*option, hint)).collect::<Vec<_>>()
    };
    let memo = "use `bench --format spead`";
    for line in ["bench", "bench receive", "bench send --format spead", "bench receive --format ejfat"] {
        accepted(line, &path);
        accepted(line, &["--cpus 1,0"]);
        refused(line, &hint(&disk, "use `bench record`"));
        refused(line, &hint(&experiments, memo));
        refused(line, &hint(&limited, memo));
        refused(line, &hint(&shared, memo));
        refused(line, &hint(&sweep, "use `bench ejfat`"));
    }
    accepted("bench record --directory /tmp", &["--bytes 1GiB"]);
    refused("bench", &[("--heap-size 1MiB", "use --format spead or ejfat")]);
    accepted("bench send --format spead", &["--heap-size 1MiB", "--netns a,b"]);
    let all = "bench --format spead";
    accepted(all, &[&experiments[..], &shared, &["--heap-size 1MiB", "--netns a,b"]].concat());
    refused(all, &hint(&path, "name the path to measure, such as `bench receive`"));
    refused(all, &[("--cpus 1,0", "add --experiments limited")]);
    refused(all, &hint(&disk, "use `bench record`"));
    refused(all, &hint(&limited, "add --experiments limited"));
    refused(all, &hint(&sweep, "use `bench ejfat`"));
    accepted("bench --format spead --experiments limited", &[&limited[..], &["--cpus 1,0"]].concat());
    let through = "bench ejfat";
    accepted(through, &[&sweep[..], &shared].concat());
    refused(through, &hint(&[&path[..], &disk, &experiments, &limited].concat(), ""));
    refused(through, &hint(&["--heap-size 1MiB", "--netns a,b", "--cpus 1,0"], ""));
    let peers = [
        "--only send-1472,heaps-4k",
        "--spead2-recv x",
        "--spead2-send x",
        "--iperf3 x",
        "--packet-blastee x",
        "--program x",
    ];
    accepted("bench peers", &[&peers[..], &["--report x", "--cpus 1,0", "--time 1s", "--rounds 1"]].concat());
    refused("bench peers", &hint(&[&path[..], &disk, &experiments, &limited, &sweep].concat(), ""));
    for line in ["bench", all, through] {
        refused(line, &hint(&peers, "use `bench peers`"));
    }
    assert!(said("bench peers --only x").is_some_and(|said| said.contains("receive-8040, ")));
}

#[test]
fn where_things_go_is_checked_as_well() {
    for (line, told) in [
        ("send --to ejfat://lb:1/?data=10.0.0.1 --pattern", "only events can be sent through a balancer"),
        ("send --to udp://10.0.0.1:1 --input a --input b", "one --input, not 2"),
        ("send --pattern", "no destination"),
    ] {
        let said = said(line).unwrap();
        assert!(said.contains(told) && said.contains("; hint: "), "{line}: {said}");
    }
    for line in [
        "receive --listen udp://:0 --window 4 --heap-window 8 --feedback",
        "receive --format spead --listen udp://:0 --from 10.0.0.1 --forward udp://10.0.0.2:1",
        "send --format ejfat --to ejfat://t@lb:1/?data=10.0.0.1&sync=10.0.0.1:1 --pattern --event 1KiB..1MiB --tick 0",
        "send --format ejfat --to udp://10.0.0.1:1 --input a --input b --mtu 9000",
        "bench ejfat --mtus 1500 --events 1MiB --rates 1Gbps --report x --rounds 1",
    ] {
        assert_eq!(said(line), None, "{line}");
    }
}

/// The options of the verbs in which it depends on the rest what an option does.
fn options(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    const GENERAL: [&str; 4] = ["config", "show_config", "help", "version"];
    let verbs = ["receive", "record", "send", "bench"].into_iter();
    let of = move |verb| command.find_subcommand(verb).into_iter().flat_map(Command::get_arguments);
    verbs.flat_map(move |verb| {
        of(verb).filter(|arg| !GENERAL.contains(&arg.get_id().as_str())).map(move |arg| (verb, arg))
    })
}

#[test]
fn every_option_says_what_it_applies_to() {
    let command = definition();
    let mut seen = 0;
    for (verb, arg) in options(&command) {
        let id = arg.get_id();
        let applies =
            arg.get::<Applies>().unwrap_or_else(|| panic!("{verb} {id} says nothing; add = ALWAYS?"));
        let verb = command.find_subcommand(verb).unwrap();
        for needed in &applies.with {
            assert!(verb.get_arguments().any(|arg| arg.get_id() == needed), "{id}: {needed}");
        }
        for need in &applies.needs {
            let of = DIMENSIONS.iter().filter(|dimension| dimension.meets(*need)).count();
            assert_eq!(of, 1, "{id}: the cases of one need are decided by one thing");
        }
        seen += 1;
    }
    assert!(seen > 200, "{seen}");
}

/// Help states what the check enforces, in the heading or after the option's text.
#[test]
fn help_says_what_an_option_applies_to() {
    let command = definition();
    let mut limited = 0;
    for (verb, arg) in options(&command) {
        let applies = arg.get::<Applies>().unwrap();
        let heading = arg.get_help_heading().unwrap_or_default();
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let id = arg.get_id();
        assert!(
            !help.contains("with --output-file)") && !help.contains("(with --"),
            "{verb} {id}: by hand: {help}"
        );
        if !applies.is_limited_in(verb) {
            continue;
        }
        for need in &applies.needs {
            let said = need.heading().as_deref() == Some(heading) || help.contains(&need.nouns());
            assert!(said, "{verb} {id}: {heading}: {help}");
            limited += 1;
        }
        for other in &applies.with {
            let long = format!("--{}", other.replace('_', "-"));
            assert!(heading.contains(&long) || help.contains(&long), "{verb} {id}: {heading}: {help}");
        }
    }
    assert!(limited > 100, "{limited}");
}

/// What a file sets for another format is noted with its line, and is no error.
#[test]
fn what_a_file_sets_for_another_format_is_noted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "listen = 'udp://:0'\nwindow = 4\nheap-window = 8\n[send]\nevent = '1MiB'\npayload = 4000\n";
    std::fs::write(file.path(), text).unwrap();
    let noted = |line: &str| {
        let command = definition();
        let config = format!("--config={}", file.path().display());
        let words = ["skyhaul", &config].into_iter().chain(line.split(' ')).map(Into::into).collect();
        let merged = merge(&command, definition, words, &ConfigPaths::default()).unwrap();
        let matches = command.clone().try_get_matches_from(&merged.words).unwrap();
        let cli = Cli::from_arg_matches(&matches).unwrap();
        check(&situation(&cli).unwrap(), &command, &matches, &merged.from_file).unwrap()
    };
    let path = file.path().display();
    assert_eq!(
        noted("receive --format spead"),
        [format!("{path}:2: --window does nothing with --format spead and is ignored")]
    );
    assert_eq!(
        noted("receive --format vdif"),
        [format!("{path}:3: --heap-window does nothing with --format vdif and is ignored")]
    );
    assert!(noted("receive").is_empty());
    let notes: BTreeSet<String> = noted("send --to udp://10.0.0.1:1 --input x").into_iter().collect();
    let right = [
        format!("{path}:5: --event does nothing with frames and is ignored"),
        format!("{path}:6: --payload does nothing with --input and is ignored"),
    ];
    assert_eq!(notes, right.into());
}
