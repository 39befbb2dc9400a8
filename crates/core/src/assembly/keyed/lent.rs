//! Memory on loan: beyond the limit of what unconfirmed objects may hold, it goes back to smaller objects that lack it.
//!
//! ```text
//!   60 MiB announced, 1000 bytes arrived   ─▶ a packet of 4 MiB finds no memory ─▶ the 60 MiB are given back, as if never begun
//!   60 MiB announced, 200 KiB arrived      ─▶ it keeps its memory, as long as its pace is enough
//! ```
//!
//! The largest object that has less than half of 1/[`EVIDENCE`] of its bytes gives its memory back, if it holds at least
//! twice as much as the other needs. So the memory that one packet claims is never missed by those who send what they announce, and of
//! equal objects none gives way to another. Senders who are held back while there is no memory, as by TCP, take none from others and
//! keep theirs: what they have not sent says nothing about them.
//!
//! Limits: who sends half of 1/[`EVIDENCE`] of an object keeps its memory until its pace is judged. What was given up by its pace
//! holds its memory until it is delivered.

use super::KeyedWindow;
use super::live::EVIDENCE;
use crate::placement::Reject;

impl<B> KeyedWindow<B> {
    /// Whether the senders of the parts that follow are held back while there is no memory for what they send, as by TCP. For the
    /// others it is given and [taken back](Self::take_taken_back) by what arrives.
    #[inline]
    pub fn held_back(&mut self, is: bool) {
        self.table.held_back = is;
    }

    /// Returns the number of packets, and of bytes in them, of objects that gave their memory back, since the last call. They are
    /// rejected after all, for there was no memory for them.
    #[inline]
    pub fn take_taken_back(&mut self) -> (u64, u64) {
        if self.taken_back.0 == 0 { (0, 0) } else { std::mem::take(&mut self.taken_back) }
    }

    /// Memory for an object that begins, which others give back.
    #[cold]
    #[inline(never)]
    pub(super) fn room_taken_back(
        &mut self,
        bytes: u64,
        room: &mut impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<B, Option<B>> {
        let mut block = Err(None);
        while block.is_err() && self.take_back(bytes) {
            block = room(bytes, None);
        }
        block
    }

    /// More memory for an object, which others may have to give back.
    #[cold]
    pub(super) fn grow(
        &mut self,
        at: u32,
        need: u64,
        told: bool,
        room: &mut impl FnMut(u64, Option<B>) -> Result<B, Option<B>>,
    ) -> Result<(), Reject> {
        loop {
            let grown = self.try_grow(at, need, told, room);
            let is_there = self.table.at(at).block.is_some();
            if grown.is_ok() || !is_there || !self.take_back(need) {
                return grown;
            }
        }
    }

    /// There is no memory for `bytes` of an object: the largest one that has memory on loan gives it back, and
    /// is as if it had never begun. Returns whether there was one.
    #[cold]
    pub(super) fn take_back(&mut self, bytes: u64) -> bool {
        if self.table.held_back || !self.unconfirmed.is_too_much() {
            return false;
        }
        let (mut next, mut most, mut largest) =
            (self.table.oldest(), bytes.max(1).saturating_mul(2) - 1, None);
        while let Some(at) = next {
            let live = self.table.at(at);
            let is_lent = live.seen.bytes() < live.unconfirmed / EVIDENCE / 2;
            if live.unconfirmed > most && is_lent && !live.held_back && !live.contested {
                (most, largest) = (live.unconfirmed, Some(at));
            }
            next = self.table.newer(at);
        }
        let Some(at) = largest else { return false };
        let live = self.table.at(at);
        self.taken_back.0 += live.packets;
        self.taken_back.1 += live.seen.bytes();
        drop(self.discard(at));
        true
    }
}
