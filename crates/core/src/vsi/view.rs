//! What a dialogue sees of the station, and what it asks of it.
//!
//! A dialogue never waits: it answers from a [`VsiView`], which is one moment of the station. What takes time is a [`VsiAction`]; the
//! caller carries it out and reports a [`VsiOutcome`]. A view taken after an outcome includes what it did.

use super::datastream::VsiDatastream;
use super::mode::VsiPackets;
use super::reply::VsiCode;
use crate::etransfer::UploadMode;
use crate::placement::Nanos;

/// The station at one moment.
#[derive(Clone, Debug, Default)]
pub struct VsiView {
    /// Name of the host.
    pub host: String,
    /// The program and its version, such as `skyhaul 1.0.0`.
    pub program: String,
    /// The date of the program, if known.
    pub built: Option<String>,
    /// The operating system as it names itself, if known.
    pub system: Option<String>,
    /// Whether recordings can begin.
    pub is_ready: bool,
    /// Whether anything is recorded or transferred, for whomever.
    pub is_active: bool,
    /// Ports of recordings whose runtime has set none.
    pub default_ports: Vec<VsiPort>,
    /// Whether recordings divide frames among files by datastreams; otherwise none can be added.
    pub divides_datastreams: bool,
    /// Whether recordings use the disks that are selected; otherwise they use all, and all must be selected.
    pub selects_disks: bool,
    /// The disks.
    pub disks: Vec<VsiDisk>,
    /// The scans on the disks in the order in which they were recorded, also those being recorded.
    pub scans: Vec<VsiScan>,
    /// Recordings that dialogues started: all that run, and the last ones that ended.
    pub recordings: Vec<VsiRecording>,
    /// Transfers that dialogues began: all that run, and the last ones that ended.
    pub transfers: Vec<VsiTransfer>,
    /// What arrives for dialogues: all that is open, and the last ones that were closed.
    pub arrivals: Vec<VsiArrival>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiDisk {
    /// Its directory.
    pub path: String,
    /// Bytes that recordings may still fill; 0 if it is not written to.
    pub free_bytes: u64,
    /// Its size, if known.
    pub total_bytes: Option<u64>,
}

/// A scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiScan {
    /// Its label.
    pub label: String,
    /// Bytes of its data.
    pub bytes: u64,
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VsiRecording {
    /// The number that its dialogue gave it.
    pub id: u64,
    /// Label of its scan.
    pub label: String,
    /// Whether it has not ended.
    pub is_running: bool,
    /// Its counts.
    pub counts: VsiCounts,
    /// Why it ended, if it was not asked to.
    pub failure: Option<String>,
}

/// A transfer of a scan to another host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VsiTransfer {
    /// The number that its dialogue gave it.
    pub id: u64,
    /// Label of the scan.
    pub label: String,
    /// The host that receives it, or the path of the file that it is written to.
    pub host: String,
    /// Where it is.
    pub state: VsiTransferState,
    /// Size of the scan as one file, bytes.
    pub size_bytes: u64,
    /// What is sent or written: first byte, and one past the last; 0 and 0 before that is known.
    pub range: (u64, u64),
    /// Bytes read from the disks.
    pub read_bytes: u64,
    /// Bytes that the connection took, or that were written.
    pub sent_bytes: u64,
    /// Parts of the scan are missing, and so many bytes of fill were sent for them.
    pub missing: Option<u64>,
    /// It has ended, and the other host acknowledged all of its range.
    pub is_complete: bool,
    /// Why it ended, if it was neither complete nor asked to.
    pub failure: Option<String>,
}

/// Where a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VsiTransferState {
    /// The scan is opened, the connection made.
    #[default]
    Connecting,
    /// It can be told what to send.
    Connected,
    /// Bytes are sent.
    Sending,
    /// It is over.
    Ended,
}

/// Data that arrive from other hosts, for files or as chunks of scans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiArrival {
    /// The number that its dialogue gave it.
    pub id: u64,
    /// Whether it has not ended.
    pub is_open: bool,
    /// Whether it is closing: its port is free, and what was received is still being written.
    pub is_closing: bool,
    /// Bytes that arrived and were written.
    pub written_bytes: u64,
    /// What could not be received or written, the last fault.
    pub failure: Option<String>,
}

/// Counts of a recording since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VsiCounts {
    /// Packets received.
    pub packets: u64,
    /// Packets or frames that did not arrive.
    pub lost: u64,
    /// Packets that arrived after a later one, if counted.
    pub reordered: Option<u64>,
    /// By how many packets these were late, all together, if counted.
    pub extent: Option<u64>,
    /// Packets that were not used.
    pub discarded: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes that are safe on disks.
    pub recorded_bytes: u64,
    /// Bytes that were received, and could not be recorded.
    pub discarded_bytes: u64,
}

/// What the station is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum VsiAction {
    /// Begin a recording; answered when it is ready for the first packet.
    Start(Box<VsiRecordOptions>),
    /// End a recording; answered when everything is on the disks.
    Stop {
        /// Its number.
        id: u64,
    },
    /// Look at a scan.
    Inspect {
        /// Its label.
        label: String,
    },
    /// Look at a file in the same way.
    InspectFile {
        /// Its path.
        path: String,
    },
    /// Begin a transfer: answered when it is accepted, before it is connected.
    Connect(Box<VsiConnectOptions>),
    /// Send a range of bytes over a transfer that is connected; answered when it begins.
    Send {
        /// Its number.
        id: u64,
        /// First byte.
        from: u64,
        /// One past the last byte.
        to: u64,
    },
    /// End a transfer; answered when it has ended.
    Disconnect {
        /// Its number.
        id: u64,
    },
    /// Listen for data of other hosts; answered when they may connect.
    Accept(Box<VsiAcceptOptions>),
    /// End what [`VsiAction::Accept`] began; answered when what was received is on the disks.
    EndArrival {
        /// Its number.
        id: u64,
    },
}

impl VsiAction {
    /// Returns the number of what the action begins or ends, if its client may have been answered with 1 before its outcome: then the
    /// outcome is reported to [`VsiRuntimes::settle`](super::VsiRuntimes::settle).
    #[must_use]
    pub fn settles(&self) -> Option<u64> {
        match self {
            Self::Start(options) => Some(options.id),
            Self::Connect(options) => Some(options.id),
            Self::Stop { id } | Self::Disconnect { id } | Self::EndArrival { id } => Some(*id),
            Self::Inspect { .. } | Self::InspectFile { .. } | Self::Send { .. } | Self::Accept(_) => None,
        }
    }

    /// Returns how long to wait for the outcome, before [`VsiDialogue::handle_late`](super::VsiDialogue::handle_late). The Field System
    /// waits 5.26 s for `record=on`, 9 s for `record=off`, 8.27 s for `scan_check?` and 10 s for `scan_set`.
    #[must_use]
    pub fn deadline(&self) -> Nanos {
        match self {
            Self::Start(_)
            | Self::Stop { .. }
            | Self::Connect(_)
            | Self::Send { .. }
            | Self::Disconnect { .. }
            | Self::Accept(_)
            | Self::InspectFile { .. }
            | Self::EndArrival { .. } => Nanos(4 * Nanos::SECOND.0),
            Self::Inspect { .. } => Nanos(7 * Nanos::SECOND.0),
        }
    }
}

/// A recording to begin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VsiRecordOptions {
    /// Its number, by which it appears in [`VsiView::recordings`].
    pub id: u64,
    /// Label of the scan.
    pub label: String,
    /// Where packets arrive; empty: the station's default.
    pub ports: Vec<VsiPort>,
    /// Whether a sequence number precedes each frame.
    pub has_sequence: bool,
    /// Whether frames come by TCP, in place of datagrams.
    pub by_tcp: bool,
    /// Size of the receive buffer of a socket in bytes, if it was set.
    pub socket_bytes: Option<u64>,
    /// Size of a chunk in bytes, if it was set.
    pub chunk_bytes: Option<u64>,
    /// Threads that receive, and that write; 0: not set.
    pub threads: (u32, u32),
    /// Bytes of a frame, if a mode is set.
    pub frame_bytes: Option<u32>,
    /// Bits per second that the mode leads to, if it is set.
    pub bits_per_second: Option<f64>,
    /// Data time from which it records, UNIX seconds.
    pub start: Option<i64>,
    /// Data time at which it stops, UNIX seconds.
    pub stop: Option<i64>,
    /// How frames are divided among files.
    pub datastreams: Vec<VsiDatastream>,
    /// Directories of the disks; empty: all.
    pub disks: Vec<String>,
}

/// A transfer to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiConnectOptions {
    /// Its number, by which it appears in [`VsiView::transfers`].
    pub id: u64,
    /// Label of the scan, or path of the file.
    pub label: String,
    /// What is sent.
    pub source: VsiSource,
    /// The host that receives it, or the path of the file that it is written to.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// How the file is written, of [`VsiSource::ScanToFile`]; of [`VsiSource::ScanToEtransfer`], the range.
    pub write: VsiFileWrite,
    /// Path of the file at the other host, of [`VsiSource::ScanToEtransfer`].
    pub path: String,
    /// What becomes of a file of this path there.
    pub mode: UploadMode,
}

/// A range of a scan that is written to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VsiFileWrite {
    /// What becomes of a file of its path.
    pub existing: VsiExisting,
    /// First byte of the scan.
    pub from: u64,
    /// One past the last byte; `None`: the end of the scan.
    pub to: Option<u64>,
}

/// What a transfer sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VsiSource {
    /// A scan as one file, when it is asked for.
    #[default]
    Scan,
    /// A file, when it is asked for.
    File,
    /// The chunks of a scan that the other host has not, at once.
    Chunks,
    /// A scan to a file of this host, at once.
    ScanToFile,
    /// A scan to a file of a server of etransfer, at once.
    ScanToEtransfer,
}

/// Where data of other hosts are to arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VsiAcceptOptions {
    /// Its number, by which it appears in [`VsiView::arrivals`].
    pub id: u64,
    /// Where to listen.
    pub port: VsiPort,
    /// What arrives.
    pub what: VsiAccepted,
}

/// What arrives from another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VsiAccepted {
    /// Chunks of scans, each over a connection of its own ([`ChunkHead`](super::ChunkHead)).
    Chunks,
    /// The bytes of a file over one connection.
    File {
        /// Its path.
        path: String,
        /// What becomes of a file of this path.
        existing: VsiExisting,
    },
    /// The frames of a scan over one connection, for blocks on the disks as a Mark 6 writes them.
    Blocks(VsiBlocks),
}

/// A scan that is written in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiBlocks {
    /// Its label.
    pub label: String,
    /// Its frames.
    pub packets: VsiPackets,
    /// Maximum size of a block in bytes, with its header.
    pub block_bytes: u64,
    /// Directories of the disks; empty: all.
    pub disks: Vec<String>,
}

/// What becomes of a file that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VsiExisting {
    /// It stays, and nothing is received or written.
    #[default]
    Keep,
    /// What is received or written replaces it.
    Replace,
    /// What is received or written is appended.
    Append,
    /// It has the first bytes of what is written, and the rest is appended.
    Resume,
}

/// A port of `net_port`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VsiPort {
    /// The local address or name; empty: all.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The suffix of its files; empty: none.
    pub suffix: String,
}

/// What became of a [`VsiAction`].
#[derive(Clone, Debug, PartialEq)]
pub enum VsiOutcome {
    /// The recording or transfer has begun.
    Started,
    /// Other hosts may connect.
    Accepting {
        /// Bytes that the file has.
        present_bytes: u64,
    },
    /// The recording or transfer has ended.
    Stopped,
    /// The scan.
    Inspected(VsiScanFacts),
    /// A scan of this label exists: another label is to be tried.
    LabelTaken,
    /// It could not be done.
    Failed(VsiCode, String),
}

/// What is known of a scan. Of streams of different shapes, what differs is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VsiScanFacts {
    /// Bytes of its data.
    pub bytes: u64,
    /// The format as `scan_check?` gives it, such as `VDIF`; `None`: unknown.
    pub format: Option<String>,
    /// Tracks: channels × bits × threads.
    pub tracks: Option<u64>,
    /// Time of the first frame, UNIX.
    pub start: Option<Nanos>,
    /// From the first frame to the end of the last.
    pub length: Option<Nanos>,
    /// Bits per second of a track.
    pub track_bits_per_second: Option<f64>,
    /// Bytes of data per second, with headers of frames.
    pub bytes_per_second: Option<f64>,
    /// Bytes that are missing between the first and the last frame; `None`: unknown, as where times contradict each other.
    pub missing_bytes: Option<u64>,
    /// Bytes of a frame.
    pub frame_bytes: Option<u32>,
}

impl VsiView {
    /// Returns a recording by its number.
    #[must_use]
    pub fn recording(&self, id: u64) -> Option<&VsiRecording> {
        self.recordings.iter().find(|recording| recording.id == id)
    }

    /// Returns a transfer by its number.
    #[must_use]
    pub fn transfer(&self, id: u64) -> Option<&VsiTransfer> {
        self.transfers.iter().find(|transfer| transfer.id == id)
    }

    /// Returns what arrives, by its number.
    #[must_use]
    pub fn arrival(&self, id: u64) -> Option<&VsiArrival> {
        self.arrivals.iter().find(|arrival| arrival.id == id)
    }

    /// Returns the number of a scan, from 0.
    #[must_use]
    pub fn scan_number(&self, label: &str) -> Option<usize> {
        self.scans.iter().rposition(|scan| scan.label == label)
    }

    /// Returns the disks with these directories; all disks if none are given.
    pub(super) fn selected<'a>(&'a self, paths: &'a [String]) -> impl Iterator<Item = &'a VsiDisk> {
        self.disks.iter().filter(move |disk| paths.is_empty() || paths.contains(&disk.path))
    }
}
