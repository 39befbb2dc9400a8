//! Every option that a text of this program names exists, and belongs to the verb that the text names.
//!
//! The texts are read from the sources: hints, errors, notes, help, what to type next.
//!
//! An option that requires another one is refused without it, whatever else is given.
//!
//! clap does not ask for an option that conflicts with one that is given. So `--loop`, which requires `--input`, was taken with
//! `--scan`, and ignored. Such an option must itself conflict with what excludes the other one.

use super::described;
use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Options of other programs, which texts name as well: the program, and its options.
const OTHERS: [(&str, &[&str]); 9] = [
    ("ethtool", &["--set-fec", "--set-priv-flags"]),
    ("numactl", &["--cpunodebind", "--membind"]),
    ("prlimit", &["--pid", "--memlock", "--nofile"]),
    ("mdadm", &["--create", "--level", "--chunk"]),
    ("findmnt", &["--real"]),
    (
        "fio",
        &["--filename", "--rw", "--bs", "--iodepth", "--ioengine", "--end", "--thread", "--output-format"],
    ),
    ("pip, maturin, cargo", &["--features", "--release", "--no-default-features"]),
    ("spead2, meson", &["--mem-pool", "--mem-lower", "--mem-upper", "--buffer", "--buildtype"]),
    // Its own name for what `probe --pacing` and `--windows` are.
    ("iperf3", &["--fq-rate", "--get-server-output", "--one-off"]),
];

fn sources(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // Those of a test are its own.
            if !path.ends_with("tests") {
                sources(&path, all);
            }
        } else if path.extension().is_some_and(|is| is == "rs") && !path.ends_with("tests.rs") {
            all.push(path);
        }
    }
}

/// The string literals of a source outside its tests and comments, with what is continued on the next line.
fn literals(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let (mut all, mut inside, mut escaped) = (Vec::new(), None::<String>, false);
    let mut before = ' ';
    for c in text.chars() {
        match &mut inside {
            Some(literal) if escaped => {
                escaped = false;
                // The end of a line in the text, or in the source.
                literal.push(match c {
                    'n' => '\n',
                    '\n' => ' ',
                    c => c,
                });
            }
            Some(_) if c == '\\' => escaped = true,
            Some(_) if c == '"' => all.extend(inside.take()),
            Some(literal) => literal.push(c),
            // A quotation mark as a character begins nothing.
            None if c == '"' && before != '\'' => inside = Some(String::new()),
            None => {}
        }
        before = c;
    }
    all
}

/// The options that a text names, and where.
fn options(text: &str) -> Vec<(usize, String)> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find("--").map(|at| from + at) {
        let name: String = text[at..].chars().take_while(|c| is_name(*c)).collect();
        let begins = text[..at].chars().next_back().is_none_or(|c| !is_name(c) && !c.is_alphanumeric());
        from = at + name.len().max(2);
        let name = name.trim_end_matches('-').to_owned();
        // `--with-` is the beginning of some, which is said by a star or dots behind it.
        if begins && name.len() > 3 && name.as_bytes()[2].is_ascii_lowercase() {
            all.push((at, name));
        }
    }
    all
}

fn long_options(command: &Command, all: &mut BTreeSet<String>) {
    all.extend(command.get_arguments().filter_map(|a| a.get_long()).map(|long| format!("--{long}")));
    for alias in command.get_arguments().filter_map(|a| a.get_all_aliases()).flatten() {
        all.insert(format!("--{alias}"));
    }
    command.get_subcommands().for_each(|sub| long_options(sub, all));
}

/// The verb that is named last before a place of a text, in its line, with all below it.
fn verb<'a>(root: &'a Command, text: &str) -> Option<&'a Command> {
    let line = text.rsplit('\n').next().unwrap_or_default();
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == '`').collect();
    let at = words.iter().rposition(|word| *word == "skyhaul")?;
    // What is between is of that command: another sentence is not.
    if words[at..].iter().any(|word| word.ends_with(['.', ';', ','])) {
        return None;
    }
    let found = root.find_subcommand(words.get(at + 1)?)?;
    Some(words.get(at + 2).and_then(|word| found.find_subcommand(word)).unwrap_or(found))
}

#[test]
fn every_option_that_a_text_names_exists() {
    let mut root = described();
    root.build();
    let mut known = BTreeSet::from(["--help".to_owned(), "--version".to_owned(), "--config".to_owned()]);
    long_options(&root, &mut known);
    let others: BTreeSet<&str> = OTHERS.iter().flat_map(|(_, all)| *all).copied().collect();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in ["core", "io", "skyhaul", "measure", "transfer", "daemon", "cli"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in files.iter().filter(|file| !file.ends_with("args/advised.rs")) {
        for text in literals(&std::fs::read_to_string(file).unwrap()) {
            // Lines to type next begin with a command that is put in.
            let text = text.replace("{probe}", "skyhaul probe");
            for (at, option) in options(&text) {
                seen += 1;
                let mut of_verb = known.clone();
                if let Some(verb) = verb(&root, &text[..at]) {
                    of_verb = BTreeSet::from(["--help".to_owned(), "--config".to_owned()]);
                    long_options(verb, &mut of_verb);
                }
                if !of_verb.contains(&option) && !others.contains(option.as_str()) {
                    let file = file.strip_prefix(crates).unwrap();
                    wrong.push(format!("{}: {option} in {text:?}", file.display()));
                }
            }
        }
    }
    assert!(seen > 300, "{seen} options were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every option accepts at least one of these values.
const VALUES: [&str; 35] = [
    "fts=https://fts.example:8446",
    "9fee8c1e-c46d-11e3-8299-02163e00a17a",
    "station=Ef",
    "22:00-06:00",
    "1",
    "5MHz@10kHz",
    "64",
    "1500",
    "1024",
    "1s",
    "1MiB",
    "1Gbps",
    "0.5",
    "127.0.0.1:9000",
    "udp://127.0.0.1:9000",
    "127.0.0.1",
    "name",
    "2026-01-01T00:00:00Z",
    "10.0.0.0/8",
    "ejfat://token@127.0.0.1:1/lb/1",
    "loss=0.01",
    "48",
    "2",
    "tick",
    "A",
    "pfifo=100",
    "a,b",
    "2,3",
    "2:3",
    "50%",
    "npy",
    "both",
    "0..1MiB",
    "rdma+udp://127.0.0.1:1/a",
    "a:1MiB:read",
];

/// A command, and what it cannot do without.
struct Parser {
    command: Command,
    always: Vec<String>,
}

impl Parser {
    fn parse(&self, words: &[String]) -> Result<ArgMatches, clap::Error> {
        self.command.clone().try_get_matches_from(self.always.iter().chain(words))
    }

    /// An argument as it is typed, with a value that it takes.
    fn typed(&self, arg: &Arg) -> Option<Vec<String>> {
        let possible = arg.get_possible_values();
        let values = possible.iter().map(PossibleValue::get_name).chain(VALUES);
        let count = arg.get_num_args().map_or(0, |range| range.min_values());
        let takes = arg.get_action().takes_values();
        let is_value = |error: &clap::Error| {
            use ErrorKind::{
                InvalidValue, TooFewValues, TooManyValues, ValueValidation, WrongNumberOfValues,
            };
            matches!(
                error.kind(),
                InvalidValue | ValueValidation | TooFewValues | TooManyValues | WrongNumberOfValues
            )
        };
        values.take(if takes { usize::MAX } else { 1 }).find_map(|value| {
            let mut words: Vec<String> = arg.get_long().map(|long| format!("--{long}")).into_iter().collect();
            if takes {
                words.extend(std::iter::repeat_n(value.to_owned(), count.max(1)));
            }
            self.parse(&words).err().is_none_or(|error| !is_value(&error)).then_some(words)
        })
    }

    /// Options that are missing beside these words.
    fn missing(&self, words: &[String]) -> Vec<&Arg> {
        let Err(error) = self.parse(words) else { return Vec::new() };
        let (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(names))) =
            (error.kind(), error.get(ContextKind::InvalidArg))
        else {
            return Vec::new();
        };
        let by_name = |name: &String| {
            let long = name.strip_prefix("--")?.split([' ', '=', '[']).next()?;
            self.command.get_arguments().find(|arg| arg.get_long() == Some(long))
        };
        names.iter().filter_map(by_name).collect()
    }

    /// An argument with all that it requires.
    fn complete(&self, arg: &Arg) -> Option<Vec<String>> {
        let mut words = self.typed(arg)?;
        for _ in 0..4 {
            let missing = self.missing(&words);
            if missing.is_empty() {
                return Some(words);
            }
            for other in missing {
                words.extend(self.typed(other)?);
            }
        }
        None
    }
}

/// All commands without subcommands of their own, or that work without one.
fn leaves(command: &Command, all: &mut Vec<Command>) {
    if !command.is_subcommand_required_set() {
        all.push(command.clone());
    }
    command.get_subcommands().for_each(|inner| leaves(inner, all));
}

#[test]
fn what_is_required_is_asked_for_whatever_else_is_given() {
    let mut commands = Vec::new();
    let mut root = described();
    root.build();
    leaves(&root, &mut commands);
    let (mut waived, mut unknown, mut seen) = (Vec::new(), Vec::new(), 0);
    for command in commands {
        let command = command.no_binary_name(true);
        let mut parser = Parser { command, always: Vec::new() };
        let arguments = || parser.command.get_arguments().filter(|arg| arg.is_required_set());
        let mut always: Vec<String> = arguments().filter_map(|arg| parser.typed(arg)).flatten().collect();
        let unless = parser.missing(&always).into_iter().filter_map(|arg| parser.typed(arg)).flatten();
        always.extend(unless.collect::<Vec<_>>());
        parser.always = always;
        let options: Vec<&Arg> = parser
            .command
            .get_arguments()
            .filter(|arg| arg.get_long().is_some() && !arg.is_required_set() && !arg.is_global_set())
            .collect();
        for option in &options {
            let Some(words) = parser.typed(option) else {
                unknown.push(format!("{} --{}", parser.command.get_name(), option.get_id()));
                continue;
            };
            for required in parser.missing(&words) {
                seen += 1;
                for other in options
                    .iter()
                    .filter(|other| ![option.get_id(), required.get_id()].contains(&other.get_id()))
                {
                    let Some(more) = parser.complete(other) else { continue };
                    let Ok(found) = parser.parse(&[words.clone(), more].concat()) else { continue };
                    if found.value_source(required.get_id().as_str()) != Some(ValueSource::CommandLine) {
                        let (verb, id) = (parser.command.get_name(), option.get_id());
                        waived.push(format!(
                            "{verb} --{id} --{}: without --{}",
                            other.get_id(),
                            required.get_id()
                        ));
                    }
                }
            }
        }
    }
    assert!(unknown.is_empty(), "VALUES has none for {}", unknown.join(", "));
    assert!(seen > 20, "{seen} requirements were found");
    assert!(waived.is_empty(), "{} are taken and ignored:\n{}", waived.len(), waived.join("\n"));
}
