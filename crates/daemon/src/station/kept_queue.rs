//! The queue of copies as it is kept on the disks. It has no tokens: those stay in the files that the configuration names.

use serde::{Deserialize, Serialize};
use skyhaul_core::observation::delivery::DayWindow;
use skyhaul_core::station::{
    QueueRequest, QueuedId, QueuedPart, QueuedRequest, QueuedState, QueuedStatus, UnixMillis,
};

/// The file. Of several, that of the highest version counts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct KeptQueue {
    pub(super) version: u64,
    /// The number of the last copy that was accepted: none is used twice.
    last: u64,
    copies: Vec<KeptCopy>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptCopy {
    copy: u64,
    scan: String,
    destination: String,
    parts: Vec<KeptPart>,
    not_before: i64,
    rate_bits: Option<u64>,
    #[serde(default)]
    priority: i8,
    #[serde(default)]
    hours: Option<(u16, u16)>,
    #[serde(default)]
    schedule: Option<String>,
    #[serde(default)]
    is_unnoted: bool,
    #[serde(default)]
    encrypt: bool,
    #[serde(default)]
    data_encrypted: Option<bool>,
    state: String,
    attempts: u32,
    failures: u32,
    failing_since: Option<i64>,
    due_at: i64,
    there_bytes: u64,
    #[serde(default)]
    fingerprint: Option<String>,
    reason: Option<String>,
    requested_at: i64,
    ended_at: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptPart {
    directory: String,
    sources: Vec<String>,
    files: u64,
    bytes: u64,
    file_system: u64,
}

impl KeptQueue {
    pub(super) fn new(version: u64, last: QueuedId, copies: &[QueuedStatus]) -> Self {
        Self { version, last: last.0, copies: copies.iter().map(KeptCopy::of).collect() }
    }

    /// What a station that starts is asked.
    pub(super) fn request(&self) -> QueueRequest {
        let copies = self.copies.iter().map(KeptCopy::status).collect();
        QueueRequest::Restore { last: self.last, copies }
    }
}

impl KeptCopy {
    fn of(status: &QueuedStatus) -> Self {
        let QueuedRequest {
            scan,
            destination,
            parts,
            not_before,
            rate_bits,
            priority,
            hours,
            schedule,
            encrypt,
        } = &status.request;
        let part = |part: &QueuedPart| KeptPart {
            directory: part.directory.clone(),
            sources: part.sources.clone(),
            files: part.files,
            bytes: part.bytes,
            file_system: part.file_system,
        };
        Self {
            copy: status.copy.0,
            scan: scan.clone(),
            destination: destination.clone(),
            parts: parts.iter().map(part).collect(),
            not_before: not_before.0,
            rate_bits: *rate_bits,
            priority: *priority,
            hours: hours.map(|hours| (hours.from_minute, hours.to_minute)),
            schedule: schedule.clone(),
            is_unnoted: status.is_unnoted,
            encrypt: *encrypt,
            data_encrypted: status.data_encrypted,
            state: status.state.name().to_owned(),
            attempts: status.attempts,
            failures: status.failures,
            failing_since: status.failing_since.map(|at| at.0),
            due_at: status.due_at.0,
            there_bytes: status.there_bytes,
            fingerprint: status.fingerprint.clone(),
            reason: status.reason.clone(),
            requested_at: status.requested_at.0,
            ended_at: status.ended_at.map(|at| at.0),
        }
    }

    fn status(&self) -> QueuedStatus {
        let part = |part: &KeptPart| QueuedPart {
            directory: part.directory.clone(),
            sources: part.sources.clone(),
            files: part.files,
            bytes: part.bytes,
            file_system: part.file_system,
        };
        QueuedStatus {
            copy: QueuedId(self.copy),
            request: QueuedRequest {
                scan: self.scan.clone(),
                destination: self.destination.clone(),
                parts: self.parts.iter().map(part).collect(),
                not_before: UnixMillis(self.not_before),
                rate_bits: self.rate_bits,
                priority: self.priority,
                hours: self.hours.map(|(from_minute, to_minute)| DayWindow { from_minute, to_minute }),
                schedule: self.schedule.clone(),
                encrypt: self.encrypt,
            },
            is_unnoted: self.is_unnoted,
            data_encrypted: self.data_encrypted,
            // One that this version does not know is tried again, and proved anew.
            state: QueuedState::of(&self.state).unwrap_or_default(),
            attempts: self.attempts,
            failures: self.failures,
            failing_since: self.failing_since.map(UnixMillis),
            due_at: UnixMillis(self.due_at),
            there_bytes: self.there_bytes,
            fingerprint: self.fingerprint.clone(),
            reason: self.reason.clone(),
            requested_at: UnixMillis(self.requested_at),
            ended_at: self.ended_at.map(UnixMillis),
            ..QueuedStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_counts_after_a_restart_is_kept() {
        let part = QueuedPart {
            directory: "/d1".into(),
            sources: vec!["/data/d0/s".into()],
            files: 3,
            bytes: 1 << 40,
            file_system: 2049,
        };
        let request = QueuedRequest {
            scan: "s".into(),
            destination: "correlator".into(),
            parts: vec![part],
            not_before: UnixMillis(5),
            rate_bits: Some(7),
            priority: -3,
            hours: Some(DayWindow { from_minute: 1320, to_minute: 360 }),
            schedule: Some("n26c3_mh".into()),
            encrypt: true,
        };
        let status = QueuedStatus {
            copy: QueuedId(9),
            request,
            state: QueuedState::BackingOff,
            attempts: 4,
            failures: 2,
            failing_since: Some(UnixMillis(11)),
            due_at: UnixMillis(12),
            there_bytes: 13,
            fingerprint: Some("ab12".into()),
            is_unnoted: true,
            data_encrypted: Some(true),
            reason: Some("reset".into()),
            requested_at: UnixMillis(1),
            ..QueuedStatus::default()
        };
        let text =
            serde_json::to_vec(&KeptQueue::new(3, QueuedId(10), std::slice::from_ref(&status))).unwrap();
        let kept: KeptQueue = serde_json::from_slice(&text).unwrap();
        assert_eq!(kept.request(), QueueRequest::Restore { last: 10, copies: vec![status] });
    }
    #[test]
    fn a_queue_of_an_earlier_version_is_read() {
        let text = r#"{"version":3,"last":4,"copies":[{"copy":4,"scan":"s","destination":"c","parts":[],"not_before":0,
            "rate_bits":null,"state":"waiting","attempts":0,"failures":0,"failing_since":null,"due_at":0,"there_bytes":0,
            "reason":null,"requested_at":0,"ended_at":null}]}"#;
        let kept: KeptQueue = serde_json::from_str(text).unwrap();
        let QueueRequest::Restore { last: 4, copies } = kept.request() else { panic!() };
        assert_eq!(
            (copies[0].request.priority, copies[0].request.hours, copies[0].is_unnoted),
            (0, None, false)
        );
    }
}
