//! The processes, and what happens to them.

use crate::balance::{Place, Running};
use crate::site::{ANY, Job, wait_for, words};
use rustix::process::Signal;
use serde_json::{Value, json};
use skyhaul::core::packetize::Divided;
use skyhaul::core::wire::ejfat::{Addressing, EventPackets, EventShape};
use skyhaul::io::fault::FaultPlan;
use std::path::PathBuf;

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

    /// Each event, from tick 1 on, and the packets lost and doubled in all: the faults follow from their seed.
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
