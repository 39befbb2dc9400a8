//! Defaults from a file: the settings of a station, so that a command line needs only those of the scan.
//!
//! ```toml
//! disk = ["/mnt/disk0", "/mnt/disk1"]         # for every verb that has --disk
//!
//! [record]                                    # for this verb; overrides the lines above
//! listen = "udp://10.0.2.5:46227"
//! memory = "8GiB"
//! ```
//!
//! There is no list of keys: each key is the long name of an option, and its value is parsed and checked by that option's
//! definition. So a file can say nothing that a command line cannot.
//!
//! ```text
//!   words ──▶ which options were typed ─┐
//!   file ──▶ keys, each known? ─────────┴▶ words + options that were not typed and are compatible with those that were
//! ```
//!
//! An option is left out if it conflicts with one that was typed (`listen` with `--pcap`), or if it requires one that is
//! absent (`disk` in `send` without `--scan`): the definition decides, by refusing the words with it.
//!
//! Limits: only the first file found is read. A flag that the file sets can be cleared only by choosing another file
//! (`--config /dev/null`). Paths are relative to the working directory.

mod file;

use super::limits::GENERAL;
use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, ValueHint};
use file::{File, Setting, options};
use skyhaul::core::hint::Hint;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Where defaults come from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = GENERAL)]
pub(crate) struct ConfigArgs {
    /// Read defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else
    /// /etc/skyhaul.toml)
    ///
    /// It is TOML: a key is the long name of an option, such as memory = "8GiB", in the section of its verb, such as
    /// [record], or above all sections for every verb that has it. More:
    /// https://github.com/skyhaul/skyhaul/blob/main/docs/reference/configuration.md
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print the settings in force and where each comes from, then exit
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) show_config: bool,
}

/// Where to look for a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigPaths {
    /// Named by the environment; must exist.
    named: Option<PathBuf>,
    /// The first of these that exists is read.
    usual: Vec<PathBuf>,
}

impl ConfigPaths {
    /// Those of the current user on this host.
    pub(crate) fn of_this_user() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        let own = home.map(|home| home.join("skyhaul/skyhaul.toml"));
        Self {
            named: variable("SKYHAUL_CONFIG"),
            usual: own.into_iter().chain([PathBuf::from("/etc/skyhaul.toml")]).collect(),
        }
    }

    /// The file to read; `typed` is that of the command line.
    pub(super) fn file(&self, typed: Option<&Path>) -> Option<PathBuf> {
        let named = typed.or(self.named.as_deref()).map(Path::to_owned);
        named.or_else(|| self.usual.iter().find(|path| path.exists()).cloned())
    }
}

/// Add the defaults of a file to `words`. `command` must have been built; `all` gives every verb with its options.
pub(super) fn merge(
    command: &Command,
    all: fn() -> Command,
    words: Vec<OsString>,
    places: &ConfigPaths,
) -> Result<Merged> {
    let mut merged = Merged { words, from_file: BTreeMap::new(), shown: None };
    let verb = find_verb(command, &merged.words).filter(|(_, verb)| !verb.is_hide_set());
    let Some((at, verb)) = verb else { return Ok(merged) };
    let before = typed(command, &merged.words[1..at]);
    let behind = typed(verb, &merged.words[at + 1..]);
    let config = before.value("config").or_else(|| behind.value("config"));
    let path = places.file(config.as_deref());
    let is_shown = before.ids.contains("show_config") || behind.ids.contains("show_config");
    if path.is_none() && !is_shown {
        return Ok(merged);
    }
    let Ok(missing) = missing(command, &merged.words) else {
        // Help or a mistake: reported as if there were no file.
        return Ok(merged);
    };
    if let Some(path) = &path {
        let file = File::read(path, all)?;
        let settings = file.of(verb).filter(|setting| !behind.ids.contains(&setting.id)).collect();
        take(command, &mut merged, at, &missing, path, settings)?;
    }
    if is_shown {
        merged.shown = Some(text(command, verb, &merged, path.as_deref(), &places.usual));
    }
    Ok(merged)
}

/// Insert the compatible settings after the verb, which is word `at`. Without them, the words lack `lacking`.
fn take(
    command: &Command,
    merged: &mut Merged,
    at: usize,
    lacking: &BTreeSet<String>,
    path: &Path,
    settings: Vec<&Setting>,
) -> Result<()> {
    let with = |settings: &[&Setting]| {
        let mut words = merged.words.clone();
        words.splice(at + 1..at + 1, settings.iter().flat_map(|setting| setting.words.iter().cloned()));
        words
    };
    // Those compatible with what was typed, and whether they require another option.
    let mut taken: Vec<(&Setting, bool)> = Vec::new();
    for setting in settings {
        match missing(command, &with(&[setting])) {
            Ok(now) => taken.push((setting, !now.is_subset(lacking))),
            Err(error) if error.kind() == ErrorKind::ArgumentConflict => {}
            Err(error) => return Err(anyhow!("{}: {}: {}", setting.place, setting.key, reason(&error))),
        }
    }
    let words = loop {
        let all: Vec<&Setting> = taken.iter().map(|(setting, _)| *setting).collect();
        let words = with(&all);
        let now = missing(command, &words).map_err(|error| {
            anyhow!("{}: {}{}", path.display(), reason(&error), Hint("remove one of them"))
        })?;
        if now.is_subset(lacking) {
            break words;
        }
        // One requires an option that is absent: one whose removal leaves less missing, or else any that requires something.
        let rest = |n: usize| [&all[..n], &all[n + 1..]].concat();
        let less = |n: &usize| missing(command, &with(&rest(*n))).is_ok_and(|less| less.len() < now.len());
        let Some(gone) = (0..all.len()).find(less).or_else(|| taken.iter().position(|(_, needs)| *needs))
        else {
            break words;
        };
        taken.remove(gone);
    };
    merged.words = words;
    merged.from_file = taken.iter().map(|(one, _)| (one.id.clone(), one.place.clone())).collect();
    Ok(())
}

/// The required arguments that these words lack.
///
/// # Errors
/// The words are wrong in another way.
fn missing(command: &Command, words: &[OsString]) -> Result<BTreeSet<String>, clap::Error> {
    let Err(error) = command.clone().try_get_matches_from(words) else { return Ok(BTreeSet::new()) };
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return Err(error);
    }
    Ok(match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(all)) => all.iter().cloned().collect(),
        _ => BTreeSet::new(),
    })
}

/// What is wrong with a value, without clap's words about a command line that it did not come from.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join("; ").trim_start_matches("error: ").to_owned()
}

/// The verb, and its position among the words.
pub(super) fn find_verb<'a>(command: &'a Command, words: &[OsString]) -> Option<(usize, &'a Command)> {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        let text = word.to_str()?;
        if !text.starts_with('-') {
            return Some((at, command.find_subcommand(text)?));
        }
        at += 1 + usize::from(text == "--config");
    }
    None
}

/// Options found among words.
#[derive(Debug, Default)]
struct Typed {
    ids: BTreeSet<String>,
    values: BTreeMap<String, OsString>,
}

impl Typed {
    fn value(&self, id: &str) -> Option<PathBuf> {
        self.values.get(id).map(PathBuf::from)
    }
}

/// The options of `command` that were typed.
fn typed(command: &Command, words: &[OsString]) -> Typed {
    let mut found = Typed::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if text == "--" {
            break;
        }
        let mut note = |arg: &Arg, value: Option<&str>| {
            let id = arg.get_id().to_string();
            if arg.get_action().takes_values() {
                let value = value.map(OsString::from).or_else(|| words.next().cloned());
                found.values.insert(id.clone(), value.unwrap_or_default());
            }
            found.ids.insert(id);
        };
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(name)) {
                note(arg, value);
            }
        } else if let Some(shorts) = text.strip_prefix('-') {
            for (at, short) in shorts.char_indices() {
                let Some(arg) = command.get_arguments().find(|arg| arg.get_short() == Some(short)) else {
                    break;
                };
                let rest = &shorts[at + short.len_utf8()..];
                note(arg, Some(rest).filter(|rest| !rest.is_empty()));
                if arg.get_action().takes_values() {
                    break;
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;

/// A command line completed from a file.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) words: Vec<OsString>,
    /// Options that the file has set, by id, with the file and line.
    pub(crate) from_file: BTreeMap<String, String>,
    /// What `--show-config` prints, if it was given.
    pub(crate) shown: Option<String>,
}

/// One line for each option that has a value, with its origin; then the names of the others.
fn text(
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
