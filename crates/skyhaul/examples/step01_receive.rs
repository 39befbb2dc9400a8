//! Step 1: receive frames from a network port, and read the report.
//!
//! A [`Receiver`] has a thread for each socket. It learns the format of each sender from its packets, puts the frames in their
//! order, and hands finished parts to a sink: here to one that discards them.

use skyhaul::io::memory::{Pool, PoolOptions};
use skyhaul::receive::{Nowhere, Receiver, ReceiverOptions};
use std::error::Error;

#[path = "tutorial/telescope.rs"]
mod telescope;

fn main() -> Result<(), Box<dyn Error>> {
    // All memory for packets: fixed at the start.
    let pool = Pool::new(&PoolOptions::with_total(16 << 20))?;
    let options =
        ReceiverOptions { listen: vec!["udp://127.0.0.1:0".parse()?], ..ReceiverOptions::default() };
    let receiver = Receiver::open(options, pool)?;
    let address = receiver.addresses().next().ok_or("no address")?.to_owned();
    let running = receiver.start(|_thread| Box::new(Nowhere))?;

    let sent = telescope::send(&address, 160, "loss=0.05,seed=7")?;
    telescope::wait_for(&running, sent.bytes);

    let report = running.finish();
    let stream = &report.streams[0];
    println!("{}", stream.format);
    println!("{} frames placed, {} lost, first time {:?}", stream.placed, stream.lost, stream.first_time);

    assert_eq!((stream.placed, stream.lost), (sent.packets, sent.lost));
    assert!(report.errors.is_empty() && report.unbalanced.is_empty());
    Ok(())
}
