//! The highest rate at which nothing is lost.

use super::figures::Ran;
use skyhaul::stop::StopFlag;
use std::io;

/// Run `one` at a rate until the highest without loss is found; its figures at that rate.
pub(super) fn search(stop: &StopFlag, mut one: impl FnMut(u64) -> io::Result<Ran>) -> io::Result<Ran> {
    let mut one =
        |rate| stop.unless_set(one(rate))?.ok_or_else(|| io::Error::from(io::ErrorKind::Interrupted));
    const LEAST: f64 = 0.5e9;
    let whole = |ran: &Ran, rate: f64| ran.run.lost == 0 && ran.run.bits_per_second > 0.97 * rate;
    let (mut low, mut high) = (LEAST, 90e9);
    for _ in 0..8 {
        let middle = f64::midpoint(low, high);
        if whole(&one(middle as u64)?, middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    loop {
        let mut confirmed = Vec::new();
        for _ in 0..3 {
            let ran = one(low as u64)?;
            let held = whole(&ran, low);
            confirmed.push(ran);
            if !held {
                break;
            }
        }
        let held = confirmed.len() == 3 && confirmed.iter().all(|ran| whole(ran, low));
        if let Some(last) = confirmed.pop()
            && (held || low <= LEAST)
        {
            return Ok(last);
        }
        low = (low * 0.95).max(LEAST);
    }
}
