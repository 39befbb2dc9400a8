//! VEX, the format in which schedulers of VLBI write an observation: revisions 1.5 and 2.0.
//!
//! ```text
//!   $MODE;                          a block
//!   def wide;                       a definition in it
//!     ref $FREQ = f32 : Mh : On;    a reference, for these stations; without stations, for all
//!     sample_rate = 32 Ms/sec;      a statement: fields are separated by colons
//!   enddef;                         * a comment ends with the line
//! ```
//!
//! [`VexFile::parse`] reads the structure of the blocks that say what is recorded, and skips all others;
//! [`VexFile::schedule`] gives the scans of a station.
//!
//! Limits: [`MAX_STATEMENTS`] statements, 4096 in a definition, 256 modes. Nothing is nested deeper than a statement in a definition in a block.

mod modes;
mod scans;
#[cfg(test)]
mod tests;

use crate::observation::scan::{MAX_STATEMENTS, MAX_TEXT, ScheduleError, excerpt};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Blocks that are read.
const BLOCKS: [&str; 9] =
    ["EXPER", "MODE", "STATION", "SITE", "FREQ", "TRACKS", "BITSTREAMS", "DATASTREAMS", "SCHED"];
/// Maximum number of statements of a definition.
const MAX_DEFINITION: usize = 4096;

/// A VEX file: the blocks that say what is recorded.
#[derive(Clone, Debug)]
pub struct VexFile {
    revision: String,
    blocks: Vec<VexBlock>,
}

/// All blocks of one name.
#[derive(Clone, Debug)]
struct VexBlock {
    name: &'static str,
    definitions: Vec<VexDefinition>,
    /// The first definition of each name.
    by_name: BTreeMap<String, usize>,
}

/// `def NAME; … enddef;`, or `scan NAME; … endscan;`.
#[derive(Clone, Debug)]
struct VexDefinition {
    name: String,
    line: u32,
    statements: Vec<VexStatement>,
}

/// A statement without comments.
#[derive(Clone, Debug)]
struct VexStatement {
    line: u32,
    text: String,
}

impl VexStatement {
    /// What is before the equals sign, with single spaces.
    fn key(&self) -> Cow<'_, str> {
        let key = self.text.split('=').next().unwrap_or_default().trim();
        match key.split_whitespace().nth(1) {
            // `ref $FREQ` is one key, however it is spaced.
            Some(_) => key.split_whitespace().collect::<Vec<_>>().join(" ").into(),
            None => key.into(),
        }
    }

    /// The fields behind the equals sign.
    fn fields(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let all = self.text.split_once('=').map(|(_, fields)| fields);
        all.into_iter().flat_map(|fields| separated(fields).map(unquoted))
    }

    /// The first field.
    fn first(&self) -> Cow<'_, str> {
        self.fields().next().unwrap_or_default()
    }
}

/// The parts of `text` between colons outside of quotes, trimmed. A quote within a field, as in `41d30'42.1"`, is ordinary.
fn separated(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?.trim_start();
        let quoted = text.starts_with('"').then(|| end_of_quoted(text)).flatten().unwrap_or(0);
        let end = text[quoted..].find(':').map(|end| quoted + end);
        rest = end.map(|end| &text[end + 1..]);
        Some(text[..end.unwrap_or(text.len())].trim_end())
    })
}

/// Where the string ends that begins with the quote before `text`; `None`: it is not closed on its line.
fn end_of_quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let was_escaped = std::mem::take(&mut escaped);
        escaped = byte == b'\\' && !was_escaped;
        byte == b'\n' || byte == b'"' && !was_escaped
    });
    end.map(|end| end + 2).filter(|&end| text[..end].ends_with('"'))
}

/// A field without its quotes.
fn unquoted(field: &str) -> Cow<'_, str> {
    let Some(inside) = field.strip_prefix('"').and_then(|field| field.strip_suffix('"')) else {
        return field.into();
    };
    if !inside.contains('\\') {
        return inside.into();
    }
    let mut out = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out.into()
}

impl VexFile {
    /// Reads the structure of a file.
    ///
    /// # Errors
    /// The line and the reason, if `text` is not VEX of a known revision.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        if text.len() > MAX_TEXT {
            return Err(ScheduleError::new(0, format!("larger than {} MiB", MAX_TEXT >> 20)));
        }
        let mut statements = Statements { text, at: 0, line: 1, count: 0 };
        let first = statements.next_statement()?.ok_or_else(|| ScheduleError::new(0, "no VEX statement"))?;
        if first.key() != "VEX_rev" {
            let text =
                format!("expected `VEX_rev = 1.5;` or `VEX_rev = 2.0;`, got `{}`", excerpt(&first.text));
            return Err(ScheduleError::new(first.line, text));
        }
        let revision = first.first().into_owned();
        if !revision.starts_with("1.") && !revision.starts_with("2.") {
            let text = format!("VEX revision `{}` is unknown: expected 1.5 or 2.0", excerpt(&revision));
            return Err(ScheduleError::new(first.line, text));
        }
        let mut builder = Builder::default();
        while let Some(statement) = statements.next_statement()? {
            builder.add(statement)?;
        }
        Ok(Self { revision, blocks: builder.finish()? })
    }

    /// Whether the revision is 2.0 or later.
    fn is_second(&self) -> bool {
        self.revision.starts_with('2')
    }

    fn definitions(&self, block: &str) -> impl Iterator<Item = &VexDefinition> {
        self.blocks.iter().filter(move |found| found.name == block).flat_map(|found| &found.definitions)
    }

    fn definition(&self, block: &str, name: &str) -> Option<&VexDefinition> {
        let block = self.blocks.iter().find(|found| found.name == block)?;
        block.by_name.get(name).and_then(|&at| block.definitions.get(at))
    }
}

/// The file as statements.
struct Statements<'t> {
    text: &'t str,
    at: usize,
    line: u32,
    count: usize,
}

impl Statements<'_> {
    fn next_statement(&mut self) -> Result<Option<VexStatement>, ScheduleError> {
        let (mut line, mut out) = (self.line, String::new());
        loop {
            let rest = &self.text[self.at..];
            // Runs of ordinary text are taken as a whole.
            let run = rest.find(['*', '"', ';', '\n']).unwrap_or(rest.len());
            if out.trim().is_empty() {
                line = self.line;
            }
            out.push_str(&rest[..run]);
            self.at += run;
            let Some(&stop) = rest.as_bytes().get(run) else {
                if out.trim().is_empty() {
                    return Ok(None);
                }
                let text = format!("`{}` does not end with a semicolon", excerpt(&out));
                return Err(ScheduleError::new(line, text));
            };
            match stop {
                b'*' => self.at += rest[run..].find('\n').unwrap_or(rest.len() - run),
                // A string begins a field. Elsewhere it is a unit, as in `dec = 41d30'42.1"`.
                b'"' if out.trim_end().ends_with(['=', ':']) => out.push_str(self.quoted()?),
                b'"' => {
                    out.push('"');
                    self.at += 1;
                }
                b'\n' => {
                    out.push(' ');
                    self.at += 1;
                    self.line += 1;
                }
                _ => {
                    self.at += 1;
                    let text = out.trim();
                    if text.is_empty() {
                        continue;
                    }
                    self.count += 1;
                    if self.count > MAX_STATEMENTS {
                        return Err(ScheduleError::new(
                            line,
                            format!("more than {MAX_STATEMENTS} statements"),
                        ));
                    }
                    let literal = text.starts_with("start_literal");
                    let statement = VexStatement { line, text: text.to_owned() };
                    if literal {
                        self.skip_literal(line)?;
                    }
                    return Ok(Some(statement));
                }
            }
        }
    }

    /// Takes a quoted string, with its quotes.
    fn quoted(&mut self) -> Result<&str, ScheduleError> {
        let rest = &self.text[self.at..];
        let quoted = end_of_quoted(rest).map(|end| &rest[..end]).ok_or_else(|| {
            let open = excerpt(rest.lines().next().unwrap_or_default());
            ScheduleError::new(self.line, format!("`{open}`: the quote is not closed"))
        })?;
        self.at += quoted.len();
        Ok(quoted)
    }

    /// Skips text between `start_literal(…);` and `end_literal(…);`, in which all characters are ordinary.
    fn skip_literal(&mut self, line: u32) -> Result<(), ScheduleError> {
        let rest = &self.text[self.at..];
        let end = rest.find("end_literal").and_then(|at| rest[at..].find(';').map(|end| at + end + 1));
        let end = end.ok_or_else(|| ScheduleError::new(line, "`start_literal` without `end_literal`"))?;
        self.line += rest[..end].bytes().filter(|&b| b == b'\n').count() as u32;
        self.at += end;
        Ok(())
    }
}

/// Statements put together to blocks.
#[derive(Default)]
struct Builder {
    blocks: Vec<VexBlock>,
    /// The block that has begun; inside, the number of it if it is read.
    block: Option<Option<usize>>,
    definition: Option<VexDefinition>,
}

impl Builder {
    fn add(&mut self, statement: VexStatement) -> Result<(), ScheduleError> {
        let (line, text) = (statement.line, statement.text.as_str());
        if let Some(name) = text.strip_prefix('$') {
            self.expect_closed(line)?;
            self.block = Some(self.block_of(name.trim()));
            return Ok(());
        }
        let block = match self.block {
            None => {
                return Err(ScheduleError::new(line, format!("`{}` is outside of any block", excerpt(text))));
            }
            Some(None) => return Ok(()),
            Some(Some(block)) => &mut self.blocks[block],
        };
        let mut words = text.splitn(2, char::is_whitespace);
        let (word, name) = (words.next().unwrap_or_default(), words.next().map_or("", str::trim));
        match word {
            "def" | "scan" if !text.contains('=') => {
                self.expect_closed(line)?;
                if name.is_empty() {
                    return Err(ScheduleError::new(line, format!("`{word}` without a name")));
                }
                let name = unquoted(name).into_owned();
                self.definition = Some(VexDefinition { name, line, statements: Vec::new() });
            }
            "enddef" | "endscan" => {
                let ended = self.definition.take();
                let ended =
                    ended.ok_or_else(|| ScheduleError::new(line, format!("`{word}` ends nothing")))?;
                block.by_name.entry(ended.name.clone()).or_insert(block.definitions.len());
                block.definitions.push(ended);
            }
            _ => {
                let Some(definition) = &mut self.definition else { return Ok(()) };
                if definition.statements.len() == MAX_DEFINITION {
                    let name = excerpt(&definition.name);
                    return Err(ScheduleError::new(
                        line,
                        format!("{name} has more than {MAX_DEFINITION} statements"),
                    ));
                }
                definition.statements.push(statement);
            }
        }
        Ok(())
    }

    /// The number of the block, if blocks of this name are read.
    fn block_of(&mut self, name: &str) -> Option<usize> {
        let name = BLOCKS.into_iter().find(|block| *block == name)?;
        Some(self.blocks.iter().position(|block| block.name == name).unwrap_or_else(|| {
            self.blocks.push(VexBlock { name, definitions: Vec::new(), by_name: BTreeMap::new() });
            self.blocks.len() - 1
        }))
    }

    fn expect_closed(&self, line: u32) -> Result<(), ScheduleError> {
        let Some(open) = &self.definition else { return Ok(()) };
        let text = format!(
            "`{}`, which begins on line {}, has no `enddef` or `endscan`",
            excerpt(&open.name),
            open.line
        );
        Err(ScheduleError::new(line, text))
    }

    fn finish(self) -> Result<Vec<VexBlock>, ScheduleError> {
        let line = self.definition.as_ref().map_or(0, |open| open.line);
        self.expect_closed(line)?;
        Ok(self.blocks)
    }
}
