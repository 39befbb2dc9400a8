//! What reflectors and responders of other makers' protocols take from strangers: STAMP and udpmon.

use skyhaul_core::wire::header::Order;
use skyhaul_core::wire::stamp::{Estimate, LEN, Reflection, Stamp, TestPacket, reflect};
use skyhaul_core::wire::udpmon::{self, Command, Message, structs};

/// Every packet that is long enough is reflected, as long as it was, with what it said.
pub(crate) fn stamp(bytes: &[u8]) {
    let mut packet = bytes.to_vec();
    let before = TestPacket::read(bytes);
    match reflect(&mut packet, Stamp(5), Stamp(9), Estimate::of(1000, true).0, 64, Some(3)) {
        Ok(()) => {
            let (Some((test, rest)), Some((reflection, after))) = (before, Reflection::read(&packet)) else {
                panic!("reflected what cannot be read")
            };
            assert_eq!(
                (reflection.sender_sequence, reflection.sender_timestamp),
                (test.sequence, test.timestamp)
            );
            assert_eq!((reflection.sequence, rest), (3, after));
            let (a, b) = (Stamp(test.timestamp), Stamp(reflection.timestamp));
            let opposite = a.0.wrapping_sub(b.0) == 1 << 63;
            assert!(opposite || (i128::from(a.since(b)) + i128::from(b.since(a))).abs() <= 1);
            let _ = (a.unix(), Estimate(test.error_estimate).nanoseconds());
        }
        Err(_) => assert!(bytes.len() < LEN && packet == bytes),
    }
}

pub(crate) fn stamp_seeds() -> Vec<Vec<u8>> {
    let test = TestPacket {
        sequence: 7,
        timestamp: Stamp::of_unix(1 << 60).0,
        error_estimate: 1,
        ..Default::default()
    };
    vec![test.write().to_vec(), [&test.write()[..], &[0; 64]].concat(), test.write()[..43].to_vec()]
}

/// A message that is read is written the same, in either byte order; structures of a responder are bounded.
pub(crate) fn udpmon(bytes: &[u8]) {
    udpmon::fuzz(bytes);
}

/// A responder gives nobody more than came.
pub(crate) fn responder(bytes: &[u8]) {
    skyhaul_measure::probe::udpmon::fuzz(bytes);
}

pub(crate) fn responder_seeds() -> Vec<Vec<u8>> {
    let said = |order, command, length: u32, octets: usize| {
        let mut message = Message::new(order, command, 1);
        message.head.response_length = length;
        [&[octets as u8], &message.octets()[..octets]].concat()
    };
    let talk = |order| {
        [
            said(order, Command::ZeroStats, 1 << 30, 208),
            said(order, Command::Data, 0, 64),
            said(order, Command::Request, 9000, 100),
            said(order, Command::Start, 64, 208),
            said(order, Command::GetStats, 0, 208),
            said(order, Command::GetRecords, 1408, 208),
            said(order, Command::GetHistogram, 100, 208),
            said(order, Command::GetSnmp, 1400, 208),
            said(order, Command::GetCpu, 1400, 208),
            said(order, Command::GetNic, 136, 208),
            said(order, Command::TestEnd, 0, 24),
        ]
        .concat()
    };
    vec![talk(Order::Little), talk(Order::Big)]
}

pub(crate) fn udpmon_seeds() -> Vec<Vec<u8>> {
    let message = |order, command| Message::new(order, command, 9).octets().to_vec();
    let mut bins = structs::Bins::new(0, 0, 10, 150);
    bins.record(77);
    let text = "Udp: InDatagrams InErrors\nUdp: 5 3\n";
    vec![
        message(Order::Little, Command::ZeroStats),
        message(Order::Big, Command::Data),
        bins.octets("x", Order::Little),
        structs::snmp(("", text), ("", text), Order::Big),
    ]
}
