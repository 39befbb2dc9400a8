//! Downloads: ranges of files, each on a data channel of its own.

use super::client::{EtransferClient, TRANSFERS};
use super::list::Listing;
use super::session::{Begun, Session, Wire};
use super::url::EtransferUrl;
use crate::web_copy::begin_error;
use ring::digest::{SHA256, digest};
use skyhaul_core::etransfer::{CONFIRMATION, DataHeader, EtransferRequest};
use skyhaul_transfer::copy::{
    CopyOptions, CopyReport, FetchError, Progress, RangeBody, RangeServer, ServedFile, fetch,
};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

impl EtransferClient {
    /// Downloads what is at these URLs of this server, and everything below those that are directories, into the first directory of `options`;
    /// `name`: as a file of that name. `progress` is called a few times a second.
    ///
    /// # Errors
    /// Nothing was copied: the server is not there, refuses or does not have it; the destination cannot be written. What ends a copy later is in
    /// the report.
    pub fn download(
        &self,
        urls: &[EtransferUrl],
        name: Option<&OsStr>,
        options: &CopyOptions,
        progress: &mut dyn FnMut(&Progress),
    ) -> io::Result<CopyReport> {
        let is_over = || options.stop.is_set();
        let mut listing = self.list(urls, &is_over).map_err(begin_error)?;
        if let Some(name) = name {
            let [(_, path)] = &mut listing.files[..] else {
                let text = "the destination is the name of one file, and the source is several";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            };
            if !listing.directories.is_empty() {
                let text = "the destination is the name of a file, and the source is a directory";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            *path = PathBuf::from(name);
        }
        let Listing { files, directories } = listing;
        let mut served = Vec::with_capacity(files.len());
        for (path, below) in &files {
            let size = self.size(path, &is_over).map_err(begin_error)?;
            // Nothing else is known of a version: another path or size is another file.
            let identity = digest(&SHA256, path.as_bytes());
            let word = identity.as_ref().first_chunk::<8>().map_or(0, |word| u64::from_be_bytes(*word));
            let (version, has_ranges) = ([word, size], true);
            served.push(ServedFile {
                path: below.clone(),
                size,
                version,
                has_ranges,
                ..ServedFile::default()
            });
        }
        let mut options = options.clone();
        options.tuning.flows = TRANSFERS;
        let files = files.into_iter().zip(&served).map(|((path, _), of)| (path, of.size)).collect();
        fetch((&served, &directories), &Download { client: self, files }, &options, progress)
    }

    fn size(&self, path: &str, is_over: &dyn Fn() -> bool) -> Result<u64, FetchError> {
        let remain = self.with_session(is_over, &mut |session| session.remain(path, 0, is_over));
        let remain = remain.map_err(|error| match error {
            FetchError::Final(why) => FetchError::Final(format!("{path}: {why}")),
            other => other,
        })?;
        u64::try_from(remain)
            .map_err(|_| FetchError::Final(format!("{path}: the server does not say its size")))
    }
}

/// The files of a download on their server: paths and sizes.
struct Download<'a> {
    client: &'a EtransferClient,
    files: Vec<(String, u64)>,
}

impl Download<'_> {
    fn file(&self, number: usize) -> Result<&(String, u64), FetchError> {
        self.files.get(number).ok_or_else(|| FetchError::Final("no such file".to_owned()))
    }
}

impl RangeServer for Download<'_> {
    fn open(
        &self,
        number: usize,
        range: Option<Range<u64>>,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Box<dyn RangeBody + '_>, FetchError> {
        let (path, size) = self.file(number)?;
        let range = range.unwrap_or(0..*size);
        let mut session = self.client.session(is_over)?;
        let request = EtransferRequest::Read { have: range.start, path: path.clone() };
        let begun = session.begin(&request, is_over)?;
        if u64::try_from(begun.number).ok() != size.checked_sub(range.start) {
            return Err(FetchError::Final("the source changed while it was copied".to_owned()));
        }
        let bytes = range.end - range.start;
        let head = DataHeader { uuid: begun.uuid.clone(), bytes, is_push: true };
        let wire = session.channel(&head, is_over)?;
        Ok(Box::new(Body { client: self.client, parts: Some((session, begun, wire)), left: bytes }))
    }

    fn confirm(&self, number: usize, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let (path, size) = self.file(number)?;
        match self.client.size(path, is_over)? == *size {
            true => Ok(()),
            false => Err(FetchError::Final("the source changed while it was copied".to_owned())),
        }
    }
}

/// The bytes of a range. A session that did not come to its end is closed.
struct Body<'a> {
    client: &'a EtransferClient,
    parts: Option<(Session, Begun, Wire)>,
    left: u64,
}

impl RangeBody for Body<'_> {
    fn read(&mut self, into: &mut [u8], is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let Some((_, _, wire)) = &mut self.parts else {
            return Err(FetchError::Broken("the range has ended".to_owned()));
        };
        let mut filled = 0;
        while filled < into.len() {
            if is_over() {
                return Err(FetchError::Over);
            }
            let read = wire.read(&mut into[filled..], is_over)?;
            if read == 0 {
                return Err(FetchError::Broken("the server closed the data channel".to_owned()));
            }
            filled += read;
        }
        self.left = self.left.saturating_sub(filled as u64);
        if self.left == 0
            && let Some((mut session, begun, mut wire)) = self.parts.take()
        {
            // It has come: what fails now costs a new session, and no byte.
            let ended = wire.write(&[CONFIRMATION], is_over).and_then(|()| session.remove(&begun, is_over));
            if ended.is_ok() {
                self.client.put_back(session);
            }
        }
        Ok(())
    }
}
