//! Where the load balancers of a facility stand: their ports, and how each is started.
//!
//! ```text
//!   instance   1       2       3              from the first ports that are given
//!   data     19522   19523   19524            packets
//!   sync     19531   19532   19533            synchronisation messages
//! ```
//!
//! Limits: every balancer listens on the same addresses. With port 0, any port that is free.

mod apart;

pub use apart::Apart;

use super::client::Trust;
use super::facility::{Reservation, Session};
use skyhaul::balance::{Balance, BalanceError, BalanceOptions, BalanceStatus, WorkerStatus};
use skyhaul_core::balance::{
    AllowList, BalancerConfig, Member, PortRange, Registration, Session as Seated, SlotRange, Standing,
};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

pub use skyhaul_core::wire::ejfat::{DATA_PORT, SYNC_PORT};

/// Where balancers stand.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Addresses for packets and messages, as senders write them.
    pub listen: Vec<IpAddr>,
    /// Port for packets of the first balancer.
    pub data_port: u16,
    /// Port for messages of the first balancer.
    pub sync_port: u16,
    /// How each balancer works; its addresses, senders and strategy do not count.
    pub balance: BalanceOptions,
    /// Whose certificate is accepted of load balancers that are to feed one of these.
    pub upstream: Trust,
    /// Forward in processes that outlive this one; without, in this one.
    pub apart: Option<Apart>,
}

impl Ground {
    /// Start the balancer of a reservation, with its sessions, or go on with one that still forwards.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn open<'a>(
        &self,
        reservation: &Reservation,
        sessions: impl Iterator<Item = &'a Session>,
    ) -> Result<Balance, BalanceError> {
        let (mut workers, mut demands) = (Vec::new(), Vec::new());
        for session in sessions {
            workers.extend(registration(session).map(|like| (seated(session.number), like)));
            demands.push((seated(session.number), ranges(&session.demands)));
        }
        let options = self.options(reservation);
        let balance = match &self.apart {
            Some(apart) => apart.open(reservation.instance, &options, &workers)?,
            None => Balance::resume(&options, &workers)?,
        };
        // They were demanded before, of a calendar as long.
        let _ = balance.demand_all(&demands);
        Ok(balance)
    }

    /// End what still forwards for a load balancer that nobody has reserved.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn clear(&self, instance: i64) -> Result<(), BalanceError> {
        self.apart.as_ref().map_or(Ok(()), |apart| apart.end(instance, &self.balance))
    }

    fn options(&self, reservation: &Reservation) -> BalanceOptions {
        let nth = u16::try_from(reservation.instance - 1).unwrap_or(u16::MAX);
        let port = |first: u16| if first == 0 { 0 } else { first.saturating_add(nth) };
        let at = |first: u16| self.listen.iter().map(|&ip| SocketAddr::new(ip, port(first))).collect();
        let strategy = reservation.strategy;
        BalanceOptions {
            data: at(self.data_port),
            sync: at(self.sync_port),
            allow: AllowList::of(&reservation.senders),
            config: BalancerConfig { strategy, ..self.balance.config },
            ..self.balance.clone()
        }
    }
}

/// What a session registered with; `None` if its ports exceed the last.
#[must_use]
pub fn registration(session: &Session) -> Option<Registration> {
    let &Session { ip, port, bits, keep_label, weight, min_factor, max_factor, .. } = session;
    let member = Member::new(ip, port, PortRange::new(bits)?, keep_label)?;
    Some(Registration { member, weight, min_factor, max_factor })
}

/// Slots from these on, so many each.
#[must_use]
pub fn ranges(demands: &[(u16, u16)]) -> Vec<SlotRange> {
    demands.iter().map(|&(first, length)| SlotRange { first: Some(first), length }).collect()
}

/// A session as the balancer knows it.
#[must_use]
pub fn seated(number: u64) -> Seated {
    Seated::new(number)
}

/// The workers that a balancer knows, by session.
pub type BySession<'a> = HashMap<Seated, &'a WorkerStatus>;

/// See [`BySession`].
#[must_use]
pub fn by_session(status: &BalanceStatus) -> BySession<'_> {
    status.workers.iter().map(|worker| (worker.session, worker)).collect()
}

/// Whether the balancer still counts with this session.
#[must_use]
pub fn stays(workers: &BySession<'_>, number: u64) -> bool {
    let known = workers.get(&seated(number));
    known.is_some_and(|worker| matches!(worker.standing, Standing::Ready | Standing::Waiting))
}

/// The slots of a session that is ready.
#[must_use]
pub fn served(workers: &BySession<'_>, number: u64) -> u16 {
    let ready = workers.get(&seated(number)).filter(|worker| worker.standing == Standing::Ready);
    ready.map_or(0, |worker| worker.slots)
}
