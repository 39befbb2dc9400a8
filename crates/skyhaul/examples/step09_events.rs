//! Step 9: EJFAT events.
//!
//! An event is what one source (a data id) sends for one tick. [`EventSender`] divides it into packets, for a load balancer or
//! for a receiver directly. A [`Receiver`] puts it together again, from any of its ports, and hands it to an [`ObjectSink`].

use skyhaul::io::memory::{Pool, PoolOptions};
use skyhaul::receive::{Nowhere, ObjectOptions, ObjectSink, Received, Receiver, ReceiverOptions};
use skyhaul::send::events::{Event, EventSender, EventSenderOptions, Target};
use skyhaul::wire::LearnOptions;
use std::error::Error;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const EVENT_BYTES: usize = 20_000;

/// Passes on tick, source and size of each event.
struct Summary(Sender<(u64, u16, usize)>);

impl ObjectSink for Summary {
    fn object(&mut self, event: &Received<'_>) -> io::Result<()> {
        assert!(event.complete, "lacks {:?}", event.missing);
        // The payload is released when this returns.
        assert!(event.payload.iter().all(|&byte| u64::from(byte) == event.number));
        self.0.send((event.number, event.source, event.payload.len())).map_err(io::Error::other)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = ReceiverOptions {
        listen: vec!["udp://127.0.0.1:0".parse()?],
        learn: LearnOptions { format: "ejfat".parse()?, ..LearnOptions::default() },
        objects: Some(ObjectOptions::default()),
        ..ReceiverOptions::default()
    };
    let receiver = Receiver::open(options, Pool::new(&PoolOptions::with_total(16 << 20))?)?;
    let address = receiver.addresses().next().ok_or("no address")?.to_owned();
    let (to_us, events) = channel();
    let running = receiver.start_with(|_thread| Box::new(Nowhere), Box::new(Summary(to_us)))?;

    let sender = EventSender::open(&Target::read(&address, false)?, EventSenderOptions::default())?;
    for tick in 1..=3u64 {
        for data_id in [7, 8] {
            sender.send(&Event::from(data_id, vec![tick as u8; EVENT_BYTES]), Some(tick))?;
        }
    }

    let mut complete = Vec::new();
    while complete.len() < 6 {
        complete.push(events.recv_timeout(Duration::from_secs(10))?);
    }
    complete.sort_unstable();
    let report = running.finish();
    println!("{} events complete: {complete:?}", report.objects["events"].complete);
    assert_eq!(report.objects["events"].complete, 6);
    assert_eq!(complete[0], (1, 7, EVENT_BYTES));
    Ok(())
}
