//! The control plane of one balancer: which workers take part, with which share, from which tick.

mod demands;

pub use demands::{DemandError, SlotRange};

use super::allow::AllowList;
use super::calendar::{Calendar, SLOTS};
use super::epochs::{EpochConfig, EpochStats, Epochs, Held};
use super::governor::WINDOW;
use super::member::{MEMBERS, Seat};
use super::predict::{PredictStats, Predictor};
use super::table::{Occupant, Table};
use super::worker::{RegisterError, Registration, Session, Standing, StateError, Worker, WorkerState};
use crate::placement::Nanos;
use crate::wire::labelled::Sync;
use std::collections::VecDeque;
use std::sync::Arc;

/// How the shares of workers are determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// From the workers' reports.
    #[default]
    Dynamic,
    /// From the weights with which the workers registered.
    Static,
    /// Workers have the slots that they demand; the other slots are unassigned.
    Explicit,
}

/// Limits and times of a [`Balancer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancerConfig {
    /// How shares are determined.
    pub strategy: Strategy,
    /// Time between two calendars.
    pub period: Nanos,
    /// How far ahead of the senders a calendar is to begin. If it cannot, because threads may have forwarded later ticks by
    /// then, it begins after those ([`Settled`](super::Settled)).
    pub lead: Nanos,
    /// A worker that has not reported for this time gets no share of the next calendar.
    pub silent: Nanos,
    /// A worker that has not reported for this time is removed.
    pub removed: Nanos,
    /// How long calendars are kept.
    pub epochs: EpochConfig,
}

impl Default for BalancerConfig {
    /// Dynamic; a calendar every 500 ms, 500 ms ahead; 2 s and 60 s of silence, as in udplbd.
    fn default() -> BalancerConfig {
        BalancerConfig {
            strategy: Strategy::Dynamic,
            period: Nanos(500_000_000),
            lead: Nanos(500_000_000),
            silent: Nanos(2_000_000_000),
            removed: Nanos(60_000_000_000),
            epochs: EpochConfig::default(),
        }
    }
}

/// A boundary this far beyond the present prediction was predicted wrongly.
const MISLED: Nanos = Nanos(1_000_000_000);
/// A sender that nothing was heard of for so long may have ended: three messages are missing.
const HEARD_OF: Nanos = Nanos(3_000_000_000);
/// Bounds of the share left for workers that are not loaded, relative to their targets.
const LESS: f64 = 0.85;
const MORE: f64 = 1.5;
/// Number of past calendars kept to compute shares.
const REMEMBERED: usize = 32;

/// The control plane of one balancer. See the [module](super) for its loop.
#[derive(Clone, Debug)]
pub struct Balancer {
    config: BalancerConfig,
    allow: AllowList,
    workers: Vec<Worker>,
    /// The slots that workers demand.
    demanded: Calendar,
    sessions: u64,
    predictor: Predictor,
    epochs: Epochs,
    /// Calendars and their start times, oldest first.
    shares: VecDeque<(Nanos, Arc<Calendar>)>,
    next: Nanos,
    dirty: bool,
    /// Older ticks got a calendar since the last table.
    extended: bool,
    /// Evidence for a restart of the senders.
    anew: Anew,
}

impl Balancer {
    /// A balancer without workers and without allowed senders.
    #[must_use]
    pub fn new(config: BalancerConfig) -> Balancer {
        Balancer {
            config,
            allow: AllowList::default(),
            workers: Vec::new(),
            demanded: Calendar::default(),
            sessions: 0,
            predictor: Predictor::default(),
            epochs: Epochs::new(config.epochs),
            shares: VecDeque::with_capacity(REMEMBERED),
            next: Nanos(0),
            dirty: true,
            extended: false,
            anew: Anew::default(),
        }
    }

    /// Continues with `table`, which another balancer returned before it ended, and with its workers. They keep their
    /// slots until they report. Other members of the table are leaving: they get ticks until the calendars that name
    /// them are over.
    #[must_use]
    pub fn resume(
        config: BalancerConfig,
        table: &Table,
        workers: &[(Session, Registration)],
        now: Nanos,
    ) -> Balancer {
        let epochs = Epochs::resume(config.epochs, table.epochs(), table.era(), now);
        let generation = |&(session, _): &(Session, Registration)| session.generation();
        let known = workers.iter().map(|&(session, like)| Worker::new(session, like, now));
        let gone =
            table.members().filter(|&(seat, _)| workers.iter().all(|(session, _)| session.seat() != seat));
        let gone = gone.map(|(seat, &member)| {
            let like = Registration { member, weight: 1.0, min_factor: 0.0, max_factor: 0.0 };
            let mut worker = Worker::new(Session::of(seat, 0), like, now);
            worker.standing = Standing::Leaving;
            worker
        });
        Balancer {
            allow: table.allow().clone(),
            workers: known.chain(gone).collect(),
            sessions: workers.iter().map(generation).max().unwrap_or(0),
            shares: epochs.newest().map(|newest| (Nanos(0), Arc::clone(newest))).into_iter().collect(),
            epochs,
            ..Balancer::new(config)
        }
    }

    /// Starts again with the registered workers. Ticks, calendars and shares are forgotten, and nothing is routed until
    /// a worker reports that it is ready.
    pub fn reset(&mut self, now: Nanos) {
        let here = |worker: &&Worker| matches!(worker.standing, Standing::Ready | Standing::Waiting);
        let known: Vec<_> =
            self.workers.iter().filter(here).map(|worker| (worker.session, worker.registration)).collect();
        let table = Table::new(self.allow.clone(), Vec::new(), &[]);
        let demanded = self.demanded.clone();
        let mut begun = Balancer::resume(self.config, &table, &known, now);
        begun.epochs.set_era(self.epochs.era() + 1);
        *self = Balancer { sessions: self.sessions, demanded, ..begun };
    }

    /// Sets the senders that are allowed, from the next table on.
    pub fn allow(&mut self, allow: AllowList) {
        self.dirty |= allow != self.allow;
        self.allow = allow;
    }

    /// Registers a worker. It gets a share as soon as it reports that it is ready.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn register(&mut self, registration: Registration, now: Nanos) -> Result<Session, RegisterError> {
        registration.check()?;
        // Once through the workers, however many there are: anyone may ask for a seat.
        let mut taken = [false; MEMBERS];
        for worker in &self.workers {
            taken[worker.session.seat().number()] = true;
        }
        let free = taken.iter().position(|&taken| !taken);
        let seat = free.and_then(Seat::new).ok_or(RegisterError::Full)?;
        self.sessions += 1;
        let session = Session::of(seat, self.sessions);
        self.workers.push(Worker::new(session, registration, now));
        self.dirty = true;
        Ok(session)
    }

    /// Deregisters a worker. It still gets the ticks of calendars that name it, until these are over.
    ///
    /// # Errors
    /// [`StateError::NoSession`].
    pub fn deregister(&mut self, session: Session) -> Result<(), StateError> {
        self.worker(session)?.standing = Standing::Leaving;
        Ok(())
    }

    /// Evicts a worker: nothing is sent to it from the next table on.
    ///
    /// # Errors
    /// [`StateError::NoSession`].
    pub fn evict(&mut self, session: Session) -> Result<(), StateError> {
        self.worker(session)?.standing = Standing::Evicted;
        self.dirty = true;
        Ok(())
    }

    /// Handles the report of a worker.
    ///
    /// # Errors
    /// See [`StateError`].
    pub fn handle_state(
        &mut self,
        session: Session,
        state: WorkerState,
        now: Nanos,
    ) -> Result<(), StateError> {
        let share = self.share(session.seat(), now);
        self.worker(session)?.report(state, share, now)
    }

    /// Handles a synchronisation message: see [`Predictor::handle_sync`].
    pub fn handle_sync(&mut self, from: u64, sync: &Sync, now: Nanos) {
        self.note_sync(from, sync, now);
        self.predictor.handle_sync(from, sync, now);
    }

    /// Handles the highest tick forwarded since the last call: see [`Predictor::handle_data`].
    pub fn handle_data(&mut self, newest: u64, now: Nanos) {
        self.note_data(newest, now);
        if self.predictor.handle_data(newest, now) {
            self.epochs.reach(newest, now);
        }
    }

    /// The threads that forward use `table` in place of the last one returned by [`poll_table`](Self::poll_table): its
    /// calendars begin where the threads could still let them begin. Until this is known of the last table, do not call
    /// [`handle_timeout`](Self::handle_timeout).
    pub fn handle_settled(&mut self, table: &Table, now: Nanos) {
        // If ticks began again since, it is known of the next table.
        if !self.extended && table.era() == self.epochs.era() {
            self.epochs.settle(table.epochs(), now);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Nanos {
        self.next
    }

    /// Time has passed: handles silent workers, retires calendars, and begins a new one if shares changed.
    pub fn handle_timeout(&mut self, now: Nanos) {
        if now < self.next {
            return;
        }
        self.next = now.plus(self.config.period);
        let withdrawn = self.epochs.stats().withdrawn;
        self.expire(now);
        let linger = self.config.epochs.linger;
        let then = Nanos(now.0.saturating_sub(linger.0));
        if !self.anew.is_young(now, linger) {
            let gone = |worker: &&Worker| matches!(worker.standing, Standing::Leaving | Standing::Evicted);
            let gone: Vec<Seat> = self.workers.iter().filter(gone).map(|w| w.session.seat()).collect();
            let is_gone = |calendar: &Calendar| gone.iter().any(|seat| calendar.names(*seat));
            self.dirty |= self.epochs.retire(self.predictor.slowest(now, then), now, &is_gone);
        }
        let reached = self.predictor.ahead(now, now.plus(self.config.lead).plus(MISLED));
        let is_followed = self.predictor.is_followed(now);
        self.dirty |= reached.is_some_and(|reached| self.epochs.withdraw(reached, is_followed, now));
        let met = self.met();
        if let Some(numbers) = self.numbers(&met) {
            self.change(&numbers, &met, now);
        }
        // Threads may have used a withdrawn calendar already. It then stays, and its workers must keep their seats.
        if self.epochs.stats().withdrawn == withdrawn {
            self.release();
        }
    }

    /// Returns the table if it changed since the last call.
    pub fn poll_table(&mut self) -> Option<Table> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        self.extended = false;
        let occupant = |worker: &Worker| match worker.standing {
            Standing::Evicted => Occupant::Evicted,
            _ => Occupant::Member(worker.registration.member),
        };
        let members: Vec<_> =
            self.workers.iter().map(|worker| (worker.session.seat(), occupant(worker))).collect();
        let table = Table::new(self.allow.clone(), self.epochs.epochs(), &members);
        Some(table.with_era(self.epochs.era()))
    }

    /// The workers, including those that are leaving.
    #[must_use]
    pub fn workers(&self) -> &[Worker] {
        &self.workers
    }

    /// Whether packets for a worker may still be sent: a sender that was heard of in the last 3 s has not passed the ticks of the
    /// calendars that name it. A worker that leaves waits as long.
    #[must_use]
    pub fn is_awaited(&self, session: Session, now: Nanos) -> bool {
        let until = self.epochs.named_until(session.seat());
        until.is_some_and(|tick| self.predictor.is_before(tick, HEARD_OF, now))
    }

    /// Number of slots of a worker in the newest calendar.
    #[must_use]
    pub fn slots(&self, session: Session) -> u16 {
        self.epochs.newest().map_or(0, |calendar| calendar.count(session.seat()))
    }

    /// The slots of a worker in the newest calendar, as ranges: first slot and length.
    #[must_use]
    pub fn ranges(&self, session: Session) -> Vec<(u16, u16)> {
        self.epochs.newest().map_or(Vec::new(), |calendar| calendar.ranges(session.seat()).collect())
    }

    /// First tick of the newest calendar.
    #[must_use]
    pub fn boundary(&self) -> Option<u64> {
        self.epochs.boundary()
    }

    /// The predicted tick of the senders at `now`; `None` if too little is known.
    #[must_use]
    pub fn tick(&self, now: Nanos) -> Option<u64> {
        self.predictor.ahead(now, now)
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> (EpochStats, PredictStats) {
        (self.epochs.stats(), self.predictor.stats())
    }

    fn worker(&mut self, session: Session) -> Result<&mut Worker, StateError> {
        let found = self.workers.iter_mut().find(|worker| worker.session == session);
        found.ok_or(StateError::NoSession)
    }

    /// Number of slots for each worker; `None` to keep the last calendar. It is kept while workers are registered but
    /// none is ready: after a restart of the control plane, they may be working without having reported yet.
    fn numbers(&self, met: &Calendar) -> Option<Vec<(Seat, u16)>> {
        let ready: Vec<&Worker> =
            self.workers.iter().filter(|worker| worker.standing == Standing::Ready).collect();
        let waiting = self.workers.iter().any(|worker| worker.standing == Standing::Waiting);
        let none = ready.is_empty() && (waiting || self.epochs.newest().is_none());
        (!none).then(|| self.apportioned(&ready, met))
    }

    /// The relative share of each of these workers. A loaded worker gets what it can take; the others divide the rest.
    fn targets(&self, ready: &[&Worker]) -> Vec<f64> {
        let known = |worker: &Worker| worker.target.filter(|_| self.config.strategy == Strategy::Dynamic);
        // A worker whose target is unknown gets a share by its weight, relative to the others.
        let told = ready.iter().filter_map(|worker| Some((known(worker)?, worker.registration.weight)));
        let (sum, weights) = told.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let scale = if weights > 0.0 { sum / weights } else { 1.0 };
        let loaded = |worker: &Worker| known(worker).is_some() && worker.is_loaded();
        let mut targets: Vec<f64> = ready
            .iter()
            .map(|worker| known(worker).unwrap_or(worker.registration.weight * scale).max(1e-9))
            .collect();
        let of = |is: bool| ready.iter().zip(&targets).filter(move |(worker, _)| loaded(worker) == is);
        let (taken, wanted): (f64, f64) = (of(true).map(|one| one.1).sum(), of(false).map(|one| one.1).sum());
        if taken > 0.0 && wanted > 0.0 {
            let rest = (1.0 - taken).clamp(LESS * wanted, MORE * wanted);
            let scaled = ready.iter().zip(&mut targets).filter(|(worker, _)| !loaded(worker));
            scaled.for_each(|(_, target)| *target *= rest / wanted);
        }
        targets
    }

    /// Begin a new calendar, if it differs, at a tick that no sender has reached.
    fn change(&mut self, numbers: &[(Seat, u16)], met: &Calendar, now: Nanos) {
        let none = Calendar::default();
        let newest = self.epochs.newest().map_or(&none, |newest| newest);
        let calendar = newest.with(numbers, met);
        if self.epochs.newest().is_some_and(|newest| **newest == calendar) {
            return;
        }
        let (is_first, calendar) = (self.epochs.newest().is_none(), Arc::new(calendar));
        // The first calendar is valid immediately and for all ticks. Later ones need a prediction of the ticks.
        let due = if is_first { now } else { now.plus(self.config.lead) };
        let Some(first) = self.predictor.ahead(now, due).or(is_first.then_some(0)) else { return };
        match self.epochs.begin(first, Arc::clone(&calendar), due) {
            Ok(()) => {
                if self.shares.len() == REMEMBERED {
                    self.shares.pop_front();
                }
                self.shares.push_back((due, calendar));
                self.dirty = true;
            }
            // Try again in the next period.
            Err(Held::NotAhead | Held::Full) => {}
        }
    }

    /// Free the seats of workers that have left and are not named by any calendar.
    fn release(&mut self) {
        let (epochs, demanded, before) = (&self.epochs, &mut self.demanded, self.workers.len());
        self.workers.retain(|worker| {
            let gone = matches!(worker.standing, Standing::Leaving | Standing::Evicted);
            if gone {
                demanded.release(worker.session.seat());
            }
            !gone || epochs.calendars().any(|calendar| calendar.names(worker.session.seat()))
        });
        self.dirty |= self.workers.len() < before;
    }

    /// The share of all ticks that went to a seat during the window before `now`.
    fn share(&self, seat: Seat, now: Nanos) -> f64 {
        let from = Nanos(now.0.saturating_sub(WINDOW.0));
        let ends = self.shares.iter().skip(1).map(|(begins, _)| *begins).chain([now]);
        let mut sum = 0.0;
        for ((begins, calendar), ends) in self.shares.iter().zip(ends) {
            let held = ends.min(now).since((*begins).max(from)).0;
            if held > 0 {
                sum += held as f64 * f64::from(calendar.count(seat));
            }
        }
        sum / (WINDOW.0.min(now.0).max(1) as f64 * SLOTS as f64)
    }

    /// The program did not run for `pause` before `now`, for example because of SIGSTOP. No report could be received in
    /// that time, so it does not count as silence of the workers. Ticks continued, so the prediction uses the real
    /// time.
    pub fn handle_pause(&mut self, pause: Nanos, now: Nanos) {
        for worker in &mut self.workers {
            worker.heard = worker.heard.plus(pause).min(now);
        }
    }

    /// Workers that stop reporting lose their share, then their registration.
    fn expire(&mut self, now: Nanos) {
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

/// Minimum pause of the data when a sender restarts: it sends a synchronisation message before its data.
const IDLE: Nanos = Nanos(750_000_000);
/// The message of a restarted source is ignored if the data of other senders do not end within this time.
const PATIENCE: Nanos = Nanos(5_000_000_000);
/// Consecutive checks with only too old ticks after which they belong to a restarted sender; [`FAR_LOOKS`] if they are
/// far behind.
const LOOKS: u32 = 8;
const FAR_LOOKS: u32 = 3;
/// Calendars that begin less than this time after the data stay, because threads may already use them.
const NEAR: Nanos = Nanos(1_500_000_000);
/// No packet is this late.
const FAR: Nanos = Nanos(10_000_000_000);

/// Evidence for a restart.
///
/// Recognises that the ticks of a sender begin again because it was restarted.
///
/// ```text
///   ticks   0 ─ the restarted sender ─▶      oldest calendar │ … │ newest ─ where it was before
///           └─ too old: refused ────────────────────────────┘
/// ```
///
/// A packet whose tick is before the oldest calendar is either late or from a restarted sender. Using the newest
/// calendar might split the event of a late packet; rejecting the packets of a restarted sender loses data. They are
/// told apart by:
///
/// | evidence | effect |
/// |---|---|
/// | no data for [`IDLE`], and the synchronisation message of a known source states a tick far behind its last ones | the newest calendar replaces all others |
/// | only ticks that are too old and rise, in [`LOOKS`] consecutive checks, or in [`FAR_LOOKS`] if they are more than [`FAR`] behind | the newest calendar is also used for these ticks; the others stay |
/// | the ticks of all data are far behind and rise, for as long as packets may be in flight | calendars that begin after them are withdrawn |
///
/// Late packets arrive among packets with newer ticks, or in random order. As long as other senders continue, nothing
/// is restarted, because all sources of a balancer share their ticks. Nor is anything restarted if the synchronisation messages
/// of a source that lags behind the others show that it continues: the other sources' parts of these ticks were routed by
/// calendars that are gone, so its packets are refused until it has caught up.
///
/// Limits: a sender that sends no synchronisation messages, and lags far behind others that have ended, is taken for a
/// restarted one. A restarted sender without such messages loses the packets of the checks needed (0.15 s or 0.4 s of
/// data), which are counted as too old. So does a sender that ran for less than four seconds before its restart.
#[derive(Clone, Debug, Default)]
struct Anew {
    /// When data were last forwarded.
    heard: Option<Nanos>,
    /// When a synchronisation message last showed a restart.
    said: Option<Nanos>,
    /// Consecutive checks in which all ticks were too old, and the lowest and highest tick of the last.
    looks: u32,
    old: (u64, u64),
    /// Since when the ticks of all data are far behind earlier ones and rise, and the newest of them.
    behind: Option<(Nanos, u64)>,
    /// When the newest calendar was extended to older ticks.
    extended: Option<Nanos>,
}

impl Anew {
    /// Whether no calendar may be retired yet, because an extension was recent: by the ticks from before the restart,
    /// the calendars in use would seem to be over.
    fn is_young(&self, now: Nanos, linger: Nanos) -> bool {
        self.extended.is_some_and(|then| now.since(then) <= linger.plus(Nanos::SECOND))
    }

    fn is_idle(&self, now: Nanos, time: Nanos) -> bool {
        self.heard.is_none_or(|heard| now.since(heard) >= time)
    }
}

#[cfg(test)]
mod tests;
