//! Transfers of the station as VSI-S sees them.

use skyhaul_core::station::{
    EtransferWrite, ExistingFile, FileWrite, TransferId, TransferOutcome, TransferState, TransferStatus,
};
use skyhaul_core::vsi::{VsiConnectOptions, VsiExisting, VsiFileWrite, VsiTransfer, VsiTransferState};
use std::collections::BTreeMap;

/// How a file is written.
pub(super) fn write(options: &VsiFileWrite) -> FileWrite {
    let existing = match options.existing {
        VsiExisting::Keep => ExistingFile::Keep,
        VsiExisting::Replace => ExistingFile::Replace,
        VsiExisting::Append => ExistingFile::Append,
        VsiExisting::Resume => ExistingFile::Resume,
    };
    FileWrite { existing, from: options.from, to: options.to }
}

/// How a file of a server of etransfer is written.
pub(super) fn upload(options: &VsiConnectOptions) -> EtransferWrite {
    EtransferWrite { mode: options.mode, from: options.write.from, to: options.write.to }
}

/// Those among all that dialogues began, by the numbers that these gave them.
pub(super) fn transfers(all: &[TransferStatus], known: &BTreeMap<u64, TransferId>) -> Vec<VsiTransfer> {
    let seen = |(id, transfer): (&u64, &TransferId)| {
        let status = all.iter().find(|status| status.transfer == *transfer)?;
        let (counts, outcome) = (status.counts, status.outcome.as_ref());
        Some(VsiTransfer {
            id: *id,
            label: status.request.scan.clone(),
            host: status.request.host.clone(),
            state: match status.state {
                TransferState::Connecting => VsiTransferState::Connecting,
                TransferState::Connected => VsiTransferState::Connected,
                TransferState::Sending => VsiTransferState::Sending,
                TransferState::Ended => VsiTransferState::Ended,
            },
            size_bytes: status.size_bytes,
            range: status.range,
            read_bytes: counts.read_bytes,
            sent_bytes: counts.sent_bytes,
            missing: (outcome == Some(&TransferOutcome::Gaps)).then_some(counts.filled_bytes),
            is_complete: matches!(outcome, Some(TransferOutcome::Complete | TransferOutcome::Gaps)),
            failure: outcome.and_then(TransferOutcome::reason).map(str::to_owned),
        })
    };
    known.iter().filter_map(seen).collect()
}
