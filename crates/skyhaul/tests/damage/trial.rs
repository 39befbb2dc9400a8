//! A recording, what was recorded, and what may happen to it.

use super::*;

/// A recording, and what was recorded.
pub(super) struct Trial {
    pub(super) disks: Vec<PathBuf>,
    /// Frames of each chunk.
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) homes: Vec<usize>,
    /// The recorder did not end normally.
    pub(super) killed: bool,
    pub(super) done: Vec<String>,
}

pub(super) fn frames(first: usize, count: usize, random: &mut Random) -> Vec<u8> {
    let shape = Vdif::shape(PAYLOAD, 1, 2, false, false).unwrap();
    let mut bytes = Vec::new();
    for n in first..first + count {
        let (second, frame) = (n / RATE as usize, n % RATE as usize);
        bytes.extend(shape.at(BEGIN + second as i64, frame as u32).unwrap().write());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        let payload: Vec<u8> = (0..PAYLOAD).map(|_| random.below(256) as u8).collect();
        bytes.extend(payload);
    }
    assert_eq!(bytes.len(), count * FRAME);
    bytes
}

pub(super) fn time(n: usize) -> Option<(i64, u32)> {
    Some((BEGIN + (n / RATE as usize) as i64, (n % RATE as usize) as u32))
}

pub(super) fn session(disks: &[PathBuf], disk: usize, number: u64) -> Record {
    Record::Session(Session {
        index: 1,
        session: format!("{number:016x}"),
        version: "test".into(),
        scan: SCAN.into(),
        disks: disks.to_vec(),
        disk,
        started: "2026-01-01T00:00:00Z".into(),
        pid: 1,
        memory: None,
        copies: 1,
        metadata: serde_json::Value::Null,
    })
}

pub(super) fn stream(units: usize) -> Record {
    Record::Datastream(Datastream {
        datastream: 0,
        name: SCAN.into(),
        info: DatastreamInfo {
            unit_bytes: FRAME as u32,
            units: units as u32,
            frames_per_second: Some(RATE),
            lanes: 1,
            format: json!({"format": "vdif", "header_at": 0, "threads": [0], "edv": 0, "near": BEGIN}),
            ..DatastreamInfo::default()
        },
    })
}

impl Trial {
    pub(super) fn new(directory: &Path, random: &mut Random) -> Trial {
        let count = 1 + random.below(3) as usize;
        let disks: Vec<PathBuf> = (0..count).map(|n| directory.join(format!("d{n}"))).collect();
        let units = 2 + random.below(6) as usize;
        let numbers = 1 + random.below(9) as usize;
        let mut indexes: Vec<String> = (0..count)
            .map(|disk| session(&disks, disk, 0xc0ffee).to_line() + &stream(units).to_line())
            .collect();
        disks.iter().for_each(|disk| std::fs::create_dir_all(disk.join(SCAN)).unwrap());
        let (mut chunks, mut homes, mut first) = (Vec::new(), Vec::new(), 0);
        for number in 0..numbers {
            // The last one is usually short.
            let count = if number + 1 == numbers { 1 + random.below(units as u64) as usize } else { units };
            let bytes = frames(first, count, random);
            let home = random.below(disks.len() as u64) as usize;
            std::fs::write(path(&disks[home], number), &bytes).unwrap();
            let meta = ChunkMeta {
                object: number as u64,
                units: count as u32,
                first_time: time(first),
                last_time: time(first + count - 1),
                ..ChunkMeta::default()
            };
            // Of any length, most often not of whole frames; or only the checksum of the whole.
            let part = random.chance(0.7).then(|| 40 + random.below(200));
            let record = ChunkRecord {
                number: number as u32,
                bytes: bytes.len() as u64,
                crc32c: crc32c::crc32c(&bytes),
                parts: part
                    .map_or(Vec::new(), |part| bytes.chunks(part as usize).map(crc32c::crc32c).collect()),
                part_bytes: part.and_then(NonZeroU64::new),
                meta,
                ..ChunkRecord::default()
            };
            indexes[home].push_str(&Record::Chunk(record).to_line());
            first += count;
            homes.push(home);
            chunks.push(bytes);
        }
        let killed = random.chance(0.15);
        let bytes = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        let account = DatastreamReport {
            name: SCAN.into(),
            submitted: numbers as u64,
            acknowledged: numbers as u64,
            submitted_bytes: bytes,
            acknowledged_bytes: bytes,
            ..DatastreamReport::default()
        };
        let report = RecordingReport {
            scan: SCAN.into(),
            session: format!("{:016x}", 0xc0ffee),
            ended: "2026-01-01T01:00:00Z".into(),
            datastreams: vec![account],
            ..RecordingReport::default()
        };
        for (disk, mut index) in disks.iter().zip(indexes) {
            if !killed {
                index += &Record::End(Box::new(report.clone())).to_line();
            }
            std::fs::write(index_path(disk), index).unwrap();
        }
        Trial { disks, chunks, homes, killed, done: Vec::new() }
    }

    pub(super) fn wanted(&self) -> Vec<u8> {
        self.chunks.concat()
    }

    pub(super) fn open(&self) -> Option<Recording> {
        Recording::open(&self.disks, SCAN).ok()
    }
}

pub(super) fn path(disk: &Path, number: usize) -> PathBuf {
    disk.join(SCAN).join(format!("{SCAN}.{number:08}"))
}

pub(super) fn index_path(disk: &Path) -> PathBuf {
    disk.join(SCAN).join(format!("{SCAN}.index"))
}

/// The bytes of a file, if it is one: what earlier damage put there may be anything.
pub(super) fn regular(at: &Path) -> Option<Vec<u8>> {
    let data = std::fs::symlink_metadata(at).ok()?;
    data.is_file().then(|| std::fs::read(at).unwrap())
}

pub(super) fn is_free(at: &Path) -> bool {
    std::fs::symlink_metadata(at).is_err() && at.parent().is_some_and(Path::is_dir)
}

/// Put something that is no regular file in the place of `at`.
pub(super) fn special(at: &Path, random: &mut Random) -> &'static str {
    let _ = std::fs::remove_file(at);
    match random.below(5) {
        0 => {
            assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
            "FIFO"
        }
        1 => {
            symlink(at, at).unwrap();
            "link loop"
        }
        2 => {
            std::fs::create_dir(at).unwrap();
            "directory"
        }
        3 => {
            drop(std::os::unix::net::UnixListener::bind(at));
            "socket"
        }
        _ => {
            symlink("/dev/zero", at).unwrap();
            "device"
        }
    }
}

impl Trial {
    /// Something happens to a chunk; whether its bytes are still somewhere, and can be proven.
    pub(super) fn damage_chunk(&mut self, random: &mut Random) -> bool {
        let number = random.below(self.chunks.len() as u64) as usize;
        let other = random.below(self.chunks.len() as u64) as usize;
        let disk = self.disks[random.below(self.disks.len() as u64) as usize].clone();
        let at = path(&self.disks[self.homes[number]], number);
        let Some(bytes) = regular(&at) else { return false };
        let mut altered = bytes.clone();
        let (what, provable) = match random.below(13) {
            0 => {
                let Some(place) = (!bytes.is_empty()).then(|| random.below(bytes.len() as u64) as usize)
                else {
                    return false;
                };
                altered[place] ^= 1 << random.below(8);
                std::fs::write(&at, altered).unwrap();
                ("flip a bit", false)
            }
            1 => {
                altered.truncate(random.below(bytes.len() as u64 + 1) as usize);
                std::fs::write(&at, altered).unwrap();
                ("truncate", false)
            }
            2 => {
                altered.extend((0..1 + random.below(200)).map(|_| random.below(256) as u8));
                std::fs::write(&at, altered).unwrap();
                ("extend", true)
            }
            3 => {
                std::fs::remove_file(&at).unwrap();
                ("delete", false)
            }
            4 => {
                let second = path(&self.disks[self.homes[other]], other);
                if regular(&second).is_some() {
                    let spare = at.with_extension("spare");
                    std::fs::rename(&at, &spare).unwrap();
                    std::fs::rename(&second, &at).ok();
                    std::fs::rename(&spare, &second).unwrap();
                }
                ("swap", true)
            }
            5 => {
                if is_free(&path(&disk, number)) {
                    std::fs::rename(&at, path(&disk, number)).unwrap();
                }
                ("move to another disk", true)
            }
            6 => {
                if is_free(&path(&disk, number)) {
                    std::fs::copy(&at, path(&disk, number)).unwrap();
                }
                ("copy to another disk", true)
            }
            7 => {
                let far = if random.chance(0.5) { 99_999_999 } else { self.chunks.len() };
                if is_free(&path(&disk, far)) {
                    std::fs::write(path(&disk, far), &bytes).unwrap();
                }
                ("copy to a number that there is not", true)
            }
            8 => (special(&at, random), false),
            9 => {
                std::fs::rename(&at, at.with_file_name(format!("{}.{number:08}", SCAN.to_uppercase())))
                    .unwrap();
                ("rename in upper case", true)
            }
            10 => {
                let _ = std::fs::hard_link(&at, path(&disk, other));
                ("hard link", true)
            }
            11 => {
                std::fs::write(&at, "").unwrap();
                ("empty", false)
            }
            _ => {
                let junk: Vec<u8> = (0..random.below(500)).map(|_| random.below(256) as u8).collect();
                std::fs::write(at.with_file_name("foreign.bin"), junk).unwrap();
                ("foreign file", true)
            }
        };
        self.done.push(format!("{what}: chunk {number} (other {other}, disk {})", disk.display()));
        provable
    }

    /// The record of one chunk claims that more is missing than there can be. Returns its number.
    pub(super) fn claim(&mut self, random: &mut Random) -> u32 {
        let number = random.below(self.chunks.len() as u64) as usize;
        let at = index_path(&self.disks[self.homes[number]]);
        let text = std::fs::read_to_string(&at).unwrap();
        let huge = [u64::MAX, u64::MAX / FRAME as u64, 1 << 62][random.below(3) as usize];
        // Before the first one nothing has a time.
        let gap = if number > 0 && random.chance(0.5) { 20 + random.below(100_000) } else { huge };
        let far = [u32::MAX, 1_000_000, 1000][random.below(3) as usize];
        let kind = random.below(3);
        let lines = text.lines().map(|line| match Record::parse(line.as_bytes()).unwrap() {
            Record::Chunk(mut record) if record.number == number as u32 => {
                let meta = &mut record.meta;
                match kind {
                    0 => meta.gap = Some(gap),
                    1 => {
                        let units = meta.units;
                        (meta.packed, meta.units, meta.missing) =
                            (true, far, std::iter::once(units..far).collect());
                    }
                    _ => meta.missing = std::iter::once(0..far).collect(),
                }
                Record::Chunk(record).to_line()
            }
            _ => format!("{line}\n"),
        });
        let text: String = lines.collect();
        std::fs::write(&at, text).unwrap();
        self.done.push(format!("claim of kind {kind} for chunk {number}: {gap}, {far}"));
        number as u32
    }

    /// Something happens to an index; whether everything can still be proven.
    pub(super) fn damage_index(&mut self, random: &mut Random) -> bool {
        let disk = self.disks[random.below(self.disks.len() as u64) as usize].clone();
        let at = index_path(&disk);
        let Some(text) = regular(&at) else { return false };
        let lines: Vec<&[u8]> = text.split_inclusive(|&b| b == b'\n').collect();
        let keep = random.below(lines.len() as u64 + 1) as usize;
        let write = |bytes: Vec<u8>| std::fs::write(&at, bytes).unwrap();
        let (what, provable) = match random.below(11) {
            0 => {
                write([&text[..], &b"junk without end"[..]].concat());
                ("junk behind the index", true)
            }
            1 => {
                write([&text[..], &b"00000000 {\"record\":\"chunk\"}\n\0\0\0\0\n"[..]].concat());
                ("junk lines", true)
            }
            2 => {
                std::fs::remove_file(&at).unwrap();
                ("delete an index", false)
            }
            3 => {
                let mut altered = text.clone();
                if let Some(byte) = altered.get_mut(random.below(text.len().max(1) as u64) as usize) {
                    *byte ^= 1 << random.below(8);
                }
                write(altered);
                ("flip a bit of an index", false)
            }
            4 => {
                write(text[..random.below(text.len() as u64 + 1) as usize].to_vec());
                ("truncate an index", false)
            }
            5 => {
                write(lines[..keep].concat());
                ("stale index", false)
            }
            6 => {
                let foreign = session(&self.disks, 0, 0xbad).to_line() + &stream(3).to_line();
                let mut index = foreign;
                for number in 0..random.below(12) as u32 {
                    let bytes = self.chunks[number as usize % self.chunks.len()].len() as u64;
                    let record = ChunkRecord { number, bytes, crc32c: 7, ..ChunkRecord::default() };
                    index += &Record::Chunk(record).to_line();
                }
                write(index.into_bytes());
                ("index of another recording", false)
            }
            7 => (special(&at, random), false),
            8 => {
                self.disks.iter().for_each(|disk| drop(std::fs::remove_file(index_path(disk))));
                ("all indexes gone", false)
            }
            9 => {
                let changed = String::from_utf8_lossy(&text).replace('\n', "\r\n");
                write(changed.into_bytes());
                ("CR LF", true)
            }
            _ => {
                let mut rest = lines.clone();
                if keep < rest.len() {
                    rest.remove(keep);
                }
                write(rest.concat());
                ("a line of an index gone", false)
            }
        };
        self.done.push(format!("{what}: {} (kept {keep})", disk.display()));
        provable
    }

    /// The newest chunk and its record are gone, as if they had never been.
    pub(super) fn cut_tail(&mut self) -> bool {
        let number = self.chunks.len() - 1;
        for disk in &self.disks {
            let _ = std::fs::remove_file(path(disk, number));
            let Some(text) = regular(&index_path(disk)) else { continue };
            let text = String::from_utf8_lossy(&text);
            let word = format!("\"number\":{number},");
            let kept: String = text.split_inclusive('\n').filter(|line| !line.contains(&word)).collect();
            std::fs::write(index_path(disk), kept).unwrap();
        }
        self.done.push(format!("chunk {number} and its record gone"));
        false
    }

    pub(super) fn damage_disk(&mut self, random: &mut Random) -> bool {
        let disk = random.below(self.disks.len() as u64) as usize;
        match random.below(3) {
            0 if self.disks.len() > 1 => {
                self.disks.remove(disk);
                self.done.push(format!("disk {disk} not given"));
                self.homes.iter_mut().for_each(|home| *home = (*home).min(self.disks.len() - 1));
            }
            1 => {
                let gone = self.disks[disk].with_extension("gone");
                // Earlier damage may have done it already.
                if self.disks[disk].is_dir() {
                    std::fs::rename(&self.disks[disk], gone).unwrap();
                    std::fs::write(&self.disks[disk], "").unwrap();
                }
                self.done.push(format!("disk {disk} is a file"));
            }
            _ => {
                let scan = self.disks[disk].join(SCAN);
                let _ = std::fs::remove_dir_all(&scan);
                let what = special(&scan, random);
                self.done.push(format!("the scan of disk {disk} is a {what}"));
            }
        }
        false
    }

    pub(super) fn damage(&mut self, random: &mut Random) -> bool {
        match random.below(20) {
            0..=10 => self.damage_chunk(random),
            11..=16 => self.damage_index(random),
            17 => self.cut_tail(),
            18 => self.damage_disk(random),
            _ => true,
        }
    }
}
