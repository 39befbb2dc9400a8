//! The limit on open files of this process.
//!
//! Most systems start programs with a soft limit of 1024, which every program may raise to the hard limit, often half a
//! million (`ulimit -Hn`). A service that does not raise it is blocked by a thousand idle connections: it can then
//! neither accept connections nor start a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files may be open at a time.
#[must_use]
pub fn limit() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Raise the soft limit to the hard limit. Returns the limit that holds then: the former one, if the kernel refuses.
pub fn raise() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // The former limit holds on.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    limit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_hard_one_then() {
        let hard = getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |most| most as usize);
        assert_eq!((raise(), limit()), (hard, hard));
    }
}
