//! Arguments for ticks that are built from the events of several sources.

use super::applies::{EVENTS, to};
use super::limits::{at_least_one, some};
use clap::Args;
use skyhaul::core::assembly::building::{BuildConfig, Sources};
use skyhaul::core::placement::Nanos;
use skyhaul::io::quantity::{Size, Span};
use std::ops::RangeInclusive;

/// Which events make a tick, and how long it waits for them.
#[derive(Args, Clone, Debug)]
pub(crate) struct BuildArgs {
    /// Build ticks: deliver the events of a tick together, once those of these data ids (such as 1,2,5-8), or of any N sources
    /// (any:N), have arrived
    #[arg(long, value_name = "IDS", value_parser = sources, add = to(EVENTS))]
    build: Option<Sources>,
    /// End a tick this long after its first event, with the events that have arrived
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = some::<Span>("longer than the skew between sources, such as 1s"), add = to(EVENTS).with("build"))]
    build_timeout: Span,
    /// Ticks held at a time; one more ends the oldest
    #[arg(long, default_value_t = 1024, value_name = "TICKS", value_parser = at_least_one::<usize>("1024 suits most sources"), add = to(EVENTS).with("build"))]
    build_window: usize,
    /// Memory for the events of unfinished ticks that --output-file writes; more end the oldest tick
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = some::<Size>("some events of each source"), add = to(EVENTS).with("build"))]
    build_memory: Size,
}

impl BuildArgs {
    /// How ticks are to be built, if they are.
    pub(crate) fn config(&self) -> Option<BuildConfig> {
        let timeout = Nanos(u64::try_from(self.build_timeout.duration().as_nanos()).unwrap_or(u64::MAX));
        let (window, bytes) = (self.build_window, self.build_memory.bytes());
        self.build.clone().map(|sources| BuildConfig { sources, timeout, window, bytes })
    }
}

/// `1,2,5-8`, or `any:3`.
fn sources(text: &str) -> Result<Sources, String> {
    const HINT: &str = "data ids are 0 to 65535, such as 1,2,5-8; any:3 stands for any three sources";
    let wrong = || format!("expected data ids, or any:N\nhint: {HINT}");
    let sources = match text.strip_prefix("any:") {
        Some(count) => Sources::Count(count.parse().map_err(|_| wrong())?),
        None => {
            let ranges = text.split(',').map(range).collect::<Option<Vec<_>>>();
            Sources::Named(ranges.ok_or_else(wrong)?.into_iter().flatten().collect())
        }
    };
    let check = BuildConfig { sources, timeout: Nanos(1), window: 1, bytes: 1 };
    check.check().map_err(|why| format!("{why}\nhint: {HINT}"))?;
    Ok(check.sources)
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_named_or_counted() {
        assert_eq!(sources("1,2,5-7"), Ok(Sources::Named(vec![1, 2, 5, 6, 7])));
        assert_eq!(sources("any:3"), Ok(Sources::Count(3)));
        for text in ["", "1,1", "1-3,2", "any:0", "any:", "70000", "5-2", "a"] {
            assert!(sources(text).unwrap_err().contains("hint: "), "{text}");
        }
    }
}
