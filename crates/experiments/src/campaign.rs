//! Experiments of a talk on measuring paths, each beside what theory predicts.
//!
//! ```text
//!   TALK: name, path, call, theory ─▶ bench: a lab with a server, or loopback ─▶ Figure ─▶ ExperimentReport
//! ```
//!
//! Limits: one machine. What the talk measured on cards and lines of 100 Gb/s is shown here in its shape, not in its size.

mod bench;
mod delays;
mod figure;
mod limits;
mod machine;
mod report;
mod streams;

pub use bench::CampaignOptions;
pub use figure::{Claim, Column, Figure, Lines, Look, Map, Row, Text, Values, Verdict};
pub use report::{CampaignReport, ExperimentReport, LabTraffic, State};

use anyhow::{Result, bail};
use bench::{Context, NotHere};
use skyhaul_core::hint::Hint;
use std::time::Instant;

/// What is measured, how, and what is expected of it.
#[derive(Debug)]
pub struct Experiment {
    /// For `--only`, and its files.
    pub name: &'static str,
    /// Heading.
    pub title: &'static str,
    /// The lab's path; empty: loopback, or a disk.
    path: &'static str,
    call: &'static str,
    shows: &'static str,
    theory: &'static str,
    method: Method,
}

#[derive(Debug)]
enum Method {
    Run(fn(&mut Context<'_>) -> Result<Figure>),
    /// What is missing for it on one machine.
    Unavailable(&'static str),
}

/// Returns the experiments named, or all, in the order of the page.
///
/// # Errors
/// A name is unknown.
pub fn chosen(only: &[String]) -> Result<Vec<&'static Experiment>> {
    if let Some(unknown) = only.iter().find(|name| TALK.iter().all(|one| one.name != name.as_str())) {
        let names = TALK.each_ref().map(|one| one.name).join(", ");
        bail!("unknown experiment `{unknown}`{}", Hint(format_args!("the experiments are {names}")));
    }
    Ok(TALK.iter().filter(|one| only.is_empty() || only.iter().any(|name| name == one.name)).collect())
}

impl Experiment {
    /// Runs the experiment. What goes wrong is in what it returns.
    #[must_use]
    pub fn run(&self, options: &CampaignOptions<'_>) -> ExperimentReport {
        let mut made = ExperimentReport {
            name: self.name.into(),
            title: self.title.into(),
            path: self.path.into(),
            call: self.call.into(),
            shows: self.shows.into(),
            theory: self.theory.into(),
            quick: options.quick,
            state: State::Skipped,
            why: None,
            seconds: 0.0,
            figure: None,
            labs: Vec::new(),
            notes: Vec::new(),
        };
        let run = match self.method {
            Method::Run(run) => run,
            Method::Unavailable(why) => {
                made.why = Some(why.to_owned());
                return made;
            }
        };
        let mut context = Context { options: *options, path: self.path, labs: Vec::new(), notes: Vec::new() };
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
}

/// The experiments of the talk, in the order of the page.
const TALK: [Experiment; 13] = [
    Experiment {
        name: "rings",
        title: "Rings of a network card",
        path: "",
        call: "probe --udp, sizes by spacings, with rings of 1024 and 4096",
        shows: "With a short ring the card drops what the processor does not fetch in time.",
        theory: "No loss while ring / packet rate is longer than the processor is held up.",
        method: Method::Unavailable(
            "needs two hosts and a network card whose rings can be set (ethtool -G): what is emulated here has none. Between two \
             hosts, it is `skyhaul probe HOST --udp --sizes 4000..8972 --spacing 0us..10us --report DIR`, once for each ring",
        ),
    },
    Experiment {
        name: "buffer-scan",
        title: "Buffer scan",
        path: "rate=100Mbps,delay=5ms,buffer=2MiB,seed=7",
        call: "probe --tcp --windows 32KiB..2MiB",
        shows: "The rate rises with the socket buffers until the path is full.",
        theory: "The least of 8 × window / round trip and the path's rate.",
        method: Method::Run(streams::buffer_scan),
    },
    Experiment {
        name: "cores",
        title: "Cores",
        path: "",
        call: "probe --tcp --cores HERE:THERE, each pair, on loopback",
        shows: "What one flow reaches depends on which CPUs send and receive.",
        theory: "8 bit by the CPU time of a byte: of both ends if one CPU does all, else of the busier one.",
        method: Method::Run(machine::cores),
    },
    Experiment {
        name: "firewall",
        title: "Firewall",
        path: "delay=1ms,pps=4000/64,seed=7",
        call: "probe --udp --sizes 100..1472 at 8000 packets per second, with and without",
        shows: "A firewall costs a time for each packet, so that small ones carry little.",
        theory: "Rate = packets per second × size.",
        method: Method::Run(limits::firewall),
    },
    Experiment {
        name: "file-size",
        title: "File-size lines",
        path: "",
        call: "disk --sizes 4MiB..512MiB, in the directory of the report",
        shows: "Small files are slow, because each costs a time of its own.",
        theory: "Time = a constant + size / rate: the line of the least squares.",
        method: Method::Run(machine::file_sizes),
    },
    Experiment {
        name: "four-flows",
        title: "Four flows",
        path: "rate=100Mbps,delay=5ms,buffer=256KiB,seed=7",
        call: "probe --tcp --flows 4 --stagger 3s",
        shows: "Flows that begin one after another take their share of a line from each other.",
        theory: "Each has its part of the rate: all of it, a half, a third, a quarter.",
        method: Method::Run(streams::four_flows),
    },
    Experiment {
        name: "policing",
        title: "Policing",
        path: "rate=1Gbps,delay=2ms,police=50Mbps/64KiB,seed=7",
        call: "probe --udp --rates 20Mbps..90Mbps",
        shows: "What is above the policer's rate is lost, and nothing below it.",
        theory: "Lost = 1 - (rate × time + bucket) / (sent × time).",
        method: Method::Run(limits::policing),
    },
    Experiment {
        name: "reordering",
        title: "Reordering",
        path: "rate=1Gbps,delay=1ms,paths=2/spray/400us,seed=7",
        call: "probe --udp --spacing 50us..1200us",
        shows: "Two links in turn, of which one takes longer, change the order of packets that are close.",
        theory: "Half of the packets while the spacing is below 400 us, none above.",
        method: Method::Run(delays::reordering),
    },
    Experiment {
        name: "switch-limit",
        title: "Limit of a switch",
        path: "delay=1ms,pps=5000/64,seed=7",
        call: "probe --udp, sizes by packets per second",
        shows: "A switch that forwards so many packets a second loses the rest, of whatever size.",
        theory: "Lost = 1 - limit / sent, the same for all sizes.",
        method: Method::Run(limits::switch_limit),
    },
    Experiment {
        name: "rtt-steps",
        title: "Steps of the round trip",
        path: "delay=5ms,seed=7; at=2s: fwd: delay=9ms,loss=1; at=2.04s: fwd: loss=0; at=4s: fwd: delay=7ms,loss=1; at=4.04s: fwd: loss=0",
        call: "probe --udp --spacing 2ms, times of single packets",
        shows: "When a route changes, the delay steps, and packets are lost just then.",
        theory: "5, 9 and 7 ms one way; at each step, 40 ms without a packet.",
        method: Method::Run(delays::steps),
    },
    Experiment {
        name: "vm-jitter",
        title: "Jitter between virtual machines",
        path: "delay=1ms,stall=3ms@50ms,seed=7",
        call: "probe --udp --spacing 200us,800us",
        shows: "A host that stands still now and then delivers late, and then all at once.",
        theory: "A gap of 3 ms in each 50 ms; otherwise as sent.",
        method: Method::Run(delays::jitter),
    },
    Experiment {
        name: "vm-losses",
        title: "Maps of losses",
        path: "delay=1ms,gemodel=0.002/0.1,seed=7",
        call: "probe --udp --spacing 200us, on a path that loses in runs, and on one that loses at random",
        shows: "Of the same loss, a map shows whether it comes in runs or one by one.",
        theory: "Lost = p / (p + r) = 2 %, in runs of 1 / r = 10 packets; at random, in runs of one.",
        method: Method::Run(delays::loss_maps),
    },
    Experiment {
        name: "window-limit",
        title: "Limit of a window",
        path: "rate=400Mbps, delay of 2.5 to 40 ms each way, seed=7",
        call: "probe --tcp --windows 128KiB, over each round trip",
        shows: "With one window, a flow is slower the farther it goes, however fast the path is.",
        theory: "Rate = 8 × window / round trip.",
        method: Method::Run(streams::window_limit),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_io::fault::path;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_paths_are_paths() {
        let names: BTreeSet<&str> = TALK.iter().map(|one| one.name).collect();
        assert_eq!(names.len(), TALK.len());
        for one in &TALK {
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
