//! The last reply of what `top` watches, and its loss: what a station's screen and a fleet's have in common.

use skyhaul::core::hint::split;
use skyhaul::io::terminal::{StyledLine, TextStyle};
use std::ops::Deref;

/// A screen that shows the last reply.
pub(super) trait ReplyScreen {
    type Reply;

    fn last(&mut self) -> &mut LastReply<Self::Reply>;

    /// The screen, at most `columns` wide and `rows` high.
    fn lines(&self, columns: usize, rows: usize) -> Vec<StyledLine>;
}

/// The last reply, and why there is no newer one.
#[derive(Debug)]
pub(super) struct LastReply<T> {
    pub(super) reply: T,
    lost: Option<String>,
}

impl<T> LastReply<T> {
    pub(super) fn new(reply: T) -> Self {
        Self { reply, lost: None }
    }

    /// A newer reply.
    pub(super) fn take(&mut self, reply: T) {
        *self = Self::new(reply);
    }

    /// There was no reply.
    pub(super) fn lose(&mut self, why: &str) {
        self.lost = Some(split(why).0.to_owned());
    }

    /// Whether the reply, which came at `time`, is the newest; `away`: what to call that it is not.
    pub(super) fn state(&self, time: &str, away: &str) -> StyledLine {
        match &self.lost {
            None => vec![(TextStyle::Good, "live".into()), (TextStyle::Plain, format!("  {time} UTC"))],
            Some(why) => vec![(TextStyle::Bad, format!("{away} since {time} UTC: {why}"))],
        }
    }

    /// Shows old figures as such, and how to leave.
    pub(super) fn finished(&self, mut lines: Vec<StyledLine>, rows: usize) -> Vec<StyledLine> {
        if self.lost.is_some() {
            lines.iter_mut().skip(1).flatten().for_each(|(style, _)| *style = TextStyle::Soft);
        }
        if rows < usize::MAX {
            lines.truncate(rows.saturating_sub(1));
            lines.resize(rows.saturating_sub(1), Vec::new());
            lines.push(vec![(TextStyle::Soft, "q quit".into())]);
        }
        lines
    }
}

impl<T> Deref for LastReply<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.reply
    }
}
