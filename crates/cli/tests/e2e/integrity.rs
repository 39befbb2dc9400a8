//! Events through a balancer while its workers join, leave, die and change weight, and the network loses, reorders and
//! doubles packets. Every process is the command; every event is accounted for, packet by packet.
//!
//! ```text
//!   sender of source 1 ─ faults ─┐                ┌─▶ worker, joins and leaves
//!                                ├─▶ balance ─────┼─▶ worker, slow
//!   sender of source 2 ─ faults ─┘                └─▶ worker, killed
//! ```
//!
//! `SKYHAUL_EVENTS=1000000` sends a million; `SKYHAUL_SEED=7` plays another schedule with other faults;
//! `SKYHAUL_BINARY=target/release/skyhaul` plays it with another build of the command.
//!
//! What became of every event and of every packet is in the reports and lists of all processes. The faults follow from a seed, so how many packets of each event went out is known. The balancer counts what it sent to
//! each worker; what a worker counted must be that, and what its list has must make up that count. A worker that was killed
//! has no report, and what was in its socket and memory is lost: of these events there is the balancer's count alone, and
//! whether their payloads were right nobody knows.

use crate::balance::{Place, Running};
use crate::site::{ANY, Job, counter, drops, number, wait_for, words};
use rustix::process::Signal;
use serde_json::{Value, json};
use skyhaul::core::packetize::Divided;
use skyhaul::core::wire::ejfat::{Addressing, EventPackets, EventShape};
use skyhaul::io::fault::FaultPlan;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Events of both sources, if nothing else is asked for.
const EVENTS: u64 = 100_000;
/// A worker that leaves waits until nothing has come for this long, s.
const QUIET: f64 = 0.5;
/// Between two steps of the schedule.
const STEP: Duration = Duration::from_secs(2);

fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What may happen to workers, each as often as the others.
const STEPS: [fn(&mut Cast, &mut Random); 7] =
    [Cast::join, Cast::leave, Cast::join, Cast::kill, Cast::demand, Cast::join_and_leave, Cast::weigh];

#[test]
fn no_event_is_split_doubled_or_lost_unseen_whatever_becomes_of_workers() {
    let (events, seed) = (asked("SKYHAUL_EVENTS", EVENTS), asked("SKYHAUL_SEED", 11));
    // Small events in small packets, larger ones in large packets; a million within two minutes.
    let ticks = events / 2;
    let per_second = (ticks / 100).max(2500);
    let sources = [
        Source { id: 1, sizes: (1, 3000), mtu: 1500, ticks, per_second, seed },
        Source { id: 2, sizes: (1000, 24_000), mtu: 9000, ticks, per_second, seed: seed + 1 },
    ];
    let mut random = Random::new(seed);
    let mut cast = Cast::start(per_second * 2);
    (0..3).for_each(|_| cast.join(&mut random));
    cast.shared();

    let mut senders = sources.each_ref().map(|source| source.start(&cast));
    let begun = Instant::now();
    let mut order: Vec<usize> = Vec::new();
    let mut next = STEP;
    while senders.iter_mut().any(|sender| sender.is_running()) {
        cast.look();
        if begun.elapsed() >= next {
            next += STEP;
            // Each kind of step once, in another order every time.
            if order.is_empty() {
                order = random.order(STEPS.len());
            }
            let step = order.pop().unwrap_or(0);
            STEPS[step](&mut cast, &mut random);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let sent = senders.map(|sender| sender.finish().expect(0).json());
    eprintln!("seed {seed}: sent after {:.1} s", begun.elapsed().as_secs_f64());
    let (workers, balance, _place) = cast.end();
    for (source, report) in sources.iter().zip(&sent) {
        assert_eq!(number(&report["events"]), source.ticks, "{report}");
    }
    let account = Account::of(&Told { sources: &sources, sent: &sent, workers: &workers, balance: &balance });
    eprintln!("{account}");
    account.hold();
}

/// Reports and lists.
pub(super) struct Told<'a> {
    pub(super) sources: &'a [Source],
    pub(super) sent: &'a [Value],
    pub(super) workers: &'a [Worker],
    pub(super) balance: &'a Value,
}

/// An event in a worker's list.
struct Line {
    tick: u64,
    source: u16,
    bytes: u64,
    missing: u64,
}

/// A worker's list. The last line of one that was killed may be cut off.
fn lines(worker: &Worker) -> Vec<Line> {
    let text = std::fs::read_to_string(&worker.list).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| {
        let fields: Vec<u64> = line.split(',').map(|field| field.parse().unwrap()).collect();
        let [tick, source, bytes, missing] = fields[..] else { panic!("{line}") };
        Line { tick, source: source as u16, bytes, missing }
    };
    whole.lines().skip(1).map(line).collect()
}

/// Packets of one worker.
#[derive(Default)]
struct Counted {
    /// As the balancer counted them.
    balanced: u64,
    /// Those of the events in its list.
    listed: u64,
    /// As it counted them, and its sockets dropped; `None` if it was killed.
    received: Option<(u64, u64)>,
    /// Finished events that its queue had no room for.
    ring_full: u64,
}

/// What became of events.
#[derive(Default)]
pub(super) struct Account {
    sent: u64,
    whole: u64,
    /// Incomplete by exactly what was lost on purpose.
    in_part: u64,
    /// All of their packets were lost on purpose.
    nothing_left: u64,
    /// In no list, and packets of them went out.
    unseen: u64,
    /// Their packets.
    unseen_packets: u64,
    /// Incomplete by more than that, and the packets' bytes.
    more_missing: u64,
    split: Vec<u64>,
    twice: Vec<(u64, u16)>,
    wrong_size: Vec<(u64, u16)>,
    /// Payloads that were not what was sent, of those workers that lived.
    wrong: u64,
    /// Packets that all senders sent, that came to the balancer, and that were dropped at its sockets.
    packets: (u64, u64, u64),
    /// Packets that it refused, by reason, and those that it could not send.
    refused: BTreeMap<String, u64>,
    unsent: u64,
    /// How late the sender was in all that was latest, s: its machine was busy.
    slipped: f64,
    epochs: u64,
    workers: BTreeMap<String, Counted>,
}

impl Account {
    pub(super) fn of(told: &Told<'_>) -> Self {
        let mut account = Self::default();
        let events: HashMap<u16, Vec<SentEvent>> =
            told.sources.iter().zip(told.sent).map(|(source, sent)| account.sender(source, sent)).collect();
        account.balancer(told);
        let mut seen: HashMap<(u64, u16), ()> = HashMap::new();
        let mut owner: HashMap<u64, &str> = HashMap::new();
        for worker in told.workers {
            for line in lines(worker) {
                let event = events[&line.source][line.tick as usize - 1];
                let key = (line.tick, line.source);
                if seen.insert(key, ()).is_some() {
                    account.twice.push(key);
                }
                if *owner.entry(line.tick).or_insert(&worker.name) != worker.name {
                    account.split.push(line.tick);
                }
                account.delivered(&line, event);
                account.workers.entry(worker.name.clone()).or_default().listed += event.packets;
            }
        }
        for (id, all) in &events {
            for (_, event) in (1..).zip(all).filter(|(tick, _)| !seen.contains_key(&(*tick, *id))) {
                if event.packets == 0 {
                    account.nothing_left += 1;
                } else {
                    account.unseen += 1;
                    account.unseen_packets += event.packets;
                }
            }
        }
        account
    }

    /// The events of a source, whose report must agree.
    fn sender(&mut self, source: &Source, sent: &Value) -> (u16, Vec<SentEvent>) {
        let (events, lost, duplicated) = source.events();
        assert_eq!((number(&sent["lost"]), number(&sent["duplicated"])), (lost, duplicated), "{sent}");
        let packets: u64 = events.iter().map(|event| event.packets).sum();
        assert_eq!(
            packets,
            number(&sent["packets"]),
            "packets sent are those made, less those lost, plus duplicates"
        );
        assert_eq!(number(&sent["refused"]), 0, "{sent}");
        self.slipped = self.slipped.max(sent["slipped_seconds"].as_f64().unwrap());
        self.sent += events.len() as u64;
        self.packets.0 += packets;
        (source.id, events)
    }

    fn balancer(&mut self, told: &Told<'_>) {
        let report = &told.balance["reservations"][0];
        self.packets.1 = number(&report["packets"]);
        self.packets.2 = drops(report);
        self.epochs = number(&report["epochs"]);
        let counts = report["refused"].as_object().unwrap().iter();
        self.refused = counts.map(|(why, n)| (why.clone(), number(n))).collect();
        self.unsent = report["unsent"].as_object().unwrap().values().map(number).sum();
        let routed: u64 = report["workers"].as_array().unwrap().iter().map(|w| number(&w["packets"])).sum();
        let refused: u64 = self.refused.values().sum();
        assert_eq!(self.packets.1, routed + refused, "every packet is routed or refused: {report}");
        for worker in told.workers {
            let counted = self.workers.entry(worker.name.clone()).or_default();
            let end = format!(":{}", worker.port);
            let own = report["workers"].as_array().unwrap().iter();
            let own = own.filter(|w| w["address"].as_str().unwrap().ends_with(&end));
            counted.balanced = own.map(|w| number(&w["packets"])).sum();
            if let Some(report) = &worker.report {
                counted.received = Some((number(&report["packets"]), drops(report)));
                counted.ring_full = counter(&report["objects"]["events"]["ring_full"]);
                self.wrong += counter(&report["pattern_errors"]);
            }
        }
    }

    fn delivered(&mut self, line: &Line, event: SentEvent) {
        if line.bytes + line.missing != event.bytes {
            self.wrong_size.push((line.tick, line.source));
        }
        match line.missing {
            0 if event.lost == 0 => self.whole += 1,
            missing if missing == event.lost => self.in_part += 1,
            // It cannot have come.
            missing if missing < event.lost => self.wrong_size.push((line.tick, line.source)),
            _ => self.more_missing += 1,
        }
    }

    /// Packets that are accounted for by number only: dropped by a full socket, or sent to nobody for a reason.
    fn stray(&self) -> u64 {
        let received = self.workers.values().filter_map(|worker| worker.received);
        self.nowhere() + self.unsent + received.map(|(_, dropped)| dropped).sum::<u64>()
    }

    /// Packets that the balancer sent to nobody: refused, for example as too old, or dropped at its own sockets.
    fn nowhere(&self) -> u64 {
        self.packets.2 + self.refused.values().sum::<u64>()
    }

    /// Packets of the events in all lists, and of those in none.
    fn of_events(&self) -> u64 {
        self.workers.values().map(|worker| worker.listed).sum::<u64>() + self.unseen_packets
    }

    /// Everything that must hold.
    pub(super) fn hold(&self) {
        assert!(self.split.is_empty(), "events split over workers, at ticks {:?}", self.split);
        assert!(self.twice.is_empty(), "events delivered twice: {:?}", self.twice);
        assert!(self.wrong_size.is_empty(), "events of another size: {:?}", self.wrong_size);
        assert_eq!(self.wrong, 0, "payloads are what was sent");
        let known = self.whole + self.in_part + self.more_missing + self.nothing_left;
        assert_eq!(known + self.unseen, self.sent);
        let (sent, came, dropped) = self.packets;
        assert_eq!(sent, came + dropped, "every packet came to the balancer, or was dropped at its sockets");
        let stray = self.stray();
        assert!(
            self.more_missing <= stray,
            "events miss more than was lost on purpose, and nobody dropped anything"
        );
        // Each packet is one of an event that somebody listed, or of one that nobody did; and the balancer sent it to a worker,
        // or to nobody.
        let balanced: u64 = self.workers.values().map(|worker| worker.balanced).sum();
        assert_eq!(
            self.of_events(),
            balanced + self.nowhere(),
            "packets of events, listed or not, are those that went to workers, and those that the balancer sent to nobody"
        );
        // Packets of events that nobody listed: their names are those of losses.
        let mut named = self.nowhere() + self.unsent;
        for (name, worker) in &self.workers {
            let Counted { balanced, listed, ring_full, .. } = *worker;
            let Some((packets, dropped)) = worker.received else {
                assert!(listed <= balanced + stray, "{name}: it listed what it was not sent");
                named += balanced.saturating_sub(listed);
                continue;
            };
            let arrived = packets + dropped;
            // A sender that was held up may still send ticks of a worker that waited for them in vain and has left.
            let after = balanced.saturating_sub(arrived);
            assert!(
                arrived <= balanced && (after <= self.unsent || self.slipped > QUIET),
                "{name}: {balanced} packets were sent to it, {arrived} came; senders were late by {} s",
                self.slipped
            );
            named += after + dropped;
            if ring_full > 0 {
                named += packets.saturating_sub(listed);
                continue;
            }
            // What came is of events in its list; what these miss besides went to nobody, or was dropped.
            assert!(packets <= listed, "{name}: {packets} packets came, its events have {listed}");
            let missing = listed - packets;
            assert!(missing <= stray, "{name}: its events make up all but {missing} of its packets");
        }
        let unseen = self.unseen_packets;
        assert!(
            unseen <= named,
            "{unseen} packets of events that nobody listed, {named} are losses with a name"
        );
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sent, came, dropped) = self.packets;
        writeln!(
            f,
            "{} events in {sent} packets; to the balancer {came}, dropped there {dropped}",
            self.sent
        )?;
        for (what, count) in [
            ("whole", self.whole),
            ("less what was lost on purpose", self.in_part),
            ("all lost on purpose", self.nothing_left),
            ("less more than that", self.more_missing),
            ("in no list: with killed workers, or for want of room", self.unseen),
            ("ticks split", self.split.len() as u64),
            ("delivered twice", self.twice.len() as u64),
            ("wrong", self.wrong + self.wrong_size.len() as u64),
        ] {
            writeln!(f, "  {count:>9} {what}")?;
        }
        for (name, worker) in &self.workers {
            let Counted { balanced, listed, received, ring_full } = worker;
            write!(f, "  {name:>4}: {balanced} packets sent to it; its events have {listed}; ")?;
            match received {
                None => writeln!(f, "killed")?,
                Some((came, dropped)) => {
                    writeln!(f, "it counted {came}, dropped {dropped}, no room for {ring_full} events")?;
                }
            }
        }
        write!(
            f,
            "  {} calendars, refused {:?}, unsent {}; senders were late by {:.1} s",
            self.epochs, self.refused, self.unsent, self.slipped
        )
    }
}

/// Workers that forward, at the least, whatever the schedule says.
const FEWEST: usize = 2;
const MOST: usize = 6;

/// SplitMix64, as the sender makes sizes of events.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The schedule's choices.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mixed(self.0) % n as u64) as usize
    }

    /// 0 to `n` - 1, in any order.
    pub(super) fn order(&mut self, n: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        (1..n).for_each(|at| all.swap(at, self.below(at + 1)));
        all
    }
}

/// A source, with faults of its own on its way.
pub(super) struct Source {
    pub(super) id: u16,
    pub(super) sizes: (u64, u64),
    pub(super) mtu: usize,
    pub(super) ticks: u64,
    pub(super) per_second: u64,
    pub(super) seed: u64,
}

/// An event as it was sent, after the faults.
#[derive(Clone, Copy, Default)]
pub(super) struct SentEvent {
    pub(super) bytes: u64,
    /// Of these, in packets that were all lost on purpose.
    pub(super) lost: u64,
    /// Packets that went out, doubles included.
    pub(super) packets: u64,
}

impl Source {
    fn faults(&self) -> String {
        format!("loss=0.01,burst=20@0.00005,reorder=32,duplicate=0.02,seed={}", self.seed)
    }

    pub(super) fn start(&self, cast: &Cast) -> Job {
        let Source { id, sizes: (least, most), mtu, ticks, per_second, seed } = self;
        Job::start(&words(&format!(
            "send --format ejfat --json --quiet --pattern --tick 1 --data-id {id} --event {least}B..{most}B --seed {seed} \
             --events {ticks} --event-rate {per_second} --mtu {mtu} --sockets 2 --faults {} --to {}",
            self.faults(),
            cast.running.uri,
        )))
    }

    /// Each event, from tick 1 on, and the total of packets lost and duplicated: the seed determines the faults.
    pub(super) fn events(&self) -> (Vec<SentEvent>, u64, u64) {
        let mut plan = FaultPlan::new(&self.faults().parse().unwrap());
        let (least, most) = self.sizes;
        let event = |n: u64| {
            let more = mixed(self.seed.wrapping_add((n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            let bytes = least + more % (most - least + 1);
            let packets = EventPackets::new(&EventShape {
                event_bytes: bytes,
                packet_bytes: self.mtu - 28,
                addressing: Some(Addressing::default()),
                ..EventShape::default()
            });
            let packets = packets.unwrap();
            let mut event = SentEvent { bytes, ..SentEvent::default() };
            for n in 0..packets.count() {
                let fate = plan.next_fate();
                let payload = packets.bytes_of(n) - packets.head_bytes_max() as u64;
                event.lost += if fate.lost { payload } else { 0 };
                event.packets += u64::from(!fate.lost) + u64::from(fate.again.is_some());
            }
            event
        };
        let events = (0..self.ticks).map(event).collect();
        (events, plan.injected().lost(), plan.injected().duplicated)
    }
}

/// What became of a worker.
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) list: PathBuf,
    /// Its report; `None` if it was killed.
    pub(super) report: Option<Value>,
}

struct Member {
    job: Job,
    worker: Worker,
    session: String,
    leaves: bool,
}

/// The balancer and its workers.
pub(super) struct Cast {
    running: Running,
    members: Vec<Member>,
    ended: Vec<Worker>,
    count: usize,
    /// Events in a second.
    rate: u64,
    // Removed last.
    place: Place,
}

impl Cast {
    pub(super) fn start(rate: u64) -> Self {
        let place = Place::new();
        let running = place.start("--in-process --instances 1");
        Self { running, members: Vec::new(), ended: Vec::new(), count: 0, rate, place }
    }

    /// One more worker. A busy machine may stop a sender or the balancer for a second between the packets of an event, or
    /// before a duplicate: workers wait for it, and remember, longer than that, so that they need not begin an event again.
    /// Every third takes its time over each event: its share must shrink.
    pub(super) fn join(&mut self, random: &mut Random) {
        if self.staying().count() >= MOST {
            return;
        }
        let n = self.count;
        self.count += 1;
        let name = format!("w{n}");
        let list = self.place.path(&name);
        let work = match n % 3 {
            1 => format!("--work {}us", 5_000_000 / self.rate),
            _ => String::new(),
        };
        let mut job = Job::start(&words(&format!(
            "receive --format ejfat --json --verify --join --name {name} --weight {} --memory 128MiB --heap-window 4096 --heap-timeout 30s --remember 60s \
             --list {} --balancer {} {work} {ANY}",
            1 + random.below(3),
            list.display(),
            self.running.uri,
        )));
        let session = wait_for("a worker to join", || {
            let said = job.stderr();
            assert!(job.is_running(), "{name} ended: {said}");
            let (_, rest) = said.split_once(" as session ")?;
            Some(rest.split_once(':')?.0.to_owned())
        });
        eprintln!("{name} joined {work}");
        let port = crate::site::port(&job.address());
        let worker = Worker { name, port, list, report: None };
        self.members.push(Member { job, worker, session, leaves: false });
    }

    fn staying(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(|at| !self.members[*at].leaves)
    }

    /// A worker that may go, if enough stay.
    fn one(&self, random: &mut Random) -> Option<usize> {
        let staying: Vec<usize> = self.staying().collect();
        (staying.len() > FEWEST).then(|| staying[random.below(staying.len())])
    }

    /// One leaves as Slurm ends it.
    pub(super) fn leave(&mut self, random: &mut Random) {
        if let Some(at) = self.one(random) {
            let member = &mut self.members[at];
            eprintln!("{} leaves", member.worker.name);
            member.leaves = true;
            member.job.signal(Signal::TERM);
        }
    }

    /// One dies.
    pub(super) fn kill(&mut self, random: &mut Random) {
        if let Some(at) = self.one(random) {
            let Member { job, worker, .. } = self.members.swap_remove(at);
            eprintln!("{} is killed", worker.name);
            job.signal(Signal::KILL);
            assert_eq!(job.finish().code, None, "killed");
            self.ended.push(worker);
        }
    }

    /// One leaves while another joins.
    pub(super) fn join_and_leave(&mut self, random: &mut Random) {
        self.leave(random);
        self.join(random);
    }

    /// One asks for more or less, once: its own signal follows its speed, and takes that back.
    pub(super) fn weigh(&mut self, random: &mut Random) {
        let staying: Vec<usize> = self.staying().collect();
        let member = &self.members[staying[random.below(staying.len())]];
        let signal = [-600, 1500][random.below(2)];
        eprintln!("{} changes its weight by {signal} thousandths", member.worker.name);
        let state = json!({ "isReady": true, "fillPercent": 0.1, "controlSignal": signal });
        let path = format!("/sessions/{}/state", member.session);
        let (status, said) = self.running.ask("POST", &path, &self.running.token, &state);
        assert_eq!(status, 200, "{said}");
    }

    /// One gets slots of its own, beside its share or instead of it.
    pub(super) fn demand(&mut self, random: &mut Random) {
        let staying: Vec<usize> = self.staying().collect();
        let member = &self.members[staying[random.below(staying.len())]];
        let (first, length) = (random.below(300), 1 + random.below(200));
        eprintln!("{} demands {length} slots from {first} on", member.worker.name);
        let wanted =
            json!([{ "sessionId": member.session, "slots": [{ "index": first, "length": length }] }]);
        let wanted = json!({ "slotConstraints": wanted });
        let (status, said) = self.running.ask("POST", "/lb/1/slots", &self.running.token, &wanted);
        assert_eq!(status, 200, "{said}");
    }

    /// Every worker that was started has a share, and all threads know it.
    pub(super) fn shared(&self) {
        wait_for("workers to have slots", || {
            let (_, said) = self.running.ask("GET", "/lb/1/status", &self.running.token, &json!({}));
            let has = |worker: &Value| worker["slotsAssigned"].as_u64().is_some_and(|slots| slots > 0);
            let sharing = said["workers"].as_array().is_some_and(|all| all.iter().any(has));
            sharing.then_some(())
        });
    }

    /// Take in those that have left.
    pub(super) fn look(&mut self) {
        while let Some(at) = self.members.iter_mut().position(|member| !member.job.is_running()) {
            let Member { job, mut worker, leaves, .. } = self.members.swap_remove(at);
            let done = job.finish();
            assert!(leaves, "{} ended by itself: {}", worker.name, done.stderr);
            worker.report = Some(done.json());
            self.ended.push(worker);
        }
    }

    /// All leave, and the balancer ends.
    pub(super) fn end(mut self) -> (Vec<Worker>, Value, Place) {
        for member in self.members.iter_mut().filter(|member| !member.leaves) {
            member.leaves = true;
            member.job.signal(Signal::TERM);
        }
        wait_for("workers to leave", || {
            self.look();
            self.members.is_empty().then_some(())
        });
        let balance = self.running.stop();
        // Their lists lie in its directory.
        (self.ended, balance, self.place)
    }
}
