//! Ticks that are built from the events of several sources (`--build`).

use super::file::Output;
use skyhaul::core::assembly::building::{BuildConfig, Builder, Built};
use skyhaul::core::placement::Nanos;
use skyhaul::receive::{ObjectSink, Received};
use skyhaul::report::BuildReport;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The first line of a list.
const TICK_COLUMNS: &str = "tick,sources,bytes,lacking,sizes";

/// What became of ticks so far, for whoever reports it.
pub(super) type Shared = Arc<Mutex<BuildReport>>;

/// A whole event.
struct Part {
    bytes: u64,
    /// Empty where nobody wants it.
    payload: Vec<u8>,
}

/// Builds ticks, and writes them.
pub(super) struct Ticks {
    builder: Builder<Part>,
    begun: Instant,
    list: Option<Box<dyn Write + Send>>,
    output: Option<Output>,
    /// Incomplete events, which are in no tick.
    incomplete: u64,
    /// What could not be written while no event came.
    failed: Option<io::Error>,
    shared: Shared,
}

impl Ticks {
    /// `list` gets a line for each tick, `output` the events of whole ones, in order of their data ids.
    ///
    /// # Errors
    /// If the first line cannot be written.
    pub(super) fn new(
        config: BuildConfig,
        list: Option<Box<dyn Write + Send>>,
        output: Option<Output>,
    ) -> io::Result<Self> {
        let mut ticks = Self {
            builder: Builder::new(config),
            begun: Instant::now(),
            list,
            output,
            incomplete: 0,
            failed: None,
            shared: Shared::default(),
        };
        if let Some(list) = &mut ticks.list {
            writeln!(list, "{TICK_COLUMNS}")?;
            list.flush()?;
        }
        Ok(ticks)
    }

    /// What became of ticks, from now on.
    pub(super) fn report(&self) -> Shared {
        self.shared.clone()
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Write what has ended.
    fn hand_on(&mut self) -> io::Result<()> {
        while let Some(built) = self.builder.poll_built() {
            if let Some(list) = &mut self.list {
                writeln!(list, "{}", line(&built))?;
                list.flush()?;
            }
            if let Some(output) = self.output.as_mut().filter(|_| built.lacking == 0) {
                built.parts.iter().try_for_each(|(_, part)| output.write_all(&part.payload))?;
            }
        }
        let report = BuildReport::new(self.builder.counts(), self.incomplete);
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = report;
        Ok(())
    }
}

/// `7,1+2+5,3000,0,1000+500+1500`: the events of a whole tick have these sizes in the output, in this order.
fn line(built: &Built<Part>) -> String {
    let sources: Vec<String> = built.parts.iter().map(|(source, _)| source.to_string()).collect();
    let bytes: u64 = built.parts.iter().map(|(_, part)| part.bytes).sum();
    let sizes: Vec<String> = built.parts.iter().map(|(_, part)| part.bytes.to_string()).collect();
    format!("{},{},{bytes},{},{}", built.number, sources.join("+"), built.lacking, sizes.join("+"))
}

impl ObjectSink for Ticks {
    fn object(&mut self, object: &Received<'_>) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if object.complete {
            let payload = if self.output.is_some() { object.payload.to_vec() } else { Vec::new() };
            let (held, now) = (payload.len() as u64, self.now());
            let part = Part { bytes: object.received, payload };
            self.builder.add(object.number, object.source, held, part, now);
        } else {
            self.incomplete += 1;
        }
        self.hand_on()
    }

    fn tick(&mut self) {
        self.builder.handle_timeout(self.now());
        // A write error is returned with the next event, or at the end: the list lacks this tick.
        if self.failed.is_none() {
            self.failed = self.hand_on().err();
        }
    }

    fn finished(&mut self) -> io::Result<()> {
        let failed = self.failed.take();
        self.builder.finish();
        self.hand_on()?;
        self.list.as_mut().map_or(Ok(()), |list| list.flush())?;
        self.output.as_mut().map_or(Ok(()), Write::flush)?;
        failed.map_or(Ok(()), Err)
    }
}
