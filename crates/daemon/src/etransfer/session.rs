//! A command channel: requests, answered in order, and one transfer at a time.
//!
//! `send-file` runs beside it, so that `cancel` is heard; its reply comes when it ends. A line that is no request is answered with `ERR`, and the
//! channel is closed. When the channel ends, so does its transfer; what has arrived of an upload stays, to be resumed.

use super::channel::{on_disk, send_to};
use super::options::WRITE_TIMEOUT;
use super::shared::{Shared, add};
use super::transfer::{Order, Transfer};
use crate::tcp_service::Permit;
use skyhaul_core::etransfer::{
    EtransferLines, EtransferRequest, LineTooLong, PROTOCOL_VERSION, SendOutcome, UploadMode,
};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

/// Bytes that are read at a time.
const READ_BYTES: usize = 8 << 10;
/// Time for what runs to come to its own end before a transfer is removed, and to be ended then.
const REMOVE_GRACE: Duration = Duration::from_millis(250);
const REMOVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves a command channel until its client ends it, is silent for too long or says something else.
pub(super) async fn serve(stream: TcpStream, shared: &Arc<Shared>, permit: &Permit) {
    let client = stream.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |at| at.ip());
    let mut session = Session { stream, client, shared: Arc::clone(shared), current: None, sending: None };
    // A client that has gone needs no answer.
    let _ = session.run(permit).await;
}

struct Session {
    stream: TcpStream,
    client: IpAddr,
    shared: Arc<Shared>,
    current: Option<Arc<Transfer>>,
    sending: Option<JoinHandle<SendOutcome>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.forget();
    }
}

/// What a request is answered with.
enum Answer {
    Lines(String),
    /// No reply, or one that comes later.
    Nothing,
}

impl Session {
    async fn run(&mut self, permit: &Permit) -> io::Result<()> {
        let (mut lines, mut buffer) = (EtransferLines::default(), vec![0; READ_BYTES]);
        let (mut is_proven, mut last) = (false, Instant::now());
        loop {
            let times = self.shared.times;
            let is_busy = self.sending.is_some() || self.current.as_ref().is_some_and(|one| one.is_running());
            let patience = if is_proven { times.idle } else { times.first_request };
            let mut found = VecDeque::new();
            tokio::select! {
                read = timeout_at((last + patience).into(), self.stream.read(&mut buffer)) => match read {
                    Ok(Ok(0)) => return Ok(()),
                    Ok(read) => lines.push(&buffer[..read?], |line| found.push_back(line)),
                    // Data have a clock of their own.
                    Err(_) if is_busy && !lines.is_inside() => last = Instant::now(),
                    Err(_) => return Ok(()),
                },
                outcome = sent(&mut self.sending), if self.sending.is_some() => {
                    (self.sending, last) = (None, Instant::now());
                    self.reply(&format!("{}\n", outcome.line())).await?;
                }
            }
            while let Some(line) = found.pop_front() {
                if !self.line(line).await? {
                    return Ok(());
                }
                last = Instant::now();
                if !is_proven {
                    is_proven = true;
                    permit.prove(true);
                }
                // Others get their turn between the lines of one that sends many.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Answers a line; returns whether the channel stays open.
    async fn line(&mut self, line: Result<Vec<u8>, LineTooLong>) -> io::Result<bool> {
        let parsed = match &line {
            Ok(line) => EtransferRequest::parse(line).map_err(|why| why.0),
            Err(LineTooLong) => Err("the line is too long"),
        };
        let request = match parsed {
            Ok(request) => request,
            Err(why) => {
                add(&self.shared.counters.rejected, 1);
                self.reply(&format!("ERR {why}\n")).await?;
                return Ok(false);
            }
        };
        let is_send = matches!(request, EtransferRequest::Send { .. });
        let is_cancel = matches!(request, EtransferRequest::Cancel { .. });
        let answer = self.answer(request).await;
        add(&self.shared.counters.requests, 1);
        match answer {
            Ok(Answer::Lines(text)) => self.reply(&text).await?,
            Err(_) if is_cancel => {}
            Ok(Answer::Nothing) => {}
            Err(why) if is_send => {
                let outcome = SendOutcome { bytes: 0, time: Duration::ZERO, error: Some(why) };
                self.reply(&format!("{}\n", outcome.line())).await?;
            }
            Err(why) => self.reply(&format!("ERR {}\n", one_line(&why))).await?,
        }
        Ok(true)
    }

    async fn answer(&mut self, request: EtransferRequest) -> Result<Answer, String> {
        let text = match request {
            EtransferRequest::Version => format!("OK {PROTOCOL_VERSION}\n"),
            EtransferRequest::List { path } => self.list(path).await?,
            EtransferRequest::Write { mode, path } => self.upload(path, mode).await?,
            EtransferRequest::Read { have, path } => self.download(path, have).await?,
            // The options that may be listed are those of UDT; `etc` refuses the values that mean none.
            EtransferRequest::DataAddresses { .. } => {
                let mut text = String::new();
                for address in self.shared.data_addresses(self.client) {
                    let _ = writeln!(text, "OK {address}");
                }
                text + "OK\n"
            }
            EtransferRequest::Send { source, destination, bytes, to } => {
                let transfer = self.of(&source)?;
                if self.sending.is_some() {
                    return Err("this channel is already busy".to_owned());
                }
                let taken = transfer.take(|order| matches!(order, Order::Download(_)));
                let Some((Order::Download(order), running)) = taken else {
                    return Err("no file was opened for reading, or it was sent already".to_owned());
                };
                let shared = Arc::clone(&self.shared);
                self.sending = Some(tokio::spawn(async move {
                    let begun = Instant::now();
                    let transfer = Arc::clone(&running.0);
                    let done = tokio::select! {
                        done = send_to(&shared, order, (destination, bytes), &to) => done,
                        () = transfer.stopped() => Err("Cancelled".to_owned()),
                    };
                    running.end(done.clone().map(drop));
                    let time = begun.elapsed();
                    match done {
                        Ok(bytes) => SendOutcome { bytes, time, error: None },
                        Err(why) => SendOutcome { bytes: 0, time, error: Some(why) },
                    }
                }));
                return Ok(Answer::Nothing);
            }
            EtransferRequest::Remove { uuid } => self.remove(&uuid).await?,
            EtransferRequest::Cancel { uuid } => {
                self.of(&uuid)?.stop();
                return Ok(Answer::Nothing);
            }
        };
        Ok(Answer::Lines(text))
    }

    async fn list(&self, path: String) -> Result<String, String> {
        let site = Arc::clone(&self.shared.site);
        let names = on_disk(self.shared.times.disk, move || site.list(&path)).await?;
        Ok(names.iter().map(|name| format!("OK {name}\n")).collect::<String>() + "OK\n")
    }

    async fn upload(&mut self, path: String, mode: UploadMode) -> Result<String, String> {
        self.check_free()?;
        let site = Arc::clone(&self.shared.site);
        let order = on_disk(self.shared.times.disk, move || site.upload(&path, mode)).await?;
        let have = order.start.bytes();
        let uuid = self.begin(Order::Upload(order))?;
        Ok(format!("AlreadyHave:{have}\nUUID:{uuid}\nOK\n"))
    }

    async fn download(&mut self, path: String, have: u64) -> Result<String, String> {
        self.check_free()?;
        let site = Arc::clone(&self.shared.site);
        let (order, remain) = on_disk(self.shared.times.disk, move || site.download(&path, have)).await?;
        let uuid = self.begin(Order::Download(order))?;
        Ok(format!("Remain:{remain}\nUUID:{uuid}\nOK\n"))
    }

    fn begin(&mut self, order: Order) -> Result<String, String> {
        let transfer = self.shared.transfers.begin(order).map_err(|error| error.to_string())?;
        let uuid = transfer.uuid.clone();
        self.current = Some(transfer);
        Ok(uuid)
    }

    fn check_free(&self) -> Result<(), String> {
        match &self.current {
            None => Ok(()),
            Some(_) => Err("this channel is already busy: remove its transfer first".to_owned()),
        }
    }

    /// The transfer of this channel, if that is its UUID.
    fn of(&self, uuid: &str) -> Result<&Arc<Transfer>, String> {
        let current = self.current.as_ref().filter(|transfer| transfer.uuid == uuid);
        current.ok_or_else(|| "no transfer of this UUID on this channel".to_owned())
    }

    async fn remove(&mut self, uuid: &str) -> Result<String, String> {
        let transfer = Arc::clone(self.of(uuid)?);
        // A client that has just confirmed is no client that cancels.
        let _ = timeout(REMOVE_GRACE, transfer.idle()).await;
        self.forget();
        // The next request for the same path finds it free.
        let _ = timeout(REMOVE_TIMEOUT, transfer.idle()).await;
        match transfer.result() {
            Some(Err(why)) => Err(why),
            _ => Ok("OK\n".to_owned()),
        }
    }

    fn forget(&mut self) {
        if let Some(transfer) = self.current.take() {
            self.shared.transfers.remove(&transfer);
        }
    }

    async fn reply(&mut self, text: &str) -> io::Result<()> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let late = |_| io::Error::from(io::ErrorKind::TimedOut);
            let written = timeout(WRITE_TIMEOUT, self.stream.write(rest)).await.map_err(late)??;
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// The result of `send-file`.
async fn sent(sending: &mut Option<JoinHandle<SendOutcome>>) -> SendOutcome {
    let failed = || SendOutcome {
        bytes: 0,
        time: Duration::ZERO,
        error: Some("a bug in this program ended its task".to_owned()),
    };
    match sending {
        Some(sending) => sending.await.unwrap_or_else(|_| failed()),
        None => std::future::pending().await,
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
