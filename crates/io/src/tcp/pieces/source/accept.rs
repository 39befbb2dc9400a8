//! Who is let in: listening, accepting, refusing.

use super::{Connection, LISTENER, PieceSource};
use crate::tcp::open::ready;
use crate::tcp::pieces::{PieceEvent, PieceSink, cut::Cutter, read::READ};
use rustix::event::epoll;
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    time::{Duration, Instant},
};

/// Most connections accepted in one poll.
const ACCEPTS: usize = 64;
/// After running out of file descriptors, the next connection is tried so much later.
const PAUSE: Duration = Duration::from_millis(200);

impl PieceSource {
    /// Accept from there, if anybody is to be accepted.
    pub(super) fn accept_from(&mut self, listener: TcpListener) -> io::Result<()> {
        self.listener = (self.left != Some(0)).then_some(listener);
        self.watch(true)
    }

    pub(super) fn watch(&mut self, on: bool) -> io::Result<()> {
        if let Some(listener) = &self.listener
            && self.watching != on
        {
            let mark = epoll::EventData::new_u64(LISTENER);
            if on {
                epoll::add(&self.epoll, listener, mark, epoll::EventFlags::IN)
            } else {
                epoll::delete(&self.epoll, listener)
            }
            .map_err(|e| self.at.failed("watch", &e.into()))?;
            self.watching = on;
        }
        Ok(())
    }

    pub(super) fn accept(&mut self, sink: &mut dyn PieceSink) -> io::Result<()> {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.listener else { return Ok(()) };
            match listener.accept() {
                Ok((_, sender)) if self.refuses(&sender) => {
                    self.stats.refused += 1;
                    sink.event(PieceEvent::Refused { sender });
                }
                // One that is gone again before it was looked at is not worth an error.
                Ok((stream, sender)) => {
                    if let Ok(connection) = self.admit(stream, sender) {
                        self.left = self.left.map(|left| left - 1);
                        sink.event(PieceEvent::Opened { connection, sender });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Out of descriptors: whoever connects waits in the kernel meanwhile.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
                    self.advise(format!(
                        "accept on {}: out of file descriptors; hint: ulimit -n 65536",
                        self.at
                    ));
                    self.pause = Some(Instant::now() + PAUSE);
                    return self.watch(false);
                }
                // Somebody shut the listener down (EINVAL): trying again would never end.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSOCK)) => {
                    self.left = Some(0);
                }
                // The peer gave up first, or there is no memory: in the next poll.
                Err(_) => return Ok(()),
            }
            if self.left == Some(0) {
                // Closing takes it out of the epoll set; who connects now is refused by the kernel.
                self.listener = None;
            }
        }
        Ok(())
    }

    /// Whether a new connection is closed at once, rather than left to wait uncounted.
    fn refuses(&mut self, sender: &SocketAddr) -> bool {
        let most = self.options.connections;
        let full = self.connections.len() >= most;
        if full {
            self.advise(format!(
                "{}: more than {most} connections at a time; hint: run more receivers, or raise ulimit -n if it is below 1366",
                self.at
            ));
        }
        full || self.at.source.is_some_and(|only| only != sender.ip())
    }

    fn advise(&mut self, remedy: String) {
        if !self.stats.remedies.contains(&remedy) {
            self.stats.remedies.push(remedy);
        }
    }

    pub(super) fn admit(&mut self, stream: TcpStream, sender: SocketAddr) -> io::Result<u64> {
        ready(&stream, self.options.keepalive)?;
        let mark = self.next;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(mark), epoll::EventFlags::IN)?;
        self.connections.insert(
            mark,
            Connection { stream, sender, cutter: Cutter::new(&self.rules), most: READ, gathers: false },
        );
        self.next += 1;
        self.stats.connections += 1;
        Ok(mark)
    }
}
