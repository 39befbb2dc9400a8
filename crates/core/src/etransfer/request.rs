//! Requests of the command channel. Keywords have no case.

use super::{EtransferAddress, UploadMode};
use std::fmt;

/// Maximum length of the name of a transfer.
pub const MAX_UUID_BYTES: usize = 64;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtransferRequest {
    /// `protocol-version`
    Version,
    /// `list PATH`: paths that match.
    List {
        /// The path, with wildcards.
        path: String,
    },
    /// `write-file-MODE PATH`: an upload.
    Write {
        /// What is done about a file that exists.
        mode: UploadMode,
        /// Where.
        path: String,
    },
    /// `read-file HAVE PATH`: a download.
    Read {
        /// Bytes that the client has already.
        have: u64,
        /// Which file.
        path: String,
    },
    /// `data-channel-addr` or `data-channel-addr-ext`: where data channels are opened.
    DataAddresses {
        /// Whether options are listed, too.
        with_options: bool,
    },
    /// `send-file SOURCE DESTINATION BYTES ADDRESSES`: sends the file of a download to another server.
    Send {
        /// The download here.
        source: String,
        /// The upload there.
        destination: String,
        /// How many bytes.
        bytes: u64,
        /// The data channels of the other server.
        to: Vec<EtransferAddress>,
    },
    /// `remove-uuid UUID`: ends a transfer.
    Remove {
        /// Which one.
        uuid: String,
    },
    /// `cancel UUID`: stops a transfer; it has no reply.
    Cancel {
        /// Which one.
        uuid: String,
    },
}

/// Why a line is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotACommand(pub &'static str);

impl fmt::Display for NotACommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

fn uuid(text: &str) -> Result<String, NotACommand> {
    let is_one = (1..=MAX_UUID_BYTES).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_one { Ok(text.to_owned()) } else { Err(NotACommand("expected a UUID")) }
}

fn number(text: &str) -> Result<u64, NotACommand> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // A file has at most 2^63 bytes.
    let number = text.parse().ok().filter(|number| is_plain && i64::try_from(*number).is_ok());
    number.ok_or(NotACommand("expected a number of bytes"))
}

fn path(text: &str) -> Result<String, NotACommand> {
    if text.is_empty() { Err(NotACommand("expected a path")) } else { Ok(text.to_owned()) }
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(is_blank).unwrap_or((text, ""));
    (word, rest.trim_start_matches(is_blank))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

impl EtransferRequest {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// It is no request.
    pub fn parse(line: &[u8]) -> Result<Self, NotACommand> {
        let text = std::str::from_utf8(line).map_err(|_| NotACommand("the line is not UTF-8"))?;
        if text.chars().any(|c| c.is_control() && c != '\t') {
            return Err(NotACommand("the line has control characters"));
        }
        let (first, rest) = word(text);
        let keyword = first.to_ascii_lowercase();
        let alone =
            |request| if rest.is_empty() { Ok(request) } else { Err(NotACommand("unexpected words")) };
        match keyword.as_str() {
            "protocol-version" => alone(Self::Version),
            "data-channel-addr" => alone(Self::DataAddresses { with_options: false }),
            "data-channel-addr-ext" => alone(Self::DataAddresses { with_options: true }),
            "list" => Ok(Self::List { path: path(rest)? }),
            "read-file" => {
                let (have, rest) = word(rest);
                Ok(Self::Read { have: number(have)?, path: path(rest)? })
            }
            "remove-uuid" => Ok(Self::Remove { uuid: uuid(rest)? }),
            "cancel" => Ok(Self::Cancel { uuid: uuid(rest)? }),
            "send-file" => Self::send(rest),
            _ => match keyword.strip_prefix("write-file-") {
                Some(mode) => {
                    let mode = UploadMode::parse(mode)
                        .ok_or(NotACommand("the modes are New, OverWrite, Resume, SkipExisting"))?;
                    Ok(Self::Write { mode, path: path(rest)? })
                }
                None => Err(NotACommand("unknown command")),
            },
        }
    }

    fn send(rest: &str) -> Result<Self, NotACommand> {
        let (source, rest) = word(rest);
        let (destination, rest) = word(rest);
        let (bytes, addresses) = word(rest);
        let to = EtransferAddress::parse_list(addresses).ok_or(NotACommand("expected data channels"))?;
        Ok(Self::Send { source: uuid(source)?, destination: uuid(destination)?, bytes: number(bytes)?, to })
    }
}

impl fmt::Display for EtransferRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version => f.write_str("protocol-version"),
            Self::List { path } => write!(f, "list {path}"),
            Self::Write { mode, path } => write!(f, "write-file-{} {path}", mode.name()),
            Self::Read { have, path } => write!(f, "read-file {have} {path}"),
            Self::DataAddresses { with_options: false } => f.write_str("data-channel-addr"),
            Self::DataAddresses { with_options: true } => f.write_str("data-channel-addr-ext"),
            Self::Send { source, destination, bytes, to } => {
                write!(f, "send-file {source} {destination} {bytes} ")?;
                for (at, address) in to.iter().enumerate() {
                    write!(f, "{}{address}", if at == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Remove { uuid } => write!(f, "remove-uuid {uuid}"),
            Self::Cancel { uuid } => write!(f, "cancel {uuid}"),
        }
    }
}
