//! VDIF frames of a file, each with its time in each loop.

use super::{Header, Vdif, frames};
use crate::wire::restamp::{Frame, RestampError, Restamper, Stamped, Stamps};
use std::collections::BTreeMap;

/// The headers as they are in the file.
#[derive(Debug)]
struct Headers {
    headers: Vec<Header>,
    epoch: u32,
}

/// Reads all headers of `file`.
pub(super) fn file(file: &[u8], fps: Option<u32>) -> Result<Restamper, RestampError> {
    let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
    let (mut all, mut headers) = (Vec::new(), Vec::new());
    let mut start: Option<Vdif> = None;
    let mut told = None;
    let mut before: BTreeMap<u32, Vdif> = BTreeMap::new();
    for found in frames(file) {
        let (at, header) = found.map_err(|(at, reason)| RestampError::Broken { at, reason })?;
        let vdif = header.vdif;
        let count = counts.entry(vdif.thread).or_default();
        // Threads with a wrong clock are far behind, so the latest start is the right one.
        if *count == 0 && start.is_none_or(|s| s.seconds_since_2000() < vdif.seconds_since_2000()) {
            start = Some(vdif);
        }
        if let Some(last) = before.insert(vdif.thread, vdif)
            && (last.seconds + 1, 0) == (vdif.seconds, vdif.frame)
        {
            told = told.or(Some(last.frame + 1));
        }
        let payload = at + vdif.header_bytes()..at + vdif.frame_bytes();
        all.push(Frame { payload, number: *count });
        headers.push(header);
        *count += 1;
    }
    let start = start.ok_or(RestampError::Empty)?;
    let first =
        headers.first().and_then(|header| header.frames_per_second().filter(|&fps| fps > start.frame));
    let fps = fps.or(first).or(told).ok_or(RestampError::RateUnknown)?;
    if fps == 0 || fps > 1 << 24 {
        return Err(RestampError::BadRate);
    }
    let length = counts.values().copied().max().map_or(1, u64::from);
    let stamps = Headers { headers, epoch: start.epoch };
    Ok(Restamper::new(all, fps, length, (u64::from(start.seconds), start.frame), Box::new(stamps)))
}

impl Stamps for Headers {
    fn starting_at(&mut self, unix_seconds: i64) -> Option<u64> {
        let vdif = Vdif::default().at(unix_seconds, 0)?;
        self.epoch = vdif.epoch;
        Some(u64::from(vdif.seconds))
    }

    fn header(&self, index: usize, at: &Stamped) -> Option<([u8; 32], usize)> {
        let mut header = *self.headers.get(index)?;
        header.vdif.epoch = self.epoch;
        Some(header.moved(at.packets, at.second as u32, at.frame, Some(at.fps)).write())
    }
}
