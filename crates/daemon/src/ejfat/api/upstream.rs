//! Active chains of a reservation: their reports, the senders admitted for them, and how they leave.

use super::super::client::ControlPlane;
use super::super::proto::{ChainGraphEdge, IpFamily, RegisterReply};
use super::super::registry::Chain;
use super::active::{ActiveChain, EndedChain};
use super::{Api, Refusal, RefusalKind, Running, State};
use skyhaul::core::hint::Hint;
use skyhaul::core::wire::ejfat::Uri;
use skyhaul_core::balance::{AllowList, Prefix};
use std::collections::BTreeMap;
use std::net::SocketAddr;

impl State {
    /// Sets who may send to a reservation: its senders, and the load balancers that feed it.
    pub(super) fn admit(&self, id: i64) -> Result<(), Refusal> {
        let running = self.running.get(&id).ok_or_else(|| super::gone(id))?;
        let leaving = running.leaving.iter().flat_map(|leaving| &leaving.addresses);
        let chained = self.registry.chains(id).flat_map(|chain| &chain.addresses);
        let chained = chained.chain(leaving).filter_map(|ip| ip.to_string().parse::<Prefix>().ok());
        let all: Vec<Prefix> = self.reservation(id)?.senders.iter().copied().chain(chained).collect();
        running.balance.allow(AllowList::of(&all));
        Ok(())
    }

    /// End a chain gracefully: packets in flight still arrive, and their source stays admitted until then.
    pub(super) fn leave(&mut self, id: i64, chain: i64) -> Result<(), Refusal> {
        let running = self.running.get_mut(&id).ok_or_else(|| super::gone(id))?;
        if let Some(ActiveChain { worker, addresses, .. }) = running.chains.remove(&chain) {
            let leave = std::thread::Builder::new().name("chain-leaves".to_owned());
            // Without a thread, it leaves immediately when dropped.
            if let Ok(thread) = leave.spawn(move || drop(worker.leave())) {
                running.leaving.push(EndedChain { thread, addresses });
            }
        }
        self.admit(id)
    }

    /// The address at which a reservation receives, for a version of IP.
    pub(super) fn receives(&self, id: i64, family: i32) -> Result<SocketAddr, Refusal> {
        let v6 = match IpFamily::try_from(family) {
            Ok(IpFamily::Ipv4) => false,
            Ok(IpFamily::Ipv6) => true,
            Ok(IpFamily::DualStack) | Err(_) => {
                let text = format!("a chain uses one IP version{}", Hint("set ipFamily to IPV4 or IPV6"));
                return Err(Refusal::invalid(text));
            }
        };
        let balance = self.balance(id)?;
        let at = balance.data().iter().find(|at| at.is_ipv6() == v6).copied();
        at.ok_or_else(|| {
            let text =
                format!("this balancer has no address of that IP version{}", Hint("use the other version"));
            Refusal::new(RefusalKind::Unfit, text)
        })
    }

    /// The chains of a reservation, as a graph.
    pub(super) fn edges(&self, id: i64) -> Result<Vec<ChainGraphEdge>, Refusal> {
        let here = self.describe(id)?;
        let edge = |chain: &Chain| {
            let of = |v6: bool| {
                let ip = chain.addresses.iter().find(|ip| ip.is_ipv6() == v6);
                ip.map_or_else(String::new, ToString::to_string)
            };
            let uri: Option<Uri> = chain.uri.parse().ok();
            ChainGraphEdge {
                upstream_lb_id: uri.and_then(|uri| uri.balancer).unwrap_or_default(),
                upstream_data_ipv4: of(false),
                upstream_data_ipv6: of(true),
                downstream_lb_id: id.to_string(),
                downstream_data_ipv4: here.data_ipv4_address.clone(),
                downstream_data_ipv6: here.data_ipv6_address.clone(),
                chain_id: chain.id.to_string(),
            }
        };
        Ok(self.registry.chains(id).map(edge).collect())
    }

    pub(super) fn planes(&self, id: i64) -> Vec<ControlPlane> {
        let running = self.running.get(&id);
        running.into_iter().flat_map(|running| running.chains.values()).map(|one| one.plane.clone()).collect()
    }

    /// Updates the chains and collects those whose session has changed.
    fn turn_chains(&mut self, id: i64, slots: &BTreeMap<i64, u16>) -> Vec<(i64, RegisterReply)> {
        let mut others = Vec::new();
        let State { registry, running, .. } = self;
        let Some(running) = running.get_mut(&id) else { return others };
        running.together.shares(slots);
        // Without workers, it must get no events.
        running.ready = slots.values().any(|slots| *slots > 0);
        for (chain, chained) in &mut running.chains {
            if chained.ready != running.ready {
                chained.ready = running.ready;
                chained.worker.set_ready(running.ready);
            }
            let now = chained.worker.registered();
            if registry.chains(id).any(|one| one.id == *chain && one.session != now.session_id) {
                others.push((*chain, now));
            }
        }
        let before = running.leaving.len();
        running.leaving.retain(|leaving| !leaving.thread.is_finished());
        if running.leaving.len() != before {
            let _ = self.admit(id);
        }
        others
    }
}

impl Api {
    /// See [`State::turn_chains`]. Returns errors of writing the changes.
    pub(super) fn turn_chains(&self, id: i64, slots: &BTreeMap<i64, u16>) -> Option<String> {
        let others = self.locked().turn_chains(id, slots);
        let mut wrong = None;
        for (chain, RegisterReply { token, session_id }) in others {
            let kept = self.change(|state| Ok(state.registry.rechain(chain, &session_id, &token)?));
            if let Err(error) = kept {
                wrong = Some(format!("the new session of chain {chain} cannot be kept: {error}"));
            }
        }
        wrong
    }
}

impl Running {
    /// Let all chains leave, gracefully or immediately; returns when they have left.
    pub(super) fn unchain(&mut self, at_once: bool) {
        let all = std::mem::take(&mut self.chains);
        std::thread::scope(|threads| {
            for chained in all.into_values() {
                let worker = chained.worker;
                threads.spawn(move || drop(if at_once { worker.leave_at_once() } else { worker.leave() }));
            }
        });
        for leaving in self.leaving.drain(..) {
            if !at_once {
                let _ = leaving.thread.join();
            }
        }
    }
}
