//! A configuration file: which option each line sets, and to what.

use anyhow::{Result, anyhow, bail};
use clap::{Arg, ArgAction, Command};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::{SETTINGS, read_small_text};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Options that no file can set.
const NOT_IN_A_FILE: [&str; 4] = ["config", "show-config", "help", "version"];

/// The sections of a station.
const STATION: [&str; 5] = ["etransfer", "fleet", "http", "peers", "station"];

/// The options of a verb that a file can set.
pub(super) fn options(verb: &Command) -> impl Iterator<Item = (&Arg, &str)> {
    let all = verb.get_arguments().filter_map(|arg| Some((arg, arg.get_long()?)));
    all.filter(|(_, long)| !NOT_IN_A_FILE.contains(long))
}

/// A line that sets an option of a verb.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// As written in the file.
    pub(super) key: String,
    /// The verb it applies to.
    verb: String,
    /// The option's id in the definition.
    pub(super) id: String,
    /// The same as words of a command line.
    pub(super) words: Vec<OsString>,
    /// File and line.
    pub(super) place: String,
}

/// The settings of a file.
#[derive(Debug)]
pub(super) struct File {
    settings: Vec<Setting>,
}

impl File {
    /// Read a file. It may set options of every verb, and is checked as a whole: `all` gives the verbs with their options, which need not
    /// be ready to parse a line. It is asked only if the file has anything.
    ///
    /// # Errors
    /// The file cannot be read or is not valid TOML, or a key is not the name of an option of a verb.
    pub(super) fn read(path: &Path, all: fn() -> Command) -> Result<Self> {
        let text = read_small_text(path, SETTINGS)?;
        let table = DeTable::parse(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| line(&text, span.start));
            anyhow!(
                "{}:{line}: {}{}",
                path.display(),
                error.message(),
                Hint("write lines as `option = \"value\"`, sections as `[record]`")
            )
        })?;
        if table.get_ref().is_empty() {
            return Ok(Self { settings: Vec::new() });
        }
        let reader = Reader { path: path.to_owned(), text: &text, command: &all() };
        Ok(Self { settings: reader.all(table.get_ref())? })
    }

    /// The settings of a verb; its own section overrides those for all verbs.
    pub(super) fn of(&self, verb: &Command) -> impl Iterator<Item = &Setting> {
        let name = verb.get_name().to_owned();
        self.settings.iter().filter(move |setting| setting.verb == name)
    }
}

/// The line in which a byte of a text is, from 1.
fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

struct Reader<'a> {
    path: PathBuf,
    text: &'a str,
    command: &'a Command,
}

impl Reader<'_> {
    fn place(&self, at: usize) -> String {
        format!("{}:{}", self.path.display(), line(self.text, at))
    }

    fn verbs(&self) -> impl Iterator<Item = &Command> {
        self.command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    }

    fn all(&self, table: &DeTable<'_>) -> Result<Vec<Setting>> {
        let mut settings: Vec<Setting> = Vec::new();
        let sections = table.iter().filter_map(|(key, value)| Some((key, value.get_ref().as_table()?)));
        // Sections of their own, which `serve` reads.
        for (key, section) in sections.filter(|(key, _)| !STATION.contains(&key.get_ref().as_ref())) {
            let Some(verb) = self.verbs().find(|verb| verb.get_name() == key.get_ref()) else {
                let known: Vec<&str> = self.verbs().map(Command::get_name).collect();
                bail!(
                    "{}: unknown section `{}`{}",
                    self.place(key.span().start),
                    key.get_ref(),
                    Hint(format_args!("sections are verbs: {}", known.join(", ")))
                );
            };
            for (key, value) in section.iter() {
                let name: &str = key.get_ref();
                let Some((arg, _)) = options(verb).find(|(_, long)| *long == name) else {
                    return Err(self.unknown(
                        key,
                        &format!("the keys of {} are", verb.get_name()),
                        &mut options(verb),
                    ));
                };
                settings.push(self.setting(verb, arg, key, value)?);
            }
        }
        for (key, value) in table.iter().filter(|(_, value)| !value.get_ref().is_table()) {
            let name: &str = key.get_ref();
            let mut known = false;
            for verb in self.verbs() {
                let Some((arg, _)) = options(verb).find(|(_, long)| *long == name) else { continue };
                known = true;
                let own = settings.iter().any(|s| s.verb == verb.get_name() && s.id == arg.get_id().as_str());
                if !own {
                    settings.push(self.setting(verb, arg, key, value)?);
                }
            }
            if !known {
                return Err(self.unknown(key, "the keys are", &mut self.verbs().flat_map(options)));
            }
        }
        Ok(settings)
    }

    fn unknown<'b>(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        who: &str,
        known: &mut dyn Iterator<Item = (&'b Arg, &'b str)>,
    ) -> anyhow::Error {
        let mut names: Vec<&str> = known.map(|(_, long)| long).collect();
        names.sort_unstable();
        names.dedup();
        let place = self.place(key.span().start);
        anyhow!(
            "{place}: unknown key `{}`{}",
            key.get_ref(),
            Hint(format_args!("{who} {}", names.join(", ")))
        )
    }

    fn setting(
        &self,
        verb: &Command,
        arg: &Arg,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Setting> {
        let name = key.get_ref().to_string();
        let place = self.place(key.span().start);
        let wrong = |what: &str, hint: &str| anyhow!("{place}: `{name}` {what}{}", Hint(hint));
        let several = matches!(arg.get_action(), ArgAction::Append);
        let words = match (value.get_ref(), arg.get_action().takes_values()) {
            (DeValue::Boolean(true), false) => vec![format!("--{name}")],
            (DeValue::Boolean(false), false) => Vec::new(),
            (_, false) => return Err(wrong("must be true or false", "write true or false, without quotes")),
            (DeValue::Array(all), true) if several => {
                let words = all.iter().map(|value| word(&name, value.get_ref()));
                words
                    .collect::<Option<_>>()
                    .ok_or_else(|| wrong("must be a list of strings", "such as [\"a\", \"b\"]"))?
            }
            (DeValue::Array(_), true) => {
                return Err(wrong("takes one value", "write one value instead of a list"));
            }
            (value, true) => {
                let word = word(&name, value);
                vec![
                    word.ok_or_else(|| {
                        wrong("needs a string", "write it in quotes, as on the command line")
                    })?,
                ]
            }
        };
        let words = words.into_iter().map(OsString::from).collect();
        Ok(Setting {
            key: name,
            verb: verb.get_name().to_owned(),
            id: arg.get_id().to_string(),
            words,
            place,
        })
    }
}

/// A value as a word of a command line.
fn word(name: &str, value: &DeValue<'_>) -> Option<String> {
    let value = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Datetime(time) => time.to_string(),
        _ => return None,
    };
    Some(format!("--{name}={value}"))
}
