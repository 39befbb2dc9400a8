//! Step 11: a sink of your own.
//!
//! A [`Sink`] gets each finished part of a stream once, in stream order, with a list of what is missing. It is called on the
//! receiving thread and must not block, so this one passes parts to another thread, which counts how often each of the four
//! states of a 2-bit sample occurs.

use skyhaul::io::memory::{Pool, PoolOptions};
use skyhaul::receive::{Receiver, ReceiverOptions, Sink, StreamInfo, StreamPart};
use skyhaul::wire::LearnOptions;
use std::error::Error;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

#[path = "tutorial/telescope.rs"]
mod telescope;

struct ToThread(Sender<(Arc<StreamInfo>, StreamPart)>);

impl Sink for ToThread {
    fn stream_began(&mut self, stream: &Arc<StreamInfo>) {
        println!("stream {}: {}", stream.id, stream.format.describe());
    }

    fn part(&mut self, stream: &Arc<StreamInfo>, part: StreamPart) {
        // The part owns its memory, which returns to the pool when the part is dropped.
        let _ = self.0.send((stream.clone(), part));
    }
}

/// Adds the samples of the frames that arrived.
fn count(stream: &StreamInfo, part: &StreamPart, states: &mut [u64; 4]) {
    let frames = part.block[part.range.clone()].chunks(stream.unit_bytes as usize);
    for (_, frame) in (0..).zip(frames).filter(|(n, _)| !part.missing.iter().any(|gap| gap.contains(n))) {
        for byte in &frame[stream.format.header_bytes..] {
            (0..4).for_each(|sample| states[usize::from(byte >> (2 * sample) & 3)] += 1);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = ReceiverOptions {
        listen: vec!["udp://127.0.0.1:0".parse()?],
        // Parts of at most 16 KiB.
        learn: LearnOptions { object_bytes: 16 << 10, ..LearnOptions::default() },
        ..ReceiverOptions::default()
    };
    let receiver = Receiver::open(options, Pool::new(&PoolOptions::with_total(16 << 20))?)?;
    let address = receiver.addresses().next().ok_or("no address")?.to_owned();
    let (to_thread, parts) = channel();
    let running = receiver.start(|_thread| Box::new(ToThread(to_thread.clone())))?;
    let counting = thread::spawn(move || {
        let (mut number, mut states) = (0, [0; 4]);
        for (stream, part) in parts {
            count(&stream, &part, &mut states);
            number += 1;
        }
        (number, states)
    });

    let sent = telescope::send(&address, 160, "loss=0.05,seed=7")?;
    telescope::wait_for(&running, sent.bytes);
    let report = running.finish();
    // The last sender: the thread ends.
    drop(to_thread);
    let (number, states) = counting.join().map_err(|_| "the counting thread panicked")?;
    println!("{number} parts, states {states:?}");

    assert_eq!(report.placed(), sent.packets);
    assert_eq!(states.iter().sum::<u64>(), 4000 * sent.packets);
    Ok(())
}
