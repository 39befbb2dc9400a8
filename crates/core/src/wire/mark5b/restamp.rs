//! Mark 5B frames of a file, each with its time in each loop.

use super::{FRAME, Mark5b, frames_per_second};
use crate::{
    placement::Reject,
    wire::restamp::{Frame, RestampError, Restamper, Stamped, Stamps},
};

/// The headers as they are in the file.
#[derive(Debug)]
struct Headers(Vec<Mark5b>);

/// Reads all headers of `file`.
pub(crate) fn file(file: &[u8], fps: Option<u32>) -> Result<Restamper, RestampError> {
    let mut frames = Vec::new();
    let mut headers = Vec::new();
    for (number, frame) in file.chunks(FRAME).enumerate() {
        let at = number * FRAME;
        let broken = |reason| RestampError::Broken { at, reason };
        let (header, _) = Mark5b::read(frame).ok_or(broken(Reject::Truncated))?;
        header.time().map_err(broken)?;
        if frame.len() < FRAME {
            return Err(broken(Reject::Truncated));
        }
        frames.push(Frame { payload: at + Mark5b::LEN..at + FRAME, number: number as u32 });
        headers.push(header);
    }
    let first = headers.first().ok_or(RestampError::Empty)?;
    let fps = fps.or_else(|| frames_per_second(&headers)).ok_or(RestampError::RateUnknown)?;
    if fps == 0 || fps > 1 << 16 {
        return Err(RestampError::BadRate);
    }
    let time = first.time().map_err(|reason| RestampError::Broken { at: 0, reason })?;
    let second = u64::from(time.day) * 86_400 + u64::from(time.second);
    let frame = if fps <= 1 << 15 { time.frame & 0x7FFF } else { time.frame };
    let length = frames.len() as u64;
    Ok(Restamper::new(frames, fps, length, (second, frame), Box::new(Headers(headers))))
}

impl Stamps for Headers {
    fn starting_at(&mut self, unix_seconds: i64) -> Option<u64> {
        let day = (unix_seconds.div_euclid(86_400) + 40_587).rem_euclid(1000);
        Some((day * 86_400 + unix_seconds.rem_euclid(86_400)) as u64)
    }

    fn header(&self, index: usize, at: &Stamped) -> Option<([u8; 32], usize)> {
        let header = *self.0.get(index)?;
        let own = header.time().map_or(0, |time| i64::from(time.day) * 86_400 + i64::from(time.second));
        let mut octets = [0; 32];
        let moved = header.moved(at.second as i64 - own, at.frame, Some(at.fps));
        octets[..Mark5b::LEN].copy_from_slice(&moved.write());
        Some((octets, Mark5b::LEN))
    }
}
