//! The loop of every sender: one batch of packets after the other, each at its time.
//!
//! ```text
//!   Source ─ fill ─▶ a batch ─ due? ─▶ gather ─▶ Outlet: UDP (trains), TCP, in-process queue, bytes
//!   frames, heaps      up to four trains,         heads in the source's memory,
//!                      or what the rate allows    payloads where they lie
//! ```
//!
//! A source may have several *jobs* under way. What goes wrong with the packets of one ends that job and no other.

use super::clock::{Clock, Pacing, SendControl, SendStats};
use super::outlet::{Outlet, SendError};
use crate::control::{RateControl, Steering};
use skyhaul_core::hint::Hint;
use skyhaul_core::pace::Pacer;
use skyhaul_core::placement::Nanos;
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::host::thread::cpu_time;
use skyhaul_io::lock::lock;
use skyhaul_io::udp::send::{Sent, TRAIN_BYTES};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Trains in a batch without a rate.
const TRAINS_PER_BATCH: usize = 4;
/// Bytes in a batch without trains.
const BATCH_BYTES: u64 = 1 << 18;
/// Of a stream of bytes: with whole items in place, more at once costs nothing.
const STREAM_BATCH: u64 = 4 << 20;
/// Between two looks whether a source has more packets.
const SOURCE_POLL_INTERVAL: Nanos = Nanos(5_000_000);

/// The largest batch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most bytes.
    pub bytes: u64,
    /// Most trains, where they matter.
    pub trains: usize,
    /// Packets may go out in pieces.
    pub stream: bool,
}

/// What a source has for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Packets, at this rate or at that of the sender.
    Packets(Option<u64>),
    /// Nothing yet.
    Later,
    /// Nothing more.
    End,
}

/// Packets in batches, of one or several jobs.
pub trait Source {
    /// What there is to send.
    ///
    /// # Errors
    /// The source failed.
    fn next(&mut self) -> Result<Next, SendError>;
    /// Whether it ends here, whatever is left. Asked while the sender waits.
    fn is_over(&self) -> bool {
        false
    }
    /// How long nothing is due before the next packets: a gap in recorded data. Asked once for each batch.
    fn gap(&mut self) -> Nanos {
        Nanos(0)
    }
    /// Make the next batch.
    ///
    /// # Errors
    /// That of the [last](Self::jobs) job.
    fn fill(&mut self, limits: Limits) -> Result<(), SendError>;
    /// Packets in the batch.
    fn packets(&self) -> usize;
    /// The destinations of the batch, from the lowest to behind the highest.
    fn substreams(&self) -> Range<usize> {
        0..1
    }
    /// Put the slices of the packets for `substream` into `slices`, and where each packet begins into `extents`.
    ///
    /// # Errors
    /// The job whose bytes are not there any more.
    fn gather<'a>(
        &'a mut self,
        substream: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize>;
    /// The jobs with packets in the batch.
    fn jobs(&self) -> Range<usize> {
        0..1
    }
    /// Whether the batch ends in the middle of a packet.
    fn is_mid_packet(&self) -> bool {
        false
    }
    /// A job failed: nothing more of it is sent.
    fn leave_out(&mut self, job: usize, error: SendError);
    /// The batch, or so much of it, was sent. Enter it into `stats`.
    fn sent(&mut self, sent: Sent, stats: &mut SendStats);
    /// All of the batch was sent.
    fn finish_batch(&mut self) {}
}

/// What sends: one thread at a time has it.
pub struct SendEngine {
    /// Where packets go; none after an error in the middle of a packet.
    pub outlet: Option<Outlet>,
    steering: Option<Steering>,
    extents: Vec<Extent>,
    pacer: Pacer,
    clock: Box<dyn Clock>,
    burst_bytes: u64,
    is_stream: bool,
    likes_trains: bool,
    /// The sender's rate when it was last checked.
    own_rate: u64,
    /// What was sent last ends in the middle of a packet.
    mid_packet: bool,
    /// The outlet was closed because of that.
    cut: bool,
}

impl SendEngine {
    /// One that sends to `outlet`.
    #[must_use]
    pub fn new(outlet: Outlet, pacing: &Pacing, clock: Box<dyn Clock>) -> Self {
        let (tolerance, slack) = (Nanos::from(pacing.tolerance), Nanos::from(pacing.slack));
        let burst_bytes = pacing.burst_bytes as u64;
        Self {
            steering: pacing.auto.map(|auto| Steering::new(&auto, outlet.substreams())),
            extents: Vec::new(),
            pacer: Pacer::smooth(pacing.first_rate(), clock.now(), tolerance, slack).bursting(burst_bytes),
            clock,
            burst_bytes,
            is_stream: outlet.is_stream(),
            likes_trains: outlet.likes_trains(),
            own_rate: pacing.first_rate(),
            mid_packet: false,
            cut: false,
            outlet: Some(outlet),
        }
    }

    /// Send all of `source`, unless its `number` is cancelled. After a pause (`rested`), being late is no reason to hurry.
    ///
    /// # Errors
    /// The source or the outlet failed, or the job was cancelled.
    pub fn drive(
        &mut self,
        source: &mut impl Source,
        number: u64,
        control: &SendControl,
        rested: bool,
    ) -> Result<(), SendError> {
        let cpu = cpu_time();
        if rested {
            self.pacer.rest(self.clock.now());
        }
        let result = self.drive_all(source, number, control);
        if self.mid_packet && result.is_err() {
            self.cut();
        }
        let mut stats = control.stats();
        stats.cpu_seconds += (cpu_time().saturating_sub(cpu)).as_secs_f64();
        stats.slipped_seconds = self.pacer.forgiven().0 as f64 / 1e9;
        result
    }

    /// The peer has half a packet: nothing that follows would be understood.
    fn cut(&mut self) {
        (self.outlet, self.mid_packet, self.cut) = (None, false, true);
    }

    /// Something of the program's own panicked in [`drive`](Self::drive). What went out on a connection before is not known.
    pub(crate) fn panicked(&mut self) -> SendError {
        if self.is_stream {
            self.cut();
        }
        let why =
            format!("send: a payload or transport of the program panicked{}", Hint("see the backtrace"));
        std::io::Error::other(why).into()
    }

    fn drive_all(
        &mut self,
        source: &mut impl Source,
        number: u64,
        control: &SendControl,
    ) -> Result<(), SendError> {
        loop {
            if control.is_cancelled(number) {
                return Err(SendError::Cancelled);
            }
            let own_rate = match source.next()? {
                Next::Packets(own_rate) => own_rate,
                Next::Later => {
                    let due = self.clock.now().plus(SOURCE_POLL_INTERVAL);
                    self.clock.wait(due, control, &|| !control.is_cancelled(number));
                    continue;
                }
                Next::End => return Ok(()),
            };
            let rate = self.follow(own_rate, control);
            let gap = source.gap();
            if gap.0 > 0 && rate != 0 {
                self.pacer.delay(gap);
                control.resumes.store(self.pacer.due().0, Ordering::Relaxed);
            }
            let limits = self.limits(rate);
            if let Err(error) = source.fill(limits) {
                let Some(job) = source.jobs().last() else { return Err(error) };
                self.leave_out(source, job, error);
            }
            let stopped = || control.is_cancelled(number) || source.is_over();
            self.wait(own_rate, control, &stopped)?;
            let sent = match self.hand_on(source, &|| control.is_cancelled(number)) {
                Ok(sent) => sent,
                Err(error) => {
                    source.jobs().for_each(|job| self.leave_out(source, job, error.clone()));
                    continue;
                }
            };
            if rate != 0 {
                self.pacer.sent(sent.bytes as u64, self.clock.now());
            }
            self.count(source, sent, control);
            self.steer(control)?;
            let all = sent.packets + sent.refused >= source.packets();
            let open = if all { source.is_mid_packet() } else { self.mid_packet || sent.bytes > 0 };
            self.mid_packet = self.is_stream && open;
            if !all {
                return Err(SendError::Cancelled);
            }
            source.finish_batch();
        }
    }

    /// Ask the receivers, if they are to say how fast.
    fn steer(&mut self, control: &SendControl) -> Result<(), SendError> {
        if let (Some(steering), Some(senders)) =
            (&mut self.steering, self.outlet.as_mut().and_then(Outlet::udp_mut))
        {
            control.rate.store(steering.poll(senders)?.max(1), Ordering::Relaxed);
            let mut progress = lock(&control.progress);
            progress.clear();
            progress.extend(steering.loops().iter().map(RateControl::progress));
        }
        Ok(())
    }

    /// The rate for the next packets, which the pacer then has.
    fn follow(&mut self, own: Option<u64>, control: &SendControl) -> u64 {
        let stream = control.rate.load(Ordering::Relaxed);
        let rate = own.unwrap_or(stream);
        if stream == self.own_rate && rate == self.pacer.rate() {
            return rate;
        }
        let now = self.clock.now();
        if stream != self.own_rate && self.pacer.rate() == self.own_rate {
            self.pacer.set_rate(stream, now);
        }
        self.own_rate = stream;
        self.pacer.switch(rate, now);
        rate
    }

    /// A train at a time where there is a rate, a millisecond's worth at most, so that slow streams stay smooth.
    fn limits(&self, rate: u64) -> Limits {
        let stream = self.is_stream;
        if rate != 0 {
            let bytes = self.burst_bytes.min(rate / 8 / 1000).max(1);
            return Limits { bytes, trains: bytes.div_ceil(TRAIN_BYTES as u64 + 29) as usize, stream };
        }
        match self.likes_trains {
            true => Limits { bytes: u64::MAX, trains: TRAINS_PER_BATCH, stream },
            false => {
                Limits { bytes: if stream { STREAM_BATCH } else { BATCH_BYTES }, trains: usize::MAX, stream }
            }
        }
    }

    fn wait(
        &mut self,
        own_rate: Option<u64>,
        control: &SendControl,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), SendError> {
        loop {
            let due = self.pacer.due();
            if self.clock.now() >= due {
                return Ok(());
            }
            let rate = self.own_rate;
            self.clock.wait(due, control, &|| !stopped() && control.rate.load(Ordering::Relaxed) == rate);
            if stopped() {
                return Err(SendError::Cancelled);
            }
            self.follow(own_rate, control);
        }
    }

    fn leave_out(&mut self, source: &mut impl Source, job: usize, error: SendError) {
        if self.mid_packet && job == source.jobs().start {
            self.cut();
        }
        source.leave_out(job, error);
    }

    /// Give the batch to the outlet.
    fn hand_on(&mut self, source: &mut impl Source, stopped: &dyn Fn() -> bool) -> Result<Sent, SendError> {
        let mut all = Sent::default();
        let mut substreams = source.substreams();
        while !substreams.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(2 * source.packets());
            self.extents.clear();
            if let Err(job) = source.gather(substreams.start, &mut slices, &mut self.extents) {
                drop(slices);
                self.leave_out(source, job, SendError::Changed);
                continue;
            }
            let Some(outlet) = &mut self.outlet else {
                return Err(if self.cut { SendError::Cut } else { SendError::Closed });
            };
            if !self.extents.is_empty() {
                let sent = outlet.send(substreams.start, Gathered::new(&slices, &self.extents), stopped)?;
                all.packets += sent.packets;
                all.bytes += sent.bytes;
                all.refused += sent.refused;
            }
            substreams.start += 1;
        }
        Ok(all)
    }

    fn count(&self, source: &mut impl Source, sent: Sent, control: &SendControl) {
        let (unreachable, calls) = self.outlet.as_ref().map(Outlet::counts).unwrap_or_default();
        let mut stats = control.stats();
        source.sent(sent, &mut stats);
        stats.wire_bytes += sent.bytes as u64;
        stats.refused += sent.refused as u64;
        (stats.unreachable, stats.calls) = (unreachable, calls);
    }
}
