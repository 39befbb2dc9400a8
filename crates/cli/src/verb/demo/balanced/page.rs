//! The page of the demo: the account, and the workers' shares and queues over time.

use super::cast::{WORKERS, name};
use super::report::{BalanceDemo, Sample};
use crate::html::svg::{Axis, Drawing, escape, short};
use crate::html::{begin, end, section, source};
use crate::print;
use std::fmt::Write as _;

const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 30.0;
const FLOOR: f64 = HEIGHT - 74.0;

/// The page.
pub(super) fn page(demo: &BalanceDemo) -> String {
    let mut out = begin("Skyhaul demo: a load balancer");
    out.push_str(&headline(demo));
    section(
        &mut out,
        "Every event accounted for",
        "Workers list what they received; the balancer counts the packets that it sent to each.",
        &(events(demo) + &workers(demo)),
    );
    let share = |sample: &Sample, n: usize| f64::from(sample.slots[n]) / f64::from(demo.slots.max(1)) * 100.0;
    section(
        &mut out,
        "Shares",
        "Each event goes to the worker that has its slot of the calendar. The slow worker loses slots, and the others take over \
         those of the one that was killed, 2 s after it was last heard.",
        &plot(demo, "share of the slots, %", &share),
    );
    let fill = |sample: &Sample, n: usize| f64::from(sample.fill[n]) * 100.0;
    section(
        &mut out,
        "Queues",
        "What workers last reported. A worker that is behind is given less, before its queue is full.",
        &plot(demo, "queue, % full", &fill),
    );
    let json = serde_json::to_string_pretty(demo).unwrap_or_default();
    out.push_str(&source(&demo.command, &json));
    end(out)
}

fn headline(demo: &BalanceDemo) -> String {
    let account = &demo.account;
    let (class, words) = match account.holds() {
        true => ("held", "every event is accounted for"),
        false => ("broken", "not every event is accounted for"),
    };
    format!(
        "<p class=\"brand\">SKYHAUL DEMO</p>\n<h1>{} events, <span class=\"{class}\">{words}</span></h1>\n\
         <p>One sender of {}, a load balancer, four workers: one slow, one killed after {:.1} s.<br>\
         <span class=\"soft\">{}</span></p>\n",
        print::count(account.sent),
        print::rate(demo.rate as f64),
        demo.killed_at,
        escape(&demo.machine),
    )
}

fn events(demo: &BalanceDemo) -> String {
    let mut out = String::from("<table><tr><th>events</th><th></th></tr>\n");
    for (what, count) in demo.account.rows() {
        let _ = writeln!(out, "<tr><td>{}</td><td>{what}</td></tr>", print::count(count));
    }
    out + "</table>\n"
}

fn workers(demo: &BalanceDemo) -> String {
    let mut out =
        String::from("<table><tr><th>worker</th><th>events whole</th><th>packets sent to it</th></tr>\n");
    for (n, part) in demo.account.parts.iter().enumerate() {
        let (whole, packets) = (print::count(part.whole), print::count(part.packets));
        let _ = writeln!(out, "<tr><td>{}</td><td>{whole}</td><td>{packets}</td></tr>", name(n));
    }
    out + "</table>\n"
}

/// A value of each worker over time.
fn plot(demo: &BalanceDemo, title: &str, value: &dyn Fn(&Sample, usize) -> f64) -> String {
    let mut drawing = Drawing::new(WIDTH, HEIGHT, title);
    let all = || demo.samples.iter().flat_map(|sample| (0..WORKERS).map(move |n| value(sample, n)));
    let most = all().fold(1.0, f64::max);
    let last = demo.samples.last().map_or(1.0, |sample| sample.seconds);
    let (x, y) = (Axis::linear(0.0, last, LEFT, RIGHT), Axis::linear(0.0, most * 1.05, FLOOR, TOP));
    drawing.y_axis(&y, (LEFT, RIGHT), title, &short);
    drawing.x_axis(&x, FLOOR, "seconds", &short);
    drawing.line((x.at(demo.killed_at), TOP), (x.at(demo.killed_at), FLOOR), "mean");
    for n in 0..WORKERS {
        let points: Vec<_> = demo.samples.iter().map(|s| (x.at(s.seconds), y.at(value(s, n)))).collect();
        drawing.path(&points, false, &format!("w{n}"));
        let left = LEFT + n as f64 * (RIGHT - LEFT) / WORKERS as f64;
        drawing.dot((left + 4.0, HEIGHT - 12.0), &format!("s{n}"));
        drawing.text((left + 13.0, HEIGHT - 8.0), "start", "", &name(n));
    }
    drawing.finish()
}
