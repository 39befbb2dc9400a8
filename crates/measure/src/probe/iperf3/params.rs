//! The JSON of a test: the parameters that a client sends to a server, and the results that both exchange.

use super::control::{Iperf3State, PARAMETERS, RESULTS, code, judged};
use crate::probe::TestDirection;
use serde_json::{Map, Value, json};
use skyhaul_io::quantity::{Rate, Size};
use std::time::Duration;

/// Longest test, and longest omitted time, that the protocol knows.
const LONGEST: u64 = 86_400;
const LONGEST_OMIT: u64 = 600;
/// Streams in one direction.
const STREAMS: u64 = 128;
/// Longest block of TCP, and of UDP: what fits into a datagram of IPv4.
const LONGEST_BLOCK: u64 = 1 << 20;
const LONGEST_DATAGRAM: u64 = 65_507;
/// Shortest datagram: seconds, microseconds, a counter of 64 bits.
const SHORTEST_DATAGRAM: u64 = 16;
const LARGEST_SEGMENT: u64 = 32_767;
/// TCP's own limit; iperf3 itself stops at 512 MiB.
const LARGEST_WINDOW: u64 = 1 << 30;

/// The parameters of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iperf3Params {
    /// Datagrams instead of connections (`-u`).
    pub udp: bool,
    /// Which way.
    pub way: TestDirection,
    /// Streams in each direction (`-P`).
    pub streams: usize,
    /// Time of the test (`-t`); zero: until `bytes` or `blocks`, or without end.
    pub time: Duration,
    /// Time at the beginning that is not counted (`-O`).
    pub omit: Duration,
    /// Bytes of all streams together (`-n`); 0: no limit.
    pub bytes: u64,
    /// Blocks of all streams together (`-k`); 0: no limit.
    pub blocks: u64,
    /// Bytes of a block, or of a datagram (`-l`).
    pub block: Size,
    /// Send and receive buffer (`-w`).
    pub window: Option<Size>,
    /// Rate of each stream (`-b`); 0: as fast as possible.
    pub rate: Rate,
    /// Rate of each stream below which the kernel spaces segments (`--fq-rate`).
    pub pacing: Rate,
    /// Datagrams of a burst (`-b RATE/BURST`); 0: chosen by the sender.
    pub burst: u32,
    /// Largest segment (`-M`).
    pub segment: Option<u32>,
    /// `TCP_NODELAY` (`-N`).
    pub no_delay: bool,
    /// Octet of type of service (`-S`).
    pub tos: u8,
    /// Congestion control (`-C`).
    pub congestion: Option<String>,
    /// Counters of 64 bits in datagrams (`--udp-counters-64bit`).
    pub wide: bool,
    /// Send without copying (`-Z`).
    pub zero_copy: bool,
    /// The server's report is wanted, too (`--get-server-output`).
    pub server_output: bool,
    /// A line of text before every line (`-T`).
    pub title: Option<String>,
    /// Version of the client.
    pub version: String,
}

impl Default for Iperf3Params {
    fn default() -> Self {
        Self {
            udp: false,
            way: TestDirection::Forward,
            streams: 1,
            time: Duration::from_secs(10),
            omit: Duration::ZERO,
            bytes: 0,
            blocks: 0,
            block: Size::from_bytes(128 << 10),
            window: None,
            rate: Rate::default(),
            pacing: Rate::default(),
            burst: 0,
            segment: None,
            no_delay: false,
            tos: 0,
            congestion: None,
            wide: false,
            zero_copy: false,
            server_output: false,
            title: None,
            version: String::new(),
        }
    }
}

/// Why parameters are refused: the number that iperf3 gives it, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedParams {
    /// One of [`code`].
    pub code: u32,
    /// What is wrong.
    pub text: String,
}

fn refused(code: u32, text: impl Into<String>) -> RefusedParams {
    RefusedParams { code, text: text.into() }
}

/// A whole number that is not negative; what is absent is 0. cJSON writes large ones with an exponent.
fn number(object: &Map<String, Value>, name: &str, code: u32, most: u64) -> Result<u64, RefusedParams> {
    let Some(value) = object.get(name) else { return Ok(0) };
    let whole = |float: f64| (0.0..9.0e18).contains(&float).then_some(float as u64);
    let number = value.as_u64().or_else(|| value.as_f64().and_then(whole));
    match number {
        Some(number) if number <= most => Ok(number),
        Some(number) => Err(refused(code, format!("`{name}` is {number}, expected at most {most}"))),
        None => Err(refused(code, format!("`{name}` is not a number from 0 on"))),
    }
}

/// Text, cut at a length that no report minds.
fn text(object: &Map<String, Value>, name: &str) -> Option<String> {
    let text = object.get(name)?.as_str()?;
    Some(text.chars().filter(|c| !c.is_control()).take(128).collect())
}

impl Iperf3Params {
    /// Read what a client sent.
    ///
    /// # Errors
    /// A value is missing, of another type, or outside its limits.
    pub fn read(json: &Value) -> Result<Self, RefusedParams> {
        let object = json.as_object().ok_or_else(|| refused(code::PARAMETERS, "not an object"))?;
        let has = |name: &str| object.get(name).and_then(Value::as_bool).unwrap_or(false);
        // Some flags are written as numbers.
        let flag =
            |name: &str| object.get(name).is_some_and(|v| v.as_bool().unwrap_or(v.as_f64() != Some(0.0)));
        let count = |name, code, most| number(object, name, code, most);
        if has("sctp") || has("mptcp") {
            return Err(refused(code::UNKNOWN, "only TCP and UDP are supported"));
        }
        let udp = has("udp");
        if !udp && !has("tcp") {
            return Err(refused(code::PARAMETERS, "neither `tcp` nor `udp`"));
        }
        let way = match (has("bidirectional"), has("reverse")) {
            (true, _) => TestDirection::Both,
            (false, true) => TestDirection::Reverse,
            (false, false) => TestDirection::Forward,
        };
        let streams = count("parallel", code::STREAMS, STREAMS)?.max(1);
        let burst = count("burst", code::UNKNOWN, 1000)?;
        let window = count("window", code::WINDOW, LARGEST_WINDOW)?;
        let segment = count("MSS", code::SEGMENT, LARGEST_SEGMENT)?;
        Ok(Self {
            udp,
            way,
            streams: usize::try_from(streams).unwrap_or(1),
            time: Duration::from_secs(count("time", code::DURATION, LONGEST)?),
            omit: Duration::from_secs(count("omit", code::OMIT, LONGEST_OMIT)?),
            bytes: count("num", code::PARAMETERS, u64::MAX)?,
            blocks: count("blockcount", code::PARAMETERS, u64::MAX)?,
            block: Size::from_bytes(block(count("len", code::BLOCK, u64::MAX)?, udp)?),
            window: Some(window).filter(|&bytes| bytes > 0).map(Size::from_bytes),
            rate: Rate::from_bits_per_second(count("bandwidth", code::PARAMETERS, u64::MAX)?),
            pacing: Rate::from_bits_per_second(count("fqrate", code::PARAMETERS, u64::MAX)?),
            burst: u32::try_from(burst).unwrap_or(0),
            segment: u32::try_from(segment).ok().filter(|&bytes| bytes > 0),
            no_delay: has("nodelay"),
            tos: u8::try_from(count("TOS", code::PARAMETERS, 255)?).unwrap_or(0),
            congestion: text(object, "congestion").filter(|name| !name.is_empty()),
            wide: flag("udp_counters_64bit"),
            zero_copy: flag("zerocopy"),
            server_output: flag("get_server_output"),
            title: text(object, "title"),
            version: text(object, "client_version").unwrap_or_default(),
        })
    }

    /// Write them as a client does.
    #[must_use]
    pub fn write(&self) -> Value {
        let mut json = json!({
            (if self.udp { "udp" } else { "tcp" }): true,
            "omit": self.omit.as_secs(),
            "time": self.time.as_secs(),
            "num": self.bytes,
            "blockcount": self.blocks,
            "parallel": self.streams,
            "len": self.block.bytes(),
            "pacing_timer": 1000,
            "client_version": self.version,
        });
        let mut set = |yes: bool, name: &str, value: Value| {
            if yes {
                json[name] = value;
            }
        };
        set(self.way == TestDirection::Reverse, "reverse", true.into());
        set(self.way == TestDirection::Both, "bidirectional", true.into());
        set(self.segment.is_some(), "MSS", self.segment.into());
        set(self.no_delay, "nodelay", true.into());
        set(self.window.is_some(), "window", self.window.map(Size::bytes).into());
        set(self.rate != Rate::default(), "bandwidth", self.rate.bits_per_second().into());
        set(self.pacing != Rate::default(), "fqrate", self.pacing.bits_per_second().into());
        set(self.burst > 0, "burst", self.burst.into());
        set(self.tos != 0, "TOS", self.tos.into());
        set(self.congestion.is_some(), "congestion", self.congestion.clone().into());
        set(self.title.is_some(), "title", self.title.clone().into());
        set(self.wide, "udp_counters_64bit", 1.into());
        set(self.zero_copy, "zerocopy", 1.into());
        set(self.server_output, "get_server_output", 1.into());
        json
    }

    /// Bytes that end it, if a number of bytes or blocks does.
    #[must_use]
    pub fn amount(&self) -> Option<u64> {
        match (self.bytes, self.blocks) {
            (0, 0) => None,
            (0, blocks) => Some(blocks.saturating_mul(self.block.bytes())),
            (bytes, _) => Some(bytes),
        }
    }

    /// Streams that the client opens, in both directions together.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.streams * if self.way == TestDirection::Both { 2 } else { 1 }
    }
}

fn block(bytes: u64, udp: bool) -> Result<u64, RefusedParams> {
    match (udp, bytes) {
        // A client of iperf3 that does not know a better length leaves it to the server.
        (true, 0) => Ok(1460),
        (true, SHORTEST_DATAGRAM..=LONGEST_DATAGRAM) | (false, 1..=LONGEST_BLOCK) => Ok(bytes),
        (true, _) => Err(refused(
            code::DATAGRAM,
            format!("datagrams of {bytes} bytes: expected {SHORTEST_DATAGRAM} to {LONGEST_DATAGRAM}"),
        )),
        (false, _) => {
            Err(refused(code::BLOCK, format!("blocks of {bytes} bytes: expected 1 to {LONGEST_BLOCK}")))
        }
    }
}

/// Streams in one message of results, more than any test has.
const MAX_STREAMS: usize = 512;

/// One end's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Iperf3Results {
    /// CPU time in percent of one CPU: all, user, system.
    pub cpu: [f64; 3],
    /// Whether the sender counts what it sends again; `None`: this end does not send.
    pub has_retransmits: Option<bool>,
    /// Congestion control of this end.
    pub congestion: Option<String>,
    /// Each stream.
    pub streams: Vec<StreamResult>,
    /// A server's report, if it was asked for.
    pub output: Option<Value>,
}

/// One stream, as one end saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StreamResult {
    /// Number of the stream: 1, 3, 4, 5, … for the first, second, third, fourth, … at both ends.
    pub id: u64,
    /// Bytes sent or received, without the omitted time.
    pub bytes: u64,
    /// Segments sent again; `None`: not known.
    pub retransmits: Option<u64>,
    /// Jitter in seconds.
    pub jitter: f64,
    /// Datagrams lost, those of the omitted time included.
    pub errors: u64,
    /// Of these, in the omitted time.
    pub omitted_errors: u64,
    /// Datagrams sent, or the highest number received, those of the omitted time included.
    pub packets: u64,
    /// Of these, in the omitted time.
    pub omitted_packets: u64,
    /// Seconds.
    pub seconds: f64,
}

/// The number of stream `n`, counted from 0: iperf3 has no second one.
#[must_use]
pub fn stream_id(n: usize) -> u64 {
    if n == 0 { 1 } else { n as u64 + 2 }
}

impl Iperf3Results {
    /// Write them.
    #[must_use]
    pub fn write(&self) -> Value {
        let streams: Vec<Value> = self
            .streams
            .iter()
            .map(|stream| {
                json!({
                    "id": stream.id,
                    "bytes": stream.bytes,
                    "retransmits": stream.retransmits.map_or(json!(-1), |n| json!(n)),
                    "jitter": stream.jitter,
                    "errors": stream.errors,
                    "omitted_errors": stream.omitted_errors,
                    "packets": stream.packets,
                    "omitted_packets": stream.omitted_packets,
                    "start_time": 0,
                    "end_time": stream.seconds,
                })
            })
            .collect();
        let mut json = json!({
            "cpu_util_total": self.cpu[0],
            "cpu_util_user": self.cpu[1],
            "cpu_util_system": self.cpu[2],
            "sender_has_retransmits": self.has_retransmits.map_or(-1, i32::from),
            "streams": streams,
        });
        if let Some(name) = &self.congestion {
            json["congestion_used"] = name.as_str().into();
        }
        match &self.output {
            Some(Value::String(text)) => json["server_output_text"] = text.as_str().into(),
            Some(output) => json["server_output_json"] = output.clone(),
            None => {}
        }
        json
    }

    /// Read them. What is absent or of another type is 0.
    ///
    /// # Errors
    /// There is no list of streams, or it is too long.
    pub fn read(json: &Value) -> Result<Self, String> {
        let streams = json.get("streams").and_then(Value::as_array).ok_or("there are no `streams`")?;
        if streams.len() > MAX_STREAMS {
            return Err(format!("{} streams: expected at most {MAX_STREAMS}", streams.len()));
        }
        let float = |json: &Value, name: &str| {
            json.get(name).and_then(Value::as_f64).filter(|value| value.is_finite()).unwrap_or(0.0)
        };
        let whole = |json: &Value, name: &str| {
            json.get(name).and_then(Value::as_u64).unwrap_or_else(|| float(json, name).max(0.0) as u64)
        };
        let retransmits = |json: &Value| {
            let number = json.get("retransmits").and_then(Value::as_i64)?;
            u64::try_from(number).ok()
        };
        let streams = streams.iter().map(|stream| StreamResult {
            id: whole(stream, "id"),
            bytes: whole(stream, "bytes"),
            retransmits: retransmits(stream),
            jitter: float(stream, "jitter"),
            errors: whole(stream, "errors"),
            omitted_errors: whole(stream, "omitted_errors"),
            packets: whole(stream, "packets"),
            omitted_packets: whole(stream, "omitted_packets"),
            seconds: (float(stream, "end_time") - float(stream, "start_time")).max(0.0),
        });
        let has = json.get("sender_has_retransmits").and_then(Value::as_i64).unwrap_or(-1);
        let congestion = json.get("congestion_used").and_then(Value::as_str);
        Ok(Self {
            cpu: ["cpu_util_total", "cpu_util_user", "cpu_util_system"].map(|name| float(json, name)),
            has_retransmits: (has >= 0).then_some(has > 0),
            congestion: congestion.map(|name| name.chars().take(16).collect()),
            streams: streams.collect(),
            output: json.get("server_output_json").or(json.get("server_output_text")).cloned(),
        })
    }

    /// The result of a stream.
    #[must_use]
    pub fn stream(&self, id: u64) -> Option<&StreamResult> {
        self.streams.iter().find(|stream| stream.id == id)
    }
}

/// Take bytes as what a client sends on its control connection; for the fuzzer.
pub fn fuzz(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return };
    let _ = length.map(Iperf3State::read);
    for most in [PARAMETERS, RESULTS] {
        let Ok(length) = judged(*length, most) else { continue };
        assert!(length <= most);
        let text = &rest[..length.min(rest.len())];
        let Ok(json) = serde_json::from_slice::<Value>(text) else { continue };
        if let Ok(params) = Iperf3Params::read(&json) {
            assert!(params.connections() <= 256 && params.block.bytes() <= 1 << 20);
            assert_eq!(Iperf3Params::read(&params.write()).as_ref(), Ok(&params));
        }
        if let Ok(results) = Iperf3Results::read(&json) {
            assert!(results.streams.iter().all(|stream| stream.seconds >= 0.0));
            let _ = results.write().to_string();
        }
    }
    super::datagram::fuzz(input);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_client_of_iperf3_sends_is_read() {
        let json = r#"{"tcp":true,"omit":2,"time":10,"num":0,"blockcount":0,"MSS":1400,"nodelay":true,"parallel":4,
            "bidirectional":true,"window":1e6,"len":131072,"bandwidth":1000000000,"pacing_timer":1000,"TOS":32,
            "congestion":"reno","get_server_output":1,"zerocopy":1,"client_version":"3.12"}"#;
        let params = Iperf3Params::read(&serde_json::from_str(json).unwrap()).unwrap();
        assert_eq!((params.streams, params.connections(), params.way), (4, 8, TestDirection::Both));
        assert_eq!((params.window, params.segment), (Some(Size::from_bytes(1_000_000)), Some(1400)));
        assert_eq!((params.time.as_secs(), params.omit.as_secs(), params.amount()), (10, 2, None));
        assert!(params.no_delay && params.zero_copy && params.server_output && !params.wide && !params.udp);
        assert_eq!((params.tos, params.congestion.as_deref()), (32, Some("reno")));
        assert_eq!(Iperf3Params::read(&params.write()).unwrap(), params);
    }

    #[test]
    fn what_is_outside_the_limits_is_refused_with_its_number() {
        let with = |name: &str, value: Value| {
            let mut json = Iperf3Params::default().write();
            json[name] = value;
            Iperf3Params::read(&json).map_err(|refused| refused.code)
        };
        for (name, value, code) in [
            ("parallel", json!(129), code::STREAMS),
            ("time", json!(86_401), code::DURATION),
            ("omit", json!(601), code::OMIT),
            ("len", json!(0), code::BLOCK),
            ("len", json!((1 << 20) + 1), code::BLOCK),
            ("window", json!(1u64 << 31), code::WINDOW),
            ("MSS", json!(40_000), code::SEGMENT),
            ("num", json!(-1), code::PARAMETERS),
            ("num", json!("many"), code::PARAMETERS),
            ("sctp", json!(true), code::UNKNOWN),
            ("tcp", json!(false), code::PARAMETERS),
        ] {
            assert_eq!(with(name, value.clone()), Err(code), "{name} {value}");
        }
        let udp =
            |len: u64| Iperf3Params::read(&json!({"udp": true, "len": len})).map_err(|refused| refused.code);
        assert_eq!((udp(15), udp(65_508)), (Err(code::DATAGRAM), Err(code::DATAGRAM)));
        assert_eq!(udp(0).unwrap().block.bytes(), 1460);
        assert_eq!(Iperf3Params::read(&json!([])).map_err(|refused| refused.code), Err(code::PARAMETERS));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            udp: bool, streams in 1usize..=128, time in 0u64..=86_400, bytes in 0u64..1 << 53, len in 16u64..=65_507,
            rate in 0u64..1 << 53, burst in 0u32..=1000, wide: bool, tos: u8, way in 0usize..3,
        ) {
            let params = Iperf3Params {
                udp, streams, bytes, burst, wide, tos,
                way: [TestDirection::Forward, TestDirection::Reverse, TestDirection::Both][way],
                time: Duration::from_secs(time),
                block: Size::from_bytes(len),
                rate: Rate::from_bits_per_second(rate),
                version: "x".into(),
                ..Iperf3Params::default()
            };
            prop_assert_eq!(Iperf3Params::read(&params.write()), Ok(params));
        }
    }

    #[test]
    fn results_are_read_as_they_were_written() {
        let stream = StreamResult {
            id: 3,
            bytes: 1 << 40,
            retransmits: Some(7),
            jitter: 0.5e-3,
            errors: 3,
            omitted_errors: 1,
            packets: 100,
            omitted_packets: 9,
            seconds: 10.5,
        };
        let results = Iperf3Results {
            cpu: [30.0, 10.0, 20.0],
            has_retransmits: Some(true),
            congestion: Some("cubic".into()),
            streams: vec![StreamResult { id: 1, ..StreamResult::default() }, stream],
            output: Some(Value::String("text".into())),
        };
        let text = results.write().to_string();
        assert!(text.contains(r#""retransmits":-1"#), "{text}");
        let read = Iperf3Results::read(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(read, results);
        assert_eq!(read.stream(3), Some(&stream));
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    #[test]
    fn nonsense_is_an_error_or_zero() {
        assert!(Iperf3Results::read(&json!({})).is_err());
        assert!(Iperf3Results::read(&json!({"streams": vec![0; 600]})).is_err());
        let read =
            Iperf3Results::read(&json!({"streams": [{"bytes": -5, "jitter": "x", "end_time": -1}, 7]}))
                .unwrap();
        assert_eq!(read.streams, vec![StreamResult::default(); 2]);
    }

    #[test]
    fn the_fuzzer_takes_what_a_client_sends() {
        for json in [Iperf3Params::default().write(), Iperf3Results::default().write()] {
            let text = json.to_string();
            let length = u32::try_from(text.len()).unwrap().to_be_bytes();
            fuzz(&[&length, text.as_bytes()].concat());
        }
        fuzz(&[0xFF; 40]);
    }
}
