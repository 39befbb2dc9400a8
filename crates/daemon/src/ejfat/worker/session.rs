//! The thread of a worker: registers, reports, registers again, leaves.
//!
//! ```text
//!   registered ── every 100 ms: state ──▶ answered
//!       ▲ ▲ └─ no answer: away, again at growing intervals; the balancer goes on with its last calendar
//!       │ └─── answered: back
//!       └───── unknown session: register again
//!   leaving ── not ready ─▶ packets of old calendars, until they cease ─▶ deregister
//! ```
//!
//! The reports of a worker, from the counts of its receiver.
//!
//! ```text
//!   ObjectLoad ─▶ + events of packets that were dropped ─▶ Governor ─▶ State: fill, signal, totals
//! ```
//!
//! A receiver that drops packets in the kernel or for lack of memory has an empty queue and a full socket. So a queue
//! counts as full if any packet was dropped since the last report, and the events of the dropped packets count as
//! arrived. Otherwise, a worker that is limited by its CPU would ask for more.

use super::super::client::{ControlError, ControlPlane};
use super::super::proto::{RegisterReply, SendStateRequest};
use crate::ejfat::worker::WorkerOptions;
use skyhaul::core::balance::{Governor, Load};
use skyhaul::core::placement::Nanos;
use skyhaul::io::lock::lock;
use skyhaul::receive::{Loaded, ObjectLoad};
use skyhaul::report::SessionReport;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Interval between attempts while the control plane is unavailable: the first, then doubled up to the second value.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(2);
/// After a worker has reported that it is not ready, the balancer still sends the ticks of calendars that name it. The
/// worker waits at least this long (udplbd: up to 1 s to the next calendar, which begins 0.8 s ahead) …
const MIN_DRAIN_TIME: Duration = Duration::from_millis(2500);
/// … and until nothing has arrived for this long, and the balancer says that every sender has passed those calendars.
const QUIET_TIME: Duration = Duration::from_millis(500);

/// An order to a worker's thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    Ready(bool),
    /// Leave, waiting for packets at most this long.
    Leave(Duration),
}

/// The report, shared with the owner of the worker.
pub(super) type Shared = Arc<Mutex<SessionReport>>;

pub(super) struct Session {
    plane: ControlPlane,
    options: WorkerOptions,
    source: Box<dyn Loaded>,
    shared: Shared,
    states: States,
    begun: Instant,
    reply: Option<RegisterReply>,
    /// The last session, shared with the owner of the worker.
    registered: Arc<Mutex<RegisterReply>>,
    is_ready: bool,
    /// The balancer said that packets may still come.
    is_awaited: bool,
    /// Since when the control plane has not responded.
    away: Option<Instant>,
    pause: Duration,
    next: Instant,
    /// The last refusal that was reported.
    said: Option<String>,
    /// An operator ended the session.
    is_removed: bool,
}

impl Session {
    pub(super) fn new(
        plane: ControlPlane,
        options: WorkerOptions,
        source: Box<dyn Loaded>,
        registered: Arc<Mutex<RegisterReply>>,
        shared: Shared,
    ) -> Self {
        let now = Instant::now();
        let reply = lock(&registered).clone();
        let is_ready = options.is_ready;
        Self {
            plane,
            options,
            source,
            shared,
            states: States::default(),
            begun: now,
            reply: Some(reply),
            registered,
            is_ready,
            is_awaited: false,
            away: None,
            pause: MIN_RETRY_DELAY,
            next: now,
            said: None,
            is_removed: false,
        }
    }

    fn shared(&self) -> std::sync::MutexGuard<'_, SessionReport> {
        lock(&self.shared)
    }

    fn say(&self, what: &str) {
        (self.options.say)(what);
    }

    /// Works until it is told to leave, or its owner is gone.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let wait = self.next.saturating_duration_since(Instant::now());
            match orders.recv_timeout(wait) {
                Ok(Order::Ready(ready)) => {
                    self.is_ready = ready;
                    self.next = Instant::now();
                }
                Ok(Order::Leave(drain)) => return self.leave(drain),
                Err(RecvTimeoutError::Disconnected) => return self.leave(Duration::ZERO),
                Err(RecvTimeoutError::Timeout) => self.report(),
            }
            if self.is_removed {
                // The rest of its events still arrives.
                let (drain, ended) = (self.options.drain, Arc::clone(&self.options.ended));
                self.leave(drain);
                return ended();
            }
        }
    }

    /// The present state.
    fn state(&mut self) -> State {
        let load = self.source.load();
        let state = self.states.state(load, Nanos(self.begun.elapsed().as_nanos() as u64));
        let is_ready = self.is_ready;
        let mut shared = self.shared();
        (shared.fill, shared.signal, shared.is_ready) = (state.fill, state.signal, is_ready);
        (shared.events, shared.taken) = (state.events, load.taken);
        drop(shared);
        state
    }

    /// Reports, or registers if there is no session; sets when the next report is due.
    fn report(&mut self) {
        let due = self.next;
        let state = self.state();
        let done = match self.reply.clone() {
            Some(reply) => {
                let mut message = state.message(self.is_ready);
                message.session_id = reply.session_id;
                self.plane.report_state(message, session_token(&reply.token))
            }
            None => self.register_again().map(|()| false),
        };
        // A balancer that does not answer is not waited for.
        self.is_awaited = matches!(done, Ok(true));
        let mut shared = self.shared();
        *(if done.is_ok() { &mut shared.reports } else { &mut shared.reports_failed }) += 1;
        drop(shared);
        match done {
            Ok(_) => {
                self.answered();
                (self.pause, self.said) = (MIN_RETRY_DELAY, None);
                // A slow reply neither delays the next report nor causes several at once.
                self.next = (due + self.options.period).max(Instant::now());
            }
            Err(error) => self.failed(&error),
        }
    }

    fn register_again(&mut self) -> Result<(), ControlError> {
        let reply = self.plane.register_at_once(self.options.registration())?;
        let mut shared = self.shared();
        shared.registrations += 1;
        shared.session.clone_from(&reply.session_id);
        drop(shared);
        self.say(&format!("registered with balancer at {} again", self.plane.at()));
        lock(&self.registered).clone_from(&reply);
        self.reply = Some(reply);
        Ok(())
    }

    fn failed(&mut self, error: &ControlError) {
        self.shared().error = Some(error.to_string());
        if error.is_away() {
            if self.away.is_none() {
                self.away = Some(Instant::now());
                self.shared().times_away += 1;
                self.say(&format!("{error}\n  receiving continues; the balancer keeps its last calendar"));
            }
        } else {
            self.answered();
            if error.is_ended() {
                (self.is_removed, self.reply) = (true, None);
                self.shared().removed = true;
                return self.say(&format!("{error}\n  leaving the balancer: waiting for the last packets"));
            }
            if error.is_unknown() && self.reply.take().is_some() {
                self.shared().session.clear();
                self.say(&format!("{error}\n  registering again"));
                self.next = Instant::now();
                return;
            }
            let text = error.to_string();
            if self.said.as_ref() != Some(&text) {
                self.say(&text);
                self.said = Some(text);
            }
        }
        self.next = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(MAX_RETRY_DELAY);
    }

    /// The control plane has responded.
    fn answered(&mut self) {
        if let Some(away) = self.away.take() {
            let seconds = away.elapsed().as_secs_f64();
            self.shared().seconds_away += seconds;
            self.say(&format!("control plane {}: back after {seconds:.1} s", self.plane.at()));
        }
    }

    /// Reports that it is not ready, waits for the last packets at most `drain`, and deregisters.
    fn leave(mut self, drain: Duration) {
        let begun = Instant::now();
        self.is_ready = false;
        let arrived = |load: &ObjectLoad| load.packets + load.dropped;
        let (mut last, mut changed, mut told) = (arrived(&self.source.load()), Instant::now(), None);
        self.next = Instant::now();
        while begun.elapsed() < drain {
            if Instant::now() >= self.next && !self.is_removed {
                let before = self.shared().reports;
                self.report();
                let is_told = self.reply.is_some() && self.shared().reports > before;
                told = told.or(is_told.then(Instant::now));
            }
            if self.is_removed {
                told = told.or(Some(begun));
            }
            let now = arrived(&self.source.load());
            if now != last {
                (last, changed) = (now, Instant::now());
            }
            let long_enough = told.is_some_and(|told| told.elapsed() >= MIN_DRAIN_TIME);
            if long_enough && !self.is_awaited && changed.elapsed() >= QUIET_TIME {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = match self.reply.take() {
            Some(reply) => self.plane.deregister(&reply.session_id, session_token(&reply.token)),
            None => Ok(()),
        };
        if let Some(away) = self.away.take() {
            self.shared().seconds_away += away.elapsed().as_secs_f64();
        }
        // The final counts.
        self.state();
        let mut shared = self.shared();
        shared.seconds_leaving = begun.elapsed().as_secs_f64();
        match left {
            Ok(()) => shared.has_left = true,
            // The control plane does not know the session, so there is nothing to end.
            Err(error) if error.is_unknown() => shared.has_left = true,
            Err(error) => {
                let text = format!("{error}\n  left anyway: the balancer removes silent workers");
                shared.error = Some(error.to_string());
                drop(shared);
                self.say(&text);
            }
        }
    }
}

/// A session's token; some servers issue none.
fn session_token(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Converts loads to states.
#[derive(Debug, Default)]
pub(super) struct States {
    governor: Governor,
    last: ObjectLoad,
    /// Events of dropped packets.
    dropped: f64,
}

/// The state to report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct State {
    pub(super) fill: f64,
    pub(super) signal: f64,
    /// Events that arrived.
    pub(super) events: u64,
    pub(super) load: ObjectLoad,
}

impl States {
    /// The state at `now`; call it for each report.
    pub(super) fn state(&mut self, load: ObjectLoad, now: Nanos) -> State {
        let dropped = load.dropped.saturating_sub(self.last.dropped);
        if load.packets > 0 {
            self.dropped += dropped as f64 * load.finished as f64 / load.packets as f64;
        }
        let is_full = dropped > 0 || load.ring_full > self.last.ring_full;
        let fill = if is_full { 1.0 } else { load.fill };
        let events = load.finished + self.dropped as u64;
        let signal = self.governor.signal(Load { fill, received: events, taken: load.taken }, now);
        self.last = load;
        State { fill, signal, events, load }
    }
}

impl State {
    /// As a message of the protocol, without ids.
    pub(super) fn message(&self, is_ready: bool) -> SendStateRequest {
        let total = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        SendStateRequest {
            timestamp: Some(SystemTime::now().into()),
            fill_percent: self.fill as f32,
            control_signal: self.signal as f32,
            is_ready,
            total_events_recv: total(self.events),
            total_events_reassembled: total(self.load.complete),
            total_events_reassembly_err: total(self.load.incomplete),
            total_events_dequeued: total(self.load.taken),
            total_event_enqueue_err: total(self.load.ring_full),
            total_bytes_recv: total(self.load.bytes),
            total_packets_recv: total(self.load.packets),
            ..SendStateRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(events: u64, dropped: u64) -> ObjectLoad {
        let (finished, taken, packets) = (events, events, events * 10);
        ObjectLoad { finished, complete: events, taken, packets, dropped, ..ObjectLoad::default() }
    }

    #[test]
    fn a_worker_that_drops_packets_is_behind_by_what_it_dropped() {
        let mut states = States::default();
        let mut last = State::default();
        for n in 1..40u64 {
            // 1000 events of ten packets per second; the kernel drops as many packets as are received.
            last = states.state(load(n * 100, n * 1000), Nanos(n * 100_000_000));
        }
        assert_eq!((last.fill, last.events), (1.0, 2 * 39 * 100));
        assert!((-560.0..-480.0).contains(&last.signal), "{last:?}");
        let message = last.message(true);
        assert_eq!((message.total_events_recv, message.total_events_dequeued), (7800, 3900));
        assert!(message.is_ready && message.timestamp.is_some());
        let after = states.state(load(4000, 39_000), Nanos(4_000_000_000));
        assert_eq!((after.fill, after.events), (0.0, 7900), "nothing was dropped since");
    }

    #[test]
    fn a_worker_that_keeps_up_asks_for_a_quarter_more() {
        let mut states = States::default();
        let signals: Vec<f64> =
            (1..20).map(|n| states.state(load(n * 100, 0), Nanos(n * 100_000_000)).signal).collect();
        assert_eq!(signals.last(), Some(&250.0));
    }
}
