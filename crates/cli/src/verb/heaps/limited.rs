//! `bench --experiments limited`: from arguments to what is measured, and the table of it.

use crate::args::{BenchArgs, Experiment};
use crate::print;
use anyhow::{Context, Result};
use skyhaul::io::host::sockets::largest_buffer;
use skyhaul::io::quantity::Size;
use skyhaul::stop::StopFlag;
use skyhaul_experiments::memo::limited::{LimitedOptions, LimitedRow, ReceiverCommand};
use skyhaul_measure::bench::Spread;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Bits per second at which CPU time is measured: less than half a processor receives.
const RATE: u64 = 4_000_000_000;
/// Bytes of socket buffer that candidates are told to ask for, where all of them get so much.
const BUFFER: u64 = 64 << 20;
/// The largest heap that `receive` takes unasked, bytes.
const LARGEST_HEAP: u64 = 256 << 20;

/// What is measured with a share of a processor, if that was asked for.
///
/// # Errors
/// A line of another program that cannot be meant.
pub(super) fn options(args: &BenchArgs, address: IpAddr, stop: &StopFlag) -> Result<Option<LimitedOptions>> {
    let limited = &args.heaps;
    if !limited.experiments.contains(&Experiment::Limited) {
        return Ok(None);
    }
    let share = match limited.receiver_cpu {
        Some(share) => share,
        None => "50%".parse()?,
    };
    let own = std::env::current_exe().context("where this command lies")?;
    let heap = limited.heap_size.bytes();
    let words = format!(
        "receive --format spead --listen udp://{{address}}:{{port}} --socket-buffer {{buffer}} --largest-heap {} \
         --json --quiet",
        heap.max(LARGEST_HEAP)
    );
    let mut candidates = vec![ReceiverCommand::own(&own, &words)?];
    for line in &limited.against {
        candidates.push(ReceiverCommand::parse(line)?);
    }
    let packets = if limited.packets.is_empty() { vec![1472, 8972] } else { limited.packets.clone() };
    Ok(Some(LimitedOptions {
        candidates,
        share,
        cpus: args.cpus,
        packets,
        heap_bytes: heap as usize,
        // Ours may take more by its privilege, which the others do not try: all are told what all get.
        buffer: BUFFER.min(largest_buffer()),
        rate: limited.rates.first().map_or(RATE, |rate| rate.bits_per_second()),
        time: args.time.duration(),
        rounds: args.rounds,
        address,
        networks: args.networks()?,
        stop: stop.clone(),
    }))
}

/// The rows in Markdown.
pub(super) fn table(out: &mut String, rows: &[LimitedRow]) {
    let Some(first) = rows.first() else { return };
    let _ = writeln!(
        out,
        "## Receivers with {:.0} % of a CPU\n\nLimited by {}. Sent by our sender to each; lossless: the drop counter of \
         the port in `/proc/net/udp` did not move. Socket buffers of {}{}.\n",
        first.share * 100.0,
        first.limit,
        Size::from_bytes(first.buffer),
        if first.buffer < BUFFER {
            ", the most that every program gets here: `sysctl -w net.core.rmem_max=67108864`"
        } else {
            ""
        }
    );
    let _ = writeln!(
        out,
        "| program | packet | highest rate without loss, Gb/s | receive CPU s/GB at {} | CPU used, maximum |\n\
         |---|---|---|---|---|",
        print::rate(first.rate as f64)
    );
    for row in rows {
        let _ = writeln!(
            out,
            "| {} | {} | {}{} | {}{} | {:.0} % |",
            row.program,
            row.packet,
            spread(row.lossless_bits, 1e-9, 2),
            if row.sender_ended { ", limited by the sender" } else { "" },
            spread(row.cpu_s_per_gb, 1.0, 3),
            if row.whole_at_rate { String::new() } else { lost(row.dropped_at_rate) },
            row.most_used * 100.0
        );
    }
    out.push('\n');
    let mut told = Vec::new();
    for row in rows.iter().filter(|row| row.packet == first.packet) {
        if !told.contains(&&row.command) {
            told.push(&row.command);
            let _ = writeln!(out, "- {}: `{}`", row.program, row.command);
        }
    }
    out.push('\n');
}

fn lost(dropped: u64) -> String {
    if dropped > 0 { format!(", {} dropped", print::count(dropped)) } else { ", incomplete".into() }
}

fn spread(of: Spread, unit: f64, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$}-{:.digits$})", of.median * unit, of.min * unit, of.max * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_what_was_found_and_what_is_wrong_with_it() {
        let row = LimitedRow {
            program: "other".into(),
            command: "other {port}".into(),
            packet: 1472,
            share: 0.5,
            lossless_bits: Spread::of([7e9, 8e9, 9e9]),
            whole_at_rate: true,
            buffer: BUFFER,
            rate: RATE,
            most_used: 0.498,
            ..LimitedRow::default()
        };
        let broken =
            LimitedRow { whole_at_rate: false, dropped_at_rate: 17, sender_ended: true, ..row.clone() };
        let mut out = String::new();
        table(&mut out, &[row, broken]);
        assert!(out.contains("## Receivers with 50 % of a CPU"), "{out}");
        assert!(out.contains("| other | 1472 | 8.00 (7.00-9.00) | 0.000 (0.000-0.000) | 50 % |"), "{out}");
        assert!(out.contains("limited by the sender") && out.contains("17 dropped"), "{out}");
        assert_eq!(out.matches("`other {port}`").count(), 1, "{out}");
        assert!(!out.contains("sysctl"), "{out}");
    }
}
