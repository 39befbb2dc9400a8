//! What there is to see: of a reservation, of all, of the last minutes.

use super::super::facility::token::{Level, Resource};
use super::super::facility::{Millis, Session};
use super::super::ground::seated;
use super::super::proto::timeseries::Timeseries as Samples;
use super::super::proto::{
    FloatSample, FloatTimeseries, HealthIssue, IntegerSample, IntegerTimeseries, LoadBalancerStatusReply,
    LoadBalancerStatusRequest, Overview, OverviewReply, OverviewRequest, SlotRange, Timeseries,
    TimeseriesRequest, TimeseriesResponse, VersionReply, VersionRequest, WorkerStatus,
};
use super::reservations::timestamp;
use super::series::{RESERVATION, SESSION, Series, Totals, Value, selects};
use super::{Caller, Desk, Refusal, Running, State, number};
use skyhaul::balance::BalanceStatus;
use skyhaul_core::balance::{SLOTS, Standing};
use std::time::Duration;

/// A worker that is not heard for so long gets no share.
const SILENT: Duration = Duration::from_secs(2);
/// How far back time series go that do not say it.
const RECENT: Millis = 60_000;

impl Desk {
    /// What a reservation's balancer does.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn load_balancer_status(
        &self,
        caller: &Caller,
        request: LoadBalancerStatusRequest,
    ) -> Result<LoadBalancerStatusReply, Refusal> {
        let (state, id) = (self.locked(), number(&request.lb_id)?);
        state.may(caller, Resource::Reservation(id), Level::ReadOnly)?;
        state.status(id, caller.now)
    }

    /// All reservations that the token may see.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn overview(&self, caller: &Caller, _: OverviewRequest) -> Result<OverviewReply, Refusal> {
        let state = self.locked();
        let token = state.token(caller)?;
        let seen = state
            .facility
            .reservations()
            .filter(|r| state.facility.may(token, Resource::Reservation(r.id), Level::ReadOnly));
        let overview = |r: &super::Reservation| {
            let (reservation, status) = (Some(state.describe(r.id)?), Some(state.status(r.id, caller.now)?));
            Ok(Overview { name: r.name.clone(), reservation, status })
        };
        Ok(OverviewReply { load_balancers: seen.map(overview).collect::<Result<_, Refusal>>()? })
    }

    /// Samples of the last minutes, of what the token may see.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn timeseries(
        &self,
        caller: &Caller,
        request: TimeseriesRequest,
    ) -> Result<TimeseriesResponse, Refusal> {
        let state = self.locked();
        let token = state.token(caller)?;
        if request.series_selector.len() > 256 {
            return Err(Refusal::invalid("more than 256 selectors; hint: * stands for all"));
        }
        let since = request.since.map_or(caller.now - RECENT, |since| since.seconds.saturating_mul(1000));
        let may = |resource| state.facility.may(token, resource, Level::ReadOnly);
        let mut all = Vec::new();
        for (&id, running) in &state.running {
            if may(Resource::Reservation(id)) {
                let of = format!("/lb/{id}");
                collect(&mut all, &request.series_selector, &of, &RESERVATION, &running.series, since);
            }
            for (&session, worker) in &running.workers {
                if may(Resource::Session(session)) {
                    let of = format!("/lb/{id}/session/{session}");
                    collect(&mut all, &request.series_selector, &of, &SESSION, &worker.series, since);
                }
            }
        }
        Ok(TimeseriesResponse { timeseries: all, since: Some(timestamp(since)) })
    }

    /// Which server this is.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub fn version(&self, caller: &Caller, _: VersionRequest) -> Result<VersionReply, Refusal> {
        self.locked().token(caller)?;
        Ok(VersionReply {
            commit: String::new(),
            build: concat!("skyhaul ", env!("CARGO_PKG_VERSION")).to_owned(),
            compat_tag: COMPATIBLE.to_owned(),
        })
    }
}

/// The version of the protocol, as udplbd's clients compare it.
const COMPATIBLE: &str = "0.3.1";

impl State {
    fn status(&self, id: i64, now: Millis) -> Result<LoadBalancerStatusReply, Refusal> {
        let (reservation, status) = (self.reservation(id)?, self.balance(id)?.status());
        let running = self.running.get(&id);
        let totals = |session: &Session| {
            running
                .and_then(|running| running.workers.get(&session.id))
                .map_or(Totals::default(), |w| w.totals)
        };
        let sessions = self.facility.sessions(id);
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
            workers: sessions.map(|session| worker(session, totals(session), &status, now)).collect(),
            sender_addresses: reservation.senders.iter().map(ToString::to_string).collect(),
            expires_at: reservation.until.map(timestamp),
            slot_resolution: SLOTS as u32,
            health_issues: status.notes.iter().map(note).collect(),
        })
    }
}

fn worker(session: &Session, totals: Totals, status: &BalanceStatus, now: Millis) -> WorkerStatus {
    let known = status.workers.iter().find(|worker| worker.session == seated(session.number));
    let heard = known.map(|worker| now - Millis::try_from(worker.heard.as_millis()).unwrap_or(0));
    let silent = known.filter(|worker| worker.standing == Standing::Waiting && worker.heard >= SILENT);
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
    /// Note what is so now.
    pub(super) fn sample<'a>(
        &mut self,
        sessions: impl Iterator<Item = &'a Session>,
        status: &BalanceStatus,
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
            let known = status.workers.iter().find(|worker| worker.session == seated(session.number));
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

/// Of a series, what is selected.
fn collect<const N: usize>(
    all: &mut Vec<Timeseries>,
    selectors: &[String],
    of: &str,
    names: &[(&str, &str); N],
    series: &Series<N>,
    since: Millis,
) {
    for (number, (name, unit)) in names.iter().enumerate() {
        let path = format!("{of}/{name}");
        if !selectors.iter().any(|selector| selects(selector, &path)) {
            continue;
        }
        let (mut counts, mut levels) = (Vec::new(), Vec::new());
        for (timestamp, value) in series.since(number, since) {
            match value {
                Value::Count(value) => {
                    let value = i64::try_from(value).unwrap_or(i64::MAX);
                    counts.push(IntegerSample { timestamp, value, meta: None });
                }
                Value::Level(value) => levels.push(FloatSample { timestamp, value, meta: None }),
            }
        }
        let samples = match levels.is_empty() {
            true => Samples::IntegerSamples(IntegerTimeseries { data: counts }),
            false => Samples::FloatSamples(FloatTimeseries { data: levels }),
        };
        all.push(Timeseries { name: path, unit: (*unit).to_owned(), timeseries: Some(samples) });
    }
}
