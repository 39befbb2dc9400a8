//! `--show-config`: the settings in force, as a file that would produce them.

use super::options::{Merged, options};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// One line for each option that has a value, with its origin; then the names of the others.
pub(super) fn text(
    command: &Command,
    verb: &Command,
    merged: &Merged,
    file: Option<&Path>,
    usual: &[PathBuf],
) -> String {
    let mut out = match file {
        Some(path) => format!("# from {}\n", path.display()),
        None => {
            let looked: Vec<String> = usual.iter().map(|path| path.display().to_string()).collect();
            format!("# no configuration file: none named, none at {}\n", looked.join(" or "))
        }
    };
    let _ = writeln!(out, "[{}]", verb.get_name());
    // Required options may still be missing.
    let matches = command.clone().ignore_errors(true).try_get_matches_from(&merged.words).ok();
    let Some((_, matches)) = matches.as_ref().and_then(ArgMatches::subcommand) else { return out };
    let (mut lines, mut unset) = (Vec::new(), Vec::new());
    for (arg, long) in options(verb) {
        let id = arg.get_id().as_str();
        let raw =
            matches.get_raw(id).map(|all| all.map(|one| quoted(&one.to_string_lossy())).collect::<Vec<_>>());
        let source = matches.value_source(id);
        let place = match (merged.from_file.get(id), source) {
            (Some(place), _) => place.as_str(),
            (None, Some(ValueSource::CommandLine)) => "command line",
            (None, _) => "default",
        };
        let value = if !arg.get_action().takes_values() {
            matches.get_flag(id).to_string()
        } else if let Some(raw) = raw.filter(|_| source.is_some()) {
            match &raw[..] {
                [one] => one.clone(),
                all => format!("[{}]", all.join(", ")),
            }
        } else {
            unset.push(long);
            continue;
        };
        lines.push((format!("{long} = {value}"), place));
    }
    let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0).min(60);
    for (line, place) in lines {
        let _ = writeln!(out, "{line:<width$}  # {place}");
    }
    let _ = writeln!(out, "# not set: {}", unset.join(", "));
    out
}

/// A TOML string, which has the same escapes as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
