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
use super::dashboard::receivers::{ReceiverFailure, ReceiverView};
use kept::KeptAlarms;
use ledger::AlarmLedger;
use message::AlarmMessage;
use outbox::Outbox;
use routes::Route;
use skyhaul::io::host::tree::host_name;
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
    route: &'static str,
    post: Mutex<Post>,
    changed: Condvar,
}

#[derive(Debug)]
struct Post {
    outbox: Outbox,
    /// Since its last success: when it failed first, by both clocks, and why it failed last.
    failing: Option<(Instant, String, String)>,
    /// Of the last second.
    time: String,
    is_over: bool,
}

impl Alerts {
    /// Starts a thread for each receiver. `kept` are the files of an earlier run.
    pub(super) fn start(setup: &AlarmSetup, kept: &io::Result<Vec<Vec<u8>>>, time: &str) -> io::Result<Self> {
        let mut book = Book { ledger: AlarmLedger::new(setup.hold), version: 0, kept: Vec::new() };
        // No reason not to record.
        let as_new = "alarms that still hold are sent as new";
        match kept.as_deref().map(|files| (files.len(), KeptAlarms::newest(files))) {
            Ok((_, Some(newest))) => {
                book.version = newest.version;
                newest.alarms.into_iter().for_each(|alarm| alarm.restore(&mut book.ledger, time));
            }
            Ok((0, None)) => {}
            Ok(_) => say!("the files of alarms on the disks are damaged: {as_new}"),
            Err(error) => say!("the files of alarms on the disks cannot be read: {error}; {as_new}"),
        }
        // From here on, an error ends the threads that were started.
        let mut alerts = Self { begun: Instant::now(), book: Mutex::new(book), receivers: Vec::new() };
        for one in &setup.receivers {
            let (route, outbox) = (Route::open(one)?, Outbox::new(one.filter(), setup.retry_for));
            let post = Mutex::new(Post { outbox, failing: None, time: time.to_owned(), is_over: false });
            let name = one.name.clone();
            let receiver =
                Arc::new(Receiver { name, route: one.route.name(), post, changed: Condvar::new() });
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
            time.clone_into(&mut post.time);
            // That it fails is for the others.
            let is_for_it = |one: &&AlarmMessage| one.kind != "alarms_unsent" || one.subject != receiver.name;
            said.iter().filter(is_for_it).for_each(|message| post.outbox.offer(message, now));
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

    /// The receivers as they are now.
    pub(super) fn receivers(&self) -> Vec<ReceiverView> {
        let view = |receiver: &Arc<Receiver>| {
            let post = lock(&receiver.post);
            let failure = post.failing.as_ref().map(|(at, since, why)| ReceiverFailure {
                why: why.clone(),
                since: since.clone(),
                seconds: at.elapsed().as_secs(),
            });
            let (counts, waiting) = (post.outbox.counts, post.outbox.waiting() as u64);
            let (name, route) = (receiver.name.clone(), receiver.route);
            ReceiverView { name, route, sent: counts.sent, lost: counts.lost, waiting, failure }
        };
        self.receivers.iter().map(view).collect()
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
        route.send(&AlarmMessage::test(time), &host_name())
    }
}

impl Post {
    /// An attempt has ended; what is to be said of it.
    fn conclude(&mut self, sent: AlarmTrial, now: Duration) -> Option<String> {
        self.outbox.done(sent.is_ok(), now);
        match (sent, &mut self.failing) {
            (Ok(_), failing @ Some(_)) => {
                *failing = None;
                Some("takes messages again".to_owned())
            }
            (Err(why), Some((.., known))) => {
                // One that says the time says it each time.
                let is_same = without_digits(known).eq(without_digits(&why));
                known.clone_from(&why);
                (!is_same).then(|| format!("still fails: {why}"))
            }
            (Err(why), failing @ None) => {
                *failing = Some((Instant::now(), self.time.clone(), why.clone()));
                Some(format!("failed, and is tried again: {why}"))
            }
            _ => None,
        }
    }
}

fn without_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_ascii_digit())
}

impl Receiver {
    /// Sends until the end.
    fn run(&self, route: &Route, begun: Instant) {
        let host = host_name();
        let mut lost = 0;
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
            let change = lock(&self.post).conclude(sent, begun.elapsed());
            // Without the lock: the log may be slow.
            if let Some(change) = change {
                say!("alarms: {} {change}", self.name);
            }
        }
    }
}
