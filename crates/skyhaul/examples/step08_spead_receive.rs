//! Step 8: receive SPEAD heaps into your own memory.
//!
//! A rule says where each heap belongs: in which chunk, and where in it. Payload is copied once, from the packet to its place in
//! your array. Here a chunk is a spectrum of four sub-bands, one heap for each.

use skyhaul::io::udp::UdpOptions;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::spead::receive::chunk::{Chunk, ChunkConfig, ChunkRule, ChunkStream};
use skyhaul::spead::receive::{GetError, StreamConfig};
use skyhaul::spead::send::{Heap, HeapOptions, Outlet, SendConfig, Stream};
use skyhaul::wire::spead::Flavour;
use std::error::Error;
use std::time::Duration;

const TIME: u64 = 0x1600;
const BAND: u64 = 0x4103;
const BANDS: u64 = 4;
const BAND_BYTES: u64 = 1024;

/// Five spectra, in which band 2 of spectrum 3 is missing.
fn send(to: &str) -> Result<(), Box<dyn Error>> {
    let sender = Stream::new(Outlet::udp(&[to.parse()?], &SendOptions::default())?, SendConfig::default())?;
    let flavour = Flavour::new(48).ok_or("no such flavour")?;
    let parts = (0..5).flat_map(|time| (0..BANDS).map(move |band| (time, band)));
    for (time, band) in parts.filter(|&part| part != (3, 2)) {
        let mut heap = Heap::new(flavour);
        heap.add_item(0x1000, vec![(10 * time + band) as u8; BAND_BYTES as usize])?;
        heap.add_immediate(TIME, time)?;
        heap.add_immediate(BAND, band)?;
        // In every packet, because any may be the first to arrive.
        heap.set_repeat_pointers(true);
        sender.send(&heap, &HeapOptions::default())?;
    }
    let mut end = Heap::new(flavour);
    end.add_end();
    sender.send(&end, &HeapOptions::default())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rule = ChunkRule::declared("item(0x1600)", "item(0x4103)", "item(0x4103) * 1024")?;
    let receiver = ChunkStream::new(&StreamConfig::default(), &ChunkConfig::new(rule));
    for _ in 0..4 {
        receiver.add_free(Chunk::new(vec![0u8; (BANDS * BAND_BYTES) as usize], BANDS as usize, 0));
    }
    let address = receiver.add_udp(&"udp://127.0.0.1:0".parse()?, &UdpOptions::default())?;
    send(&format!("udp://{address}"))?;

    let mut spectra = 0;
    loop {
        let chunk = match receiver.get(Some(Duration::from_secs(10))) {
            Ok(chunk) => chunk,
            Err(GetError::Stopped) => break,
            Err(error) => return Err(error.into()),
        };
        println!("spectrum {}: bands present {:?}", chunk.id, chunk.present);
        let bytes = chunk.data.bytes().ok_or("shared memory")?;
        for (band, bytes) in
            bytes.chunks(BAND_BYTES as usize).enumerate().filter(|(band, _)| chunk.present[*band] == 1)
        {
            assert!(bytes.iter().all(|&byte| u64::from(byte) == 10 * chunk.id + band as u64));
        }
        spectra += 1;
        // The memory is used again.
        receiver.add_free(chunk);
    }
    assert_eq!(spectra, 5);
    Ok(())
}
