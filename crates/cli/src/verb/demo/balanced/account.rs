//! Who takes part in the demo, at which ports, and what became of every event that was sent.

use crate::print;
use anyhow::{Context, Result};
use serde::Serialize;
use skyhaul::io::file::failed;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;

/// A worker's part.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Part {
    /// Events that it received whole.
    pub(super) whole: u64,
    /// Events that it received in part.
    pub(super) incomplete: u64,
    /// Packets that the balancer sent it.
    pub(super) packets: u64,
}

/// What became of the events.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Account {
    /// Events that were sent.
    pub(super) sent: u64,
    /// Those that one worker received whole, and no other in part.
    pub(super) whole: u64,
    /// Those of which two workers received something.
    pub(super) split: u64,
    /// Those that a worker which lived received in part.
    pub(super) incomplete: u64,
    /// Those of which nothing is known but that their packets went to the worker that was killed.
    pub(super) with_the_killed: u64,
    /// Those of which nothing is known.
    pub(super) unexplained: u64,
    /// Payloads that were not what was sent.
    pub(super) wrong: u64,
    /// Packets that came to the balancer, and those that it sent to nobody.
    pub(super) balanced: (u64, u64),
    pub(super) parts: Vec<Part>,
}

/// The lists and reports of all processes.
pub(super) struct CommandReport<'a> {
    pub(super) send: &'a serde_json::Value,
    pub(super) balance: &'a serde_json::Value,
    pub(super) workers: &'a [Option<serde_json::Value>],
    pub(super) lists: Vec<Vec<Line>>,
}

/// An event in a worker's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    tick: u64,
    missing: u64,
}

/// A worker's list. Its last line may be cut off.
pub(super) fn read(path: &Path) -> Result<Vec<Line>> {
    let text = std::fs::read_to_string(path).map_err(|error| failed("read", path, &error))?;
    Ok(lines(&text))
}

fn lines(text: &str) -> Vec<Line> {
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let line = |line: &str| {
        let fields: Vec<u64> = line.split(',').map_while(|field| field.parse().ok()).collect();
        let [tick, _, _, missing] = fields[..] else { return None };
        Some(Line { tick, missing })
    };
    whole.lines().skip(1).filter_map(line).collect()
}

impl Account {
    pub(super) fn of(told: &CommandReport<'_>, ports: &Ports, killed: usize) -> Result<Account> {
        let sent = told.send["events"].as_u64().context("the sender's report has no events")?;
        let first = told.send["ticks"][0].as_u64().unwrap_or(1);
        let reservation = &told.balance["reservations"][0];
        let n = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
        let refused = reservation["refused"].as_object().into_iter().flatten().map(|(_, count)| n(count));
        let unsent = reservation["unsent"].as_object().into_iter().flatten().map(|(_, count)| n(count));
        let wrong =
            |report: &Option<serde_json::Value>| report.as_ref().map_or(0, |r| n(&r["pattern_errors"]));
        let mut account = Account {
            sent,
            wrong: told.workers.iter().map(wrong).sum(),
            balanced: (n(&reservation["packets"]), refused.chain(unsent).sum()),
            parts: vec![Part::default(); told.lists.len()],
            ..Account::default()
        };
        for worker in reservation["workers"].as_array().into_iter().flatten() {
            let address = worker["address"].as_str().unwrap_or_default();
            let at = ports.workers.iter().position(|port| address.ends_with(&format!(":{port}")));
            at.into_iter().for_each(|at| account.parts[at].packets += n(&worker["packets"]));
        }
        // Who received something of each tick, and whether that was all.
        let mut known: BTreeMap<u64, Vec<(usize, bool)>> = BTreeMap::new();
        for (at, list) in told.lists.iter().enumerate() {
            for line in list {
                known.entry(line.tick).or_default().push((at, line.missing == 0));
                let part = &mut account.parts[at];
                *(if line.missing == 0 { &mut part.whole } else { &mut part.incomplete }) += 1;
            }
        }
        let mut unknown = 0;
        for tick in first..first + sent {
            match known.get(&tick).map(Vec::as_slice) {
                Some([(_, true)]) => account.whole += 1,
                Some([(at, false)]) if *at == killed => unknown += 1,
                Some([(_, false)]) => account.incomplete += 1,
                Some(_) => account.split += 1,
                None => unknown += 1,
            }
        }
        account.explain(unknown, killed);
        Ok(account)
    }

    /// Packets say where unknown events went: each worker that lived has as many as its events have, and the rest went to
    /// the one that was killed.
    fn explain(&mut self, unknown: u64, killed: usize) {
        let packets: u64 = self.parts.iter().map(|part| part.packets).sum();
        let per_event = self.balanced.0.checked_div(self.sent).unwrap_or(0);
        let all_went = self.balanced.1 == 0 && packets == self.balanced.0 && per_event * self.sent == packets;
        let lost = (self.parts[killed].packets.checked_div(per_event).unwrap_or(0))
            .saturating_sub(self.parts[killed].whole);
        let lived = |(at, part): (usize, &Part)| {
            at == killed || part.packets == per_event * (part.whole + part.incomplete) || part.incomplete > 0
        };
        let explained = all_went && self.parts.iter().enumerate().all(lived);
        self.with_the_killed = if explained { unknown.min(lost) } else { 0 };
        self.unexplained = unknown - self.with_the_killed;
    }

    /// Whether every event is accounted for.
    pub(super) fn holds(&self) -> bool {
        self.sent > 0 && self.split == 0 && self.unexplained == 0 && self.incomplete == 0 && self.wrong == 0
    }

    /// What became of events, by how many.
    pub(super) fn rows(&self) -> [(&'static str, u64); 6] {
        [
            ("received whole, by one worker", self.whole),
            ("lost with the worker that was killed", self.with_the_killed),
            ("split over two workers", self.split),
            ("received in part by a worker that lived", self.incomplete),
            ("with a wrong payload", self.wrong),
            ("not explained", self.unexplained),
        ]
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held =
            if self.holds() { "every event is accounted for" } else { "NOT every event is accounted for" };
        writeln!(f, "{} sent through a balancer: {held}", print::counted(self.sent, "event"))?;
        for (what, count) in self.rows() {
            writeln!(f, "  {:>10} {what}", print::count(count))?;
        }
        for (n, part) in self.parts.iter().enumerate() {
            let (whole, packets) =
                (print::counted(part.whole, "event"), print::counted(part.packets, "packet"));
            writeln!(f, "  {}: {whole} whole, {packets} sent to it", name(n))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

/// Number of workers.
pub(super) const WORKERS: usize = 4;
/// The one that is killed, and the one that is slow, from 0.
pub(super) const KILLED: usize = 1;
pub(super) const SLOW: usize = 2;

/// What a worker is called.
pub(super) fn name(n: usize) -> String {
    let how = match n {
        KILLED => ", killed",
        SLOW => ", slow",
        _ => "",
    };
    format!("worker {}{how}", n + 1)
}

/// Ports of 127.0.0.1 that nobody has.
pub(super) struct Ports {
    pub(super) api: u16,
    pub(super) data: u16,
    pub(super) sync: u16,
    pub(super) workers: Vec<u16>,
}

/// Data ports; every balancer accepts packets at each.
const DATA: std::ops::Range<u16> = 19522..20522;

impl Ports {
    pub(super) fn find(workers: usize) -> Result<Ports> {
        let udp = |port| UdpSocket::bind(("127.0.0.1", port));
        // All are held until all are found.
        let api = TcpListener::bind(("127.0.0.1", 0)).context("find a port")?;
        let data = DATA.clone().find_map(|port| udp(port).ok()).context("find a port for packets")?;
        let others = (0..=workers).map(|_| udp(0)).collect::<Result<Vec<_>, _>>().context("find a port")?;
        let mut ports = others.iter().map(|at| Ok(at.local_addr()?.port())).collect::<Result<Vec<_>>>()?;
        let sync = ports.pop().context("find a port")?;
        Ok(Ports { api: api.local_addr()?.port(), data: data.local_addr()?.port(), sync, workers: ports })
    }
}
