//! Where an upload begins: by its mode, the file that is there, and what an earlier attempt has left.
//!
//! A server answers with the bytes that it has, and the client sends the rest. If nothing is left to be sent, the client sends nothing, not even
//! that the file is whole. So of an unfinished upload one byte less is claimed than is there: the byte that follows completes it.

/// What is done about a file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UploadMode {
    /// Refuse the upload.
    #[default]
    New,
    /// Replace it.
    OverWrite,
    /// Append what it lacks.
    Resume,
    /// Keep it.
    SkipExisting,
}

/// Where the bytes of an upload go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadStart {
    /// A file of this name exists, which this mode refuses.
    Exists,
    /// From the beginning.
    Beginning,
    /// Behind so many bytes of an unfinished upload.
    Unfinished(u64),
    /// Behind the file that is there, of so many bytes.
    Existing(u64),
    /// Nowhere: the file that is there, of so many bytes, is kept.
    Kept(u64),
}

impl UploadMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::New, Self::OverWrite, Self::Resume, Self::SkipExisting];

    /// Its name in a request.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "New",
            Self::OverWrite => "OverWrite",
            Self::Resume => "Resume",
            Self::SkipExisting => "SkipExisting",
        }
    }

    /// The mode of a name, in any case.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }

    /// Where an upload begins if there is a file of `existing` bytes, and an unfinished upload of `unfinished` bytes that is not older.
    #[must_use]
    pub fn start(self, existing: Option<u64>, unfinished: Option<u64>) -> UploadStart {
        match (self, existing, unfinished) {
            (Self::New, Some(_), _) => UploadStart::Exists,
            // A client takes no bytes as a file that is not there.
            (Self::SkipExisting, Some(bytes), _) if bytes > 0 => UploadStart::Kept(bytes),
            (Self::Resume, _, Some(bytes)) if bytes > 1 => UploadStart::Unfinished(bytes - 1),
            (Self::Resume, Some(bytes), None) if bytes > 0 => UploadStart::Existing(bytes),
            _ => UploadStart::Beginning,
        }
    }
}

impl UploadStart {
    /// Bytes that a client need not send.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::Exists | Self::Beginning => 0,
            Self::Unfinished(bytes) | Self::Existing(bytes) | Self::Kept(bytes) => bytes,
        }
    }
}
