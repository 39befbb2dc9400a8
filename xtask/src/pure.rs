//! The proof that the core is pure: it can reach no clock, socket, file, thread or process.
//!
//! Building for `wasm32-unknown-unknown` alone proves little, for the standard library is there whole and fails
//! only when it runs. So the proof has two halves: the core's code may name only those modules of `std` that are
//! pure data (a list of what is allowed, not of what is forbidden), and it has no dependencies that could reach
//! further ([`crate::arrows`]). Where the target is installed the build for wasm32 is made as well.

use crate::source::{Source, words};
use crate::workspace;
use anyhow::{Context, Result};
use std::process::{Command, Stdio};

/// Modules of `std`, `core` and `alloc` that touch nothing outside the program's own memory.
const ALLOWED: [&str; 31] = [
    "any",
    "array",
    "borrow",
    "boxed",
    "cell",
    "char",
    "cmp",
    "collections",
    "convert",
    "default",
    "error",
    "f32",
    "f64",
    "fmt",
    "hash",
    "hint",
    "iter",
    "marker",
    "mem",
    "num",
    "ops",
    "option",
    "rc",
    "result",
    "slice",
    "str",
    "string",
    "sync",
    "u64",
    "u8",
    "vec",
];
/// Modules that are pure in `core` and not in `std`: `core::net` has addresses, `std::net` sockets too; `core::time` has only `Duration`,
/// `std::time` clocks too.
const ALLOWED_IN_CORE: [&str; 2] = ["net", "time"];
/// Macros that write to the terminal or read the environment, and the locks and channels under `std::sync`, which
/// would block.
const FORBIDDEN: [&str; 14] = [
    "println",
    "eprintln",
    "print",
    "eprint",
    "dbg",
    "env",
    "option_env",
    "Mutex",
    "RwLock",
    "Condvar",
    "Barrier",
    "mpsc",
    "Instant",
    "SystemTime",
];
const TARGET: &str = "wasm32-unknown-unknown";

/// Scan the core and, with `wasm`, build it for wasm32, adding the target with rustup if it is missing.
pub(crate) fn run(wasm: bool) -> Result<Vec<String>> {
    let mut found = findings()?;
    if wasm {
        match build()? {
            Build::Done => println!("core builds for {TARGET}"),
            Build::Failed => found.push(format!("crates/core does not build for {TARGET}")),
            Build::NoTarget => {
                println!(
                    "skipped: build for {TARGET}: not installed (rustup target add {TARGET}); source scan held"
                );
            }
        }
    }
    Ok(found)
}

/// How the build for wasm32 went.
#[derive(PartialEq, Eq)]
pub(crate) enum Build {
    Done,
    Failed,
    NoTarget,
}

/// Build the core for wasm32.
pub(crate) fn build() -> Result<Build> {
    if !installed() {
        // Not there and not to be had (no rustup, no network) is the same answer: the scan alone.
        let _ = Command::new("rustup")
            .args(["target", "add", TARGET])
            .current_dir(workspace::root())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !installed() {
            return Ok(Build::NoTarget);
        }
    }
    let status = workspace::cargo()
        .args(["check", "--quiet", "--locked", "--package", "skyhaul-core", "--lib", "--target", TARGET])
        .status()
        .context("run cargo check")?;
    Ok(if status.success() { Build::Done } else { Build::Failed })
}

fn installed() -> bool {
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .current_dir(workspace::root())
        .output();
    asked.is_ok_and(|output| {
        output.status.success()
            && std::path::Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir()
    })
}

/// What the core names that is not pure, one line each.
pub(crate) fn findings() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in workspace::files()? {
        if path.starts_with("crates/core/src") && path.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(workspace::root().join(&path))?;
            for (line, name) in impure(&Source::new(&text).body()) {
                found.push(format!("{}:{line}: the core names {name}", path.display()));
            }
        }
    }
    Ok(found)
}

/// Names in `code` that the core must not use, with their lines.
fn impure(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, word) in words(code) {
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + word.len()..];
        if ["std", "core", "alloc"].contains(&word) && rest.starts_with("::") {
            let reached = first_parts(&rest[2..]);
            found.extend(
                reached
                    .into_iter()
                    .filter(|part| !ALLOWED.contains(&part.as_str()))
                    .filter(|part| word != "core" || !ALLOWED_IN_CORE.contains(&part.as_str()))
                    .map(|part| (line, format!("{word}::{part}"))),
            );
        } else if FORBIDDEN.contains(&word) {
            found.push((line, word.to_owned()));
        }
    }
    found
}

/// The first name of each branch of a path: `{fmt, io::Read}` reaches `fmt` and `io`.
fn first_parts(path: &str) -> Vec<String> {
    let first = |text: &str| {
        words(text).next().filter(|(at, _)| text[..*at].trim().is_empty()).map(|(_, w)| w.to_owned())
    };
    let Some(list) = path.strip_prefix('{') else { return first(path).into_iter().collect() };
    let (mut depth, mut parts, mut from) = (0, Vec::new(), 0);
    for (n, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.extend(first(&list[from..n]));
                from = n + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_is_pure() {
        let found = findings().unwrap();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    #[test]
    fn what_reaches_outside_is_found() {
        let names = |code| impure(code).into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(
            names("use std::{collections::{BTreeMap, VecDeque}, time::Instant, fmt};"),
            ["std::time", "Instant"]
        );
        assert_eq!(names("fn a() { std::thread::sleep(d); println!(); }"), ["std::thread", "println"]);
        assert_eq!(names("use core::net::IpAddr; use std::net::IpAddr;"), ["std::net"]);
        assert_eq!(names("use std::collections::BTreeMap; use crate::core_time::X;"), [""; 0]);
    }
}
