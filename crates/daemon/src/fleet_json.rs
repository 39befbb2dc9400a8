//! Values of a fleet's store as JSON, `"v": 1`, and read back.
//!
//! Times are text in UTC. Fields that are not known are skipped: a later version may add some. Parts of VEX text are bytes, not JSON.

mod error;
mod read;

pub use error::NotAFleetValue;

use error::VERSION;
use read::Fields;
use serde_json::{Map, Value, json};
use skyhaul::time::{format, format_exact};
use skyhaul_core::fleet::{
    AckState, ClaimRecord, ClosedScan, CurrentSchedule, DesiredAction, DesiredScan, FencingToken, FleetAlarm,
    FleetKey, FleetValue, LiveState, MAX_FLEET_VALUE_BYTES, MAX_VEX_PART_BYTES, RecorderActivity,
    RecorderInfo, ReplicaRecord, ReplicaState, ScanAck, ScheduleMeta, StationEntry, TransferRecord,
};
use skyhaul_core::station::UnixMillis;

/// Returns a value as it is stored.
///
/// # Errors
/// [`NotAFleetValue::Long`] if it is longer than the layout allows.
pub fn encode(value: &FleetValue) -> Result<Vec<u8>, NotAFleetValue> {
    let mut fields = match value {
        FleetValue::VexPart(bytes) => return within(bytes.clone(), MAX_VEX_PART_BYTES),
        FleetValue::Station(station) => self::station(station),
        FleetValue::Info(info) => self::info(info),
        FleetValue::Live(live) => self::live(live),
        FleetValue::Meta(meta) => json!({
            "sha256": meta.sha256, "bytes": meta.bytes, "parts": meta.parts, "author": meta.author, "at": millis(meta.at),
        }),
        FleetValue::Current(current) => self::current(current),
        FleetValue::Desired(desired) => self::desired(desired),
        FleetValue::Ack(ack) => json!({
            "desired_revision": ack.desired_revision, "state": ack.state.name(), "reason": ack.reason, "recording": ack.recording,
        }),
        FleetValue::Claim(claim) => json!({ "holder": claim.holder, "purpose": claim.purpose }),
        FleetValue::Scan(scan) => self::scan(scan),
        FleetValue::Replica(replica) => json!({
            "url": replica.url, "state": replica.state.name(), "bytes": replica.bytes, "digest": replica.digest,
            "at": millis(replica.at), "token": replica.token.0,
        }),
        FleetValue::Transfer(transfer) => json!({
            "source": transfer.source, "destination": transfer.destination, "engine": transfer.engine,
            "fts_job": transfer.fts_job, "attempts": transfer.attempts, "last_failure": transfer.last_failure,
        }),
        FleetValue::Alarm(alarm) => json!({ "text": alarm.text, "since": millis(alarm.since) }),
    };
    if let Value::Object(fields) = &mut fields {
        fields.retain(|_, value| !value.is_null());
        fields.insert("v".into(), VERSION.into());
    }
    within(fields.to_string().into_bytes(), MAX_FLEET_VALUE_BYTES)
}

fn within(bytes: Vec<u8>, most: usize) -> Result<Vec<u8>, NotAFleetValue> {
    if bytes.len() > most { Err(NotAFleetValue::Long { bytes: bytes.len(), most }) } else { Ok(bytes) }
}

/// Returns the value of a key.
///
/// # Errors
/// [`NotAFleetValue`] if the bytes are not of the kind of the key.
pub fn decode(key: &FleetKey, bytes: &[u8]) -> Result<FleetValue, NotAFleetValue> {
    if let FleetKey::SchedulePart(..) = key {
        return Ok(FleetValue::VexPart(within(bytes.to_vec(), MAX_VEX_PART_BYTES)?));
    }
    if bytes.len() > MAX_FLEET_VALUE_BYTES {
        return Err(NotAFleetValue::Long { bytes: bytes.len(), most: MAX_FLEET_VALUE_BYTES });
    }
    let fields: Map<String, Value> =
        serde_json::from_slice(bytes).map_err(|error| NotAFleetValue::Json(error.to_string()))?;
    if fields.get("v").and_then(Value::as_u64) != Some(VERSION) {
        let found = fields.get("v").map_or_else(|| "none".to_owned(), Value::to_string);
        return Err(NotAFleetValue::Version(found.chars().take(32).collect()));
    }
    let fields = Fields(&fields);
    Ok(match key {
        FleetKey::Station(_) => FleetValue::Station(read_station(&fields)?),
        FleetKey::RecorderInfo(..) => FleetValue::Info(read_info(&fields)?),
        FleetKey::RecorderLive(..) => FleetValue::Live(read_live(&fields)?),
        FleetKey::ScheduleMeta(_) => FleetValue::Meta(ScheduleMeta {
            sha256: fields.text("sha256")?,
            bytes: fields.number("bytes")?,
            parts: fields.small("parts")?,
            author: fields.text("author")?,
            at: fields.millis("at")?,
        }),
        FleetKey::SchedulePart(..) => FleetValue::VexPart(bytes.to_vec()),
        FleetKey::CurrentSchedule(_) => FleetValue::Current(read_current(&fields)?),
        FleetKey::DesiredScan(..) => FleetValue::Desired(read_desired(&fields)?),
        FleetKey::ScanAck(..) => FleetValue::Ack(ScanAck {
            desired_revision: fields.number("desired_revision")?,
            state: fields.one_of("state", "the state of an answer", &AckState::ALL, AckState::name)?,
            reason: fields.text_if_any("reason")?,
            recording: fields.text("recording")?,
        }),
        FleetKey::Claim(_) => FleetValue::Claim(ClaimRecord {
            holder: fields.text("holder")?,
            purpose: fields.text("purpose")?,
        }),
        FleetKey::ClosedScan(experiment, scan, _) => {
            FleetValue::Scan(read_scan(&fields, (experiment.clone(), scan.clone()))?)
        }
        FleetKey::Replica(..) => FleetValue::Replica(ReplicaRecord {
            url: fields.text("url")?,
            state: fields.one_of(
                "state",
                "the state of a replica",
                &ReplicaState::ALL,
                ReplicaState::name,
            )?,
            bytes: fields.number("bytes")?,
            digest: fields.text_if_any("digest")?,
            at: fields.millis("at")?,
            token: FencingToken(fields.number("token")?),
        }),
        FleetKey::Transfer(_) => FleetValue::Transfer(TransferRecord {
            source: fields.text("source")?,
            destination: fields.text("destination")?,
            engine: fields.text("engine")?,
            fts_job: fields.text_if_any("fts_job")?,
            attempts: fields.small("attempts")?,
            last_failure: fields.text_if_any("last_failure")?,
        }),
        FleetKey::Alarm(..) => {
            FleetValue::Alarm(FleetAlarm { text: fields.text("text")?, since: fields.millis("since")? })
        }
    })
}

fn millis(at: UnixMillis) -> String {
    format_exact(i128::from(at.0) * 1_000_000)
}

fn station(station: &StationEntry) -> Value {
    json!({
        "name": station.name, "vex_id": station.vex_id, "position": station.position, "contact": station.contact,
        "issuer": station.issuer, "endpoints": station.endpoints,
    })
}

fn read_station(fields: &Fields<'_>) -> Result<StationEntry, NotAFleetValue> {
    Ok(StationEntry {
        name: fields.text("name")?,
        vex_id: fields.text("vex_id")?,
        position: fields.position("position")?,
        contact: fields.text("contact")?,
        issuer: fields.text("issuer")?,
        endpoints: fields.texts("endpoints")?,
    })
}

fn info(info: &RecorderInfo) -> Value {
    json!({
        "build": info.build, "disks": info.disks, "interfaces": info.interfaces, "webdav_url": info.webdav_url,
        "srr_url": info.srr_url, "certificate_sha256": info.certificate_sha256,
    })
}

fn read_info(fields: &Fields<'_>) -> Result<RecorderInfo, NotAFleetValue> {
    Ok(RecorderInfo {
        build: fields.text("build")?,
        disks: fields.texts("disks")?,
        interfaces: fields.texts("interfaces")?,
        webdav_url: fields.text_if_any("webdav_url")?,
        srr_url: fields.text_if_any("srr_url")?,
        certificate_sha256: fields.text_if_any("certificate_sha256")?,
    })
}

fn live(live: &LiveState) -> Value {
    json!({
        "activity": live.activity.name(), "scans": live.scans, "rate_bits": live.rate_bits, "lost_frames": live.lost_frames,
        "lost_is_lower_bound": live.lost_is_lower_bound,
        "free_bytes": live.free_bytes, "disk_lag_ms": live.disk_lag_millis, "clock_offset_ns": live.clock_offset_nanos,
        "schedule": live.schedule.as_ref().map(current), "unpublished_scans": live.unpublished_scans,
        "sequence": live.sequence, "at": millis(live.at),
    })
}

fn read_live(fields: &Fields<'_>) -> Result<LiveState, NotAFleetValue> {
    let activities = [RecorderActivity::Idle, RecorderActivity::Recording, RecorderActivity::ShuttingDown];
    Ok(LiveState {
        activity: fields.one_of("activity", "an activity", &activities, RecorderActivity::name)?,
        scans: fields.texts("scans")?,
        rate_bits: fields.number("rate_bits")?,
        lost_frames: fields.number("lost_frames")?,
        // Older recorders did not write it.
        lost_is_lower_bound: fields.flag_if_any("lost_is_lower_bound")?.unwrap_or_default(),
        free_bytes: fields.number_if_any("free_bytes")?,
        disk_lag_millis: fields.number_if_any("disk_lag_ms")?,
        clock_offset_nanos: fields.signed_if_any("clock_offset_ns")?,
        schedule: fields
            .object_if_any("schedule")?
            .map(|fields| read_current(&Fields(fields)))
            .transpose()?,
        unpublished_scans: fields.number("unpublished_scans")?,
        sequence: fields.number("sequence")?,
        at: fields.millis("at")?,
    })
}

fn current(current: &CurrentSchedule) -> Value {
    json!({ "experiment": current.experiment.as_str(), "revision": current.revision })
}

fn read_current(fields: &Fields<'_>) -> Result<CurrentSchedule, NotAFleetValue> {
    Ok(CurrentSchedule { experiment: fields.name("experiment")?, revision: fields.number("revision")? })
}

fn desired(desired: &DesiredScan) -> Value {
    json!({
        "action": desired.action.name(), "experiment": desired.experiment.as_str(), "start": desired.start.map(format),
        "stop": desired.stop.map(format), "source": desired.source, "mode": desired.mode,
        "deadline": desired.deadline.map(format),
    })
}

fn read_desired(fields: &Fields<'_>) -> Result<DesiredScan, NotAFleetValue> {
    let actions = [DesiredAction::Start, DesiredAction::Stop];
    Ok(DesiredScan {
        action: fields.one_of("action", "start or stop", &actions, DesiredAction::name)?,
        experiment: fields.name("experiment")?,
        start: fields.seconds_if_any("start")?,
        stop: fields.seconds_if_any("stop")?,
        source: fields.text("source")?,
        mode: fields.text("mode")?,
        deadline: fields.seconds_if_any("deadline")?,
    })
}

fn scan(scan: &ClosedScan) -> Value {
    json!({
        "recorder": scan.recorder.as_str(), "recording": scan.recording, "bytes": scan.bytes,
        "start": scan.start.map(format), "stop": scan.stop.map(format), "valid_fraction": scan.valid_fraction,
        "lost_frames": scan.lost_frames, "lost_is_lower_bound": scan.lost_is_lower_bound, "missing_sha256": scan.missing_sha256,
        "adler32": scan.adler32.map(|sum| format!("{sum:08x}")), "crc32c": scan.crc32c.map(|sum| format!("{sum:08x}")),
        "outcome": scan.outcome,
    })
}

fn read_scan(
    fields: &Fields<'_>,
    (experiment, scan): (skyhaul_core::fleet::FleetName, skyhaul_core::fleet::FleetName),
) -> Result<ClosedScan, NotAFleetValue> {
    Ok(ClosedScan {
        experiment,
        scan,
        recorder: fields.name("recorder")?,
        recording: fields.text("recording")?,
        bytes: fields.number("bytes")?,
        start: fields.seconds_if_any("start")?,
        stop: fields.seconds_if_any("stop")?,
        valid_fraction: fields.fraction_if_any("valid_fraction")?,
        lost_frames: fields.number("lost_frames")?,
        // Older recorders did not write it.
        lost_is_lower_bound: fields.flag_if_any("lost_is_lower_bound")?.unwrap_or_default(),
        missing_sha256: fields.text_if_any("missing_sha256")?,
        adler32: fields.sum_if_any("adler32")?,
        crc32c: fields.sum_if_any("crc32c")?,
        outcome: fields.text("outcome")?,
    })
}

#[cfg(test)]
mod tests;
