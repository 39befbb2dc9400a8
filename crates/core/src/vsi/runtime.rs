//! Runtimes: settings, a recording and a selected scan under a name, so that several programs use a station side by side.
//!
//! Every connection begins in runtime `0`, which cannot be deleted. A transient runtime is deleted when the connection that made it ends,
//! and its recording with it.

use super::datastream::VsiDatastream;
use super::errors::{ERROR_ENDED, ERROR_NOT_STARTED, ERROR_TRANSFER, VsiErrors};
use super::mode::VsiMode;
use super::view::{
    VsiAction, VsiArrival, VsiOutcome, VsiPort, VsiRecordOptions, VsiRecording, VsiSource, VsiTransfer,
    VsiTransferState, VsiView,
};
use crate::placement::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// The runtime of new connections.
pub const DEFAULT_RUNTIME: &str = "0";
/// Maximum number of runtimes.
pub const MAX_RUNTIMES: usize = 256;
/// Maximum length of the name of one.
pub const MAX_RUNTIME_NAME_BYTES: usize = 64;
/// The port of data until `net_port` sets another.
pub const DEFAULT_DATA_PORT: u16 = 2630;

/// All runtimes of a station, and its errors: what dialogues share.
#[derive(Clone, Debug)]
pub struct VsiRuntimes {
    runtimes: BTreeMap<String, VsiRuntime>,
    /// Errors that wait for `error?`.
    pub errors: VsiErrors,
    next_recording: u64,
    /// Numbers of actions whose outcome no client has been given: if one fails, that becomes an error, once.
    unsettled: BTreeSet<u64>,
}

/// What a request of a runtime is carried out with.
pub(super) struct Shared<'a> {
    pub(super) runtime: &'a mut VsiRuntime,
    pub(super) errors: &'a mut VsiErrors,
    pub(super) next_recording: &'a mut u64,
    pub(super) unsettled: &'a mut BTreeSet<u64>,
}

impl Default for VsiRuntimes {
    fn default() -> Self {
        let runtimes = BTreeMap::from([(DEFAULT_RUNTIME.to_owned(), VsiRuntime::default())]);
        let (errors, unsettled) = (VsiErrors::default(), BTreeSet::new());
        Self { runtimes, errors, next_recording: 1, unsettled }
    }
}

impl VsiRuntimes {
    pub(super) fn get_mut(&mut self, name: &str) -> Option<Shared<'_>> {
        Some(Shared {
            runtime: self.runtimes.get_mut(name)?,
            errors: &mut self.errors,
            next_recording: &mut self.next_recording,
            unsettled: &mut self.unsettled,
        })
    }

    /// Adds the errors of recordings and transfers that have ended since, in any runtime.
    pub fn notice(&mut self, view: &VsiView, now: Nanos) {
        for runtime in self.runtimes.values_mut() {
            let recording = runtime.recording;
            if let Some(error) = runtime.notice_end(view) {
                self.errors.add(ERROR_ENDED, &error, now);
            }
            if let Some(id) = recording.filter(|_| runtime.recording.is_none()) {
                self.unsettled.remove(&id);
            }
            if let Some(error) = runtime.notice_transfer(view) {
                self.errors.add(ERROR_TRANSFER, &error, now);
            }
        }
    }

    /// Takes the outcome of an action whose client was answered with 1 by [`VsiDialogue::handle_late`](super::VsiDialogue::handle_late), has
    /// gone, or that [`VsiDialogue::close`](super::VsiDialogue::close) returned. `view` includes what it did. A failure becomes an error.
    pub fn settle(&mut self, id: u64, outcome: &VsiOutcome, view: &VsiView, now: Nanos) {
        self.notice(view, now);
        if !self.unsettled.remove(&id) {
            return;
        }
        let recording = view.recording(id);
        let mut label = None;
        for runtime in self.runtimes.values_mut() {
            runtime.arrival = runtime.arrival.filter(|held| held.id != id);
            // One that never began is not in the view.
            if recording.is_none() && runtime.recording == Some(id) {
                runtime.recording = None;
                label = runtime.last.as_ref().map(|(_, label)| label.clone());
            }
        }
        let error = match (outcome, recording, label) {
            (VsiOutcome::Failed(_, why), None, Some(label)) => {
                Some((ERROR_NOT_STARTED, format!("cannot record {label}, {why}")))
            }
            (VsiOutcome::LabelTaken, _, Some(label)) => {
                Some((ERROR_NOT_STARTED, format!("cannot record {label}, there is a scan of this label")))
            }
            (VsiOutcome::Failed(_, why), Some(recording), _) => {
                Some((ERROR_ENDED, format!("recording {} did not end in order, {why}", recording.label)))
            }
            (VsiOutcome::Failed(_, why), None, None) => Some((ERROR_TRANSFER, why.clone())),
            (VsiOutcome::Stopped, Some(recording), _) => {
                let ended =
                    |why: &String| (ERROR_ENDED, format!("recording {} ended, {why}", recording.label));
                recording.failure.as_ref().map(ended)
            }
            _ => None,
        };
        if let Some((number, error)) = error {
            self.errors.add(number, &error, now);
        }
    }

    /// Notes an action whose outcome is to come.
    pub(super) fn expect(&mut self, id: u64) {
        self.unsettled.insert(id);
    }

    /// The outcome of an action goes to its client.
    pub(super) fn answered(&mut self, id: u64) {
        self.unsettled.remove(&id);
    }

    pub(super) fn get(&self, name: &str) -> Option<&VsiRuntime> {
        self.runtimes.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.runtimes.keys().map(String::as_str)
    }

    /// Makes a runtime; `owner` is the connection that it ends with. `false`: there are too many.
    pub(super) fn create(&mut self, name: &str, owner: Option<u64>) -> bool {
        let has_room = self.runtimes.len() < MAX_RUNTIMES;
        if has_room {
            self.runtimes.insert(name.to_owned(), VsiRuntime { owner, ..VsiRuntime::default() });
        }
        has_room
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.runtimes.remove(name);
    }

    /// Removes the runtimes that end with a connection, and returns what ends their recordings and transfers.
    pub(super) fn end_with(&mut self, owner: u64) -> Vec<VsiAction> {
        let mut ended = Vec::new();
        self.runtimes.retain(|_, runtime| {
            let remains = runtime.owner != Some(owner);
            if !remains {
                ended.extend(runtime.recording.map(|id| VsiAction::Stop { id }));
                let transfer = runtime.transfer.as_ref().filter(|transfer| !transfer.is_over);
                ended.extend(transfer.map(|transfer| VsiAction::Disconnect { id: transfer.id }));
                let arrival = runtime.arrival.filter(|of| !self.unsettled.contains(&of.id));
                ended.extend(arrival.map(|of| VsiAction::EndArrival { id: of.id }));
            }
            remains
        });
        self.unsettled.extend(ended.iter().filter_map(VsiAction::settles));
        ended
    }
}

/// One runtime.
#[derive(Clone, Debug)]
pub(super) struct VsiRuntime {
    owner: Option<u64>,
    pub(super) mode: VsiMode,
    pub(super) protocol: &'static str,
    pub(super) socket_bytes: u64,
    pub(super) work_bytes: u64,
    pub(super) blocks: u64,
    /// Whether `net_protocol` has set the sizes above.
    pub(super) sizes_set: (bool, bool),
    pub(super) ports: Vec<VsiPort>,
    pub(super) mtu: u64,
    /// Distance of packets sent, ns; below 0: automatic.
    pub(super) packet_interval: i64,
    pub(super) threads: (u32, u32),
    /// Whether recordings are written in blocks, as a Mark 6 does.
    pub(super) in_blocks: bool,
    pub(super) datastreams: Vec<VsiDatastream>,
    /// Directories that `set_disks` selected; empty: all.
    pub(super) disks: Vec<String>,
    /// The last recording, while it is not known to have ended.
    pub(super) recording: Option<u64>,
    /// Its end was requested, and what it received is still being written. The client has been answered, and the runtime is free.
    pub(super) is_stopping: bool,
    /// Number and label of the last recording.
    pub(super) last: Option<(u64, String)>,
    pub(super) selected: SelectedScan,
    /// What `scan_set` searched for last.
    pub(super) search: Option<String>,
    /// When `tstat?` or the start of the recording or transfer was, and the bytes of each step then.
    pub(super) measured: Option<(u64, Nanos, [u64; 2])>,
    /// The last transfer.
    pub(super) transfer: Option<Transferring>,
    /// What arrives, until it is closed.
    pub(super) arrival: Option<Arriving>,
    /// Threads that read and send of `vbs2net`, and receive and write of `net2vbs`: kept and shown.
    pub(super) chunk_threads: [(u32, u32); 2],
    /// What only a Mark 6 has.
    pub(super) mark6: Mark6State,
}

/// What a dialogue of a Mark 6 sets.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark6State {
    /// Fields of each stream: label, format, sizes, interface, address, port, sub-group.
    pub(super) streams: Vec<[String; 9]>,
    /// The group is closed, or protected, by a command.
    pub(super) is_closed: bool,
    pub(super) is_protected: bool,
    /// Data times of the next recording or the last one, UNIX seconds, and its maximum rate, bits per second.
    pub(super) span: (Option<i64>, Option<i64>),
    pub(super) bits_per_second: Option<f64>,
}

/// What arrives in a runtime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arriving {
    pub(super) id: u64,
    /// The command that began it.
    pub(super) keyword: &'static str,
}

/// A transfer of a runtime.
#[derive(Clone, Debug, Default)]
pub(super) struct Transferring {
    pub(super) id: u64,
    pub(super) source: VsiSource,
    /// What was selected when it was begun; then what is sent: first byte, and one past the last.
    pub(super) range: (u64, u64),
    /// The end that was selected is that of the scan.
    pub(super) to_end: bool,
    /// It was told to send.
    pub(super) is_begun: bool,
    /// It was asked for since.
    pub(super) is_shown: bool,
    /// Its end was noticed.
    pub(super) is_over: bool,
    /// The file that it is written to, if it is.
    pub(super) to_file: Option<ToFile>,
}

/// A file that a scan is written to.
#[derive(Clone, Debug, Default)]
pub(super) struct ToFile {
    pub(super) path: String,
    /// How it was opened: `n`, `w` or `a`.
    pub(super) option: &'static str,
    /// Bytes of it that may be in memory: kept and shown.
    pub(super) cached_bytes: Option<u64>,
}

/// The scan and the range of it that `scan_set` selects.
#[derive(Clone, Debug, Default)]
pub(super) struct SelectedScan {
    pub(super) label: String,
    pub(super) start: u64,
    /// `None`: the end of the scan.
    pub(super) end: Option<u64>,
}

impl Default for VsiRuntime {
    fn default() -> Self {
        Self {
            owner: None,
            mode: VsiMode::default(),
            protocol: "udpsnor",
            socket_bytes: 64 << 20,
            work_bytes: 256_000_000,
            blocks: 4,
            sizes_set: (false, false),
            ports: Vec::new(),
            mtu: 9000,
            packet_interval: 0,
            threads: (1, 1),
            in_blocks: false,
            datastreams: Vec::new(),
            disks: Vec::new(),
            recording: None,
            is_stopping: false,
            last: None,
            selected: SelectedScan::default(),
            search: None,
            measured: None,
            transfer: None,
            arrival: None,
            chunk_threads: [(1, 1); 2],
            mark6: Mark6State::default(),
        }
    }
}

impl VsiRuntime {
    /// Whether it records, by the station, and its end was not requested.
    pub(super) fn is_recording(&self, view: &VsiView) -> bool {
        self.running(view).is_some() && !self.is_stopping
    }

    /// Its recording, if it runs.
    pub(super) fn running<'a>(&self, view: &'a VsiView) -> Option<&'a VsiRecording> {
        view.recording(self.recording?).filter(|recording| recording.is_running)
    }

    /// Its last recording, as far as the station remembers it.
    pub(super) fn last_recording<'a>(&self, view: &'a VsiView) -> Option<&'a VsiRecording> {
        view.recording(self.last.as_ref()?.0)
    }

    /// Notes a recording that ended without being asked to: its scan is selected, as by `record=off`.
    pub(super) fn notice_end(&mut self, view: &VsiView) -> Option<String> {
        let recording = view.recording(self.recording?).filter(|recording| !recording.is_running)?;
        self.recording = None;
        self.select(&recording.label);
        let why = recording.failure.as_deref()?;
        Some(format!("recording {} ended, {why}", recording.label))
    }

    /// Its transfer, if it has not ended.
    pub(super) fn transferring<'a>(&self, view: &'a VsiView) -> Option<&'a VsiTransfer> {
        let transfer = view.transfer(self.transfer.as_ref()?.id)?;
        (transfer.state != VsiTransferState::Ended).then_some(transfer)
    }

    /// What arrives here, if it is open or closing.
    pub(super) fn arriving<'a>(&self, view: &'a VsiView) -> Option<(Arriving, &'a VsiArrival)> {
        let held = self.arrival?;
        view.arrival(held.id).filter(|arrival| arrival.is_open).map(|arrival| (held, arrival))
    }

    /// What is open here for data of other hosts, and not closing.
    pub(super) fn open_arrival(&self, view: &VsiView) -> Option<Arriving> {
        self.arriving(view).filter(|(_, arrival)| !arrival.is_closing).map(|(held, _)| held)
    }

    /// Notes once that a transfer has ended, and returns what was wrong with it.
    pub(super) fn notice_transfer(&mut self, view: &VsiView) -> Option<String> {
        let held = self.transfer.as_mut().filter(|held| !held.is_over)?;
        let transfer = view.transfer(held.id).filter(|of| of.state == VsiTransferState::Ended)?;
        held.is_over = true;
        let (label, host) = (&transfer.label, &transfer.host);
        match (&transfer.failure, transfer.missing) {
            (Some(why), _) => Some(format!("transfer of {label} to {host} ended, {why}")),
            (None, None) => None,
            (None, Some(bytes)) => {
                Some(format!("parts of {label} are missing here, {bytes} bytes of fill were sent to {host}"))
            }
        }
    }

    /// Selects the whole of a scan.
    pub(super) fn select(&mut self, label: &str) {
        self.selected = SelectedScan { label: label.to_owned(), start: 0, end: None };
    }

    /// Whether data go and come by TCP.
    fn by_tcp(&self) -> bool {
        self.protocol == "tcp"
    }

    pub(super) fn record_options(&self, id: u64, label: &str) -> VsiRecordOptions {
        VsiRecordOptions {
            id,
            label: label.to_owned(),
            ports: match (&self.ports[..], self.by_tcp()) {
                ([], true) => vec![VsiPort { port: DEFAULT_DATA_PORT, ..VsiPort::default() }],
                (ports, _) => ports.to_vec(),
            },
            has_sequence: !matches!(self.protocol, "pudp" | "tcp"),
            by_tcp: self.by_tcp(),
            socket_bytes: self.sizes_set.0.then_some(self.socket_bytes),
            chunk_bytes: self.sizes_set.1.then_some(self.work_bytes),
            threads: self.threads,
            frame_bytes: self.mode.frame_bytes(),
            bits_per_second: self.mode.frame_bits_per_second().or(self.mark6.bits_per_second),
            start: self.mark6.span.0,
            stop: self.mark6.span.1,
            datastreams: self.datastreams.clone(),
            disks: self.disks.clone(),
        }
    }
}
