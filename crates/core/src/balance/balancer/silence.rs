//! Workers that stop reporting, and pauses of this program in which no report could be received.

use super::{Balancer, Standing};
use crate::placement::Nanos;

impl Balancer {
    /// The program did not run for `pause` before `now`, for example because of SIGSTOP. No report could be received in
    /// that time, so it does not count as silence of the workers. Ticks continued, so the prediction uses the real
    /// time.
    pub fn handle_pause(&mut self, pause: Nanos, now: Nanos) {
        for worker in &mut self.workers {
            worker.heard = worker.heard.plus(pause).min(now);
        }
    }

    /// Workers that stop reporting lose their share, then their registration.
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
