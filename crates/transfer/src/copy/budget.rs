//! The memory and the threads that all sessions of a program may take together.
//!
//! A peer that holds the token can ask for many sessions, flows, blocks and names. Each is charged here before it is made, and a
//! request that does not fit is refused with the reason. A session gives back all that it took when it ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of blocks, names and lists of ranges, of all sessions.
pub(super) const MEMORY: u64 = 2 << 30;
/// Bytes of blocks of one session.
pub(super) const SESSION_BLOCKS: u64 = 256 << 20;
/// Sessions at a time.
pub(super) const SESSIONS: u64 = 32;
/// Flows of all sessions.
pub(super) const FLOWS: u64 = 1024;

/// What is left.
#[derive(Debug, Default)]
pub(super) struct Budget {
    memory: AtomicU64,
    sessions: AtomicU64,
    flows: AtomicU64,
}

#[cfg(test)]
impl Budget {
    pub(super) fn sessions(&self) -> u64 {
        self.sessions.load(Ordering::Relaxed)
    }
}

fn take(of: &AtomicU64, count: u64, most: u64) -> bool {
    let more = |now: u64| now.checked_add(count).filter(|&now| now <= most);
    of.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

/// What one session took.
#[derive(Debug)]
pub(super) struct Account {
    budget: Arc<Budget>,
    memory: AtomicU64,
    flows: u64,
}

fn refused(what: &str, hint: &str) -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, format!("{what}; hint: {hint}"))
}

impl Account {
    /// Begin a session with so many flows.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn open(budget: &Arc<Budget>, flows: usize) -> io::Result<Self> {
        let flows = flows as u64;
        if !take(&budget.sessions, 1, SESSIONS) {
            let text = format!("{SESSIONS} copies are running, the most that are served at a time");
            return Err(refused(&text, "try again later"));
        }
        let mut account = Self { budget: budget.clone(), memory: AtomicU64::new(0), flows: 0 };
        if !take(&budget.flows, flows, FLOWS) {
            let text = format!("all copies together may have {FLOWS} flows");
            return Err(refused(&text, "use fewer --flows, or try again later"));
        }
        account.flows = flows;
        Ok(account)
    }

    /// One of a program that only asks.
    pub(super) fn alone() -> Self {
        let budget = Arc::<Budget>::default();
        take(&budget.sessions, 1, SESSIONS);
        Self { budget, memory: AtomicU64::new(0), flows: 0 }
    }

    /// Take memory.
    ///
    /// # Errors
    /// There is not so much left.
    pub(super) fn charge(&self, bytes: u64) -> io::Result<()> {
        if !take(&self.budget.memory, bytes, MEMORY) {
            let text =
                format!("copies may take {} MiB of memory together, and this one needs more", MEMORY >> 20);
            return Err(refused(
                &text,
                "copy fewer files at a time, use a larger --range, or try again later",
            ));
        }
        self.memory.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.memory.fetch_sub(self.memory.load(Ordering::Relaxed), Ordering::Relaxed);
        self.budget.flows.fetch_sub(self.flows, Ordering::Relaxed);
        self.budget.sessions.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_what_ended_is_free_again() {
        let budget = Arc::<Budget>::default();
        let first = Account::open(&budget, 1000).unwrap();
        assert!(Account::open(&budget, 25).unwrap_err().to_string().contains("--flows"));
        first.charge(MEMORY).unwrap();
        let second = Account::open(&budget, 24).unwrap();
        assert!(second.charge(1).unwrap_err().to_string().contains("hint: "));
        drop(first);
        second.charge(MEMORY).unwrap();
        let more: Vec<_> = (1..SESSIONS).map(|_| Account::open(&budget, 1).unwrap()).collect();
        assert!(Account::open(&budget, 1).unwrap_err().to_string().contains("at a time"));
        drop((second, more));
        assert_eq!(budget.memory.load(Ordering::Relaxed), 0);
        assert_eq!(budget.flows.load(Ordering::Relaxed), 0);
        assert_eq!(budget.sessions.load(Ordering::Relaxed), 0);
    }
}
