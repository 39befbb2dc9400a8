//! The rows of a report that is to come: experiments by sizes and losses by candidates.

use super::super::options::wrong;
use super::lanes;
use super::options::{
    LATENCY_MESSAGE_BYTES, LOSS_MESSAGE_BYTES, OVERHEAD, RDMA_EXPERIMENTS, RdmaBenchOptions,
};
use super::report::RdmaBenchRow;
use super::writer::Datagrams;
use skyhaul_core::hint::Hint;
use std::io;
use std::time::Duration;

/// The candidates of an experiment, in turns, and those that all are compared with by round.
pub(super) fn candidates(experiment: &str) -> (&'static [&'static str], &'static [&'static str]) {
    match experiment {
        "messages" => (
            &["udp", "tcp", "write-stage", "write-bpf", "write-tcp", "write-tcp-no-crc", "read", "read-tcp"],
            &["udp", "tcp"],
        ),
        "receivers" => (
            &["scatter", "bare", "ring", "place", "drop", "write-stage", "write-bpf"],
            &["scatter", "bare", "place", "write-stage"],
        ),
        "wakes" => (&["write-stage", "write-stage-solicited", "write-bpf", "write-bpf-solicited"], &[]),
        "loss" => (&["write-stage", "read"], &[]),
        "latency" => (&["udp", "place", "write-stage", "write-bpf"], &["udp", "place"]),
        _ => (&["stage", "bpf"], &["stage"]),
    }
}

impl RdmaBenchOptions {
    /// The rows of the report that is to come; candidates that take turns follow each other.
    ///
    /// # Errors
    /// An experiment or a candidate is unknown, or a size, loss or address cannot be measured.
    pub fn rows(&self) -> io::Result<Vec<RdmaBenchRow>> {
        self.check()?;
        let all = || RDMA_EXPERIMENTS.iter().flat_map(|experiment| candidates(experiment).0);
        if let Some(name) = self.candidates.iter().find(|name| !all().any(|own| own == name)) {
            let mut known: Vec<&str> = all().copied().collect();
            known.sort_unstable();
            known.dedup();
            let hint = Hint(format_args!("choose from {}", known.join(" ")));
            return Err(wrong(format_args!("`bench rdma` has no candidate '{name}'{hint}")));
        }
        let mut rows = Vec::new();
        let mut add = |experiment: &str, message_bytes, loss| {
            let chosen =
                |name: &&&str| self.candidates.is_empty() || self.candidates.iter().any(|own| own == **name);
            rows.extend(candidates(experiment).0.iter().filter(chosen).map(|candidate| RdmaBenchRow {
                experiment: experiment.into(),
                candidate: (*candidate).into(),
                message_bytes,
                loss,
                ..RdmaBenchRow::default()
            }));
        };
        for experiment in RDMA_EXPERIMENTS.into_iter().filter(|name| self.wants(name)) {
            match experiment {
                "messages" => self.messages.iter().for_each(|size| add(experiment, *size, 0.0)),
                "receivers" => add(experiment, Datagrams::of(self)?.message_bytes(), 0.0),
                "loss" => self.losses.iter().for_each(|loss| add(experiment, LOSS_MESSAGE_BYTES, *loss)),
                "latency" => add(experiment, LATENCY_MESSAGE_BYTES as u64, 0.0),
                "wakes" => add(experiment, LOSS_MESSAGE_BYTES, 0.0),
                _ => add(experiment, lanes::PAYLOAD_BYTES as u64, 0.0),
            }
        }
        if rows.is_empty() {
            let text = "none of these candidates takes part in these experiments";
            return Err(wrong(format_args!("{text}{}", Hint("omit --candidates or --only"))));
        }
        Ok(rows)
    }

    /// The time that all will take, roughly.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn estimate(&self) -> io::Result<Duration> {
        let trials =
            |row: &RdmaBenchRow| if row.experiment == "lanes" { lanes::trials(self.lanes) } else { 1 };
        let measured: usize = self.rows()?.iter().map(trials).sum();
        let runs = u32::try_from(measured.saturating_mul(self.rounds.max(1))).unwrap_or(u32::MAX);
        Ok((self.time + OVERHEAD).saturating_mul(runs))
    }
}
