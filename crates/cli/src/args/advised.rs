//! Every option that a text of this program names exists, and belongs to the verb that the text names.
//!
//! The texts are read from the sources: hints, errors, notes, help, what to type next.

use super::described;
use clap::Command;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Options of other programs, which texts name as well: the program, and its options.
const OTHERS: [(&str, &[&str]); 8] = [
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
