//! Queries: the status of a reservation, the overview, and time series.

use super::super::instances::{BySession, by_session, seated};
use super::super::proto::timeseries::Timeseries as Samples;
use super::super::proto::{
    FloatSample, FloatTimeseries, HealthIssue, IntegerSample, IntegerTimeseries, LoadBalancerStatusReply,
    LoadBalancerStatusRequest, Overview, OverviewReply, OverviewRequest, SlotRange, Timeseries,
    TimeseriesRequest, TimeseriesResponse, VersionReply, VersionRequest, WorkerStatus,
};
use super::super::registry::token::{Level, Resource};
use super::super::registry::{Millis, Session};
use super::reservations::timestamp;
use super::timeseries::{RESERVATION_VALUES, SESSION_VALUES, Selectors, Series, Totals, Value};
use super::{Api, Caller, Refusal, RefusalKind, Running, number};
use skyhaul::balance::BalanceStatus;
use skyhaul::core::hint::Hint;
use skyhaul_core::balance::{SLOTS, Standing};
use std::time::Duration;

/// A worker that has not reported for this time gets no share.
const SILENCE_MILLIS: Duration = Duration::from_secs(2);
/// Default start of time series, milliseconds back.
const DEFAULT_SERIES_MILLIS: Millis = 60_000;
/// Maximum number of samples in a reply.
const MAX_SAMPLES: usize = 1 << 18;

impl Api {
    /// Returns the status of a reservation's balancer.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn load_balancer_status(
        &self,
        caller: &Caller,
        request: LoadBalancerStatusRequest,
    ) -> Result<LoadBalancerStatusReply, Refusal> {
        let id = number(&request.lb_id)?;
        self.locked().may(caller, Resource::Reservation(id), Level::ReadOnly)?;
        self.status(id, caller.now)
    }

    /// Returns all reservations that the token may see.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn overview(&self, caller: &Caller, _: OverviewRequest) -> Result<OverviewReply, Refusal> {
        let seen: Vec<(i64, String)> = {
            let state = self.locked();
            let token = state.token(caller)?;
            let all = state.registry.reservations();
            let seen =
                all.filter(|r| state.registry.may(token, Resource::Reservation(r.id), Level::ReadOnly));
            seen.map(|r| (r.id, r.name.clone())).collect()
        };
        let overview = |(id, name): (i64, String)| {
            // It may have ended since.
            let reservation = Some(self.locked().describe(id).ok()?);
            Some(Overview { name, reservation, status: Some(self.status(id, caller.now).ok()?) })
        };
        Ok(OverviewReply { load_balancers: seen.into_iter().filter_map(overview).collect() })
    }

    /// Returns samples of the last minutes, as far as the token may see them.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn timeseries(
        &self,
        caller: &Caller,
        request: TimeseriesRequest,
    ) -> Result<TimeseriesResponse, Refusal> {
        self.known(caller.token.as_deref())?;
        let selectors = Selectors::of(&request.series_selector).map_err(Refusal::invalid)?;
        let since = request
            .since
            .map_or(caller.now - DEFAULT_SERIES_MILLIS, |since| since.seconds.saturating_mul(1000));
        let state = self.locked();
        let token = state.token(caller)?;
        let may = |resource| state.registry.may(token, resource, Level::ReadOnly);
        let mut found = Found { since, samples: 0, all: Vec::new() };
        for (&id, running) in &state.running {
            let of = id.to_string();
            let here = selectors.below(&["lb", &of]);
            if here.is_empty() {
                continue;
            }
            if may(Resource::Reservation(id)) {
                found.collect(&here, &["lb", &of], &RESERVATION_VALUES, &running.series)?;
            }
            for (&session, worker) in &running.workers {
                let worker_of = session.to_string();
                let path = ["lb", &of, "session", &worker_of];
                let here = here.below(&path);
                if !here.is_empty() && may(Resource::Session(session)) {
                    found.collect(&here, &path, &SESSION_VALUES, &worker.series)?;
                }
            }
        }
        Ok(TimeseriesResponse { timeseries: found.all, since: Some(timestamp(since)) })
    }

    /// Returns name and version of the server.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn version(&self, caller: &Caller, _: VersionRequest) -> Result<VersionReply, Refusal> {
        self.locked().token(caller)?;
        Ok(VersionReply {
            commit: String::new(),
            build: concat!("skyhaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            compat_tag: COMPATIBLE_WITH.to_owned(),
        })
    }
}

/// The version of the protocol, as udplbd's clients compare it.
const COMPATIBLE_WITH: &str = "0.3.1";

impl Api {
    /// The present status. Other calls do not wait for it.
    fn status(&self, id: i64, now: Millis) -> Result<LoadBalancerStatusReply, Refusal> {
        let (reservation, balance, sessions) = {
            let state = self.locked();
            let running = state.running.get(&id);
            let totals = |session: &Session| {
                let reported = running.and_then(|running| running.workers.get(&session.id));
                reported.map_or(Totals::default(), |worker| worker.totals)
            };
            let sessions = state.registry.sessions(id).map(|session| (session.clone(), totals(session)));
            (state.reservation(id)?.clone(), state.balance(id)?, sessions.collect::<Vec<_>>())
        };
        let status = balance.status();
        drop(balance);
        let workers = by_session(&status);
        let note = |text: &String| HealthIssue {
            r#type: "note".to_owned(),
            severity: "warning".to_owned(),
            message: text.clone(),
            details: None,
            detected_at: Some(timestamp(now)),
        };
        Ok(LoadBalancerStatusReply {
            timestamp: Some(timestamp(now)),
            current_epoch: status.epoch,
            current_predicted_event_number: status.predicted.unwrap_or(0),
            workers: sessions
                .iter()
                .map(|(session, totals)| worker(session, *totals, &workers, now))
                .collect(),
            sender_addresses: reservation.senders.iter().map(ToString::to_string).collect(),
            expires_at: reservation.until.map(timestamp),
            slot_resolution: SLOTS as u32,
            health_issues: status.notes.iter().map(note).collect(),
        })
    }
}

fn worker(session: &Session, totals: Totals, workers: &BySession<'_>, now: Millis) -> WorkerStatus {
    let known = workers.get(&seated(session.number));
    let heard = known.map(|worker| now - Millis::try_from(worker.heard.as_millis()).unwrap_or(0));
    let silent =
        known.filter(|worker| worker.standing == Standing::Waiting && worker.heard >= SILENCE_MILLIS);
    let issue = silent.map(|worker| HealthIssue {
        r#type: "silent".to_owned(),
        severity: "error".to_owned(),
        message: format!("it was not heard for {} s, and gets no share", worker.heard.as_secs()),
        details: None,
        detected_at: heard.map(timestamp),
    });
    WorkerStatus {
        name: session.name.clone(),
        fill_percent: known.map_or(0.0, |worker| worker.state.load.fill as f32),
        control_signal: known.map_or(0.0, |worker| worker.state.signal as f32),
        slots_assigned: known.map_or(0, |worker| worker.slots.into()),
        last_updated: heard.map(timestamp),
        ip_address: session.ip.to_string(),
        udp_port: session.port.into(),
        port_range: session.bits.into(),
        min_factor: session.min_factor as f32,
        max_factor: session.max_factor as f32,
        keep_lb_header: session.keep_label,
        total_events_recv: totals.events,
        total_events_reassembled: totals.reassembled,
        total_events_reassembly_err: totals.reassembly_errors,
        total_events_dequeued: totals.dequeued,
        total_event_enqueue_err: totals.enqueue_errors,
        total_bytes_recv: totals.bytes,
        total_packets_recv: totals.packets,
        slots: known.map_or(Vec::new(), |worker| slots(&worker.ranges)),
        slot_demands: slots(&session.demands),
        health_issues: issue.into_iter().collect(),
        session_id: session.id,
    }
}

fn slots(ranges: &[(u16, u16)]) -> Vec<SlotRange> {
    ranges.iter().map(|&(first, length)| SlotRange { index: first.into(), length: length.into() }).collect()
}

impl Running {
    /// Take a sample.
    pub(super) fn sample<'a>(
        &mut self,
        sessions: impl Iterator<Item = &'a Session>,
        status: &BalanceStatus,
        workers: &BySession<'_>,
        now: Millis,
    ) {
        use Value::{Count, Level};
        let refused = status.refused.iter().map(|(_, n)| n).sum();
        self.series.push(
            now,
            [
                Count(status.packets),
                Count(refused),
                Count(status.forwarded.packets),
                Count(status.forwarded.bytes),
                Count(status.forwarded.unsent()),
                Count(status.syncs),
                Count(status.epoch),
            ],
        );
        let mut before = std::mem::take(&mut self.workers);
        for session in sessions {
            let mut worker = before.remove(&session.id).unwrap_or_default();
            let known = workers.get(&seated(session.number));
            let (Some(known), total) = (known, worker.totals) else { continue };
            let count = |n: i64| Count(u64::try_from(n).unwrap_or(0));
            worker.series.push(
                now,
                [
                    Level(known.state.load.fill as f32),
                    Level(known.state.signal as f32),
                    Count(known.slots.into()),
                    Count(known.packets),
                    Count(known.bytes),
                    count(total.events),
                    count(total.reassembled),
                    count(total.reassembly_errors),
                    count(total.dequeued),
                    count(total.enqueue_errors),
                    count(total.bytes),
                    count(total.packets),
                ],
            );
            self.workers.insert(session.id, worker);
        }
    }
}

/// Selected samples.
struct Found {
    since: Millis,
    samples: usize,
    all: Vec<Timeseries>,
}

impl Found {
    /// Collect the selected values of a series.
    fn collect<const N: usize>(
        &mut self,
        selectors: &Selectors<'_>,
        of: &[&str],
        names: &[(&str, &str); N],
        series: &Series<N>,
    ) -> Result<(), Refusal> {
        for (number, (name, unit)) in names.iter().enumerate() {
            if !selectors.select(of, name) {
                continue;
            }
            let (mut counts, mut levels) = (Vec::new(), Vec::new());
            for (timestamp, value) in series.since(number, self.since) {
                self.samples += 1;
                match value {
                    Value::Count(value) => {
                        let value = i64::try_from(value).unwrap_or(i64::MAX);
                        counts.push(IntegerSample { timestamp, value, meta: None });
                    }
                    Value::Level(value) => levels.push(FloatSample { timestamp, value, meta: None }),
                }
            }
            if self.samples > MAX_SAMPLES {
                let text =
                    format!("more than {MAX_SAMPLES} samples{}", Hint("fewer series, or a later `since`"));
                return Err(Refusal::new(RefusalKind::Exhausted, text));
            }
            let samples = match levels.is_empty() {
                true => Samples::IntegerSamples(IntegerTimeseries { data: counts }),
                false => Samples::FloatSamples(FloatTimeseries { data: levels }),
            };
            let name = format!("/{}/{name}", of.join("/"));
            self.all.push(Timeseries { name, unit: (*unit).to_owned(), timeseries: Some(samples) });
        }
        Ok(())
    }
}
