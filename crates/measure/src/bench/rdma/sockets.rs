//! Plain sockets for the same work: datagrams in trains, and a byte stream.

use super::options::{End, RdmaBenchOptions};
use super::report::{Ran, RdmaBenchRun, metered};
use skyhaul_core::pace::Pacer;
use skyhaul_core::placement::Nanos;
use skyhaul_io::address::Endpoint;
use skyhaul_io::baseline::{BareReceiver, BareReceiverOptions, BareSender, Give, Take, Taken};
use skyhaul_io::host::thread::Usage;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Write a message again and again for the time of a run, paced by sleeps as RDMA is. Returns the beginning, and the number of messages.
fn repeat(
    options: &RdmaBenchOptions,
    message_bytes: u64,
    mut write: impl FnMut() -> io::Result<()>,
) -> io::Result<(Instant, u64)> {
    let began = Instant::now();
    let (mut pacer, mut messages) = (Pacer::new(options.rate, Nanos(0)), 0);
    while began.elapsed() < options.time && !options.stop.is_set() {
        let early = Duration::from_nanos(pacer.due().since(began.elapsed().into()).0);
        if !early.is_zero() {
            std::thread::sleep(early);
        }
        write()?;
        pacer.sent(message_bytes, began.elapsed().into());
        messages += 1;
    }
    Ok((began, messages))
}

/// Run both ends, each on its CPU and in its network; the second begins when the first has said where it listens.
fn both<R: Send, S: Send>(
    options: &RdmaBenchOptions,
    receive: impl FnOnce(mpsc::Sender<SocketAddr>) -> io::Result<(R, Usage)> + Send,
    send: impl FnOnce(SocketAddr) -> io::Result<(S, Usage)> + Send,
    done: &AtomicBool,
) -> io::Result<((S, Usage), (R, Usage))> {
    let (ready, listens) = mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            options.enter(End::Receiver)?;
            receive(ready)
        });
        let sent = listens.recv().map_err(io::Error::other).and_then(|at| {
            let sender = scope.spawn(move || {
                options.enter(End::Sender)?;
                send(at)
            });
            sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender has failed")))
        });
        done.store(true, Ordering::Release);
        let received = receiver.join().unwrap_or_else(|_| Err(io::Error::other("the receiver has failed")));
        // The receiver's error is the cause if it never listened.
        let received = received?;
        Ok((sent?, received))
    })
}

/// sendmmsg with GSO to recvmmsg with GRO, and one copy into a ring.
pub(super) fn udp(options: &RdmaBenchOptions, message_bytes: u64) -> io::Result<Ran> {
    let packet = usize::from(options.datagram_bytes);
    let done = AtomicBool::new(false);
    let at: Endpoint =
        format!("udp://{}", SocketAddr::new(options.address, 0)).parse().map_err(io::Error::other)?;
    let receive = |ready: mpsc::Sender<SocketAddr>| {
        let how = BareReceiverOptions {
            take: Take::Trains,
            packet_bytes: packet,
            strip: 0,
            memory: options.memory as usize,
        };
        let mut receiver = BareReceiver::open(&at, &how)?;
        let _ = ready.send(receiver.local());
        drop(ready);
        metered(|| {
            let (mut all, mut last) = (Taken::default(), Instant::now());
            loop {
                // Looked at first: what was sent before it is in the socket.
                let (was_done, before) = (done.load(Ordering::Acquire), all.packets);
                receiver.poll(&mut |taken| {
                    all.packets += taken.packets;
                    all.bytes += taken.bytes;
                })?;
                if all.packets > before {
                    last = Instant::now();
                } else if was_done {
                    return Ok((all, last));
                }
            }
        })
    };
    let send = |to: SocketAddr| {
        let message = vec![0x5a_u8; message_bytes as usize];
        let mut sender = BareSender::open(&at.at(to), Give::Trains, packet)?;
        let batch = sender.batch_packets() * packet;
        metered(|| {
            repeat(options, message_bytes, || {
                message.chunks(batch).try_for_each(|part| sender.send(part).map(drop))
            })
        })
    };
    let (((began, messages), sender), ((taken, last), receiver)) = both(options, receive, send, &done)?;
    let sent = messages * message_bytes.div_ceil(packet as u64);
    let lost =
        sent.checked_sub(taken.packets).ok_or_else(|| io::Error::other("more arrived than was sent"))?;
    let run = RdmaBenchRun {
        sent,
        placed: taken.packets,
        lost,
        sent_bytes: messages * message_bytes,
        placed_bytes: taken.bytes,
        messages,
        // Datagrams have no numbers: which message one belonged to is not known.
        whole: (lost == 0).then_some(messages),
        is_lossy: lost > 0,
        ..RdmaBenchRun::default()
    };
    let seconds = last.saturating_duration_since(began).as_secs_f64();
    let how = "UDP socket: sendmmsg with GSO, recvmmsg with GRO, a copy into memory".to_owned();
    Ok(Ran { run: run.settle(seconds, &sender, &receiver)?, how })
}

/// Bytes that one call reads at most.
const READ_BYTES: usize = 1 << 20;

/// write to read, into a ring.
pub(super) fn tcp(options: &RdmaBenchOptions, message_bytes: u64) -> io::Result<Ran> {
    let done = AtomicBool::new(false);
    let receive = |ready: mpsc::Sender<SocketAddr>| {
        let listener = TcpListener::bind(SocketAddr::new(options.address, 0))?;
        let mut ring = vec![1_u8; options.memory as usize];
        let _ = ready.send(listener.local_addr()?);
        drop(ready);
        let mut stream = accept(&listener, &done)?;
        metered(|| {
            let (mut at, mut all, mut last) = (0, 0_u64, Instant::now());
            loop {
                let room = READ_BYTES.min(ring.len() - at);
                match stream.read(&mut ring[at..at + room])? {
                    0 => return Ok((all, last)),
                    n => {
                        (at, all, last) = ((at + n) % ring.len(), all + n as u64, Instant::now());
                    }
                }
            }
        })
    };
    let send = |to: SocketAddr| {
        let message = vec![0x5a_u8; message_bytes as usize];
        let mut stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        metered(|| {
            let written = repeat(options, message_bytes, || stream.write_all(&message));
            drop(stream);
            written
        })
    };
    let (((began, messages), sender), ((placed_bytes, last), receiver)) =
        both(options, receive, send, &done)?;
    let sent = messages * message_bytes;
    if sent != placed_bytes {
        let text = format!("the counts do not agree: {sent} bytes written, {placed_bytes} read");
        return Err(io::Error::other(text));
    }
    let run = RdmaBenchRun {
        sent_bytes: sent,
        placed_bytes,
        messages,
        whole: Some(messages),
        ..RdmaBenchRun::default()
    };
    let seconds = last.saturating_duration_since(began).as_secs_f64();
    let how = "TCP socket: write, and read into memory".to_owned();
    Ok(Ran { run: run.settle(seconds, &sender, &receiver)?, how })
}

/// The connection, unless the other end has failed.
fn accept(listener: &TcpListener, done: &AtomicBool) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock && !done.load(Ordering::Acquire) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(e) => return Err(e),
        }
    }
}
