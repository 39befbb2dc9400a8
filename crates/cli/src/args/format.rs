//! Formats on the command line: names, completions and help come from the registry.

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use skyhaul::wire::{FAMILIES, Format};
use std::ffi::OsStr;
use std::sync::LazyLock;

/// Help of `--format` where packets of any format are accepted.
pub(crate) static TAKEN: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = Format::all().map(Format::name).collect();
    format!("Format of the packets: {}", names.join(", "))
});

/// Help of `--format` where packets are sent.
pub(crate) static SENT: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = FAMILIES.iter().map(|family| family.name()).collect();
    format!("Format of the packets: {}, or auto (that of the file)", names.join(", "))
});

/// Reads the name of a format, and gives a shell all names.
#[derive(Clone, Debug)]
pub(crate) struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        let names = StringValueParser::new().try_map(|name| name.parse::<Format>());
        names.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |format: Format| {
            let aliases = format.family().map_or(&[][..], |family| family.aliases());
            PossibleValue::new(format.name()).aliases(aliases)
        };
        Some(Box::new(Format::all().map(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_format_is_offered_and_explained_wherever_one_is_typed() {
        let command = crate::args::cli::Cli::command();
        let mut seen = 0;
        for verb in command.get_subcommands() {
            let Some(arg) = verb.get_arguments().find(|arg| arg.get_long() == Some("format")) else {
                continue;
            };
            let offered: Vec<String> =
                arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
            assert_eq!(
                offered,
                Format::all().map(|f| f.name().to_owned()).collect::<Vec<_>>(),
                "{}",
                verb.get_name()
            );
            seen += 1;
        }
        assert!(seen >= 4, "{seen} verbs");
        FAMILIES.iter().for_each(|family| assert!(TAKEN.contains(family.name())));
    }

    #[test]
    fn names_are_understood_as_people_write_them() {
        let typed = |name: &str| {
            crate::args::cli::Cli::try_parse_from(["skyhaul", "inspect", "file", "--format", name])
        };
        use clap::Parser as _;
        assert!(typed("Mark-5B").is_ok());
        let error = typed("mk6").unwrap_err().to_string();
        assert!(error.contains("no format 'mk6'; there are auto"), "{error}");
    }
}
