//! One connection: bytes to lines, lines to answers.

use super::shared::{
    FIRST_REQUEST_TIMEOUT, IDLE_TIMEOUT, LINE_PAUSE, Shared, VsiStation, WRITE_TIMEOUT, duration, now,
};
use crate::tcp_service::Permit;
use skyhaul::io::lock::lock;
use skyhaul_core::vsi::{
    VsiAction, VsiCode, VsiDialogue, VsiDialogueCounts, VsiLine, VsiLines, VsiOutcome, VsiOutput,
};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Bytes that are read at once.
const READ_BYTES: usize = 8 << 10;

/// A connection and its dialogue.
struct Conversation<'a, S> {
    stream: TcpStream,
    dialogue: &'a mut VsiDialogue,
    station: &'a Arc<S>,
    shared: &'a Arc<Shared>,
    permit: &'a Permit,
    counted: VsiDialogueCounts,
}

/// Serves a connection until its client ends it or is silent for too long.
pub(super) async fn serve<S: VsiStation>(
    stream: TcpStream,
    dialogue: &mut VsiDialogue,
    station: &Arc<S>,
    shared: &Arc<Shared>,
    permit: &Permit,
) {
    let counted = VsiDialogueCounts::default();
    // A client that has gone needs no answer.
    let _ = Conversation { stream, dialogue, station, shared, permit, counted }.run().await;
}

impl<S: VsiStation> Conversation<'_, S> {
    async fn run(&mut self) -> io::Result<()> {
        let (mut lines, mut buffer) = (VsiLines::default(), vec![0; READ_BYTES]);
        loop {
            let patience = match (lines.is_terminated(), self.counted.requests) {
                (true, _) => LINE_PAUSE,
                (false, 0) => FIRST_REQUEST_TIMEOUT,
                (false, _) => IDLE_TIMEOUT,
            };
            let mut found = VecDeque::new();
            match timeout(patience, self.stream.read(&mut buffer)).await {
                Ok(Ok(0)) => {
                    if let Some(line) = lines.flush() {
                        self.line(&line).await?;
                    }
                    return Ok(());
                }
                Ok(read) => lines.push(&buffer[..read?], |line| found.push_back(line)),
                Err(_) if lines.is_terminated() => found.extend(lines.flush()),
                Err(_) => return Ok(()),
            }
            while let Some(line) = found.pop_front() {
                self.line(&line).await?;
                // Others get their turn between the lines of one that sends many.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn line(&mut self, line: &VsiLine) -> io::Result<()> {
        let view = self.station.view();
        let outputs = {
            let mut shared = lock(&self.shared.runtimes);
            self.dialogue.handle_line(line, &mut shared, &view, now())
        };
        // Before it is answered: a client that has its answer keeps its place, however many others come then.
        self.count();
        let mut outputs = VecDeque::from(outputs);
        while let Some(output) = outputs.pop_front() {
            match output {
                VsiOutput::Reply(text) => self.write(text.as_bytes()).await?,
                VsiOutput::Do(action) => {
                    let outcome = carry_out(self.station, self.shared, action).await;
                    let view = self.station.view();
                    let mut shared = lock(&self.shared.runtimes);
                    outputs.extend(match outcome {
                        Some(outcome) => self.dialogue.handle_done(outcome, &mut shared, &view, now()),
                        None => self.dialogue.handle_late(&mut shared, &view, now()),
                    });
                }
            }
        }
        self.count();
        Ok(())
    }

    fn count(&mut self) {
        let (counts, before) = (self.dialogue.counts(), self.counted);
        self.counted = counts;
        self.shared.requests.fetch_add(counts.requests - before.requests, Ordering::Relaxed);
        self.shared.rejected.fetch_add(counts.rejected - before.rejected, Ordering::Relaxed);
        // A connection that never sent a request makes room for others first.
        if before.requests == 0 && counts.requests > 0 {
            self.permit.prove(true);
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        timeout(WRITE_TIMEOUT, self.stream.write_all(bytes)).await.map_err(late)?
    }
}

/// Carries an action out, for as long as its client waits. `None`: it takes longer.
///
/// What [settles](VsiAction::settles) something continues then, and also if the client goes: its outcome reaches the runtimes, so that a
/// failure after an answer of 1 is not lost.
pub(super) async fn carry_out<S: VsiStation>(
    station: &Arc<S>,
    shared: &Arc<Shared>,
    action: VsiAction,
) -> Option<VsiOutcome> {
    let deadline: Duration = duration(action.deadline());
    let Some(id) = action.settles() else {
        return timeout(deadline, station.carry_out(action)).await.ok();
    };
    let (answer, mut answered) = oneshot::channel();
    let (station, shared) = (Arc::clone(station), Arc::clone(shared));
    tokio::spawn(async move {
        let outcome = station.carry_out(action).await;
        // Nobody takes it any more: the client was answered, or has gone.
        if let Err(outcome) = answer.send(outcome) {
            let view = station.view();
            lock(&shared.runtimes).settle(id, &outcome, &view, now());
        }
    });
    match timeout(deadline, &mut answered).await {
        Ok(outcome) => {
            let fault = || VsiOutcome::Failed(VsiCode::Failed, "a bug in this program ended it".into());
            Some(outcome.unwrap_or_else(|_| fault()))
        }
        // It may come at this moment.
        Err(_) => {
            answered.close();
            answered.try_recv().ok()
        }
    }
}
