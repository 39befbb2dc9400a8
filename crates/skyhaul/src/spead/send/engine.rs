//! One batch after the other, each at its time.

use super::config::{SendConfig, SendError, SendStats};
use super::outlet::Outlet;
use super::run::Run;
use super::volley::{Limits, Volley};
use crate::control::{Progress, RateControl, Steering};
use skyhaul_core::pace::Pacer;
use skyhaul_core::placement::Nanos;
use skyhaul_io::gathered::{Extent, Gathered};
use skyhaul_io::host::thread::cpu_time;
use skyhaul_io::udp::send::{Sent, TRAIN_BYTES};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Trains in a batch without a rate.
const TRAINS: usize = 4;
/// Bytes in a batch without trains.
const BATCH: u64 = 1 << 18;
/// Of a stream of bytes: with whole items in place, more at once costs nothing.
const STREAM_BATCH: u64 = 4 << 20;

/// What other threads say to the one that sends.
#[derive(Debug)]
pub(super) struct Control {
    /// Jobs with lower numbers are cancelled.
    pub(super) cancelled_below: AtomicU64,
    /// Bits per second.
    pub(super) rate: AtomicU64,
    pub(super) stats: Mutex<SendStats>,
    /// Where receivers steer the rate: how it goes with each.
    pub(super) progress: Mutex<Vec<Progress>>,
    nap: Mutex<()>,
    wake: Condvar,
}

impl Control {
    pub(super) fn new(rate: u64) -> Self {
        Self {
            cancelled_below: AtomicU64::new(0),
            rate: AtomicU64::new(rate),
            stats: Mutex::default(),
            progress: Mutex::default(),
            nap: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    #[inline]
    pub(super) fn is_cancelled(&self, number: u64) -> bool {
        number < self.cancelled_below.load(Ordering::Relaxed)
    }

    /// Let a sender that sleeps look again.
    pub(super) fn wake(&self) {
        drop(self.nap.lock().unwrap_or_else(PoisonError::into_inner));
        self.wake.notify_all();
    }

    pub(super) fn stats(&self) -> MutexGuard<'_, SendStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time, and waiting for it.
pub(super) trait Clock: Send {
    fn now(&self) -> Nanos;
    /// Sleep until about `due`, or until something changed (`still` is false).
    fn wait(&self, due: Nanos, control: &Control, still: &dyn Fn() -> bool);
}

/// This machine's clock.
pub(super) struct Real(pub(super) Instant);

impl Clock for Real {
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// A little longer than needed where that is soon: to sleep and be woken costs some µs of CPU time, so at high
    /// rates some trains go out together, and the pacer keeps the rate.
    fn wait(&self, due: Nanos, control: &Control, still: &dyn Fn() -> bool) {
        const SHORTEST: Duration = Duration::from_micros(60);
        const SHORT: Duration = Duration::from_millis(2);
        let left = Duration::from_nanos(due.0.saturating_sub(self.now().0));
        if left <= SHORT {
            std::thread::sleep(left.max(SHORTEST));
            return;
        }
        let nap = control.nap.lock().unwrap_or_else(PoisonError::into_inner);
        if still() {
            drop(control.wake.wait_timeout(nap, left));
        }
    }
}

/// What sends: one thread at a time has it.
pub(super) struct Engine {
    pub(super) outlet: Option<Outlet>,
    steering: Option<Steering>,
    volley: Volley,
    extents: Vec<Extent>,
    pacer: Pacer,
    clock: Box<dyn Clock>,
    burst_bytes: u64,
    is_stream: bool,
    likes_trains: bool,
    /// The stream's rate when it was last checked.
    stream_rate: u64,
    /// What was sent last ends in the middle of a packet.
    mid_packet: bool,
    /// The outlet was closed because of that.
    cut: bool,
}

impl Engine {
    pub(super) fn new(outlet: Outlet, config: &SendConfig, clock: Box<dyn Clock>) -> Self {
        let nanos = |d: Duration| Nanos(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX));
        let (is_stream, likes_trains) = (outlet.is_stream(), outlet.likes_trains());
        let (tolerance, slack) = (nanos(config.tolerance), nanos(config.slack));
        let steering = config.auto.map(|auto| Steering::new(&auto, outlet.substreams()));
        Self {
            outlet: Some(outlet),
            steering,
            volley: Volley::new(),
            extents: Vec::new(),
            pacer: Pacer::smooth(config.first_rate(), clock.now(), tolerance, slack),
            clock,
            burst_bytes: config.burst_bytes as u64,
            is_stream,
            likes_trains,
            stream_rate: config.first_rate(),
            mid_packet: false,
            cut: false,
        }
    }

    /// Send all of `run`, unless its `number` is cancelled. `done` is told of each job that ended, with the bytes of
    /// its packets or what went wrong. After a pause (`rested`), being late is no reason to hurry.
    pub(super) fn drive(
        &mut self,
        run: &mut Run<'_>,
        number: u64,
        control: &Control,
        rested: bool,
        done: &mut dyn FnMut(usize, Result<u64, SendError>),
    ) -> Result<(), SendError> {
        let cpu = cpu_time();
        if rested {
            self.pacer.rest(self.clock.now());
        }
        let result = self.drive_all(run, number, control, done);
        if self.mid_packet && result.is_err() {
            // The peer has half a packet: nothing that follows would be understood.
            (self.outlet, self.mid_packet, self.cut) = (None, false, true);
        }
        let mut stats = control.stats();
        stats.cpu_seconds += (cpu_time().saturating_sub(cpu)).as_secs_f64();
        stats.slipped_seconds = self.pacer.forgiven().0 as f64 / 1e9;
        result
    }

    /// Something of the program's own panicked in [`drive`](Self::drive). What went out on a connection before is not known.
    pub(super) fn panicked(&mut self) -> SendError {
        if self.is_stream {
            (self.outlet, self.mid_packet, self.cut) = (None, false, true);
        }
        let why = "send a heap: an item or transport of the program panicked; hint: see the backtrace";
        std::io::Error::other(why).into()
    }

    fn drive_all(
        &mut self,
        run: &mut Run<'_>,
        number: u64,
        control: &Control,
        done: &mut dyn FnMut(usize, Result<u64, SendError>),
    ) -> Result<(), SendError> {
        let stopped = || control.is_cancelled(number);
        loop {
            if stopped() {
                return Err(SendError::Cancelled);
            }
            let Some(own_rate) = run.next_rate()? else { return Ok(()) };
            let rate = self.follow(own_rate, control);
            let limits = self.limits(rate);
            if let Err(error) = run.fill(&mut self.volley, limits) {
                let Some(job) = self.volley.last_job() else { return Err(error) };
                self.leave_out(run, job, error, done);
            }
            self.wait(own_rate, control, &stopped)?;
            let sent = match self.hand_on(run, &stopped, done) {
                Ok(sent) => sent,
                Err(error) => {
                    for job in self.volley.touched.clone() {
                        self.leave_out(run, job, error.clone(), done);
                    }
                    continue;
                }
            };
            if rate != 0 {
                self.pacer.sent(sent.bytes as u64, self.clock.now());
            }
            self.count(sent, control);
            self.steer(control)?;
            let all = sent.packets + sent.refused >= self.volley.packets();
            let open = if all { run.is_mid_packet() } else { self.mid_packet || sent.bytes > 0 };
            self.mid_packet = self.is_stream && open;
            if !all {
                return Err(SendError::Cancelled);
            }
            for &(job, bytes) in &self.volley.jobs {
                done(job, Ok(bytes));
            }
        }
    }

    /// Ask the receivers, if they are to say how fast.
    fn steer(&mut self, control: &Control) -> Result<(), SendError> {
        if let (Some(steering), Some(Outlet::Udp(senders))) = (&mut self.steering, &mut self.outlet) {
            control.rate.store(steering.poll(senders)?.max(1), Ordering::Relaxed);
            let mut progress = control.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.clear();
            progress.extend(steering.loops().iter().map(RateControl::progress));
        }
        Ok(())
    }

    /// The rate for the next heap, which the pacer then has.
    fn follow(&mut self, own: Option<u64>, control: &Control) -> u64 {
        let stream = control.rate.load(Ordering::Relaxed);
        let rate = own.unwrap_or(stream);
        if stream == self.stream_rate && rate == self.pacer.rate() {
            return rate;
        }
        let now = self.clock.now();
        if stream != self.stream_rate && self.pacer.rate() == self.stream_rate {
            self.pacer.set_rate(stream, now);
        }
        self.stream_rate = stream;
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
            true => Limits { bytes: u64::MAX, trains: TRAINS, stream },
            false => Limits { bytes: if stream { STREAM_BATCH } else { BATCH }, trains: usize::MAX, stream },
        }
    }

    fn wait(
        &mut self,
        own_rate: Option<u64>,
        control: &Control,
        stopped: &dyn Fn() -> bool,
    ) -> Result<(), SendError> {
        loop {
            let due = self.pacer.due();
            if self.clock.now() >= due {
                return Ok(());
            }
            let rate = self.stream_rate;
            self.clock.wait(due, control, &|| !stopped() && control.rate.load(Ordering::Relaxed) == rate);
            if stopped() {
                return Err(SendError::Cancelled);
            }
            self.follow(own_rate, control);
        }
    }

    /// A job failed: nothing more of it is sent.
    fn leave_out(
        &mut self,
        run: &mut Run<'_>,
        job: usize,
        error: SendError,
        done: &mut dyn FnMut(usize, Result<u64, SendError>),
    ) {
        if self.mid_packet && job == self.volley.touched.start {
            // The peer has half a packet of it: nothing that follows would be understood.
            (self.outlet, self.mid_packet, self.cut) = (None, false, true);
        }
        self.volley.remove(job);
        run.skip(job);
        done(job, Err(error));
    }

    /// Give the volley to the outlet.
    fn hand_on(
        &mut self,
        run: &mut Run<'_>,
        stopped: &dyn Fn() -> bool,
        done: &mut dyn FnMut(usize, Result<u64, SendError>),
    ) -> Result<Sent, SendError> {
        let mut all = Sent::default();
        let mut substreams = self.volley.substreams();
        while !substreams.is_empty() {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(self.volley.pieces());
            if let Err(job) =
                self.volley.gather(run.entries, substreams.start, &mut slices, &mut self.extents)
            {
                drop(slices);
                self.leave_out(run, job, SendError::Changed, done);
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

    fn count(&self, sent: Sent, control: &Control) {
        let (unreachable, calls) = self.outlet.as_ref().map(Outlet::counts).unwrap_or_default();
        let mut stats = control.stats();
        stats.heaps += self.volley.heaps;
        stats.packets += self.volley.whole;
        stats.payload_bytes += self.volley.payload_bytes;
        stats.wire_bytes += sent.bytes as u64;
        stats.refused += sent.refused as u64;
        (stats.unreachable, stats.calls) = (unreachable, calls);
    }
}
