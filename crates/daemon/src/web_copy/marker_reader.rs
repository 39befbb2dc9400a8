//! What a server says of a copy between servers while it runs (WLCG HTTP-TPC): markers, and one line with its end.
//!
//! ```text
//!   marker = "Perf Marker" LF *( *SP key ":" value LF ) "End" LF          cumulative bytes of each stripe
//!   result = ("success" | "failure" | "failed" | "aborted") ":" text [LF]  the last line may have no end, and share a piece with a marker
//! ```
//!
//! Unknown keys and other lines are skipped. Limits: lines of [`MAX_LINE_BYTES`], [`MAX_STRIPES`].

use crate::webdav::markers;
use std::collections::BTreeMap;

const MAX_LINE_BYTES: usize = 16 << 10;
const MAX_STRIPES: usize = 8192;
/// Longest text of a failure that is repeated, in characters.
const MAX_TEXT_CHARS: usize = 1024;

/// Reads the body of the reply to COPY, in pieces of any length.
#[derive(Debug, Default)]
pub(super) struct MarkerReader {
    line: Vec<u8>,
    stripe: u64,
    bytes: BTreeMap<u64, u64>,
    result: Option<Result<(), String>>,
}

impl MarkerReader {
    /// Takes the next piece. The result, once it was said: success, or why not.
    ///
    /// # Errors
    /// What comes is nothing that can be read.
    pub(super) fn read(&mut self, piece: &[u8], is_end: bool) -> Result<Option<Result<(), String>>, String> {
        for &byte in piece {
            if byte == b'\n' {
                self.take_line();
            } else {
                self.line.push(byte);
                if self.line.len() > MAX_LINE_BYTES {
                    return Err("the server sends a line without end in place of markers".to_owned());
                }
            }
        }
        if is_end {
            self.take_line();
        }
        Ok(self.result.clone())
    }

    /// Bytes that were copied, of all stripes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.values().fold(0, |all, bytes| all.saturating_add(*bytes))
    }

    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let Some((key, value)) = line.trim().split_once(':') else { return };
        let value = value.trim();
        match key.trim().to_ascii_lowercase().as_str() {
            "stripe index" => self.stripe = value.parse().unwrap_or(0),
            "stripe bytes transferred" => {
                if let Ok(bytes) = value.parse::<u64>()
                    && (self.bytes.len() < MAX_STRIPES || self.bytes.contains_key(&self.stripe))
                {
                    let last = self.bytes.entry(self.stripe).or_default();
                    *last = bytes.max(*last);
                }
            }
            "success" => drop(self.result.get_or_insert(Ok(()))),
            "failure" | "failed" | "aborted" => {
                let plain = value.chars().take(MAX_TEXT_CHARS).map(|c| if c.is_control() { ' ' } else { c });
                let text: String = plain.collect();
                let text = if text.is_empty() { "the copy failed without a reason".to_owned() } else { text };
                self.result.get_or_insert(Err(text));
            }
            _ => {}
        }
    }
}

/// Any body of a reply to COPY, for the fuzzer; the first byte says how it is cut. Where it is cut changes nothing, and what this server says of its own
/// copies is read as it was meant.
#[doc(hidden)]
pub fn fuzz_markers(input: &[u8]) {
    let Some((cut, body)) = input.split_first() else { return };
    let read = |length: usize| {
        let mut reader = MarkerReader::default();
        let mut pieces = body.chunks(length);
        let is_read = pieces.all(|piece| reader.read(piece, false).is_ok());
        is_read.then(|| (reader.read(b"", true), reader.bytes()))
    };
    let (whole, parts) = (read(body.len().max(1)), read(usize::from(*cut) + 1));
    assert_eq!(whole, parts);
    if let Some((Ok(Some(Err(text))), _)) = &whole {
        assert!(!text.is_empty() && !text.chars().any(char::is_control), "{text:?}");
    }
    let (said, bytes) = (String::from_utf8_lossy(body), u64::from(*cut) << 32);
    let own = markers::marker(bytes, bytes, &[]) + &markers::result(Some(&said));
    let mut reader = MarkerReader::default();
    let ended = reader.read(own.as_bytes(), true);
    assert!(matches!(ended, Ok(Some(Err(_)))) && reader.bytes() == bytes, "{own:?}: {ended:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str, piece: usize) -> (Option<Result<(), String>>, u64) {
        let mut reader = MarkerReader::default();
        for part in text.as_bytes().chunks(piece) {
            reader.read(part, false).unwrap();
        }
        let result = reader.read(b"", true).unwrap();
        (result, reader.bytes())
    }

    #[test]
    fn all_that_servers_send_is_read_in_pieces_of_any_length() {
        let plain = "Perf Marker\nTimestamp: 1\nStripe Index: 0\nStripe Bytes Transferred: 10\nTotal Stripe Count: 1\nEnd\n";
        let indented = "Perf Marker\n    Stripe Index: 0\n    Stripe Bytes Transferred: 20\n    State: 1\nEnd\nPerf Marker\n Stripe Index: 1\n Stripe Bytes Transferred: 5\nEnd\n";
        for piece in [1, 7, 1000] {
            for (end, result) in [
                ("success: Created", Some(Ok(()))),
                ("Success: Created\n", Some(Ok(()))),
                ("failure: No space\u{1b}[2J left\n", Some(Err("No space [2J left".to_owned()))),
                ("failed: x\nsuccess: y\n", Some(Err("x".to_owned()))),
                ("aborted:", Some(Err("the copy failed without a reason".to_owned()))),
                ("End", None),
            ] {
                assert_eq!(of(&format!("{plain}{end}"), piece), (result.clone(), 10), "{end}");
                assert_eq!(of(&format!("{plain}{indented}{end}"), piece), (result, 25), "{end}");
            }
        }
        assert!(MarkerReader::default().read(&[b'x'; MAX_LINE_BYTES + 1], false).is_err());
    }

    proptest! {
        #[test]
        fn any_body_is_read(body in prop::collection::vec(any::<u8>(), 0..300), text in "[A-Za-z :0-9\n]{0,200}") {
            for body in [&body[..], text.as_bytes()] {
                let mut reader = MarkerReader::default();
                let _ = reader.read(body, true);
                let _ = reader.bytes();
            }
        }
    }
}
