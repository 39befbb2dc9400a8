//! What the receiving end asks of the sender, in messages of bounded length.

use super::message::{Message, Want};
use super::talk::Talk;
use std::io;

/// Most runs of ranges in one message.
const RUNS: usize = 4096;

/// What the sender is asked for.
#[derive(Default)]
pub(super) struct Asks {
    pub(super) wants: Vec<Want>,
    pub(super) compares: Vec<usize>,
}

impl Asks {
    pub(super) fn say(self, talk: &mut Talk<'_>) -> io::Result<()> {
        for batch in batches(self.wants) {
            talk.say(&Message::Wanted(batch))?;
        }
        self.compares.chunks(RUNS).try_for_each(|files| talk.say(&Message::Compare(files.to_vec())))
    }
}

/// Wants in messages of bounded length.
fn batches(wants: Vec<Want>) -> Vec<Vec<Want>> {
    let mut batches = vec![Vec::new()];
    let mut runs = 0;
    for want in wants {
        for ranges in want.ranges.chunks(RUNS) {
            runs += ranges.len();
            if runs > RUNS {
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
