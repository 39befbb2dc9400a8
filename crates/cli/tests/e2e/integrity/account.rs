//! What became of every event and of every packet, from the reports and lists of all processes.
//!
//! The faults follow from a seed, so how many packets of each event went out is known. The balancer counts what it sent to
//! each worker; what a worker counted must be that, and what its list has must make up that count. A worker that was killed
//! has no report, and what was in its socket and memory is lost: of these events there is the balancer's count alone, and
//! whether their payloads were right nobody knows.

use super::cast::{SentEvent, Source, Worker};
use crate::site::{counter, drops, number};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

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
    /// Packets that it sent to nobody, by reason.
    refused: BTreeMap<String, u64>,
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
        let (events, lost, doubled) = source.events();
        assert_eq!((number(&sent["lost"]), number(&sent["duplicated"])), (lost, doubled), "{sent}");
        let packets: u64 = events.iter().map(|event| event.packets).sum();
        assert_eq!(packets, number(&sent["packets"]), "what goes out is made, less lost, and doubled");
        assert_eq!(number(&sent["refused"]), 0, "{sent}");
        self.sent += events.len() as u64;
        self.packets.0 += packets;
        (source.id, events)
    }

    fn balancer(&mut self, told: &Told<'_>) {
        let report = &told.balance["reservations"][0];
        self.packets.1 = number(&report["packets"]);
        self.packets.2 = drops(report);
        self.epochs = number(&report["epochs"]);
        for kind in ["refused", "unsent"] {
            let counts = report[kind].as_object().unwrap().iter();
            self.refused.extend(counts.map(|(why, n)| (why.clone(), number(n))));
        }
        let routed: u64 = report["workers"].as_array().unwrap().iter().map(|w| number(&w["packets"])).sum();
        let refused: u64 = report["refused"].as_object().unwrap().values().map(number).sum();
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
        self.packets.2
            + self.refused.values().sum::<u64>()
            + received.map(|(_, dropped)| dropped).sum::<u64>()
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
        // Of these the lists are not whole: what they miss went to them, by the balancer's count.
        let (mut balanced, mut listed) = (0, 0);
        for (name, worker) in &self.workers {
            match worker.received {
                Some((packets, dropped)) => {
                    let unsent = self.refused.values().sum::<u64>();
                    let arrived = packets + dropped;
                    assert!(
                        arrived <= worker.balanced && worker.balanced <= arrived + unsent,
                        "{name}: {} packets were sent to it, {arrived} came",
                        worker.balanced
                    );
                    if worker.ring_full == 0 {
                        let missing = worker.listed.abs_diff(worker.balanced);
                        assert!(
                            missing <= stray,
                            "{name}: its events make up all but {missing} of its packets"
                        );
                        continue;
                    }
                }
                None => assert!(
                    worker.listed <= worker.balanced + stray,
                    "{name}: it listed what it was not sent"
                ),
            }
            balanced += worker.balanced;
            listed += worker.listed;
        }
        let open = balanced.abs_diff(listed + self.unseen_packets);
        assert!(open <= stray, "{open} packets of events that nobody listed are not those of killed workers");
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
        write!(f, "  {} calendars, sent to nobody {:?}", self.epochs, self.refused)
    }
}
