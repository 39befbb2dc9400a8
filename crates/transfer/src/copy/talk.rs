//! The control connection of a copy, as both ends use it.

use super::message::{Done, Entry, Message, Side};
use super::names::shown;
use skyhaul::peer::{Connection, PeerError};
use std::io;
use std::time::{Duration, Instant};

/// How long a look at the connection waits: how soon files begin and end.
const WAIT: Duration = Duration::from_millis(5);
/// How often an end that has nothing to tell says so.
const SIGN: Duration = Duration::from_secs(2);
/// How long an end that closed a flow may take to say why.
const REASON: Duration = Duration::from_secs(1);

/// Progress of a copy, for a line that is redrawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Files that are whole.
    pub files: usize,
    /// Files in all.
    pub all_files: usize,
    /// Bytes moved in this session.
    pub bytes: u64,
    /// Bytes to be moved in this session.
    pub all_bytes: u64,
    /// Seconds since the first byte.
    pub seconds: f64,
}

/// The connection, with what an end must know besides.
pub(super) struct Talk<'a> {
    pub(super) connection: &'a mut Connection,
    /// Whether this end is to stop.
    pub(super) stop: &'a dyn Fn() -> bool,
    pub(super) progress: &'a mut dyn FnMut(&Progress),
    pub(super) patience: Duration,
    heard: Instant,
    said: Instant,
}

/// What a copy came to, at either end.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) entries: Vec<Entry>,
    pub(super) done: Vec<Done>,
    pub(super) mine: Side,
    pub(super) theirs: Side,
    /// Why it ended early.
    pub(super) stopped: Option<String>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        connection: &'a mut Connection,
        stop: &'a dyn Fn() -> bool,
        progress: &'a mut dyn FnMut(&Progress),
        patience: Duration,
    ) -> Self {
        let now = Instant::now();
        Self { connection, stop, progress, patience, heard: now, said: now }
    }

    pub(super) fn say(&mut self, message: &Message) -> io::Result<()> {
        self.said = Instant::now();
        self.connection.send(message).map_err(of_peer)
    }

    /// Say that this end is there, if it has said nothing for a while.
    pub(super) fn live(&mut self) -> io::Result<()> {
        if self.said.elapsed() > SIGN { self.say(&Message::Alive) } else { Ok(()) }
    }

    /// The next message, if one comes within a moment.
    ///
    /// # Errors
    /// The peer is gone, or stops.
    pub(super) fn hear(&mut self) -> io::Result<Option<Message>> {
        self.live()?;
        match self.connection.receive::<Message>(WAIT) {
            Ok(message) => {
                self.heard = Instant::now();
                Ok(match message {
                    Message::Alive => None,
                    Message::Stop { why } => {
                        return Err(io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            format!("the other end stopped: {}", shown(&why)),
                        ));
                    }
                    other => Some(other),
                })
            }
            Err(error) if error.is_late() && self.heard.elapsed() < self.patience => Ok(None),
            Err(error) => Err(of_peer(error)),
        }
    }

    /// Why it ended: what a thread failed of, or this. Where that is only a flow that the other end closed, the other end knows why.
    pub(super) fn reason(&mut self, failed: Option<io::Error>, ended: io::Error) -> io::Error {
        let failed = match failed {
            Some(failed) if is_closed(&failed) => failed,
            Some(failed) => return failed,
            None => return ended,
        };
        // It has said so, or the user wanted it.
        if ended.kind() != io::ErrorKind::Other {
            return ended;
        }
        let end = Instant::now() + REASON;
        while Instant::now() < end {
            if let Err(why) = self.hear() {
                return why;
            }
        }
        failed
    }

    /// That a message came which does not belong here.
    pub(super) fn unexpected(&self, message: &Message) -> io::Error {
        let text: String = format!("{message:?}").chars().take(60).collect();
        of_peer(self.connection.unexpected(&text))
    }
}

/// Whether it says no more than that the other end is gone.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// The error of a peer, as text.
pub(super) fn of_peer(error: PeerError) -> io::Error {
    match error {
        PeerError::Io(error) => error,
        PeerError::Stopped => io::Error::new(io::ErrorKind::Interrupted, "stopped"),
        PeerError::Closed(_) => io::Error::new(io::ErrorKind::ConnectionReset, error.to_string()),
        other => io::Error::other(other.to_string()),
    }
}
