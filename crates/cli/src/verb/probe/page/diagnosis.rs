//! The part of a page that says what is wrong, and shows why.

use super::parts::{self, IDENTITY, One, Plot, identity};
use crate::report::chart::Series;
use crate::report::chart::{Chart, Panel};
use crate::report::drawing::Scale;
use crate::report::page::Page;
use crate::report::table::Table;
use skyhaul_measure::probe::udp::UdpDiagnosis;

pub(super) fn show_diagnosis(page: &mut Page, found: &UdpDiagnosis, plots: &[Plot]) {
    let mut table = Table::new(&["cause", "what it is", "#confidence", "evidence", "type next"]);
    for named in &found.causes {
        table.add(&parts::cause(named), "", "");
    }
    let remark = found.remark();
    let unknown =
        remark.unwrap_or_else(|| "Confidence orders causes; it is no measured probability.".to_owned());
    page.section(
        "What is wrong",
        &unknown,
        &if found.causes.is_empty() { String::new() } else { table.html() },
    );
    parts::show(page, plots);
    let residual = match found.identity.residual {
        Some(residual) => format!(
            "{IDENTITY} Residual: {residual} packets that came to the receiver's interface, and that no drop and no reader explains."
        ),
        None => format!("{IDENTITY} The receiver's interface does not count, so there is no residual."),
    };
    page.section("Where packets went", &residual, &identity(&found.identity.stages));
}

/// The evidence: loss by what was offered, and the delay of single packets under the highest load.
pub(super) fn plots(found: &UdpDiagnosis, all: &[One<'_>]) -> Vec<Plot> {
    vec![loss(found, all), packets(all)]
}

fn loss(found: &UdpDiagnosis, all: &[One<'_>]) -> Plot {
    let kind = |one: &One<'_>| match one.report.point.burst {
        Some(burst) => format!("{} bytes, bursts of {}", one.report.point.size, burst.packets),
        None => format!("{} bytes", one.report.point.size),
    };
    let mut kinds: Vec<String> = all.iter().map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let line = |name: &String| {
        let of_it = all.iter().filter(|one| kind(one) == *name);
        Series::dots(
            name.clone(),
            of_it.map(|one| (one.way.sent_bits_per_second / 1e6, one.way.loss_fraction * 100.0)),
        )
    };
    let panel = Panel::new(260.0, Scale::linear("lost, %").at_least(1.0)).all(kinds.iter().map(line));
    let mut chart = Chart::new("Loss by offered rate").x(Scale::linear("sent, Mb/s of payload")).panel(panel);
    if let Some(limit) = &found.limit {
        let size = all.first().map_or(0.0, |one| f64::from(one.report.point.size));
        chart = chart.mark(limit.bits_per_second / 1e6 * size / (size + 42.0), "the limit that was found");
    }
    Plot::new("loss.svg", "Loss by offered rate", "Each point of the campaign: what loss depends on.", chart)
}

fn packets(all: &[One<'_>]) -> Plot {
    let received = all.first().and_then(|one| one.receiver.received.first());
    let (mut delays, mut losses) = (Vec::new(), Vec::new());
    if let Some(received) = received {
        let least = received.samples.iter().map(|sample| sample.2).min().unwrap_or(0);
        delays = received.samples.iter().map(|s| (s.0 as f64, (s.2 - least) as f64 / 1e3)).collect();
        losses =
            received.losses.iter().map(|&(from, to)| (from as f64, to as f64, (to - from) as f64)).collect();
    }
    let chart = Chart::new("Single packets under the highest load")
        .x(Scale::linear("number of the packet"))
        .panel(
            Panel::new(200.0, Scale::linear("delay over the least, µs").at_least(1.0))
                .series(Series::dots("arrived", delays)),
        )
        .panel(
            Panel::new(100.0, Scale::linear("lost in a row").at_least(1.0))
                .series(Series::bars("lost", losses).colour(5)),
        );
    Plot::new(
        "packets.svg",
        "Single packets under the highest load",
        "A queue delays packets before it loses any; a policer does not.",
        chart,
    )
}
