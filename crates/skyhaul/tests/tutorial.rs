//! The tutorial for Rust: every program of it runs and prints what the page says, and the page shows lines of the program.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A program that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(120);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of the page that follow a link to this step, with their language.
fn blocks(step: &str) -> Vec<(String, String)> {
    let page = fs::read_to_string(root().join("docs/tutorials/rust.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.contains(&format!("examples/{step}.rs)")));
    let section = section.unwrap_or_else(|| panic!("the page has no section for {step}"));
    let mut blocks = Vec::new();
    let mut parts = section.split("\n```");
    while let (Some(_), Some(block)) = (parts.next(), parts.next()) {
        let (language, text) = block.split_once('\n').unwrap();
        blocks.push((language.to_owned(), text.to_owned()));
    }
    blocks
}

/// Whether these lines stand in `program` one below the other, all of them further in by the same indentation.
fn contains(program: &str, block: &str) -> bool {
    let block: Vec<&str> = block.lines().collect();
    let lines: Vec<&str> = program.lines().collect();
    lines.windows(block.len()).any(|here| {
        let Some(indent) = here[0].strip_suffix(block[0]).filter(|indent| indent.trim().is_empty()) else {
            return false;
        };
        here.iter().zip(&block).all(|(line, shown)| {
            line.strip_prefix(indent) == Some(shown) || (line.is_empty() && shown.is_empty())
        })
    })
}

/// Whether `said` is what the page says, in which `…` stands for any text within a line.
fn agrees(page: &str, said: &str) -> bool {
    let (page, said): (Vec<&str>, Vec<&str>) = (page.lines().collect(), said.lines().collect());
    page.len() == said.len()
        && page.iter().zip(said).all(|(line, said)| {
            let mut rest = said;
            let mut parts = line.split('…');
            let first = parts.next().unwrap_or_default();
            let Some(behind) = rest.strip_prefix(first) else { return false };
            rest = behind;
            let found = parts.all(|part| match rest.find(part) {
                Some(at) => {
                    rest = &rest[at + part.len()..];
                    true
                }
                None => false,
            });
            found && (rest.is_empty() || line.ends_with('…'))
        })
}

/// The built program. Cargo builds examples with the tests, unless it is told to build only some of these.
fn program(step: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.ancestors().nth(2).unwrap().join("examples").join(step);
    let source = root().join(format!("crates/skyhaul/examples/{step}.rs"));
    let changed = |path: &Path| fs::metadata(path).and_then(|about| about.modified());
    let is_current = changed(&program).is_ok_and(|built| built >= changed(&source).unwrap());
    assert!(is_current, "{} is not current: cargo build -p skyhaul --examples", program.display());
    program
}

fn run(step: &str) -> String {
    let mut running =
        Command::new(program(step)).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        match running.try_wait().unwrap() {
            Some(status) => break status,
            None if begun.elapsed() > LONGEST => {
                running.kill().unwrap();
                panic!("{step} did not end");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut said = String::new();
    running.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.success(), "{step}: {status}\n{said}");
    said
}

fn hold(step: &str) {
    let source = fs::read_to_string(root().join(format!("crates/skyhaul/examples/{step}.rs"))).unwrap();
    let blocks = blocks(step);
    let shown = blocks.iter().filter(|(language, _)| language == "rust");
    assert!(shown.clone().count() > 0, "{step}: the page shows nothing of it");
    for (_, block) in shown {
        assert!(contains(&source, block), "{step}: these are no lines of the program:\n{block}");
    }
    let [(_, page)] = &blocks.iter().filter(|(language, _)| language == "text").collect::<Vec<_>>()[..]
    else {
        panic!("{step}: the page must show once what it prints");
    };
    let said = run(step);
    assert!(agrees(page, &said), "{step}: the page says\n{page}\nit printed\n{said}");
}

macro_rules! steps {
    ($($step:ident),+ $(,)?) => {
        const STEPS: &[&str] = &[$(stringify!($step)),+];

        $(#[test]
        fn $step() {
            hold(stringify!($step));
        })+
    };
}

steps! {
    step01_receive,
    step02_record,
    step03_read,
    step04_samples,
    step05_check,
    step06_send,
    step07_spead_send,
    step08_spead_receive,
    step09_events,
    step10_mirror,
    step11_sink,
    step12_format,
}

#[test]
fn every_step_is_listed() {
    let files = fs::read_dir(root().join("crates/skyhaul/examples")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut steps: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".rs")?.to_owned())).collect();
    steps.retain(|name| name.starts_with("step"));
    steps.sort();
    assert_eq!(steps, STEPS);
}

#[test]
fn what_differs_is_found() {
    assert!(contains("fn a() {\n    b();\n\n    c();\n}\n", "b();\n\nc();\n"));
    assert!(!contains("fn a() {\n    b();\n        c();\n}\n", "b();\nc();\n"));
    assert!(!contains("let x = b();\n", "b();\n"));
    assert!(agrees("a … c\n", "a b c\n") && agrees("a …\n", "a b\n"));
    assert!(!agrees("a\n", "a b\n") && !agrees("a\n", "a\nb\n") && !agrees("a … d\n", "a b c\n"));
}
