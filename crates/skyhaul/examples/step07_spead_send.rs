//! Step 7: send SPEAD heaps, and receive them.
//!
//! A heap is a set of items. Descriptors give names, shapes and types, so that a receiver needs no prior knowledge. Items are
//! sent from where they lie: an [`Arc`] is shared with the sender, not copied.

use skyhaul::io::udp::UdpOptions;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::spead::receive::{self, GetError, StreamConfig};
use skyhaul::spead::send::{Heap, HeapOptions, Outlet, SendConfig, Stream};
use skyhaul::wire::spead::{BugCompat, Descriptor, Flavour};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

const POWER: u64 = 0x1000;
const TIME: u64 = 0x1001;

fn main() -> Result<(), Box<dyn Error>> {
    let receiver = receive::Stream::new(&StreamConfig::default());
    let address = receiver.add_udp(&"udp://127.0.0.1:0".parse()?, &UdpOptions::default())?;

    let outlet = Outlet::udp(&[format!("udp://{address}").parse()?], &SendOptions::default())?;
    let sender = Stream::new(outlet, SendConfig { rate: 100_000_000, ..SendConfig::default() })?;
    let flavour = Flavour::new(48).ok_or("no such flavour")?;
    for second in 0..3u8 {
        let mut heap = Heap::new(flavour);
        if second == 0 {
            let power = Descriptor {
                id: POWER,
                name: "power".into(),
                description: "per channel, in Jy".into(),
                shape: vec![Some(1024)],
                format: vec![('u', 8)],
                numpy: None,
            };
            heap.add_descriptor(&power, BugCompat::default())?;
        }
        heap.add_item(POWER, Arc::new(vec![second; 1024]))?;
        heap.add_immediate(TIME, 1_795_000_000 + u64::from(second))?;
        sender.send(&heap, &HeapOptions::default())?;
    }
    let mut end = Heap::new(flavour);
    end.add_end();
    sender.send(&end, &HeapOptions::default())?;

    let mut heaps = 0;
    loop {
        // Waits until a heap is complete; the stop item ends the stream.
        let heap = match receiver.get(Some(Duration::from_secs(10))) {
            Ok(heap) => heap,
            Err(GetError::Stopped) => break,
            Err(error) => return Err(error.into()),
        };
        for descriptor in heap.descriptors(BugCompat::default()) {
            println!("described: {}", descriptor?.name);
        }
        let items = heap.items();
        let power = items.iter().find(|item| item.id == POWER).ok_or("no power")?;
        let power = heap.item_bytes(power);
        println!("heap {} of {:?}: {:?}", heap.number, heap.immediate(TIME), &power[..2]);
        assert!(heap.complete && power.len() == 1024);
        heaps += 1;
    }
    assert_eq!(heaps, 3);
    Ok(())
}
