//! Parts that pages share: plots, ways of points, tables.

use crate::report::chart::{Chart, WIDTH};
use crate::report::page::Page;
use crate::report::table::Table;
use crate::report::words::number;
use skyhaul_measure::probe::udp::{
    CauseReport, EndReport, LayerAccount, TestDirection, UdpDirectionReport, UdpPointReport,
};

/// A plot: the name of its file, its title, what is said of it, and itself.
pub(super) struct Plot {
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    pub(super) caption: &'static str,
    pub(super) chart: Chart,
}

impl Plot {
    pub(super) fn new(file: &'static str, title: &'static str, caption: &'static str, chart: Chart) -> Self {
        Self { file, title, caption, chart }
    }
}

/// Add a section for each plot.
pub(super) fn show(page: &mut Page, plots: &[Plot]) {
    for plot in plots {
        page.section(plot.title, plot.caption, &plot.chart.inline(WIDTH));
    }
}

/// A way of a point, with the ends that sent and received it.
pub(super) struct One<'a> {
    pub(super) report: &'a UdpPointReport,
    pub(super) way: &'a UdpDirectionReport,
    pub(super) reverse: bool,
    pub(super) sender: &'a EndReport,
    pub(super) receiver: &'a EndReport,
}

/// What the table of the identity is.
pub(super) const IDENTITY: &str = "What both hosts counted on the way, all points together. Counters are those of the whole host; what no \
                        counter explains is the network's, or unknown.";

/// Steps of the way as a table.
pub(super) fn identity(stages: &[LayerAccount]) -> String {
    let counted = |n: Option<u64>| n.map_or("not counted".to_owned(), number);
    let mut table = Table::new(&["from, to", "#came in", "#went out", "#lost", "counters"]);
    for stage in stages {
        let cells = [
            stage.layer.to_string(),
            counted(stage.before),
            counted(stage.behind),
            number(stage.lost),
            stage.evidence.clone(),
        ];
        table.add(&cells, "", if stage.lost > 0 { "✘ lost" } else { "" });
    }
    table.html()
}

/// A cause as cells of a table: its name, what it is, confidence, evidence, what to type next.
pub(super) fn cause(named: &CauseReport) -> [String; 5] {
    [
        named.cause.to_string(),
        named.title.clone(),
        format!("{:.2}", named.confidence),
        named.evidence.join("; "),
        named.next.join("; "),
    ]
}

/// Jitter of RFC 3550 in µs, by the kernel's stamps where there are any.
pub(super) fn jitter(one: &One<'_>) -> Option<f64> {
    let received = one.receiver.received.first()?;
    Some(received.kernel.as_ref().unwrap_or(&received.user).jitter_ns / 1e3)
}

/// Whether the data of a point go to the server only.
pub(super) fn one_way(all: &[One<'_>]) -> bool {
    all.iter().all(|one| one.report.direction != TestDirection::Both)
}
