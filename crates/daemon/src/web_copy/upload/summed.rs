//! Digests of a file that is sent, and which of its bytes a server has already.

use super::{Opened, Upload};
use crate::remote::digests::{Algorithm, DigestSet, Digester};
use crate::remote::failure::plain;
use crate::remote::put::Continued;
use crate::remote::unfinished::Received;
use skyhaul_transfer::copy::FetchError;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

impl Upload<'_> {
    /// Digests of the file, read now.
    pub(super) fn sum(
        &self,
        open: &Opened,
        algorithms: Vec<Algorithm>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<DigestSet, FetchError> {
        self.sum_of((open, 0..open.status.size), algorithms, is_over)
    }

    fn sum_of(
        &self,
        (open, range): (&Opened, Range<u64>),
        algorithms: Vec<Algorithm>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<DigestSet, FetchError> {
        let (mut reader, never) = (self.reader(open, range), AtomicBool::new(false));
        let mut digester = Digester::new(algorithms);
        while let Some(bytes) =
            reader.next_waiting(&never).map_err(|error| FetchError::Final(plain(&error)))?
        {
            digester.update(&bytes);
            if is_over() {
                return Err(FetchError::Over);
            }
        }
        Ok(digester.finish())
    }

    /// Where a server that has part of the file continues: behind the bytes that are the same here. `None`: it does not continue uploads.
    pub(super) fn continued(
        &self,
        open: &Opened,
        received: Option<Received>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<Continued>, FetchError> {
        let (Some(mut there), Some(key)) = (received, open.key()) else { return Ok(None) };
        let is_part = (1..open.status.size).contains(&there.bytes);
        if !is_part
            || self.sum_of((open, 0..there.bytes), Algorithm::ALWAYS.into(), is_over)? != there.digests
        {
            there = Received::default();
        }
        Ok(Some(Continued { key, there }))
    }
}
