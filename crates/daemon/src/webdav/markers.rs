//! The body of the reply to a copy between servers: markers of its progress, and one line with its end.
//!
//! ```text
//!   Perf Marker                                      every 5 s, each in a chunk of its own
//!   Timestamp: 1795813200
//!   Stripe Index: 0
//!   Stripe Bytes Transferred: 1048576
//!   Total Stripe Count: 1
//!   RemoteConnections: tcp:192.0.2.7:8443,tcp:[2001:db8::1]:8443
//!   End
//!   success: Created                                 or  failure: No such file or directory: …
//! ```
//!
//! As davix, gfal2, FTS, dCache and XRootD read it: keys are not indented, and all streams are one stripe, which they sum up. Engines decide
//! by the words after `failure:` whether they try again.

use std::fmt::Write as _;
use std::net::SocketAddr;

/// Maximum length of the text of a failure in bytes.
const MAX_TEXT_BYTES: usize = 2048;

/// The progress of a copy as text. `time` is in seconds since 1970.
pub(crate) fn marker(time: u64, bytes: u64, connections: &[SocketAddr]) -> String {
    let mut text = format!(
        "Perf Marker\nTimestamp: {time}\nStripe Index: 0\nStripe Bytes Transferred: {bytes}\nTotal Stripe Count: 1\n"
    );
    for (at, connection) in connections.iter().enumerate() {
        let begin = if at == 0 { "RemoteConnections: " } else { "," };
        let plain = SocketAddr::new(connection.ip().to_canonical(), connection.port());
        let _ = write!(text, "{begin}tcp:{plain}");
    }
    text.push_str(if connections.is_empty() { "End\n" } else { "\nEnd\n" });
    text
}

/// The last line.
pub(crate) fn result(failure: Option<&str>) -> String {
    let Some(text) = failure else { return "success: Created\n".to_owned() };
    let mut line = String::from("failure: ");
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if line.len() + c.len_utf8() > MAX_TEXT_BYTES {
            break;
        }
        line.push(c);
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markers_are_those_of_the_field() {
        let peers = ["192.0.2.7:8443".parse().unwrap(), "[2001:db8::1]:443".parse().unwrap()];
        assert_eq!(
            marker(1_795_813_200, 1 << 40, &peers),
            "Perf Marker\nTimestamp: 1795813200\nStripe Index: 0\nStripe Bytes Transferred: 1099511627776\nTotal Stripe Count: 1\n\
             RemoteConnections: tcp:192.0.2.7:8443,tcp:[2001:db8::1]:443\nEnd\n"
        );
        assert!(marker(1, 0, &[]).ends_with("Total Stripe Count: 1\nEnd\n"));
        let mapped = ["[::ffff:192.0.2.7]:1".parse().unwrap()];
        assert!(marker(1, 0, &mapped).contains("RemoteConnections: tcp:192.0.2.7:1\nEnd\n"));
        assert_eq!(result(None), "success: Created\n");
        assert_eq!(result(Some("Permission denied:\r\nno")), "failure: Permission denied:  no\n");
    }

    proptest! {
        /// Whatever a peer says, it cannot end the line or begin a marker.
        #[test]
        fn a_failure_is_one_line(text in any::<String>(), more in "[a-z\n\r\u{85}é]{0,3000}") {
            for text in [text, more] {
                let line = result(Some(&text));
                prop_assert!(line.starts_with("failure: ") && line.len() <= MAX_TEXT_BYTES + 1);
                prop_assert_eq!(line.chars().filter(|c| c.is_control()).count(), 1);
                prop_assert!(line.ends_with('\n'));
            }
        }
    }
}
