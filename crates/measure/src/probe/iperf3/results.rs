//! What both ends tell each other of a test: the JSON of their results.

use serde_json::{Value, json};

/// Streams in one message of results, more than any test has.
const MOST: usize = 512;

/// One end's results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
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

impl Results {
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
        if streams.len() > MOST {
            return Err(format!("{} streams, at most {MOST} are possible", streams.len()));
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let results = Results {
            cpu: [30.0, 10.0, 20.0],
            has_retransmits: Some(true),
            congestion: Some("cubic".into()),
            streams: vec![StreamResult { id: 1, ..StreamResult::default() }, stream],
            output: Some(Value::String("text".into())),
        };
        let text = results.write().to_string();
        assert!(text.contains(r#""retransmits":-1"#), "{text}");
        let read = Results::read(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(read, results);
        assert_eq!(read.stream(3), Some(&stream));
        assert_eq!([0, 1, 2, 3].map(stream_id), [1, 3, 4, 5]);
    }

    #[test]
    fn nonsense_is_an_error_or_zero() {
        assert!(Results::read(&json!({})).is_err());
        assert!(Results::read(&json!({"streams": vec![0; 600]})).is_err());
        let read =
            Results::read(&json!({"streams": [{"bytes": -5, "jitter": "x", "end_time": -1}, 7]})).unwrap();
        assert_eq!(read.streams, vec![StreamResult::default(); 2]);
    }
}
