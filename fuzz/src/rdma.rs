//! RDMA: datagrams and streams of any bytes; an endpoint that whoever has a connection may send anything to.

use skyhaul_core::placement::Nanos;
use skyhaul_core::rdma::{
    AddressProof, MemorySlice, RdmaConfig, RdmaContext, RdmaEndpoint, RdmaEvent, RegionRights,
};
use skyhaul_core::wire::crc32c::crc32c_append;
use skyhaul_core::wire::rdma::{self, RdmaProfile};
use std::net::SocketAddr;

pub(crate) fn wire(bytes: &[u8]) {
    rdma::fuzz(bytes);
}

pub(crate) fn wire_seeds() -> Vec<Vec<u8>> {
    rdma::seeds()
}

struct Open;

impl AddressProof for Open {
    fn cookie(&self, _: SocketAddr, _: u64) -> [u8; 16] {
        [7; 16]
    }

    fn is_cookie(&self, _: SocketAddr, _: u64, cookie: [u8; 16]) -> bool {
        cookie == [7; 16]
    }
}

/// An open connection with `peer`; on UC, by a set-up with another endpoint.
fn opened(
    endpoint: &mut RdmaEndpoint,
    peer: SocketAddr,
    config: RdmaConfig,
    context: &mut RdmaContext<'_>,
) -> Option<u32> {
    if config.profile != RdmaProfile::Uc {
        return endpoint.attach(peer, context).ok();
    }
    let here = SocketAddr::from(([10, 0, 0, 2], 9));
    let id = endpoint.connect(peer, &[], Nanos(1 << 40), context).ok()?;
    let mut other = RdmaEndpoint::new(config);
    for _ in 0..3 {
        while let Some(transmit) = endpoint.poll_transmit(context) {
            other.handle_datagram(here, &transmit.assemble(&[]), context);
        }
        while let Some(event) = other.poll_event() {
            if let RdmaEvent::Requested { connection, .. } = event {
                other.accept(connection, &[], context).ok()?;
            }
        }
        while let Some(transmit) = other.poll_transmit(context) {
            endpoint.handle_datagram(peer, &transmit.assemble(&[]), context);
        }
    }
    let is_open = |event| matches!(event, RdmaEvent::Connected { .. });
    std::iter::from_fn(|| endpoint.poll_event()).any(is_open).then_some(id)
}

/// Where the region of the target lies in its memory.
const REGION: std::ops::Range<u64> = 64..1088;

/// The first octet chooses the profile; each datagram has two octets of length before it, and its connection's number and
/// the region's STag put in where mutations would not find them. No place is outside the region or a buffer.
pub(crate) fn endpoint(bytes: &[u8]) {
    let Some((choice, mut rest)) = bytes.split_first() else { return };
    let profile = RdmaProfile::ALL[usize::from(*choice) % RdmaProfile::ALL.len()];
    let config = RdmaConfig { profile, window: 4, runs: 8, ..RdmaConfig::default() };
    let (mut endpoint, mut state) = (RdmaEndpoint::new(config), 3u64);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    let peer = SocketAddr::from(([10, 0, 0, 1], 9));
    let mut context = RdmaContext { now: Nanos(1), random: &mut random, proof: &Open, crc32c: crc32c_append };
    let slice = MemorySlice { memory: 1, start: REGION.start, length: REGION.end - REGION.start };
    let rights = RegionRights { read: true, write: true, invalidate: true };
    let Ok(stag) = endpoint.register(slice, rights, &mut context) else { return };
    let Some(id) = opened(&mut endpoint, peer, config, &mut context) else { return };
    let _ = endpoint.post_receive(id, MemorySlice { memory: 2, start: 0, length: 256 });
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length)).min(behind.len());
        let (datagram, after) = behind.split_at(length);
        rest = after;
        let mut datagram = datagram.to_vec();
        let stag_at = if profile == RdmaProfile::Uc { 20 } else { 2 };
        if profile == RdmaProfile::Uc && datagram.len() > 6 {
            datagram[2..6].copy_from_slice(&id.to_be_bytes());
        }
        if datagram.get(stag_at..stag_at + 4).is_some_and(|word| word == [0, 0, 0, 1]) {
            datagram[stag_at..stag_at + 4].copy_from_slice(&stag.to_be_bytes());
        }
        let place = match profile {
            RdmaProfile::Tcp => endpoint.handle_segment(id, &datagram, &mut context),
            _ => endpoint.handle_datagram(peer, &datagram, &mut context),
        };
        if let Some(place) = place {
            let bounds = if place.to.memory == 1 { REGION } else { 0..256 };
            assert_eq!(place.from.len() as u64, place.to.length);
            assert!(place.to.start >= bounds.start && place.to.start + place.to.length <= bounds.end);
            assert!(place.from.end <= datagram.len());
        }
        context.now = context.now.plus(Nanos(u64::from(datagram.first().copied().unwrap_or(0)) << 18));
        endpoint.handle_timeout(&mut context);
        while endpoint.poll_event().is_some() {}
        for _ in 0..8 {
            let Some(transmit) = endpoint.poll_transmit(&mut context) else { break };
            assert!(transmit.payload.is_none_or(|slice| slice.memory == 1));
        }
    }
    endpoint.counts().check();
    assert!(endpoint.connections() <= config.connections);
}

pub(crate) fn endpoint_seeds() -> Vec<Vec<u8>> {
    use skyhaul_core::wire::rdma::ddp::DdpHeader;
    use skyhaul_core::wire::rdma::rdmap::RdmapOpcode;
    use skyhaul_core::wire::rdma::shim::UcShim;
    let framed = |choice: u8, datagrams: &[Vec<u8>]| {
        let with_length = |d: &Vec<u8>| [&(d.len() as u16).to_be_bytes()[..], d].concat();
        [vec![choice], datagrams.iter().flat_map(with_length).collect()].concat()
    };
    let write = |is_last, offset| DdpHeader::tagged(RdmapOpcode::Write, is_last, 1, offset).write();
    let bare = |is_last, offset| [&write(is_last, offset)[..], &[5; 100]].concat();
    let send = [&DdpHeader::untagged(RdmapOpcode::Send, true, 1, 0).write()[..], &[5; 100]].concat();
    let uc = |msn, offset: u32, is_last| {
        let first = u16::from(offset == 0);
        let shim = UcShim { version: 1, first, psn: msn, msn, offset, ..UcShim::default() };
        [&shim.write()[..], &bare(is_last, u64::from(offset))].concat()
    };
    vec![
        framed(0, &[bare(false, 0), bare(true, 100), bare(true, 0), send.clone()]),
        framed(1, &[uc(1, 0, false), uc(1, 100, true), uc(9, 0, true)]),
        framed(2, &[bare(false, 0), bare(true, 100), send]),
    ]
}
