//! What `send` and `bench` do with `--format spead`, and the search for a rate (`--rate search`).

#[cfg(feature = "full")]
mod memo;
pub(crate) mod send;

#[cfg(feature = "full")]
pub(crate) use memo::run as bench;

use crate::args::Bounds;
use crate::outcome::Interrupt;
use crate::print;
use crate::print::Progress as Line;
use anyhow::{Context, Result, bail};
use skyhaul::core::control::{ControlConfig, Search, SearchConfig, Step};
use skyhaul::core::hint::Hint;
use skyhaul::io::address::Endpoint;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::send::FoundRate;
use skyhaul::spead::send::{Heap, HeapOptions, Order, Outlet, SendConfig, Stream};
use skyhaul::wire::spead::Flavour;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a trial of the search sends.
const TRIAL: Duration = Duration::from_millis(800);
/// Additional time for the reports on all of it to arrive.
const TAIL: Duration = Duration::from_millis(200);
/// Waiting for the first report at all, of a receiver that may be short of processors.
const FEEDBACK_TIMEOUT: Duration = Duration::from_secs(5);
/// Payload of a trial's heap, bytes.
const HEAP: usize = 256 << 10;
/// Counters of the heaps of trials: far from those of data, and those of the next trial again, so that a receiver that
/// remembers heaps takes none for one that it has.
static COUNTERS: AtomicU64 = AtomicU64::new(1 << 47);
const COUNTERS_OF_TRIAL: u64 = 1 << 32;

/// One trial: whether it was without loss, and the reports that show it.
struct Trial {
    lossless: bool,
    reports: u64,
    lost: u64,
}

/// The highest rate without loss to `to`, less a margin; `line` shows the progress.
///
/// Trials send heaps without items, which a receiver counts and no program uses. `None` if interrupted.
pub(super) fn search(
    to: &Endpoint,
    options: &SendOptions,
    config: &SendConfig,
    bounds: Bounds,
    interrupt: &Interrupt,
    line: &mut Line,
) -> Result<Option<FoundRate>> {
    let usual = SearchConfig::default();
    let (least, most, start) = bounds.or(usual.least, usual.most, usual.start);
    let mut search = Search::new(SearchConfig { least, most, start, ..usual });
    let (mut reports, mut lost, mut trials) = (0, 0, 0);
    let found = loop {
        match search.step() {
            Step::Try(rate) => {
                trials += 1;
                line.show(&format!("trial {trials}: {}", print::rate(rate as f64)));
                let trial = try_rate(to, options, config, interrupt, rate)?;
                if interrupt.is_set() {
                    return Ok(None);
                }
                reports += trial.reports;
                lost += trial.lost;
                search.verdict(trial.lossless);
            }
            Step::Done(rate) => break rate,
            Step::Nothing => bail!(
                "packets are lost even at {}{}",
                print::rate(least as f64),
                Hint("give a smaller lower bound, like search:100kbps-1Gbps, or a --rate")
            ),
        }
    };
    line.clear();
    let text = format!("{} found in {trials} trials", print::rate(found as f64));
    Ok(Some(FoundRate { how: "search".into(), bits_per_second: found, reports, lost, text }))
}

fn try_rate(
    to: &Endpoint,
    options: &SendOptions,
    config: &SendConfig,
    interrupt: &Interrupt,
    rate: u64,
) -> Result<Trial> {
    let outlet = Outlet::udp(std::slice::from_ref(to), options)?;
    // A loop that may not change the rate: what is left of it is that the receiver is asked.
    let auto = ControlConfig { start: rate, least: rate, most: rate, ..ControlConfig::default() };
    let stream = Stream::new(outlet, SendConfig { auto: Some(auto), ..config.clone() })?;
    stream.set_counter_sequence(COUNTERS.fetch_add(COUNTERS_OF_TRIAL, Ordering::Relaxed), 1);
    let mut heap = Heap::new(Flavour::SPEAD_64_48);
    // Item 0 is padding: no program is handed anything.
    heap.add_item(0, vec![0; HEAP])?;
    // So that what is left of one with losses still says so.
    heap.set_repeat_pointers(true);
    let begun = Instant::now();
    let unheard = || stream.progress().iter().all(|progress| progress.stats.reports == 0);
    let goes_on = |elapsed| elapsed < TRIAL + TAIL || elapsed < FEEDBACK_TIMEOUT && unheard();
    while goes_on(begun.elapsed()) && !interrupt.is_set() {
        stream.send_all(&[(&heap, HeapOptions::default())], Order::Serial)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let achieved = stream.stats().wire_bytes as f64 * 8.0 / seconds;
    let progress = stream.progress().into_iter().next().context("the stream has no destination")?;
    if progress.stats.reports == 0 && !interrupt.is_set() {
        bail!("{to} sends no feedback{}", Hint("run the receiver with --feedback, or give a --rate"));
    }
    Ok(Trial {
        // What this side cannot send is no rate to keep either.
        lossless: progress.stats.lost == 0 && achieved > 0.9 * rate as f64,
        reports: progress.stats.reports,
        lost: progress.stats.lost,
    })
}
