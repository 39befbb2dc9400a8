//! Replies of the command channel, as a client reads them.

use super::EtransferAddress;
use super::request::MAX_UUID_BYTES;
use core::time::Duration;

/// One line of a reply.
#[derive(Clone, Debug, PartialEq)]
pub enum EtransferReply {
    /// `OK`, alone or with a value.
    Ok(String),
    /// `ERR`, with the reason.
    Err(String),
    /// `AlreadyHave:N`: bytes that the destination has.
    AlreadyHave(u64),
    /// `Remain:N`: bytes of the source behind those that were asked for; negative if it is shorter.
    Remain(i64),
    /// `UUID:U`: the name of the transfer.
    Uuid(String),
    /// `OK,BYTES,SECONDS` or `ERR,BYTES,SECONDS REASON`: the result of `send-file`.
    Sent(SendOutcome),
}

/// The result of sending a file from one server to another.
#[derive(Clone, Debug, PartialEq)]
pub struct SendOutcome {
    /// Bytes that were sent.
    pub bytes: u64,
    /// How long it took.
    pub time: Duration,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// A line is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAReply;

impl EtransferReply {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// It is no reply.
    pub fn parse(line: &[u8]) -> Result<Self, NotAReply> {
        let text = std::str::from_utf8(line).map_err(|_| NotAReply)?;
        if let Some((key, value)) = text.split_once(':') {
            match key.to_ascii_lowercase().as_str() {
                "uuid" => {
                    let is_one = (1..=MAX_UUID_BYTES).contains(&value.len())
                        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
                    return if is_one { Ok(Self::Uuid(value.to_owned())) } else { Err(NotAReply) };
                }
                "alreadyhave" => {
                    let have = value.parse().ok().filter(|have| i64::try_from(*have).is_ok());
                    return have.map(Self::AlreadyHave).ok_or(NotAReply);
                }
                "remain" => return value.parse().map(Self::Remain).map_err(|_| NotAReply),
                _ => {}
            }
        }
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        let is_ok = match word.to_ascii_lowercase().as_str() {
            "ok" => true,
            "err" => false,
            _ => return Err(NotAReply),
        };
        if let Some(rest) = rest.strip_prefix(',') {
            return Self::sent(is_ok, rest);
        }
        let info = rest.trim().to_owned();
        Ok(if is_ok { Self::Ok(info) } else { Self::Err(info) })
    }

    fn sent(is_ok: bool, rest: &str) -> Result<Self, NotAReply> {
        let (bytes, rest) = rest.split_once(',').ok_or(NotAReply)?;
        let (seconds, reason) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        let bytes = bytes.parse().map_err(|_| NotAReply)?;
        let seconds: f64 = seconds.parse().map_err(|_| NotAReply)?;
        let time = Duration::try_from_secs_f64(seconds).map_err(|_| NotAReply)?;
        let error = (!is_ok).then(|| reason.trim().to_owned());
        Ok(Self::Sent(SendOutcome { bytes, time, error }))
    }

    /// The address of a data channel that an [`Ok`](Self::Ok) has.
    #[must_use]
    pub fn data_address(&self) -> Option<EtransferAddress> {
        match self {
            Self::Ok(text) => EtransferAddress::parse(text),
            _ => None,
        }
    }
}

impl SendOutcome {
    /// The line that a server answers with. A reason is shown on one line.
    #[must_use]
    pub fn line(&self) -> String {
        let (bytes, seconds) = (self.bytes, self.time.as_secs_f64());
        match &self.error {
            None => format!("OK,{bytes},{seconds:.6}"),
            Some(why) => {
                let why: String = why.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                format!("ERR,{bytes},{seconds:.6} {why}")
            }
        }
    }
}
