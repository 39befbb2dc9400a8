//! `skyhaul probe campaign`: a set of experiments, each beside what theory predicts.
//!
//! The experiments are those of [`skyhaul_experiments::campaign`]; here they become a table, plots, JSON and a page. The result of
//! each is kept as soon as it is there, so that an interruption loses none. All run in network namespaces of their own, as with
//! `skyhaul lab`.

mod page;

use super::super::output::{command_line, create};
use super::super::receiving::print_json;
use crate::args::CampaignArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::Progress;
use anyhow::Result;
use skyhaul::io::host::machine::Machine;
use skyhaul::io::lock::lock;
use skyhaul::io::namespace::{Apart, apart};
use skyhaul_experiments::campaign::{
    CampaignOptions, CampaignReport, Experiment, ExperimentReport, State, chosen,
};
use skyhaul_measure::lab::hosts;
use std::path::Path;
use std::sync::Mutex;

pub(super) fn run(args: &CampaignArgs) -> Result<Outcome> {
    let chosen = chosen(&args.only)?;
    match apart(&hosts()) {
        Ok(Apart::Ended(0)) => Ok(Outcome::Done),
        Ok(Apart::Ended(1)) => Ok(Outcome::Failed),
        // It has said why.
        Ok(Apart::Ended(status)) => std::process::exit(status),
        Ok(Apart::Inside) => inside(args, &chosen, None),
        // What needs no lab can be made all the same.
        Err(error) => inside(
            args,
            &chosen,
            Some(&format!("needs networks of its own, and they cannot be made: {error}")),
        ),
    }
}

fn inside(args: &CampaignArgs, chosen: &[&'static Experiment], no_lab: Option<&str>) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    if let Some(directory) = &args.report {
        create(directory)?;
    }
    let directory = args.report.as_deref().unwrap_or(Path::new("."));
    let progress = Mutex::new(Progress::new(args.output.quiet));
    let mut all = Vec::with_capacity(chosen.len());
    for (n, experiment) in chosen.iter().enumerate() {
        if interrupt.is_set() {
            break;
        }
        if args.resume
            && let Some(made) = kept(directory, experiment.name, args.quick)
        {
            say!("{:<13} kept: already done", made.name);
            all.push(made);
            continue;
        }
        let show = |part: &str| {
            let line = format!("{} of {}: {}: {part}", n + 1, chosen.len(), experiment.title);
            lock(&progress).show(&line);
        };
        show("begins");
        let stop = interrupt.flag();
        let options = CampaignOptions { interrupt: &stop, say: &show, quick: args.quick, directory, no_lab };
        let made = experiment.run(&options);
        lock(&progress).clear();
        // One that was interrupted measured less than it should.
        if interrupt.is_set() {
            break;
        }
        match args.output.json {
            true => say_text!("{}", page::text(&made)),
            false => tell_text!("{}", page::text(&made)),
        }
        if args.report.is_some() {
            page::keep(directory, &made)?;
        }
        all.push(made);
    }
    let mut told = CampaignReport::new(command_line(), Machine::this().to_string(), args.quick, all);
    told.interrupted = interrupt.is_set();
    conclude(args, &told)
}

fn conclude(args: &CampaignArgs, told: &CampaignReport) -> Result<Outcome> {
    if let Some(directory) = &args.report {
        page::finish(directory, told)?;
    }
    if args.output.json {
        print_json(told)?;
    }
    let CampaignReport { made, skipped, failed, claims, broken, .. } = told;
    let held = claims - broken;
    let text =
        format!("{made} done, {skipped} skipped, {failed} failed; {held} of {claims} predictions held");
    if args.output.json {
        say!("{text}");
    } else {
        tell!("{text}");
    }
    if told.interrupted {
        say!("{INTERRUPTED}");
    }
    Ok(if told.interrupted || *failed > 0 || *made == 0 { Outcome::Failed } else { Outcome::Done })
}

/// What was done before, in the same measure.
fn kept(directory: &Path, name: &str, quick: bool) -> Option<ExperimentReport> {
    let text = std::fs::read(directory.join(format!("{name}.json"))).ok()?;
    let made: ExperimentReport = serde_json::from_slice(&text).ok()?;
    (made.name == name && made.quick == quick && made.state == State::Done).then_some(made)
}
