//! A TCP flow, as both ends saw it.

/// One flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flow {
    /// Duration, s.
    pub seconds: f64,
    /// Time in which there was something to send, s (`tcpi_busy_time`).
    pub busy: f64,
    /// Of that, time limited by the receiver's window, s (`tcpi_rwnd_limited`).
    pub rwnd_limited: f64,
    /// Of that, time in which the window was growing, and became more than twice as large, s.
    pub rwnd_outgrown: f64,
    /// Of `busy`, time limited by the send buffer, s (`tcpi_sndbuf_limited`).
    pub sndbuf_limited: f64,
    /// Fraction of the time that the sending and the receiving application waited for their disks, 0 to 1.
    pub disk_wait: f64,
    /// Fraction of the time that the receiving application had data and did not read, 0 to 1.
    pub reader_away: f64,
    /// What the thread of the receiver did; `None` if the receiver does not report it.
    pub reader: Option<ReaderTimes>,
    /// Fraction of the time that the sending thread was on a CPU, or waited for one, 0 to 1.
    pub sender_busy: f64,
    /// Segments sent.
    pub segments: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Segments that the peer received twice.
    pub doubled: u64,
    /// Segments that arrived after a later one.
    pub reordered: u64,
    /// Largest window that the receiver announced, bytes; 0: unknown.
    pub window: f64,
    /// Bytes received; `None` if the receiver does not report them.
    pub received: Option<u64>,
    /// Smallest round-trip time, s.
    pub min_rtt: f64,
    /// The congestion control keeps its rate under loss (BBR), so its window says nothing about losses.
    pub paced: bool,
    /// The flow, one entry per round trip.
    pub rounds: Vec<Round>,
}

/// One round trip of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Round {
    /// When it began, s.
    pub at: f64,
    /// Round-trip time before the first retransmission in this round trip, s; 0 if unknown.
    pub rtt: f64,
    /// Congestion window, in any unit.
    pub window: f64,
    /// Segments retransmitted.
    pub lost: u32,
    /// Segments sent.
    pub sent: u32,
    /// Rate of delivery, in any unit; 0 if unknown.
    pub rate: f64,
}

/// What the thread of a TCP receiver did, as fractions of its time (0 to 1): the rest, it used a CPU in calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReaderTimes {
    /// It waited for data.
    pub waited: f64,
    /// It was away for less than 10 ms at a time while data waited.
    pub short: f64,
    /// It paused: it was away for at least 10 ms at a time while data waited.
    pub paused: f64,
    /// Number of pauses.
    pub pauses: u32,
    /// Longest pause, s.
    pub longest: f64,
    /// How many times as large as now the kernel may make the receive buffer; 0: unknown.
    pub room: f64,
}

/// Why the receiver's window holds a flow back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowLimit {
    /// The application is away again and again while data wait.
    PausingReader,
    /// The same, and the buffer is less than what the path holds: the flow reached this fraction of what the window allows.
    PausesAndBuffer(f64),
    /// The application is slower than the path all the time.
    SlowReader,
    /// The buffer is small.
    SmallBuffer,
    /// The kernel has enlarged it: what it held back at first, it does no more.
    Growing,
    /// The window is small; this is why it may not be the buffer.
    Unclear(WindowDoubt),
}

/// What speaks against a small buffer where the window is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowDoubt {
    /// The window has shrunk, though the application reads at once.
    Shrunk,
    /// The application pauses, for a small part of the time.
    SomePauses,
    /// The kernel may make the buffer much larger, and does not.
    Room,
    /// The queue of the path is full, too.
    Queue,
}

/// If none of at least this many segments arrived, that is not chance.
const VANISHED: u64 = 4;
/// If more than this fraction of the segments, and at least this many, are reordered, packets take several paths.
const SPRAYED: (f64, u64) = (2e-3, 50);

/// If the window has shrunk for more than the first fraction of the time that a window which does not grow limits the flow, and more than the
/// second of all the time that it does, the reader is away. The window of a reader that keeps up is nearly all of the buffer.
const SHRINKS: (f64, f64) = (0.2, 0.1);

/// Waiting for more than this fraction of the time bounds a flow.
pub(super) const BOUNDS: f64 = 0.2;

/// Fractions of the time that a reader pauses: up to the first, as on a busy host; from the second on, it is a cause.
const PAUSES: (f64, f64) = (0.03, 0.1);
/// A reader that has something else to do for at least this fraction of the time than to wait and to pause is slow.
const SLOW: f64 = 0.5;
/// One that pauses for more than this fraction hardly reads.
const AWAY: f64 = 0.97;
/// A buffer that may become more than this many times as large is not at its limit.
const ROOM: f64 = 2.0;
/// From this fraction of the rate that the window allows on, the window is a limit whatever the reader does.
const REACHED: f64 = 0.8;
/// A round-trip time that is longer than the smallest by this fraction, and this time, s, is that of a queue that stays.
const QUEUE: (f64, f64) = (0.25, 2e-3);

impl Flow {
    /// Whether the receiver's window shrinks: what its application has not read takes place in its buffer.
    #[must_use]
    pub fn is_reader_away(&self) -> bool {
        let away = self.reader_away * self.seconds;
        away > SHRINKS.0 * (self.rwnd_limited - self.rwnd_outgrown) && away > SHRINKS.1 * self.rwnd_limited
    }

    /// Whether nothing arrived, of more segments than chance loses. The small ones that open the connection did pass.
    #[must_use]
    pub fn has_vanished(&self) -> bool {
        self.received == Some(0) && self.segments >= VANISHED
    }

    /// Whether segments take several paths: many more are reordered than retransmission explains.
    #[must_use]
    pub fn is_sprayed(&self) -> bool {
        self.reordered >= SPRAYED.1 && self.reordered as f64 > SPRAYED.0 * self.segments as f64
    }

    /// Why the receiver's window holds the flow back, where it does. The receiver's own account decides, where there is one: a sender sees the
    /// same small window whether the buffer is small or pauses of the reader keep the kernel from enlarging it.
    #[must_use]
    pub fn window_limit(&self) -> WindowLimit {
        let kept = (self.rwnd_limited - self.rwnd_outgrown) / self.seconds.max(1e-9);
        let shrinks = self.is_reader_away();
        if kept <= BOUNDS && !shrinks {
            return WindowLimit::Growing;
        }
        let Some(reader) = self.reader else {
            return if shrinks { WindowLimit::SlowReader } else { WindowLimit::SmallBuffer };
        };
        if reader.paused > AWAY || 1.0 - reader.waited - reader.paused >= SLOW {
            return WindowLimit::SlowReader;
        }
        let at_limit = reader.room <= ROOM;
        if reader.paused >= PAUSES.1 {
            return match self.reached() {
                Some(part) if at_limit && part > REACHED => WindowLimit::PausesAndBuffer(part.min(1.0)),
                _ => WindowLimit::PausingReader,
            };
        }
        let doubts = [
            (reader.paused > PAUSES.0, WindowDoubt::SomePauses),
            (shrinks, WindowDoubt::Shrunk),
            (!at_limit, WindowDoubt::Room),
            (self.is_queued(), WindowDoubt::Queue),
        ];
        let doubt = doubts.into_iter().find(|(holds, _)| *holds);
        doubt.map_or(WindowLimit::SmallBuffer, |(_, doubt)| WindowLimit::Unclear(doubt))
    }

    /// What it reached of the rate that a full window in each round trip gives; `None` if unknown.
    fn reached(&self) -> Option<f64> {
        let bytes = self.received? as f64;
        (self.window > 0.0).then(|| bytes / self.seconds.max(1e-9) * self.min_rtt / self.window)
    }

    /// Whether a queue stood on the path most of the time: then the path is full, and a larger window only lengthens the queue.
    fn is_queued(&self) -> bool {
        let mut trips: Vec<f64> =
            self.rounds.iter().map(|round| round.rtt).filter(|rtt| *rtt > 0.0).collect();
        trips.sort_unstable_by(f64::total_cmp);
        let usual = trips.get(trips.len() / 2).copied().unwrap_or(0.0);
        self.min_rtt > 0.0 && usual > self.min_rtt * (1.0 + QUEUE.0) + QUEUE.1
    }
}
