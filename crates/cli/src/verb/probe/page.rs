//! `--report DIR`: what was measured as one page with plots, the plots as files, and everything as JSON.

mod diagnosis;
mod parts;
mod sweep;
mod tcp;

use super::super::output::{create, write};
use super::report::{CommandReport, TcpCommandReport};
use crate::print::rate;
use crate::report::page::{Page, Tile};
use crate::report::table::Table;
use crate::report::words::{json, number};
use anyhow::Result;
use parts::{IDENTITY, One, Plot, identity, jitter, show};
use serde::Serialize;
use skyhaul_measure::probe::udp::{LayerAccount, UdpDirectionReport, UdpPointReport};
use std::path::Path;

/// Write page, plots and JSON.
fn finish(
    directory: &Path,
    mut page: Page,
    plots: &[Plot],
    command: &str,
    told: &impl Serialize,
    short: &impl Serialize,
) -> Result<()> {
    create(directory)?;
    page.source(command, &json(short));
    write(directory, "index.html", &page.finish())?;
    write(directory, "report.json", &json(told))?;
    for plot in plots {
        write(directory, plot.file, &plot.chart.file())?;
    }
    say!("wrote index.html, report.json and {} plots to {}", plots.len(), directory.display());
    Ok(())
}

/// All ways of all points.
fn ways(points: &[UdpPointReport]) -> Vec<One<'_>> {
    let mut all = Vec::with_capacity(points.len());
    for report in points {
        let UdpPointReport { forward, reverse, client, server, .. } = report;
        let there =
            forward.iter().map(|way| One { report, way, reverse: false, sender: client, receiver: server });
        all.extend(there);
        let back =
            reverse.iter().map(|way| One { report, way, reverse: true, sender: server, receiver: client });
        all.extend(back);
    }
    all
}

/// What stands in the page itself: no single packets and no counters.
#[derive(Serialize)]
struct Short<'a> {
    version: u32,
    server: &'a str,
    ways: Vec<(&'a skyhaul_measure::probe::udp::UdpPoint, bool, &'a UdpDirectionReport)>,
    diagnosis: &'a Option<skyhaul_measure::probe::udp::UdpDiagnosis>,
}

/// The page of datagrams.
pub(super) fn udp(directory: &Path, told: &CommandReport) -> Result<()> {
    let all = ways(&told.points);
    let mut page = Page::new("Skyhaul probe", "SKYHAUL PROBE");
    headline(&mut page, told, &all);
    let mut plots = Vec::new();
    if let Some(found) = &told.diagnosis {
        plots = diagnosis::plots(found, &all);
        diagnosis::show_diagnosis(&mut page, found, &plots);
    } else {
        plots.extend(sweep::plots(&all));
        show(&mut page, &plots);
        let stages = sum(all.iter().map(|one| one.way.account.as_slice()));
        page.section("Where packets were lost", IDENTITY, &identity(&stages));
    }
    page.section("Points", "A line for each point and way.", &table(&all));
    let short = Short {
        version: told.version,
        server: &told.server,
        ways: all.iter().map(|one| (&one.report.point, one.reverse, one.way)).collect(),
        diagnosis: &told.diagnosis,
    };
    finish(directory, page, &plots, &told.command, told, &short)
}

fn headline(page: &mut Page, told: &CommandReport, all: &[One<'_>]) {
    let total = |of: fn(&UdpDirectionReport) -> u64| all.iter().map(|one| of(one.way)).sum::<u64>();
    let (sent, lost) = (total(|way| way.sent), total(|way| way.lost));
    let best = all.iter().map(|one| one.way.user_bits_per_second).fold(0.0, f64::max);
    let verdict = match &told.diagnosis {
        Some(found) => match found.causes.first() {
            Some(first) => (false, first.title.clone()),
            None if found.identity.unknown.is_some() || found.unexplained > 0 => {
                (false, "cause unknown".to_owned())
            }
            None if found.cut_short.is_some() => (false, "the campaign ended early".to_owned()),
            None => (true, "nothing wrong was found".to_owned()),
        },
        None if lost == 0 => (true, "nothing lost".to_owned()),
        None => (false, format!("{} packets lost", number(lost))),
    };
    let path = format!("to {}; {} points", told.server, told.points.len());
    let hosts = format!("here: {}; there: {}", told.here.machine, told.there.machine);
    page.headline(&format!("{},", rate(best)), Some((verdict.0, &verdict.1)), &[&path, &hosts]);
    let trip = told.round_trip_seconds.map_or("unknown".to_owned(), |s| format!("{:.3} ms", s * 1e3));
    let clock = told.clock.map_or(String::new(), |clock| {
        format!("clocks compared to {:.1} µs, drift {:.2} ppm", clock.error_ns as f64 / 1e3, clock.drift_ppm)
    });
    page.tiles(&[
        Tile::new("most received", rate(best), "of payload"),
        Tile::new("sent", number(sent), "packets"),
        Tile::new("lost", number(lost), format!("{:.4} %", lost as f64 / sent.max(1) as f64 * 100.0)),
        Tile::new("round trip", trip, clock),
    ]);
}

/// The page of connections.
pub(super) fn tcp(directory: &Path, told: &TcpCommandReport) -> Result<()> {
    let plots = tcp::plots(told);
    let page = tcp::page(told, &plots);
    finish(directory, page, &plots, &told.command, told, &tcp::short(told))
}

/// Steps of several ways added, in the order of the way.
fn sum<'a>(accounts: impl Iterator<Item = &'a [LayerAccount]>) -> Vec<LayerAccount> {
    let mut all: Vec<LayerAccount> = Vec::new();
    for stage in accounts.flatten() {
        let more = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        match all.iter_mut().find(|known| known.layer == stage.layer) {
            Some(known) => {
                known.before = more(known.before, stage.before);
                known.behind = more(known.behind, stage.behind);
                known.lost += stage.lost;
            }
            None => all.push(LayerAccount { evidence: String::new(), ..stage.clone() }),
        }
    }
    all
}

fn table(all: &[One<'_>]) -> String {
    let headings = [
        "way",
        "#bytes",
        "#spacing, µs",
        "#achieved, µs",
        "#sent",
        "#lost",
        "#loss, %",
        "#received",
        "#jitter, µs",
        "#reordered",
        "#duplicate",
    ];
    let mut table = Table::new(&headings);
    for one in all {
        let micros = |ns: f64| format!("{:.3}", ns / 1e3);
        let cells = [
            if one.reverse { "from the server" } else { "to the server" }.to_owned(),
            one.report.point.size.to_string(),
            micros(one.report.point.spacing_ps as f64 / 1e3),
            one.sender.sent.first().map_or(String::new(), |sent| micros(sent.gaps_ns.mean)),
            number(one.way.sent),
            number(one.way.lost),
            format!("{:.4}", one.way.loss_fraction * 100.0),
            rate(one.way.user_bits_per_second),
            jitter(one).map_or(String::new(), |us| format!("{us:.3}")),
            number(one.way.reordered),
            number(one.way.duplicates),
        ];
        table.add(&cells, "", "");
    }
    table.html()
}
