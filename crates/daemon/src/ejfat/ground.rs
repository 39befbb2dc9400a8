//! Addresses and ports of a facility's load balancers, and how each is started.
//!
//! ```text
//!   instance   1       2       3              from the first ports that are given
//!   data     19522   19523   19524            packets
//!   sync     19531   19532   19533            synchronisation messages
//! ```
//!
//! A balancer may have its own addresses, with the first ports. Those without share `listen`. If several share it, none
//! of them has [`DATA_PORT`], because clients that ignore the port in the URI send to it: their packets would reach the
//! workers of another reservation. [`Guard`] counts them instead.
//!
//! Limits: with port 0, any free port is used.

mod apart;
mod guard;

pub use apart::Apart;
pub use guard::Guard;

use super::client::Trust;
use super::facility::{Reservation, Session};
use skyhaul::balance::{Balance, BalanceError, BalanceOptions, BalanceStatus, WorkerStatus};
use skyhaul_core::balance::{
    AllowList, BalancerConfig, Member, PortRange, Registration, Session as Seated, SlotRange, Standing,
};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

pub use skyhaul_core::wire::ejfat::{DATA_PORT, SYNC_PORT};

/// Addresses and options of the balancers.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Addresses for packets and messages, as senders use them.
    pub listen: Vec<IpAddr>,
    /// Addresses of the first balancers, which have their own; the others use `listen`.
    pub own: Vec<Vec<IpAddr>>,
    /// Whether several balancers share `listen`.
    pub shared: bool,
    /// Port for packets of the first balancer.
    pub data_port: u16,
    /// Port for messages of the first balancer.
    pub sync_port: u16,
    /// Options of each balancer; addresses, senders and strategy in it are ignored.
    pub balance: BalanceOptions,
    /// Which certificates are accepted from load balancers that are to feed one of these.
    pub upstream: Trust,
    /// Forward in processes that outlive this one; `None`: in this process.
    pub apart: Option<Apart>,
}

impl Ground {
    /// Starts the balancer of a reservation with its sessions, or continues with one that still forwards.
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
        // They fitted a calendar of this length before.
        let _ = balance.demand_all(&demands);
        Ok(balance)
    }

    /// Ends a process that still forwards for a load balancer that is not reserved.
    ///
    /// # Errors
    /// See [`BalanceError`].
    pub fn clear(&self, instance: i64) -> Result<(), BalanceError> {
        self.apart.as_ref().map_or(Ok(()), |apart| apart.end(instance, &self.balance))
    }

    /// Every address on which a balancer listens.
    #[must_use]
    pub fn addresses(&self) -> Vec<IpAddr> {
        let mut all: Vec<IpAddr> = self.own.iter().flatten().copied().collect();
        if self.own.is_empty() || self.shared {
            all.extend(&self.listen);
        }
        all
    }

    /// Checks that this host has all of these addresses.
    ///
    /// # Errors
    /// The first address that it does not have.
    pub fn check(&self) -> io::Result<()> {
        for ip in self.addresses() {
            UdpSocket::bind((ip, 0)).map_err(|error| {
                let text = format!(
                    "listen on {ip}: {error}; hint: use an address of this host, as `ip -brief address` shows them"
                );
                io::Error::new(error.kind(), text)
            })?;
        }
        Ok(())
    }

    /// Returns a counter of packets from clients that ignore the port, at addresses that several balancers share;
    /// `None` if none are shared, or if ports are chosen freely.
    #[must_use]
    pub fn guard(&self) -> Option<Guard> {
        (self.shared && self.data_port != 0).then(|| Guard::start(&self.listen))
    }

    /// The addresses for packets and for messages of a balancer.
    fn places(&self, instance: i64) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let index = usize::try_from(instance - 1).unwrap_or(usize::MAX);
        let at = |ips: &[IpAddr], port: u16| ips.iter().map(|&ip| SocketAddr::new(ip, port)).collect();
        if let Some(own) = self.own.get(index) {
            return (at(own, self.data_port), at(own, self.sync_port));
        }
        let nth = u16::try_from(index - self.own.len()).unwrap_or(u16::MAX);
        let port = |first: u16| if first == 0 { 0 } else { first.saturating_add(nth) };
        (
            at(&self.listen, data_port(self.data_port, nth, self.shared)),
            at(&self.listen, port(self.sync_port)),
        )
    }

    fn options(&self, reservation: &Reservation) -> BalanceOptions {
        let (data, sync) = self.places(reservation.instance);
        let strategy = reservation.strategy;
        BalanceOptions {
            data,
            sync,
            allow: AllowList::of(&reservation.senders),
            config: BalancerConfig { strategy, ..self.balance.config },
            ..self.balance.clone()
        }
    }
}

/// Data port of the `nth` balancer, from 0; `shared`: whether it shares its addresses with others.
#[must_use]
pub fn data_port(first: u16, nth: u16, shared: bool) -> u16 {
    let port = first.saturating_add(nth);
    match first {
        0 => 0,
        first if shared && first <= DATA_PORT && port >= DATA_PORT => port.saturating_add(1),
        _ => port,
    }
}

/// The registration of a session; `None` if its ports exceed the last one.
#[must_use]
pub fn registration(session: &Session) -> Option<Registration> {
    let &Session { ip, port, bits, keep_label, weight, min_factor, max_factor, .. } = session;
    let member = Member::new(ip, port, PortRange::new(bits)?, keep_label)?;
    Some(Registration { member, weight, min_factor, max_factor })
}

/// Converts first slots and lengths to ranges.
#[must_use]
pub fn ranges(demands: &[(u16, u16)]) -> Vec<SlotRange> {
    demands.iter().map(|&(first, length)| SlotRange { first: Some(first), length }).collect()
}

/// The session number of the balancer.
#[must_use]
pub fn seated(number: u64) -> Seated {
    Seated::new(number)
}

/// The workers of a balancer, by session.
pub type BySession<'a> = HashMap<Seated, &'a WorkerStatus>;

/// See [`BySession`].
#[must_use]
pub fn by_session(status: &BalanceStatus) -> BySession<'_> {
    status.workers.iter().map(|worker| (worker.session, worker)).collect()
}

/// Whether the balancer still has this session.
#[must_use]
pub fn stays(workers: &BySession<'_>, number: u64) -> bool {
    let known = workers.get(&seated(number));
    known.is_some_and(|worker| matches!(worker.standing, Standing::Ready | Standing::Waiting))
}

/// Number of slots of a session, if it is ready.
#[must_use]
pub fn served(workers: &BySession<'_>, number: u64) -> u16 {
    let ready = workers.get(&seated(number)).filter(|worker| worker.standing == Standing::Ready);
    ready.map_or(0, |worker| worker.slots)
}
