//! `skyhaul probe campaign`: a set of experiments, each beside what theory predicts.
//!
//! ```text
//!   list: name, path, call, theory ─▶ bench: a lab with a server, or loopback ─▶ Figure ─▶ table, plot, JSON, page
//! ```
//!
//! What one experiment gives is kept as soon as it is there, so that nothing is lost with those behind it. All is done in
//! namespaces of its own, as by `skyhaul lab`.
//!
//! Limits: one machine. What the talk measured on cards and lines of 100 Gb/s is shown here in its shape, not in its size.

mod bench;
mod delays;
mod experiment;
mod figure;
mod limits;
mod list;
mod machine;
mod page;
mod streams;

use super::super::output::{command_line, create};
use super::super::receiving::print_json;
use crate::args::CampaignArgs;
use crate::outcome::{INTERRUPTED, Interrupt, Outcome};
use crate::print::Progress;
use anyhow::{Result, bail};
use bench::{Context, NotHere};
use experiment::{Experiment, How};
use page::{CommandReport, Made, State};
use skyhaul::io::host::machine::Machine;
use skyhaul::io::namespace::{Apart, apart};
use skyhaul_measure::lab::hosts;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

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

/// Those that are asked for, in their own order.
fn chosen(only: &[String]) -> Result<Vec<&'static Experiment>> {
    let all = || list::TALK.iter();
    if let Some(unknown) = only.iter().find(|name| all().all(|one| one.name != name.as_str())) {
        let names: Vec<&str> = all().map(|one| one.name).collect();
        bail!("unknown experiment `{unknown}`\nhint: the experiments are {}", names.join(", "));
    }
    Ok(all().filter(|one| only.is_empty() || only.iter().any(|name| name == one.name)).collect())
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
            progress.lock().unwrap_or_else(PoisonError::into_inner).show(&line);
        };
        show("begins");
        let context = Context {
            interrupt: &interrupt,
            say: &show,
            quick: args.quick,
            path: experiment.path,
            directory,
            no_lab,
            labs: Vec::new(),
            notes: Vec::new(),
        };
        let made = make(experiment, context);
        progress.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
    let mut told = CommandReport::new(command_line(), Machine::this().to_string(), args.quick, all);
    told.interrupted = interrupt.is_set();
    conclude(args, &told)
}

fn conclude(args: &CampaignArgs, told: &CommandReport) -> Result<Outcome> {
    if let Some(directory) = &args.report {
        page::finish(directory, told)?;
    }
    if args.output.json {
        print_json(told)?;
    }
    let CommandReport { made, skipped, failed, claims, broken, .. } = told;
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

/// Make one experiment; what goes wrong is in what it returns.
fn make(experiment: &Experiment, mut context: Context<'_>) -> Made {
    let mut made = experiment.begin(context.quick);
    let run = match experiment.how {
        How::Made(run) => run,
        How::Absent(why) => {
            made.why = Some(why.to_owned());
            return made;
        }
    };
    let begun = Instant::now();
    let done = run(&mut context);
    made.seconds = begun.elapsed().as_secs_f64();
    (made.labs, made.notes) = (context.labs, context.notes);
    match done {
        Ok(figure) => (made.state, made.figure) = (State::Done, Some(figure)),
        Err(error) => {
            made.state = if error.is::<NotHere>() { State::Skipped } else { State::Failed };
            made.why = Some(format!("{error:#}"));
        }
    }
    made
}

/// What was done before, in the same measure.
fn kept(directory: &Path, name: &str, quick: bool) -> Option<Made> {
    let text = std::fs::read(directory.join(format!("{name}.json"))).ok()?;
    let made: Made = serde_json::from_slice(&text).ok()?;
    (made.name == name && made.quick == quick && made.state == State::Done).then_some(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul::io::fault::path;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_paths_are_paths() {
        let names: BTreeSet<&str> = list::TALK.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), list::TALK.len());
        for one in &list::TALK {
            assert!(!(one.shows.is_empty() || one.theory.is_empty() || one.call.is_empty()), "{}", one.name);
            // Of one, the delay varies.
            if one.name != "window-limit" {
                assert!(one.path.parse::<path::Path>().is_ok(), "{}: {}", one.name, one.path);
            }
        }
        assert_eq!(chosen(&["policing".into(), "rings".into()]).unwrap().len(), 2);
        let said = chosen(&["police".into()]).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.contains("hint: the experiments are rings, "), "{said}");
    }
}
