use super::*;
use crate::args::cli::definition;
use crate::args::{Parsed, Verb, parse};
use std::io::Write as _;

/// A file with this text, and where it is looked for.
fn places(text: &str) -> (tempfile::NamedTempFile, ConfigPaths) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let usual = vec!["/nonexistent/skyhaul.toml".into(), file.path().to_owned()];
    (file, ConfigPaths { named: None, usual })
}

fn read(text: &str, line: &str) -> Result<Parsed> {
    let (_file, places) = places(text);
    parse(["skyhaul"].into_iter().chain(line.split(' ')), &places)
}

fn verb(text: &str, line: &str) -> Verb {
    match read(text, line) {
        Ok(Parsed::Run(cli)) => cli.verb,
        Ok(Parsed::Show(shown)) => panic!("{shown}"),
        Err(error) => panic!("{line}: {error}"),
    }
}

fn said(text: &str, line: &str) -> String {
    read(text, line).map(|_| ()).unwrap_err().to_string()
}

const STATION: &str = r#"
disk = ["/mnt/disk0", "/mnt/disk1"]
quiet = true

[record]
listen = "udp://10.0.2.5:46227"
memory = "8GiB"
window = 3
disk = ["/mnt/disk7"]

[send]
rate = "4Gbps"
"#;

#[test]
fn a_file_says_what_was_not_typed() {
    let Verb::Record(args) = verb(STATION, "record --scan s") else { panic!() };
    assert_eq!(args.disks.disk, ["/mnt/disk7"].map(PathBuf::from), "of the verb, not of all");
    assert_eq!(args.common.listen[0].to_string(), "udp://10.0.2.5:46227");
    assert_eq!((args.common.memory.unwrap().bytes(), args.common.stream.window), (8 << 30, 3));
    assert!(args.output.quiet);
    let Verb::Check(args) = verb(STATION, "check s") else { panic!() };
    assert_eq!(args.disks.disk, ["/mnt/disk0", "/mnt/disk1"].map(PathBuf::from));
}

#[test]
fn what_is_typed_replaces_all_of_what_the_file_says() {
    let line = "record --scan s --memory=1GiB --disk /d --listen udp://:0 --window 1";
    let Verb::Record(args) = verb(STATION, line) else { panic!() };
    assert_eq!(args.disks.disk, ["/d"].map(PathBuf::from));
    assert_eq!(args.common.listen.len(), 1);
    assert_eq!((args.common.memory.unwrap().bytes(), args.common.stream.window), (1 << 30, 1));
    // An option may be short, and its value stand behind it.
    let short = |line| match verb("output-file = 'a'\nmemory = '1GiB'", line) {
        Verb::Receive(args) => (args.output_file, args.common.memory.is_some()),
        _ => panic!(),
    };
    for line in ["receive --listen udp://:0 -qo memory", "receive -omemory --listen udp://:0"] {
        assert_eq!(short(line), (Some("memory".into()), true), "{line}");
    }
}

#[test]
fn what_has_no_meaning_beside_the_rest_is_left_out() {
    let Verb::Record(args) = verb(STATION, "record --scan s --pcap x.pcap") else { panic!() };
    assert!(args.common.listen.is_empty(), "a capture takes the place of a socket");
    let Verb::Send(args) = verb(STATION, "send --to udp://10.0.0.1:1") else { panic!() };
    assert!(args.disk.is_empty(), "a disk is that of a recording");
    let Verb::Send(args) = verb(STATION, "send --to udp://10.0.0.1:1 --scan s") else { panic!() };
    assert_eq!(args.disk.len(), 2);
    // One key may need another one, whichever comes first.
    let Verb::Send(args) =
        verb("[send]\ndisk = '/d'\nscan = 's'\nstream = 1\n", "send --to udp://10.0.0.1:1")
    else {
        panic!()
    };
    assert_eq!((args.scan.as_deref(), args.stream, args.disk.len()), (Some("s"), Some(1), 1));
    let Verb::Send(args) =
        verb("[send]\ndisk = '/d'\nstream = 1\nquiet = true\n", "send --to udp://10.0.0.1:1")
    else {
        panic!()
    };
    assert_eq!((args.stream, args.disk.len(), args.output.quiet), (None, 0, true));
    // Nor is what other formats need a mistake where a file says it.
    let Verb::Receive(args) = verb("listen = 'udp://:0'\nwindow = 4", "receive --format spead") else {
        panic!()
    };
    assert_eq!(args.common.listen.len(), 1);
    assert!(said("listen = 'udp://:0'", "receive --format spead --window 4").contains("--heap-window"));
}

#[test]
fn a_mistake_in_the_file_is_reported_with_its_line() {
    for (text, line, wrong, hint) in [
        ("\nmemry = 1", "ls --disk d", ":2: unknown key `memry`", "memory, "),
        (
            "[record]\n\nmemry = 1",
            "ls --disk d",
            ":3: unknown key `memry`",
            "the keys of record are by-sender, bytes, ",
        ),
        ("[recrod]\nmemory = 1", "ls --disk d", ":1: unknown section `recrod`", "schedule, record, serve, "),
        ("disk = ['a'\nmemory", "ls", ":2: ", "write lines as"),
        (
            "[record]\nmemory = 'lots'",
            "record --scan s --disk d --listen udp://:0",
            ":2: memory: 'lots'",
            "64MiB",
        ),
        (
            "[record]\ntier = 'fast'",
            "record --scan s --disk d --listen udp://:0",
            ":2: tier: invalid",
            "ring",
        ),
        ("json = 1", "ls --disk d", ":1: `json` must be true or false", "without quotes"),
        ("memory = ['1GiB']", "ls --disk d", ":1: `memory` takes one value", "instead of a list"),
        ("window = true", "ls --disk d", ":1: `window` needs a string", "in quotes"),
        ("[record]\nmemory = {a = 1}", "ls --disk d", ":2: `memory` needs a string", "in quotes"),
        (
            "[send]\npattern = true\nnoise = true",
            "send --to udp://:1",
            "cannot be used with",
            "remove one of them",
        ),
        ("disk = [['a']]", "ls", ":1: `disk` must be a list of strings", "[\"a\", \"b\"]"),
        ("config = 'x'", "ls --disk d", ":1: unknown key `config`", "disk, "),
        (
            "[ls]\nshow-config = true",
            "ls --disk d",
            ":2: unknown key `show-config`",
            "the keys of ls are disk, json, quiet",
        ),
    ] {
        let said = said(text, line);
        assert!(said.contains(wrong) && said.contains(hint), "{text}: {said}");
    }
}

#[test]
fn help_and_mistakes_on_the_command_line_come_before_the_file() {
    for (line, told) in
        [("record --help", "--scan"), ("record --frobnicate", "--frobnicate"), ("frobnicate", "frobnicate")]
    {
        let said = said("nonsense", line);
        assert!(said.contains(told), "{line}: {said}");
    }
    // What neither says is missing.
    assert!(said("disk = 'd'", "record --listen udp://:0").contains("--scan"));
}

proptest::proptest! {
    #[test]
    fn no_file_panics(text in "\\PC*", key in "[a-z-]{0,8}", value in "[\\[{'\"]?[0-9a-z.:-]{0,8}[]}'\"]?") {
        for text in [text, format!("{key} = {value}"), format!("[record]\nmemory = {value}\n[{key}]\n{value} = 1")] {
            let _ = read(&text, "record --scan s --disk d --listen udp://:0");
        }
    }
}

#[test]
fn a_file_that_is_named_must_be_there() {
    let (file, places) = places("memory = '1MiB'");
    let named = ConfigPaths { named: Some("/no/such/file".into()), ..places.clone() };
    let read =
        |line: &str, places: &ConfigPaths| parse(["skyhaul"].into_iter().chain(line.split(' ')), places);
    let said = read("ls --disk d", &named).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("read /no/such/file") && said.contains("hint: "), "{said}");
    // The command line's before that of the environment, before or behind the verb.
    let path = file.path().display();
    for line in [format!("ls --disk d --config {path}"), format!("--config={path} ls --disk d")] {
        assert!(read(&line, &named).is_ok(), "{line}");
    }
    let shut_out = ConfigPaths { named: Some("/dev/null".into()), ..places.clone() };
    assert!(read("ls --disk d", &shut_out).is_ok());
    assert!(read("ls --disk d", &ConfigPaths::default()).is_ok());
}

#[test]
fn what_is_in_force_is_shown_with_where_it_comes_from() {
    let (file, places) = places(STATION);
    let show = |line: &str, places: &ConfigPaths| match parse(
        ["skyhaul"].into_iter().chain(line.split(' ')),
        places,
    ) {
        Ok(Parsed::Show(text)) => text,
        _ => panic!("{line}"),
    };
    let shown = show("record --show-config --memory 1GiB --pcap a\"b", &places);
    let path = file.path().display();
    for (line, place) in [
        ("memory = \"1GiB\"", "command line".to_owned()),
        ("pcap = \"a\\\"b\"", "command line".to_owned()),
        ("disk = \"/mnt/disk7\"", format!("{path}:9")),
        ("quiet = true", format!("{path}:3")),
        ("window = \"3\"", format!("{path}:8")),
        ("flush = \"5s\"", "default".to_owned()),
        ("json = false", "default".to_owned()),
    ] {
        let found = shown.lines().find(|shown| shown.starts_with(line));
        assert!(found.is_some_and(|found| found.ends_with(&format!("  # {place}"))), "{line}: {shown}");
    }
    assert!(shown.contains("# not set: listen, ") && shown.contains(", scan, "), "{shown}");
    // It is a file that says the same.
    let (again, places) = self::places(&shown.replace("\nwindow", "\nscan = \"s\"\nwindow"));
    assert!(parse(["skyhaul", "record"], &places).is_ok(), "{}: {shown}", again.path().display());
    let none = show("ls --show-config", &ConfigPaths { named: None, usual: vec!["/etc/nowhere".into()] });
    assert!(none.starts_with("# no configuration file: none named, none at /etc/nowhere\n[ls]\n"), "{none}");
}

/// Every option of every verb is a key, and the example of the documents has none but those.
#[test]
fn the_example_of_the_documents() {
    let page = include_str!("../../../../../docs/reference/configuration.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let Verb::Record(args) = verb(example, "record --scan s") else { panic!() };
    assert_eq!(args.disks.disk.len(), 4);
    assert!(args.common.memory.is_some() && args.common.forward.len() == 1, "{args:?}");
    let Verb::Receive(_) = verb(example, "receive") else { panic!() };
    let Verb::Send(args) = verb(example, "send --to udp://10.0.0.1:1") else { panic!() };
    assert_eq!(args.rate.len(), 1);
    let command = definition();
    for section in example.lines().filter_map(|line| line.strip_prefix('[')) {
        assert!(command.find_subcommand(section.trim_end_matches(']')).is_some(), "{section}");
    }
}

/// Help says what a file may hold, and names the page, which is there.
#[test]
fn help_says_what_a_file_may_hold() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = definition();
    let record = command.find_subcommand_mut("record").unwrap();
    let help = record.render_long_help().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["TOML", "memory = \"8GiB\"", "[record]", "~/.config/skyhaul/skyhaul.toml"] {
        assert!(help.contains(said), "{said}: {help}");
    }
    let page = help.split("/blob/main/").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(root.join(page).is_file(), "{page}");
}
