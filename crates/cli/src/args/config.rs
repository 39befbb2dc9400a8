//! Defaults from a file: what a station is, so that a command line says only what this scan is.
//!
//! ```toml
//! disk = ["/mnt/disk0", "/mnt/disk1"]         # for every verb that has --disk
//!
//! [record]                                    # for this verb, before what stands above
//! listen = "udp://10.0.2.5:46227"
//! memory = "8GiB"
//! ```
//!
//! There is no list of keys: each is the long name of an option, and its value becomes that option's, read and refused by
//! the same definition. So a file can say nothing that a command line cannot.
//!
//! ```text
//!   words ──▶ which options were typed ─┐
//!   file ──▶ keys, each known? ─────────┴▶ words + options that were not typed and have a meaning beside those that were
//! ```
//!
//! An option has no meaning beside others if they exclude each other (`--pcap` and `listen`), or if it needs one that is not
//! given (`disk` in `send` without `--scan`): the definition says so, by refusing the words with it.
//!
//! Limits: one file, the first that there is. A flag that the file sets cannot be taken back on the command line, but by
//! another file (`--config /dev/null`). Names are relative to the working directory.

mod file;
mod show;

use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command, ValueHint};
use file::{File, Setting};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where these options stand in `--help`.
const HEADING: &str = "Configuration";
/// Options that no file can set.
const NOT_IN_A_FILE: [&str; 4] = ["config", "show-config", "help", "version"];

/// Where defaults come from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ConfigArgs {
    /// Take defaults from this file (default: $SKYHAUL_CONFIG, else ~/.config/skyhaul/skyhaul.toml, else
    /// /etc/skyhaul.toml)
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print what is in force and where each value comes from, and do nothing else
    #[arg(long, global = true)]
    pub(crate) show_config: bool,
}

/// Where a file is looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Named by the environment: it must be there.
    named: Option<PathBuf>,
    /// The first of these that is there.
    usual: Vec<PathBuf>,
}

impl Places {
    /// Of the user who runs this, on this host.
    pub(crate) fn of_this_user() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")));
        let own = home.map(|home| home.join("skyhaul/skyhaul.toml"));
        Self {
            named: variable("SKYHAUL_CONFIG"),
            usual: own.into_iter().chain([PathBuf::from("/etc/skyhaul.toml")]).collect(),
        }
    }

    /// The file that counts; `typed` is that of the command line.
    fn file(&self, typed: Option<&Path>) -> Option<PathBuf> {
        let named = typed.or(self.named.as_deref()).map(Path::to_owned);
        named.or_else(|| self.usual.iter().find(|path| path.exists()).cloned())
    }
}

/// A command line with what a file adds to it.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) words: Vec<OsString>,
    /// Options that the file has set, by id, and the line that did.
    pub(super) from_file: BTreeMap<String, String>,
    /// What `--show-config` prints, if it was given.
    pub(super) shown: Option<String>,
}

/// Add to `words` what the file says that counts. `command` is built.
pub(super) fn merge(command: &Command, words: Vec<OsString>, places: &Places) -> Result<Merged> {
    let mut merged = Merged { words, from_file: BTreeMap::new(), shown: None };
    let verb = find_verb(command, &merged.words).filter(|(_, verb)| !verb.is_hide_set());
    let Some((at, verb)) = verb else { return Ok(merged) };
    let before = typed(command, &merged.words[1..at]);
    let behind = typed(verb, &merged.words[at + 1..]);
    let Ok(missing) = missing(command, &merged.words) else {
        // Help, or a mistake: told as if there were no file.
        return Ok(merged);
    };
    let config = before.value("config").or_else(|| behind.value("config"));
    let path = places.file(config.as_deref());
    if let Some(path) = &path {
        let file = File::read(path, command)?;
        let settings = file.of(verb).filter(|setting| !behind.ids.contains(&setting.id)).collect();
        take(command, &mut merged, at, &missing, path, settings)?;
    }
    if before.ids.contains("show_config") || behind.ids.contains("show_config") {
        merged.shown = Some(show::text(command, verb, &merged, path.as_deref(), &places.usual));
    }
    Ok(merged)
}

/// Put what has a meaning beside the rest behind the verb, which is word `at`. Without it, the words lack `lacking`.
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
    // Those that can stand beside what was typed, and whether they need something besides.
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
            anyhow!("{}: {}\nhint: leave one of them out", path.display(), reason(&error))
        })?;
        if now.is_subset(lacking) {
            break words;
        }
        // One needs what nobody gives: that without which less is missing, or else any that needs something.
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

/// The arguments that the definition misses in these words, or what else is wrong with them.
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

/// What is wrong with a value, without the words of the command line it did not come from.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = error.source() {
        return source.to_string();
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
    lines.collect::<Vec<_>>().join("; ").trim_start_matches("error: ").to_owned()
}

/// The verb, and which word it is.
fn find_verb<'a>(command: &'a Command, words: &[OsString]) -> Option<(usize, &'a Command)> {
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

/// Options among words.
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

/// The options of a verb that a file can set.
fn options(verb: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let all = verb.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    all.filter(|(_, long)| !NOT_IN_A_FILE.contains(long))
}

#[cfg(test)]
mod tests;
