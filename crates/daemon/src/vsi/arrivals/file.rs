//! A file that arrives over one connection, as `net2file` of jive5ab writes it: in place, so that what is there of it can be continued.

use super::peer::Peer;
use super::shared::{Arrival, Receiver};
use crate::station::files;
use skyhaul::io::disk::{DiskTurn, Tree};
use skyhaul::io::lock::lock;
use skyhaul_core::vsi::{VsiCode, VsiExisting};
use std::fs::File;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Bytes that are written at a time.
const PIECE_BYTES: usize = 1 << 20;
/// After so many bytes they are made durable.
const SYNC_BYTES: u64 = 128 << 20;
/// What jive5ab writes when it has received everything; its sender waits for it.
const RECEIVED: u8 = 0;

/// A file that arrives.
#[derive(Debug)]
pub(super) struct ArrivingFile {
    tree: Tree,
    path: PathBuf,
    name: String,
    file: File,
    present: u64,
    /// It was made for this.
    is_new: bool,
    /// What is there is dropped when something has come in its place.
    replaces: bool,
    /// One past the last byte that was written.
    end: Mutex<u64>,
}

impl ArrivingFile {
    pub(super) fn open(
        directories: &[PathBuf],
        name: &str,
        existing: VsiExisting,
    ) -> Result<Self, (VsiCode, String)> {
        let failed = |why: String| (VsiCode::Failed, why);
        let fault = |error: io::Error| failed(format!("{name}: {error}"));
        let is_kept = existing == VsiExisting::Keep;
        let (tree, path, is_there) = files::writable(directories, name, is_kept).map_err(failed)?;
        let (file, _) = tree.write(&path, false).map_err(fault)?;
        let is_new = !is_there;
        if is_new {
            let modified = file.metadata().and_then(|of| of.modified()).map_err(fault)?;
            let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let time = (i64::try_from(since.as_secs()).unwrap_or(0), since.subsec_nanos());
            tree.settle(&file, 0o644, time).map_err(fault)?;
        }
        let replaces = existing == VsiExisting::Replace;
        let present = if replaces { 0 } else { file.metadata().map_err(fault)?.len() };
        let (name, end) = (name.to_owned(), Mutex::new(present));
        Ok(Self { tree, path, name, file, present, is_new, replaces, end })
    }

    /// Bytes that it has before anything arrives.
    pub(super) fn present_bytes(&self) -> u64 {
        self.present
    }

    /// Passes on the `result` of a sync. If it failed, only the `synced` bytes stay that an earlier one made durable: the kernel reports once that
    /// it has lost pages, and who continues the file would trust its length.
    fn durable(&self, result: io::Result<()>, synced: u64) -> io::Result<()> {
        if result.is_err() {
            // It fails already; if this does as well, the error is the same disk's.
            let _ = self.file.set_len(synced);
            *lock(&self.end) = synced;
        }
        result
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut turn = DiskTurn::ask(&self.file, bytes.len() as u64)?;
        turn.wait();
        self.file.write_all_at(bytes, at)
    }
}

impl Receiver for ArrivingFile {
    fn receive(&self, stream: TcpStream, from: IpAddr, arrival: &Arc<Arrival>) -> Result<(), String> {
        let fault = |error: io::Error| format!("{} from {from}: {error}", self.name);
        let mut peer = Peer::new(stream, arrival).map_err(fault)?;
        let (mut at, mut synced, mut piece) = (self.present, self.present, vec![0; PIECE_BYTES]);
        loop {
            let read = peer.read(&mut piece).map_err(fault)?;
            if at == self.present && self.replaces {
                self.file.set_len(0).map_err(fault)?;
            }
            if read == 0 {
                break;
            }
            self.write(&piece[..read], at).map_err(fault)?;
            at += read as u64;
            *lock(&self.end) = at;
            arrival.wrote(read as u64);
            if at - synced >= SYNC_BYTES {
                self.durable(self.file.sync_data(), synced).map_err(fault)?;
                synced = at;
            }
        }
        self.durable(self.file.sync_all(), synced).map_err(fault)?;
        // Who does not wait for it has gone.
        let _ = peer.write(&[RECEIVED]);
        peer.close();
        Ok(())
    }

    fn is_for_one(&self) -> bool {
        true
    }

    fn finish(&self) -> Result<(), String> {
        let fault = |error: io::Error| format!("{}: {error}", self.name);
        if self.is_new && *lock(&self.end) == 0 {
            return self.tree.remove(&self.path).map_err(fault);
        }
        self.file.sync_all().map_err(fault)?;
        let above = self.path.parent().unwrap_or(Path::new(""));
        self.tree.directory(above).and_then(|directory| directory.sync_all()).map_err(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_failed_sync_only_what_an_earlier_one_made_durable_stays() {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().join("f");
        let arriving =
            ArrivingFile::open(&[directory.path().into()], name.to_str().unwrap(), VsiExisting::Replace)
                .unwrap();
        arriving.write(&[7; 10], 0).unwrap();
        assert!(arriving.durable(Ok(()), 4).is_ok());
        assert_eq!(arriving.file.metadata().unwrap().len(), 10);
        assert!(arriving.durable(Err(io::Error::other("the disk failed")), 4).is_err());
        assert_eq!((arriving.file.metadata().unwrap().len(), *lock(&arriving.end)), (4, 4));
    }
}
