//! The least that a server and a client of files over HTTP do, with and without TLS: what servers are measured beside.
//!
//! ```text
//! bare_http serve DIRECTORY ADDRESS [CERTIFICATE KEY]
//! bare_http get ADDRESS PATH FILES ROUNDS [CERTIFICATE]
//! ```
//!
//! `serve` answers every request with the file that it names: a read and a write of 1 MiB at a time, blocking, one thread a connection. It looks at
//! nothing else of the request, and serves programs of this host alone. With a certificate it writes the same pieces through rustls.
//!
//! `get` asks any server for the files of PATH, one after another on one connection, each `{}` in it being 0 to FILES - 1, ROUNDS times over; it reads into one
//! buffer and looks at nothing of what it reads. It prints JSON: bytes of bodies, requests, seconds and its own CPU seconds.
//!
//! `tests/interop/bench_http.py` runs both beside `skyhaul serve` and XRootD.

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use skyhaul::io::host::thread::process_cpu_time;
use std::error::Error;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a read and of a write.
const PIECE: usize = 1 << 20;
/// Longest head of a request or a reply, bytes.
const HEAD: usize = 16 << 10;
/// Time without a byte after which either end gives up.
const SILENCE: Duration = Duration::from_secs(60);

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", directory, address] => serve(Path::new(directory), address, None),
        ["serve", directory, address, certificate, key] => {
            serve(Path::new(directory), address, Some(&server_config(certificate, key)?))
        }
        ["get", address, path, files, rounds] => {
            get(connect(address)?, (address, path), (files.parse()?, rounds.parse()?))
        }
        ["get", address, path, files, rounds, certificate] => {
            let name = ServerName::try_from(address.rsplit_once(':').ok_or("no port")?.0.to_owned())?;
            let session = ClientConnection::new(client_config(certificate)?, name)?;
            let stream = StreamOwned::new(session, connect(address)?);
            get(stream, (address, path), (files.parse()?, rounds.parse()?))
        }
        _ => Err("bare_http serve DIRECTORY ADDRESS [CERTIFICATE KEY] | get ADDRESS PATH FILES ROUNDS [CERTIFICATE]".into()),
    }
}

fn server_config(certificate: &str, key: &str) -> Result<Arc<ServerConfig>, Failure> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    Ok(Arc::new(config))
}

fn client_config(certificate: &str) -> Result<Arc<ClientConfig>, Failure> {
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_file_iter(certificate)? {
        roots.add(one?)?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn connect(address: &str) -> io::Result<TcpStream> {
    prepared(TcpStream::connect(address)?)
}

fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

fn serve(directory: &Path, address: &str, tls: Option<&Arc<ServerConfig>>) -> Result<(), Failure> {
    let listener = TcpListener::bind(address)?;
    if !listener.local_addr()?.ip().is_loopback() {
        return Err("it serves this host alone: give an address of loopback".into());
    }
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept()?;
        let (directory, tls) = (directory.to_owned(), tls.cloned());
        std::thread::spawn(move || {
            // The client reports what it did not get.
            let _ = answer(stream, &directory, tls);
        });
    }
}

fn answer(stream: TcpStream, directory: &Path, tls: Option<Arc<ServerConfig>>) -> Result<(), Failure> {
    let mut stream: Box<dyn Stream> = match tls {
        None => Box::new(prepared(stream)?),
        Some(config) => Box::new(StreamOwned::new(ServerConnection::new(config)?, prepared(stream)?)),
    };
    let (mut read, mut piece) = (Vec::new(), vec![0; PIECE]);
    while let Some(head) = head(&mut stream, &mut read)? {
        let path = head.split(' ').nth(1).ok_or("no path")?;
        let file = File::open(below(directory, path)?)?;
        let size = file.metadata()?.len();
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").as_bytes())?;
        let mut at = 0;
        while at < size {
            let bytes = file.read_at(&mut piece, at)?;
            if bytes == 0 {
                return Err("the file became shorter".into());
            }
            stream.write_all(&piece[..bytes])?;
            at += bytes as u64;
        }
        stream.flush()?;
    }
    Ok(())
}

/// The file below the directory that a path names.
fn below(directory: &Path, path: &str) -> Result<PathBuf, Failure> {
    let names = path.trim_start_matches('/');
    if names.split('/').any(|name| name.is_empty() || name == "..") {
        return Err("not a path below the directory".into());
    }
    Ok(directory.join(names))
}

/// The next head, without its last line; what was read behind it stays. `None` at the end of the stream.
fn head(stream: &mut impl Read, read: &mut Vec<u8>) -> Result<Option<String>, Failure> {
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            let head = String::from_utf8(std::mem::replace(read, rest))?;
            return Ok(Some(head));
        }
        if read.len() > HEAD {
            return Err("a head is too long".into());
        }
        let mut more = [0; HEAD];
        match stream.read(&mut more)? {
            0 => return Ok(None),
            bytes => read.extend_from_slice(&more[..bytes]),
        }
    }
}

fn get(
    mut stream: impl Stream,
    (address, path): (&str, &str),
    (files, rounds): (u64, u64),
) -> Result<(), Failure> {
    let (mut read, mut piece) = (Vec::new(), vec![0; PIECE]);
    let (begun, cpu) = (Instant::now(), process_cpu_time());
    let mut bytes = 0;
    for at in (0..rounds).flat_map(|_| 0..files) {
        let path = path.replace("{}", &at.to_string());
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let head = head(&mut stream, &mut read)?.ok_or("the server closed the connection")?;
        if !head.starts_with("HTTP/1.1 200") {
            return Err(head.lines().next().unwrap_or_default().into());
        }
        let length = |line: &str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<u64>().ok())?
        };
        let size = head.lines().find_map(length).ok_or("no length")?;
        let mut left = size.checked_sub(read.len() as u64).ok_or("more than was asked for")?;
        read.clear();
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            match stream.read(&mut piece[..most])? {
                0 => return Err("the server closed the connection".into()),
                got => left -= got as u64,
            }
        }
        bytes += size;
    }
    let (seconds, cpu) = (begun.elapsed(), process_cpu_time().saturating_sub(cpu));
    let requests = files * rounds;
    println!(
        "{{\"bytes\":{bytes},\"requests\":{requests},\"seconds\":{},\"cpu_seconds\":{}}}",
        seconds.as_secs_f64(),
        cpu.as_secs_f64()
    );
    Ok(())
}
