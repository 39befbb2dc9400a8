//! When an FTS server is asked next, and when it is no longer waited for: pure, so that hours pass in a test.

use std::time::Duration;

/// The first wait, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How long a server may answer nothing that can be used: it is restarted, or a proxy before it has no other.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// Replies in turn that are no job.
const MAX_UNREADABLE: u32 = 6;

/// How a question was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The job, as it is.
    Job,
    /// None now; the server may have said how long to wait.
    Later(String, Option<Duration>),
    /// Something else than a job.
    Unreadable(String),
}

/// The clock of a job that is followed. Times are since it began.
#[derive(Debug)]
pub(super) struct Poll {
    wait: Duration,
    /// The last answer that was a job.
    answered: Duration,
    unreadable: u32,
}

impl Poll {
    pub(super) fn new() -> Self {
        Self { wait: FIRST_WAIT, answered: Duration::ZERO, unreadable: 0 }
    }

    /// How long to wait after an answer at `now`; an error says why the job is no longer followed.
    pub(super) fn next(&mut self, now: Duration, answer: Answer) -> Result<Duration, String> {
        let wait = self.wait;
        self.wait = (wait * 3 / 2).min(MAX_WAIT);
        match answer {
            Answer::Job => {
                (self.answered, self.unreadable) = (now, 0);
                Ok(wait)
            }
            Answer::Unreadable(text) => {
                self.unreadable += 1;
                if self.unreadable >= MAX_UNREADABLE { Err(text) } else { Ok(wait) }
            }
            Answer::Later(text, asked) => {
                let silent = now.saturating_sub(self.answered);
                if silent < PATIENCE {
                    return Ok(wait.max(asked.unwrap_or_default().min(MAX_WAIT)));
                }
                Err(format!("no answer that can be used in {} min: {text}", silent.as_secs() / 60))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(poll: &mut Poll, now: u64, answer: Answer) -> Result<f64, String> {
        poll.next(Duration::from_secs(now), answer).map(|wait| wait.as_secs_f64())
    }

    #[test]
    fn waits_grow_to_half_a_minute() {
        let mut poll = Poll::new();
        let waits: Vec<f64> = (0..12).map(|now| seconds(&mut poll, now, Answer::Job).unwrap()).collect();
        assert_eq!(waits[..3], [1.0, 1.5, 2.25]);
        assert_eq!(waits[11], 30.0);
        // A server may ask for a longer wait, though not for an hour.
        let later = |wait| Answer::Later("busy".to_owned(), Some(Duration::from_secs(wait)));
        let mut poll = Poll::new();
        assert_eq!(seconds(&mut poll, 1, later(7)), Ok(7.0));
        assert_eq!(seconds(&mut poll, 2, later(3600)), Ok(30.0));
    }

    #[test]
    fn a_server_is_waited_for_while_it_restarts_and_not_for_ever() {
        let later = || Answer::Later("Connection refused".to_owned(), None);
        let mut poll = Poll::new();
        seconds(&mut poll, 1000, Answer::Job).unwrap();
        assert!((1000..1900).all(|now| seconds(&mut poll, now, later()).is_ok()));
        let why = seconds(&mut poll, 1900, later()).unwrap_err();
        assert!(why.contains("in 15 min: Connection refused"), "{why}");
        // Nor is one that says something else each time.
        let mut poll = Poll::new();
        let lies = |poll: &mut Poll| {
            (1..20).position(|now| seconds(poll, now, Answer::Unreadable("no job".to_owned())).is_err())
        };
        assert_eq!(lies(&mut poll), Some(5));
        let mut poll = Poll::new();
        for now in 1..100 {
            let answer = if now % 4 == 0 { Answer::Job } else { Answer::Unreadable("no job".to_owned()) };
            assert!(seconds(&mut poll, now, answer).is_ok());
        }
    }
}
