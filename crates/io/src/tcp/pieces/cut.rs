//! One connection's bytes, cut into packets and pieces: the part that needs no socket.
//!
//! ```text
//!              valid head, short packet ─▶ delivered whole
//!            ┌─────────┐ head is one, packet long   ┌──────┐
//!   start ──▶│ Between │ ──────────────────────────▶│ Body │ ──▶ delivered as it arrives
//!            └─────────┘ ◀── its last byte ─────────└──────┘
//!               │    ▲
//!   no head here▼    │ a head that is believed
//!            ┌─────────┐
//!            │  Lost   │ ──▶ searched, counted
//!            └─────────┘
//! ```
//!
//! What cannot be decided yet (an incomplete short packet or head) is kept, and is put before the next bytes read. A
//! piece that the receiving side declines is held and offered again with [`Cutter::resume`]; until then, nothing more
//! may be fed.
//!
//! Every byte fed is delivered in a piece, reported as skipped, or [pending](Cutter::pending).

use super::{Found, Heads};
use std::io::BufRead;

/// Settings common to all connections of a source.
pub(super) struct Rules {
    pub(super) heads: Box<dyn Heads>,
    pub(super) longest_head: usize,
    pub(super) longest_body: u64,
    /// Packets up to this many bytes are delivered whole.
    pub(super) whole: usize,
}

/// What the cutter reports about the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    Piece {
        head: &'a [u8],
        at: u64,
        body: u64,
        bytes: &'a [u8],
    },
    /// A head was expected, but is missing.
    Lost,
    /// The stream was found again, or ended, after this many bytes.
    Skipped {
        bytes: u64,
        found: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The next byte begins a packet.
    Between,
    /// The next byte is the body's `at`; its head is kept.
    Body { head: usize, at: u64, body: u64 },
    /// There was no head where one should be; `skipped` bytes were passed over since.
    Lost { skipped: u64 },
}

/// The cutter of one connection.
pub(super) struct Cutter {
    keep: Box<[u8]>,
    /// Bytes of `keep` that precede the next bytes read; 0 within a body, where `keep` holds the head.
    kept: usize,
    state: State,
    /// A piece was not taken.
    is_held: bool,
    /// The bytes of that piece, and those that were read after it.
    held: Vec<u8>,
}

/// Receives the reports, and returns whether it took each. Only a piece may be declined; it is then offered again.
pub(super) type Tell<'a> = dyn FnMut(Told<'_>) -> bool + 'a;

/// What became of the bytes that a step was given.
enum Step {
    /// This many are finished with.
    Used(usize),
    /// All are kept: more is needed.
    Kept,
    /// The piece at their beginning was not taken.
    Refused,
}

/// What a range of bytes holds for a search that has lost the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// A packet begins after this many bytes.
    Found(usize),
    /// Something that may be a packet begins after this many bytes.
    Perhaps(usize),
}

impl Rules {
    pub(super) fn new(heads: Box<dyn Heads>, longest_body: u64, whole: usize) -> Self {
        let longest_head = heads.longest_head().max(1);
        Self { heads, longest_head, longest_body, whole }
    }

    /// Bytes a connection keeps.
    pub(super) fn keep(&self) -> usize {
        self.whole.max(self.longest_head)
    }

    /// Classify what begins with `bytes`; a packet beyond the limits is garbage.
    fn look(&self, bytes: &[u8]) -> Found {
        match self.heads.find(bytes) {
            Found::Packet { head, body }
                if head > 0 && head <= self.longest_head && body <= self.longest_body =>
            {
                // A head is not accepted before all of it has arrived.
                if head <= bytes.len() { Found::Packet { head, body } } else { Found::More }
            }
            Found::More if bytes.len() < self.longest_head => Found::More,
            _ => Found::Garbage,
        }
    }

    /// The length of a packet that is delivered whole.
    fn short(&self, head: usize, body: u64) -> Option<usize> {
        let total = usize::try_from(body).ok()?.checked_add(head)?;
        (total <= self.whole).then_some(total)
    }

    /// Number of bytes before the next position where a head may begin.
    fn next_magic(&self, bytes: &[u8]) -> usize {
        let Some(&first) = self.heads.magic().first() else { return 0 };
        let mut rest = bytes;
        // The standard library's fast search for a byte; reading from memory cannot fail.
        let passed = rest.skip_until(first).unwrap_or(bytes.len());
        // It stops after the byte, or at the end if there is none.
        if passed > 0 && bytes[passed - 1] == first { passed - 1 } else { passed }
    }

    /// The next acceptable head in `bytes`. With `last`, no bytes follow, and an incomplete packet is rejected.
    fn search(&self, bytes: &[u8], last: bool) -> Search {
        // A short packet from `.0` up to `.1` that no head follows: accepted if no other packet begins in it.
        let mut alone: Option<(usize, usize)> = None;
        let mut at = 0;
        loop {
            at += self.next_magic(&bytes[at..]);
            if let Some((from, to)) = alone
                && at >= to
            {
                return Search::Found(from);
            }
            let rest = &bytes[at..];
            if rest.is_empty() {
                return Search::Perhaps(at);
            }
            let looks = self.look(rest);
            if looks != Found::Garbage
                && let Some((from, to)) = alone
                && to == bytes.len()
            {
                // There are two candidates; the next bytes will show which one is right.
                return Search::Perhaps(from);
            }
            match looks {
                Found::More if !last => return Search::Perhaps(at),
                Found::More | Found::Garbage => {}
                Found::Packet { head, body } => {
                    let Some(total) = usize::try_from(body).ok().and_then(|b| b.checked_add(head)) else {
                        return Search::Found(at);
                    };
                    match rest.get(total..) {
                        Some([]) if last || total > self.whole => return Search::Found(at),
                        Some([]) => alone = Some((at, bytes.len())),
                        Some(next) if self.look(next) != Found::Garbage => return Search::Found(at),
                        Some(_) => alone = Some((at, at + total)),
                        None if total > self.whole => return Search::Found(at),
                        None if !last => return Search::Perhaps(at),
                        None => {}
                    }
                }
            }
            at += 1;
        }
    }
}

impl Cutter {
    pub(super) fn new(rules: &Rules) -> Self {
        let keep = vec![0; rules.keep()].into_boxed_slice();
        Self { keep, kept: 0, state: State::Between, is_held: false, held: Vec::new() }
    }

    /// The bytes that must precede the next bytes read.
    pub(super) fn kept(&self) -> &[u8] {
        &self.keep[..self.kept]
    }

    /// Whether the cutter is searching for the next head.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.state, State::Lost { .. })
    }

    /// Whether the search found the beginning of a packet that may never be completed.
    pub(super) fn is_doubting(&self) -> bool {
        self.is_lost() && self.kept > 0
    }

    /// Whether a declined piece is held: call [`resume`](Self::resume) before feeding anything.
    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Bytes fed that were neither delivered in a piece nor reported as skipped.
    pub(super) fn pending(&self) -> u64 {
        let undecided = match self.state {
            State::Lost { skipped } => skipped,
            // The head is delivered with the first piece.
            State::Body { head, at: 0, .. } => head as u64,
            _ => 0,
        };
        undecided + self.kept as u64 + self.held.len() as u64
    }

    /// Within a long body: its head, the position of the next byte, and the number of bytes still missing.
    pub(super) fn body(&self) -> Option<(&[u8], u64, u64)> {
        match self.state {
            State::Body { head, at, body } => Some((&self.keep[..head], at, body - at)),
            _ => None,
        }
    }

    /// The caller read this many bytes of the body itself. Returns the packet's length if the body is now complete.
    pub(super) fn filled(&mut self, bytes: u64) -> Option<u64> {
        let State::Body { head, at, body } = self.state else { return None };
        let at = (at + bytes).min(body);
        self.state = if at == body { State::Between } else { State::Body { head, at, body } };
        (at == body).then_some(head as u64 + body)
    }

    /// Process `bytes`: those that were kept, followed by those that were read after them.
    pub(super) fn feed(&mut self, bytes: &[u8], rules: &Rules, tell: &mut Tell<'_>) {
        debug_assert!(!self.is_held, "what was not taken comes first");
        if let Some(used) = self.run(bytes, false, rules, tell) {
            self.held = bytes[used..].to_vec();
        }
    }

    /// Offer the declined piece once more, and continue if it is taken.
    pub(super) fn resume(&mut self, rules: &Rules, tell: &mut Tell<'_>) {
        if self.is_held {
            let mut bytes = std::mem::take(&mut self.held);
            if let Some(used) = self.run(&bytes, false, rules, tell) {
                // Most often nothing was used, so the bytes stay in the same allocation.
                bytes.drain(..used);
                self.held = bytes;
            }
        }
    }

    /// Reject an incomplete packet that the search found, because nothing arrived for long.
    pub(super) fn doubt(&mut self, rules: &Rules, tell: &mut Tell<'_>) {
        if self.is_doubting() {
            let mut bytes = self.keep[..self.kept].to_vec();
            if let Some(used) = self.run(&bytes, true, rules, tell) {
                bytes.drain(..used);
                self.held = bytes;
            }
        }
    }

    /// End the stream; reports can no longer be declined. Returns whether it ended within a packet.
    pub(super) fn end(&mut self, rules: &Rules, tell: &mut dyn FnMut(Told<'_>)) -> bool {
        let mut taken = |told: Told<'_>| {
            tell(told);
            true
        };
        self.resume(rules, &mut taken);
        self.doubt(rules, &mut taken);
        let (rest, within) = (self.pending(), self.kept > 0 || self.body().is_some());
        let lost = self.is_lost();
        (self.kept, self.state) = (0, State::Between);
        if rest > 0 {
            tell(Told::Skipped { bytes: rest, found: false });
        }
        within && !lost
    }

    /// Cut `bytes`. If a piece was declined, returns how many bytes precede it; the others must be held.
    fn run(&mut self, bytes: &[u8], last: bool, rules: &Rules, tell: &mut Tell<'_>) -> Option<usize> {
        let mut rest = bytes;
        (self.kept, self.is_held) = (0, false);
        while !rest.is_empty() || self.is_due() {
            let step = match self.state {
                State::Between => self.between(rest, rules, tell),
                State::Body { head, at, body } => self.within(rest, (head, at, body), tell),
                State::Lost { skipped } => self.lost(rest, skipped, last, rules, tell),
            };
            match step {
                Step::Used(n) => rest = &rest[n..],
                Step::Kept => return None,
                Step::Refused => {
                    self.is_held = true;
                    return Some(bytes.len() - rest.len());
                }
            }
        }
        None
    }

    /// Whether a packet is due that consists of a long head and has no body to wait for.
    fn is_due(&self) -> bool {
        matches!(self.state, State::Body { at, body, .. } if at == body)
    }

    /// Like every step, returns how many bytes it finished, and keeps the rest if it needs more.
    fn between(&mut self, rest: &[u8], rules: &Rules, tell: &mut Tell<'_>) -> Step {
        match rules.look(rest) {
            Found::More => self.keep(rest),
            Found::Garbage => {
                tell(Told::Lost);
                self.state = State::Lost { skipped: 0 };
                Step::Used(0)
            }
            Found::Packet { head, body } => match rules.short(head, body) {
                Some(total) if total > rest.len() => self.keep(rest),
                Some(total) => {
                    let (head, bytes) = rest[..total].split_at(head);
                    let taken = tell(Told::Piece { head, at: 0, body, bytes });
                    if taken { Step::Used(total) } else { Step::Refused }
                }
                None => {
                    self.keep[..head].copy_from_slice(&rest[..head]);
                    self.state = State::Body { head, at: 0, body };
                    Step::Used(head)
                }
            },
        }
    }

    fn within(&mut self, rest: &[u8], (head, at, body): (usize, u64, u64), tell: &mut Tell<'_>) -> Step {
        let n = usize::try_from(body - at).unwrap_or(usize::MAX).min(rest.len());
        if !tell(Told::Piece { head: &self.keep[..head], at, body, bytes: &rest[..n] }) {
            return Step::Refused;
        }
        self.filled(n as u64);
        Step::Used(n)
    }

    fn lost(&mut self, rest: &[u8], skipped: u64, last: bool, rules: &Rules, tell: &mut Tell<'_>) -> Step {
        match rules.search(rest, last) {
            Search::Found(n) => {
                tell(Told::Skipped { bytes: skipped + n as u64, found: true });
                self.state = State::Between;
                Step::Used(n)
            }
            Search::Perhaps(n) => {
                self.state = State::Lost { skipped: skipped + n as u64 };
                self.keep(&rest[n..])
            }
        }
    }

    fn keep(&mut self, rest: &[u8]) -> Step {
        self.keep[..rest.len()].copy_from_slice(rest);
        self.kept = rest.len();
        Step::Kept
    }
}

#[cfg(test)]
mod tests;
