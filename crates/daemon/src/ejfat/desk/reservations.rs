//! Reservations and their senders.

use super::super::facility::token::{Hash, Level, Permission, Resource, derived, random};
use super::super::facility::{Millis, NewToken, Reservation};
use super::super::ground::seated;
use super::super::proto::{
    AddSendersReply, AddSendersRequest, ExtendReservationReply, ExtendReservationRequest,
    FreeLoadBalancerReply, FreeLoadBalancerRequest, GetLoadBalancerRequest, IpFamily, RemoveSendersReply,
    RemoveSendersRequest, ReserveLoadBalancerReply, ReserveLoadBalancerRequest, ResetLoadBalancerReply,
    ResetLoadBalancerRequest,
};
use super::uri::of_reservation;
use super::{Caller, Desk, Kind, Refusal, Running, State, cut, name, number};
use prost_types::Timestamp;
use skyhaul_core::balance::{Prefix, Strategy};
use std::net::{IpAddr, SocketAddr};

/// How long a reservation lasts that does not say it.
const LASTS: Millis = 365 * 24 * 3600 * 1000;

impl Desk {
    /// Reserve a load balancer.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reserve_load_balancer(
        &self,
        caller: &Caller,
        request: ReserveLoadBalancerRequest,
    ) -> Result<ReserveLoadBalancerReply, Refusal> {
        let token = random().map_err(|error| Refusal::new(Kind::Unavailable, error.to_string()))?;
        let mut state = self.locked();
        let parent = state.token(caller)?;
        let may = |n: i64| state.facility.may(parent, Resource::Instance(n), Level::Reserve);
        if !(1..=state.facility.limits().instances).any(may) {
            return Err(super::denied(Resource::Instance(1), Level::Reserve));
        }
        let (parent, instance) = (parent.id, state.facility.free_instance(may)?);
        let limits = *state.facility.limits();
        let wanted = Reservation {
            id: 0,
            instance,
            name: name(&request.name, limits.name)?.to_owned(),
            family: family(request.ip_family, &state.ground.listen)?,
            strategy: strategy(&request.strategy)?,
            created: caller.now,
            until: until(request.until, caller.now)?,
            senders: senders(&request.sender_addresses, &[], limits.senders)?,
        };
        state.ground.clear(instance)?;
        // A port that is taken is found before anything is written.
        let balance = state.ground.open(&wanted, std::iter::empty())?;
        let new = NewToken { parent, hash: Hash::of(&token), name: "reservation", now: caller.now };
        let id = match state.facility.reserve(&wanted, &new) {
            Ok(id) => id,
            Err(error) => {
                // What forwards in another process would go on for nobody.
                let _ = balance.stop();
                return Err(error.into());
            }
        };
        state.running.insert(id, Running::new(balance));
        Ok(ReserveLoadBalancerReply {
            ejfat_uri: state.uri(caller, id, &token)?,
            token,
            ..state.describe(id)?
        })
    }

    /// The URI of the reservation that is called `name`, which is made if there is none: for the operator, whose token
    /// `caller` shows. It is the same each time, as long as the operator's token is.
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
            state.facility.reservations().find(|r| r.name == name).map(|r| r.id)
        };
        let id = match named(&request.name) {
            Some(id) => id,
            None => number(&self.reserve_load_balancer(caller, request)?.lb_id)?,
        };
        let mut state = self.locked();
        let parent = state.may(caller, Resource::Reservation(id), Level::Update)?.id;
        let token = derived(caller.token.as_deref().unwrap_or_default(), &format!("reservation {id}"));
        if state.facility.tokens().find(&token).is_none() {
            let new = NewToken { parent, hash: Hash::of(&token), name: "named", now: caller.now };
            let all = Permission { resource: Resource::Reservation(id), level: Level::Update };
            state.facility.create_token(&new, &[all])?;
        }
        Ok((id, state.uri(caller, id, &token)?))
    }

    /// What was reserved.
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

    /// End a reservation.
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

    /// Forget senders, workers, or what is known of ticks. Ticks and calendars are forgotten together.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn reset_load_balancer(
        &self,
        caller: &Caller,
        request: ResetLoadBalancerRequest,
    ) -> Result<ResetLoadBalancerReply, Refusal> {
        let (mut state, id) = (self.locked(), number(&request.lb_id)?);
        state.may(caller, Resource::Reservation(id), Level::Update)?;
        state.reservation(id)?;
        if request.senders {
            state.allow(id, &[])?;
        }
        if request.workers {
            let sessions: Vec<(i64, u64)> =
                state.facility.sessions(id).map(|session| (session.id, session.number)).collect();
            let ids: Vec<i64> = sessions.iter().map(|(session, _)| *session).collect();
            state.facility.deregister(&ids)?;
            for (_, number) in sessions {
                // One that the balancer has removed already is gone.
                let _ = state.balance(id)?.evict(seated(number));
            }
        }
        let ticks = request.sync || request.epochs;
        if ticks {
            state.balance(id)?.reset();
        }
        let ResetLoadBalancerRequest { senders, workers, .. } = request;
        Ok(ResetLoadBalancerReply { sync: ticks, epochs: ticks, senders, workers })
    }

    /// A reservation ends at another time.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn extend_reservation(
        &self,
        caller: &Caller,
        request: ExtendReservationRequest,
    ) -> Result<ExtendReservationReply, Refusal> {
        let (mut state, id) = (self.locked(), number(&request.lb_id)?);
        state.may(caller, Resource::Reservation(id), Level::Update)?;
        let until = until(request.until, caller.now)?;
        state.facility.extend(id, until)?;
        Ok(ExtendReservationReply { until: until.map(timestamp) })
    }

    /// More may send.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn add_senders(
        &self,
        caller: &Caller,
        request: AddSendersRequest,
    ) -> Result<AddSendersReply, Refusal> {
        let (mut state, id) = (self.locked(), number(&request.lb_id)?);
        state.may(caller, Resource::Reservation(id), Level::Update)?;
        let most = state.facility.limits().senders;
        let list = senders(&request.sender_addresses, &state.reservation(id)?.senders, most)?;
        state.allow(id, &list)?;
        Ok(AddSendersReply {})
    }

    /// Some may no longer send.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn remove_senders(
        &self,
        caller: &Caller,
        request: RemoveSendersRequest,
    ) -> Result<RemoveSendersReply, Refusal> {
        let (mut state, id) = (self.locked(), number(&request.lb_id)?);
        state.may(caller, Resource::Reservation(id), Level::Update)?;
        let most = state.facility.limits().senders;
        let gone = senders(&request.sender_addresses, &[], most)?;
        let mut list = state.reservation(id)?.senders.clone();
        list.retain(|sender| !gone.contains(sender));
        state.allow(id, &list)?;
        Ok(RemoveSendersReply {})
    }
}

impl State {
    fn allow(&mut self, id: i64, list: &[Prefix]) -> Result<(), Refusal> {
        self.facility.set_senders(id, list)?;
        self.admit(id)
    }

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

    /// Where it is sent to, of the version of IP that was asked for, IPv4 first.
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

    /// The URI of a reservation, for who has this token.
    pub(super) fn uri(&self, caller: &Caller, id: i64, token: &str) -> Result<String, Refusal> {
        let (data, sync) = self.addresses(id)?;
        Ok(of_reservation(&caller.place, token, id, &data, &sync))
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
    IpFamily::try_from(family).map_err(|_| Refusal::invalid(format!("there is no IP family {family}")))?;
    if listen.iter().any(|&ip| version(family, ip)) {
        return Ok(family);
    }
    Err(Refusal::new(
        Kind::Unfit,
        "this balancer has no address of that version of IP; hint: start it with one more --listen",
    ))
}

fn strategy(strategy: &str) -> Result<Strategy, Refusal> {
    match strategy {
        "" | "dynamic" => Ok(Strategy::Dynamic),
        "static" => Ok(Strategy::Static),
        "explicit" => Ok(Strategy::Explicit),
        other => {
            let text = format!("there is no strategy `{}`; hint: dynamic, static or explicit", cut(other));
            Err(Refusal::invalid(text))
        }
    }
}

/// When a reservation ends. The epoch of UNIX stands for never, as the protocol says.
fn until(until: Option<Timestamp>, now: Millis) -> Result<Option<Millis>, Refusal> {
    match until {
        None => Ok(Some(now + LASTS)),
        Some(Timestamp { seconds: 0, nanos: 0 }) => Ok(None),
        Some(Timestamp { seconds, nanos }) => {
            let millis =
                seconds.checked_mul(1000).and_then(|millis| millis.checked_add(i64::from(nanos) / 1_000_000));
            let later = millis.filter(|until| *until > now && (0..1_000_000_000).contains(&nanos));
            later.map(Some).ok_or_else(|| {
                Refusal::invalid("`until` is not in the future; hint: compare the clocks of both hosts")
            })
        }
    }
}

/// A time of UNIX, as the protocol writes it.
pub(super) fn timestamp(at: Millis) -> Timestamp {
    Timestamp { seconds: at.div_euclid(1000), nanos: (at.rem_euclid(1000) * 1_000_000) as i32 }
}

/// `list` and these.
fn senders(texts: &[String], list: &[Prefix], most: usize) -> Result<Vec<Prefix>, Refusal> {
    if texts.len() > most {
        return Err(Refusal::new(
            Kind::Exhausted,
            format!("more than {most} senders; hint: write networks, like 10.1.0.0/16"),
        ));
    }
    let mut list = list.to_vec();
    for text in texts {
        let sender: Prefix = cut(text).parse().map_err(|error| Refusal::invalid(format!("{error}")))?;
        if !list.contains(&sender) {
            list.push(sender);
        }
    }
    Ok(list)
}
