//! The options of a verb that a file can set, and a command line completed with them.

use clap::{Arg, Command};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Options that no file can set.
const NOT_IN_A_FILE: [&str; 4] = ["config", "show-config", "help", "version"];

/// A command line completed from a file.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) words: Vec<OsString>,
    /// Options that the file has set, by id, with the file and line.
    pub(crate) from_file: BTreeMap<String, String>,
    /// What `--show-config` prints, if it was given.
    pub(crate) shown: Option<String>,
}

/// The options of a verb that a file can set.
pub(super) fn options(verb: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let all = verb.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    all.filter(|(_, long)| !NOT_IN_A_FILE.contains(long))
}
