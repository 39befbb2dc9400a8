//! What a peer says on a control connection: messages in a stream, cut anywhere.

/// Any bytes as a stream of messages; the first chooses the limit and the pieces.
pub(crate) fn run(input: &[u8]) {
    skyhaul::peer::fuzz(input);
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
    let mut seeds: Vec<Vec<u8>> = messages.iter().map(|text| [&[9], framed(text).as_slice()].concat()).collect();
    seeds.push([vec![3], messages.map(framed).concat()].concat());
    seeds
}
