//! Workers that are not heard, and pauses in which nobody could be heard.

use super::{Balancer, Standing};
use crate::placement::Nanos;

impl Balancer {
    /// The program did not run for `pause` until `now`, as after SIGSTOP. No report could be heard in that time, so it
    /// does not count as silence of the workers. Ticks went on: the prediction keeps the real time.
    pub fn handle_pause(&mut self, pause: Nanos, now: Nanos) {
        for worker in &mut self.workers {
            worker.heard = worker.heard.plus(pause).min(now);
        }
    }

    /// Workers that are not heard lose their share, then their registration.
    pub(super) fn expire(&mut self, now: Nanos) {
        for worker in &mut self.workers {
            let quiet = now.since(worker.heard);
            if worker.standing == Standing::Ready && quiet >= self.config.silent {
                worker.standing = Standing::Waiting;
            }
            if worker.standing == Standing::Waiting && quiet >= self.config.removed {
                worker.standing = Standing::Leaving;
            }
        }
    }
}
