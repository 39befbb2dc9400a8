//! What an option applies to, stated where the option is declared.
//!
//! ```text
//!   #[arg(long, add = to(HEAPS))]                     the statement travels with clap's definition of the option
//!      ├──▶ describe: heading, "Only with …", requires ──▶ help, man pages, completions
//!      └──▶ check: "--x does nothing with …", hint     ──▶ errors; notes, for what a configuration file sets
//! ```
//!
//! `receive`, `record`, `send` and `bench` have options that matter to some formats, sources, transports or experiments only.
//! Each of their options says so, with [`ALWAYS`] if it always matters; a test holds this. In other verbs, an option without
//! a statement always matters.
//!
//! clap keeps extensions of an argument behind its feature `unstable-ext`, as clap_complete does for completers.

use anyhow::{Result, bail};
use clap::builder::ArgExt;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Id};
use skyhaul::core::hint::Hint;
use skyhaul::wire::{FAMILIES, Objects};
use std::collections::BTreeMap;
use std::ops::BitOr;

/// A set of things that a command can deal with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cases(u16);

/// None.
pub(super) const NONE: Cases = Cases(0);

/// Streams of frames.
pub(super) const FRAMES: Cases = Cases(1);
pub(super) const HEAPS: Cases = Cases(1 << 1);
pub(super) const EVENTS: Cases = Cases(1 << 2);
/// A recording, whose format is known once it is opened.
pub(super) const RECORDING: Cases = Cases(1 << 3);
/// A benchmark of one path.
pub(super) const PATH: Cases = Cases(1 << 4);
/// A benchmark of the path to a disk.
pub(super) const DISK_PATH: Cases = Cases(1 << 5);
/// The experiments of SDP memo 046.
pub(super) const EXPERIMENTS: Cases = Cases(1 << 6);
/// The one of them that limits the CPU time of receivers.
pub(super) const LIMITED: Cases = Cases(1 << 7);
/// The benchmark of events through a balancer.
pub(super) const SWEEP: Cases = Cases(1 << 8);
/// A pattern, noise or sky, neither read from a file nor from a recording.
pub(super) const GENERATED: Cases = Cases(1 << 9);
pub(super) const UDP: Cases = Cases(1 << 10);
pub(super) const TCP: Cases = Cases(1 << 11);
/// The benchmark beside other programs.
pub(super) const PEERS: Cases = Cases(1 << 12);
/// The benchmark of RDMA beside sockets.
pub(super) const RDMA: Cases = Cases(1 << 13);
/// Heaps and events, which have a size of their own.
pub(super) const OBJECTS: Cases = Cases(HEAPS.0 | EVENTS.0);

/// The cases, by dimension: objects or experiment, source, transport.
const DIMENSIONS: [Cases; 3] = [Cases(((1 << 9) - 1) | PEERS.0 | RDMA.0), GENERATED, Cases(UDP.0 | TCP.0)];

impl Cases {
    fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn each(self) -> impl Iterator<Item = Self> {
        (0..16).map(|bit| Self(1 << bit)).filter(move |one| self.meets(*one))
    }

    fn objects(self) -> Option<Objects> {
        match self {
            FRAMES => Some(Objects::Frames),
            HEAPS => Some(Objects::Heaps),
            EVENTS => Some(Objects::Events),
            _ => None,
        }
    }

    /// The noun for one case, as in "it applies only to …".
    pub(super) fn noun(self) -> String {
        if let Some(objects) = self.objects() {
            let titles: Vec<&str> = formats(objects).map(|(_, title)| title).collect();
            return match titles[..] {
                [only] => format!("{only} {}", objects.name()),
                _ => objects.name().to_owned(),
            };
        }
        match self {
            RECORDING => "recordings (--scan)",
            PATH => "benchmarks of one path (`bench receive` and others)",
            DISK_PATH => "`bench record`",
            EXPERIMENTS => "the experiments of SDP memo 046",
            LIMITED => "the experiment `limited`",
            SWEEP => "`bench ejfat`",
            PEERS => "`bench peers`",
            RDMA => "`bench rdma`",
            GENERATED => "a pattern, noise or sky",
            UDP => "udp:// addresses",
            _ => "tcp:// addresses",
        }
        .to_owned()
    }

    pub(super) fn nouns(self) -> String {
        self.each().map(Self::noun).collect::<Vec<_>>().join(" or ")
    }

    /// What makes an option of these cases apply, as an imperative.
    fn remedy(self) -> String {
        let formats: Vec<&str> =
            self.each().filter_map(Self::objects).filter(|o| *o != Objects::Frames).flat_map(names).collect();
        let name = match () {
            () if !formats.is_empty() => format!("use --format {}", formats.join(" or ")),
            () if self.meets(EXPERIMENTS) => "use `bench --format spead` without a path".to_owned(),
            () if self.meets(LIMITED) => "add --experiments limited".to_owned(),
            () if self.meets(SWEEP) => "use `bench ejfat`".to_owned(),
            () if self.meets(DISK_PATH) => "use `bench record`".to_owned(),
            () if self == PEERS => "use `bench peers`".to_owned(),
            () if self == RDMA => "use `bench rdma`".to_owned(),
            () if self == PEERS | RDMA => "use `bench peers` or `bench rdma`".to_owned(),
            () if self.meets(PATH) => "name the path to measure, such as `bench receive`".to_owned(),
            () if self.meets(UDP) => "use a udp:// address".to_owned(),
            () if self.meets(TCP) => "use a tcp:// address".to_owned(),
            () => return "leave it out".to_owned(),
        };
        format!("{name}, or leave it out")
    }

    /// The heading of `--help` for options of these cases.
    fn heading(self) -> Option<String> {
        let objects: Vec<Objects> = self.each().filter_map(Self::objects).collect();
        if !objects.is_empty() && !self.meets(Cases(EXPERIMENTS.0 | SWEEP.0)) {
            let nouns: Vec<String> =
                self.each().filter(|one| one.objects().is_some()).map(Self::noun).collect();
            let mut title = nouns.join(" and ");
            title[..1].make_ascii_uppercase();
            let formats: Vec<&str> = objects.into_iter().flat_map(names).collect();
            return Some(format!("{title} (--format {})", formats.join(", ")));
        }
        match () {
            () if self.meets(EXPERIMENTS) => Some("Experiments of SDP memo 046 (--format spead)"),
            () if self.meets(SWEEP) => Some("Sweep of events (bench ejfat)"),
            () if self == PEERS => Some("Other programs (bench peers)"),
            () if self == RDMA => Some("RDMA beside sockets (bench rdma)"),
            () if self.meets(PATH) => Some("One path (bench receive, send, record, balance, lab)"),
            () => None,
        }
        .map(str::to_owned)
    }
}

impl BitOr for Cases {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Names and titles of the formats of these objects.
fn formats(objects: Objects) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = FAMILIES.iter().filter(move |family| family.objects() == objects);
    of.map(|family| (family.name(), family.title()))
}

fn names(objects: Objects) -> impl Iterator<Item = &'static str> {
    formats(objects).map(|(name, _)| name)
}

/// What an option applies to.
#[derive(Clone, Debug)]
pub(super) struct Applies {
    /// One case of each set is needed.
    needs: Vec<Cases>,
    /// Ids of options that are needed.
    with: Vec<&'static str>,
    /// What to use in cases to which it does not apply.
    instead: Vec<(Cases, &'static str)>,
    /// The only verb in which it is limited so.
    verb: Option<&'static str>,
}

impl ArgExt for Applies {}

/// The option applies whatever else is given.
pub(super) const ALWAYS: Applies =
    Applies { needs: Vec::new(), with: Vec::new(), instead: Vec::new(), verb: None };

/// The option applies to these cases.
pub(super) fn to(cases: Cases) -> Applies {
    Applies { needs: vec![cases], ..ALWAYS }
}

/// The option applies together with another one, by its id.
pub(super) fn with(id: &'static str) -> Applies {
    Applies { with: vec![id], ..ALWAYS }
}

impl Applies {
    /// And of these cases one, too.
    pub(super) fn and(mut self, cases: Cases) -> Self {
        self.needs.push(cases);
        self
    }

    /// And together with this option.
    pub(super) fn with(mut self, id: &'static str) -> Self {
        self.with.push(id);
        self
    }

    /// In these cases, the hint is this one.
    pub(super) fn instead(mut self, cases: Cases, hint: &'static str) -> Self {
        self.instead.push((cases, hint));
        self
    }

    /// In other verbs it always applies.
    pub(super) fn in_verb(mut self, verb: &'static str) -> Self {
        self.verb = Some(verb);
        self
    }

    fn is_limited_in(&self, verb: &str) -> bool {
        self.verb.is_none_or(|only| only == verb)
    }
}

/// The definition of a verb with what follows from the statements of its options.
pub(super) fn describe(verb: Command) -> Command {
    let name = verb.get_name().to_owned();
    let longs = verb.get_arguments().map(|arg| (arg.get_id().clone(), arg.get_long().map(str::to_owned)));
    let longs: Vec<(Id, Option<String>)> = longs.collect();
    let long = |id: &str| longs.iter().find(|(of, _)| of == id).and_then(|(_, long)| long.clone());
    let verb = verb.mut_args(|arg| match arg.get::<Applies>().cloned() {
        Some(applies) if applies.is_limited_in(&name) => {
            let others: Vec<String> = applies.with.iter().filter_map(|id| long(id)).collect();
            described(arg, &applies, &others)
        }
        _ => arg,
    });
    let inner: Vec<String> = verb.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    inner.iter().fold(verb, |verb, inner| verb.mut_subcommand(inner, describe))
}

fn described(arg: Arg, applies: &Applies, others: &[String]) -> Arg {
    let arg = match (arg.get_help_heading(), applies.needs.iter().find_map(|cases| cases.heading())) {
        (None, Some(heading)) => arg.help_heading(heading),
        _ => arg,
    };
    let arg = applies.with.iter().fold(arg, |arg, id| arg.requires(*id));
    let heading = arg.get_help_heading().unwrap_or_default().to_owned();
    let of_heading = |cases: &Cases| cases.heading().as_deref() == Some(&heading);
    let needs = applies.needs.iter().filter(|cases| !of_heading(cases)).map(|cases| cases.nouns());
    let needs = needs.map(|nouns| format!("for {nouns}"));
    let others = others.iter().filter(|long| !heading.contains(&format!("--{long}")));
    let others = others.map(|long| format!("with --{long}"));
    let only: Vec<String> = needs.chain(others).collect();
    if only.is_empty() {
        return arg;
    }
    let only = format!("Only {}", only.join(" and "));
    let help = arg.get_help().map(|help| format!("{help}. {only}"));
    let long = arg.get_long_help().map(|help| format!("{help}\n\n{only}."));
    let arg = arg.help(help.unwrap_or_else(|| only.clone()));
    match long {
        Some(long) => arg.long_help(long),
        None => arg,
    }
}

/// One thing that decides which options apply, as it stands on the command line.
pub(super) struct Decided {
    pub(super) by: String,
    pub(super) cases: Cases,
}

/// What a command deals with, in the order of [`DIMENSIONS`]; `None`: unknown, so that every option may apply.
pub(super) type Situation = [Option<Decided>; 3];

/// Refuse options that do nothing in this situation.
///
/// `from_file`: the options that a configuration file sets, with their lines. A file has defaults for every format, so what it
/// sets for another one is not an error: it is ignored, which the notes that are returned say.
pub(super) fn check(
    situation: &Situation,
    command: &Command,
    matches: &ArgMatches,
    from_file: &BTreeMap<String, String>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let Some((verb, given)) = matches.subcommand() else { return Ok(notes) };
    let options = command.find_subcommand(verb).into_iter().flat_map(Command::get_arguments);
    for option in options {
        let id = option.get_id().as_str();
        if given.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        let applies = option.get::<Applies>().filter(|applies| applies.is_limited_in(verb));
        let Some((applies, need, decided)) = applies.and_then(|applies| unmet(applies, situation)) else {
            continue;
        };
        let name = option.get_long().map_or_else(|| format!("<{id}>"), |long| format!("--{long}"));
        if let Some(place) = from_file.get(id) {
            notes.push(format!("{place}: {name} does nothing with {} and is ignored", decided.by));
            continue;
        }
        let instead = applies.instead.iter().find(|(cases, _)| cases.meets(decided.cases));
        let hint = match instead {
            Some((_, hint)) => (*hint).to_owned(),
            None if decided.cases.meets(RECORDING) => "leave it out; a recording is sent as it is".to_owned(),
            None => need.remedy(),
        };
        bail!("{name} does nothing with {}: it applies only to {}{}", decided.by, need.nouns(), Hint(hint));
    }
    Ok(notes)
}

/// The first need that a situation does not meet, and what decides that.
fn unmet<'a>(applies: &'a Applies, situation: &'a Situation) -> Option<(&'a Applies, Cases, &'a Decided)> {
    applies.needs.iter().find_map(|need| {
        let at = DIMENSIONS.iter().position(|dimension| dimension.meets(*need))?;
        let decided = situation[at].as_ref()?;
        (!need.meets(decided.cases)).then_some((applies, *need, decided))
    })
}

#[cfg(test)]
mod tests;
