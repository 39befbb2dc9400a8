//! A firefly: one datagram, a head of syslog (RFC 5424) and JSON by `firefly.schema.json` of scitags.org.

use super::tag::SciTag;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What it tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Lifecycle {
    Start,
    Ongoing,
    End,
}

/// What a connection has moved, by the kernel's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) round_trip: Duration,
}

/// A firefly.
#[derive(Clone, Debug)]
pub(super) struct Firefly<'a> {
    pub(super) host: &'a str,
    pub(super) state: Lifecycle,
    pub(super) tag: SciTag,
    pub(super) application: &'static str,
    /// Where the data come from, and where they go.
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) started: SystemTime,
    pub(super) now: SystemTime,
    pub(super) moved: Option<Moved>,
}

#[derive(Serialize)]
struct Message<'a> {
    version: u8,
    #[serde(rename = "flow-lifecycle")]
    lifecycle: LifecycleFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    netlink: Option<Netlink>,
    context: Context<'a>,
    #[serde(rename = "flow-id")]
    flow: FlowId,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct LifecycleFields {
    state: Lifecycle,
    current_time: String,
    start_time: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_time: Option<String>,
}

#[derive(Serialize)]
struct Usage {
    received: u64,
    sent: u64,
}

#[derive(Serialize)]
struct Netlink {
    /// Milliseconds.
    rtt: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Context<'a> {
    experiment_id: u16,
    activity_id: u16,
    application: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowId {
    afi: &'static str,
    src_ip: String,
    dst_ip: String,
    protocol: &'static str,
    src_port: u16,
    dst_port: u16,
}

impl Firefly<'_> {
    /// The datagram.
    pub(super) fn text(&self) -> String {
        let (from, to) = (self.from.ip().to_canonical(), self.to.ip().to_canonical());
        let now = time(self.now);
        let message = Message {
            version: 1,
            lifecycle: LifecycleFields {
                state: self.state,
                end_time: (self.state == Lifecycle::End).then(|| now.clone()),
                current_time: now,
                start_time: time(self.started),
            },
            usage: self.moved.map(|moved| Usage { received: moved.received, sent: moved.sent }),
            netlink: self.moved.map(|moved| Netlink { rtt: moved.round_trip.as_micros() as f64 / 1e3 }),
            context: Context {
                experiment_id: self.tag.experiment,
                activity_id: self.tag.activity,
                application: self.application,
            },
            flow: FlowId {
                afi: if from.is_ipv4() { "ipv4" } else { "ipv6" },
                src_ip: from.to_string(),
                dst_ip: to.to_string(),
                protocol: "tcp",
                src_port: self.from.port(),
                dst_port: self.to.port(),
            },
        };
        // Structures of text and numbers are always JSON. Facility local0, informational; the time is in the message.
        let json = serde_json::to_string(&message).unwrap_or_default();
        format!("<134>1 - {} skyhaul - firefly-json - {json}", self.host)
    }
}

/// `2026-11-26T01:02:03.000000+00:00`.
fn time(at: SystemTime) -> String {
    let nanoseconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i128;
    let text = skyhaul::time::format_exact(nanoseconds / 1000 * 1000);
    let text = text.strip_suffix('Z').unwrap_or(&text);
    let (second, decimals) = text.split_once('.').unwrap_or((text, ""));
    format!("{second}.{decimals:0<6}+00:00")
}

/// One of a download over IPv6.
#[cfg(test)]
pub(super) fn example() -> Firefly<'static> {
    Firefly {
        host: "mh",
        state: Lifecycle::Start,
        tag: SciTag { experiment: 7, activity: 1 },
        application: "http-get",
        from: "[2001:db8::1]:8443".parse().unwrap(),
        to: "[2001:db8::2]:40222".parse().unwrap(),
        started: UNIX_EPOCH + Duration::from_micros(1_795_896_093_123_450),
        now: UNIX_EPOCH + Duration::from_secs(1_795_896_093),
        moved: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firefly_is_as_its_collectors_read_it() {
        let start = "<134>1 - mh skyhaul - firefly-json - {\"version\":1,\"flow-lifecycle\":{\"state\":\"start\",\
            \"current-time\":\"2026-11-28T20:01:33.000000+00:00\",\"start-time\":\"2026-11-28T20:01:33.123450+00:00\"},\
            \"context\":{\"experiment-id\":7,\"activity-id\":1,\"application\":\"http-get\"},\"flow-id\":{\"afi\":\"ipv6\",\
            \"src-ip\":\"2001:db8::1\",\"dst-ip\":\"2001:db8::2\",\"protocol\":\"tcp\",\"src-port\":8443,\"dst-port\":40222}}";
        assert_eq!(example().text(), start);
        let moved = Moved { received: 5, sent: 1 << 40, round_trip: Duration::from_micros(1500) };
        let end = Firefly {
            state: Lifecycle::End,
            from: "[::ffff:192.0.2.1]:1".parse().unwrap(),
            to: "192.0.2.2:2".parse().unwrap(),
            moved: Some(moved),
            ..example()
        };
        let text = end.text();
        let json: serde_json::Value = serde_json::from_str(text.split_once("json - ").unwrap().1).unwrap();
        assert_eq!(json["flow-lifecycle"]["end-time"], json["flow-lifecycle"]["current-time"]);
        assert_eq!((&json["usage"]["sent"], &json["usage"]["received"]), (&(1u64 << 40).into(), &5.into()));
        assert_eq!((&json["netlink"]["rtt"], &json["flow-id"]["afi"]), (&1.5.into(), &"ipv4".into()));
        assert_eq!(
            (&json["flow-id"]["src-ip"], &json["flow-id"]["dst-ip"]),
            (&"192.0.2.1".into(), &"192.0.2.2".into())
        );
    }
}
