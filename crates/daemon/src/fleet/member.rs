//! The station as a member of its fleet: a thread that hands [`FleetMember`] what the store and the station report, and carries out what
//! it decides.
//!
//! ```text
//!   watches ──────────────┐                        ┌─▶ journal (SQLite), first
//!   keeper: writes, lists ┼─▶ FleetMember::handle ─┼─▶ keeper ─▶ etcd
//!   station: a snapshot ──┘                        └─▶ StationRequest, as any client
//! ```
//!
//! Recording never waits for the store: this thread only asks the station, and waits for nothing but its own database and disks.
//! If the database fails, nothing is begun for the fleet until it works again.

mod closed;
mod facts;
mod keeper;
mod reply;
mod schedule;
mod view;

use super::journal::MemberJournal;
use super::setup::FleetSetup;
use super::store::FleetStore;
use super::watch::{PrefixEvent, PrefixWatch};
use crate::served::recordings::Recordings;
use crate::served::summing::ScanSums;
use crate::station::{FleetSigns, StationReply, StationService, wall_millis};
use facts::FactFinder;
use keeper::{Keeper, StoreJob, StoreResult, entry, revision};
use reply::answer;
use skyhaul::io::say;
use skyhaul_core::fleet::{
    FleetMember, FleetRoot, MemberAction, MemberConfig, MemberEvent, MemberRecord, MemberRequestId,
    StationAnswer, StationFact, StoreEntry, WriteOutcome,
};
use skyhaul_core::hint::split;
use skyhaul_core::station::{StartRequest, StationRefusal, StationRequest, UnixMillis};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use view::FleetViewer;

/// How often events are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How often the station is looked at.
const FACTS_INTERVAL: Duration = Duration::from_millis(250);
/// Jobs that wait for the store; [`FleetMember`] has fewer under way.
const JOB_QUEUE: usize = 64;
/// Pause before the next attempt after the database or a listing has failed.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// How long the end of the program waits for the store.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// A station that is a member of a fleet. It ends when it is dropped: what the store does not have yet is written for at most 3 s, and by
/// the next run otherwise.
#[derive(Debug)]
pub struct FleetMembership {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FleetMembership {
    /// Makes a station a member of a fleet. It waits neither for the store nor for the database: while that cannot be used, and after a bug
    /// in the member, the station shows why, and records. `sums` are those of the station's disks.
    ///
    /// # Errors
    /// The store's options cannot be used, or a thread cannot be started.
    pub fn start(setup: FleetSetup, service: &Arc<StationService>, sums: &ScanSums) -> io::Result<Self> {
        let store = FleetStore::open(&setup.store).map_err(io::Error::other)?;
        let over = Arc::<AtomicBool>::default();
        let (seen, service, recordings) = (Arc::clone(&over), Arc::clone(service), sums.reader());
        let run = move || {
            let mut said = String::new();
            loop {
                // From what the disk has: what was not written did not happen.
                let run = || {
                    let journal = MemberJournal::open(&setup.database)?;
                    let of = (setup.clone(), store.clone());
                    Driver::start(of, &service, recordings(), journal)?.run(&seen)
                };
                // The station needs no fleet, and does not end with it.
                let bug = |_| Err(io::Error::other("the member ended because of a bug in this program"));
                let Err(error) = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(bug) else { return };
                let why = error.to_string();
                if why != said {
                    say!("the fleet is left: {why}; tried again every {} s", RETRY_PAUSE.as_secs());
                }
                service.note_fleet_failure(setup.names(), &why);
                said = why;
                std::thread::sleep(RETRY_PAUSE);
                if seen.load(Ordering::SeqCst) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("fleet-member".into()).spawn(run)?;
        Ok(Self { over, thread: Some(thread) })
    }

    /// Whether its thread runs; it ends by itself only because of a bug.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }
}

impl Drop for FleetMembership {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How the member stands to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    /// A watch is cut.
    Away,
    /// Both watches run, and the keys are being listed.
    Listing,
    /// Everything up to this revision was in the listing.
    Connected(u64),
}

/// What the thread has.
struct Driver {
    setup: FleetSetup,
    service: Arc<StationService>,
    root: FleetRoot,
    config: MemberConfig,
    member: FleetMember,
    journal: MemberJournal,
    facts: FactFinder,
    /// `None`: the keeper is to end.
    jobs: Option<SyncSender<(u64, StoreJob)>>,
    keeper: Option<JoinHandle<()>>,
    results: Receiver<StoreResult>,
    cuts: Arc<AtomicU64>,
    watches: Vec<(PrefixWatch, bool)>,
    link: Link,
    /// When the next listing may be asked for.
    list_at: Instant,
    problem: Option<(Instant, String)>,
    /// Requests to the station that are not answered.
    asked: HashMap<MemberRequestId, oneshot::Receiver<StationReply>>,
    _viewer: FleetViewer,
}

impl Driver {
    fn start(
        (setup, store): (FleetSetup, FleetStore),
        service: &Arc<StationService>,
        recordings: Recordings,
        journal: MemberJournal,
    ) -> io::Result<Self> {
        let heartbeat_millis = u64::try_from(setup.lease.as_millis() / 3).unwrap_or(u64::MAX);
        let (station, recorder) = (setup.station.clone(), setup.recorder.clone());
        let seed = u64::from(std::process::id()) ^ u64::try_from(wall_millis()).unwrap_or(0);
        let config = MemberConfig { station, recorder, heartbeat_millis, seed };
        let records = journal.records()?;
        let mut facts = FactFinder::new(&setup, recordings);
        records.iter().for_each(|record| facts.note(record));
        let known: BTreeSet<String> = records
            .iter()
            .filter_map(|record| match record {
                MemberRecord::Closed { scan, .. } => Some(scan.recording.clone()),
                _ => None,
            })
            .collect();
        let active = service.snapshot().recordings.into_iter().map(|status| status.name).collect();
        let began = MemberEvent::Began { active, closed: facts.closed(service, &known) };
        let root = FleetRoot::new(&setup.fleet);
        let watched = config.watched();
        let watches = watched.iter().map(|branch| (store.watch(&root.branch(branch)), false)).collect();
        let (jobs, queued) = sync_channel(JOB_QUEUE);
        // Each job has one result.
        let (done, results) = channel();
        let cuts = Arc::<AtomicU64>::default();
        let viewer = FleetViewer::start(store.clone(), root.clone(), service)?;
        let keeper = Keeper {
            store,
            setup: setup.clone(),
            root: root.clone(),
            cuts: Arc::clone(&cuts),
            live: None,
            alarms: None,
        };
        let thread = std::thread::Builder::new().name("fleet-keeper".into());
        let keeper = thread.spawn(move || keeper.run(&queued, &done))?;
        let mut driver = Self {
            member: FleetMember::new(config.clone(), records),
            service: Arc::clone(service),
            root,
            config,
            journal,
            facts,
            jobs: Some(jobs),
            keeper: Some(keeper),
            results,
            cuts,
            watches,
            link: Link::Away,
            list_at: Instant::now(),
            problem: Some((Instant::now(), "the fleet's store was not reached yet".to_owned())),
            asked: HashMap::new(),
            _viewer: viewer,
            setup,
        };
        driver.handle(began)?;
        let info = driver.setup.info.clone();
        driver.handle(MemberEvent::Fact(StationFact::Info(info)))?;
        Ok(driver)
    }

    fn run(&mut self, over: &AtomicBool) -> io::Result<()> {
        let (mut looked, mut ending) = (Instant::now(), None::<Instant>);
        loop {
            std::thread::sleep(POLL_INTERVAL);
            self.take_answers()?;
            self.take_results()?;
            self.take_watched()?;
            if looked.elapsed() >= FACTS_INTERVAL || over.load(Ordering::SeqCst) {
                looked = Instant::now();
                for fact in self.facts.facts(&self.service) {
                    self.handle(MemberEvent::Fact(fact))?;
                }
                self.show();
            }
            if self.member.next_deadline().is_some_and(|due| due.0 <= wall_millis()) {
                self.handle(MemberEvent::TimePassed)?;
            }
            if over.load(Ordering::SeqCst) {
                let begun = ending.get_or_insert_with(Instant::now);
                let is_done = self.member.status().unwritten == 0 || !matches!(self.link, Link::Connected(_));
                if is_done || begun.elapsed() >= END_TIMEOUT {
                    if matches!(self.link, Link::Connected(_)) {
                        // It is offline at once, and not only when its lease has ended.
                        self.post(StoreJob::EndLeases);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Shows the station's people how it stands.
    fn show(&mut self) {
        let status = self.member.status();
        match (&status.refused, &mut self.problem) {
            (Some(why), None) => {
                let text = format!("the fleet's store does not take what is written: {why}");
                self.problem = Some((Instant::now(), text));
            }
            (None, Some(_)) if matches!(self.link, Link::Connected(_)) => self.problem = None,
            _ => {}
        }
        self.service.note_fleet(FleetSigns {
            names: self.setup.names(),
            problem: self.problem.clone(),
            unwritten: Some(status.unwritten),
            unpublished_scans: Some(status.unpublished_scans),
            schedule: status.schedule.map(|schedule| schedule.experiment.to_string()),
        });
    }

    fn handle(&mut self, event: MemberEvent) -> io::Result<()> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for action in self.member.handle(UnixMillis(wall_millis()), event) {
                events.extend(self.carry_out(action)?);
            }
        }
        Ok(())
    }

    /// Carries out an action; returns what is known of it at once.
    fn carry_out(&mut self, action: MemberAction) -> io::Result<Option<MemberEvent>> {
        match action {
            MemberAction::Journal(record) => {
                self.journal.write(&record)?;
                self.facts.note(&record);
            }
            MemberAction::Put { write, key, value, lease, condition } => {
                if !self.post(StoreJob::Put { write, key, value, lease, condition }) {
                    return Ok(Some(MemberEvent::Written { write, outcome: WriteOutcome::Unknown }));
                }
            }
            MemberAction::Delete { write, key } => {
                if !self.post(StoreJob::Delete { write, key }) {
                    return Ok(Some(MemberEvent::Written { write, outcome: WriteOutcome::Unknown }));
                }
            }
            MemberAction::Start { request, recording, desired } => {
                let start = StartRequest {
                    name: recording,
                    input: self.setup.input.clone(),
                    start: desired.start,
                    stop: desired.stop,
                    ..StartRequest::default()
                };
                self.asked.insert(request, self.service.begin(StationRequest::Start(start)));
            }
            MemberAction::Stop { request, recording } => {
                let stop = StationRequest::Stop { name: recording, wait: false };
                self.asked.insert(request, self.service.begin(stop));
            }
            MemberAction::LoadSchedule { request, schedule } => {
                if !self.post(StoreJob::ReadSchedule { request, schedule }) {
                    let answer = StationAnswer::NotRead { reason: "the store is busy".to_owned() };
                    return Ok(Some(MemberEvent::Answered { request, answer }));
                }
            }
            MemberAction::RemoveSchedule { experiment } => {
                if let Err(why) = schedule::remove(&self.service, &self.setup, &experiment) {
                    say!("the schedule of {experiment} is still followed: {why}");
                }
            }
        }
        Ok(None)
    }

    fn post(&self, job: StoreJob) -> bool {
        let cuts = self.cuts.load(Ordering::SeqCst);
        self.jobs.as_ref().is_some_and(|jobs| jobs.try_send((cuts, job)).is_ok())
    }

    /// The station's answers.
    fn take_answers(&mut self) -> io::Result<()> {
        let mut answered = Vec::new();
        self.asked.retain(|request, reply| match reply.try_recv() {
            Err(TryRecvError::Empty) => true,
            Err(TryRecvError::Closed) => {
                answered.push((*request, Err(StationRefusal::ShuttingDown)));
                false
            }
            Ok(reply) => {
                answered.push((*request, reply));
                false
            }
        });
        for (request, reply) in answered {
            self.handle(MemberEvent::Answered { request, answer: answer(reply) })?;
        }
        Ok(())
    }

    fn take_results(&mut self) -> io::Result<()> {
        while let Ok(result) = self.results.try_recv() {
            match result {
                StoreResult::Written(write, outcome) => {
                    self.handle(MemberEvent::Written { write, outcome })?;
                }
                StoreResult::LeaseEnded(lease) => self.handle(MemberEvent::LeaseEnded(lease))?,
                StoreResult::Listed(_) if self.link != Link::Listing => {}
                StoreResult::Listed(Ok(listing)) => {
                    self.link = Link::Connected(listing.revision);
                    self.problem = None;
                    self.handle(MemberEvent::Connected(listing))?;
                }
                StoreResult::Listed(Err(why)) => {
                    self.link = Link::Away;
                    self.list_at = Instant::now() + RETRY_PAUSE;
                    self.away(why);
                }
                StoreResult::Schedule { request, schedule, text } => {
                    let answer = match text {
                        Ok(text) => schedule::load(&self.service, &self.setup, &schedule, text),
                        Err(reason) => StationAnswer::NotRead { reason },
                    };
                    self.handle(MemberEvent::Answered { request, answer })?;
                }
            }
        }
        Ok(())
    }

    /// What the watches report. While keys are listed, they wait: the listing comes first.
    fn take_watched(&mut self) -> io::Result<()> {
        for watch in 0..self.watches.len() {
            while self.link != Link::Listing
                && let Some(event) = self.watches[watch].0.try_next()
            {
                self.take_event(watch, event)?;
            }
        }
        let are_current = self.watches.iter().all(|(_, is_current)| *is_current);
        if self.link == Link::Away && are_current && Instant::now() >= self.list_at {
            let branches = self.config.listed().to_vec();
            if self.post(StoreJob::List(branches)) {
                self.link = Link::Listing;
            }
        }
        Ok(())
    }

    fn take_event(&mut self, watch: usize, event: PrefixEvent) -> io::Result<()> {
        match (event, self.link) {
            (PrefixEvent::Current { .. }, _) => self.watches[watch].1 = true,
            (PrefixEvent::Away(error), link) => {
                self.watches[watch].1 = false;
                self.link = Link::Away;
                self.away(split(&error.to_string()).0.to_owned());
                if matches!(link, Link::Connected(_)) {
                    self.cuts.fetch_add(1, Ordering::SeqCst);
                    self.handle(MemberEvent::Lost)?;
                }
            }
            (PrefixEvent::Put(value), Link::Connected(listed)) if revision(value.mod_revision) > listed => {
                if let Some(entry) = entry(&self.root, &value) {
                    self.handle(MemberEvent::Put(entry))?;
                }
            }
            (PrefixEvent::TooLong { key, mod_revision, bytes }, Link::Connected(listed))
                if revision(mod_revision) > listed =>
            {
                if let Ok(key) = self.root.parse(&key) {
                    let value = Err(format!("the value has {bytes} bytes"));
                    self.handle(MemberEvent::Put(StoreEntry {
                        key,
                        revision: revision(mod_revision),
                        value,
                    }))?;
                }
            }
            (PrefixEvent::Deleted { key, revision: at }, Link::Connected(listed))
                if revision(at) > listed =>
            {
                if let Ok(key) = self.root.parse(&key) {
                    self.handle(MemberEvent::Deleted { key, revision: revision(at) })?;
                }
            }
            // The listing has it.
            _ => {}
        }
        Ok(())
    }

    fn away(&mut self, why: String) {
        let since = self.problem.take().map_or_else(Instant::now, |(since, _)| since);
        self.problem = Some((since, why));
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}
