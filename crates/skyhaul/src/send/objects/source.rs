//! Objects as what an [`SendEngine`](crate::send::SendEngine) sends.

use super::burst::Burst;
use super::object::Object;
use super::run::Run;
use crate::send::{Limits, Next, SendError, SendStats, Source};
use skyhaul_io::gathered::Extent;
use skyhaul_io::udp::send::Sent;
use std::io::IoSlice;
use std::ops::Range;

/// A run, and the memory for its packets.
pub(super) struct Objects<'r, 'h, O: Object> {
    pub(super) run: Run<'h, O>,
    pub(super) burst: &'r mut Burst,
    /// Called for each job that ended, with the bytes of its packets or the error.
    pub(super) done: &'r mut dyn FnMut(usize, Result<u64, SendError>),
}

impl<O: Object> Source for Objects<'_, '_, O> {
    fn next(&mut self) -> Result<Next, SendError> {
        Ok(self.run.next_rate()?.map_or(Next::End, Next::Packets))
    }

    fn fill(&mut self, limits: Limits) -> Result<(), SendError> {
        self.run.fill(self.burst, limits)
    }

    fn packets(&self) -> usize {
        self.burst.packets()
    }

    fn substreams(&self) -> Range<usize> {
        self.burst.substreams()
    }

    fn gather<'a>(
        &'a mut self,
        substream: usize,
        slices: &mut Vec<IoSlice<'a>>,
        extents: &mut Vec<Extent>,
    ) -> Result<(), usize> {
        self.burst.gather(self.run.entries, substream, slices, extents)
    }

    fn jobs(&self) -> Range<usize> {
        self.burst.touched.clone()
    }

    fn is_mid_packet(&self) -> bool {
        self.run.is_mid_packet()
    }

    fn leave_out(&mut self, job: usize, error: SendError) {
        self.burst.remove(job);
        self.run.skip(job);
        (self.done)(job, Err(error));
    }

    fn sent(&mut self, _: Sent, stats: &mut SendStats) {
        stats.objects += self.burst.objects;
        stats.packets += self.burst.whole;
        stats.payload_bytes += self.burst.payload_bytes;
    }

    fn finish_batch(&mut self) {
        for &(job, bytes) in &self.burst.jobs {
            (self.done)(job, Ok(bytes));
        }
    }
}
