//! A recorder killed at any moment, in the simulator: what is left is read by the real code.

use skyhaul::recording::{
    CheckOptions, ChunkMeta, ChunkRecord, Datastream, DatastreamInfo, Finding, Record, Recording, Session,
    State, Verdict,
};
use skyhaul_sim::crash::{Death, Lines, Recorder, content};
use skyhaul_sim::random::Random;
use std::path::PathBuf;

const SCAN: &str = "exp_st_no0001";
const DISKS: usize = 3;

struct Real(Vec<PathBuf>);

impl Lines for Real {
    fn opening(&self, disk: usize) -> String {
        let session = Session {
            index: 1,
            session: "00c0ffee00c0ffee".into(),
            version: "test".into(),
            scan: SCAN.into(),
            disks: self.0.clone(),
            disk,
            started: "2026-01-01T00:00:00Z".into(),
            pid: 1,
            memory: None,
            copies: 1,
            metadata: serde_json::Value::Null,
        };
        let info = DatastreamInfo::default();
        let stream = Datastream { datastream: 0, name: SCAN.into(), info };
        Record::Session(session).to_line() + &Record::Datastream(stream).to_line()
    }

    fn chunk(&self, number: u32, bytes: &[u8]) -> String {
        let meta = ChunkMeta { object: u64::from(number), units: 1, ..ChunkMeta::default() };
        let crc32c = crc32c::crc32c(bytes);
        let record =
            ChunkRecord { number, bytes: bytes.len() as u64, crc32c, meta, ..ChunkRecord::default() };
        Record::Chunk(record).to_line()
    }
}

/// Kill one recording and judge what is left; how many chunks were acknowledged and how many were not.
fn kill(seed: u64) -> Result<(usize, usize), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let disks: Vec<PathBuf> = (0..DISKS).map(|n| directory.path().join(format!("d{n}"))).collect();
    let lines = Real(disks.clone());
    let mut random = Random(seed);
    let death = random.pick(&[Death::Kill, Death::PowerLoss]);
    let steps = random.below(600);
    let mut recorder = Recorder::new(&lines, SCAN, DISKS, random.fork());
    (0..steps).for_each(|_| recorder.step());
    for (disk, path) in recorder.disks.iter().zip(&disks) {
        disk.write_out(&path.join(SCAN), death, &mut random)?;
    }

    let recording = Recording::open(disks.clone(), SCAN)?;
    assert_eq!(recording.state, State::Interrupted, "seed {seed}");
    let [stream] = &recording.datastreams[..] else { panic!("seed {seed}: {:?}", recording.datastreams) };
    for (&number, &disk) in &recorder.acknowledged {
        let entry =
            stream.chunks.get(&number).unwrap_or_else(|| panic!("seed {seed} {death:?}: {number} is gone"));
        assert!(entry.is_acknowledged() && entry.disk == disk, "seed {seed} {death:?}: {entry:?}");
    }
    let named: Vec<u32> = stream.unacknowledged().collect();
    for (&number, entry) in &stream.chunks {
        let whole = std::fs::read(&entry.path).is_ok_and(|bytes| bytes == content(number));
        if entry.is_acknowledged() {
            assert!(whole, "seed {seed} {death:?}: chunk {number} has other bytes than were promised");
        } else {
            assert!(
                named.contains(&number),
                "seed {seed}: chunk {number} is not acknowledged, and not named"
            );
        }
    }
    // A check reads with buffers for fast disks, which takes longer than all the rest.
    if seed.is_multiple_of(16) {
        let check = recording.check(&CheckOptions::default())?;
        let damaged: Vec<&Finding> =
            check.findings.iter().filter(|f| f.verdict == Verdict::Damaged).collect();
        assert!(damaged.is_empty(), "seed {seed} {death:?}: {damaged:?}");
    }
    Ok((recorder.acknowledged.len(), named.len() + stream.partial.len()))
}

#[test]
fn no_death_costs_an_acknowledged_chunk() {
    let kills = std::env::var("SKYHAUL_SIM_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    let (mut acknowledged, mut named) = (0, 0);
    for seed in 1..=kills {
        let (kept, others) = kill(seed).unwrap();
        acknowledged += kept;
        named += others;
    }
    assert!(acknowledged > 1000 && named > 100, "{acknowledged} acknowledged, {named} named");
}
