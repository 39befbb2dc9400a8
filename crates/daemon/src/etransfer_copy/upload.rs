//! Uploads: each file on a data channel, from where the server has none of it.
//!
//! A file counts when the server has confirmed all its bytes and says that it has as many as there are here. One whose connection broke is
//! continued where the server is; what an earlier copy left is continued only on request, because etransfer compares only lengths.

use super::client::{EtransferClient, TRANSFERS};
use super::session::{Begun, Session, WrittenFile};
use super::url::EtransferUrl;
use crate::remote::failure::plain;
use crate::web_copy::files::{Ended, account, each};
use crate::web_copy::pace::Pace;
use crate::web_copy::{begin_error, pause};
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::read_at_in_turn;
use skyhaul::io::disk::tree::Status;
use skyhaul::io::host::thread::process_cpu_time;
use skyhaul::io::lock::lock;
use skyhaul_core::etransfer::{DataHeader, UploadMode};
use skyhaul_transfer::copy::{
    CopyOptions, CopyReport, FetchError, LocalFile, Progress, SourceSizes, back_off, local_files,
};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes that are read and sent at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What an upload does about a file that the server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtransferUploadMode {
    /// It is an error.
    Fail,
    /// It is kept.
    Skip,
    /// It is replaced.
    Replace,
    /// What it lacks is appended; one of the same length is kept.
    Resume,
}

impl EtransferClient {
    /// Uploads the sources of `options`, and everything below those that are directories, to a URL of this server: into the directory that it names,
    /// or, if there is none and it does not end with `/`, as that file. Of `options`, flows, ranges and what belongs to disks are not used. `progress` is called a few times a second.
    ///
    /// # Errors
    /// Nothing was copied: a source cannot be read, the server is not there, or the destination is no directory and the source is. What ends a copy
    /// later is in the report.
    pub fn upload(
        &self,
        to: &EtransferUrl,
        mode: EtransferUploadMode,
        options: &CopyOptions,
        progress: &mut dyn FnMut(&Progress),
    ) -> io::Result<CopyReport> {
        let threads = TRANSFERS;
        let local = local_files(&options.sources)?;
        let is_over = || options.stop.is_set();
        let (begun, cpu) = (Instant::now(), process_cpu_time());
        let files = self.places((&local.files, local.directories.is_empty()), to, &is_over)?;
        let all_bytes = files.iter().map(|(file, _)| file.size()).sum();
        let mut report = CopyReport {
            version: skyhaul::report::VERSION,
            flows: threads,
            special: local.special,
            dropped_links: local.links,
            temporary_names: local.temporary_names,
            ..CopyReport::default()
        };
        if options.dry_run {
            report.to_copy = Some(SourceSizes { files: files.len() as u64, bytes: all_bytes });
            return Ok(report);
        }
        let pace = options.tuning.limit.map(Pace::new);
        let upload = Upload { client: self, mode, pace, sent: AtomicU64::new(0), kept: AtomicU64::new(0) };
        let work = |(file, path): &(&LocalFile, String), _: usize, is_over: &dyn Fn() -> bool| {
            upload.file(file, path, is_over)
        };
        let done = each((&files, threads), &is_over, &work, &mut |done| {
            progress(&Progress {
                files: done,
                all_files: files.len(),
                bytes: upload.sent.load(Ordering::Relaxed),
                all_bytes: all_bytes.saturating_sub(upload.kept.load(Ordering::Relaxed)),
                seconds: begun.elapsed().as_secs_f64(),
                ..Progress::default()
            });
        });
        report.seconds = begun.elapsed().as_secs_f64();
        report.sender.cpu_seconds = process_cpu_time().saturating_sub(cpu).as_secs_f64();
        let named = done.into_iter().filter_map(|(at, ended)| Some((files.get(at)?.0.name(), ended)));
        account(&mut report, named.collect(), files.len());
        Ok(report)
    }

    /// Where each file goes.
    fn places<'a>(
        &self,
        (files, is_flat): (&'a [LocalFile], bool),
        to: &EtransferUrl,
        is_over: &dyn Fn() -> bool,
    ) -> io::Result<Vec<(&'a LocalFile, String)>> {
        let invalid = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        if !to.is_directory() && !self.is_directory(&to.path, is_over).map_err(begin_error)? {
            return match files {
                [file] if is_flat => Ok(vec![(file, to.path.clone())]),
                _ => {
                    let hint = Hint("give a directory, with `/` at its end");
                    Err(invalid(format!("{to} is no directory, and can be the name of one file only{hint}")))
                }
            };
        }
        let base = to.path.trim_end_matches('/');
        let place = |file: &'a LocalFile| {
            let name = file.name();
            let text = name.to_str().filter(|text| !text.chars().any(char::is_control));
            let text =
                text.ok_or_else(|| invalid(format!("{}: no line can carry this name", name.display())))?;
            Ok((file, format!("{base}/{text}")))
        };
        files.iter().map(place).collect()
    }
}

struct Upload<'a> {
    client: &'a EtransferClient,
    mode: EtransferUploadMode,
    pace: Option<Pace>,
    sent: AtomicU64,
    kept: AtomicU64,
}

/// What is known of the attempts to send a file.
struct Attempt {
    mode: UploadMode,
    /// Bytes that the server had before the first of them.
    resumed: Option<u64>,
}

/// A file that is open, and where it goes.
struct Source<'a> {
    file: File,
    status: Status,
    path: &'a str,
}

impl Upload<'_> {
    fn file(&self, local: &LocalFile, path: &str, is_over: &dyn Fn() -> bool) -> Result<Ended, FetchError> {
        let (file, status) = local.open().map_err(|error| FetchError::Final(plain(&error)))?;
        let source = Source { file, status, path };
        let (mut tries, mut attempt) = (0, Attempt { mode: first_mode(self.mode), resumed: None });
        loop {
            let error = match self.once(&source, &mut attempt, is_over) {
                Err(error @ FetchError::Broken(_)) => error,
                other => return other,
            };
            lock(&self.client.idle).clear();
            tries += 1;
            let Some(wait) = back_off(tries, None) else { return Err(error) };
            pause(wait, is_over)?;
        }
    }

    fn once(
        &self,
        source: &Source<'_>,
        attempt: &mut Attempt,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Ended, FetchError> {
        let size = source.status.size;
        let mut session = self.client.session(is_over)?;
        let opened = write_file(&mut session, (source.path, size), attempt.mode, is_over)?;
        let Some(WrittenFile { begun, have }) = opened else { return Ok(self.kept(size, session)) };
        let is_first = attempt.resumed.is_none();
        let resumed = *attempt.resumed.get_or_insert(have);
        // What follows may break: the server has some of it then, and it is of this copy.
        attempt.mode = UploadMode::Resume;
        if have == size && size > 0 {
            session.remove(&begun, is_over)?;
            if is_first {
                return Ok(self.kept(size, session));
            }
        } else {
            self.send(&mut session, source, (&begun, have), is_over)?;
            session.remove(&begun, is_over)?;
        }
        session.verify(source.path, size, is_over)?;
        self.client.put_back(session);
        let now = Status::of_file(&source.file).map_err(|error| FetchError::Final(plain(&error)))?;
        let of = |status: &Status| (status.size, status.modified, status.changed);
        if of(&now) != of(&source.status) {
            return Err(FetchError::Final("the file changed while it was sent".to_owned()));
        }
        Ok(Ended::Copied { bytes: size, resumed: resumed.min(size), crc32c: None, is_checked: false })
    }

    fn kept(&self, bytes: u64, session: Session) -> Ended {
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        self.client.put_back(session);
        Ended::Kept { bytes }
    }

    /// Sends the bytes behind those that the server has, and waits until it confirms.
    fn send(
        &self,
        session: &mut Session,
        source: &Source<'_>,
        (begun, have): (&Begun, u64),
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        let size = source.status.size;
        let head = DataHeader { uuid: begun.uuid.clone(), bytes: size - have, is_push: false };
        let mut wire = session.channel(&head, is_over)?;
        let (mut at, mut piece) = (have, vec![0; PIECE_BYTES]);
        while at < size {
            let most = usize::try_from(size - at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            let read = read_at_in_turn(&source.file, &mut piece[..most], at);
            let read = match read {
                Ok(0) => {
                    return Err(FetchError::Final("the file became shorter while it was sent".to_owned()));
                }
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(FetchError::Final(plain(&error))),
            };
            if let Some(pace) = &self.pace {
                pause(pace.hold(read as u64), is_over)?;
            }
            wire.write(&piece[..read], is_over)?;
            self.sent.fetch_add(read as u64, Ordering::Relaxed);
            at += read as u64;
        }
        wire.confirm(is_over)
    }
}

fn first_mode(of: EtransferUploadMode) -> UploadMode {
    match of {
        EtransferUploadMode::Fail => UploadMode::New,
        EtransferUploadMode::Skip => UploadMode::SkipExisting,
        EtransferUploadMode::Replace => UploadMode::OverWrite,
        EtransferUploadMode::Resume => UploadMode::Resume,
    }
}

fn write_file(
    session: &mut Session,
    file: (&str, u64),
    mode: UploadMode,
    is_over: &dyn Fn() -> bool,
) -> Result<Option<WrittenFile>, FetchError> {
    session.write_file(file, mode, is_over).map_err(|error| match error {
        FetchError::Final(why) if mode == UploadMode::New && why.contains("File exists") => {
            let hint = Hint("--exists resume appends what it lacks, skip keeps it, replace overwrites it");
            FetchError::Final(format!("a file is at the destination{hint}"))
        }
        other => other,
    })
}
