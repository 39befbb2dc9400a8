//! Uploads that become recordings: under `/recordings/`, where the operator allows it.
//!
//! ```text
//!   PUT /recordings/n26c3_mh_no0001 ─▶ is the name free? ─▶ frames into chunks, hidden ─▶ length, digests as stated? ─▶ its name, 201
//! ```
//!
//! [`Intake`] has the rules for frames. A recording is not replaced: what exists is answered with 409. A file that is not made of valid frames
//! is 422, and nothing of it stays.

use super::conditions::{self, Outcome, Version};
use crate::remote::digests::{Algorithm, DigestSet, Digester};
use crate::remote::failure::Failure;
use crate::served::recordings::{RecordingFile, Recordings};
use axum::http::HeaderMap;
use skyhaul::recording::{Intake, IntakeError, IntakeSite};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a scan is put.
#[derive(Clone)]
pub(super) struct ScanPlace {
    pub(super) all: Arc<Recordings>,
    pub(super) site: Arc<IntakeSite>,
    pub(super) name: String,
}

impl ScanPlace {
    /// The recording of this name, if there is one.
    fn now(&self) -> Result<Option<RecordingFile>, Failure> {
        match self.all.find(&self.name) {
            Ok(file) => Ok(Some(file)),
            Err(failure) if failure.is_not_found() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Whether a scan may be put there now.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let now = self.now()?;
        let version = now.as_ref().map(|file| Version { etag: &file.etag, modified: file.modified });
        if conditions::check(headers, version, true) != Outcome::GoOn {
            return Err(Failure::new(412, "Precondition failed"));
        }
        // Also one that is being recorded, which is no file.
        self.site.check_name(&self.name).map_err(|error| failure(&error))
    }

    /// Begins a scan, of this size if it is known.
    pub(super) fn begin(
        &self,
        size: Option<u64>,
        algorithms: impl IntoIterator<Item = Algorithm>,
    ) -> Result<ScanUpload, Failure> {
        let intake = self.site.begin(&self.name, size).map_err(|error| failure(&error))?;
        Ok(ScanUpload { intake: Some(intake), digester: Some(Digester::new(algorithms)) })
    }
}

/// A scan that arrives. It leaves nothing when this is dropped, unless it has its name by then.
#[derive(Debug)]
pub(super) struct ScanUpload {
    intake: Option<Intake>,
    digester: Option<Digester>,
}

impl ScanUpload {
    /// Bytes that follow those before.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(digester) = &mut self.digester {
            digester.update(bytes);
        }
        let intake = self.intake.as_mut().ok_or_else(ended)?;
        intake.write(bytes).map_err(|error| failure(&error))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.intake.as_ref().map_or(0, Intake::bytes)
    }

    /// The digests of all that was written; once.
    pub(super) fn digests(&mut self) -> DigestSet {
        self.digester.take().map(Digester::finish).unwrap_or_default()
    }

    /// Makes the scan durable and gives it its name, if `stop` is not set by then; returns its entity tag.
    pub(super) fn publish(
        mut self,
        to: &ScanPlace,
        digests: &DigestSet,
        stop: &AtomicBool,
    ) -> Result<Option<String>, Failure> {
        let arrived = self.intake.take().ok_or_else(ended)?.finish().map_err(|error| failure(&error))?;
        // What the index says of the chunks on the disk is what the client sent.
        let crc32c = digests.get(Algorithm::Crc32c);
        if crc32c.is_some_and(|value| value != arrived.crc32c().to_be_bytes()) {
            return Err(Failure::new(500, "Input/output error: other bytes are on the disk than arrived"));
        }
        // Who asked for it may be gone, and expects no recording: syncing takes its time.
        if stop.load(Ordering::Relaxed) {
            return Err(Failure::busy("interrupted"));
        }
        arrived.publish().map_err(|error| failure(&error))?;
        // It is there, whether it can be looked at now or not.
        let Ok(Some(file)) = to.now() else { return Ok(None) };
        to.all.keep_digests(&file, digests);
        Ok(Some(file.etag))
    }
}

impl Drop for ScanUpload {
    fn drop(&mut self) {
        // To remove it takes time, and this may be a thread of the connections.
        if let Some(intake) = self.intake.take() {
            let undo = std::thread::Builder::new().name("undo-upload".into());
            // What stays is removed at the next start.
            let _ = undo.spawn(move || drop(intake));
        }
    }
}

fn ended() -> Failure {
    Failure::new(500, "the upload has ended")
}

/// Why a scan is not taken in, as clients understand it.
fn failure(error: &IntakeError) -> Failure {
    match error {
        IntakeError::Label(_) => Failure::new(403, format_args!("Permission denied: {error}")),
        IntakeError::Exists(_) => Failure::new(409, error),
        IntakeError::NotFrames(_) => Failure::new(422, format_args!("Invalid argument: {error}")),
        _ if error.is_full() => Failure::no_space(error),
        IntakeError::Silent(_) => Failure::busy(error),
        IntakeError::Disk(error) => Failure::of(error),
        IntakeError::Begin(_) | IntakeError::Full { .. } => Failure::new(500, error),
    }
}
