//! Reservations and their senders.

use super::super::instances::seated;
use super::super::proto::{
    AddSendersReply, AddSendersRequest, ExtendReservationReply, ExtendReservationRequest,
    FreeLoadBalancerReply, FreeLoadBalancerRequest, GetLoadBalancerRequest, IpFamily, RemoveSendersReply,
    RemoveSendersRequest, ReserveLoadBalancerReply, ReserveLoadBalancerRequest, ResetLoadBalancerReply,
    ResetLoadBalancerRequest,
};
use super::super::registry::token::{Level, Permission, Resource};
use super::super::registry::{ChangeError, Millis, NewToken, Reservation};
use super::periodic::InstanceLock;
use super::{Api, Caller, Refusal, RefusalKind, Running, State, cut, denied, name, number, of_reservation};
use prost_types::Timestamp;
use skyhaul::auth::{TokenHash, derived_token, new_token};
use skyhaul::core::hint::Hint;
use skyhaul_core::balance::{Prefix, Strategy};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// Default duration of a reservation, milliseconds.
const DEFAULT_DURATION_MILLIS: Millis = 365 * 24 * 3600 * 1000;

impl Api {
    /// Reserves a load balancer.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reserve_load_balancer(
        &self,
        caller: &Caller,
        request: ReserveLoadBalancerRequest,
    ) -> Result<ReserveLoadBalancerReply, Refusal> {
        let token = new_token().map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        let (wanted, parent, _busy) = self.free_one(caller, &request)?;
        // Detect a taken port before anything is written. No other call waits while a process starts.
        self.instances.clear(wanted.instance)?;
        let balance = self.instances.open(&wanted, std::iter::empty())?;
        let new = NewToken { parent, hash: TokenHash::of(&token), name: "reservation", now: caller.now };
        let entered = self.change(|state| {
            // It may be revoked by now.
            state.token(caller)?;
            Ok(state.registry.reserve(&wanted, &new)?)
        });
        let id = match entered {
            Ok(id) => id,
            Err(refusal) => {
                // Otherwise, the forwarding process would continue without a reservation.
                let _ = balance.stop();
                return Err(refusal);
            }
        };
        let mut state = self.locked();
        state.running.insert(id, Running::new(balance));
        Ok(ReserveLoadBalancerReply {
            ejfat_uri: state.uri(caller, id, &token)?,
            token,
            ..state.describe(id)?
        })
    }

    /// A free load balancer for the request, and the number of the token that reserves it.
    fn free_one(
        &self,
        caller: &Caller,
        request: &ReserveLoadBalancerRequest,
    ) -> Result<(Reservation, i64, InstanceLock<'_>), Refusal> {
        let limits = {
            let state = self.locked();
            let parent = state.token(caller)?;
            let limits = *state.registry.limits();
            let may = |n: i64| state.registry.may(parent, Resource::Instance(n), Level::Reserve);
            if !(1..=limits.instances).any(may) {
                return Err(denied(Resource::Instance(1), Level::Reserve));
            }
            limits
        };
        let wanted = Reservation {
            id: 0,
            instance: 0,
            name: name(&request.name, limits.name)?.to_owned(),
            family: family(request.ip_family, &self.instances.addresses())?,
            strategy: strategy(&request.strategy)?,
            created: caller.now,
            until: until(request.until, caller.now)?,
            senders: senders(&request.sender_addresses, &[], limits.senders)?,
        };
        let mut state = self.locked();
        let parent = state.token(caller)?;
        let may = |n: i64| {
            state.registry.may(parent, Resource::Instance(n), Level::Reserve) && !state.busy.contains(&n)
        };
        let (parent, instance) = (parent.id, state.registry.free_instance(may)?);
        let busy = self.busy_in(&mut state, instance).ok_or(ChangeError::Full("load balancers", 0))?;
        Ok((Reservation { instance, ..wanted }, parent, busy))
    }

    /// Returns the URI of the reservation called `name`, which is created if there is none. It is for the operator,
    /// whose token is in `caller`. The URI stays the same as long as the operator's token does.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reserve_named(
        &self,
        caller: &Caller,
        request: ReserveLoadBalancerRequest,
    ) -> Result<(i64, String), Refusal> {
        let named = |name: &str| {
            let state = self.locked();
            state.registry.reservations().find(|r| r.name == name).map(|r| r.id)
        };
        let id = match named(&request.name) {
            Some(id) => id,
            None => number(&self.reserve_load_balancer(caller, request)?.lb_id)?,
        };
        let token = derived_token(caller.token.as_deref().unwrap_or_default(), &format!("reservation {id}"));
        if self.keys.find(&token).is_none() {
            let all = Permission { resource: Resource::Reservation(id), level: Level::Update };
            self.change(|state| {
                let parent = state.may(caller, Resource::Reservation(id), Level::Update)?.id;
                let new = NewToken { parent, hash: TokenHash::of(&token), name: "named", now: caller.now };
                Ok(state.registry.create_token(&new, &[all])?)
            })?;
        }
        let state = self.locked();
        state.may(caller, Resource::Reservation(id), Level::Update)?;
        Ok((id, state.uri(caller, id, &token)?))
    }

    /// Returns a reservation.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn get_load_balancer(
        &self,
        caller: &Caller,
        request: GetLoadBalancerRequest,
    ) -> Result<ReserveLoadBalancerReply, Refusal> {
        let (state, id) = (self.locked(), number(&request.lb_id)?);
        state.may(caller, Resource::Reservation(id), Level::ReadOnly)?;
        state.describe(id)
    }

    /// Ends a reservation.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn free_load_balancer(
        &self,
        caller: &Caller,
        request: FreeLoadBalancerRequest,
    ) -> Result<FreeLoadBalancerReply, Refusal> {
        let id = number(&request.lb_id)?;
        self.locked().may(caller, Resource::Reservation(id), Level::Update)?;
        self.end(id)?;
        Ok(FreeLoadBalancerReply {})
    }

    /// Resets senders, workers or ticks of a reservation. Ticks and calendars are reset together.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reset_load_balancer(
        &self,
        caller: &Caller,
        request: ResetLoadBalancerRequest,
    ) -> Result<ResetLoadBalancerReply, Refusal> {
        let id = number(&request.lb_id)?;
        let balance = {
            let state = self.locked();
            state.may(caller, Resource::Reservation(id), Level::Update)?;
            state.balance(id)?
        };
        if request.senders {
            self.allow(caller, id, |_| Ok(Vec::new()))?;
        }
        if request.workers {
            let mut numbers: Vec<u64> = Vec::new();
            self.change(|state| {
                state.may(caller, Resource::Reservation(id), Level::Update)?;
                numbers = state.registry.sessions(id).map(|session| session.number).collect();
                let ids: Vec<i64> = state.registry.sessions(id).map(|session| session.id).collect();
                Ok(state.registry.deregister(&ids))
            })?;
            for number in numbers {
                // The balancer may have removed it already.
                let _ = balance.evict(seated(number));
            }
        }
        let ticks = request.sync || request.epochs;
        if ticks {
            balance.reset();
        }
        let ResetLoadBalancerRequest { senders, workers, .. } = request;
        Ok(ResetLoadBalancerReply { sync: ticks, epochs: ticks, senders, workers })
    }

    /// Changes the end of a reservation.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn extend_reservation(
        &self,
        caller: &Caller,
        request: ExtendReservationRequest,
    ) -> Result<ExtendReservationReply, Refusal> {
        let id = number(&request.lb_id)?;
        let until = self.change(|state| {
            state.may(caller, Resource::Reservation(id), Level::Update)?;
            let until = until(request.until, caller.now)?;
            Ok(state.registry.extend(id, until)?.map(move |()| until))
        })?;
        Ok(ExtendReservationReply { until: until.map(timestamp) })
    }

    /// Adds senders.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn add_senders(
        &self,
        caller: &Caller,
        request: AddSendersRequest,
    ) -> Result<AddSendersReply, Refusal> {
        let (id, most) = self.may_change(caller, &request.lb_id)?;
        let more = senders(&request.sender_addresses, &[], most)?;
        self.allow(caller, id, |now| Ok(union(now, &more)))?;
        Ok(AddSendersReply {})
    }

    /// Removes senders.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn remove_senders(
        &self,
        caller: &Caller,
        request: RemoveSendersRequest,
    ) -> Result<RemoveSendersReply, Refusal> {
        let (id, most) = self.may_change(caller, &request.lb_id)?;
        let gone: HashSet<Prefix> = senders(&request.sender_addresses, &[], most)?.into_iter().collect();
        self.allow(caller, id, |now| Ok(now.iter().filter(|one| !gone.contains(one)).copied().collect()))?;
        Ok(RemoveSendersReply {})
    }

    /// The reservation with this number, if the caller may change it, and its maximum number of senders.
    fn may_change(&self, caller: &Caller, id: &str) -> Result<(i64, usize), Refusal> {
        let (state, id) = (self.locked(), number(id)?);
        state.may(caller, Resource::Reservation(id), Level::Update)?;
        Ok((id, state.registry.limits().senders))
    }

    /// Database and apply a new list of senders.
    fn allow(
        &self,
        caller: &Caller,
        id: i64,
        list: impl FnOnce(&[Prefix]) -> Result<Vec<Prefix>, Refusal>,
    ) -> Result<(), Refusal> {
        self.change(|state| {
            state.may(caller, Resource::Reservation(id), Level::Update)?;
            let list = list(&state.reservation(id)?.senders)?;
            Ok(state.registry.set_senders(id, list)?)
        })?;
        self.locked().admit(id)
    }
}

impl State {
    /// A reservation, without its token.
    pub(super) fn describe(&self, id: i64) -> Result<ReserveLoadBalancerReply, Refusal> {
        let reservation = self.reservation(id)?;
        let (data, sync) = self.addresses(id)?;
        let ip = |list: &[SocketAddr], v4: bool| {
            let of = list.iter().find(|at| at.is_ipv4() == v4);
            of.map_or_else(String::new, |at| at.ip().to_string())
        };
        let port = |list: &[SocketAddr]| list.first().map_or(0, |at| u32::from(at.port()));
        Ok(ReserveLoadBalancerReply {
            token: String::new(),
            lb_id: id.to_string(),
            sync_ipv4_address: ip(&sync, true),
            sync_ipv6_address: ip(&sync, false),
            sync_udp_port: port(&sync),
            data_ipv4_address: ip(&data, true),
            data_ipv6_address: ip(&data, false),
            data_min_port: port(&data),
            data_max_port: port(&data),
            fpga_lb_id: u32::try_from(reservation.instance - 1).unwrap_or(0),
            strategy: match reservation.strategy {
                Strategy::Dynamic => "dynamic",
                Strategy::Static => "static",
                Strategy::Explicit => "explicit",
            }
            .to_owned(),
            ejfat_uri: String::new(),
        })
    }

    /// The addresses for senders, for the requested version of IP, IPv4 first.
    fn addresses(&self, id: i64) -> Result<(Vec<SocketAddr>, Vec<SocketAddr>), Refusal> {
        let (balance, family) = (self.balance(id)?, self.reservation(id)?.family);
        let wanted = |list: &[SocketAddr]| {
            let of = |at: &&SocketAddr| version(family, at.ip());
            let mut list: Vec<SocketAddr> = list.iter().filter(of).copied().collect();
            list.sort_by_key(SocketAddr::is_ipv6);
            list
        };
        Ok((wanted(balance.data()), wanted(balance.sync())))
    }

    /// The URI of a reservation with this token.
    pub(super) fn uri(&self, caller: &Caller, id: i64, token: &str) -> Result<String, Refusal> {
        let (data, sync) = self.addresses(id)?;
        Ok(of_reservation(&caller.server, token, id, &data, &sync))
    }
}

fn version(family: i32, ip: IpAddr) -> bool {
    match IpFamily::try_from(family) {
        Ok(IpFamily::Ipv4) => ip.is_ipv4(),
        Ok(IpFamily::Ipv6) => ip.is_ipv6(),
        Ok(IpFamily::DualStack) | Err(_) => true,
    }
}

fn family(family: i32, listen: &[IpAddr]) -> Result<i32, Refusal> {
    IpFamily::try_from(family).map_err(|_| Refusal::invalid(format!("unknown IP family {family}")))?;
    if listen.iter().any(|&ip| version(family, ip)) {
        return Ok(family);
    }
    Err(Refusal::new(
        RefusalKind::Unfit,
        format!("this balancer has no address of that IP version{}", Hint("start it with another --listen")),
    ))
}

fn strategy(strategy: &str) -> Result<Strategy, Refusal> {
    match strategy {
        "" | "dynamic" => Ok(Strategy::Dynamic),
        "static" => Ok(Strategy::Static),
        "explicit" => Ok(Strategy::Explicit),
        other => {
            let text = format!("unknown strategy `{}`{}", cut(other), Hint("dynamic, static or explicit"));
            Err(Refusal::invalid(text))
        }
    }
}

/// The end of a reservation. The Unix epoch means never, as the protocol defines.
fn until(until: Option<Timestamp>, now: Millis) -> Result<Option<Millis>, Refusal> {
    match until {
        None => Ok(Some(now + DEFAULT_DURATION_MILLIS)),
        Some(Timestamp { seconds: 0, nanos: 0 }) => Ok(None),
        Some(Timestamp { seconds, nanos }) => {
            let millis =
                seconds.checked_mul(1000).and_then(|millis| millis.checked_add(i64::from(nanos) / 1_000_000));
            let later = millis.filter(|until| *until > now && (0..1_000_000_000).contains(&nanos));
            later.map(Some).ok_or_else(|| {
                Refusal::invalid(format!(
                    "`until` is not in the future{}",
                    Hint("compare the clocks of both hosts")
                ))
            })
        }
    }
}

/// A Unix time in the form of the protocol.
pub(super) fn timestamp(at: Millis) -> Timestamp {
    Timestamp { seconds: at.div_euclid(1000), nanos: (at.rem_euclid(1000) * 1_000_000) as i32 }
}

/// `list` with these senders added.
fn senders(texts: &[String], list: &[Prefix], most: usize) -> Result<Vec<Prefix>, Refusal> {
    if texts.len() > most {
        return Err(Refusal::new(
            RefusalKind::Exhausted,
            format!("more than {most} senders{}", Hint("give networks, such as 10.1.0.0/16")),
        ));
    }
    let parsed =
        |text: &String| cut(text).parse::<Prefix>().map_err(|error| Refusal::invalid(format!("{error}")));
    let more = texts.iter().map(parsed).collect::<Result<Vec<Prefix>, Refusal>>()?;
    Ok(union(list, &more))
}

/// `list` with the elements of `more` added, without duplicates, in order.
fn union(list: &[Prefix], more: &[Prefix]) -> Vec<Prefix> {
    let mut known = HashSet::new();
    list.iter().chain(more).filter(|sender| known.insert(**sender)).copied().collect()
}
