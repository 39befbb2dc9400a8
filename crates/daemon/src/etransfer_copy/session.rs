//! A command channel of the client, and the data channels beside it. Waiting ends soon after the copy is over.

use skyhaul_core::etransfer::{
    CONFIRMATION, DataHeader, DataProtocol, EtransferAddress, EtransferLines, EtransferReply,
    EtransferRequest, LineTooLong, UploadMode,
};
use skyhaul_transfer::copy::FetchError;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How often a wait looks whether the copy is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Time for a server to make a whole file durable before it confirms.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(900);
/// Lines of a reply.
const MAX_LINES: usize = 1_000_000;
/// Time to connect to an address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

/// A connection whose waits end when the copy is over, or when its peer does nothing for too long.
pub(crate) struct Wire {
    stream: TcpStream,
    patience: Duration,
}

fn broken(error: &io::Error) -> FetchError {
    FetchError::Broken(crate::remote::failure::plain(error))
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Wire {
    fn connect(to: SocketAddr, patience: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT.min(patience.max(LOOK_INTERVAL)))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK_INTERVAL))?;
        stream.set_write_timeout(Some(LOOK_INTERVAL))?;
        Ok(Self { stream, patience })
    }

    fn patiently(
        &mut self,
        is_over: &dyn Fn() -> bool,
        mut work: impl FnMut(&mut TcpStream) -> io::Result<usize>,
    ) -> Result<usize, FetchError> {
        let begun = Instant::now();
        loop {
            match work(&mut self.stream) {
                Ok(count) => return Ok(count),
                Err(error) if !is_late(&error) => return Err(broken(&error)),
                Err(_) if is_over() => return Err(FetchError::Over),
                Err(_) if begun.elapsed() >= self.patience => {
                    let seconds = self.patience.as_secs();
                    return Err(FetchError::Broken(format!(
                        "Connection timed out: nothing moved in {seconds} s"
                    )));
                }
                Err(_) => {}
            }
        }
    }

    /// Reads some bytes; none at the end.
    pub(super) fn read(&mut self, into: &mut [u8], is_over: &dyn Fn() -> bool) -> Result<usize, FetchError> {
        self.patiently(is_over, |stream| stream.read(into))
    }

    /// Waits until the server has confirmed all bytes. It makes them durable first.
    pub(crate) fn confirm(&mut self, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        self.patience = CONFIRM_TIMEOUT;
        let mut byte = [0];
        match self.read(&mut byte, is_over)? {
            1 if byte[0] == CONFIRMATION => Ok(()),
            _ => Err(FetchError::Broken("the server did not confirm that it has everything".to_owned())),
        }
    }

    /// Writes all bytes.
    pub(crate) fn write(&mut self, bytes: &[u8], is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if is_over() {
                return Err(FetchError::Over);
            }
            let written = self.patiently(is_over, |stream| stream.write(rest))?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// A command channel.
pub(crate) struct Session {
    wire: Wire,
    lines: EtransferLines,
    found: VecDeque<Result<Vec<u8>, LineTooLong>>,
    host: String,
    /// Data channels, once they were asked for.
    data: Option<Vec<SocketAddr>>,
    has_version: bool,
}

/// A file that a server has opened for writing.
pub(crate) struct WrittenFile {
    pub(crate) begun: Begun,
    /// Bytes of it that the server has.
    pub(crate) have: u64,
}

/// A transfer that a server has begun.
pub(crate) struct Begun {
    /// Bytes that it has, or that remain there.
    pub(super) number: i64,
    pub(crate) uuid: String,
}

impl Session {
    pub(crate) fn open(
        host: &str,
        addresses: &[SocketAddr],
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Self, FetchError> {
        let mut why = FetchError::Broken("it has no address".to_owned());
        for address in addresses {
            if is_over() {
                return Err(FetchError::Over);
            }
            match Wire::connect(*address, patience) {
                Ok(wire) => {
                    let host = host.to_owned();
                    let (lines, found) = Default::default();
                    let mut session = Self { wire, lines, found, host, data: None, has_version: true };
                    // Servers before 1.0 do not know it, and end.
                    match session.ask(&EtransferRequest::Version, is_over) {
                        Ok(_) => return Ok(session),
                        Err(FetchError::Over) => return Err(FetchError::Over),
                        Err(_) => {
                            session.wire =
                                Wire::connect(*address, patience).map_err(|error| broken(&error))?;
                            session.has_version = false;
                            return Ok(session);
                        }
                    }
                }
                Err(error) => {
                    why = FetchError::Broken(format!(
                        "connect to {address}: {}",
                        crate::remote::failure::plain(&error)
                    ));
                }
            }
        }
        Err(why)
    }

    fn reply(&mut self, is_over: &dyn Fn() -> bool) -> Result<EtransferReply, FetchError> {
        let strange = || FetchError::Final("the server's reply is not one of etransfer".to_owned());
        let mut buffer = [0; 8 << 10];
        loop {
            if let Some(line) = self.found.pop_front() {
                return EtransferReply::parse(&line.map_err(|_| strange())?).map_err(|_| strange());
            }
            let read = self.wire.read(&mut buffer, is_over)?;
            if read == 0 {
                return Err(FetchError::Broken("the server closed the command channel".to_owned()));
            }
            let found = &mut self.found;
            self.lines.push(&buffer[..read], |line| found.push_back(line));
        }
    }

    /// The lines of a reply before its last one, which is `OK`; or one with a value, if it is the only one.
    pub(super) fn ask(
        &mut self,
        request: &EtransferRequest,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Vec<EtransferReply>, FetchError> {
        self.wire.write(format!("{request}\n").as_bytes(), is_over)?;
        let is_one = matches!(request, EtransferRequest::Version | EtransferRequest::Remove { .. });
        let mut all = Vec::new();
        loop {
            match self.reply(is_over)? {
                EtransferReply::Err(why) => {
                    let why = if why.is_empty() { "the server gives no reason".to_owned() } else { why };
                    return Err(FetchError::Final(why));
                }
                EtransferReply::Ok(text) if text.is_empty() => return Ok(all),
                other => all.push(other),
            }
            if is_one {
                return Ok(all);
            }
            if all.len() > MAX_LINES {
                return Err(FetchError::Final(format!("the server lists more than {MAX_LINES} names")));
            }
        }
    }

    /// Begins a transfer.
    pub(super) fn begin(
        &mut self,
        request: &EtransferRequest,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Begun, FetchError> {
        let (mut number, mut uuid) = (None, None);
        for line in self.ask(request, is_over)? {
            match line {
                EtransferReply::AlreadyHave(have) => number = i64::try_from(have).ok(),
                EtransferReply::Remain(remain) => number = Some(remain),
                EtransferReply::Uuid(text) => uuid = Some(text),
                _ => {}
            }
        }
        let begun = number.zip(uuid).map(|(number, uuid)| Begun { number, uuid });
        begun.ok_or_else(|| FetchError::Final("the server's reply lacks a number or the UUID".to_owned()))
    }

    /// Opens a file that is to have so many bytes; `None`: a file is there, and `mode` keeps it.
    pub(crate) fn write_file(
        &mut self,
        (path, size): (&str, u64),
        mode: UploadMode,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Option<WrittenFile>, FetchError> {
        let request = |mode| EtransferRequest::Write { mode, path: path.to_owned() };
        let mut begun = self.begin(&request(mode), is_over)?;
        if mode == UploadMode::SkipExisting {
            self.remove(&begun, is_over)?;
            if begun.number > 0 {
                return Ok(None);
            }
            // No server takes data in this mode.
            begun = self.begin(&request(UploadMode::Resume), is_over)?;
        }
        let have = u64::try_from(begun.number).unwrap_or(u64::MAX);
        if have > size {
            let _ = self.remove(&begun, is_over);
            let text = format!("the server has {have} bytes of it, more than the {size} here");
            return Err(FetchError::Final(text));
        }
        Ok(Some(WrittenFile { begun, have }))
    }

    /// An error unless the server has a file of so many bytes.
    pub(crate) fn verify(
        &mut self,
        path: &str,
        size: u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), FetchError> {
        let there = self.remain(path, size, is_over)?;
        if there != 0 {
            let text =
                format!("the server has {} bytes of it, not {size}", i128::from(size) + i128::from(there));
            return Err(FetchError::Final(text));
        }
        Ok(())
    }

    /// Ends a transfer.
    pub(crate) fn remove(&mut self, begun: &Begun, is_over: &dyn Fn() -> bool) -> Result<(), FetchError> {
        let request = EtransferRequest::Remove { uuid: begun.uuid.clone() };
        self.ask(&request, is_over).map(drop)
    }

    /// How many bytes of a file are behind so many; the server has opened it.
    pub(super) fn remain(
        &mut self,
        path: &str,
        have: u64,
        is_over: &dyn Fn() -> bool,
    ) -> Result<i64, FetchError> {
        let begun = self.begin(&EtransferRequest::Read { have, path: path.to_owned() }, is_over)?;
        self.remove(&begun, is_over)?;
        Ok(begun.number)
    }

    /// Opens a data channel of this server, and sends its head.
    pub(crate) fn channel(
        &mut self,
        head: &DataHeader,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Wire, FetchError> {
        let addresses = match &self.data {
            Some(addresses) => addresses.clone(),
            None => self.data_addresses(is_over)?,
        };
        self.data = Some(addresses.clone());
        let mut why = FetchError::Final("the server has no data channel for TCP".to_owned());
        for address in addresses {
            match Wire::connect(address, self.wire.patience) {
                Ok(mut wire) => {
                    wire.write(head.to_string().as_bytes(), is_over)?;
                    return Ok(wire);
                }
                Err(error) => {
                    let text = crate::remote::failure::plain(&error);
                    why = FetchError::Broken(format!("connect to the data channel {address}: {text}"));
                }
            }
        }
        Err(why)
    }

    /// The addresses of data channels. One that is for all of the server's addresses is that of the command channel.
    fn data_addresses(&mut self, is_over: &dyn Fn() -> bool) -> Result<Vec<SocketAddr>, FetchError> {
        let request = EtransferRequest::DataAddresses { with_options: self.has_version };
        let listed: Vec<EtransferAddress> =
            self.ask(&request, is_over)?.iter().filter_map(EtransferReply::data_address).collect();
        let peer = self.wire.stream.peer_addr().map_err(|error| broken(&error))?;
        let mut all = Vec::new();
        for EtransferAddress { protocol, host, port } in &listed {
            let is_six = match protocol {
                DataProtocol::Udt => continue,
                DataProtocol::Tcp => false,
                DataProtocol::Tcp6 => true,
            };
            let is_any = matches!(host.as_str(), "0.0.0.0" | "::");
            if is_any && peer.is_ipv6() == is_six {
                all.push(SocketAddr::new(peer.ip(), *port));
                continue;
            }
            let name = if is_any { self.host.as_str() } else { host.as_str() };
            let found = (name, *port).to_socket_addrs().into_iter().flatten();
            all.extend(found.filter(|at| at.is_ipv6() == is_six));
        }
        if all.is_empty() && listed.iter().any(|address| address.protocol == DataProtocol::Udt) {
            let hint = skyhaul::core::hint::Hint("start `etd` with a data channel for TCP");
            return Err(FetchError::Final(format!(
                "the server carries data by UDT only, which is not spoken here{hint}"
            )));
        }
        Ok(all)
    }
}
