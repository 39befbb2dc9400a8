//! Schedules over the HTTP API.

use super::ScheduleLoadError;
use super::api::{ApiState, Failure, MAX_SCHEDULE_BYTES, replied};
use super::clock::now;
use super::delivery_body::DeliveryBody;
use super::json;
use super::schedules::ScheduleLoad;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use skyhaul::core::hint::Hint;
use skyhaul::io::lock::lock;
use skyhaul_core::observation::scan::ScheduleFormat;
use skyhaul_core::station::{DeliveryCounts, ScheduleStatus, StationRefusal, StationSnapshot};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// The body of a schedule.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ScheduleBody {
    text: String,
    procedures: Option<String>,
    format: Option<String>,
    station: Option<String>,
    input: String,
    name: String,
    replace: bool,
    force: bool,
    deliveries: Vec<DeliveryBody>,
}

impl From<ScheduleLoadError> for Failure {
    fn from(error: ScheduleLoadError) -> Self {
        use ScheduleLoadError as E;
        let (status, code) = match &error {
            E::Read(_) | E::NoScan(_) => (400, "bad_schedule"),
            E::Delivery(_) => (409, "bad_delivery"),
            E::OfFile(_) => (409, "schedule_of_file"),
            E::Io(_) => (503, "failed"),
            E::Refused(_) => (409, "refused"),
        };
        match error {
            E::Refused(refusal) => refusal.into(),
            error => Self::new(status, code, error),
        }
    }
}

impl ApiState {
    /// All schedules in numbers.
    pub(super) fn schedules(&self) -> Value {
        self.schedule_list(&self.service.snapshot()).into()
    }

    pub(super) fn schedule_list(&self, snapshot: &StationSnapshot) -> Vec<Value> {
        let counts: Vec<_> = snapshot.schedules.iter().map(|status| self.counts(status)).collect();
        let known = lock(&self.service.shared.schedules);
        let all = snapshot.schedules.iter().zip(&counts);
        all.map(|(status, counts)| json::schedule(status, &known, counts)).collect()
    }

    /// What became of the deliveries of a schedule.
    fn counts(&self, status: &ScheduleStatus) -> Vec<DeliveryCounts> {
        match status.deliveries.is_empty() {
            true => Vec::new(),
            false => lock(&self.service.shared.state).station.delivery_counts(&status.name, now()),
        }
    }

    /// A schedule with its scans.
    pub(super) fn schedule(&self, name: &str) -> Result<Value, Failure> {
        let snapshot = self.service.snapshot();
        let status = snapshot.schedules.iter().find(|status| status.name == name);
        let (Some(status), Some(scans)) = (status, self.service.schedule(name)) else {
            let loaded = snapshot.schedules.into_iter().map(|status| status.name).collect();
            return Err(StationRefusal::NoSchedule { name: name.to_owned(), loaded }.into());
        };
        let queue = self.service.queued();
        let scans: Vec<Value> = scans.iter().map(|scan| json::planned_with(scan, &queue, now())).collect();
        let counts = self.counts(status);
        let summary = json::schedule(status, &lock(&self.service.shared.schedules), &counts);
        Ok(json!({ "schedule": summary, "scans": scans }))
    }

    pub(super) async fn load_schedule(&self, request: Request) -> Result<Response, Failure> {
        let loading = self.loading()?;
        let body: ScheduleBody = self.read_up_to(request, MAX_SCHEDULE_BYTES).await?;
        let format = match body.format.as_deref() {
            None => None,
            Some("vex") => Some(ScheduleFormat::Vex),
            Some("snap") => Some(ScheduleFormat::Snap),
            Some("toml") => Some(ScheduleFormat::Toml),
            Some(_) => return Err(Failure::bad("format: expected vex, snap or toml")),
        };
        let deliveries = body.deliveries.into_iter().map(DeliveryBody::read).collect::<Result<_, _>>();
        let load = ScheduleLoad {
            deliveries: deliveries.map_err(Failure::bad)?,
            text: body.text,
            procedures: body.procedures,
            format,
            station: body.station,
            input: body.input,
            name: body.name,
            replace: body.replace,
            accept_conflicts: body.force,
        };
        let service = Arc::clone(&self.service);
        let work = move || {
            // Also if the client leaves.
            let _loading = loading;
            service.load_schedule(&load)
        };
        let loaded = tokio::task::spawn_blocking(work).await.map_err(Failure::bad)??;
        let mut reply = self.schedule(&loaded.name)?;
        reply["notes"] = loaded.notes.into();
        Ok(replied(StatusCode::CREATED, &reply))
    }

    pub(super) async fn remove_schedule(&self, name: String) -> Result<Response, Failure> {
        let loading = self.loading()?;
        let service = Arc::clone(&self.service);
        let work = move || {
            let _loading = loading;
            service.remove_schedule(&name)
        };
        tokio::task::spawn_blocking(work).await.map_err(Failure::bad)??;
        Ok(replied(StatusCode::OK, &self.schedules()))
    }

    fn loading(&self) -> Result<OwnedMutexGuard<()>, Failure> {
        Arc::clone(&self.loading).try_lock_owned().map_err(|_| {
            let text = format!("another schedule is being loaded or removed{}", Hint("ask again"));
            Failure::new(503, "busy", text)
        })
    }
}
