//! Which copies between servers run, and how many may.

use crate::remote::failure::Failure;
use axum::http::header::RETRY_AFTER;
use skyhaul::auth::TokenHash;
use skyhaul::io::lock::lock;
use std::sync::{Arc, Mutex};

/// How many copies with other servers may run at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// All of them.
    pub total: usize,
    /// Those of one user: of all who show the same token, or tokens of one issuer for one subject.
    pub per_user: usize,
    /// Those with one other host.
    pub per_host: usize,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self { total: 96, per_user: 64, per_host: 32 }
    }
}

/// The copies that run.
pub(super) struct Copies {
    limits: CopyLimits,
    running: Mutex<Vec<Running>>,
}

struct Running {
    id: u64,
    user: Option<TokenHash>,
    host: String,
}

/// The place of a copy. It is free again when this is dropped.
pub(super) struct CopyPlace {
    id: u64,
    copies: Arc<Copies>,
}

impl Copies {
    pub(super) fn new(limits: CopyLimits) -> Arc<Self> {
        Arc::new(Self { limits, running: Mutex::default() })
    }

    /// A place for a copy of this user with this host.
    pub(super) fn enter(self: &Arc<Self>, user: Option<TokenHash>, host: &str) -> Result<CopyPlace, Failure> {
        let mut running = lock(&self.running);
        let count = |is: &dyn Fn(&Running) -> bool| running.iter().filter(|one| is(one)).count();
        let full = [
            (count(&|_| true), self.limits.total, "in total".to_owned()),
            (count(&|one| one.user == user), self.limits.per_user, "of one user".to_owned()),
            (count(&|one| one.host == host), self.limits.per_host, format!("with {host}")),
        ];
        if let Some((_, most, whose)) = full.into_iter().find(|(now, most, _)| now >= most) {
            let text = format_args!("Too many copies: {most} {whose} run, as many as may; try again later")
                .to_string();
            return Err(Failure::new(429, text).with(RETRY_AFTER, "10"));
        }
        let id = running.iter().map(|one| one.id + 1).max().unwrap_or(0);
        running.push(Running { id, user, host: host.to_owned() });
        Ok(CopyPlace { id, copies: Arc::clone(self) })
    }
}

impl Drop for CopyPlace {
    fn drop(&mut self) {
        lock(&self.copies.running).retain(|one| one.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_limited_in_total_by_user_and_by_host() {
        let copies = Copies::new(CopyLimits { total: 4, per_user: 3, per_host: 2 });
        let users = [None, Some(TokenHash::of("aaaaaaaaaaaaaaaa"))];
        let enter = |user: usize, host: &str| copies.enter(users[user], host);
        let mut held = vec![enter(0, "a").unwrap(), enter(0, "a").unwrap()];
        assert!(enter(1, "a").is_err_and(|failure| failure.text().contains("2 with a run")));
        held.push(enter(0, "b").unwrap());
        assert!(enter(0, "c").is_err_and(|failure| failure.text().contains("3 of one user")));
        held.push(enter(1, "c").unwrap());
        assert!(enter(1, "d").is_err_and(|failure| failure.text().contains("4 in total")));
        held.remove(0);
        held.push(enter(1, "a").unwrap());
        drop(held);
        assert!(lock(&copies.running).is_empty());
    }
}
