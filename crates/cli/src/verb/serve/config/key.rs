//! A key of a configuration with its value, and errors that name its line.

use anyhow::{Result, anyhow, ensure};
use skyhaul::core::hint::Hint;
use std::fmt::Display;
use std::str::FromStr;
use toml::Spanned;
use toml::de::DeValue;

pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// A key with its value, and the text for the number of its line.
pub(super) struct Key<'a> {
    pub(super) text: &'a str,
    pub(super) key: &'a str,
    pub(super) value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Key<'a> {
    pub(super) fn wrong(&self, why: impl Display) -> anyhow::Error {
        anyhow!("line {}: {}: {why}", line(self.text, self.value.span().start), self.key)
    }

    pub(super) fn at(&self, value: &'a Spanned<DeValue<'a>>) -> Key<'a> {
        Key { value, ..*self }
    }

    pub(super) fn entries(&self) -> Result<Vec<Key<'a>>> {
        let table = self.value.get_ref().as_table().ok_or_else(|| self.wrong("expected a section"))?;
        let text = self.text;
        Ok(table.iter().map(|(key, value)| Key { text, key: key.get_ref(), value }).collect())
    }

    pub(super) fn list(&self, most: usize) -> Result<&'a [Spanned<DeValue<'a>>]> {
        let list = self.value.get_ref().as_array();
        let list = list
            .ok_or_else(|| self.wrong(format_args!("expected a list{}", Hint("such as [[station.disk]]"))))?;
        ensure!(list.len() <= most, self.wrong(format_args!("more than {most}")));
        Ok(list)
    }

    pub(super) fn string(&self) -> Result<&'a str> {
        let text = self.value.get_ref().as_str();
        text.ok_or_else(|| self.wrong(format_args!("expected text{}", Hint("write it in quotes"))))
    }

    pub(super) fn parse<T: FromStr<Err: Display>>(&self) -> Result<T> {
        self.string()?.parse().map_err(|error| self.wrong(error))
    }

    /// A number from 1 to `most`.
    pub(super) fn count(&self, most: usize) -> Result<usize> {
        let number = self.value.get_ref().as_integer().and_then(|number| number.as_str().parse().ok());
        let number = number.filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| self.wrong(format_args!("expected a number from 1 to {most}")))
    }

    pub(super) fn flag(&self) -> Result<bool> {
        self.value.get_ref().as_bool().ok_or_else(|| self.wrong("expected true or false"))
    }
}
