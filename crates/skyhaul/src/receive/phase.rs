//! Frames that come in parts, after a restart by which other packets are the first parts.
//!
//! Which packets of a FILA10G are first halves depends on when the board was started. If it is started again in the other phase,
//! no packet fits any more; when many in a row do not, the stream begins anew in that phase. Those packets are refused, and
//! counted.

use super::info::StreamInfo;
use super::placing::{self, Placed};
use super::refusals::Refusals;
use super::stream::Stream;
use skyhaul_core::assembly::Ordered;
use std::sync::Arc;

impl Stream {
    /// Whether its sender has restarted in another phase.
    #[inline]
    pub(super) fn is_out_of_phase(&self) -> bool {
        self.refusals.is_out_of_phase(self.report.placed)
    }
}

impl Placed {
    /// Begin anew in the other phase, if its frames come in parts.
    #[cold]
    pub(super) fn rephase(&mut self) {
        let unpaired = self.refusals.unpaired(self.report.placed);
        self.refusals = Refusals::default();
        let mut format = self.info.format.clone();
        let Some(own) = format.own.rephased() else { return };
        format.own = own;
        let Ok(new) = placing::of(&format) else { return };
        for retired in self.unfinished() {
            let info = self.info.clone();
            if let Some(part) = self.finished(retired) {
                self.before.push_back((info, part));
            }
        }
        self.watch.rephased(unpaired);
        self.assembly = Ordered::restarted(*self.assembly.config(), self.assembly.epoch() + 1);
        self.arrivals.forget();
        self.only.take_if(|only| only.end == u64::MAX);
        let (unit_bytes, listen) = (self.info.unit_bytes, self.info.listen.clone());
        self.info = Arc::new(StreamInfo { format, unit_bytes, listen, ..*self.info });
        self.replace(new);
    }
}
