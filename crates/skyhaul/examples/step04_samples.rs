//! Step 4: samples as numbers.
//!
//! [`Samples`] finds the frames of any range of time by their headers and decodes them, with several threads. Lost samples are
//! NaN.

use skyhaul::recording::Recording;
use skyhaul::samples::{Options, Samples};
use std::error::Error;
use std::time::Duration;

#[path = "step02_record.rs"]
#[expect(dead_code, reason = "its own main function")]
mod step02_record;
use step02_record::{SCAN, disks, record};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let disks = disks(directory.path())?;
    record(&disks)?;

    let samples = Samples::of_recording(&Recording::open(disks, SCAN)?, 0, &Options::default())?;
    println!("{} samples per second, {} threads", samples.sample_rate(), samples.threads().len());
    // A row has a sample of each thread and channel.
    let rows = samples.range(None, Some(Duration::from_millis(100)))?;
    let mut values = vec![0f32; (rows.end - rows.start) as usize * samples.row()];
    let read = samples.read(rows.start, &mut values)?;

    let valid: Vec<f32> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    let power = valid.iter().map(|value| value * value).sum::<f32>() / valid.len() as f32;
    println!("{} of {} samples are valid, power {power:.1}", valid.len(), values.len());

    assert_eq!(values.len(), 400_000);
    assert_eq!(valid.len() as u64, read.placed * samples.frame_rows());
    assert!(!read.is_whole(), "some frames were lost");
    Ok(())
}
