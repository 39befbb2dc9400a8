//! The readers of a stream: they enter, get a thread, exit and are joined; the last one ends the stream.
//!
//! Separate from the work of readers.

use super::StreamState;
use crate::receive::keyed::config::Full;
use crate::receive::keyed::own::{MOST_HELD, Reader, lock};
use crate::receive::keyed::stats::{Ended, ReaderStats};
use crate::receive::keyed::store::Store;
use crate::receive::reader::WAIT;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

thread_local! {
    /// The address of the stream that this thread reads for.
    static READS: Cell<usize> = const { Cell::new(0) };
}

/// Marks the end of a reader when dropped.
struct AliveGuard<'a>(&'a (Mutex<usize>, Condvar));

impl Drop for AliveGuard<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) -= 1;
        self.0.1.notify_all();
    }
}

impl<S: Store> StreamState<S> {
    /// Handles timeouts meanwhile: a deadline applies to a stream that is never started too.
    pub(crate) fn wait_for_start(&self, me: &mut Reader<S::Out>) {
        while !self.is_over() {
            let started = lock(&self.started.0);
            if *started {
                return;
            }
            drop(self.started.1.wait_timeout(started, WAIT).unwrap_or_else(PoisonError::into_inner));
            self.tick(me);
        }
    }

    /// The processor for reader `number`.
    pub(crate) fn cpu(&self, number: usize) -> Option<usize> {
        self.cpus.get(number % self.cpus.len().max(1)).copied()
    }

    /// Add a reader; its thread follows with [`adopt`](Self::adopt).
    pub(crate) fn enter(&self, name: String, can_be_held: bool) -> Reader<S::Out> {
        let waits = match self.full {
            Full::Auto => can_be_held,
            Full::Wait => true,
            Full::Refuse => false,
        };
        let stats = Arc::new(Mutex::new(ReaderStats { name, ..ReaderStats::default() }));
        let mut readers = lock(&self.readers);
        readers.push(stats.clone());
        // The time without readers was not a pause.
        self.turn();
        self.running.fetch_add(1, Ordering::AcqRel);
        *lock(&self.alive.0) += 1;
        let overflow = if waits && !can_be_held && self.finished.is_none() { self.overflow } else { 0 };
        let out = VecDeque::with_capacity(MOST_HELD);
        Reader { out, overflow, ..Reader::new(waits, stats, readers.len() - 1) }
    }

    /// Its thread could not be started.
    pub(crate) fn never_ran(&self, stats: &Mutex<ReaderStats>, why: &std::io::Error) {
        let mut stats = lock(stats);
        (stats.ended, stats.error) = (true, Some(why.to_string()));
        self.running.fetch_sub(1, Ordering::AcqRel);
        drop(AliveGuard(&self.alive));
    }

    pub(crate) fn adopt(&self, thread: JoinHandle<()>) {
        lock(&self.threads).push(thread);
    }

    /// A reader has ended; the last one ends the stream.
    pub(crate) fn exit(&self, me: &mut Reader<S::Out>, error: Option<String>) {
        let _gone = AliveGuard(&self.alive);
        me.overflow = 0;
        self.hand_over(me);
        let last = self.running.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            me.now = self.now();
            let mut table = self.table();
            table.end(Ended::Readers, me.now);
            self.take_finished(table, me);
            me.publish();
            self.hand_over(me);
        }
        me.publish();
        let mut stats = lock(&me.stats);
        stats.error = error;
        stats.ended = true;
        stats.cpu = skyhaul_io::host::thread::cpu_time();
        drop(stats);
        if last {
            self.leave();
        }
    }

    /// Leave the ring.
    pub(super) fn leave(&self) {
        if !self.left.swap(true, Ordering::AcqRel) && self.ring.leave() && self.finished.is_some() {
            // Objects that streams ending at the same time left to each other.
            let mut me = self.nobody();
            self.refuse(&mut me, true);
            lock(&self.own).merge(&me.counts);
        }
    }

    /// Wait until every reader has ended. Returns at once if called by a reader, which cannot wait for itself.
    pub(crate) fn join(&self) {
        if READS.get() == self.address() {
            return;
        }
        let threads: Vec<_> = lock(&self.threads).drain(..).collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
        // Another caller may have taken the threads to join them.
        let mut alive = lock(&self.alive.0);
        while *alive > 0 {
            alive = self.alive.1.wait(alive).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The calling thread is that of a reader that has [entered](Self::enter).
    pub(crate) fn reads_here(&self) {
        READS.set(self.address());
    }
}
