//! What a peer says on a control connection: messages in a stream, cut anywhere.

/// Any bytes as a stream of messages; the first chooses the limit and the pieces.
pub(crate) fn run(input: &[u8]) {
    skyhaul::peer::fuzz(input);
}

/// Small datagrams of a test of a path.
pub(crate) fn meeting(input: &[u8]) {
    skyhaul_measure::probe::udp::fuzz_datagram(input);
}

pub(crate) fn meeting_seeds() -> Vec<Vec<u8>> {
    use skyhaul_measure::probe::udp::{ControlDatagram, Handshake};
    let all = [
        Handshake::Knock([7; 16]),
        Handshake::Cookie([8; 16]),
        Handshake::Echo([9; 16]),
        Handshake::Ready,
        Handshake::Ping { number: 3, sent: 4 },
        Handshake::Pong { number: 3, sent: 4, came: 5, back: 6 },
    ];
    all.map(|meeting| ControlDatagram { test: 1, flow: 2, meeting }.octets().to_vec()).to_vec()
}

/// Orders and answers of a test of a path.
pub(crate) fn orders(input: &[u8]) {
    skyhaul_measure::probe::udp::fuzz(input);
}

pub(crate) fn orders_seeds() -> Vec<Vec<u8>> {
    let point = r#"{"size":1472,"spacing_ps":10000000,"packets":100,"longest_ns":1000000000,"mode":"single","train":1,"burst":{"packets":8,"period_ps":1000000}}"#;
    let order =
        format!(r#"{{"point":{{"run":1,"point":{point},"direction":"both","samples":9,"settle_ms":20}}}}"#);
    let rest = [
        r#"{"flows":1,"seconds":1.5,"rate":1e9,"join":false}"#,
        r#"{"test":1,"cookie":"00","ports":[1,2],"host":{"machine":"","interface":"","buffers":[1,2],"largest_datagram":1472}}"#,
        r#"{"sent":{"run":1,"packets":[100]}}"#,
        r#"{"ready":{"run":1}}"#,
        r#""end""#,
    ];
    rest.iter().map(|text| text.as_bytes().to_vec()).chain([order.into_bytes()]).collect()
}

/// One of each message.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let messages = [
        r#"{"skyhaul":1,"nonce":"00ff"}"#,
        r#"{"skyhaul":1,"nonce":"00ff","proof":"0123"}"#,
        r#"{"proof":"0123"}"#,
        r#""wrong_token""#,
        r#"{"version":2}"#,
        r#"{"run":{"service":"udp","body":{"a":[1,2.5,null]}}}"#,
        r#"{"attach":{"cookie":"00ff"}}"#,
        r#"{"queued":{"ahead":3,"seconds":12.5}}"#,
        r#""go""#,
        r#"{"refused":{"why":"busy"}}"#,
    ];
    let framed = |text: &str| [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
    let mut seeds: Vec<Vec<u8>> =
        messages.iter().map(|text| [&[9], framed(text).as_slice()].concat()).collect();
    seeds.push([vec![3], messages.map(framed).concat()].concat());
    seeds
}
