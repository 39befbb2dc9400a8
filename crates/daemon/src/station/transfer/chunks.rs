//! The chunks of a scan, as `vbs2net` of jive5ab sends them to `net2vbs` ([`ChunkHead`]).
//!
//! The other host says which of them it has not; each is sent over a connection of its own, which it closes. A connection that it resets is
//! a chunk that it does not have. jive5ab closes before a chunk is on a disk, and says nothing if it cannot write it: so it is asked again at
//! the end, until it has all, for at most [`CONFIRM_TIMEOUT`].

use super::reading::{FromDisks, Wanted};
use super::{
    Early, Heard, POLL_INTERVAL, PROGRESS_INTERVAL, Pacing, STALL_TIMEOUT, Sending, ask, connect, heard,
    out_of_turn,
};
use skyhaul::io::tcp::info::{TcpInfo, readable};
use skyhaul_core::station::TransferEvent;
use skyhaul_core::vsi::{
    ChunkHead, ChunkName, MAX_CHUNK_HEAD_BYTES, MAX_CHUNK_LIST_BYTES, MAX_EXCHANGED_BYTES, chunk_list,
    parse_chunk_list,
};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// How long the other host may take to write what it has received.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(120);
/// How often it is asked.
const CONFIRM_INTERVAL: Duration = Duration::from_millis(500);

impl Sending {
    /// Sends the chunks that the other host has not. Returns whether parts of the scan are missing here.
    pub(super) fn send_chunks(
        &mut self,
        wanted: &Sender<Wanted>,
        from_disks: &Receiver<FromDisks>,
    ) -> Result<bool, Early> {
        let FromDisks::Chunks(offered) = self.next(from_disks)? else { return Err(out_of_turn()) };
        if let Some((name, _)) = offered.iter().find(|(_, bytes)| *bytes > MAX_EXCHANGED_BYTES) {
            return Err(Early::Failed(format!("{name} has more bytes than net2vbs can count")));
        }
        let chosen = self.missing_there(&offered)?;
        let size_bytes = chosen.iter().map(|&chunk| offered[chunk].1).sum();
        self.tell(TransferEvent::Connected { size_bytes });
        let is_empty = chosen.is_empty();
        ask(wanted, Wanted::Chunks(chosen))?;
        let mut pacing = Pacing::new();
        let mut said = self.next(from_disks)?;
        let has_gaps = loop {
            said = match said {
                FromDisks::Chunk(chunk) => {
                    let (name, bytes) = offered.get(chunk).ok_or_else(out_of_turn)?;
                    self.send_chunk(name, *bytes, from_disks, &mut pacing)?
                }
                FromDisks::End { has_gaps } => break has_gaps,
                _ => return Err(out_of_turn()),
            };
        };
        if !is_empty {
            self.confirm(&offered)?;
        }
        Ok(has_gaps)
    }

    /// Sends one chunk, and returns what the reading thread says after it.
    fn send_chunk(
        &mut self,
        name: &ChunkName,
        bytes: u64,
        from_disks: &Receiver<FromDisks>,
        pacing: &mut Pacing,
    ) -> Result<FromDisks, Early> {
        let mut stream = connect(&self.plan.request)?;
        stream.set_write_timeout(Some(STALL_TIMEOUT))?;
        stream.write_all(&ChunkHead::Chunk { name: name.clone(), bytes }.to_bytes())?;
        let watched = stream.try_clone()?;
        let mut sender = self.sender(stream)?;
        let said = self.send(&mut sender, from_disks, pacing)?;
        sender.finish()?;
        self.wait_for_close(&watched, name)?;
        Ok(said)
    }

    /// Waits until the other host closes the connection, which says that it has the chunk.
    fn wait_for_close(&mut self, watched: &TcpStream, name: &ChunkName) -> Result<(), Early> {
        let (mut since, mut acked) = (Instant::now(), 0);
        loop {
            self.go_on()?;
            match heard(watched, POLL_INTERVAL) {
                Ok(Heard::End) => return Ok(()),
                Ok(Heard::Data | Heard::Nothing) => {}
                Err(Early::Failed(_)) => {
                    return Err(Early::Failed(format!("the other host did not take {name}")));
                }
                Err(stopped) => return Err(stopped),
            }
            let info = TcpInfo::of(watched)?;
            if info.bytes_acked > acked {
                (since, acked) = (Instant::now(), info.bytes_acked);
            }
            if since.elapsed() >= STALL_TIMEOUT {
                let why =
                    format!("the other host did not confirm {name} within {} s", STALL_TIMEOUT.as_secs());
                return Err(Early::Failed(why));
            }
            self.show_progress();
        }
    }

    /// Waits until the other host says that it has all.
    fn confirm(&mut self, offered: &[(ChunkName, u64)]) -> Result<(), Early> {
        let begun = Instant::now();
        loop {
            let missing = self.missing_there(offered)?;
            let Some(first) = missing.first() else { return Ok(()) };
            if begun.elapsed() >= CONFIRM_TIMEOUT {
                let (count, name) = (missing.len(), &offered[*first].0);
                return Err(Early::Failed(format!(
                    "the other host has not written {count} chunks, such as {name}"
                )));
            }
            let waited = Instant::now();
            while waited.elapsed() < CONFIRM_INTERVAL {
                self.go_on()?;
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Asks the other host which of these chunks it has not; returns their places in the list.
    fn missing_there(&mut self, offered: &[(ChunkName, u64)]) -> Result<Vec<usize>, Early> {
        let list = chunk_list(offered.iter().map(|(name, _)| name));
        if list.len() as u64 > MAX_CHUNK_LIST_BYTES {
            return Err(Early::Failed("the scan has too many chunks for net2vbs".into()));
        }
        let mut stream = connect(&self.plan.request)?;
        stream.set_write_timeout(Some(STALL_TIMEOUT))?;
        let head = ChunkHead::Offer { scan: self.plan.request.scan.clone(), list_bytes: list.len() as u64 };
        stream.write_all(&head.to_bytes())?;
        stream.write_all(&list)?;
        let mut answer = Vec::new();
        while !ChunkHead::is_whole(&answer) {
            if answer.len() >= MAX_CHUNK_HEAD_BYTES {
                return Err(Early::Failed("the other host gave no answer of net2vbs".into()));
            }
            answer.extend(self.take(&mut stream, 1)?);
        }
        let Ok(ChunkHead::Answer { is_of_present, list_bytes }) = ChunkHead::parse(&answer) else {
            return Err(Early::Failed("the other host gave no answer of net2vbs".into()));
        };
        let listed = self.take(&mut stream, list_bytes as usize)?;
        let listed: BTreeSet<ChunkName> = parse_chunk_list(&listed).into_iter().collect();
        let is_missing = |&at: &usize| listed.contains(&offered[at].0) != is_of_present;
        Ok((0..offered.len()).filter(is_missing).collect())
    }

    /// Reads so many bytes, with the patience of a connection.
    fn take(&self, stream: &mut TcpStream, bytes: usize) -> Result<Vec<u8>, Early> {
        let (mut taken, mut at, mut since) = (vec![0; bytes], 0, Instant::now());
        while at < bytes {
            self.go_on()?;
            if readable(&[stream.as_fd()], PROGRESS_INTERVAL)?.is_empty() {
                if since.elapsed() >= STALL_TIMEOUT {
                    return Err(Early::Failed("the other host did not answer which chunks it has".into()));
                }
                continue;
            }
            match stream.read(&mut taken[at..])? {
                0 => {
                    return Err(Early::Failed(
                        "the other host closed before it said which chunks it has".into(),
                    ));
                }
                read => (at, since) = (at + read, Instant::now()),
            }
        }
        Ok(taken)
    }
}
