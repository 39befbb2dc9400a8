//! `skyhaul top`: a station in a terminal, once a second, from its HTTP API; or a fleet, from its store.

mod cells;
mod copies;
mod fleet;
mod reply;
mod screen;

use super::fleet::{Fleet, FleetSnapshot, failed_if_away, status_json};
use super::receiving::now;
use super::status::client;
use crate::args::{AtFleetArgs, TopArgs};
use crate::outcome::{Interrupt, Outcome};
use crate::print;
use anyhow::{Result, bail};
use fleet::{FleetReply, FleetView};
use reply::ReplyScreen;
use screen::{StationReply, TopView};
use serde_json::json;
use skyhaul::core::hint::Hint;
use skyhaul::io::terminal::{StyledLine, TerminalScreen};
use skyhaul::time::format;
use skyhaul_daemon::station::client::{StationCallError, StationClient};
use std::fmt::Display;
use std::time::{Duration, Instant};

/// How long a reply may take; then the station counts as not connected.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the station is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often keys, signals and the size of the terminal are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How often a fleet's store is asked: recorders report every few seconds.
const FLEET_INTERVAL: Duration = Duration::from_secs(2);

/// The lines of a screen, of so many columns and rows.
type Lines<'a> = &'a dyn Fn(usize, usize) -> Vec<StyledLine>;

pub(crate) fn run(args: &TopArgs) -> Result<Outcome> {
    if args.fleet {
        return failed_if_away(fleet_top(args));
    }
    let station = client(&args.at, REPLY_TIMEOUT)?;
    let reply = read(&station)?;
    if args.at.json {
        print::json(&json!({ "status": reply.status, "figures": reply.figures }))?;
        return Ok(Outcome::Done);
    }
    show(TopView::new(args.at.station.clone(), reply), args.once, INTERVAL, &|| read(&station))
}

fn fleet_top(args: &TopArgs) -> Result<Outcome> {
    let fleet = Fleet::open(args.file.as_deref(), &AtFleetArgs::default())?;
    if args.at.json {
        print::json(&status_json(&fleet, &FleetSnapshot::whole(&fleet)?))?;
        return Ok(Outcome::Done);
    }
    let clock = || format(now()).get(11..19).unwrap_or_default().to_owned();
    let read = || FleetSnapshot::of_recorders(&fleet).map(|snapshot| FleetReply { snapshot, time: clock() });
    show(FleetView::new(fleet.name.clone(), read()?), args.once, FLEET_INTERVAL, &read)
}

/// Shows a screen: once, or with a reply at each interval.
fn show<V: ReplyScreen, E: Display>(
    mut view: V,
    is_once: bool,
    interval: Duration,
    read: &dyn Fn() -> Result<V::Reply, E>,
) -> Result<Outcome> {
    if is_once {
        return once(&|columns, rows| view.lines(columns, rows));
    }
    watch(interval, &mut |is_due, screen| {
        if is_due {
            match read() {
                Ok(reply) => view.last().take(reply),
                Err(error) => view.last().lose(&error.to_string()),
            }
        }
        draw(screen, &|columns, rows| view.lines(columns, rows))
    })
}

/// Prints all of it.
fn once(lines: Lines<'_>) -> Result<Outcome> {
    let text = |line: StyledLine| line.into_iter().map(|(_, text)| text).collect::<String>();
    let lines = lines(usize::MAX, usize::MAX).into_iter();
    let page: String = lines.map(|line| text(line).trim_end().to_owned() + "\n").collect();
    print::page(&page)?;
    Ok(Outcome::Done)
}

/// Draws at first, at each interval, when it is due, and when the terminal has another size, until q or a signal.
fn watch(interval: Duration, draw: &mut dyn FnMut(bool, &TerminalScreen) -> Result<()>) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let Some(screen) = TerminalScreen::open()? else {
        bail!("standard input or output is no terminal{}", Hint("--once prints the figures, --json as JSON"));
    };
    let mut asked = Instant::now();
    let mut size = screen.size();
    draw(false, &screen)?;
    while !interrupt.is_set() {
        if matches!(screen.key(POLL_INTERVAL)?, Some(b'q' | b'Q')) {
            break;
        }
        let is_due = asked.elapsed() >= interval;
        if is_due {
            asked = Instant::now();
        }
        let now = screen.size();
        if is_due || now != size {
            size = now;
            draw(is_due, &screen)?;
        }
    }
    Ok(Outcome::Done)
}

fn read(station: &StationClient) -> Result<StationReply, StationCallError> {
    Ok(StationReply { status: station.get("/api/v1/status")?, figures: station.get("/api/v1/figures")? })
}

fn draw(screen: &TerminalScreen, lines: Lines<'_>) -> Result<()> {
    let (columns, rows) = screen.size();
    Ok(screen.draw(&lines(columns, rows))?)
}
