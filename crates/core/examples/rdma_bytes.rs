//! Prints the bytes of RDMA messages for another program to read.
//!
//! A line of input is one of
//!
//! ```text
//!   profile datagram crc write      stag offset length immediate      immediate: a number, or -
//!   profile datagram crc send       length invalidate solicited       invalidate: a number, or -; solicited: 0, 1
//!   profile datagram crc immediate  value solicited
//!   profile datagram crc read       source_stag source_offset length
//!   terminate NUMBER                 a Terminate for the refusal of this number; mpa request|reject private-in-hex ird ord
//! ```
//!
//! A line of output has its datagrams (FPDUs) in hex, separated by commas, or `error: …`. Payload byte n of a message is n modulo 251.

use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    AddressProof, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RemoteAddress, RemoteRead, RemoteWrite,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::ddp::DdpHeader;
use skyhaul_core::wire::rdma::mpa::{Connect, MpaEnhanced, fpdu};
use skyhaul_core::wire::rdma::rdmap::RdmapOpcode;
use skyhaul_core::wire::rdma::terminate::Terminate;
use skyhaul_core::wire::rdma::{RdmaProfile, RdmaRefusal};
use std::fmt::Write as _;
use std::net::SocketAddr;

struct Fixed;

impl AddressProof for Fixed {
    fn cookie(&self, _: SocketAddr, nonce: u64) -> [u8; 16] {
        u128::from(nonce | 1).to_be_bytes()
    }

    fn is_cookie(&self, peer: SocketAddr, nonce: u64, cookie: [u8; 16]) -> bool {
        self.cookie(peer, nonce) == cookie
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        let _ = write!(text, "{octet:02x}");
        text
    })
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|e| format!("{word}: {e}"))
}

fn maybe(word: &str) -> Result<Option<u64>, String> {
    if word == "-" { Ok(None) } else { number(word).map(Some) }
}

/// Two endpoints of one program, connected.
fn connected(config: RdmaConfig, context: &mut RdmaContext<'_>) -> Result<(RdmaEndpoint, u32), String> {
    let name = |why: RdmaRefusal| why.name().to_owned();
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let (mut one, mut other) = (RdmaEndpoint::new(config), RdmaEndpoint::new(config));
    if config.profile != RdmaProfile::Uc {
        let id = one.attach(at(2), context).map_err(name)?;
        return Ok((one, id));
    }
    let id = one.connect(at(2), &[], Nanos(1_000_000), context).map_err(name)?;
    for _ in 0..4 {
        while let Some(transmit) = one.poll_transmit(context) {
            other.handle_datagram(at(1), &transmit.assemble(&[]), context);
        }
        while let Some(event) = other.poll_event() {
            if let skyhaul_core::rdma::RdmaEvent::Requested { connection, .. } = event {
                other.accept(connection, &[], context).map_err(name)?;
            }
        }
        while let Some(transmit) = other.poll_transmit(context) {
            one.handle_datagram(at(2), &transmit.assemble(&[]), context);
        }
    }
    Ok((one, id))
}

fn message(words: &[&str], random: &mut dyn FnMut() -> u64) -> Result<String, String> {
    let [profile, datagram, crc, operation, rest @ ..] = words else { return Err("too few words".into()) };
    let profile = RdmaProfile::ALL.into_iter().find(|one| one.name() == *profile).ok_or("no such profile")?;
    let config = RdmaConfig {
        profile,
        datagram_bytes: number(datagram)? as u16,
        crc: (*crc == "1").then_some(true),
        ..RdmaConfig::default()
    };
    let mut context = RdmaContext { now: Nanos(1), random, proof: &Fixed, crc32c: crc32c_append };
    let (mut endpoint, id) = connected(config, &mut context)?;
    let source = |length| MemorySlice { memory: 0, start: 0, length };
    let done = match (*operation, rest) {
        ("write", [stag, offset, length, immediate]) => {
            let to = RemoteAddress { stag: number(stag)? as u32, offset: number(offset)? };
            let immediate = maybe(immediate)?;
            let write = RemoteWrite { source: source(number(length)?), to, immediate, is_solicited: false };
            endpoint.write(id, write)
        }
        ("send", [length, invalidate, solicited]) => {
            let invalidate = maybe(invalidate)?.map(|stag| stag as u32);
            endpoint.send(id, source(number(length)?), invalidate, *solicited == "1")
        }
        ("immediate", [value, solicited]) => endpoint.immediate(id, number(value)?, *solicited == "1"),
        ("read", [stag, offset, length]) => {
            let from = RemoteAddress { stag: number(stag)? as u32, offset: number(offset)? };
            let (sink, deadline) = (source(number(length)?), Nanos(1_000_000));
            endpoint.read(id, RemoteRead { sink, from, deadline, ask_again: None }, &mut context)
        }
        _ => return Err("no such operation".into()),
    };
    done.map_err(|why| why.name().to_owned())?;
    let mut all = Vec::new();
    while let Some(transmit) = endpoint.poll_transmit(&mut context) {
        let payload = transmit.payload.map_or(0..0, |slice| slice.start..slice.start + slice.length);
        let payload: Vec<u8> = payload.map(|at| (at % 251) as u8).collect();
        all.push(hex(&transmit.assemble(&payload)));
    }
    // The last control datagram of the set-up is no part of the message.
    let from = usize::from(profile == RdmaProfile::Uc && all.len() > 1 && all[0].starts_with("16"));
    Ok(all[from..].join(","))
}

fn terminate(words: &[&str]) -> Result<String, String> {
    let [which] = words else { return Err("a Terminate has a number".into()) };
    let refusal = RdmaRefusal::ALL.get(number(which)? as usize).copied().ok_or("no such refusal")?;
    let terminate = Terminate::of(refusal, &DdpHeader::tagged(RdmapOpcode::Write, true, 0x0102_0304, 99));
    let terminate = Terminate { length: Some(114), ..terminate };
    let ddp = DdpHeader::untagged(RdmapOpcode::Terminate, true, 1, 0);
    Ok(hex(&fpdu(&[&ddp.write()[..], &terminate.write()].concat()).ok_or("too long")?))
}

fn mpa(words: &[&str]) -> Result<String, String> {
    let [kind, private, ird, ord] = words else { return Err("an MPA frame has 4 words".into()) };
    let private = private.trim_matches('-').as_bytes().to_vec();
    let mut connect = if *kind == "request" { Connect::request() } else { Connect::reply(*kind == "reject") };
    if let (Some(ird), Some(ord)) = (maybe(ird)?, maybe(ord)?) {
        connect.enhanced = Some(MpaEnhanced { ird: ird as u16, ord: ord as u16, ..MpaEnhanced::default() });
        connect.frame.revision = 2;
    }
    Ok(hex(&Connect { private, ..connect }.write()))
}

fn main() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let done = match words.split_first() {
            Some((&"terminate", rest)) => terminate(rest),
            Some((&"mpa", rest)) => mpa(rest),
            _ => message(&words, &mut random),
        };
        println!("{}", done.unwrap_or_else(|error| format!("error: {error}")));
    }
}
