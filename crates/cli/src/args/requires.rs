//! An option that requires another one is refused without it, whatever else is given.
//!
//! clap does not ask for an option that conflicts with one that is given. So `--loop`, which requires `--input`, was taken with
//! `--scan`, and ignored. Such an option must itself conflict with what excludes the other one.

use super::described;
use clap::builder::PossibleValue;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, parser::ValueSource};

/// Every option accepts at least one of these values.
const VALUES: [&str; 27] = [
    "1",
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
