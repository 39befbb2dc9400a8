//! What two servers of this program, or the command and one, say to each other of an upload that broke off (decision 0109).
//!
//! ```text
//!   HEAD, Skyhaul-Upload: KEY ─▶ Skyhaul-Received: BYTES ADLER32 CRC32C ─▶ the same bytes here? ─▶ PUT, Skyhaul-Upload, Content-Range: the rest
//! ```
//!
//! Other servers do not know the header of HEAD and do not answer it. So they are never sent a part of a file.

use super::digests::{Algorithm, DigestSet};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_RANGE, HeaderName};
use ring::digest::{SHA256, digest};
use skyhaul::auth::{hex, unhex};

/// Names an upload, in HEAD and PUT.
pub(crate) const UPLOAD: HeaderName = HeaderName::from_static("skyhaul-upload");
/// What has arrived of it, in the reply to HEAD.
pub(crate) const RECEIVED: HeaderName = HeaderName::from_static("skyhaul-received");
/// Shorter files are sent from their beginning.
pub(crate) const MIN_CONTINUED_BYTES: u64 = 4 << 20;
const KEY_BYTES: usize = 16;

/// Names the bytes of an upload: a file that has changed has another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadKey(String);

impl UploadKey {
    /// Of what tells a file of this size from others; `None` if it is too short to be continued.
    pub(crate) fn of(what: &str, size: u64) -> Option<Self> {
        let hash = digest(&SHA256, format!("{what} {size}").as_bytes());
        (size >= MIN_CONTINUED_BYTES).then(|| Self(hex(&hash.as_ref()[..KEY_BYTES])))
    }

    /// That of a request.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get(UPLOAD)?.to_str().ok()?;
        unhex::<KEY_BYTES>(text).map(|key| Self(hex(&key)))
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// The beginning of an upload that a server has, with its Adler-32 and CRC-32C.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) digests: DigestSet,
}

impl Received {
    /// The value of its header.
    pub(crate) fn text(&self) -> String {
        let value = |algorithm| self.digests.get(algorithm).map_or_else(|| "-".to_owned(), hex);
        format!("{} {} {}", self.bytes, value(Algorithm::Adler32), value(Algorithm::Crc32c))
    }

    /// That of a reply; `None` if the server does not continue uploads.
    pub(crate) fn read(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(RECEIVED)?.to_str().ok()?)
    }

    /// Reads [`text`](Self::text).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let bytes = words.next()?.parse().ok()?;
        let mut digests = DigestSet::default();
        for algorithm in Algorithm::ALWAYS {
            match words.next()? {
                "-" if bytes == 0 => {}
                value => digests.set(algorithm, &unhex::<4>(value)?),
            }
        }
        words.next().is_none().then_some(Self { bytes, digests })
    }
}

/// The part of a file that a PUT carries: from where, and the size of all of it. `None`: all of it.
///
/// # Errors
/// It is not the rest of a file.
pub(crate) fn rest(headers: &HeaderMap) -> Result<Option<(u64, u64)>, &'static str> {
    const NOT_THE_REST: &str =
        "Content-Range must be `bytes FIRST-LAST/SIZE`, and LAST the last byte of the file";
    let Some(text) = headers.get(CONTENT_RANGE) else { return Ok(None) };
    let parse = |text: &str| {
        let (range, size) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = range.split_once('-')?;
        let [first, last, size] = [first.parse::<u64>().ok()?, last.parse().ok()?, size.parse().ok()?];
        (first <= last && size.checked_sub(1) == Some(last)).then_some((first, size))
    };
    text.to_str().ok().and_then(parse).map(Some).ok_or(NOT_THE_REST)
}

/// The header of a PUT of the rest.
pub(crate) fn content_range(from: u64, size: u64) -> String {
    format!("bytes {from}-{}/{size}", size.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        [(name, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn what_was_received_is_read_as_it_was_said() {
        let mut digests = DigestSet::default();
        digests.set(Algorithm::Adler32, &[1, 2, 3, 4]);
        digests.set(Algorithm::Crc32c, &[0, 0, 0, 9]);
        for received in [Received { bytes: 17, digests }, Received::default()] {
            let headers = headers(RECEIVED, &received.text());
            assert_eq!(Received::read(&headers), Some(received));
        }
        for text in [
            "",
            "1",
            "0",
            "0  ",
            "1 - -",
            "1 01020304",
            "1 01020304 0102030",
            "-1 01020304 01020304",
            "1 01020304 01020304 5",
        ] {
            assert_eq!(Received::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_key_is_that_of_the_same_words() {
        let key = UploadKey::of("a", MIN_CONTINUED_BYTES).unwrap();
        assert_eq!(UploadKey::of("a", MIN_CONTINUED_BYTES - 1), None);
        assert_eq!(UploadKey::read(&headers(UPLOAD, key.text())), Some(key.clone()));
        assert_ne!(Some(&key), UploadKey::of("a", MIN_CONTINUED_BYTES + 1).as_ref());
        for text in
            ["", "../../etc/passwd", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0"]
        {
            assert_eq!(UploadKey::read(&headers(UPLOAD, text)), None, "{text}");
        }
    }

    #[test]
    fn only_the_rest_of_a_file_is_a_part() {
        assert_eq!(rest(&HeaderMap::new()), Ok(None));
        assert_eq!(rest(&headers(CONTENT_RANGE, &content_range(5, 9))), Ok(Some((5, 9))));
        for text in [
            "bytes 5-7/9",
            "bytes 5-9/9",
            "bytes 9-8/9",
            "bytes 5-8/*",
            "bytes */9",
            "bytes -/0",
            "items 5-8/9",
            "bytes 5-8",
        ] {
            assert!(rest(&headers(CONTENT_RANGE, text)).is_err(), "{text}");
        }
    }
}
