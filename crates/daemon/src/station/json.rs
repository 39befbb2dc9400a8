//! What can be seen of a station, as JSON.

use super::delivery_body::DeliveryBody;
use super::kept::Schedules;
use serde_json::{Map, Value, json};
use skyhaul::io::disk::{TurnCounts, turn_counts};
use skyhaul::quality::QualityReport;
use skyhaul::time::format_exact;
use skyhaul_core::hint::split;
use skyhaul_core::station::{
    DeliveryCounts, DeliveryStatus, InputStatus, PlannedStatus, QueuedId, QueuedState, QueuedStatus,
    RecordingStatus, Reserved, ScanDelivery, ScheduleStatus, StationDisk, StationRefusal, StationSnapshot,
    TransferForm, TransferOutcome, TransferPace, TransferRequest, TransferStatus, UnixMillis,
};
use std::path::Path;

/// Everything.
pub(super) fn snapshot(
    snapshot: &StationSnapshot,
    interrupted: &[String],
    (schedules, problems): (Vec<Value>, Vec<String>),
) -> Value {
    json!({
        "shutting_down": snapshot.is_shutting_down,
        "memory_bytes": snapshot.memory_bytes,
        "disks_rate_bits": snapshot.disks_rate_bits,
        "reserved": reserved(&snapshot.reserved),
        "inputs": snapshot.inputs.iter().map(input).collect::<Vec<_>>(),
        "disks": snapshot.disks.iter().map(disk).collect::<Vec<_>>(),
        "recordings": snapshot.recordings.iter().map(recording).collect::<Vec<_>>(),
        "ended": snapshot.ended.iter().map(recording).collect::<Vec<_>>(),
        "transfers": snapshot.transfers.iter().map(transfer).collect::<Vec<_>>(),
        "interrupted": interrupted,
        "schedules": schedules,
        "schedule_problems": problems,
    })
}

/// What was found of the streams of a recording.
pub(super) fn quality(report: &QualityReport) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

/// Returns a recording as the HTTP API has it.
#[must_use]
pub fn recording(status: &RecordingStatus) -> Value {
    let counts = &status.counts;
    json!({
        "name": status.name,
        "input": status.input,
        "schedule": status.schedule,
        "state": status.state.name(),
        "outcome": status.outcome.as_ref().map(skyhaul_core::station::RecordingOutcome::name),
        "reason": status.outcome.as_ref().and_then(skyhaul_core::station::RecordingOutcome::reason),
        "reserved": reserved(&status.reserved),
        "stop": status.stop.map(skyhaul::time::format),
        "requested_at": wall_clock(status.requested_at),
        "started_at": status.started_at.map(wall_clock),
        "ended_at": status.ended_at.map(wall_clock),
        "packets": counts.packets,
        "received_bytes": counts.received_bytes,
        "written_bytes": counts.written_bytes,
        "discarded_bytes": counts.discarded_bytes,
        "lost_frames": counts.lost_frames,
        "lost_is_lower_bound": counts.lost_is_lower_bound,
        "kernel_drops": counts.kernel_drops,
    })
}

/// A schedule in numbers, with what became of each of its deliveries.
pub(super) fn schedule(status: &ScheduleStatus, known: &Schedules, counts: &[DeliveryCounts]) -> Value {
    let states: Map<String, Value> =
        status.states.iter().map(|(state, count)| (state.name().to_owned(), json!(count))).collect();
    let kept = known.all.get(&status.name);
    let (next, next_start) = status.next.clone().unzip();
    json!({
        "name": status.name,
        "input": status.input,
        "experiment": kept.map(|kept| &kept.experiment),
        "station": kept.map(|kept| &kept.station),
        "format": kept.map(|kept| &kept.format),
        "file": kept.and_then(|kept| kept.file.as_ref()).map(|file| file.display().to_string()),
        "scans": status.scans,
        "states": states,
        "next": next,
        "next_start": next_start.map(skyhaul::time::format),
        "deliveries": deliveries(status, counts),
    })
}

/// A scan of a schedule.
pub(super) fn planned(status: &PlannedStatus) -> Value {
    json!({
        "schedule": status.schedule,
        "name": status.scan.name,
        "start": skyhaul::time::format(status.scan.start),
        "stop": skyhaul::time::format(status.scan.stop),
        "rate_bits": status.scan.rate_bits,
        "state": status.state.name(),
        "attempts": status.attempts,
        "recording": status.recording,
        "reason": status.reason,
        "deliveries": status.deliveries.iter().map(|one| scan_delivery(one, &[], UnixMillis(0))).collect::<Vec<_>>(),
    })
}

/// A scan of a schedule, with the states of its copies.
pub(super) fn planned_with(status: &PlannedStatus, queue: &[QueuedStatus], now: UnixMillis) -> Value {
    let mut scan = planned(status);
    scan["deliveries"] = status.deliveries.iter().map(|one| scan_delivery(one, queue, now)).collect();
    scan
}

/// The delivery of a scan. A copy without a state is not among those of `queue`.
fn scan_delivery(one: &ScanDelivery, queue: &[QueuedStatus], now: UnixMillis) -> Value {
    let copy = |copy: &QueuedId| {
        let at = queue.binary_search_by_key(copy, |status| status.copy).ok().map(|at| &queue[at]);
        json!({
            "copy": copy.0,
            "state": at.map(|status| status.state.name()),
            "waiting_for_hours": at.is_some_and(|status| status.is_out_of_hours(now)),
        })
    };
    json!({
        "destination": one.destination,
        "state": one.state.name(),
        "copies": one.copies.iter().map(copy).collect::<Vec<_>>(),
        "reason": one.reason,
    })
}

/// The deliveries of a schedule in numbers.
fn deliveries(status: &ScheduleStatus, counts: &[DeliveryCounts]) -> Vec<Value> {
    let none = DeliveryCounts::default();
    let of = |(at, status): (usize, &DeliveryStatus)| {
        let counts = counts.get(at).unwrap_or(&none);
        let mut value = serde_json::to_value(DeliveryBody::of(&status.rule)).unwrap_or_default();
        let states: Map<String, Value> =
            status.states.iter().map(|(state, count)| (state.name().to_owned(), json!(count))).collect();
        value["destination"] = status.rule.destination.as_str().into();
        value["states"] = states.into();
        value["copies"] = json!(counts.copies);
        value["not_recorded"] = json!(counts.not_recorded);
        value["pending"] = json!(counts.pending);
        value
    };
    status.deliveries.iter().enumerate().map(of).collect()
}

/// A transfer. Its priority is below that of every recording.
pub(super) fn transfer(status: &TransferStatus) -> Value {
    let limit = match status.pace {
        TransferPace::Free | TransferPace::Paused => None,
        TransferPace::Limited(bits) => Some(bits),
    };
    let counts = &status.counts;
    json!({
        "transfer": status.transfer.0,
        "scan": status.request.scan,
        "to": match status.request.form {
            TransferForm::ToFile(_) => status.request.host.clone(),
            TransferForm::ToEtransfer(_) => {
                let TransferRequest { host, port, path, .. } = &status.request;
                format!("etd://{host}:{port}{}{path}", if path.starts_with('/') { "" } else { "/" })
            }
            TransferForm::Scan | TransferForm::File | TransferForm::Chunks => {
                format!("{}:{}", status.request.host, status.request.port)
            }
        },
        "state": status.state.name(),
        "outcome": status.outcome.as_ref().map(TransferOutcome::name),
        "reason": status.outcome.as_ref().and_then(TransferOutcome::reason),
        "priority": "below recordings",
        "paused": status.pace == TransferPace::Paused,
        "limit_bits": limit,
        "rate_bits": status.rate_bits,
        "first_byte": status.range.0,
        "end_byte": status.range.1,
        "size_bytes": status.size_bytes,
        "read_bytes": counts.read_bytes,
        "sent_bytes": counts.sent_bytes,
        "filled_bytes": counts.filled_bytes,
        "requested_at": wall_clock(status.requested_at),
        "ended_at": status.ended_at.map(wall_clock),
    })
}

/// A copy of the queue. Its priority is below that of every recording.
pub(super) fn queued(status: &QueuedStatus, now: UnixMillis) -> Value {
    let request = &status.request;
    let limit = match status.pace {
        TransferPace::Free | TransferPace::Paused => None,
        TransferPace::Limited(bits) => Some(bits),
    };
    let size_bytes = request.bytes();
    let left = size_bytes.saturating_sub(status.there_bytes + status.unconfirmed_bytes);
    let is_moving = status.state == QueuedState::Running && status.rate_bits > 0;
    let eta = is_moving.then(|| (u128::from(left) * 8).div_ceil(u128::from(status.rate_bits)));
    let into = request.parts.iter().map(|part| &part.directory).collect::<Vec<_>>();
    json!({
        "copy": status.copy.0,
        "scan": request.scan,
        "destination": request.destination,
        "directories": into,
        "label": format!("{} to {}", request.scan, request.destination),
        "state": status.state.name(),
        "stopping": status.is_stopping,
        "reason": status.reason,
        "attempts": status.attempts,
        "due_at": (!status.state.is_ended()).then(|| wall_clock(status.due_at)),
        "priority": "below recordings",
        "order": request.priority,
        "hours": request.hours.map(|hours| hours.to_string()),
        "waiting_for_hours": status.is_out_of_hours(now),
        "schedule": request.schedule,
        "encrypt": request.encrypt,
        "data_encrypted": status.data_encrypted,
        "paused": status.pace == TransferPace::Paused,
        "limit_bits": limit,
        "rate_bits": status.rate_bits,
        "eta_seconds": eta.and_then(|seconds| u64::try_from(seconds).ok()),
        "files": request.files(),
        "size_bytes": size_bytes,
        "there_bytes": status.there_bytes,
        "unconfirmed_bytes": status.unconfirmed_bytes,
        "requested_at": wall_clock(status.requested_at),
        "ended_at": status.ended_at.map(wall_clock),
    })
}

/// A disk.
pub(super) fn disk(disk: &StationDisk) -> Value {
    json!({
        "path": disk.path,
        "condition": disk.condition.name(),
        "free_bytes": disk.free_bytes,
        "rate_bits": disk.rate_bits,
        "readers": readers(&disk.path),
    })
}

/// How long readers and copies of this process have waited for recordings that write to a disk.
pub(super) fn readers(disk: &str) -> Value {
    let TurnCounts { waiting, waits, waited } = turn_counts(Path::new(disk));
    json!({ "waiting": waiting, "waits": waits, "waited_seconds": waited.as_secs_f64() })
}

/// A refusal: what is wrong, what to do, and a name for programs.
pub(super) fn refusal(refusal: &StationRefusal) -> Value {
    error(refusal.code(), &refusal.to_string())
}

/// An error with the hints of its text.
pub(super) fn error(code: &str, text: &str) -> Value {
    let (what, hints) = split(text);
    let hint = hints.collect::<Vec<_>>().join("; ");
    json!({ "error": { "code": code, "message": what, "hint": (!hint.is_empty()).then_some(hint) } })
}

fn input(input: &InputStatus) -> Value {
    json!({
        "name": input.name,
        "listen": input.listen,
        "memory_bytes": input.memory_bytes,
        "rate_bits": input.rate_bits,
        "recording": input.recording,
    })
}

fn reserved(reserved: &Reserved) -> Value {
    json!({
        "memory_bytes": reserved.memory_bytes,
        "rate_bits": reserved.rate_bits,
        "space_bytes": reserved.space_bytes,
    })
}

/// A time as the API has it.
pub(super) fn wall_clock(at: UnixMillis) -> String {
    format_exact(i128::from(at.0) * 1_000_000)
}
