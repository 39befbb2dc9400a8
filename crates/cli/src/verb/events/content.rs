//! What events are made of: patterns of any size, or pieces of files.

use anyhow::{Result, ensure};
use skyhaul::io::file::MappedFile;
use skyhaul::send::events::Event;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// What events are made of.
#[derive(Clone)]
pub(super) enum Content {
    /// Nothing: each proves itself (`pattern`), or all have the same bytes.
    Made { sizes: Sizes, pattern: bool },
    /// Files.
    Files(Arc<Files>),
}

impl Content {
    /// Event `n`, which is sent with `tick`.
    pub(super) fn event(&self, n: u64, data_id: u16, tick: u64) -> Event {
        match self {
            Content::Made { sizes, pattern } => {
                Event::pattern(data_id, if *pattern { tick } else { 0 }, sizes.of(n))
            }
            Content::Files(files) => Event::from(data_id, Arc::new(files.part(n))),
        }
    }

    /// Bytes of event `n`.
    pub(super) fn bytes(&self, n: u64) -> u64 {
        match self {
            Content::Made { sizes, .. } => sizes.of(n),
            Content::Files(files) => files.place(n).1.len() as u64,
        }
    }

    /// How many there are; `None`: without end.
    pub(super) fn events(&self) -> Option<u64> {
        match self {
            Content::Made { .. } => None,
            Content::Files(files) => Some(files.per_loop.saturating_mul(files.loops)),
        }
    }

    /// In words.
    pub(super) fn describe(&self) -> String {
        match self {
            Content::Made { sizes, .. } if sizes.least == sizes.most => {
                format!("events of {} bytes", sizes.most)
            }
            Content::Made { sizes, .. } => {
                format!("events of {} to {} bytes (seed {})", sizes.least, sizes.most, sizes.seed)
            }
            Content::Files(files) => format!("{} events of {} files", files.per_loop, files.all.len()),
        }
    }
}

/// Sizes of events: the same for each number whenever it is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) seed: u64,
}

impl Sizes {
    fn of(self, n: u64) -> u64 {
        let more = self.most - self.least;
        if more == 0 {
            return self.least;
        }
        // SplitMix64.
        let mut z = self.seed.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.least + (z ^ z >> 31) % (more + 1)
    }
}

/// Files, and the events that they are cut into.
pub(super) struct Files {
    /// Each with the number of its first event.
    all: Vec<(u64, Arc<MappedFile>)>,
    /// Bytes of an event, but for the last of a file.
    piece: u64,
    per_loop: u64,
    loops: u64,
}

impl Files {
    /// Cut files into events of `piece` bytes, or take each as an event.
    pub(super) fn open(paths: &[PathBuf], piece: Option<u64>, loops: u64) -> Result<Self> {
        let most = u64::from(u32::MAX);
        let mut files =
            Self { all: Vec::with_capacity(paths.len()), piece: piece.unwrap_or(most), per_loop: 0, loops };
        for path in paths {
            let file = MappedFile::open(path)?;
            let bytes = file.len() as u64;
            ensure!(bytes > 0, "{}: the file is empty\nhint: give another --input", path.display());
            ensure!(
                piece.is_some() || bytes <= most,
                "{}: {bytes} bytes are too many for one event\nhint: cut it into events with --event 1GiB",
                path.display()
            );
            files.all.push((files.per_loop, Arc::new(file)));
            files.per_loop += bytes.div_ceil(files.piece);
        }
        Ok(files)
    }

    /// Where event `n` lies.
    fn place(&self, n: u64) -> (&Arc<MappedFile>, Range<usize>) {
        let n = n % self.per_loop;
        let at = self.all.partition_point(|(first, _)| *first <= n) - 1;
        let (first, file) = &self.all[at];
        let start = (n - first) * self.piece;
        (file, start as usize..(start + self.piece).min(file.len() as u64) as usize)
    }

    fn part(&self, n: u64) -> Part {
        let (file, range) = self.place(n);
        Part(file.clone(), range)
    }
}

/// A part of a file as an event.
struct Part(Arc<MappedFile>, Range<usize>);

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.0[self.1.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_within_bounds_and_the_same_again() {
        let sizes = Sizes { least: 10, most: 13, seed: 7 };
        let all: Vec<u64> = (0..1000).map(|n| sizes.of(n)).collect();
        assert!((10..=13).all(|size| all.iter().filter(|&&one| one == size).count() > 200));
        assert!(all.iter().all(|size| (10..=13).contains(size)));
        assert_eq!(sizes.of(500), all[500]);
        assert_eq!(Sizes { most: 10, ..sizes }.of(3), 10);
    }

    #[test]
    fn files_are_cut_into_events() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], b"0123456789").unwrap();
        std::fs::write(&paths[1], b"abc").unwrap();
        let all = |piece, loops| {
            let files = Arc::new(Files::open(&paths, piece, loops).unwrap());
            let content = Content::Files(files.clone());
            let text = |n| String::from_utf8(files.part(n).as_ref().to_vec()).unwrap();
            let all: Vec<String> = (0..content.events().unwrap()).map(text).collect();
            assert!((0..).zip(&all).all(|(n, text)| content.bytes(n) == text.len() as u64));
            all
        };
        assert_eq!(all(Some(4), 1), ["0123", "4567", "89", "abc"]);
        assert_eq!(all(None, 2), ["0123456789", "abc", "0123456789", "abc"]);
        let empty = directory.path().join("empty");
        std::fs::write(&empty, b"").unwrap();
        assert!(Files::open(&[empty], None, 1).err().unwrap().to_string().contains("is empty"));
    }
}
