//! A monitor at work.

use super::journal::{Journal, Keep};
use super::line::{Line, Outcome};
use super::test::Test;
use super::totals::Totals;
use serde::Serialize;
use skyhaul::peer::Token;
use skyhaul::time::format_exact;
use skyhaul_core::placement::Nanos;
use skyhaul_core::schedule::{Due, Schedule};
use skyhaul_io::file::failed;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often waiting looks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// The addresses of a server as the user wrote it, or why there is none.
pub type Find = dyn Fn(&str) -> Result<Vec<SocketAddr>, String>;

/// Settings of a monitor.
pub struct MonitorOptions {
    /// What is repeated.
    pub tests: Vec<Test>,
    /// The token of all servers.
    pub token: Token,
    /// File of lines.
    pub lines: PathBuf,
    /// How many of them are kept.
    pub keep: Keep,
    /// File of metrics; it is replaced as a whole.
    pub metrics: Option<PathBuf>,
    /// Spreads the tests within their jitter.
    pub seed: u64,
    /// How the addresses of a server are found, each time anew.
    pub find: Box<Find>,
}

/// What happened.
pub enum Told<'a> {
    /// A test ran.
    Ran(&'a Line),
    /// The disk takes no lines, or no metrics; told once, until it does again.
    Full(&'a io::Error),
    /// It takes them again.
    Room,
}

/// What a monitor did.
#[derive(Clone, Debug, Serialize)]
pub struct MonitorReport {
    /// Seconds that it ran.
    pub seconds: f64,
    /// All that it counted.
    #[serde(flatten)]
    pub totals: Totals,
}

/// A monitor at work.
pub struct Monitor {
    options: MonitorOptions,
    schedule: Schedule,
    journal: Journal,
    totals: Totals,
    text: Arc<Mutex<String>>,
    begun: Instant,
    /// Lines, and metrics, of which it was told that the disk takes none.
    full: [bool; 2],
}

impl Monitor {
    /// Open its file; the first slots begin now.
    ///
    /// # Errors
    /// The file cannot be opened, or another monitor writes it; or the file of metrics cannot be written.
    pub fn new(options: MonitorOptions) -> io::Result<Self> {
        let journal = Journal::open(&options.lines, options.keep)?;
        let periods: Vec<_> = options.tests.iter().map(|test| test.period).collect();
        let schedule = Schedule::new(&periods, Nanos(0), options.seed);
        let totals = Totals { lines: journal.counts(), ..Totals::new(&options.tests) };
        let text = Arc::new(Mutex::new(totals.metrics()));
        if let Some(path) = &options.metrics {
            replace(path, &totals.metrics())?;
        }
        Ok(Self { options, schedule, journal, totals, text, begun: Instant::now(), full: [false; 2] })
    }

    /// Bytes at the end of the file that a kill had left of a line; they were removed.
    #[must_use]
    pub fn cut_bytes(&self) -> u64 {
        self.journal.counts().cut_bytes
    }

    /// Its metrics, always the newest: for whoever is asked for them.
    pub fn metrics(&self) -> impl Fn() -> String + Clone + Send + Sync + 'static {
        let text = self.text.clone();
        move || text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Run until `stop` is set, or for a time.
    pub fn run(&mut self, stop: &AtomicBool, time: Option<Duration>, told: &mut dyn FnMut(Told<'_>)) {
        let over =
            |begun: Instant| stop.load(Ordering::Relaxed) || time.is_some_and(|time| begun.elapsed() >= time);
        while !over(self.begun) {
            let now = self.now();
            let Some(due) = self.schedule.poll(now) else {
                let next = self
                    .schedule
                    .poll_timeout()
                    .map_or(LOOK, |at| Duration::from_nanos(at.0.saturating_sub(now.0)));
                std::thread::sleep(next.min(LOOK));
                continue;
            };
            let line = self.measure(due, stop);
            self.keep(due.test, &line, told);
        }
        let done = self.journal.flush();
        self.noted(0, done, told);
        self.totals.lines = self.journal.counts();
        self.publish(told);
    }

    /// What it did so far.
    #[must_use]
    pub fn report(&self) -> MonitorReport {
        MonitorReport { seconds: self.begun.elapsed().as_secs_f64(), totals: self.totals.clone() }
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Run a test once.
    fn measure(&self, due: Due, stop: &AtomicBool) -> Line {
        let test = &self.options.tests[due.test];
        let (began, unix) =
            (Instant::now(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let late = self.now().0.saturating_sub(due.at.0);
        let mut line = Line {
            version: skyhaul::report::VERSION,
            at: format_exact(unix.as_millis() as i128 * 1_000_000),
            unix: unix.as_millis() as f64 / 1e3,
            test: test.name.clone(),
            server: test.server.clone(),
            kind: test.kind(),
            slot: due.slot,
            missed: self.schedule.missed(due.test),
            late_seconds: late as f64 / 1e9,
            seconds: 0.0,
            outcome: Outcome::Away,
            why: None,
            udp: Vec::new(),
            tcp: Vec::new(),
        };
        let patience = Duration::from_nanos(test.period.every);
        match (self.options.find)(&test.server) {
            Ok(server) => test.run(&server, &self.options.token, patience, stop, &mut line),
            Err(why) => line.why = Some(why),
        }
        line.seconds = began.elapsed().as_secs_f64();
        line
    }

    /// Count a run, write its line, and tell of it.
    fn keep(&mut self, test: usize, line: &Line, told: &mut dyn FnMut(Told<'_>)) {
        self.totals.add(test, line);
        for (n, of) in self.totals.tests.iter_mut().enumerate() {
            of.missed = self.schedule.missed(n);
        }
        told(Told::Ran(line));
        let written = serde_json::to_string(line).map_err(io::Error::other);
        let done = written.and_then(|text| self.journal.write(&text));
        self.noted(0, done, told);
        self.totals.lines = self.journal.counts();
        self.publish(told);
    }

    fn publish(&mut self, told: &mut dyn FnMut(Told<'_>)) {
        if let Some(path) = &self.options.metrics {
            let done = replace(path, &self.totals.metrics());
            self.totals.metrics_failures += u64::from(done.is_err());
            self.noted(1, done, told);
        }
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = self.totals.metrics();
    }

    /// Tell when the disk begins or ceases to refuse what it is asked to write.
    fn noted(&mut self, what: usize, done: io::Result<()>, told: &mut dyn FnMut(Told<'_>)) {
        let was = std::mem::replace(&mut self.full[what], done.is_err());
        match done {
            Err(error) if !was => told(Told::Full(&error)),
            Ok(()) if was => told(Told::Room),
            _ => {}
        }
    }
}

/// Write a file beside, and give it the name: a reader sees the old one or the new one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let done = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    done.map_err(|error| {
        // What is left of it, if anything.
        let _ = std::fs::remove_file(&beside);
        failed("write", path, &error)
    })
}
