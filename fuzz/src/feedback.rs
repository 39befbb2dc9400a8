//! The feedback channel: whatever a stranger sends to either side, and whatever a receiver may report.

use skyhaul_core::control::{ControlConfig, Controller, Report as Came};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::feedback::{Echo, LEN, Mark, Message, Report, State, read};

/// What is read is written the same, and no series of reports drives a rate out of its bounds.
pub(crate) fn feedback(bytes: &[u8]) {
    let _ = read(bytes);
    let config = ControlConfig::default();
    let (mut control, mut now) = (Controller::new(&config), Nanos(0));
    for raw in bytes.chunks_exact(LEN) {
        let (Some((echo, rest)), Some((mark, _))) = (Echo::read(raw), Mark::read(raw)) else { return };
        let Some((state, _)) = State::read(rest) else { return };
        let Ok(Message::Mark(again)) = read(&mark.octets()) else {
            panic!("a mark that was written is none")
        };
        assert_eq!((again.session, again.time, again.packets), (mark.session, mark.time, mark.packets));
        let report = Report { echo, state };
        match read(&report.octets()) {
            Ok(Message::Report(again)) => assert_eq!(again.octets(), report.octets()),
            Ok(Message::Mark(_)) => panic!("a report became a mark"),
            Err(_) => assert!(state.socket_fill > 1000 || state.ring_fill > 1000),
        }
        now = Nanos(now.0.saturating_add(10_000_000));
        control.marked(now);
        // As the sockets do: a report of a mark that is still to be sent is not used.
        let came = Came { mark_time: Nanos(echo.mark_time % now.0.max(1)), ..Came::from(&report) };
        control.report(&came, now);
        assert!((config.least..=config.most).contains(&control.rate()));
    }
}

pub(crate) fn feedback_seeds() -> Vec<Vec<u8>> {
    let session = |n: u64| {
        let time = n * 10_000_000 + 1;
        let mark = Mark { session: 7, time, packets: n * 100, bytes: n * 147_200, ..Mark::default() };
        let echo = Echo {
            session: 7,
            mark_time: time,
            mark_packets: n * 100,
            packets: n * 99,
            bytes: n * 145_728,
            arrived: time + 5,
            ..Echo::default()
        };
        let state = State { mark_bytes: n * 147_200, socket_fill: 20, ..State::default() };
        (mark.octets().to_vec(), Report { echo, state }.octets().to_vec())
    };
    let reports: Vec<u8> = (1..20).flat_map(|n| session(n).1).collect();
    vec![session(3).0, session(3).1, reports]
}
