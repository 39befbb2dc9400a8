//! Data channels: bytes that arrive, bytes that are sent, and those that are sent to another server.
//!
//! ```text
//!   upload:    socket ─▶ batch ─▶ thread: write      one batch is written while the next one arrives
//!   download:  thread: read ─▶ piece ─▶ socket       one piece is read while the one before it is sent
//! ```
//!
//! The byte that confirms an upload is sent when the file is durable and has its name. What fails ends with a reset of the connection, so that
//! a client that still sends learns of it at once.

use super::options::{CONFIRM_TIMEOUT, EtransferTimes};
use super::shared::{Shared, add};
use super::site::{DownloadOrder, UploadOrder};
use super::transfer::{Order, Transfer};
use crate::remote::failure::{Failure, plain};
use crate::remote::outgoing::{BodyReader, FileBody, Part};
use crate::served::resumable::ResumableUpload;
use crate::tcp_service::Permit;
use axum::body::{Bytes, HttpBody};
use skyhaul_core::balance::AllowList;
use skyhaul_core::etransfer::{
    CONFIRMATION, DataHeader, DataProtocol, EtransferAddress, MAX_DATA_HEADER_BYTES, UploadStart,
};
use std::collections::VecDeque;
use std::fs::File;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Bytes that are gathered before they are written.
const BATCH_BYTES: usize = 1 << 20;
/// Pieces of an existing file that one job of a disk copies.
const COPIES_PER_JOB: usize = 16;
/// Time for another server to accept a data channel.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a data channel: one head, and what it asks for.
pub(super) async fn serve(mut stream: TcpStream, shared: &Arc<Shared>, permit: &Permit) {
    let done = run(&mut stream, shared, permit).await;
    if done.is_err() {
        let _ = stream.set_zero_linger();
    }
}

async fn run(stream: &mut TcpStream, shared: &Arc<Shared>, permit: &Permit) -> Result<(), String> {
    let times = shared.times;
    let (head, rest) = match timeout(times.first_request, head(stream)).await {
        Ok(Ok(found)) => found,
        Ok(Err(why)) => {
            add(&shared.counters.rejected, 1);
            return Err(why);
        }
        Err(_) => return Err("no head in time".to_owned()),
    };
    let is_expected = |order: &Order| matches!(order, Order::Download(_)) == head.is_push;
    let transfer = shared.transfers.find(&head.uuid);
    let Some((order, running)) = transfer.and_then(|transfer| transfer.take(is_expected)) else {
        add(&shared.counters.rejected, 1);
        return Err("no transfer of this UUID".to_owned());
    };
    permit.prove(true);
    let transfer = Arc::clone(&running.0);
    let work = async {
        match order {
            Order::Upload(order) => {
                let arriving = Arriving { stream, shared, transfer: &transfer };
                arriving.receive(order, head.bytes, rest).await
            }
            Order::Download(order) => {
                let mut sending = Sending { stream, times, sent: &shared.counters.sent_bytes };
                sending.send(order, head.bytes, shared).await?;
                sending.confirmed(rest.first().copied(), times.stall).await?;
                add(&shared.counters.downloads, 1);
                Ok(())
            }
        }
    };
    let result = tokio::select! {
        // What has come to its end has, even if it is asked to end.
        biased;
        result = work => result,
        () = transfer.stopped() => Err("cancelled".to_owned()),
    };
    running.end(result.clone());
    result
}

/// The head of a data channel, and the bytes behind it that came with it.
async fn head(stream: &mut TcpStream) -> Result<(DataHeader, Vec<u8>), String> {
    let mut bytes = Vec::with_capacity(MAX_DATA_HEADER_BYTES);
    loop {
        let read = stream.read_buf(&mut bytes).await.map_err(|error| plain(&error))?;
        if let Some((head, end)) = DataHeader::parse(&bytes).map_err(|why| why.0.to_owned())? {
            return Ok((head, bytes.split_off(end)));
        }
        if read == 0 {
            return Err("it ended before its head".to_owned());
        }
    }
}

/// Does work that waits for a disk, and no longer than `limit`.
pub(super) async fn on_disk<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, String> {
    finished(limit, spawn_blocking(work)).await
}

async fn finished<T>(limit: Duration, work: JoinHandle<Result<T, Failure>>) -> Result<T, String> {
    match timeout(limit, work).await {
        Ok(Ok(done)) => done.map_err(|failure| failure.text().to_owned()),
        Ok(Err(_)) => Err("a bug in this program ended its thread".to_owned()),
        Err(_) => Err("Connection timed out: the disk does not respond".to_owned()),
    }
}

/// An upload while it arrives, with its claim to the path.
struct Begun {
    upload: ResumableUpload,
    order: UploadOrder,
    /// What it continues, and how much of that.
    existing: Option<(File, u64)>,
}

struct Arriving<'a> {
    stream: &'a mut TcpStream,
    shared: &'a Shared,
    transfer: &'a Transfer,
}

impl Arriving<'_> {
    async fn receive(self, order: UploadOrder, bytes: u64, first: Vec<u8>) -> Result<(), String> {
        let EtransferTimes { stall, disk, .. } = self.shared.times;
        let mut begun = on_disk(disk, move || begin(order, bytes)).await?;
        while begun.existing.is_some() {
            begun = on_disk(disk, move || copy(begun)).await?;
        }
        if first.len() as u64 > bytes {
            return Err("more bytes came than were announced".to_owned());
        }
        add(&self.shared.counters.received_bytes, first.len() as u64);
        let (mut left, mut batch) = (bytes - first.len() as u64, first);
        let mut writing = spawn_blocking(move || Ok(begun));
        let mut spare = Vec::new();
        loop {
            while batch.len() < BATCH_BYTES && left > 0 {
                let most = usize::try_from(left).unwrap_or(BATCH_BYTES).min(BATCH_BYTES - batch.len());
                let mut part = (&mut *self.stream).take(most as u64);
                match timeout(stall, part.read_buf(&mut batch)).await {
                    Ok(Ok(0)) => return self.early(writing, batch, "the data ended too early").await,
                    Ok(Ok(read)) => {
                        add(&self.shared.counters.received_bytes, read as u64);
                        left -= read as u64;
                    }
                    Ok(Err(error)) => return self.early(writing, batch, &plain(&error)).await,
                    Err(_) => return self.early(writing, batch, "no data came in time").await,
                }
                if batch.capacity() < BATCH_BYTES {
                    batch.reserve_exact(BATCH_BYTES - batch.len());
                }
            }
            let mut begun = finished(disk, writing).await?;
            if batch.is_empty() {
                return self.publish(begun).await;
            }
            let full = std::mem::replace(&mut batch, std::mem::take(&mut spare));
            writing = spawn_blocking(move || {
                begun.upload.write(&full).map_err(|error| Failure::of(&error))?;
                Ok(begun)
            });
        }
    }

    /// Keeps what has come of an upload that broke, so that it can be continued.
    async fn early(
        &self,
        writing: JoinHandle<Result<Begun, Failure>>,
        batch: Vec<u8>,
        why: &str,
    ) -> Result<(), String> {
        let disk = self.shared.times.disk;
        let mut begun = finished(disk, writing).await?;
        on_disk(disk, move || begun.upload.write(&batch).map_err(|error| Failure::of(&error))).await?;
        Err(why.to_owned())
    }

    async fn publish(self, begun: Begun) -> Result<(), String> {
        let stop = Arc::clone(&self.transfer.is_stopped);
        let publish = move || {
            let Begun { upload, order, .. } = begun;
            let published = upload.publish(&order.path, order.replaces, &stop);
            // Its path is free before the client hears of it.
            drop(order);
            published.map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => Failure::new(409, "File exists"),
                _ => Failure::of(&error),
            })
        };
        on_disk(CONFIRM_TIMEOUT, publish).await?;
        add(&self.shared.counters.uploads, 1);
        // It is whole, whether its client hears of it or not.
        let _ = timeout(self.shared.times.stall, self.stream.write_all(&[CONFIRMATION])).await;
        Ok(())
    }
}

fn begin(order: UploadOrder, bytes: u64) -> Result<Begun, Failure> {
    let failure = |error: std::io::Error| Failure::of(&error);
    let (from, existing) = match order.start {
        UploadStart::Kept(_) | UploadStart::Exists => return Err(Failure::new(409, "File exists")),
        UploadStart::Beginning => (0, None),
        UploadStart::Unfinished(from) => (from, None),
        UploadStart::Existing(size) => {
            let (file, _) = order.root.tree.read(&order.path, false).map_err(failure)?;
            (0, Some((file, size)))
        }
    };
    let copied = existing.as_ref().map_or(0, |(_, size)| *size);
    let upload = order.root.resume(&order.path, from, bytes.saturating_add(copied)).map_err(failure)?;
    Ok(Begun { upload, order, existing })
}

/// Copies some of the file that an upload continues: it stays as it is until the new one is whole.
fn copy(mut begun: Begun) -> Result<Begun, Failure> {
    let Some((file, size)) = &begun.existing else { return Ok(begun) };
    for _ in 0..COPIES_PER_JOB {
        if begun.upload.copy_from(file, *size).map_err(|error| Failure::of(&error))? {
            begun.existing = None;
            break;
        }
    }
    Ok(begun)
}

/// A connection on which a file is sent.
pub(super) struct Sending<'a> {
    stream: &'a mut TcpStream,
    times: EtransferTimes,
    sent: &'a AtomicU64,
}

impl Sending<'_> {
    /// Sends so many bytes. The last of them are held back until it is known that the file did not change.
    async fn send(&mut self, order: DownloadOrder, bytes: u64, shared: &Shared) -> Result<(), String> {
        let DownloadOrder { object, from, .. } = &order;
        let end = from.checked_add(bytes).filter(|end| *end <= object.size());
        let end = end.ok_or("the file has fewer bytes than are asked for")?;
        let (mut left, disk) = (bytes, self.times.disk);
        if left == 0 {
            return Ok(());
        }
        let mut body = {
            let (object, memory, from) = (object.clone(), shared.site.memory.clone(), *from);
            let open = move || {
                let parts = VecDeque::from([Part::Range(from..end)]);
                Ok(BodyReader::new(object.source()?, parts, &memory))
            };
            FileBody::new(on_disk(disk, open).await?, bytes, || {})
        };
        loop {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
            let frame = timeout(disk, frame).await.map_err(|_| "the disk does not respond".to_owned())?;
            let Some(frame) = frame else { return Err("the file ended too early".to_owned()) };
            let Ok(piece) = frame.map_err(|error| plain(&error))?.into_data() else { continue };
            left = left.checked_sub(piece.len() as u64).ok_or("the file has more bytes than it had")?;
            if left > 0 {
                self.write(&piece).await?;
                continue;
            }
            let object = object.clone();
            if !on_disk(disk, move || Ok(object.is_unchanged())).await? {
                return Err("the file changed while it was sent".to_owned());
            }
            return self.write(&piece).await;
        }
    }

    async fn write(&mut self, piece: &Bytes) -> Result<(), String> {
        let mut rest: &[u8] = piece;
        while !rest.is_empty() {
            let written = timeout(self.times.stall, self.stream.write(rest)).await;
            let written = written.map_err(|_| "the peer takes no data".to_owned())?;
            let written = written.map_err(|error| plain(&error))?;
            add(self.sent, written as u64);
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Waits for the byte that confirms. It `came` with the head if there were no bytes to send.
    async fn confirmed(&mut self, came: Option<u8>, limit: Duration) -> Result<(), String> {
        let mut byte = [came.unwrap_or_default()];
        let read = async { if came.is_some() { Ok(1) } else { self.stream.read(&mut byte).await } };
        match timeout(limit, read).await {
            Ok(Ok(1)) if byte[0] == CONFIRMATION => Ok(()),
            Ok(Ok(_)) => Err("the peer did not confirm that it has everything".to_owned()),
            Ok(Err(error)) => Err(plain(&error)),
            Err(_) => Err("the peer did not confirm in time that it has everything".to_owned()),
        }
    }
}

/// Sends a file to another server, as one upload of it. Returns how many bytes it has confirmed.
pub(super) async fn send_to(
    shared: &Shared,
    order: DownloadOrder,
    (uuid, bytes): (String, u64),
    to: &[EtransferAddress],
) -> Result<u64, String> {
    let mut stream = connect(to, &shared.send_to).await?;
    let _ = stream.set_nodelay(true);
    let times = shared.times;
    let head = DataHeader { uuid, bytes, is_push: false }.to_string();
    let mut sending = Sending { stream: &mut stream, times, sent: &shared.counters.sent_bytes };
    let sent = async {
        sending.write(&Bytes::from(head)).await?;
        sending.send(order, bytes, shared).await?;
        sending.confirmed(None, CONFIRM_TIMEOUT).await
    };
    if let Err(why) = sent.await {
        let _ = stream.set_zero_linger();
        return Err(why);
    }
    add(&shared.counters.downloads, 1);
    Ok(bytes)
}

/// Connects to the first of these data channels that can be used and to which files may be sent.
async fn connect(to: &[EtransferAddress], allow: &AllowList) -> Result<TcpStream, String> {
    let mut tried = Vec::new();
    for address in to {
        let is_six = match address.protocol {
            DataProtocol::Udt => {
                tried.push(format!(
                    "{address}: UDT is not offered by this server: give it a tcp data channel"
                ));
                continue;
            }
            DataProtocol::Tcp => false,
            DataProtocol::Tcp6 => true,
        };
        match connect_to(address, is_six, allow).await {
            Ok(stream) => return Ok(stream),
            Err(why) => tried.push(format!("{address}: {why}")),
        }
    }
    Err(format!("Failed to connect to any of the data channels: {}", tried.join(", ")))
}

async fn connect_to(
    address: &EtransferAddress,
    is_six: bool,
    allow: &AllowList,
) -> Result<TcpStream, String> {
    let found = tokio::net::lookup_host((address.host.as_str(), address.port));
    let found = timeout(CONNECT_TIMEOUT, found).await.map_err(|_| "its name is not found in time")?;
    let found: Vec<SocketAddr> = found.map_err(|error| plain(&error))?.collect();
    let mut why = "it has no address of this IP version".to_owned();
    for at in found.into_iter().filter(|at| at.is_ipv6() == is_six) {
        if at.ip().is_unspecified() || !allow.admits(at.ip()) {
            why = format!("Permission denied: files may not be sent to {}", at.ip());
            continue;
        }
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(at)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = plain(&error),
            Err(_) => "Connection timed out".clone_into(&mut why),
        }
    }
    Err(why)
}
