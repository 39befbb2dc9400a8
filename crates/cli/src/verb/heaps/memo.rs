//! `skyhaul bench --format spead`: the experiments of SDP memo 046 on this machine, as tables and plots.

use super::{limited, plots, tables};
use crate::Outcome;
use crate::args::{BenchArgs, Experiment};
use crate::interrupt::Interrupt;
use crate::print::Progress;
use crate::verb::receiving::print_json;
use crate::verb::written::{command_line, create, write};
use anyhow::Result;
use serde::Serialize;
use skyhaul::stop::StopFlag;
use skyhaul_measure::bench::heaps::{self, Experiments, MemoOptions, MemoReport};
use std::path::Path;

/// A report and the command that produced it.
#[derive(Serialize)]
struct Told<'a> {
    command: &'a str,
    #[serde(flatten)]
    report: &'a MemoReport,
}

pub(crate) fn run(args: &BenchArgs) -> Result<Outcome> {
    let stop: StopFlag = Interrupt::listen()?.flag().into();
    let options = options(args, stop)?;
    let directory = args.heaps.report.as_deref().unwrap_or(Path::new("spead-bench"));
    create(directory)?;
    let mut progress = Progress::new(args.output.quiet);
    let report = heaps::run(&options, &mut |line| progress.show(line));
    progress.clear();
    let report = report?;
    let command = command_line();
    let plots = plots::all(&report);
    let page = tables::page(&report, &command, &plots);
    for (name, svg) in &plots {
        write(directory, name, svg)?;
    }
    write(directory, "README.md", &page)?;
    let told = Told { command: &command, report: &report };
    write(directory, "figures.json", &serde_json::to_string_pretty(&told)?)?;
    if args.output.json {
        print_json(&told)?;
    } else {
        tell_text!("{page}");
        say!("wrote README.md, figures.json and {} plots to {}", plots.len(), directory.display());
    }
    Ok(if report.interrupted { Outcome::Failed } else { Outcome::Done })
}

fn options(args: &BenchArgs, stop: StopFlag) -> Result<MemoOptions> {
    let wanted = &args.heaps.experiments;
    let has = |one| wanted.is_empty() || wanted.contains(&one);
    let interfaces = &args.heaps.interfaces;
    let addresses = if interfaces.is_empty() { vec![args.address] } else { interfaces.clone() };
    Ok(MemoOptions {
        experiments: Experiments {
            link: has(Experiment::Link),
            light: has(Experiment::Light),
            receiver: has(Experiment::Receiver),
            pairs: has(Experiment::Pairs),
            scaling: has(Experiment::Scaling),
        },
        heap_bytes: args.heaps.heap_size.bytes() as usize,
        time: args.time.duration(),
        rounds: args.rounds,
        pairs: args.heaps.pairs,
        rates: args.heaps.rates.iter().map(|rate| rate.bits_per_second()).collect(),
        limited: limited::options(args, addresses[0], &stop)?,
        addresses,
        networks: args.networks()?,
        stop,
    })
}
