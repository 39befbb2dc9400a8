//! What `scan_check?` and `scan_set` need to know of a scan: from its indexes, and from the headers of some frames.

use skyhaul::recording::{Recording, scan_summary};
use skyhaul::samples::{Options, Samples};
use skyhaul_core::placement::Nanos;
use skyhaul_core::vsi::{VsiCode, VsiOutcome, VsiScanFacts};
use std::path::PathBuf;

/// One datastream of a scan.
#[derive(Clone, Debug, PartialEq)]
struct StreamFacts {
    format: String,
    frame_bytes: u32,
    track_bits_per_second: f64,
    tracks: u64,
    bytes_per_second: f64,
    /// First and end, ns of UNIX time.
    extent: (i128, i128),
}

/// Looks at a scan. It reads from the disks, and may take as long as these.
pub(super) fn inspect(disks: &[PathBuf], label: &str) -> VsiOutcome {
    let recording = match Recording::open(disks.iter(), label) {
        Ok(recording) => recording,
        Err(error) => return VsiOutcome::Failed(VsiCode::Failed, error.to_string()),
    };
    // Its length would be wrong.
    if let Some(disk) = recording.silent_disks().next() {
        return VsiOutcome::Failed(VsiCode::Failed, format!("{} does not respond", disk.display()));
    }
    let streams: Vec<Option<StreamFacts>> =
        (0..recording.datastreams.len()).map(|stream| stream_facts(&recording, stream)).collect();
    // As one file: what is missing keeps its place.
    let bytes = (0..recording.datastreams.len()).map(|stream| recording.layout(stream).bytes()).sum();
    let lost = scan_summary(disks, label).map(|summary| {
        let ledger = summary.ledger;
        ledger.never_received + ledger.discarded + ledger.damaged
    });
    VsiOutcome::Inspected(combined(bytes, lost, &streams))
}

fn combined(bytes: u64, lost_frames: Option<u64>, streams: &[Option<StreamFacts>]) -> VsiScanFacts {
    let unknown = VsiScanFacts { bytes, ..VsiScanFacts::default() };
    let Some(known) = streams.iter().cloned().collect::<Option<Vec<_>>>() else { return unknown };
    let Some(first) = known.first() else { return unknown };
    fn same<T: PartialEq>(all: &[StreamFacts], of: impl Fn(&StreamFacts) -> T) -> Option<T> {
        let first = of(all.first()?);
        all.iter().all(|stream| of(stream) == first).then_some(first)
    }
    let start = known.iter().map(|stream| stream.extent.0).min().unwrap_or_default();
    let end = known.iter().map(|stream| stream.extent.1).max().unwrap_or_default();
    let nanos = |time: i128| u64::try_from(time).ok().map(Nanos);
    let frame_bytes = same(&known, |stream| stream.frame_bytes);
    VsiScanFacts {
        bytes,
        format: Some(same(&known, |stream| stream.format.clone()).unwrap_or_else(|| first.format.clone())),
        tracks: same(&known, |stream| stream.format.clone())
            .map(|_| known.iter().map(|stream| stream.tracks).sum()),
        start: nanos(start),
        length: nanos(end - start),
        track_bits_per_second: same(&known, |stream| stream.track_bits_per_second),
        bytes_per_second: Some(known.iter().map(|stream| stream.bytes_per_second).sum()),
        missing_bytes: lost_frames.zip(frame_bytes).map(|(lost, bytes)| lost * u64::from(bytes)),
        frame_bytes,
    }
}

/// `None` if its frames cannot be read as samples.
fn stream_facts(recording: &Recording, stream: usize) -> Option<StreamFacts> {
    let options = Options { verify: false, workers: 1, ..Options::default() };
    let samples = Samples::of_recording(recording, stream, &options).ok()?;
    let (format, fps) = (samples.format(), i128::from(samples.frames_per_second()));
    let frame_bytes = u32::try_from(format.frame_bytes * format.parts.max(1)).ok()?;
    let bits = samples.coding().bits() * (1 + u32::from(samples.is_complex()));
    let threads = samples.threads().len().max(1) as u64;
    let first = i128::from(samples.first_frame());
    let frames = i128::from(samples.rows() / samples.frame_rows().max(1));
    let at = |frame: i128| frame * 1_000_000_000 / fps;
    Some(StreamFacts {
        format: shown(format.family.title(), format.header_bytes, samples.is_complex()),
        frame_bytes,
        track_bits_per_second: samples.sample_rate() as f64,
        tracks: u64::from(samples.channels()) * u64::from(bits) * threads,
        bytes_per_second: f64::from(frame_bytes) * fps as f64 * threads as f64,
        extent: (at(first), at(first + frames)),
    })
}

/// A format as the field's programs call it in `scan_check?`.
fn shown(title: &str, header_bytes: usize, is_complex: bool) -> String {
    match (title, header_bytes, is_complex) {
        ("Mark 5B", ..) => "Mark5B".to_owned(),
        (title, 16, true) => format!("{title} (legacy, complex)"),
        (title, 16, false) => format!("{title} (legacy)"),
        (title, _, true) => format!("{title} (complex)"),
        (title, ..) => title.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(start: i128, frame_bytes: u32) -> Option<StreamFacts> {
        Some(StreamFacts {
            format: "VDIF".into(),
            frame_bytes,
            track_bits_per_second: 64e6,
            tracks: 32,
            bytes_per_second: 1e6,
            extent: (start, start + 5_000_000_000),
        })
    }

    #[test]
    fn streams_of_one_shape_are_added_and_others_are_unknown() {
        let facts = combined(7, Some(2), &[stream(3_000_000_000, 8032), stream(1_000_000_000, 8032)]);
        assert_eq!(
            (facts.tracks, facts.frame_bytes, facts.missing_bytes),
            (Some(64), Some(8032), Some(16_064))
        );
        assert_eq!((facts.start, facts.length), (Some(Nanos(1_000_000_000)), Some(Nanos(7_000_000_000))));
        let differ = combined(7, Some(2), &[stream(0, 8032), stream(0, 5032)]);
        assert_eq!((differ.frame_bytes, differ.missing_bytes), (None, None));
        assert_eq!(combined(7, Some(2), &[stream(0, 8032), None]).format, None);
        assert_eq!(combined(7, None, &[]).bytes, 7);
    }
}
