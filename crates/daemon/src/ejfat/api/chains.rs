//! Chains: a reservation is a worker of another load balancer, which sends it part of its events.
//!
//! ```text
//!   senders ─▶ upstream ─┬─▶ worker                        each event whole to one of them
//!                        └─▶ reservation here ─┬─▶ worker  with its label, so it is balanced again by the same tick
//!                              │ LoadSum       └─▶ worker
//!   upstream's control plane ◀─┴─ Worker: registers, reports the sum of its workers, leaves
//! ```
//!
//! Packets would circulate in a cycle, so the other control plane is asked what is upstream of it, before a chain is
//! made and again afterwards. Nothing here is locked while waiting for another control plane.
//!
//! Limits: 16 chains of a reservation; 8 concurrent calls that ask others, 32 balancers in a row, 1024 edges of a
//! graph.

use super::super::client::{ClientOptions, ControlError, ControlPlane, Why};
use super::super::proto::{
    ChainLoadBalancerReply, ChainLoadBalancerRequest, GetChainGraphReply, GetChainGraphRequest,
    RegisterReply, ReserveLoadBalancerReply, UnchainLoadBalancerReply, UnchainLoadBalancerRequest,
};
use super::super::registry::Chain;
use super::super::registry::token::{Level, Resource};
use super::super::worker::{Worker, WorkerOptions};
use super::{Api, Caller, Refusal, RefusalKind, Running, State, cut, number};
use crate::ejfat::proto::{ChainGraphEdge, IpFamily};
use skyhaul::core::hint::Hint;
use skyhaul::core::wire::ejfat::Uri;
use skyhaul::io::lock::lock;
use skyhaul_core::balance::{AllowList, Prefix};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tonic::Code;

/// Deadline for another control plane.
const PEER_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of concurrent calls that ask other control planes. Each of them holds a thread; other calls continue.
const MAX_PEER_CALLS: usize = 8;
/// Maximum number of load balancers in a row.
const MAX_DEPTH: usize = 32;
/// Maximum length of a load balancer's name in a graph, bytes.
const MAX_NODE_BYTES: usize = 256;
/// Maximum length of another load balancer's MAX_URI_BYTES, bytes.
const MAX_URI_BYTES: usize = 4096;
/// Maximum number of edges of a graph.
const MAX_EDGES: usize = 1024;
/// Maximum number of notes kept until they are fetched.
const MAX_NOTES: usize = 100;

/// Counts a running call that asks other control planes.
struct Asking<'a>(&'a AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Api {
    /// Makes a reservation a worker of another load balancer.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn chain_load_balancer(
        &self,
        caller: &Caller,
        request: ChainLoadBalancerRequest,
    ) -> Result<ChainLoadBalancerReply, Refusal> {
        let id = number(&request.lb_id)?;
        let (at, ready, load) = {
            let state = self.locked();
            state.may(caller, Resource::Reservation(id), Level::Update)?;
            state.registry.room_for_chain(id)?;
            let running = state.running.get(&id).ok_or_else(|| super::gone(id))?;
            (state.receives(id, request.ip_family)?, running.ready, running.together.clone())
        };
        let uri = upstream(&request.ejfat_uri)?;
        let _asking = self.asking()?;
        let plane = self.plane(&uri)?;
        let addresses = addresses(&plane.get().map_err(|error| refused(&error))?);
        self.no_cycle(&plane, id)?;
        let chain = Chain {
            id: 0,
            reservation: id,
            uri: uri.to_string(),
            session: String::new(),
            token: String::new(),
            addresses,
            ip: at.ip(),
            port: at.port(),
            // An unset field is 0.
            weight: if request.weight == 0.0 { 1.0 } else { request.weight },
            min_factor: request.min_factor,
            max_factor: request.max_factor,
        };
        let mut options = self.options(&chain, ready);
        options.slot_demands = request.slot_demands;
        let worker = Worker::join(&plane, options, Box::new(load)).map_err(|error| refused(&error))?;
        let RegisterReply { token, session_id: session } = worker.registered();
        let chain_id = self.enter(Chain { session, token, ..chain }, worker, plane.clone(), ready)?;
        // If two balancers chain each other at the same time, the later one sees both chains.
        if let Err(refusal) = self.no_cycle(&plane, id) {
            self.change(|state| Ok(state.registry.unchain(chain_id)))?;
            self.locked().leave(id, chain_id)?;
            return Err(refusal);
        }
        Ok(ChainLoadBalancerReply { chain_id: chain_id.to_string() })
    }

    /// Ends a chain; packets in flight still arrive.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn unchain_load_balancer(
        &self,
        caller: &Caller,
        request: UnchainLoadBalancerRequest,
    ) -> Result<UnchainLoadBalancerReply, Refusal> {
        let id = number(&request.lb_id)?;
        let chain = self.change(|state| {
            state.may(caller, Resource::Reservation(id), Level::Update)?;
            let chain = request.chain_id.parse::<i64>().ok();
            let chain = chain.filter(|chain| state.registry.chains(id).any(|one| one.id == *chain));
            let chain = chain.ok_or_else(|| {
                let (chain, hint) = (cut(&request.chain_id), Hint("GetChainGraph lists them"));
                Refusal::new(RefusalKind::Missing, format!("reservation {id} has no chain `{chain}`{hint}"))
            })?;
            Ok(state.registry.unchain(chain).map(move |()| chain))
        })?;
        self.locked().leave(id, chain)?;
        Ok(UnchainLoadBalancerReply {})
    }

    /// Returns which balancers feed a reservation, directly and indirectly.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn get_chain_graph(
        &self,
        caller: &Caller,
        request: GetChainGraphRequest,
    ) -> Result<GetChainGraphReply, Refusal> {
        let id = number(&request.lb_id)?;
        let (mut edges, planes) = {
            let state = self.locked();
            state.may(caller, Resource::Reservation(id), Level::ReadOnly)?;
            (state.edges(id)?, state.planes(id))
        };
        let mut visited = request.visited;
        if visited.len() > MAX_DEPTH + 1 || visited.iter().any(|node| node.len() > MAX_NODE_BYTES) {
            let text = format!(
                "a graph has at most {MAX_DEPTH} load balancers in a row, with names of {MAX_NODE_BYTES} bytes"
            );
            return Err(Refusal::invalid(text));
        }
        let own = self.node_of(id);
        if visited.contains(&own) {
            return Ok(GetChainGraphReply { edges: Vec::new(), cycle_detected: true });
        }
        visited.push(own);
        if planes.is_empty() || visited.len() > MAX_DEPTH {
            return Ok(GetChainGraphReply { edges, cycle_detected: false });
        }
        let _asking = self.asking()?;
        for plane in planes {
            // Unreachable balancers are omitted.
            let Ok(more) = plane.chain_graph(visited.clone()) else { continue };
            edges.extend(more.edges);
            edges.truncate(MAX_EDGES);
            if more.cycle_detected {
                return Ok(GetChainGraphReply { edges, cycle_detected: true });
            }
        }
        Ok(GetChainGraphReply { edges, cycle_detected: false })
    }

    /// Restart the stored chains, each with its session.
    pub(super) fn rechain(&self) {
        let mut state = self.locked();
        let all: Vec<Chain> =
            state.running.keys().flat_map(|id| state.registry.chains(*id)).cloned().collect();
        for chain in all {
            let load = state.running.get(&chain.reservation).map(|running| running.together.clone());
            let uri: Option<Uri> = chain.uri.parse().ok();
            let plane = uri.and_then(|uri| self.plane(&uri).ok());
            let (Some(load), Some(plane)) = (load, plane) else { continue };
            let reply = RegisterReply { token: chain.token.clone(), session_id: chain.session.clone() };
            let options = self.options(&chain, false);
            match Worker::resume(&plane, options, reply, Box::new(load)) {
                Ok(worker) => {
                    if let Some(running) = state.running.get_mut(&chain.reservation) {
                        let addresses = chain.addresses.clone();
                        running
                            .chains
                            .insert(chain.id, ActiveChain { worker, plane, addresses, ready: false });
                    }
                }
                Err(error) => self.say(&format!("chain {}: {error}", chain.id)),
            }
            let _ = state.admit(chain.reservation);
        }
    }

    /// Returns the notes of the chains, for a log.
    pub(super) fn said(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.notes))
    }

    fn say(&self, text: &str) {
        say(&self.notes, text);
    }

    /// The options of a chain as a worker of the other load balancer.
    fn options(&self, chain: &Chain, ready: bool) -> WorkerOptions {
        let (notes, name) = (Arc::clone(&self.notes), format!("chain-{}", chain.reservation));
        let before = format!("a chain of reservation {}: ", chain.reservation);
        WorkerOptions {
            name,
            weight: chain.weight,
            min_factor: chain.min_factor,
            max_factor: chain.max_factor,
            keep_label: true,
            is_ready: ready,
            say: Arc::new(move |text| say(&notes, &format!("{before}{}", text.replace('\n', ";")))),
            ..WorkerOptions::new(chain.ip, chain.port)
        }
    }

    fn plane(&self, uri: &Uri) -> Result<ControlPlane, Refusal> {
        let options =
            ClientOptions { trust: self.trust.clone(), deadline: PEER_TIMEOUT, patience: Duration::ZERO };
        ControlPlane::new(uri, &options).map_err(|error| refused(&error))
    }

    fn asking(&self) -> Result<Asking<'_>, Refusal> {
        let asking = Asking(&self.asking);
        if self.asking.fetch_add(1, Ordering::AcqRel) < MAX_PEER_CALLS {
            return Ok(asking);
        }
        let text = format!(
            "{MAX_PEER_CALLS} calls are already waiting for other control planes{}",
            Hint("try again later")
        );
        Err(Refusal::new(RefusalKind::Exhausted, text))
    }

    /// The unique name of this reservation in graphs.
    fn node_of(&self, id: i64) -> String {
        format!("{}/{id}", self.node)
    }

    /// Checks that this load balancer does not feed the other.
    fn no_cycle(&self, plane: &ControlPlane, id: i64) -> Result<(), Refusal> {
        match plane.chain_graph(vec![self.node_of(id)]) {
            Ok(graph) if graph.cycle_detected => Err(Refusal::new(
                RefusalKind::Unfit,
                format!(
                    "load balancer {} of {} is fed by this one: events would circulate{}",
                    plane.uri().balancer.as_deref().unwrap_or("?"),
                    plane.at(),
                    Hint("check the chains of both")
                ),
            )),
            Ok(_) => Ok(()),
            // A balancer without that call cannot be part of a chain itself.
            Err(ControlError { why: Why::Refused { code: Code::Unimplemented, .. }, .. }) => Ok(()),
            Err(error) => Err(refused(&error)),
        }
    }

    /// Database a chain and admit its packets.
    fn enter(&self, chain: Chain, worker: Worker, plane: ControlPlane, ready: bool) -> Result<i64, Refusal> {
        let id = chain.reservation;
        let addresses = chain.addresses.clone();
        let chain_id = self.change(|state| {
            // The reservation may have ended meanwhile. A chain that is not stored leaves when it is dropped.
            state.reservation(id)?;
            Ok(state.registry.chain(chain)?)
        })?;
        let mut state = self.locked();
        let running = state.running.get_mut(&id).ok_or_else(|| super::gone(id))?;
        running.chains.insert(chain_id, ActiveChain { worker, plane, addresses, ready });
        state.admit(id)?;
        Ok(chain_id)
    }
}

fn say(notes: &Notes, text: &str) {
    let mut notes = lock(notes);
    if notes.len() < MAX_NOTES {
        notes.push(text.to_owned());
    }
}

/// Parses the MAX_URI_BYTES of the other load balancer. Errors never contain its token.
fn upstream(text: &str) -> Result<Uri, Refusal> {
    if text.len() > MAX_URI_BYTES {
        return Err(Refusal::invalid(format!("ejfatUri is longer than {MAX_URI_BYTES} bytes")));
    }
    let uri: Uri = text.parse().map_err(|error| Refusal::invalid(format!("ejfatUri: {error}")))?;
    let lacks = |what: &str| {
        Refusal::invalid(format!(
            "ejfatUri has no {what}{}",
            Hint("give the URI of the other load balancer's reservation")
        ))
    };
    uri.token.as_ref().ok_or_else(|| lacks("token"))?;
    uri.balancer.as_ref().ok_or_else(|| lacks("load balancer"))?;
    Ok(uri)
}

/// The source addresses of a load balancer's packets.
fn addresses(of: &ReserveLoadBalancerReply) -> Vec<IpAddr> {
    [&of.data_ipv4_address, &of.data_ipv6_address].iter().filter_map(|ip| ip.parse().ok()).collect()
}

/// The refusal for an error of another control plane, which does not concern the caller's token.
fn refused(error: &ControlError) -> Refusal {
    let kind = if error.is_away() { RefusalKind::Unavailable } else { RefusalKind::Unfit };
    Refusal::new(kind, format!("the other load balancer: {error}"))
}

impl State {
    /// Sets who may send to a reservation: its senders, and the load balancers that feed it.
    pub(super) fn admit(&self, id: i64) -> Result<(), Refusal> {
        let running = self.running.get(&id).ok_or_else(|| crate::ejfat::api::gone(id))?;
        let leaving = running.leaving.iter().flat_map(|leaving| &leaving.addresses);
        let chained = self.registry.chains(id).flat_map(|chain| &chain.addresses);
        let chained = chained.chain(leaving).filter_map(|ip| ip.to_string().parse::<Prefix>().ok());
        let all: Vec<Prefix> = self.reservation(id)?.senders.iter().copied().chain(chained).collect();
        running.balance.allow(AllowList::of(&all));
        Ok(())
    }

    /// End a chain gracefully: packets in flight still arrive, and their source stays admitted until then.
    pub(super) fn leave(&mut self, id: i64, chain: i64) -> Result<(), Refusal> {
        let running = self.running.get_mut(&id).ok_or_else(|| crate::ejfat::api::gone(id))?;
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

/// Notes of chains, until they are fetched.
pub(super) type Notes = Arc<Mutex<Vec<String>>>;

/// An active chain.
pub(super) struct ActiveChain {
    pub(super) worker: Worker,
    pub(super) plane: ControlPlane,
    /// Source addresses of its packets.
    pub(super) addresses: Vec<IpAddr>,
    /// Whether it has been told that there are workers.
    pub(super) ready: bool,
}

/// A chain that has ended: packets of old calendars still arrive from it.
pub(super) struct EndedChain {
    pub(super) thread: JoinHandle<()>,
    pub(super) addresses: Vec<IpAddr>,
}
