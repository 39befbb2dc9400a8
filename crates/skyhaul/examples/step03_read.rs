//! Step 3: read a recording back, frame by frame.
//!
//! A [`Reader`](skyhaul::recording::Reader) gives the chunks of all disks in their order, each only once its checksum is
//! verified. It implements [`Read`].

use skyhaul::frames::FramesOf;
use skyhaul::recording::{ReadOptions, Recording};
use std::error::Error;
use std::io::Read;

#[path = "step02_record.rs"]
#[expect(dead_code, reason = "its own main function")]
mod step02_record;
use step02_record::{SCAN, disks, record};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disks = disks(directory.path())?;
    record(&disks)?;

    let recording = Recording::open(disks, SCAN)?;
    let about = recording.about(0).ok_or("a datastream that nothing is known of")?;
    let headers = FramesOf::datastream(&about, false).ok_or("frames without times")?;
    let mut reader = recording.reader(0, &ReadOptions::default())?;
    let mut frame = vec![0; about.info.unit_bytes as usize];
    let (mut frames, mut invalid, mut last) = (0, 0, None);
    while reader.read_exact(&mut frame).is_ok() {
        let seen = headers.see(&frame);
        frames += 1;
        invalid += u32::from(seen.filled);
        last = seen.time;
    }
    let gaps = reader.gaps();
    println!("{frames} frames of {} bytes, {invalid} of them fill, last time {last:?}", frame.len());

    assert!(gaps.is_empty(), "no chunk is missing: {gaps:?}");
    assert_eq!((frames, last), (160, Some((1_795_000_000, 159))));
    Ok(())
}
