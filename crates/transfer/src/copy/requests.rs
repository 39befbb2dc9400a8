//! What a receiver asks the sender for, in messages of bounded length.

use super::control::Control;
use super::message::{Message, Want};
use std::io;

/// Most runs of ranges in one message.
const MAX_RUNS_PER_MESSAGE: usize = 4096;

/// What the sender is asked for.
#[derive(Default)]
pub(super) struct Requests {
    pub(super) wants: Vec<Want>,
    pub(super) compares: Vec<usize>,
}

impl Requests {
    pub(super) fn say(self, talk: &mut Control<'_>) -> io::Result<()> {
        for batch in batches(self.wants) {
            talk.say(&Message::Wanted(batch))?;
        }
        self.compares
            .chunks(MAX_RUNS_PER_MESSAGE)
            .try_for_each(|files| talk.say(&Message::Compare(files.to_vec())))
    }
}

/// Wants in messages of bounded length.
fn batches(wants: Vec<Want>) -> Vec<Vec<Want>> {
    let mut batches = vec![Vec::new()];
    let mut runs = 0;
    for want in wants {
        for ranges in want.ranges.chunks(MAX_RUNS_PER_MESSAGE) {
            runs += ranges.len();
            if runs > MAX_RUNS_PER_MESSAGE {
                batches.push(Vec::new());
                runs = ranges.len();
            }
            if let Some(last) = batches.last_mut() {
                last.push(Want { file: want.file, ranges: ranges.to_vec() });
            }
        }
    }
    batches.retain(|batch| !batch.is_empty());
    batches
}
