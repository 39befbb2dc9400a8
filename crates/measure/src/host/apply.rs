//! Applies settings, and restores them.
//!
//! ```text
//!   for each setting:  read old ─▶ journal { name, old, new }, on disk ─▶ write new ─▶ journal { what it shows }
//!   undo, last first:  read now ─▶ is it old, or what was shown? ─▶ write old
//! ```
//!
//! A line is durable before its setting is written, so undo knows every setting that may have been changed, also after a kill.
//! Undo can be repeated, and can follow an interrupted apply. Settings that were changed by others since are left alone and
//! reported.
//!
//! Files hold what they held, octet for octet. Of a file that shows a choice (`[none] mq-deadline`), the choice is written.
//!
//! Queueing disciplines are restored last: where the kernel chose one, it chooses again, by the `default_qdisc` restored before.
//!
//! Limits: files, a card's interrupt moderation, offloads and hash, the queueing discipline at the root of an interface; the size of
//! rings, which breaks the link for a moment, only if its check was named. Queues, MTU, options of mounts and services are never
//! written, only advised.

use super::found::HostSetting;
use super::report::HostReport;
use serde::{Deserialize, Serialize};
use skyhaul_core::hint::Hint;
use skyhaul_io::host::ethtool::Card;
use skyhaul_io::host::tree::Tree;
use skyhaul_io::netlink::route::Routes;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Names of queueing disciplines begin so.
const QDISC: &str = "qdisc/";
/// Octets of a journal, at most.
const MAX_JOURNAL_BYTES: u64 = 16 << 20;

/// Where settings are read and written.
pub trait SettingsStore {
    /// The text of a setting, as it is.
    ///
    /// # Errors
    /// A system error.
    fn read(&self, name: &str) -> io::Result<String>;
    /// Write it.
    ///
    /// # Errors
    /// A system error.
    fn write(&self, name: &str, value: &str) -> io::Result<()>;
}

/// The settings of a tree of files, and of the cards of this host.
#[derive(Clone, Debug)]
pub struct HostSettings(pub Tree);

impl SettingsStore for HostSettings {
    fn read(&self, name: &str) -> io::Result<String> {
        match device(name)? {
            SettingOwner::File => self.0.read(name),
            SettingOwner::Card(interface, setting) => card_setting(&Card::open(interface)?, setting),
            SettingOwner::Root(interface) => {
                let mut routes = Routes::open()?;
                let index = routes.index(interface)?;
                Ok(routes.root(index)?.0.to_string())
            }
        }
    }

    fn write(&self, name: &str, value: &str) -> io::Result<()> {
        match device(name)? {
            SettingOwner::File => self.0.write(name, value),
            SettingOwner::Card(interface, setting) => Card::open(interface)?.set(setting, value),
            SettingOwner::Root(interface) => {
                let mut routes = Routes::open()?;
                let (index, to) = (routes.index(interface)?, value.parse()?);
                let (now, below) = routes.root(index)?;
                if below || !now.comes_back() {
                    let said = format!("{} has parameters that could not be restored; use tc", now.kind);
                    return Err(io::Error::new(io::ErrorKind::Unsupported, said));
                }
                routes.set_root(index, &to)
            }
        }
    }
}

/// What has a setting.
enum SettingOwner<'a> {
    File,
    /// An interface, and the setting of its card.
    Card(&'a str, &'a str),
    /// The queueing discipline of an interface.
    Root(&'a str),
}

/// What a name is of.
///
/// # Errors
/// Nothing: a journal may say anything, and what it says is written to files below three directories only.
fn device(name: &str) -> io::Result<SettingOwner<'_>> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, format!("{name} is not a host setting"));
    if name.split('/').any(|part| part == "..") {
        return Err(refused());
    }
    if ["/proc/sys/", "/proc/irq/", "/sys/"].iter().any(|head| name.starts_with(head)) {
        return Ok(SettingOwner::File);
    }
    if let Some(interface) = name.strip_prefix(QDISC).and_then(|rest| rest.strip_suffix("/root")) {
        return Ok(SettingOwner::Root(interface));
    }
    let rest = name.strip_prefix("ethtool/").ok_or_else(refused)?;
    rest.split_once('/')
        .map(|(interface, setting)| SettingOwner::Card(interface, setting))
        .ok_or_else(refused)
}

/// A setting of a card, as the card takes it.
fn card_setting(card: &Card, setting: &str) -> io::Result<String> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("the card has no {setting}"));
    let (group, name) = setting.split_once('/').ok_or_else(unknown)?;
    match group {
        "coalesce" => card.coalescing()?.get(name).map(ToString::to_string).ok_or_else(unknown),
        "feature" => {
            let all = card.features()?;
            let is = all.get(name).ok_or_else(unknown)?;
            Ok(if is.on { "on" } else { "off" }.to_owned())
        }
        "hash" => card.hash_fields(name),
        "ring" => card.ring()?.get(name).map(ToString::to_string).ok_or_else(unknown),
        _ => Err(unknown()),
    }
}

/// What is to be changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChange {
    /// The check that asks for it.
    pub check: String,
    /// The setting.
    pub name: String,
    /// Its text before, as it was read.
    pub old: String,
    /// What is written.
    pub new: String,
    /// What it shows since; none if that was never noted: it was killed before, and whatever it shows is its doing.
    #[serde(skip)]
    pub shown: Option<String>,
}

/// A line of a journal.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Change(SettingChange),
    Shown { shown: String, text: String },
}

/// What was done with a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeResult {
    /// The change.
    pub change: SettingChange,
    /// Why it was not made.
    pub failed: Option<String>,
}

/// The changes that a report asks for and that can be made while data flow: those of checks that fail or warn, and of others only
/// if they were named.
#[must_use]
pub fn planned(report: &HostReport, settings: &dyn SettingsStore, only: &[String]) -> Vec<SettingChange> {
    use super::found::CheckVerdict::{Fail, Info, Warn};
    let mut changes: Vec<SettingChange> = Vec::new();
    for line in &report.checks {
        let named = only.contains(&line.id);
        if !(matches!(line.verdict, Fail | Warn) || (line.verdict == Info && named)) {
            continue;
        }
        for HostSetting { name, value } in &line.settings {
            if breaks_link(name) && !named {
                continue;
            }
            let Ok(old) = settings.read(name) else { continue };
            // Two checks may ask for one setting: the larger value serves both.
            if let Some(known) = changes.iter_mut().find(|change| change.name == *name) {
                if larger(value, &known.new) {
                    known.new.clone_from(value);
                }
            } else if written(&old) != *value {
                let check = line.id.clone();
                changes.push(SettingChange {
                    check,
                    name: name.clone(),
                    old,
                    new: value.clone(),
                    shown: None,
                });
            }
        }
    }
    changes
}

/// Whether the card starts anew when this is written.
fn breaks_link(name: &str) -> bool {
    name.starts_with("ethtool/") && name.contains("/ring/")
}

fn larger(a: &str, b: &str) -> bool {
    matches!((a.parse::<u64>(), b.parse::<u64>()), (Ok(a), Ok(b)) if a > b)
}

/// What is to be written so that a file shows `text` again.
fn written(text: &str) -> String {
    let chosen = super::check::chosen(text);
    if chosen.len() < text.len() { chosen.to_owned() } else { text.trim_end_matches('\n').to_owned() }
}

/// Changes on a disk, before they are made.
#[derive(Debug)]
pub struct ChangeJournal {
    path: PathBuf,
    file: File,
}

impl ChangeJournal {
    /// Begin one.
    ///
    /// # Errors
    /// There is one that was not undone, or it cannot be created; with a hint.
    pub fn begin(path: &Path) -> io::Result<Self> {
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            std::fs::create_dir_all(directory)
                .map_err(|error| skyhaul_io::file::failed("create", directory, &error))?;
        }
        let file =
            OpenOptions::new().append(true).create_new(true).open(path).map_err(|error| {
                match error.kind() {
                    io::ErrorKind::AlreadyExists => io::Error::new(
                        error.kind(),
                        format!(
                            "{} has changes that were not undone{}",
                            path.display(),
                            Hint("run skyhaul host --undo first, or give another --journal")
                        ),
                    ),
                    _ => skyhaul_io::file::failed("create", path, &error),
                }
            })?;
        // The name must survive as well.
        skyhaul_io::disk::sync_name(path)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Note a change; it is on the disk when this returns.
    ///
    /// # Errors
    /// A system error.
    pub fn note(&mut self, change: &SettingChange) -> io::Result<()> {
        self.line(&Entry::Change(change.clone()))
    }

    fn line(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        let failed = |error: io::Error| skyhaul_io::file::failed("write", &self.path, &error);
        self.file.write_all(&line).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }
}

/// Make changes, each noted first.
///
/// # Errors
/// The journal cannot be written: then nothing more is changed.
pub fn apply(
    changes: &[SettingChange],
    settings: &dyn SettingsStore,
    journal: &mut ChangeJournal,
) -> io::Result<Vec<ChangeResult>> {
    let mut done = Vec::new();
    for change in changes {
        // It may have changed since the plan was made.
        let old = match settings.read(&change.name) {
            Ok(old) => old,
            Err(error) => {
                done.push(ChangeResult { change: change.clone(), failed: Some(said(&error)) });
                continue;
            }
        };
        let change = SettingChange { old, ..change.clone() };
        journal.note(&change)?;
        let failed = settings.write(&change.name, &change.new).err();
        if let Ok(text) = settings.read(&change.name) {
            journal.line(&Entry::Shown { shown: change.name.clone(), text })?;
        }
        done.push(ChangeResult { change, failed: failed.map(|error| said(&error)) });
    }
    Ok(done)
}

fn said(error: &io::Error) -> String {
    let text = skyhaul_io::address::system_text(error);
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!("{text}{}", Hint("run as root")),
        _ => text,
    }
}

/// How one change was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UndoResult {
    /// It is as before.
    Restored,
    /// It was as before already.
    Unchanged,
    /// Somebody changed it since, to this; it was left.
    ChangedSince(String),
    /// It cannot be taken back.
    Failed(String),
}

/// Read a journal. A last line that is cut short was never followed by a write, and is left out.
///
/// # Errors
/// It cannot be read, or a line that is whole is none of ours; with a hint.
pub fn read_journal(path: &Path) -> io::Result<Vec<SettingChange>> {
    let octets =
        skyhaul_io::file::read_small(path, MAX_JOURNAL_BYTES as usize).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => io::Error::new(
                    error.kind(),
                    format!(
                        "no journal at {}, so there is nothing to undo{}",
                        path.display(),
                        Hint("give its path with --journal")
                    ),
                ),
                _ => error,
            }
        })?;
    parse_journal(&octets).map_err(|why| {
        let text = format!(
            "{}: {why}{}",
            path.display(),
            Hint("only a journal of skyhaul host --apply can be undone")
        );
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// The changes in the octets of a journal.
///
/// # Errors
/// Which line is none.
pub fn parse_journal(octets: &[u8]) -> Result<Vec<SettingChange>, String> {
    let whole = octets.iter().rposition(|octet| *octet == b'\n').map_or(0, |end| end + 1);
    let lines = octets[..whole].split(|octet| *octet == b'\n').filter(|line| !line.is_empty());
    let mut changes: Vec<SettingChange> = Vec::new();
    for (number, line) in lines.enumerate() {
        match serde_json::from_slice(line) {
            Ok(Entry::Change(change)) => changes.push(change),
            Ok(Entry::Shown { shown, text }) => {
                if let Some(change) = changes.iter_mut().rfind(|change| change.name == shown) {
                    change.shown = Some(text);
                }
            }
            Err(_) => return Err(format!("line {} is not a journal entry", number + 1)),
        }
    }
    Ok(changes)
}

/// Take changes back, the last first, queueing disciplines at the end.
pub fn undo(changes: &[SettingChange], settings: &dyn SettingsStore) -> Vec<(SettingChange, UndoResult)> {
    in_order(changes).map(|change| (change.clone(), undo_one(change, settings))).collect()
}

/// What [`undo`] would do, in the same order; nothing is written.
#[must_use]
pub fn would_undo(
    changes: &[SettingChange],
    settings: &dyn SettingsStore,
) -> Vec<(SettingChange, UndoResult)> {
    let one = |change: &SettingChange| match old_text(change, settings) {
        Ok(_) => UndoResult::Restored,
        Err(how) => how,
    };
    in_order(changes).map(|change| (change.clone(), one(change))).collect()
}

fn in_order(changes: &[SettingChange]) -> impl Iterator<Item = &SettingChange> {
    let (last, first): (Vec<_>, Vec<_>) =
        changes.iter().rev().partition(|change| change.name.starts_with(QDISC));
    first.into_iter().chain(last)
}

/// What is to be written to take a change back, or why nothing is.
fn old_text(change: &SettingChange, settings: &dyn SettingsStore) -> Result<String, UndoResult> {
    let now = settings.read(&change.name).map_err(|error| UndoResult::Failed(said(&error)))?;
    if now == change.old {
        return Err(UndoResult::Unchanged);
    }
    if change.shown.as_ref().is_some_and(|shown| *shown != now) {
        return Err(UndoResult::ChangedSince(written(&now)));
    }
    // Of a choice, only what was chosen is written; anything else goes back octet for octet.
    let choice = super::check::chosen(&change.old).len() < change.old.len();
    Ok(if choice { written(&change.old) } else { change.old.clone() })
}

fn undo_one(change: &SettingChange, settings: &dyn SettingsStore) -> UndoResult {
    let old = match old_text(change, settings) {
        Ok(old) => old,
        Err(how) => return how,
    };
    if let Err(error) = settings.write(&change.name, &old) {
        return UndoResult::Failed(said(&error));
    }
    match settings.read(&change.name) {
        Ok(now) if now == change.old => UndoResult::Restored,
        Ok(now) => UndoResult::Failed(format!("after writing, it reads '{}'", now.trim_end())),
        Err(error) => UndoResult::Failed(said(&error)),
    }
}
