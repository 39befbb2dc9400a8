//! Writes and Reads between two threads, each on its CPU.

use super::options::{End, READ_DEADLINE, RdmaBenchOptions};
use super::report::{Ran, RdmaBenchRun, metered};
use skyhaul::rdma::{
    ClientRead, MAX_READ_BYTES, MessageKind, PlacementTier, RdmaAddress, RdmaClient, RdmaClientOptions,
    RdmaServeReport, RdmaServer, RdmaWriteOptions, ServeOptions, WriteSource, write,
};
use skyhaul::stop::StopFlag;
use skyhaul_io::address::Transport;
use skyhaul_io::fault::Faults;
use skyhaul_io::host::thread::Usage;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The socket buffer of every receiver of datagrams.
const BUFFER: &str = "?rcvbuf=64MiB";
/// Bytes of Reads at a time, if these are more than one and no more than so many.
const OUTSTANDING_BYTES: u64 = 4 << 20;
const MAX_OUTSTANDING: u64 = 16;
/// A range is read in messages, then the next: between two, nothing is under way.
const RANGE_BYTES: u64 = 16 << 20;

/// A region of this many bytes that one peer uses.
pub(super) fn serving(
    options: &RdmaBenchOptions,
    bytes: u64,
    tier: PlacementTier,
    transport: Transport,
    crc: Option<bool>,
) -> io::Result<ServeOptions> {
    let listen = address_of(SocketAddr::new(options.address, 0), "", transport);
    let (listen, region) = (parsed(&listen)?, parsed(&format!("bench:{bytes}B:read,write"))?);
    let (connections, datagram_bytes) = (Some(1), Some(options.datagram_bytes));
    Ok(ServeOptions { connections, datagram_bytes, tier, crc, ..ServeOptions::new(listen, vec![region]) })
}

/// The address of that region.
pub(super) fn region(at: SocketAddr, transport: Transport) -> io::Result<RdmaAddress> {
    parsed(&address_of(at, "/bench", transport))
}

/// Buffers are the kernel's in a stream, where it sizes them by the path.
fn address_of(at: SocketAddr, region: &str, transport: Transport) -> String {
    let buffer = if transport == Transport::Udp { BUFFER } else { "" };
    format!("rdma+{}://{at}{region}{buffer}", transport.scheme())
}

/// A kernel that places nothing for this process is no failure: the candidate is skipped, with the reason.
pub(super) fn unplaced(tier: PlacementTier, error: io::Error) -> io::Error {
    if tier == PlacementTier::Bpf {
        io::Error::new(io::ErrorKind::Unsupported, error.to_string())
    } else {
        error
    }
}

/// An error if the kernel was to place and did not: the figures would be those of another candidate.
pub(super) fn placed_by(tier: PlacementTier, told: &RdmaServeReport) -> io::Result<()> {
    if tier == PlacementTier::Bpf && told.datagrams.placed_by_kernel == 0 {
        return Err(io::Error::other(format!("the kernel placed nothing: {}", told.placing)));
    }
    Ok(())
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> io::Result<T> {
    text.parse().map_err(|error| io::Error::other(format!("{text}: {error}")))
}

/// These datagrams withheld, others in each round.
fn withheld(loss: f64, round: u64) -> io::Result<Option<Faults>> {
    (loss > 0.0).then(|| parsed(&format!("loss={loss},seed={round}"))).transpose()
}

/// What each end did, and what it used for that.
struct Both<T> {
    served: (RdmaServeReport, Usage),
    peer: (T, Usage),
}

/// A server at one end and its peer at the other, until the peer has ended.
fn between<T: Send>(
    options: &RdmaBenchOptions,
    serve: ServeOptions,
    (server_end, peer_end): (End, End),
    peer: impl FnOnce(SocketAddr) -> io::Result<T> + Send,
) -> io::Result<Both<T>> {
    let (ready, listens) = mpsc::channel();
    let end = StopFlag::default();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            options.enter(server_end)?;
            let tier = serve.tier;
            let mut server = RdmaServer::open(serve).map_err(|error| unplaced(tier, error))?;
            // The other end waits for it.
            let _ = ready.send(server.local());
            drop(ready);
            metered(|| server.run(&end, None))
        });
        let done = listens.recv().map(|at| {
            let peer = scope.spawn(move || {
                options.enter(peer_end)?;
                metered(|| peer(at))
            });
            peer.join().unwrap_or_else(|_| Err(io::Error::other("the peer has failed")))
        });
        if !matches!(done, Ok(Ok(_))) || options.stop.is_set() {
            end.stop();
        }
        let served = server.join().unwrap_or_else(|_| Err(io::Error::other("the server has failed")));
        match (done, served) {
            (Ok(Ok(peer)), Ok(served)) => Ok(Both { served, peer }),
            (Ok(Err(error)), Ok(_)) | (_, Err(error)) => Err(error),
            (Err(error), Ok(_)) => Err(io::Error::other(error)),
        }
    })
}

/// How Writes go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub(super) tier: PlacementTier,
    pub(super) transport: Transport,
    pub(super) crc: Option<bool>,
    /// Each has immediate data, which wake the receiver.
    pub(super) immediate: bool,
}

/// Writes at the rate, some of them withheld.
pub(super) fn writes(
    options: &RdmaBenchOptions,
    message_bytes: u64,
    loss: f64,
    how: Writing,
    round: u64,
) -> io::Result<Ran> {
    let Writing { tier, transport, crc, immediate } = how;
    let serve = serving(options, options.memory, tier, transport, crc)?;
    let faults = withheld(loss, round)?;
    let both = between(options, serve, (End::Receiver, End::Sender), |at| {
        let how = RdmaWriteOptions {
            to: region(at, transport)?,
            source: WriteSource::Pattern,
            message_bytes,
            kind: MessageKind::Write { immediate },
            rate: options.rate,
            messages: None,
            duration: Some(options.time),
            deadline: Duration::from_secs(5),
            faults,
            datagram_bytes: Some(options.datagram_bytes),
            crc,
        };
        write(&how, &options.stop, &mut |_| {})
    })?;
    let ((served, server), (written, writer)) = (both.served, both.peer);
    // Only then is known how many were sent last.
    if written.closed_by != "here" {
        return Err(io::Error::other(format!("the connection ended by {}", written.closed_by)));
    }
    placed_by(tier, &served)?;
    let (out, at) = (&written.datagrams, &served.datagrams);
    let run = RdmaBenchRun {
        sent: out.segments,
        // Immediate data are datagrams without bytes for memory.
        placed: at.placed + at.consumed,
        lost: served.datagrams_lost,
        refused: at.refused_total(),
        lost_on_purpose: out.lost_on_purpose,
        placed_by_kernel: at.placed_by_kernel,
        sent_bytes: written.bytes,
        placed_bytes: at.placed_bytes,
        messages: written.messages,
        whole: Some(served.complete),
        is_lossy: served.datagrams_lost > out.lost_on_purpose || at.refused_total() > 0,
        ..RdmaBenchRun::default()
    };
    let immediate = if immediate { " with immediate data" } else { "" };
    let checksum = if crc == Some(false) { " without a CRC" } else { "" };
    let how = format!("RDMA Write{immediate}{checksum}: {}; placed by {}", written.mode, served.placing);
    Ok(Ran { run: run.settle(written.seconds, &writer, &server)?, how })
}

/// Reads at a time: as many as fit the caches of a CPU, but no more than make up for a round trip.
pub(super) fn outstanding(message_bytes: u64) -> usize {
    (OUTSTANDING_BYTES / message_bytes).clamp(1, MAX_OUTSTANDING) as usize
}

/// Reads of long ranges, some of the answers withheld.
pub(super) fn reads(
    options: &RdmaBenchOptions,
    message_bytes: u64,
    loss: f64,
    transport: Transport,
    round: u64,
) -> io::Result<Ran> {
    let serve = serving(options, options.memory, PlacementTier::Stage, transport, None)?;
    let arriving = withheld(loss, round)?;
    let outstanding = outstanding(message_bytes);
    let how = ClientRead {
        message_bytes: message_bytes.min(MAX_READ_BYTES),
        outstanding,
        ..ClientRead::new(READ_DEADLINE)
    };
    let both = between(options, serve, (End::Sender, End::Receiver), |at| {
        let to = region(at, transport)?;
        let connecting = RdmaClientOptions {
            to,
            arriving,
            leaving: None,
            datagram_bytes: Some(options.datagram_bytes),
            crc: None,
        };
        let client = RdmaClient::connect(connecting, &options.stop)?;
        let (began, mut run, mut longest) = (Instant::now(), RdmaBenchRun::default(), 0.0_f64);
        let range_bytes =
            (RANGE_BYTES.min(options.memory).max(message_bytes) / message_bytes) * message_bytes;
        let mut from = 0;
        while began.elapsed() < options.time && !options.stop.is_set() {
            let read = client.read(from..from + range_bytes, &how, &options.stop, &mut |_, _| Ok(()))?;
            from = if from + 2 * range_bytes > options.memory { 0 } else { from + range_bytes };
            (run.sent_bytes, run.placed_bytes) =
                (run.sent_bytes + range_bytes, run.placed_bytes + read.bytes);
            run.messages += read.reads;
            run.whole = Some(run.whole.unwrap_or(0) + read.complete);
            longest = longest.max(read.longest_seconds);
        }
        run.longest_seconds = Some(longest);
        Ok((run, began.elapsed().as_secs_f64(), client.close()?))
    })?;
    let ((served, server), ((mut run, seconds, told), reader)) = (both.served, both.peer);
    let (out, at) = (&served.datagrams, &told.datagrams);
    run.sent = out.segments;
    run.placed = at.placed;
    run.refused = at.refused_total();
    run.lost_on_purpose = at.arrivals_lost_on_purpose;
    // What the server sent and the reader did not see; less than none is refused with the sums.
    run.lost = run.sent.saturating_sub(run.placed + run.refused);
    run.is_lossy = at.kernel_drops + out.kernel_drops > 0 || (loss == 0.0 && run.lost > 0);
    let how =
        format!("RDMA Read, {outstanding} at a time, {} ms each: {}", READ_DEADLINE.as_millis(), told.mode);
    Ok(Ran { run: run.settle(seconds, &server, &reader)?, how })
}
