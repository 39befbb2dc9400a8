//! What clients and servers of iperf3 say: JSON behind its length, and heads of datagrams.

use skyhaul_core::placement::Nanos;
use skyhaul_measure::probe::iperf3::datagram::{HELLO, Head};
use skyhaul_measure::probe::iperf3::{Iperf3Params, Iperf3Results, StreamResult, fuzz};

pub(crate) fn run(input: &[u8]) {
    fuzz(input);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let stream = StreamResult { id: 1, bytes: 1 << 33, seconds: 10.0, ..StreamResult::default() };
    let results = Iperf3Results { streams: vec![stream; 4], ..Iperf3Results::default() };
    let udp = Iperf3Params { udp: true, wide: true, streams: 8, ..Iperf3Params::default() };
    let messages = [Iperf3Params::default().write(), udp.write(), results.write()].map(|json| {
        let text = json.to_string();
        let length = u32::try_from(text.len()).unwrap_or(0).to_be_bytes();
        [&length, text.as_bytes()].concat()
    });
    let heads = (1..40u64).flat_map(|number| Head { time: Nanos(number << 20), number }.write(true));
    messages.into_iter().chain([heads.collect(), HELLO.to_vec(), vec![0xFF; 8]]).collect()
}
