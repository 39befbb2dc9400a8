//! Alarms for people who do not look at the dashboard: to a program, by e-mail, to a webhook.
//!
//! ```text
//!   figures, each second ─▶ ledger: begin, worse, still, end ─▶ an outbox and a thread for each receiver ─▶ program, sendmail, HTTP
//!                             └─▶ station_alarms.json: what was said, for a restart
//! ```
//!
//! The thread of the figures never waits: it only fills outboxes, which are bounded. A receiver that hangs holds up itself alone.
//!
//! Limits: [`MAX_RECEIVERS`]; 256 messages wait for each; 4096 alarms are followed.

mod kept;
mod ledger;
mod message;
mod outbox;
#[cfg(test)]
mod route_tests;
mod routes;
mod setup;
#[cfg(test)]
mod tests;

pub use routes::AlarmTrial;
pub use setup::{AlarmReceiver, AlarmRoute, AlarmSetup, MAX_RECEIVERS};

use super::dashboard::alarms::AlarmCondition;
use kept::KeptAlarms;
use ledger::AlarmLedger;
use message::AlarmMessage;
use outbox::Outbox;
use routes::Route;
use skyhaul::io::lock::{lock, wait, wait_while};
use skyhaul::io::say;
use skyhaul::metrics::{Kind, Metric};
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How often a receiver that failed is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// What is sent of alarms.
#[derive(Debug)]
pub(super) struct Alerts {
    begun: Instant,
    book: Mutex<Book>,
    receivers: Vec<Arc<Receiver>>,
}

#[derive(Debug)]
struct Book {
    ledger: AlarmLedger,
    version: u64,
    /// The alarms as they were kept last.
    kept: Vec<u8>,
}

/// A receiver, for its thread.
#[derive(Debug)]
struct Receiver {
    name: String,
    post: Mutex<Post>,
    changed: Condvar,
}

#[derive(Debug)]
struct Post {
    outbox: Outbox,
    is_over: bool,
}

impl Alerts {
    /// Starts a thread for each receiver. `kept` are the files of an earlier run.
    pub(super) fn start(setup: &AlarmSetup, kept: &[Vec<u8>], time: &str) -> io::Result<Self> {
        let mut book = Book { ledger: AlarmLedger::new(setup.hold), version: 0, kept: Vec::new() };
        if let Some(newest) = KeptAlarms::newest(kept) {
            book.version = newest.version;
            newest.alarms.into_iter().for_each(|alarm| alarm.restore(&mut book.ledger, time));
        } else if !kept.is_empty() {
            say!("the file of alarms on the disks cannot be read: alarms that still hold are sent as new");
        }
        // From here on, an error ends the threads that were started.
        let mut alerts = Self { begun: Instant::now(), book: Mutex::new(book), receivers: Vec::new() };
        for one in &setup.receivers {
            let (route, outbox) = (Route::open(one)?, Outbox::new(one.filter(), setup.retry_for));
            let post = Mutex::new(Post { outbox, is_over: false });
            let receiver = Arc::new(Receiver { name: one.name.clone(), post, changed: Condvar::new() });
            alerts.receivers.push(Arc::clone(&receiver));
            let begun = alerts.begun;
            std::thread::Builder::new()
                .name("station-alarms".into())
                .spawn(move || receiver.run(&route, begun))?;
        }
        Ok(alerts)
    }

    /// Takes the conditions that hold; returns what is to be kept for a restart, if that has changed. It never waits.
    pub(super) fn update(&self, conditions: &[AlarmCondition], time: &str) -> Option<Vec<u8>> {
        if self.receivers.is_empty() {
            return None;
        }
        let now = self.begun.elapsed();
        let mut book = lock(&self.book);
        let said = book.ledger.update(conditions, now, time);
        let mut ends = Vec::new();
        for receiver in &self.receivers {
            let mut post = lock(&receiver.post);
            said.iter().for_each(|message| post.outbox.offer(message, now));
            ends.extend(post.outbox.ends().cloned());
            if !said.is_empty() {
                receiver.changed.notify_all();
            }
        }
        let alarms = KeptAlarms::of(&book.ledger, &ends);
        let text = serde_json::to_vec(&alarms).ok()?;
        if text == book.kept {
            return None;
        }
        book.version += 1;
        book.kept = text;
        serde_json::to_vec(&KeptAlarms { version: book.version, ..alarms }).ok()
    }

    pub(super) fn metrics(&self, metric: &dyn Fn(&str, Kind, &str) -> Metric) -> Vec<Metric> {
        if self.receivers.is_empty() {
            return Vec::new();
        }
        let mut all = [
            metric("alarms_sent_total", Kind::Counter, "Messages of alarms that a receiver took."),
            metric("alarms_lost_total", Kind::Counter, "Messages of alarms that were given up."),
            metric("alarms_failures_total", Kind::Counter, "Attempts to send an alarm that failed."),
            metric("alarms_waiting", Kind::Gauge, "Messages of alarms that wait for a receiver."),
        ];
        for receiver in &self.receivers {
            let post = lock(&receiver.post);
            let counts = post.outbox.counts;
            let values = [counts.sent, counts.lost, counts.failures, post.outbox.waiting() as u64];
            for (metric, value) in all.iter_mut().zip(values) {
                metric.add(&[("receiver", &receiver.name)], value);
            }
        }
        let mut unfollowed =
            metric("alarms_unfollowed_total", Kind::Counter, "Alarms that were not sent: too many hold.");
        unfollowed.add(&[], lock(&self.book).ledger.unfollowed);
        all.into_iter().chain([unfollowed]).collect()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        for receiver in &self.receivers {
            lock(&receiver.post).is_over = true;
            receiver.changed.notify_all();
        }
    }
}

impl AlarmReceiver {
    /// Sends a test message of this `time`; returns what the receiver said.
    ///
    /// # Errors
    /// Why it did not take it.
    pub fn try_out(&self, time: &str) -> AlarmTrial {
        let route = Route::open(self).map_err(|error| error.to_string())?;
        route.send(&AlarmMessage::test(time), &setup::host())
    }
}

impl Receiver {
    /// Sends until the end.
    fn run(&self, route: &Route, begun: Instant) {
        let host = setup::host();
        let (mut lost, mut was_failing) = (0, false);
        loop {
            let (message, counts) = {
                let mut post = lock(&self.post);
                while post.outbox.waiting() == 0 && !post.is_over {
                    post = wait(&self.changed, post);
                }
                if post.is_over {
                    return;
                }
                (post.outbox.next(begun.elapsed()), post.outbox.counts)
            };
            if counts.lost > lost {
                say!("alarms: {} messages for {} were given up", counts.lost - lost, self.name);
                lost = counts.lost;
            }
            let Some(message) = message else {
                let post = lock(&self.post);
                drop(wait_while(&self.changed, post, LOOK_INTERVAL, |post| !post.is_over));
                continue;
            };
            let sent = route.send(&message, &host);
            match &sent {
                Err(why) if !was_failing => say!("alarms: {} failed, and is tried again: {why}", self.name),
                Ok(_) if was_failing => say!("alarms: {} takes messages again", self.name),
                _ => {}
            }
            let mut post = lock(&self.post);
            post.outbox.done(sent.is_ok(), begun.elapsed());
            was_failing = post.outbox.is_failing();
        }
    }
}
