//! Calls of workers: register, report, leave.

use super::super::instances::{by_session, ranges, registration, seated};
use super::super::proto::{
    DeregisterReply, DeregisterRequest, RegisterReply, RegisterRequest, SendStateReply, SendStateRequest,
    SetSlotDemandsReply, SetSlotDemandsRequest, SlotRange,
};
use super::super::registry::token::{Level, Resource, Token};
use super::super::registry::{NewToken, Session};
use super::timeseries::Totals;
use super::{Answered, Api, Caller, Refusal, RefusalKind, State, cut, name, number};
use skyhaul::auth::{TokenHash, new_token};
use skyhaul::core::hint::Hint;
use skyhaul_core::balance::{
    Load, MEMBERS, Member, SLOTS, Session as Seated, SlotRange as Slots, WorkerState,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

impl Api {
    /// Registers a worker.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn register(&self, caller: &Caller, request: RegisterRequest) -> Result<RegisterReply, Refusal> {
        let token = new_token().map_err(|error| Refusal::new(RefusalKind::Unavailable, error.to_string()))?;
        let id = number(&request.lb_id)?;
        let mut seat = None;
        let done = self.change(|state| {
            let parent = state.may(caller, Resource::Reservation(id), Level::Register)?.id;
            state.reservation(id)?;
            let wanted = state.wanted(id, &request, &self.instances.addresses())?;
            let like = registration(&wanted).ok_or_else(|| {
                Refusal::invalid(format!(
                    "{1} ports from {0}: ports are 1 to 65535",
                    wanted.port,
                    1u32 << wanted.bits
                ))
            })?;
            state.registry.room()?;
            let (slots, balance) = (slots(&request.slot_demands)?, state.balance(id)?);
            state.no_circle(id, &like.member)?;
            let seated = balance.register(like)?;
            seat = Some((balance, seated));
            let demands = state.demand(id, seated, &slots)?;
            let new = NewToken { parent, hash: TokenHash::of(&token), name: "session", now: caller.now };
            let wanted = Session { number: seated.number(), demands, ..wanted };
            Ok(state.registry.register(&wanted, &new)?)
        });
        match (done, seat) {
            (Ok(session), _) => Ok(RegisterReply { token, session_id: session.to_string() }),
            (Err(refusal), seat) => {
                // There will be no reports for it.
                let _ = seat.map(|(balance, seated)| balance.evict(seated));
                Err(refusal)
            }
        }
    }

    /// Deregisters a worker: it still gets the rest of its events.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn deregister(
        &self,
        caller: &Caller,
        request: DeregisterRequest,
    ) -> Result<DeregisterReply, Refusal> {
        let mut others = Vec::new();
        let (id, reservation, number) = self.change(|state| {
            let session = state.session(caller, &request.session_id, &request.lb_id)?;
            let ended = (session.id, session.reservation, session.number);
            // A worker removed by someone else is told so, or it would register again immediately.
            let own = |token: &Token| {
                token.permissions.iter().all(|has| has.resource == Resource::Session(ended.0))
            };
            if !own(state.token(caller)?) {
                let on = state.registry.tokens().on(Resource::Session(ended.0));
                others = on.filter(|token| own(token)).map(|token| token.hash).collect();
            }
            Ok(state.registry.deregister(&[ended.0]).map(move |()| ended))
        })?;
        others.into_iter().for_each(|hash| self.keys.end(hash));
        let mut state = self.locked();
        // The balancer may have removed it already.
        let _ = state.balance(reservation)?.deregister(seated(number));
        if let Some(running) = state.running.get_mut(&reservation) {
            running.workers.remove(&id);
        }
        Ok(DeregisterReply {})
    }

    /// Handles a worker's report, which is not written to the database.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn send_state(&self, caller: &Caller, request: SendStateRequest) -> Result<SendStateReply, Refusal> {
        self.report(caller, request).map(|answered| answered.reply)
    }

    /// The same; also says whether packets for the worker may still be sent.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(in super::super) fn report(
        &self,
        caller: &Caller,
        request: SendStateRequest,
    ) -> Result<Answered<SendStateReply>, Refusal> {
        let mut state = self.locked();
        let session = state.session(caller, &request.session_id, &request.lb_id)?;
        let (id, reservation, number) = (session.id, session.reservation, session.number);
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        // Events that found no room in the queue also arrived at it; E2SAR counts them as reassembled.
        let load = Load {
            fill: f64::from(request.fill_percent),
            received: count(request.total_events_reassembled.max(request.total_events_dequeued)),
            taken: count(request.total_events_dequeued),
        };
        let report = WorkerState { ready: request.is_ready, signal: f64::from(request.control_signal), load };
        let balance = state.balance(reservation)?;
        balance.handle_state(seated(number), report)?;
        let is_awaited = balance.is_awaited(seated(number));
        if let Some(running) = state.running.get_mut(&reservation) {
            let totals = Totals {
                events: request.total_events_recv,
                reassembled: request.total_events_reassembled,
                reassembly_errors: request.total_events_reassembly_err,
                dequeued: request.total_events_dequeued,
                enqueue_errors: request.total_event_enqueue_err,
                bytes: request.total_bytes_recv,
                packets: request.total_packets_recv,
            };
            running.workers.entry(id).or_default().totals = totals;
            running.together.report(id, totals, f64::from(request.fill_percent));
        }
        Ok(Answered { reply: SendStateReply {}, is_awaited })
    }

    /// Sets the slots that all workers demand.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn set_slot_demands(
        &self,
        caller: &Caller,
        request: SetSlotDemandsRequest,
    ) -> Result<SetSlotDemandsReply, Refusal> {
        let id = number(&request.lb_id)?;
        let mut undo = None;
        let done = self.change(|state| {
            state.may(caller, Resource::Reservation(id), Level::Update)?;
            if request.slot_constraints.len() > MEMBERS {
                return Err(Refusal::invalid(format!("more demands than there are workers ({MEMBERS})")));
            }
            let mut wanted = Vec::new();
            for demand in &request.slot_constraints {
                let session = state.session(caller, &demand.session_id, &request.lb_id)?;
                wanted.push((seated(session.number), slots(&demand.slots)?));
            }
            let before = state.registry.sessions(id).map(|s| (seated(s.number), ranges(&s.demands)));
            let (before, balance) = (before.collect::<Vec<_>>(), state.balance(id)?);
            balance.demand_all(&wanted)?;
            undo = Some((balance, before));
            Ok(state.registry.set_demands(id, &state.demanded(id)?))
        });
        if let (Err(_), Some((balance, before))) = (&done, undo) {
            // Restore the state in the database.
            let _ = balance.demand_all(&before);
        }
        done.map(|()| SetSlotDemandsReply {})
    }
}

/// Demanded slots; index -1: the first slots that nobody demands.
fn slots(demands: &[SlotRange]) -> Result<Vec<Slots>, Refusal> {
    let slots = |range: &SlotRange| {
        let first = if range.index == -1 { Some(None) } else { u16::try_from(range.index).ok().map(Some) };
        let length = u16::try_from(range.length).ok().filter(|length| *length > 0);
        let slots = first.zip(length).map(|(first, length)| Slots { first, length });
        slots.ok_or_else(|| {
            let text = format!(
                "invalid demand: {} slots from {}{}",
                range.length,
                range.index,
                Hint("slots are 0 to 511")
            );
            Refusal::invalid(text)
        })
    };
    if demands.len() > SLOTS {
        return Err(Refusal::invalid(format!("more demands than there are slots ({SLOTS})")));
    }
    demands.iter().map(slots).collect()
}

impl State {
    /// The registration that a worker requests.
    fn wanted(
        &self,
        reservation: i64,
        request: &RegisterRequest,
        listen: &[IpAddr],
    ) -> Result<Session, Refusal> {
        let text = &request.ip_address;
        let ip: IpAddr = text.parse().map_err(|_| {
            Refusal::invalid(format!(
                "invalid IP address `{}`{}",
                cut(text),
                Hint("give the worker's own, such as 10.1.2.3")
            ))
        })?;
        let ip = ip.to_canonical();
        if ip.is_unspecified() || ip.is_multicast() {
            return Err(Refusal::invalid(format!("{ip} is not the address of one worker")));
        }
        if listen.iter().all(|own| own.is_ipv4() != ip.is_ipv4()) {
            let text = format!(
                "this balancer has no address to send to {ip} from{}",
                Hint("use an address of the other IP version")
            );
            return Err(Refusal::new(RefusalKind::Unfit, text));
        }
        let port = u16::try_from(request.udp_port)
            .map_err(|_| Refusal::invalid(format!("invalid port {}", request.udp_port)))?;
        let bits = u8::try_from(request.port_range).ok().filter(|bits| *bits <= 14);
        let bits = bits.ok_or_else(|| {
            Refusal::invalid(format!(
                "invalid port range {}{}",
                request.port_range,
                Hint("0 to 14 for 1 to 16384 ports")
            ))
        })?;
        // An unset field is 0.
        let weight = if request.weight == 0.0 { 1.0 } else { request.weight };
        Ok(Session {
            id: 0,
            reservation,
            number: 0,
            name: name(&request.name, self.registry.limits().name)?.to_owned(),
            ip,
            port,
            bits,
            keep_label: request.keep_lb_header,
            weight: f64::from(weight),
            min_factor: f64::from(request.min_factor),
            max_factor: f64::from(request.max_factor),
            demands: Vec::new(),
        })
    }

    /// Set the slots that a session demands. Returns the slots found.
    fn demand(&self, id: i64, session: Seated, slots: &[Slots]) -> Result<Vec<(u16, u16)>, Refusal> {
        let balance = self.balance(id)?;
        balance.demand(session, slots)?;
        if slots.is_empty() {
            return Ok(Vec::new());
        }
        let status = balance.status();
        let known = status.workers.into_iter().find(|worker| worker.session == session);
        Ok(known.map_or(Vec::new(), |worker| worker.demanded))
    }

    /// The same for all sessions of a reservation.
    fn demanded(&self, id: i64) -> Result<BTreeMap<i64, Vec<(u16, u16)>>, Refusal> {
        let status = self.balance(id)?.status();
        let workers = by_session(&status);
        let of = |session: &Session| {
            let known = workers.get(&seated(session.number));
            (session.id, known.map_or(Vec::new(), |worker| worker.demanded.clone()))
        };
        Ok(self.registry.sessions(id).map(of).collect())
    }

    /// A session that the caller may change; `reservation` may be omitted.
    fn session(&self, caller: &Caller, id: &str, reservation: &str) -> Result<&Session, Refusal> {
        let id: i64 = id.parse().map_err(|_| {
            Refusal::invalid(format!("invalid session number `{}`{}", cut(id), Hint("a number such as 1")))
        })?;
        self.may(caller, Resource::Session(id), Level::Update)?;
        let gone = || {
            Refusal::new(RefusalKind::Missing, format!("there is no session {id}{}", Hint("register again")))
        };
        let session = self.registry.session(id).ok_or_else(gone)?;
        if !reservation.is_empty() && number(reservation)? != session.reservation {
            return Err(Refusal::invalid(format!(
                "session {id} does not belong to reservation {}{}",
                cut(reservation),
                Hint("omit lbId")
            )));
        }
        Ok(session)
    }
}

impl State {
    /// Checks that a worker at this address does not lead back to reservation `id` through other reservations of this
    /// control plane. The balancer itself refuses its own address.
    ///
    /// # Errors
    /// [`RefusalKind::Unfit`] if it does.
    pub(super) fn no_circle(&self, id: i64, member: &Member) -> Result<(), Refusal> {
        let (mut next, mut seen) = (vec![*member], BTreeSet::new());
        while let Some(to) = next.pop() {
            for (&reached, running) in &self.running {
                if !running.balance.is_reached_by(&to) || reached == id && to == *member {
                    continue;
                }
                if reached == id {
                    let text = format!(
                        "the load balancer at this address already feeds reservation {id}: packets would circulate{}",
                        Hint("check the workers of both")
                    );
                    return Err(Refusal::new(RefusalKind::Unfit, text));
                }
                if seen.insert(reached) {
                    let workers = self.registry.sessions(reached).filter_map(registration);
                    next.extend(workers.map(|like| like.member));
                }
            }
        }
        Ok(())
    }
}
