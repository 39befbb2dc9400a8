//! Stands in for a telescope: VDIF frames of 2-bit noise with a weak tone, 1000 frames a second.
//!
//! The first steps of the tutorial need something to receive. They send few packets, which fit into the buffer of a socket, so
//! that nothing is lost on a busy machine.

use skyhaul::receive::Running;
use skyhaul::send::{SendReport, Sender, SenderOptions, Sequence, Stop, SynthOptions, SynthSupply};
use skyhaul::wire::SynthPayload;
use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

/// Send `frames` frames to `to`, through a network with these faults.
pub(crate) fn send(to: &str, frames: u64, faults: &str) -> Result<SendReport, Box<dyn Error>> {
    let noise = SynthSupply::new(SynthOptions {
        payload: 1000,
        threads: 1,
        frames_per_second: 1000,
        start: 1_795_000_000,
        station: "Aa".into(),
        payloads: SynthPayload::Noise,
        sequence: Sequence { order: None, first: 0 },
        packets: Some(frames),
    })?;
    let options = SenderOptions { faults: Some(faults.parse()?), ..SenderOptions::new(to.parse()?) };
    let report = Sender::open(options, Box::new(noise))?.run(&Stop::default());
    match &report.error {
        Some(error) => Err(error.clone().into()),
        None => Ok(report),
    }
}

/// Wait until `receiver` has received so many bytes, or nothing for five seconds.
pub(crate) fn wait_for(receiver: &Running, bytes: u64) {
    while receiver.bytes() < bytes && receiver.idle() < Duration::from_secs(5) {
        sleep(Duration::from_millis(10));
    }
}
