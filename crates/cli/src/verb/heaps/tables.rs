//! The memo's tables, in Markdown.

use super::limited;
use super::plots::Plot;
use crate::interrupt::INTERRUPTED;
use crate::print;
use skyhaul_measure::bench::Spread;
use skyhaul_measure::bench::heaps::{Cell, MemoReport, Setting, Way};
use std::fmt::Write as _;

/// The whole report as one page.
pub(super) fn page(report: &MemoReport, command: &str, plots: &[Plot]) -> String {
    let mut out = format!("# SPEAD on this machine\n\n`{command}`\n\n{}\n\n", report.machine);
    let _ = writeln!(
        out,
        "Received on {}. Heaps of {}, runs of {:.1} s, {} rounds; medians (minimum to maximum). Load average {:.1} before, \
         {:.1} after.\n",
        report.interfaces.join(", "),
        print::bytes(report.heap_bytes as u64),
        report.seconds,
        report.rounds,
        report.others.0,
        report.others.1
    );
    if report.interrupted {
        let _ = writeln!(out, "**{INTERRUPTED}.**\n");
    }
    if !report.link.is_empty() {
        out.push_str("## Limit of the link (memo, table 1)\n\n| transport | Gb/s |\n|---|---|\n");
        for cell in &report.link {
            let _ = writeln!(out, "| {} | {} |", cell.way.name(), speed(cell.figures.sent));
        }
        out.push('\n');
    }
    if !report.light.is_empty() {
        out.push_str("## Senders with a light receiver (table 2)\n\n");
        table(&mut out, &report.light, false);
    }
    if !report.receiver.is_empty() {
        out.push_str("## Senders with receivers (tables 3 and 4)\n\nGb/s; below, heaps lost.\n\n");
        table(&mut out, &report.receiver, true);
    }
    points(&mut out, report);
    limited::table(&mut out, &report.limited);
    for (name, _) in plots {
        let _ = writeln!(out, "![{}]({name})\n", name.trim_end_matches(".svg"));
    }
    out
}

fn table(out: &mut String, cells: &[Cell], losses: bool) {
    let names = Setting::ALL.map(Setting::name).join(" | ");
    let _ = writeln!(out, "| | {names} |\n|---|---|---|---|---|");
    for way in [Way::Udp, Way::Tcp, Way::TcpHeaps] {
        let row: Vec<&Cell> = Setting::ALL
            .iter()
            .filter_map(|&s| cells.iter().find(|c| c.way == way && c.setting == s))
            .collect();
        if row.is_empty() {
            continue;
        }
        let told: Vec<String> = row.iter().map(|c| speed(c.figures.sent)).collect();
        let _ = writeln!(out, "| {} | {} |", way.name(), told.join(" | "));
        if losses {
            let told: Vec<String> = row.iter().map(|c| percent(c.figures.lost)).collect();
            let _ = writeln!(out, "| heaps lost | {} |", told.join(" | "));
        }
        let cpu = |c: &&Cell| {
            format!("{:.3} + {:.3} s/GB", c.figures.send_cpu.median, c.figures.receive_cpu.median)
        };
        let told: Vec<String> = row.iter().map(cpu).collect();
        let _ = writeln!(out, "| CPU, sending + receiving | {} |", told.join(" | "));
    }
    out.push('\n');
}

fn points(out: &mut String, report: &MemoReport) {
    if !report.pairs.is_empty() {
        out.push_str("## Pairs at rising rates (figures 2, 3 and 6)\n\n");
        out.push_str(
            "| pairs | rate of each | sent, Gb/s | heaps lost | effective, Gb/s |\n|---|---|---|---|---|\n",
        );
        for p in report.pairs.iter().chain(&report.pairs_tcp) {
            let asked = if p.rate == 0 { "TCP, unlimited".to_owned() } else { print::rate(p.rate as f64) };
            let f = &p.figures;
            let _ = writeln!(
                out,
                "| {} | {asked} | {} | {} | {} |",
                p.pairs,
                speed(f.sent),
                percent(f.lost),
                speed(f.effective)
            );
        }
        out.push('\n');
    }
    if !report.scaling.is_empty() {
        out.push_str("## Scaling (figures 4 and 5)\n\n");
        out.push_str("| senders | rate of each | sent, Gb/s | shortfall from the target | heaps lost |\n|---|---|---|---|---|\n");
        for p in &report.scaling {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {:.1} % | {} |",
                p.pairs,
                print::rate(p.rate as f64),
                speed(p.figures.sent),
                p.scaling_loss() * 100.0,
                percent(p.figures.lost)
            );
        }
        out.push('\n');
    }
}

fn speed(of: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", of.median / 1e9, of.min / 1e9, of.max / 1e9)
}

fn percent(of: Spread) -> String {
    format!("{:.2} % ({:.2}-{:.2})", of.median * 100.0, of.min * 100.0, of.max * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_measure::bench::heaps::Figures;

    #[test]
    fn a_table_has_a_row_for_each_way_that_was_measured() {
        let cell = |way, setting| Cell { way, setting, packet: 1472, figures: Figures::default() };
        let receiver =
            Setting::ALL.into_iter().flat_map(|s| [cell(Way::Udp, s), cell(Way::TcpHeaps, s)]).collect();
        let report = MemoReport { receiver, ..MemoReport::default() };
        let page = page(&report, "skyhaul bench", &[("pairs.svg", String::new())]);
        assert!(
            page.contains("| UDP | 0.00 (0.00-0.00) |") && page.contains("| TCP, whole heaps |"),
            "{page}"
        );
        assert!(!page.contains("| TCP |") && page.contains("![pairs](pairs.svg)"), "{page}");
    }
}
