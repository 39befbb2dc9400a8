//! A terminal that is drawn as a whole, again and again, and gives single keys.
//!
//! ```text
//!   TerminalScreen::open ─▶ other screen, no cursor, keys without Enter ─▶ draw, key, draw … ─▶ drop: as it was before
//! ```
//!
//! Control characters in the text are escaped, so that names of peers command nothing. Ctrl-C remains a signal (see [`crate::signals`]).
//!
//! Limits: a character counts as one column wide.

use crate::say::escaped_name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextStyle {
    /// As usual.
    #[default]
    Plain,
    /// Bold.
    Strong,
    /// Faint.
    Soft,
    /// Green.
    Good,
    /// Yellow.
    Warning,
    /// Red and bold.
    Bad,
}

impl TextStyle {
    /// Parameters of the control sequence SGR (ECMA-48, 8.3.117).
    fn parameters(self) -> &'static str {
        match self {
            Self::Plain => "0",
            Self::Strong => "1",
            Self::Soft => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "1;31",
        }
    }
}

/// A line in pieces.
pub type StyledLine = Vec<(TextStyle, String)>;

/// The terminal of standard input and output while it is drawn on.
#[derive(Debug)]
pub struct TerminalScreen {
    before: Termios,
    has_colours: bool,
}

impl TerminalScreen {
    /// Takes the terminal; `None` if standard input or output is none.
    ///
    /// # Errors
    /// The terminal cannot be set.
    pub fn open() -> io::Result<Option<Self>> {
        let (input, output) = (io::stdin(), io::stdout());
        if !input.is_terminal() || !output.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&input)?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&input, OptionalActions::Now, &keys)?;
        // From here on, dropping it restores the terminal.
        let screen =
            Self { before, has_colours: std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()) };
        put("\x1b[?1049h\x1b[?25l")?;
        Ok(Some(screen))
    }

    /// Columns and rows.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
            _ => (80, 24),
        }
    }

    /// Draws the lines over what was there, as many and as much of each as there is room for.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[StyledLine]) -> io::Result<()> {
        let (columns, rows) = self.size();
        put(&drawn(lines, columns, rows, self.has_colours))
    }

    /// Waits for a key for at most `wait`; a signal ends the wait, too.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&self, wait: Duration) -> io::Result<Option<u8>> {
        let input = io::stdin();
        let mut ready = [PollFd::new(&input, PollFlags::IN)];
        let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            done => done?,
        };
        let mut key = [0];
        match rustix::io::read(&input, &mut key) {
            Ok(0) if ready[0].revents().contains(PollFlags::HUP) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok((count > 0).then_some(key[0])),
            Err(rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for TerminalScreen {
    fn drop(&mut self) {
        // A terminal that is gone needs neither.
        let _ = put("\x1b[0m\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn put(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// One screen as bytes for a terminal.
fn drawn(lines: &[StyledLine], columns: usize, rows: usize, has_colours: bool) -> String {
    let mut out = String::from("\x1b[H");
    for (row, line) in lines.iter().take(rows).enumerate() {
        if row > 0 {
            out.push_str("\r\n");
        }
        let mut free = columns;
        for (style, text) in line {
            let text = escaped_name(text);
            let fits: String = text.chars().take(free).collect();
            free -= fits.chars().count();
            // Writing into a string does not fail.
            let _ = match has_colours && *style != TextStyle::Plain {
                true => write!(out, "\x1b[{}m{fits}\x1b[0m", style.parameters()),
                false => write!(out, "{fits}"),
            };
        }
        // Behind the last column, it would erase that.
        if free > 0 {
            out.push_str("\x1b[K");
        }
    }
    if lines.len() < rows {
        out.push_str("\x1b[J");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_as_large_as_the_terminal_and_names_command_nothing() {
        let line =
            |text: &str| vec![(TextStyle::Strong, "a ".to_owned()), (TextStyle::Plain, text.to_owned())];
        assert_eq!(drawn(&[line("bc")], 10, 5, true), "\x1b[H\x1b[1ma \x1b[0mbc\x1b[K\x1b[J");
        assert_eq!(drawn(&[line("bcdef")], 4, 1, false), "\x1b[Ha bc");
        assert_eq!(drawn(&[line("b"), line("c"), line("d")], 9, 2, false), "\x1b[Ha b\x1b[K\r\na c\x1b[K");
        let foreign = drawn(&[line("x\x1b[2J\u{9b}31m\ry")], 80, 5, true);
        assert!(foreign.contains("x\\u{1b}[2J\\u{9b}31m\\ry"), "{foreign:?}");
    }
}
