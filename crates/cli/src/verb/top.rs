//! `skyhaul top`: a station in a terminal, once a second, from its HTTP API.

mod cells;
mod copies;
mod screen;

use super::status::client;
use crate::args::TopArgs;
use crate::outcome::{Interrupt, Outcome};
use crate::print;
use anyhow::{Result, bail};
use screen::TopView;
use serde_json::{Value, json};
use skyhaul::core::hint::Hint;
use skyhaul::io::terminal::TerminalScreen;
use skyhaul_daemon::station::client::{StationCallError, StationClient};
use std::time::{Duration, Instant};

/// How long a reply may take; then the station counts as not connected.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the station is asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often keys, signals and the size of the terminal are looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &TopArgs) -> Result<Outcome> {
    let station = client(&args.at, REPLY_TIMEOUT)?;
    let (status, figures) = read(&station)?;
    if args.at.json {
        print::json(&json!({ "status": status, "figures": figures }))?;
        return Ok(Outcome::Done);
    }
    let mut view = TopView::new(args.at.station.clone(), status, figures);
    if args.once {
        let lines = view.lines(usize::MAX, usize::MAX);
        let text = |line: Vec<(_, String)>| line.into_iter().map(|(_, text)| text).collect::<String>();
        let page: String = lines.into_iter().map(|line| text(line).trim_end().to_owned() + "\n").collect();
        print::page(&page)?;
        return Ok(Outcome::Done);
    }
    let interrupt = Interrupt::listen()?;
    let Some(screen) = TerminalScreen::open()? else {
        bail!("standard input or output is no terminal{}", Hint("--once prints the figures, --json as JSON"));
    };
    let mut asked = Instant::now();
    let mut size = screen.size();
    draw(&screen, &view)?;
    while !interrupt.is_set() {
        if matches!(screen.key(POLL_INTERVAL)?, Some(b'q' | b'Q')) {
            break;
        }
        let is_due = asked.elapsed() >= INTERVAL;
        if is_due {
            asked = Instant::now();
            match read(&station) {
                Ok((status, figures)) => view.take(status, figures),
                Err(error) => view.lose(&error.to_string()),
            }
        }
        let now = screen.size();
        if is_due || now != size {
            size = now;
            draw(&screen, &view)?;
        }
    }
    Ok(Outcome::Done)
}

fn read(station: &StationClient) -> Result<(Value, Value), StationCallError> {
    Ok((station.get("/api/v1/status")?, station.get("/api/v1/figures")?))
}

fn draw(screen: &TerminalScreen, view: &TopView) -> Result<()> {
    let (columns, rows) = screen.size();
    Ok(screen.draw(&view.lines(columns, rows))?)
}
