//! What there is of a scan on one disk, read by the thread of that disk.

use super::{DiskContents, real};
use crate::recording::contents::{ChunkEntry, FileEntry, Label, Verdict};
use crate::recording::index::IndexReader;
use crate::recording::index::record::Record;
use crate::recording::{contents, mark6};
use skyhaul_io::disk;
use std::path::{Path, PathBuf};

impl DiskContents {
    /// Look at one disk. `alive` is called after each file and record.
    pub(super) fn on(label: &Label, disk: usize, path: &Path, alive: &dyn Fn()) -> DiskContents {
        let mut contents = DiskContents::default();
        contents.read_index(disk, label.index(path), alive);
        match label.directories(path) {
            Ok(names) => names.iter().for_each(|name| contents.list_files(disk, path, name, alive)),
            Err(error) => {
                contents.cannot_look(path, &error);
                contents.unreadable = Some((path.to_owned(), error));
            }
        }
        contents.real.insert(path.to_owned(), real(path));
        contents
    }

    /// The blocks of a Mark 6: each is a chunk in the middle of a file.
    pub(super) fn scatter(&mut self, label: &Label, disk: usize, path: &Path, alive: &dyn Fn()) {
        for path in mark6::files(&[path.to_owned()], label.as_str()) {
            alive();
            let scattered = match mark6::blocks(std::slice::from_ref(&path)) {
                Ok(scattered) => scattered,
                Err((path, error)) => {
                    self.cannot_look(&path, &error);
                    continue;
                }
            };
            // Numbers that are missing in one file are in others.
            for gap in scattered.gaps.iter().filter(|gap| !gap.has_chunks()) {
                self.findings.add(Verdict::Damaged, Some(&path), gap.why.clone());
            }
            for block in scattered.blocks {
                let (path, offset, bytes) = (block.path, block.offset, Some(block.bytes));
                let number = block.number;
                let entry = ChunkEntry { number, disk, path, offset, bytes, record: None, moved: false };
                self.entry(label.as_str(), entry);
            }
        }
    }

    fn cannot_look(&mut self, path: &Path, error: &std::io::Error) {
        let text = format!("cannot be inspected: {}", skyhaul_io::address::system_text(error));
        self.unreachable.add(Verdict::Unproven, Some(&path.to_owned()), text);
    }

    fn read_index(&mut self, disk: usize, path: PathBuf, alive: &dyn Fn()) {
        let mut reader = match IndexReader::open(&path) {
            Ok(reader) => reader,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            // The disk's own error comes with its directory.
            Err(error) if path.parent().is_some_and(|scan| std::fs::read_dir(scan).is_err()) => {
                drop(error);
                return;
            }
            Err(error) => return self.cannot_look(&path, &error),
        };
        self.live |= disk::is_locked(&path);
        let mut session = String::new();
        let read = reader.read(|record| match record_of(record, alive) {
            Record::Session(found) => {
                session.clone_from(&found.session);
                self.session_indexes.push((disk, path.clone(), found));
            }
            Record::Datastream(found) => {
                self.datastreams.insert((session.clone(), found.datastream), found);
            }
            // No file can have such a number: a recorder never wrote this.
            Record::Chunk(found) if found.number > contents::MAX_CHUNK_NUMBER => {}
            Record::Chunk(found) => self.chunks.push((session.clone(), disk, found)),
            Record::Lost(found) => self.lost.push((session.clone(), found)),
            Record::Event(found) if !self.events.contains(&found) => self.events.push(found),
            Record::End(found) => self.reports.push((session.clone(), *found)),
            Record::Event(_) | Record::Other => {}
        });
        if let Err(error) = read {
            self.cannot_look(&path, &error);
        }
        self.indexes.push((path, reader.tally()));
    }

    /// Files of one directory.
    fn list_files(&mut self, disk: usize, path: &Path, name: &str, alive: &dyn Fn()) {
        let directory = path.join(name);
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            // The file of a Mark 6 may have the name of its scan; `scatter` reads it.
            Err(_) if mark6::is_scattered(&directory) => return,
            Err(error) => return self.cannot_look(&directory, &error),
        };
        self.entries.entry(name.to_owned()).or_default();
        for entry in entries {
            alive();
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.cannot_look(&directory, &error),
            };
            let (path, file) = (entry.path(), entry.file_name());
            let file = file.to_string_lossy();
            if file.strip_suffix(".index") == Some(name) {
                continue;
            }
            let number = contents::chunk_number(name, &file);
            // Links are followed: what counts is what lies at their end.
            let bytes = std::fs::metadata(&path)
                .and_then(|data| disk::only_regular(data.file_type()).map(|()| data.len()));
            let bytes = match bytes {
                Ok(bytes) => bytes,
                // Removed since the directory was read.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && !path.is_symlink() => continue,
                Err(error) => {
                    self.cannot_look(&path, &error);
                    continue;
                }
            };
            if let Some(number) = number {
                let bytes = Some(bytes);
                let entry = ChunkEntry { number, disk, path, offset: 0, bytes, record: None, moved: false };
                self.entry(name, entry);
                continue;
            }
            if file.strip_suffix(".part").is_some_and(|whole| contents::chunk_number(name, whole).is_some()) {
                self.partial.push((name.to_owned(), path.clone()));
            }
            self.others.push(FileEntry { disk, path, bytes });
        }
    }

    fn entry(&mut self, name: &str, entry: ChunkEntry) {
        self.entries.entry(name.to_owned()).or_default().entry(entry.number).or_default().push(entry);
    }
}

/// A record, of which it is noted that it was read.
fn record_of(record: Record, alive: &dyn Fn()) -> Record {
    alive();
    record
}
