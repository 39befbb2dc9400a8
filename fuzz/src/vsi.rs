//! The VSI-S dialogue: whatever a client sends, each answer is one line with a code that fits into the Field System's buffer, and each
//! action is one at a time. The first byte chooses how the station responds to actions.

use skyhaul_core::placement::Nanos;
use skyhaul_core::vsi::{
    ChunkHead, MAX_REPLY_BYTES, VsiAcceptOptions, VsiAction, VsiArrival, VsiCode, VsiDialogue, VsiDisk,
    VsiLines, VsiOutcome, VsiOutput, VsiRecording, VsiRuntimes, VsiScan, VsiScanFacts, VsiTransfer,
    VsiTransferState, VsiView, chunk_list, parse_chunk_list,
};
use std::collections::VecDeque;

pub(crate) fn run(bytes: &[u8]) {
    chunks(bytes);
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let disk =
        |n: u8| VsiDisk { path: format!("/mnt/disk{n}"), free_bytes: 1 << 40, total_bytes: Some(1 << 41) };
    let mut view = VsiView { is_ready: true, disks: (0..4).map(disk).collect(), ..VsiView::default() };
    (view.divides_datastreams, view.selects_disks) = (choice & 1 > 0, choice & 2 > 0);
    let (mut lines, mut found) = (VsiLines::default(), Vec::new());
    let size = usize::from(choice >> 4) + 1;
    bytes.chunks(size * size).for_each(|piece| lines.push(piece, |line| found.push(line)));
    found.extend(lines.flush());
    let (mut shared, mut dialogue) = (VsiRuntimes::default(), VsiDialogue::new(1));
    let mut now = Nanos(1_795_694_400 * Nanos::SECOND.0);
    for line in found {
        now = now.plus(Nanos(u64::from(choice) * 1_000_000));
        let mut outputs = VecDeque::from(dialogue.handle_line(&line, &mut shared, &view, now));
        while let Some(output) = outputs.pop_front() {
            match output {
                VsiOutput::Reply(text) => answered(&text),
                VsiOutput::Do(action) => {
                    assert!(outputs.is_empty() && dialogue.is_waiting());
                    let outcome = carry_out(&mut view, action, choice);
                    outputs.extend(match outcome {
                        Some(outcome) => dialogue.handle_done(outcome, &mut shared, &view, now),
                        None => dialogue.handle_late(&mut shared, &view, now),
                    });
                }
            }
        }
        assert!(!dialogue.is_waiting());
    }
    for action in dialogue.close(&mut shared) {
        assert!(matches!(
            action,
            VsiAction::Stop { .. } | VsiAction::Disconnect { .. } | VsiAction::EndArrival { .. }
        ));
    }
}

/// The bytes as what another host sends to `net2vbs`: no name leads elsewhere, and what was read is written as it is read.
fn chunks(bytes: &[u8]) {
    if let Ok(head) = ChunkHead::parse(bytes) {
        assert_eq!(ChunkHead::parse(&head.to_bytes()), Ok(head));
    }
    let names = parse_chunk_list(bytes);
    assert!(names.iter().all(|name| !name.directory().contains(['/', '.', '\0'])));
    assert_eq!(parse_chunk_list(&chunk_list(&names)), names);
}

fn answered(text: &str) {
    assert!(text.len() <= MAX_REPLY_BYTES, "{text:?}");
    let line = text.strip_suffix('\n').unwrap_or_else(|| panic!("{text:?}"));
    let line = line.strip_suffix('\r').unwrap_or(line);
    assert!(line.starts_with('!') && line.ends_with(';'), "{text:?}");
    assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{text:?}");
}

fn carry_out(view: &mut VsiView, action: VsiAction, choice: u8) -> Option<VsiOutcome> {
    match action {
        VsiAction::Start(_) if choice & 12 == 4 => {
            Some(VsiOutcome::Failed(VsiCode::Failed, "a\n;:é".repeat(999)))
        }
        VsiAction::Start(_) if choice & 12 == 8 => Some(VsiOutcome::LabelTaken),
        VsiAction::Start(options) => {
            let (id, label) = (options.id, options.label);
            view.scans.push(VsiScan { label: label.clone(), bytes: 8032 * id });
            view.recordings.push(VsiRecording { id, label, is_running: true, ..VsiRecording::default() });
            (choice & 12 == 0).then_some(VsiOutcome::Started)
        }
        VsiAction::Stop { id } => {
            let recording = view.recordings.iter_mut().find(|recording| recording.id == id);
            recording.expect("only what was started is stopped").is_running = false;
            Some(VsiOutcome::Stopped)
        }
        VsiAction::Inspect { label } => {
            let at = view.scan_number(&label)?;
            Some(VsiOutcome::Inspected(VsiScanFacts {
                bytes: view.scans[at].bytes,
                format: (choice & 1 > 0).then(|| "VDIF".to_owned()),
                start: Some(Nanos(u64::from(choice) << 54)),
                bytes_per_second: Some(f64::from(choice) * 1e9),
                frame_bytes: Some(u32::from(choice)),
                ..VsiScanFacts::default()
            }))
        }
        VsiAction::InspectFile { path } => Some(VsiOutcome::Inspected(VsiScanFacts {
            bytes: u64::from(choice) << path.len().min(24),
            format: (choice & 1 > 0).then(|| "VDIF".to_owned()),
            ..VsiScanFacts::default()
        })),
        VsiAction::Connect(options) => {
            let (id, label, host) = (options.id, options.label, options.host);
            let size_bytes = view.scan_number(&label).map_or(0, |at| view.scans[at].bytes);
            let state = [VsiTransferState::Connecting, VsiTransferState::Connected][usize::from(choice & 1)];
            view.transfers.push(VsiTransfer { id, label, host, state, size_bytes, ..VsiTransfer::default() });
            (choice & 2 > 0).then_some(VsiOutcome::Started)
        }
        VsiAction::Send { id, from, to } => {
            let transfer = view.transfers.iter_mut().find(|transfer| transfer.id == id);
            let transfer = transfer.expect("only what was connected sends");
            assert!(from <= to && to <= transfer.size_bytes && transfer.state == VsiTransferState::Connected);
            (transfer.state, transfer.sent_bytes) = (VsiTransferState::Sending, u64::from(choice));
            (choice & 4 > 0).then_some(VsiOutcome::Started)
        }
        VsiAction::Disconnect { id } => {
            let transfer = view.transfers.iter_mut().find(|transfer| transfer.id == id);
            let transfer = transfer.expect("only what was connected is disconnected");
            (transfer.state, transfer.is_complete) = (VsiTransferState::Ended, choice & 8 > 0);
            Some(VsiOutcome::Stopped)
        }
        VsiAction::Accept(options) => accept(view, &options, choice),
        VsiAction::EndArrival { id } => end_arrival(view, id, choice),
    }
}

fn accept(view: &mut VsiView, options: &VsiAcceptOptions, choice: u8) -> Option<VsiOutcome> {
    assert!(view.arrival(options.id).is_none(), "a number is given once");
    if choice & 12 == 4 {
        return Some(VsiOutcome::Failed(VsiCode::Failed, "a\n;:é".repeat(999)));
    }
    let written_bytes = u64::from(choice) << 56;
    let arrival = VsiArrival { id: options.id, is_open: true, written_bytes, ..VsiArrival::default() };
    view.arrivals.push(arrival);
    (choice & 12 == 0).then_some(VsiOutcome::Accepting { present_bytes: u64::MAX })
}

fn end_arrival(view: &mut VsiView, id: u64, choice: u8) -> Option<VsiOutcome> {
    if let Some(arrival) = view.arrivals.iter_mut().find(|arrival| arrival.id == id) {
        arrival.is_open = false;
    }
    match choice & 3 {
        0 => None,
        1 => Some(VsiOutcome::Failed(VsiCode::Failed, "é;".repeat(999))),
        _ => Some(VsiOutcome::Stopped),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let dialogues = [
        "\0mode = VDIF_8000-8192-64-2 ;\nmtu = 9000 ;\nnet_protocol = udpsnor : 128000000 : 256000000 : 4 ;\nnet_port = 1.2.3.4@5=a:6=b\n",
        "\u{1}record=nthread::3;record=on:n26c3_mh_no0001:x:y;record?;evlbi=%t%l%L%U;tstat?;record=off;scan_check?;\r\n",
        "\u{3}record=on:a_b_c\nrecord=off\nscan_set=a:12h00m00s:+30s;scan_set=next:-100:-1s;scan_set?;scan_check?1:2\n",
        "\u{2}runtime=x:transient;datastream=add:ds{thread}:@1/ke.0-3,8;set_disks=/mnt/*:mk6;runtime=x:delete;runtime?\n",
        "\u{f}record=on:a_b_c;record=off;scan_set=a_b_c;disk2file=/d/x:10:+20:resume:5;disk2file?;reset=abort;file_check?1:5M:/d/x\n",
        "\u{4}record=on:a_b_c;status?;error?;mode=ext:0xff:2;clock_set=32:int;play_rate?;ipd=5000ns;rtime?;scandir?1\n",
        "\u{8}record=on:a_b_c\n;;= ?\n\rfoo?bar;\n\r",
        "\u{2}net_protocol=tcp;net_port=2630;net2vbs=open;net2vbs?;tstat=;net2vbs=close;net2file=open:/data/a,w;net2file?;net2file=close\n",
        "\u{1}net_protocol=tcp\nnet2file=open:a,a\nnet2file=stop\nnet2disk=open:a_b_c;net2disk=close;vbs2net=connect:h;file2net=connect:h:/a\n",
        "\u{f}record=on:a_b_c\nrecord=off\nnet_protocol=tcp;scan_set=a_b_c;disk2net=connect:h;disk2net=on:+9:+99;disk2net?;reset=abort;disk2net?\n",
    ];
    let heads = [
        "fileName: a_b/a_b.00000007\0fileSize: 255995904\0\0",
        "payloadSize: 27\0requestRsync: a_b\0\0",
        "listType: need\0rsyncReplySz: 17\0\0",
        "a_b/a_b.00000007\0",
    ];
    dialogues.iter().chain(&heads).map(|text| text.as_bytes().to_vec()).collect()
}
