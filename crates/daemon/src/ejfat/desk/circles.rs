//! Detects circles between reservations of one control plane.

use super::super::ground::registration;
use super::{Kind, Refusal, State};
use skyhaul_core::balance::Member;
use std::collections::BTreeSet;

impl State {
    /// Checks that a worker at this address does not lead back to reservation `id` through other reservations of this
    /// control plane. The balancer itself refuses its own address.
    ///
    /// # Errors
    /// [`Kind::Unfit`] if it does.
    pub(super) fn no_circle(&self, id: i64, member: &Member) -> Result<(), Refusal> {
        let (mut next, mut seen) = (vec![*member], BTreeSet::new());
        while let Some(to) = next.pop() {
            for (&reached, running) in &self.running {
                if !running.balance.is_reached_by(&to) || reached == id && to == *member {
                    continue;
                }
                if reached == id {
                    let text = format!(
                        "reservation {id} feeds the load balancer at this address already: packets would circulate; hint: look at \
                         the workers of both"
                    );
                    return Err(Refusal::new(Kind::Unfit, text));
                }
                if seen.insert(reached) {
                    let workers = self.facility.sessions(reached).filter_map(registration);
                    next.extend(workers.map(|like| like.member));
                }
            }
        }
        Ok(())
    }
}
