//! Step 10: forward frames while receiving them.
//!
//! A receiver, and so a recorder, sends what it receives on to any number of hosts, as it arrives and without a copy. A
//! destination that is too slow loses frames, which are counted; the receiver loses none.

use skyhaul::io::memory::{Pool, PoolOptions};
use skyhaul::receive::{Nowhere, Receiver, ReceiverOptions, Running};
use std::error::Error;

#[path = "tutorial/telescope.rs"]
mod telescope;

/// A running receiver that forwards to `forward`, and its address.
fn receiver(forward: &[&str]) -> Result<(Running, String), Box<dyn Error>> {
    let options = ReceiverOptions {
        listen: vec!["udp://127.0.0.1:0".parse()?],
        forward: forward.iter().map(|to| to.parse()).collect::<Result<_, _>>()?,
        ..ReceiverOptions::default()
    };
    let receiver = Receiver::open(options, Pool::new(&PoolOptions::with_total(16 << 20))?)?;
    let address = receiver.addresses().next().ok_or("no address")?.to_owned();
    Ok((receiver.start(|_thread| Box::new(Nowhere))?, address))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (correlator, to_correlator) = receiver(&[])?;
    let (station, to_station) = receiver(&[&to_correlator])?;
    let sent = telescope::send(&to_station, 160, "")?;

    telescope::wait_for(&station, sent.bytes);
    let station = station.finish();
    telescope::wait_for(&correlator, sent.bytes);
    let correlator = correlator.finish();
    let target = &station.forward[0];
    println!("station: {} frames placed, {} forwarded", station.placed(), target.frames);
    println!("correlator: {} frames placed", correlator.placed());

    assert_eq!((target.dropped_queue, target.dropped_refused), (0, 0));
    assert_eq!((station.placed(), correlator.placed()), (160, 160));
    Ok(())
}
