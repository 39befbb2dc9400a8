//! What a flow is sent through: its socket, behind the encryption if the flow is encrypted.

use super::options::Tuning;
use skyhaul::peer::{DataStream, Encryptor};
use skyhaul_io::tcp::{TcpSendOptions, TcpSender};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Bytes that are encrypted at a time: what each flow keeps for its records, a few records of TLS.
const ENCRYPTED_STEP_BYTES: usize = 64 << 10;

/// Sends on one flow, encrypted if the flow is.
pub(super) struct FlowSender {
    socket: TcpSender,
    encryptor: Option<Encryptor>,
}

impl FlowSender {
    pub(super) fn new(stream: DataStream, tuning: &Tuning) -> io::Result<Self> {
        let congestion = tuning.congestion.clone().unwrap_or_default();
        let options = TcpSendOptions { congestion, patience: tuning.patience };
        let (socket, encryptor) = stream.into_sender()?;
        Ok(Self { socket: TcpSender::from_stream(socket, &options)?, encryptor })
    }

    /// Ends a call that waits, when it is set.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        self.socket.stop_flag()
    }

    /// The congestion control in use.
    pub(super) fn congestion(&self) -> String {
        self.socket.stats().congestion.clone()
    }

    pub(super) fn send_slices(&mut self, slices: &[IoSlice<'_>]) -> io::Result<()> {
        let Some(encryptor) = &mut self.encryptor else {
            return self.socket.send_slices(slices).map(drop);
        };
        for part in slices.iter().flat_map(|slice| slice.chunks(ENCRYPTED_STEP_BYTES)) {
            self.socket.send_slices(&[IoSlice::new(encryptor.records(part)?)])?;
        }
        Ok(())
    }
}
