//! The page of the demo: the account, and the workers' shares and queues over time.

use super::account::Account;
use super::setup::{WORKERS, name};
use crate::print;
use crate::report::axis::Scale;
use crate::report::chart::{Chart, Panel, WIDTH};
use crate::report::page::Page;
use crate::report::series::Series;
use crate::report::table::Table;
use crate::report::words::json;
use serde::Serialize;

/// The page.
pub(super) fn page(demo: &BalanceDemo) -> String {
    let mut page = Page::new("Skyhaul demo: a load balancer", "SKYHAUL DEMO");
    let holds = demo.account.holds();
    let verdict = if holds { "every event is accounted for" } else { "not every event is accounted for" };
    page.headline(
        &format!("{} events,", print::count(demo.account.sent)),
        Some((holds, verdict)),
        &[
            &format!(
                "One sender of {}, a load balancer, four workers: one slow, one killed after {:.1} s.",
                print::rate(demo.rate as f64),
                demo.killed_at
            ),
            &demo.machine,
        ],
    );
    page.section(
        "Every event accounted for",
        "Workers list what they received; the balancer counts the packets that it sent to each.",
        &(events(demo) + &workers(demo)),
    );
    let share = |sample: &Sample, n: usize| f64::from(sample.slots[n]) / f64::from(demo.slots.max(1)) * 100.0;
    page.section(
        "Shares",
        "Each event goes to the worker that has its slot of the calendar. The slow worker loses slots, and the others take over \
         those of the one that was killed, 2 s after it was last heard.",
        &plot(demo, "share of the slots, %", &share),
    );
    let fill = |sample: &Sample, n: usize| f64::from(sample.fill[n]) * 100.0;
    page.section(
        "Queues",
        "What workers last reported. A worker that is behind is given less, before its queue is full.",
        &plot(demo, "queue, % full", &fill),
    );
    page.source(&demo.command, &json(demo));
    page.finish()
}

fn events(demo: &BalanceDemo) -> String {
    let rows = demo.account.rows();
    let table = Table::new(&["#events", ""]);
    rows.into_iter().fold(table, |table, (what, count)| table.row(&[&print::count(count), what])).html()
}

fn workers(demo: &BalanceDemo) -> String {
    let mut table = Table::new(&["worker", "#events whole", "#packets sent to it"]);
    for (n, part) in demo.account.parts.iter().enumerate() {
        table = table.row(&[name(n), print::count(part.whole), print::count(part.packets)]);
    }
    table.html()
}

/// A value of each worker over time.
fn plot(demo: &BalanceDemo, title: &str, value: &dyn Fn(&Sample, usize) -> f64) -> String {
    let line = |n: usize| Series::line(name(n), demo.samples.iter().map(move |s| (s.seconds, value(s, n))));
    let last = demo.samples.last().map_or(1.0, |sample| sample.seconds);
    Chart::new(title)
        .x(Scale::linear("seconds").to(last))
        .panel(Panel::new(210.0, Scale::linear(title).at_least(1.0)).all((0..WORKERS).map(line)))
        .mark(demo.killed_at, "killed")
        .inline(WIDTH)
}

/// Shares at one time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// Since the sender began.
    pub(super) seconds: f64,
    /// Slots of each worker, of all that there are.
    pub(super) slots: [u32; WORKERS],
    /// How full their queues are, 0 to 1.
    pub(super) fill: [f32; WORKERS],
}

/// What the demo showed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BalanceDemo {
    pub(super) version: u32,
    /// The command that produced it.
    pub(super) command: String,
    pub(super) machine: String,
    pub(super) rate: u64,
    pub(super) event_bytes: u64,
    /// When the worker was killed, in seconds since the sender began.
    pub(super) killed_at: f64,
    pub(super) slots: u32,
    pub(super) account: Account,
    pub(super) samples: Vec<Sample>,
    pub(super) send: serde_json::Value,
    pub(super) workers: Vec<Option<serde_json::Value>>,
    pub(super) balance: serde_json::Value,
    pub(super) interrupted: bool,
}
