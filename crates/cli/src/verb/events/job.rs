//! One source at work: events are made in groups, get their ticks, and are sent.

use super::content::Content;
use anyhow::Result;
use skyhaul::io::host::thread;
use skyhaul::send::events::{Event, EventSender};
use skyhaul::send::{SendReport, Stop};
use std::time::{Duration, Instant};

/// Bytes that are handed to a stream at a time: enough for long trains, little enough to stop soon.
const GROUP_BYTES: u64 = 1 << 20;
/// Most events in it.
const GROUP_EVENTS: u64 = 1024;
/// Between two looks whether it is over.
const LOOK: Duration = Duration::from_millis(10);

/// One source and what it is to send.
pub(super) struct Job {
    pub(super) sender: EventSender,
    pub(super) to: String,
    pub(super) content: Content,
    pub(super) data_id: u16,
    pub(super) events: u64,
    pub(super) duration: Option<Duration>,
    /// A pause, and the events between two of them.
    pub(super) delay: Option<(Duration, u64)>,
    pub(super) event_rate: Option<u64>,
    pub(super) is_clock: bool,
    pub(super) cpu: Option<usize>,
}

/// What was sent.
#[derive(Default)]
struct Done {
    events: u64,
    first: u64,
    last: u64,
}

impl Job {
    pub(super) fn run(self, stop: &Stop) -> SendReport {
        stop.add(self.sender.stream().clone());
        // A sender that is not pinned is only less steady.
        let unpinned = self.cpu.and_then(|cpu| thread::pin(cpu).err());
        let notes = unpinned.map(|why| format!("not pinned to a processor: {why}")).into_iter().collect();
        self.pause(self.sender.warming(), &|| stop.is_set());
        let (cpu, begun) = (thread::cpu_time(), Instant::now());
        let mut done = Done::default();
        let sent = self.send_all(stop, begun, &mut done);
        let took = (begun.elapsed(), thread::cpu_time() - cpu);
        let stream = self.sender.stream();
        let what = format!("{}, source {}", self.content.describe(), self.data_id);
        let mode = stream.describe().to_owned();
        let mut report = SendReport { to: self.to, what, mode, notes, ..SendReport::default() };
        let finished = stream.report(&mut report).map_err(anyhow::Error::from);
        report.error = sent.and(finished).err().map(|error| error.to_string());
        let stats = stream.stats();
        report.numbered = stats.packets;
        (report.events, report.payload_bytes) = (Some(done.events), Some(stats.payload_bytes));
        report.ticks = (done.events > 0).then_some((done.first, done.last));
        report.syncs = self.sender.syncs();
        report.took(took.0, took.1);
        report
    }

    fn send_all(&self, stop: &Stop, begun: Instant, done: &mut Done) -> Result<()> {
        let over = || stop.is_set() || self.duration.is_some_and(|most| begun.elapsed() >= most);
        let mut made: Vec<Event> = Vec::new();
        while done.events < self.events && !over() {
            let count = self.group(done.events);
            let ticks = self.sender.take_ticks(count as usize);
            let numbers = done.events..done.events + count;
            made.clear();
            made.extend(numbers.zip(&ticks).map(|(n, &tick)| self.content.event(n, self.data_id, tick)));
            let group: Vec<(&Event, u64)> = made.iter().zip(ticks.iter().copied()).collect();
            self.sender.send_all(&group)?;
            if done.events == 0 {
                done.first = ticks[0];
            }
            done.last = ticks[ticks.len() - 1];
            done.events += count;
            if let Some((delay, every)) = self.delay
                && done.events.is_multiple_of(every)
            {
                self.pause(delay, &over);
            }
        }
        Ok(())
    }

    /// How many events from number `next` on go together. At a low rate a tenth of a second's worth, so that an end is not
    /// waited for; a thousandth if their ticks are the time.
    fn group(&self, next: u64) -> u64 {
        let parts = if self.is_clock { 1000 } else { 10 };
        let bytes = match self.sender.stream().rate() {
            0 => GROUP_BYTES,
            rate => (rate / 8 / parts).min(GROUP_BYTES),
        };
        let mut most = GROUP_EVENTS.min(self.events - next);
        if let Some(rate) = self.event_rate {
            most = most.min(rate / parts);
        }
        if let Some((_, every)) = self.delay {
            most = most.min(every - next % every);
        }
        let (mut count, mut all) = (1, self.content.bytes(next));
        while count < most {
            all += self.content.bytes(next + count);
            if all > bytes {
                break;
            }
            count += 1;
        }
        count
    }

    /// Wait, unless it is over.
    fn pause(&self, time: Duration, over: &dyn Fn() -> bool) {
        let begun = Instant::now();
        while let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())
            && !over()
        {
            std::thread::sleep(left.min(LOOK));
        }
    }
}
