//! A receiver by its command line.

use crate::bench::options::wrong;
use std::io;
use std::path::Path;

/// Placeholders in a command line, with descriptions.
const NAMES: [(&str, &str); 5] = [
    ("address", "the address to receive on"),
    ("port", "its UDP port"),
    ("packet", "bytes of a packet"),
    ("heap", "bytes of a heap"),
    ("buffer", "bytes of the socket buffer"),
];

/// A receiver that is started as a separate program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// In tables.
    pub name: String,
    words: Vec<String>,
    /// Whether it writes the report of `skyhaul receive --json` when it is interrupted.
    pub(super) reports: bool,
}

impl Candidate {
    /// A program by its command line: words separated by blanks, without a shell, with placeholders like `{port}`.
    ///
    /// # Errors
    /// If the placeholder of the port is missing, or a placeholder is unknown.
    pub fn parse(line: &str) -> io::Result<Self> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let program = words.first().map(Path::new).and_then(Path::file_name);
        let name = program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::checked(name, words, false)
    }

    /// `skyhaul receive` of this `program`, whose report is checked too.
    ///
    /// # Errors
    /// If a placeholder is unknown.
    pub fn own(program: &Path, words: &str) -> io::Result<Self> {
        let program = program.to_string_lossy().into_owned();
        let words = std::iter::once(program).chain(words.split_whitespace().map(str::to_owned));
        Self::checked("skyhaul".into(), words.collect(), true)
    }

    fn checked(name: String, words: Vec<String>, reports: bool) -> io::Result<Self> {
        let candidate = Self { name, words, reports };
        candidate.expand(&|_| String::new())?;
        if !candidate.words.iter().skip(1).any(|word| word.contains("{port}")) {
            return Err(wrong(&format!(
                "`{}` lacks the port\nhint: write {{port}} in its place, as in {{address}}:{{port}}",
                candidate.line()
            )));
        }
        Ok(candidate)
    }

    /// Its command line, for display.
    #[must_use]
    pub fn line(&self) -> String {
        let (program, rest) = self.words.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        rest.iter().fold(program, |line, word| line + " " + word)
    }

    /// Its words, `value` in place of each name.
    pub(super) fn expand(&self, value: &dyn Fn(&str) -> String) -> io::Result<Vec<String>> {
        let one = |word: &String| {
            let (mut out, mut rest) = (String::new(), word.as_str());
            while let Some((before, (name, after))) =
                rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
            {
                if !NAMES.iter().any(|(known, _)| *known == name) {
                    let known: Vec<String> =
                        NAMES.iter().map(|(name, what)| format!("{{{name}}} ({what})")).collect();
                    let text = format!("`{{{name}}}` is not a placeholder\nhint: use {}", known.join(", "));
                    return Err(wrong(&text));
                }
                out.extend([before, &value(name)]);
                rest = after;
            }
            Ok(out + rest)
        };
        self.words.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_what_differs() {
        let candidate =
            Candidate::parse("/opt/bin/other  --packet {packet} --buffer={buffer} {address}:{port}").unwrap();
        assert_eq!(candidate.name, "other");
        assert_eq!(candidate.line(), "other --packet {packet} --buffer={buffer} {address}:{port}");
        let words = candidate.expand(&|name| format!("<{name}>")).unwrap();
        let right = ["/opt/bin/other", "--packet", "<packet>", "--buffer=<buffer>", "<address>:<port>"];
        assert_eq!(words, right);
        assert!(Candidate::own(Path::new("/x/skyhaul"), "receive udp://{address}:{port}").unwrap().reports);
    }

    #[test]
    fn lines_that_cannot_be_meant_are_told() {
        for (line, told) in [
            ("", "{address}:{port}"),
            ("receiver 7148", "{address}:{port}"),
            ("{port}", "{address}:{port}"),
            ("receiver {host}:{port}", "{buffer} (bytes of the socket buffer)"),
        ] {
            let said = Candidate::parse(line).unwrap_err().to_string();
            assert!(said.contains("\nhint: ") && said.contains(told), "{line}: {said}");
        }
        // What is no name is left as it is.
        assert!(Candidate::parse("receiver } { {port}").is_ok());
    }
}
