//! Dialogues of the field's programs, played against a simulated station; and hostile ones.

use super::*;
use crate::placement::Nanos;
use proptest::prelude::*;

const FRAME_BYTES: u64 = 8032;
const FRAME_RATE: u64 = 128_000;

/// A station without sockets and disks.
struct World {
    view: VsiView,
    now: Nanos,
    shared: VsiRuntimes,
    /// What happens to the next action, in place of success.
    next: Option<Trouble>,
    /// Actions that took too long, and have no outcome yet.
    late: Vec<u64>,
    /// What was opened for other hosts.
    accepted: Vec<VsiAccepted>,
}

enum Trouble {
    Fails(String),
    TakesLong,
    LabelIsTaken,
}

impl World {
    fn new() -> Self {
        let disk = |path: &str| VsiDisk {
            path: path.into(),
            free_bytes: 500_000_000_000,
            total_bytes: Some(1_000_000_000_000),
        };
        let view = VsiView {
            host: "flexbuff-mh".into(),
            program: "skyhaul 1.0.0".into(),
            built: Some("2026-11-27".into()),
            system: Some("Linux version 6.1.0".into()),
            is_ready: true,
            divides_datastreams: true,
            selects_disks: true,
            disks: vec![disk("/mnt/disk0"), disk("/mnt/disk1")],
            ..VsiView::default()
        };
        let now = Nanos(1_795_694_400 * Nanos::SECOND.0);
        Self { view, now, shared: VsiRuntimes::default(), next: None, late: Vec::new(), accepted: Vec::new() }
    }

    /// Something that happens to the station: a line of a transcript that begins with `@`.
    fn happen(&mut self, what: &str) {
        let words: Vec<&str> = what.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "wait" => self.now = self.now.plus(Nanos(number(1) * 1_000_000)),
            "receive" => {
                let recording = self.view.recordings.iter_mut().rfind(|recording| recording.is_running);
                let VsiRecording { counts, label, .. } = recording.unwrap();
                counts.packets += number(1);
                counts.received_bytes += number(1) * FRAME_BYTES;
                match words[2] {
                    "lost" => counts.lost += number(3),
                    _ => counts.discarded_bytes += number(3) * FRAME_BYTES,
                }
                counts.recorded_bytes = counts.received_bytes - counts.discarded_bytes;
                (counts.reordered, counts.extent) = (Some(0), Some(0));
                let scan = self.view.scans.iter_mut().find(|scan| scan.label == *label).unwrap();
                scan.bytes = counts.recorded_bytes;
            }
            "connected" => {
                let transfer = self.view.transfers.last_mut().unwrap();
                assert_eq!(transfer.state, VsiTransferState::Connecting);
                transfer.state = VsiTransferState::Connected;
            }
            "sending" => {
                let transfer = self.view.transfers.last_mut().unwrap();
                assert_eq!(transfer.state, VsiTransferState::Connecting);
                transfer.state = VsiTransferState::Sending;
            }
            "arrived" => self.view.arrivals.last_mut().unwrap().written_bytes += number(1),
            "lost" => self.view.arrivals.last_mut().unwrap().failure = Some(words[1..].join(" ")),
            "sent" => {
                let transfer = self.view.transfers.last_mut().unwrap();
                assert_eq!(transfer.state, VsiTransferState::Sending);
                transfer.read_bytes += number(1);
                transfer.sent_bytes += number(1);
            }
            "delivered" => {
                let transfer = self.view.transfers.last_mut().unwrap();
                (transfer.state, transfer.is_complete) = (VsiTransferState::Ended, true);
                transfer.missing = words.get(1).map(|_| number(1));
            }
            "broken" => {
                let transfer = self.view.transfers.last_mut().unwrap();
                (transfer.state, transfer.failure) = (VsiTransferState::Ended, Some(words[1..].join(" ")));
            }
            "full" => self.view.disks.iter_mut().for_each(|disk| disk.free_bytes = 0),
            "ended" => {
                let recording = self.view.recordings.iter_mut().rfind(|recording| recording.is_running);
                let recording = recording.unwrap();
                (recording.is_running, recording.failure) = (false, Some(words[1..].join(" ")));
            }
            "fail" => self.next = Some(Trouble::Fails(words[1..].join(" "))),
            "settled" => {
                let id = self.late.remove(0);
                let arrival = self.view.arrivals.iter_mut().find(|arrival| arrival.id == id);
                arrival.unwrap().is_open = false;
                let failed = || VsiOutcome::Failed(VsiCode::Failed, words[1..].join(" "));
                let outcome = if words.len() > 1 { failed() } else { VsiOutcome::Stopped };
                self.shared.settle(id, &outcome, &self.view, self.now);
            }
            "slow" => self.next = Some(Trouble::TakesLong),
            "taken" => self.next = Some(Trouble::LabelIsTaken),
            other => panic!("nothing happens by {other}"),
        }
    }

    /// Carries an action out; `None`: it takes too long.
    fn carry_out(&mut self, action: &VsiAction) -> Option<VsiOutcome> {
        let late = match self.next.take() {
            Some(Trouble::Fails(why)) => return Some(VsiOutcome::Failed(VsiCode::Failed, why)),
            Some(Trouble::LabelIsTaken) => return Some(VsiOutcome::LabelTaken),
            Some(Trouble::TakesLong) => true,
            None => false,
        };
        let outcome = match action {
            VsiAction::Start(options) => {
                let (id, label) = (options.id, options.label.clone());
                assert!(self.view.scan_number(&label).is_none() && self.view.recording(id).is_none());
                self.view.scans.push(VsiScan { label: label.clone(), bytes: 0 });
                let recording = VsiRecording { id, label, is_running: true, ..VsiRecording::default() };
                self.view.recordings.push(recording);
                VsiOutcome::Started
            }
            VsiAction::Stop { id } => {
                let recording = self.view.recordings.iter_mut().find(|recording| recording.id == *id);
                recording.unwrap().is_running = false;
                VsiOutcome::Stopped
            }
            VsiAction::Inspect { label } => VsiOutcome::Inspected(self.inspect(label)),
            VsiAction::InspectFile { path } => {
                let facts = VsiScanFacts {
                    bytes: 16_064_000,
                    format: Some("VDIF".into()),
                    tracks: Some(16),
                    start: Some(Nanos(1_795_694_400 * Nanos::SECOND.0)),
                    length: Some(Nanos(8 * Nanos::SECOND.0)),
                    track_bits_per_second: Some(1e6),
                    bytes_per_second: Some(2_008_000.0),
                    missing_bytes: Some(0),
                    frame_bytes: Some(8032),
                };
                VsiOutcome::Inspected(match path.as_str() {
                    "/data/short.vdif" => VsiScanFacts { bytes: 8032, ..facts },
                    "/data/noise" => VsiScanFacts { bytes: 1 << 30, ..VsiScanFacts::default() },
                    _ => facts,
                })
            }
            VsiAction::Connect(options) => {
                assert!(self.view.transfer(options.id).is_none());
                let size_bytes = self.view.scans[self.view.scan_number(&options.label).unwrap()].bytes;
                let (id, label, host) = (options.id, options.label.clone(), options.host.clone());
                let range = (options.write.from, options.write.to.unwrap_or(size_bytes));
                let is_at_once = matches!(options.source, VsiSource::ScanToFile | VsiSource::ScanToEtransfer);
                assert!(range.0 <= range.1 || !is_at_once);
                let transfer = VsiTransfer { id, label, host, size_bytes, range, ..VsiTransfer::default() };
                self.view.transfers.push(transfer);
                VsiOutcome::Started
            }
            VsiAction::Send { id, from, to } => {
                let transfer = self.view.transfers.iter_mut().find(|transfer| transfer.id == *id).unwrap();
                assert!(from <= to && *to <= transfer.size_bytes);
                assert_eq!(transfer.state, VsiTransferState::Connected);
                transfer.state = VsiTransferState::Sending;
                VsiOutcome::Started
            }
            VsiAction::Disconnect { id } => {
                let transfer = self.view.transfers.iter_mut().find(|transfer| transfer.id == *id).unwrap();
                transfer.state = VsiTransferState::Ended;
                VsiOutcome::Stopped
            }
            VsiAction::Accept(options) => {
                assert!(self.view.arrival(options.id).is_none());
                self.accepted.push(options.what.clone());
                let present_bytes = match &options.what {
                    VsiAccepted::File { existing: VsiExisting::Append, .. } => 12_345,
                    VsiAccepted::File { .. } | VsiAccepted::Chunks | VsiAccepted::Blocks(_) => 0,
                };
                let arrival = VsiArrival { id: options.id, is_open: true, ..VsiArrival::default() };
                self.view.arrivals.push(arrival);
                VsiOutcome::Accepting { present_bytes }
            }
            VsiAction::EndArrival { id } => {
                let arrival = self.view.arrivals.iter_mut().find(|arrival| arrival.id == *id).unwrap();
                (arrival.is_open, arrival.is_closing) = (late, true);
                match &arrival.failure {
                    Some(why) => VsiOutcome::Failed(VsiCode::Failed, why.clone()),
                    None => VsiOutcome::Stopped,
                }
            }
        };
        if late {
            self.late.extend(action.settles());
        }
        (!late).then_some(outcome)
    }

    fn inspect(&self, label: &str) -> VsiScanFacts {
        let scan = &self.view.scans[self.view.scan_number(label).unwrap()];
        let recording = self.view.recordings.iter().find(|recording| recording.label == label).unwrap();
        let frames = scan.bytes / FRAME_BYTES + recording.counts.lost;
        VsiScanFacts {
            bytes: scan.bytes,
            format: Some("VDIF".into()),
            tracks: Some(64),
            start: Some(Nanos(1_795_694_400 * Nanos::SECOND.0)),
            length: Some(Nanos(frames * Nanos::SECOND.0 / FRAME_RATE)),
            track_bits_per_second: Some(128e6),
            bytes_per_second: Some((FRAME_BYTES * FRAME_RATE) as f64),
            missing_bytes: Some(recording.counts.lost * FRAME_BYTES),
            frame_bytes: Some(8032),
        }
    }

    /// Sends bytes on a connection, and returns what is answered.
    fn send(&mut self, client: &mut Client, bytes: &[u8]) -> String {
        let mut lines = Vec::new();
        client.lines.push(bytes, |line| lines.push(line));
        let mut answers = String::new();
        for line in lines {
            let outputs = client.dialogue.handle_line(&line, &mut self.shared, &self.view, self.now);
            self.settle(client, outputs, &mut answers);
        }
        answers
    }

    fn settle(&mut self, client: &mut Client, outputs: Vec<VsiOutput>, answers: &mut String) {
        let mut outputs = std::collections::VecDeque::from(outputs);
        while let Some(output) = outputs.pop_front() {
            match output {
                VsiOutput::Reply(text) => answers.push_str(&text),
                VsiOutput::Do(action) => {
                    assert!(outputs.is_empty(), "an action is the last output");
                    assert!(client.dialogue.is_waiting() && action.deadline() < Nanos(10 * Nanos::SECOND.0));
                    let outcome = self.carry_out(&action);
                    let (shared, view) = (&mut self.shared, &self.view);
                    outputs.extend(match outcome {
                        Some(outcome) => client.dialogue.handle_done(outcome, shared, view, self.now),
                        None => client.dialogue.handle_late(shared, view, self.now),
                    });
                }
            }
        }
    }
}

struct Client {
    lines: VsiLines,
    dialogue: VsiDialogue,
}

impl Client {
    fn new(id: u64) -> Self {
        Self::of(VsiDialect::FlexBuff, id)
    }

    fn of(dialect: VsiDialect, id: u64) -> Self {
        Self { lines: VsiLines::default(), dialogue: VsiDialogue::of(dialect, id) }
    }
}

/// Whether a text is as expected; `*` stands for anything.
fn is_like(expected: &str, text: &str) -> bool {
    let (first, rest) = expected.split_once('*').unwrap_or((expected, ""));
    match (text.strip_prefix(first), expected.contains('*')) {
        (Some(behind), true) => (0..=behind.len()).any(|at| is_like(rest, &behind[at..])),
        (behind, _) => behind == Some(""),
    }
}

/// How a program ends its lines, and the end of the answers to it.
const LINE_ENDS: [(&str, &str); 4] = [("\n", "\n"), (" ;\n", "\n"), (";\r\n", "\r\n"), (";\n\r", "\n")];

/// Plays a transcript with each end of a line, in whole lines and byte by byte.
fn play(transcript: &str) {
    play_in(VsiDialect::FlexBuff, transcript);
}

fn play_in(dialect: VsiDialect, transcript: &str) {
    for (end, answered) in LINE_ENDS {
        for by_byte in [false, true] {
            let (mut world, mut client) = (World::new(), Client::of(dialect, 1));
            let mut answer: Option<String> = None;
            let lines = transcript.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            for line in lines {
                let (mark, rest) = line.split_at(2);
                match mark {
                    "@ " => world.happen(rest),
                    "> " => {
                        assert_eq!(answer, None, "an answer to this is not expected before {rest}");
                        let request = rest.trim_end_matches([' ', ';']).to_owned() + end;
                        let size = if by_byte { 1 } else { request.len() };
                        let pieces = request.as_bytes().chunks(size);
                        answer = Some(pieces.map(|piece| world.send(&mut client, piece)).collect());
                    }
                    "< " => {
                        let answer = answer.take().unwrap();
                        assert!(answer.len() <= MAX_REPLY_BYTES);
                        let text = answer.strip_suffix(answered).map(|text| match dialect {
                            VsiDialect::FlexBuff => text,
                            VsiDialect::Mark6 => text.trim_end_matches(';'),
                        });
                        let text = text.unwrap_or_else(|| panic!("{answer:?}"));
                        assert!(!text.contains(['\r', '\n']) && is_like(rest, text), "{rest}\n{text}");
                    }
                    _ => panic!("{line}"),
                }
            }
            assert_eq!(answer, None);
            let counts = client.dialogue.counts();
            assert!(counts.requests > 20);
        }
    }
}

#[test]
fn the_field_system_sets_up_an_experiment() {
    play(include_str!("tests/field-system-setup.txt"));
}

#[test]
fn the_field_system_records_scans() {
    play(include_str!("tests/field-system-scan.txt"));
}

#[test]
fn the_field_system_hears_of_errors() {
    play(include_str!("tests/field-system-errors.txt"));
}

#[test]
fn a_mark_6_records_a_vgos_session() {
    play_in(VsiDialect::Mark6, include_str!("tests/mark6-vgos.txt"));
}

#[test]
fn m5copy_prepares_a_transfer() {
    play(include_str!("tests/m5copy.txt"));
}

#[test]
fn m5copy_sends_scans_and_resumes_them() {
    play(include_str!("tests/m5copy-transfer.txt"));
}

#[test]
fn m5copy_sends_scans_to_servers_of_etransfer() {
    play(include_str!("tests/m5copy-etransfer.txt"));
}

#[test]
fn scans_become_files_of_this_host_and_files_are_checked() {
    play(include_str!("tests/field-system-files.txt"));
}

#[test]
fn m5copy_sends_chunks_and_files_in_both_directions() {
    play(include_str!("tests/m5copy-arrival.txt"));
}

#[test]
fn m5copy_records_on_a_mark_6() {
    play(include_str!("tests/m5copy-mk6.txt"));
}

#[test]
fn blocks_are_of_the_mode_and_on_the_disks_that_are_selected() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    world.view.selects_disks = false;
    let mut ask = |line: &str| world.send(&mut client, format!("{line}\n").as_bytes());
    let refused = "2 : recordings use all disks of this station ;\n";
    assert_eq!(ask("set_disks=/mnt/disk1"), format!("!set_disks = {refused}"));
    ask("record=mk6:1;net_protocol=tcp::5000000;mode=MARK5B-1024-16-2");
    assert_eq!(ask("set_disks=/mnt/disk1"), "!set_disks = 0 : 1 ;\n");
    assert_eq!(ask("record=on:a_b_c"), "!record = 0 ;\n");
    ask("record=off;record=mk6:0");
    // Neither chunks nor recordings may go to disks that were not selected.
    assert_eq!(ask("net2vbs=open"), format!("!net2vbs = {refused}"));
    assert_eq!(ask("record=on:a_b_d"), format!("!record = {refused}"));
    let blocks = VsiBlocks {
        label: "a_b_c".into(),
        packets: VsiPackets { bytes: 10_016, format: 1, mark: (0, u32::MAX, 0xABAD_DEED) },
        block_bytes: 5_000_000,
        disks: vec!["/mnt/disk1".into()],
    };
    assert_eq!(world.accepted, [VsiAccepted::Blocks(blocks)]);
}

#[test]
fn what_arrives_ends_with_its_runtime() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    let mut ask = |world: &mut World, line: &str| world.send(&mut client, format!("{line}\n").as_bytes());
    ask(&mut world, "runtime=t:transient;net_protocol=tcp");
    assert_eq!(ask(&mut world, "net2vbs=open"), "!net2vbs = 0 ;\n");
    assert_eq!(ask(&mut world, "record=on:a_b_d"), "!record = 6 : net2vbs is open already ;\n");
    assert_eq!(ask(&mut world, "runtime=t:delete"), "!runtime = 6 : t is receiving, close that first ;\n");
    assert_eq!(client.dialogue.close(&mut world.shared), [VsiAction::EndArrival { id: 1 }]);
}

#[test]
fn a_runtime_is_free_when_its_recording_was_told_to_end() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    let mut ask = |world: &mut World, line: &str| world.send(&mut client, format!("{line}\n").as_bytes());
    ask(&mut world, "runtime=t:transient;record=on:a_b_c");
    world.next = Some(Trouble::TakesLong);
    assert_eq!(ask(&mut world, "record=off"), "!record = 1 ;\n");
    // The disks are still writing. m5copy asks for these, and takes no other answer.
    world.view.recordings[0].is_running = true;
    assert_eq!(ask(&mut world, "record?"), "!record ? 0 : on : 1 : a_b_c : 0 ;\n");
    assert_eq!(ask(&mut world, "mode=none;runtime=t:delete"), "!mode = 0 ;!runtime = 0 : 0 ;\n");
}

/// What `error?` answers on a new connection, without the time.
fn next_error(world: &mut World) -> String {
    let answer = world.send(&mut Client::new(99), b"error?\n");
    answer.split(" : ").take(3).collect::<Vec<_>>().join(" : ")
}

#[test]
fn what_fails_after_an_answer_of_1_is_an_error_for_any_client() {
    let failed = |why: &str| VsiOutcome::Failed(VsiCode::Failed, why.into());
    let settle = |world: &mut World, outcome: &VsiOutcome| {
        let id = world.late.remove(0);
        world.shared.settle(id, outcome, &world.view, world.now);
    };
    let ask = |world: &mut World, client: &mut Client, line: &str| {
        world.send(client, format!("{line}\n").as_bytes())
    };
    let (mut world, mut client) = (World::new(), Client::new(1));
    ask(&mut world, &mut client, "runtime=t:transient");
    // A recording that could not begin; the label is free again.
    world.next = Some(Trouble::TakesLong);
    assert_eq!(ask(&mut world, &mut client, "record=on:a_b_c"), "!record = 1 ;\n");
    (world.view.recordings, world.view.scans) = (Vec::new(), Vec::new());
    settle(&mut world, &failed("no disk responds"));
    assert_eq!(next_error(&mut world), "!error ? 0 : 1001 : cannot record a_b_c, no disk responds");
    // One that fails while its last bytes are written, when the runtime records again already.
    assert_eq!(ask(&mut world, &mut client, "record=on:a_b_c"), "!record = 0 ;\n");
    world.next = Some(Trouble::TakesLong);
    assert_eq!(ask(&mut world, &mut client, "record=off"), "!record = 1 ;\n");
    world.view.recordings[0].is_running = true;
    assert_eq!(ask(&mut world, &mut client, "record=on:a_b_d"), "!record = 0 ;\n");
    (world.view.recordings[0].is_running, world.view.recordings[0].failure) =
        (false, Some("disk full".into()));
    settle(&mut world, &VsiOutcome::Stopped);
    assert_eq!(next_error(&mut world), "!error ? 0 : 1002 : recording a_b_c ended, disk full");
    // One whose runtime asks before the outcome is known: one error, not two.
    world.next = Some(Trouble::TakesLong);
    assert_eq!(ask(&mut world, &mut client, "record=off"), "!record = 1 ;\n");
    (world.view.recordings[1].is_running, world.view.recordings[1].failure) =
        (false, Some("disk full".into()));
    ask(&mut world, &mut client, "mtu?");
    settle(&mut world, &VsiOutcome::Stopped);
    assert_eq!(next_error(&mut world), "!error ? 0 : 1002 : recording a_b_d ended, disk full");
    assert_eq!(next_error(&mut world), "!error ? 0 :  : ");
    // Chunks that are not written when the connection, and its runtime with it, has gone.
    assert_eq!(
        ask(&mut world, &mut client, "net_protocol=tcp;net2vbs=open"),
        "!net_protocol = 0 ;!net2vbs = 0 ;\n"
    );
    world.next = Some(Trouble::TakesLong);
    assert_eq!(ask(&mut world, &mut client, "net2vbs=close"), "!net2vbs = 1 ;\n");
    assert_eq!(client.dialogue.close(&mut world.shared), []);
    settle(&mut world, &failed("a/a.00000001, no disk has room for it"));
    assert_eq!(next_error(&mut world), "!error ? 0 : 1003 : a/a.00000001, no disk has room for it");
    // A transfer that fails, and a client that goes without asking.
    let mut client = Client::new(2);
    ask(&mut world, &mut client, "runtime=u:transient;net_protocol=tcp;scan_set=a_b_c");
    assert_eq!(ask(&mut world, &mut client, "disk2net=connect:10.0.0.1"), "!disk2net = 1 ;\n");
    world.happen("broken nobody listens there");
    world.shared.notice(&world.view, world.now);
    assert_eq!(client.dialogue.close(&mut world.shared), []);
    assert_eq!(
        next_error(&mut world),
        "!error ? 0 : 1003 : transfer of a_b_c to 10.0.0.1 ended, nobody listens there"
    );
    // What ends with its connection, too.
    let mut client = Client::new(3);
    ask(&mut world, &mut client, "runtime=v:transient;net_protocol=tcp;net2vbs=open");
    let ends = client.dialogue.close(&mut world.shared);
    let [VsiAction::EndArrival { id }] = ends[..] else { panic!("{ends:?}") };
    world.shared.settle(id, &failed("no disk has room"), &world.view, world.now);
    assert_eq!(next_error(&mut world), "!error ? 0 : 1003 : no disk has room");
}

#[test]
fn a_transfer_ends_with_its_runtime() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    let mut ask = |world: &mut World, line: &str| world.send(&mut client, format!("{line}\n").as_bytes());
    ask(&mut world, "runtime=t:transient;record=on:a_b_c");
    world.happen("receive 1000 lost 0");
    ask(&mut world, "record=off;net_protocol=tcp;scan_set=a_b_c");
    assert_eq!(ask(&mut world, "disk2net=connect:10.0.0.1"), "!disk2net = 1 ;\n");
    world.happen("connected");
    assert_eq!(ask(&mut world, "status?"), "!status ? 0 : 0x00004009 ;\n");
    let refused = "!runtime = 6 : t is sending, use disk2net=disconnect first ;\n";
    assert_eq!(ask(&mut world, "runtime=t:delete"), refused);
    assert_eq!(ask(&mut world, "record=on:a_b_d"), "!record = 6 : sending a_b_c already ;\n");
    let ends = client.dialogue.close(&mut world.shared);
    assert_eq!(ends, [VsiAction::Disconnect { id: 2 }]);
}

#[test]
fn runtimes_are_apart_and_transient_ones_end_with_their_connection() {
    let (mut world, mut first, mut second) = (World::new(), Client::new(1), Client::new(2));
    let of = |world: &mut World, client: &mut Client, line: &str| world.send(client, line.as_bytes());
    assert_eq!(of(&mut world, &mut first, "runtime=a:transient\n"), "!runtime = 0 : a ;\n");
    assert_eq!(of(&mut world, &mut first, "mtu=1500;record=on:x_y_z\n"), "!mtu = 0 ;!record = 0 ;\n");
    assert_eq!(of(&mut world, &mut second, "mtu?;record?\n"), "!mtu ? 0 : 9000 ;!record ? 0 : off ;\n");
    // The station is busy, but this runtime records nothing.
    world.view.is_active = true;
    assert_eq!(of(&mut world, &mut second, "status?\n"), "!status ? 0 : 0x00000009 ;\n");
    assert_eq!(
        of(&mut world, &mut second, "runtime=a:exists;mtu?\n"),
        "!runtime = 0 : a ;!mtu ? 0 : 1500 ;\n"
    );
    for refused in ["runtime=a:new", "runtime=a:transient", "runtime=a:delete", "runtime=b:exists"] {
        let answer = of(&mut world, &mut second, &format!("{refused}\n"));
        assert!(answer.starts_with("!runtime = 6 : "), "{answer}");
    }
    let stops = first.dialogue.close(&mut world.shared);
    assert_eq!(stops, [VsiAction::Stop { id: 1 }]);
    let answer = of(&mut world, &mut second, "mtu?\n");
    assert_eq!(answer, "!mtu ? 4 : runtime a has been deleted ;\n");
    assert_eq!(
        of(&mut world, &mut second, "runtime=0;runtime?\n"),
        "!runtime = 0 : 0 ;!runtime ? 0 : 0 : 1 ;\n"
    );
}

#[test]
fn everything_that_clients_can_make_is_bounded() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    for n in 0..2 * MAX_RUNTIMES {
        world.send(&mut client, format!("runtime=r{n}\n").as_bytes());
    }
    assert_eq!(world.shared.names().count(), MAX_RUNTIMES);
    let long = "x".repeat(MAX_RUNTIME_NAME_BYTES + 1);
    for bad in [long.as_str(), "", "a:b", "a:new:c"] {
        let answer = world.send(&mut client, format!("runtime={bad}\n").as_bytes());
        assert!(answer.starts_with("!runtime = 8 : "), "{answer}");
    }
    for n in 0..2 * MAX_DATASTREAMS {
        world.send(&mut client, format!("datastream=add:s{n}:*\n").as_bytes());
    }
    let answer = world.send(&mut client, b"datastream?\n");
    assert!(answer.starts_with(&format!("!datastream ? 0 : {MAX_DATASTREAMS} : s0 : ")));
    // The answers to a full line of requests are lines that the Field System can read.
    let answers = world.send(&mut client, "a?;".repeat(MAX_LINE_BYTES / 3).as_bytes());
    assert_eq!(answers, "");
    let answers = world.send(&mut client, b"\n");
    assert_eq!(answers.matches("!a ? 7 ").count(), MAX_LINE_BYTES / 3);
    assert!(answers.split_inclusive('\n').all(|line| line.len() <= MAX_REPLY_BYTES));
}

#[test]
fn fifty_three_recordings_of_a_label_are_the_most() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    for _ in 0..53 {
        let answer = world.send(&mut client, b"record=on:x_y_z;record=off\n");
        assert_eq!(answer, "!record = 0 ;!record = 0 ;\n");
    }
    assert_eq!(world.view.scans.last().unwrap().label, "x_y_zZ");
    let answer = world.send(&mut client, b"record=on:x_y_z\n");
    assert_eq!(answer, "!record = 6 : there are 53 recordings of the label x_y_z ;\n");
}

#[test]
fn what_a_station_cannot_do_is_not_accepted() {
    let (mut world, mut client) = (World::new(), Client::new(1));
    (world.view.divides_datastreams, world.view.selects_disks) = (false, false);
    let port = VsiPort { port: 46227, ..VsiPort::default() };
    world.view.default_ports = vec![port];
    let line =
        b"datastream=clear;datastream=add:ds{thread}:*;set_disks=/mnt/disk1;set_disks=flexbuff;net_port?\n";
    assert_eq!(
        world.send(&mut client, line),
        "!datastream = 0 ;!datastream = 2 : threads are recorded together here, none goes to a file of its own ;\
         !set_disks = 2 : recordings use all disks of this station ;!set_disks = 0 : 2 ;!net_port ? 0 : 46227 ;\n"
    );
}

#[test]
fn lines_wait_while_an_action_is_carried_out() {
    let (mut world, mut dialogue) = (World::new(), VsiDialogue::new(1));
    let line = |text: &str| VsiLine::Text { bytes: text.into(), crlf: false };
    let (shared, view, now) = (&mut world.shared, &world.view, world.now);
    let outputs = dialogue.handle_line(&line("mtu?;record=on:a_b_c;mtu?"), shared, view, now);
    assert!(matches!(&outputs[..], [VsiOutput::Do(VsiAction::Start(_))]));
    assert_eq!(dialogue.handle_line(&line("ipd?"), shared, view, now), []);
    for _ in 0..3 * MAX_WAITING_REQUESTS {
        dialogue.handle_line(&line("mtu?"), shared, view, now);
    }
    assert!(dialogue.counts().rejected > MAX_WAITING_REQUESTS as u64);
    let outputs = dialogue.handle_done(VsiOutcome::Started, shared, view, now);
    let reply = |text: &str| VsiOutput::Reply(text.into());
    assert_eq!(outputs[0], reply("!mtu ? 0 : 9000 ;!record = 0 ;!mtu ? 0 : 9000 ;\n"));
    assert_eq!(outputs[1], reply("!ipd ? 0 : 0 ;\n"));
    assert!(outputs.len() <= MAX_WAITING_REQUESTS);
    // An outcome that nobody waits for changes nothing.
    assert_eq!(dialogue.handle_done(VsiOutcome::Stopped, shared, view, now), []);
    assert_eq!(dialogue.handle_late(shared, view, now), []);
}

/// Words of the protocol, from which lines are made that reach deep.
const WORDS: &[&str] = &[
    "input_stream",
    "group",
    "mstat",
    "list",
    "msg",
    "open",
    "protect",
    "commit",
    "input_stream=add:a:vdif:8224:42:66:eth2:127.0.0.1:12000",
    "record=on:30:30",
    "2026y330d12h00m09s",
    "mode",
    "mtu",
    "net_protocol",
    "net_port",
    "record",
    "datastream",
    "status",
    "error",
    "scan_check",
    "scan_set",
    "rtime",
    "dts_id",
    "os_rev",
    "version",
    "evlbi",
    "tstat",
    "clock_set",
    "play_rate",
    "set_disks",
    "runtime",
    "echo",
    "dir_info",
    "scandir",
    "reset",
    "ipd",
    "disk2net",
    "disk2etransfer",
    "disk2file",
    "file_check",
    "resume",
    "net2vbs",
    "close",
    "+5",
    "connect",
    "disconnect",
    "10.0.0.1",
    "tcp",
    "+1000",
    "on",
    "off",
    "nthread",
    "mk6",
    "add",
    "clear",
    "remove",
    "reset",
    "transient",
    "delete",
    "new",
    "exists",
    "VDIF_8000-8192-64-2",
    "ext",
    "0xffffffff",
    "none",
    "vdif",
    "64",
    "8000",
    "udpsnor",
    "32M",
    "n26c3_mh_no0001",
    "a_b_c",
    "next",
    "inc",
    "dec",
    "s+",
    "+30s",
    "-30s",
    "12h00m00s",
    "2026y330d12h00m00s",
    "18446744073709551615",
    "%t%L%U%",
    "*",
    "/mnt/disk?",
    "ds{thread}",
    "1.2.3.4@5=a",
    "-1",
];

fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => proptest::sample::select(WORDS).prop_map(|word| word.as_bytes().to_vec()),
        6 => proptest::sample::select(&["=", "?", ":", ";", " : ", "\n", "\r\n", "\n\r"][..])
            .prop_map(|mark| mark.as_bytes().to_vec()),
        3 => proptest::sample::select(&["=", "?", ":", "\n"][..]).prop_map(|mark| mark.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    /// Whatever the connections of a station send, each answer is a line with a code that fits into the Field System's buffer,
    /// and an honest client between them is answered.
    #[test]
    fn any_bytes_lead_to_answers(pieces in proptest::collection::vec((piece(), any::<bool>()), 0..40)) {
        let mut world = World::new();
        let (mut clients, mut honest) = ([Client::new(1), Client::of(VsiDialect::Mark6, 2)], Client::new(3));
        for (bytes, which) in &pieces {
            let client = &mut clients[usize::from(*which)];
            let answers = world.send(client, bytes);
            for line in answers.lines() {
                prop_assert!(line.len() + 2 <= MAX_REPLY_BYTES && line.starts_with('!') && line.ends_with(';'), "{}", line);
                prop_assert!(line.bytes().all(|b| (b' '..=b'~').contains(&b)), "{}", line);
                for answer in line.split_inclusive(';') {
                    // The first sign is that of the answer; a field may have one, too.
                    let code = match which {
                        false => {
                            let (_, rest) = answer.split_once(' ').unwrap();
                            rest.strip_prefix("= ").or_else(|| rest.strip_prefix("? ")).unwrap()
                        }
                        true => &answer[answer.find(['=', '?']).unwrap() + 1..],
                    };
                    prop_assert!(code.starts_with(|c: char| c.is_ascii_digit()), "{}", answer);
                    prop_assert!([b' ', b':'].contains(&code.as_bytes()[1]), "{}", answer);
                }
            }
        }
        let answer = world.send(&mut honest, b"status?\n");
        prop_assert!(answer.starts_with("!status ? 0 : 0x"), "{}", answer);
        for client in clients {
            for action in client.dialogue.close(&mut world.shared) {
                world.carry_out(&action);
            }
        }
    }
}
