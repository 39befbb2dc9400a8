//! Reconnects to the planes after the connection broke, or starts others; and the lock that keeps a second data plane off the ports.

use super::serve::{END, Hello, PATIENCE, TABLE, write};
use super::{Link, POLL_INTERVAL, Restart, greet, locked};
use skyhaul_io::host::server::Server;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a process that was started may take until it serves.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The time from one start to the next, if the former one soon ended.
const RESTART_DELAY: Duration = Duration::from_secs(1);

impl Link {
    /// Listen to the planes, and to those that follow them.
    pub(super) fn run(&self, mut from: UnixStream) {
        loop {
            let begun = Instant::now();
            let Err(why) = self.follow(&from) else { return };
            if self.ends() {
                return;
            }
            // One that dies at once is not started in a loop; its ports are free a moment after its end.
            let pause = RESTART_DELAY.saturating_sub(begun.elapsed()).max(POLL_INTERVAL * 2);
            let Some(next) = self.again(&why, pause) else { return };
            from = next;
        }
    }

    /// Connect to whoever forwards now; start a process only if nobody does.
    fn again(&self, why: &io::Error, mut pause: Duration) -> Option<UnixStream> {
        let lost = Instant::now();
        loop {
            self.pause(pause);
            if self.ends() {
                return None;
            }
            let error = match self.greet_again() {
                Ok((from, hello)) => {
                    self.is_back(&hello, lost, why);
                    return Some(from);
                }
                Err(error) => error,
            };
            if is_nobody(&error) {
                let Some(restart) = &self.restart else {
                    self.note(format!(
                        "the data plane is not heard any more: {why}; hint: start the balancer again"
                    ));
                    return None;
                };
                locked(&self.heard).gone.get_or_insert(lost);
                match self.start(restart) {
                    Ok((from, hello)) => {
                        self.is_back(&hello, lost, why);
                        return Some(from);
                    }
                    Err(error) => {
                        self.note(format!("the data plane ended, and cannot be started again: {error}"));
                    }
                }
            }
            pause = (pause * 2).min(RESTART_DELAY);
        }
    }

    /// Connect to the planes that still serve. Some that are stopped say nothing until they go on: nobody is started beside
    /// them.
    fn greet_again(&self) -> io::Result<(UnixStream, Hello)> {
        let begun = Instant::now();
        let mut waits = || {
            if begun.elapsed() > PATIENCE {
                self.note(format!(
                    "the data plane at {} runs and does not answer: packets go on by its last table, if at all; hint: if it \
                     is stopped, continue it (SIGCONT); if it hangs, kill it: another is started then",
                    self.path.display()
                ));
            }
            !self.ends()
        };
        let (stream, hello, _) = greet(&self.path, &mut waits)?;
        self.take(stream, hello)
    }

    /// Start a process, and give it the table.
    fn start(&self, restart: &Restart) -> io::Result<(UnixStream, Hello)> {
        let mut started = restart(&self.data)?;
        let begun = Instant::now();
        loop {
            let mut waits = || begun.elapsed() < START_TIMEOUT && !self.ends();
            let error = match greet(&self.path, &mut waits) {
                Ok((stream, hello, _)) => return self.take(stream, hello),
                Err(error) => error,
            };
            if let Some(why) = started() {
                return Err(why);
            }
            if begun.elapsed() > START_TIMEOUT || self.ends() {
                return Err(error);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// From now on tables are written to this connection, and first the newest one.
    fn take(&self, stream: UnixStream, hello: Hello) -> io::Result<(UnixStream, Hello)> {
        let from = stream.try_clone()?;
        let mut link = locked(&self.stream);
        write(&stream, TABLE, &link.1)?;
        *locked(&self.server) = Server::of(&stream);
        link.0 = stream;
        if self.ends() {
            write(&link.0, END, &[])?;
        }
        self.tables.store(hello.tables + 1, Ordering::Release);
        Ok((from, hello))
    }

    /// Somebody is heard again. If these are others, add up what the former ones did; what the same ones did is in what they say.
    fn is_back(&self, hello: &Hello, lost: Instant, why: &io::Error) {
        let seconds = lost.elapsed().as_secs_f64();
        let mut heard = locked(&self.heard);
        let is_same = std::mem::replace(&mut heard.id, hello.id) == hello.id;
        let gone = heard.gone.take();
        if is_same {
            drop(heard);
            return self.note(format!(
                "the connection to the data plane broke ({why}) and was made again {seconds:.2} s later: packets went on by \
                 its last table, and are counted"
            ));
        }
        let former = std::mem::take(&mut heard.done);
        heard.before.add(&former);
        heard.lost.restarts += 1;
        heard.lost.away += gone.unwrap_or(lost).elapsed();
        drop(heard);
        self.note(format!(
            "the data plane ended ({why}) and was started again {seconds:.2} s later: packets of that time, and those that it \
             had not forwarded yet, are lost and in no counter"
        ));
    }
}

/// Nobody serves there.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// A lock beside the socket of a data plane, taken before any port is opened: a second one that was started by mistake would
/// otherwise take a part of the packets of ports that both have open. It is free when the process ends in any way.
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    _file: File,
}

impl Claim {
    /// Take the right to forward at `socket`.
    ///
    /// # Errors
    /// Another process has it, or the file cannot be made: the error names it.
    pub fn take(socket: &Path) -> io::Result<Claim> {
        let mut path = socket.as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("lock {}: {error}", path.display()));
        loop {
            let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
            let file = open.map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let text = format!("another data plane forwards at {} already", socket.display());
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
            // The former one removed the file after it was opened here: the next one would not meet this lock.
            let is_it = |there: std::fs::Metadata| Ok::<_, io::Error>(there.ino() == file.metadata()?.ino());
            if std::fs::metadata(&path).and_then(is_it).unwrap_or(false) {
                return Ok(Claim { path, _file: file });
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests;
