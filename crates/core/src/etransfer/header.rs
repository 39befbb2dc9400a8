//! The head of a data channel: `{ uuid:U, sz:N}` before bytes, `{ uuid:U, push:1, sz:N}` to ask for them.

use super::request::MAX_UUID_BYTES;
use std::fmt;

/// Maximum length of a head.
pub const MAX_DATA_HEADER_BYTES: usize = 4096;

/// What a data channel begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataHeader {
    /// The transfer.
    pub uuid: String,
    /// Bytes that follow, or that are asked for.
    pub bytes: u64,
    /// Whether they are asked for.
    pub is_push: bool,
}

/// Why a data channel does not begin with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotADataHeader(pub &'static str);

impl DataHeader {
    /// Reads a head at the beginning of `bytes`, and where it ends; `None` if more bytes are needed.
    ///
    /// # Errors
    /// It is no head, whatever follows.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, NotADataHeader> {
        if bytes.first().is_some_and(|first| *first != b'{') {
            return Err(NotADataHeader("it does not begin with {"));
        }
        let seen = &bytes[..bytes.len().min(MAX_DATA_HEADER_BYTES)];
        let Some(end) = seen.iter().position(|byte| *byte == b'}') else {
            return match seen.len() < MAX_DATA_HEADER_BYTES {
                true => Ok(None),
                false => Err(NotADataHeader("it is too long")),
            };
        };
        let text = std::str::from_utf8(&bytes[1..end]).map_err(|_| NotADataHeader("it is not UTF-8"))?;
        let (mut uuid, mut size, mut is_push) = (None, None, false);
        for pair in text.split(',') {
            let (key, value) = pair.split_once(':').ok_or(NotADataHeader("expected KEY:VALUE"))?;
            let value = value.trim().trim_matches('"');
            match key.trim().to_ascii_lowercase().as_str() {
                "uuid" if uuid.is_none() => uuid = Some(value),
                "sz" if size.is_none() => size = Some(value),
                "push" if value == "1" => is_push = true,
                "push" => return Err(NotADataHeader("push has the value 1 or is left out")),
                "uuid" | "sz" => return Err(NotADataHeader("a key is given twice")),
                // Later versions may add some.
                _ => {}
            }
        }
        let uuid = uuid.filter(|uuid| (1..=MAX_UUID_BYTES).contains(&uuid.len()));
        let uuid = uuid.filter(|uuid| uuid.bytes().all(|byte| byte.is_ascii_graphic()));
        let uuid = uuid.ok_or(NotADataHeader("it has no uuid"))?.to_owned();
        let is_plain = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = size.filter(is_plain).and_then(|text| text.parse().ok());
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok());
        let bytes: u64 = bytes.ok_or(NotADataHeader("it has no size"))?;
        Ok(Some((Self { uuid, bytes, is_push }, end + 1)))
    }
}

impl fmt::Display for DataHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let push = if self.is_push { " push:1," } else { "" };
        write!(f, "{{ uuid:{},{push} sz:{}}}", self.uuid, self.bytes)
    }
}
