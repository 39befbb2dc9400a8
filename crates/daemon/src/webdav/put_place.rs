//! Where PUT and pulls put what arrives: a file of a root, or a recording.

use super::place::Place;
use super::scans::{ScanPlace, ScanUpload};
use crate::remote::digests::{Algorithm, DigestSet};
use crate::remote::failure::{Failure, scope_failure};
use crate::remote::unfinished::UploadKey;
use crate::served::roots::{Upload, etag};
use axum::http::{HeaderMap, StatusCode};
use std::io;
use std::sync::atomic::AtomicBool;

/// Where something is put.
#[derive(Clone)]
pub(super) enum PutPlace {
    File(Place),
    Scan(ScanPlace),
}

impl PutPlace {
    /// Whether something may be put there now.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), Failure> {
        match self {
            Self::File(place) => place.check_file(headers),
            Self::Scan(scan) => scan.check(headers),
        }
    }

    /// Whether something is there. No recording is, once it was [checked](Self::check).
    pub(super) fn is_taken(&self) -> Result<bool, Failure> {
        match self {
            Self::File(place) => Ok(place.status()?.is_some()),
            Self::Scan(_) => Ok(false),
        }
    }

    /// Continues a file of this size, or begins it; more digests of it than the usual ones are computed.
    ///
    /// # Errors
    /// As [`begin`](Self::begin); or what is to be continued is not there.
    pub(super) fn continued(
        &self,
        headers: &HeaderMap,
        size: Option<u64>,
        (more, how): (&[Algorithm], &Continuation),
    ) -> Result<PutUpload, Failure> {
        self.check(headers)?;
        // Others cannot go on from their values.
        let is_summed = more.iter().all(|algorithm| Algorithm::ALWAYS.contains(algorithm));
        if let Self::File(place) = self
            && is_summed
        {
            let upload = place.root.continued((&place.path, &how.key), (how.from, size));
            if let Some(upload) = upload.map_err(|error| Failure::of(&error))? {
                return Ok(PutUpload::File(upload));
            }
        }
        match how.from {
            0 => self.begin(headers, size, more),
            _ => Err(Failure::busy("the upload that is continued is not here, or not so long")),
        }
    }

    /// Begins something of this size, if it is known; more digests of it than the usual ones are computed.
    pub(super) fn begin(
        &self,
        headers: &HeaderMap,
        size: Option<u64>,
        more: &[Algorithm],
    ) -> Result<PutUpload, Failure> {
        self.check(headers)?;
        let algorithms = Algorithm::ALWAYS.into_iter().chain(more.iter().copied());
        match self {
            Self::File(place) => {
                let upload = place.root.upload(size, algorithms).map_err(|error| Failure::of(&error))?;
                Ok(PutUpload::File(upload))
            }
            Self::Scan(scan) => scan.begin(size, algorithms).map(PutUpload::Scan),
        }
    }
}

/// A key by which an upload may be continued, and where it begins now.
#[derive(Clone, Debug)]
pub(super) struct Continuation {
    pub(super) key: UploadKey,
    pub(super) from: u64,
}

/// Something that arrives.
#[derive(Debug)]
pub(super) enum PutUpload {
    File(Upload),
    Scan(ScanUpload),
}

impl PutUpload {
    /// Bytes that follow those before.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::File(upload) => upload.write(bytes).map_err(|error| Failure::of(&error)),
            Self::Scan(upload) => upload.write(bytes),
        }
    }

    /// All of it has arrived: if it does not get its name, nothing stays of it.
    pub(super) fn leave_nothing(&mut self) {
        if let Self::File(upload) = self {
            upload.leave_nothing();
        }
    }

    /// Its length so far.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::File(upload) => upload.bytes,
            Self::Scan(upload) => upload.bytes(),
        }
    }

    /// The digests of all that was written; once.
    pub(super) fn digests(&mut self) -> DigestSet {
        match self {
            Self::File(upload) => upload.digests(),
            Self::Scan(upload) => upload.digests(),
        }
    }

    /// Gives it its name; returns its entity tag, if that is known, and the status of the reply.
    pub(super) fn publish(
        self,
        place: &PutPlace,
        digests: &DigestSet,
        replace: bool,
        stop: &AtomicBool,
    ) -> Result<(StatusCode, Option<String>), Failure> {
        match (self, place) {
            (Self::File(upload), PutPlace::File(place)) => {
                let (code, etag) = publish_file(upload, place, digests, (replace, stop))?;
                Ok((code, Some(etag)))
            }
            (Self::Scan(upload), PutPlace::Scan(scan)) => {
                Ok((StatusCode::CREATED, upload.publish(scan, digests, stop)?))
            }
            _ => Err(Failure::new(500, "a bug in this program: it arrived for another place")),
        }
    }
}

fn publish_file(
    upload: Upload,
    place: &Place,
    digests: &DigestSet,
    (replace, stop): (bool, &AtomicBool),
) -> Result<(StatusCode, String), Failure> {
    place.make_parent()?;
    let existed = place.status()?.is_some();
    let published = upload.publish(&place.path, replace && place.can_replace, digests, stop);
    let status = published.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists if replace => scope_failure("replace what exists"),
        io::ErrorKind::AlreadyExists => Failure::new(412, "File exists"),
        _ => Failure::of(&error),
    })?;
    Ok((place.put_status(existed), etag(&status)))
}
