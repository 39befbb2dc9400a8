//! What `scan_check?`, `scan_set` and `file_check?` need to know of a scan or a file: from indexes, and from the headers of some frames.

use crate::station::files;
use skyhaul::recording::{Recording, scan_summary};
use skyhaul::samples::{Options, Samples};
use skyhaul_core::placement::Nanos;
use skyhaul_core::vsi::{VsiCode, VsiOutcome, VsiScanFacts};
use std::os::fd::AsRawFd;
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
    /// Frames of all its threads in this extent.
    frames: u64,
    /// Frames of one frame number: how many may be absent at either end, where a recording begins or ends between two of them.
    group: u64,
}

/// What became of the frames of a scan.
#[derive(Clone, Copy, Debug)]
struct FrameCounts {
    /// Frames that were received.
    received: u64,
    /// Frames that are known to be missing.
    lost: u64,
    /// Whether its times, threads, stations or frame rates were not those of a regular stream.
    is_irregular: bool,
}

impl FrameCounts {
    /// Frames that are missing between the first and the last one: by the recorder's account, or by the times if these demand
    /// more. `None`: the times contradict each other, and show nothing that is missing.
    fn missing(self, streams: &[StreamFacts]) -> Option<u64> {
        let sum = |of: fn(&StreamFacts) -> u64| streams.iter().map(of).fold(0, u64::saturating_add);
        let demanded = sum(|stream| stream.frames).saturating_sub(self.received);
        let at_ends = sum(|stream| 2 * stream.group.saturating_sub(1));
        let is_more = demanded > self.lost.saturating_add(at_ends);
        let missing = if is_more { demanded } else { self.lost };
        (missing > 0 || !self.is_irregular).then_some(missing)
    }
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
    let is_irregular = recording.was_irregular();
    let counts = scan_summary(disks, label).map(|summary| {
        let ledger = summary.ledger;
        let lost = ledger.never_received + ledger.discarded + ledger.damaged;
        FrameCounts { received: ledger.expected().saturating_sub(lost), lost, is_irregular }
    });
    VsiOutcome::Inspected(combined(bytes, counts, &streams))
}

/// Looks at a file below one of these directories. What is missing in it is what its times demand.
pub(super) fn inspect_file(directories: &[PathBuf], name: &str) -> VsiOutcome {
    let failed = |why: String| VsiOutcome::Failed(VsiCode::Failed, why);
    let fault = |error: std::io::Error| failed(format!("{name}: {error}"));
    let (tree, path) = match files::find(directories, name) {
        Ok(found) => found,
        Err(why) => return failed(why),
    };
    let file = match tree.read(&path, false) {
        Ok((file, _)) => file,
        Err(error) => return fault(error),
    };
    let bytes = match file.metadata() {
        Ok(about) => about.len(),
        Err(error) => return fault(error),
    };
    // This file, whatever its path leads to by now.
    let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let options = Options { verify: false, workers: 1, ..Options::default() };
    let stream = Samples::of_files([opened], &options).ok().and_then(|samples| facts(&samples));
    let received = stream.as_ref().map_or(0, |stream| bytes / u64::from(stream.frame_bytes.max(1)));
    let counts = FrameCounts { received, lost: 0, is_irregular: false };
    VsiOutcome::Inspected(combined(bytes, Some(counts), &[stream]))
}

fn combined(bytes: u64, counts: Option<FrameCounts>, streams: &[Option<StreamFacts>]) -> VsiScanFacts {
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
        missing_bytes: counts
            .and_then(|counts| counts.missing(&known))
            .zip(frame_bytes)
            .map(|(lost, bytes)| lost.saturating_mul(u64::from(bytes))),
        frame_bytes,
    }
}

/// `None` if its frames cannot be read as samples.
fn stream_facts(recording: &Recording, stream: usize) -> Option<StreamFacts> {
    let options = Options { verify: false, workers: 1, ..Options::default() };
    facts(&Samples::of_recording(recording, stream, &options).ok()?)
}

fn facts(samples: &Samples) -> Option<StreamFacts> {
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
        frames: u64::try_from(frames).ok()?.saturating_mul(threads),
        group: threads,
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
            frames: 100,
            group: 2,
        })
    }

    fn counts(received: u64, lost: u64) -> Option<FrameCounts> {
        Some(FrameCounts { received, lost, is_irregular: false })
    }

    #[test]
    fn streams_of_one_shape_are_added_and_others_are_unknown() {
        let facts = combined(7, counts(198, 2), &[stream(3_000_000_000, 8032), stream(1_000_000_000, 8032)]);
        assert_eq!(
            (facts.tracks, facts.frame_bytes, facts.missing_bytes),
            (Some(64), Some(8032), Some(16_064))
        );
        assert_eq!((facts.start, facts.length), (Some(Nanos(1_000_000_000)), Some(Nanos(7_000_000_000))));
        let differ = combined(7, counts(198, 2), &[stream(0, 8032), stream(0, 5032)]);
        assert_eq!((differ.frame_bytes, differ.missing_bytes), (None, None));
        assert_eq!(combined(7, counts(198, 2), &[stream(0, 8032), None]).format, None);
        assert_eq!(combined(7, None, &[]).bytes, 7);
    }

    #[test]
    fn what_is_missing_is_what_the_times_demand() {
        let missing = |received, lost, is_irregular| {
            let counts = FrameCounts { received, lost, is_irregular };
            counts.missing(&[stream(0, 8032).unwrap()])
        };
        assert_eq!((missing(100, 0, false), missing(97, 3, false)), (Some(0), Some(3)));
        assert_eq!(missing(98, 0, false), Some(0), "it began and ended between two threads");
        assert_eq!(missing(60, 3, false), Some(40), "a thread began late");
        assert_eq!(missing(60, 0, true), Some(40), "times jumped ahead");
        assert_eq!((missing(120, 0, true), missing(100, 0, true)), (None, None), "times were repeated");
        assert_eq!(missing(120, 5, true), Some(5));
    }
}
