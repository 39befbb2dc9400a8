//! Step 6: send a recording as it is, paced by the times of its frames.
//!
//! Without a rate of its own, a [`Sender`] sends recorded frames at the intervals at which they were sampled. What a receiver
//! gets is the recording, byte for byte; frames that are not in it are lost to the receiver as well.

use skyhaul::io::memory::{Pool, PoolOptions};
use skyhaul::receive::{Collector, Receiver, ReceiverOptions};
use skyhaul::recording::{ReadOptions, Recording};
use skyhaul::send::{RecordedOptions, RecordingSupply, Sender, SenderOptions, Stop};
use std::error::Error;
use std::fs;
use std::io::Read;
use std::time::Duration;

#[path = "step02_record.rs"]
#[expect(dead_code, reason = "its own main function")]
mod step02_record;
use step02_record::{SCAN, disks, record, telescope};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disks = disks(directory.path())?;
    record(&disks)?;

    // A receiver that writes what it gets to a file.
    let copy = directory.path().join("copy.vdif");
    let pool = Pool::new(&PoolOptions::with_total(16 << 20))?;
    let options =
        ReceiverOptions { listen: vec!["udp://127.0.0.1:0".parse()?], ..ReceiverOptions::default() };
    let receiver = Receiver::open(options, pool)?;
    let to = receiver.addresses().next().ok_or("no address")?.parse()?;
    let collector = Collector::start(Some(Box::new(fs::File::create(&copy)?)), false)?;
    let running = receiver.start(|_thread| collector.sink())?;

    let recording = Recording::open(disks, SCAN)?;
    let about = recording.about(0).ok_or("a datastream that nothing is known of")?;
    let reader = recording.reader(0, &ReadOptions::default())?;
    let options = RecordedOptions { max_wait: Some(Duration::from_secs(1)), ..RecordedOptions::of(&about) };
    let supply = RecordingSupply::frames(reader, options, about.name)?;
    let sent = Sender::open(SenderOptions::new(to), Box::new(supply))?.run(&Stop::default());
    println!("{} frames sent", sent.packets);
    assert_eq!(sent.error, None);
    assert!(sent.times.is_some_and(|times| times.own_pace));

    telescope::wait_for(&running, sent.bytes);
    let _ = running.finish();
    let collected = collector.finish();
    let mut recorded = Vec::new();
    recording.reader(0, &ReadOptions::default())?.read_to_end(&mut recorded)?;
    println!("{} bytes received", collected.bytes);
    assert!(fs::read(copy)? == recorded, "not a byte differs");
    Ok(())
}
