//! Bytes written by hand from the figures of the RFCs.

use skyhaul_core::wire::crc32c::crc32c;
use skyhaul_core::wire::rdma::ddp::DdpHeader;
use skyhaul_core::wire::rdma::mpa::{self, Connect, MpaEnhanced};
use skyhaul_core::wire::rdma::rdmap::{ImmediateData, RdmapOpcode, ReadRequest};
use skyhaul_core::wire::rdma::shim::{UcControl, UcKind, UcShim};
use skyhaul_core::wire::rdma::terminate::{TERMINATE_REASONS, Terminate, TerminateReason};
use skyhaul_core::wire::rdma::{RdmaDatagram, RdmaProfile, RdmaRefusal, inspect};

/// A tagged segment (RFC 5041, 4.2): T and L, DV 1; RV 1, Write; STag 0x01020304; TO 0x1112131415161718.
const WRITE: [u8; 14] = [
    0b1100_0001,
    0b0100_0000, // T L Rsvd(4) DV(2); RV(2) Rsv(2) Opcode(4)
    0x01,
    0x02,
    0x03,
    0x04, // STag
    0x11,
    0x12,
    0x13,
    0x14,
    0x15,
    0x16,
    0x17,
    0x18, // TO
];
/// An untagged segment (RFC 5041, 4.3): not the last, Send with Solicited Event and Invalidate, QN 0, MSN 7, MO 1460.
const SEND: [u8; 18] = [
    0b0000_0001,
    0b0100_0110, //
    0xA0,
    0xB0,
    0xC0,
    0xD0, // Invalidate STag (RFC 5040, 4.3)
    0,
    0,
    0,
    0, // QN
    0,
    0,
    0,
    7, // MSN
    0,
    0,
    0x05,
    0xB4, // MO
];
/// A Read Request (RFC 5040, 4.4), on queue 1.
const READ: [u8; 46] = [
    0b0100_0001,
    0b0100_0001,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    0, //
    0x00,
    0x00,
    0x10,
    0x55, // Data Sink STag
    0,
    0,
    0,
    0,
    0,
    0,
    0x10,
    0, // Data Sink Tagged Offset
    0,
    1,
    0,
    0, // RDMA Read Message Size
    0x00,
    0x00,
    0x20,
    0xAA, // Data Source STag
    0,
    0,
    0,
    1,
    0,
    0,
    0,
    0, // Data Source Tagged Offset
];
/// Immediate Data with Solicited Event (RFC 7306, 6.1), MSN 3.
const IMMEDIATE: [u8; 26] = [
    0b0100_0001,
    0b0100_1001,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    3,
    0,
    0,
    0,
    0, //
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
];
/// A Terminate (RFC 5040, 4.8) of the Write above: DDP layer, tagged buffer, base or bounds; M and D.
const TERMINATE: [u8; 20] = [
    0x11,
    0x01,
    0b1100_0000,
    0, // Layer, EType, Error Code, M D R, Rsvd
    0,
    64, // DDP Segment Length
    0xC1,
    0x40,
    1,
    2,
    3,
    4,
    0x11,
    0x12,
    0x13,
    0x14,
    0x15,
    0x16,
    0x17,
    0x18,
];
/// An MPA request (RFC 5044, 7.1.1): key, C, revision 1, two bytes of private data.
const REQUEST: [u8; 22] = [
    0x4D, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52, 0x65, 0x71, 0x20, 0x46, 0x72, 0x61, 0x6D, 0x65, //
    0x40, 0x01, 0, 2, 0xAB, 0xCD,
];

fn read(profile: RdmaProfile, datagram: &[u8]) -> Result<RdmaDatagram, RdmaRefusal> {
    RdmaDatagram::read(profile, datagram)
}

#[test]
fn headers_are_those_of_the_figures() {
    let write = DdpHeader::tagged(RdmapOpcode::Write, true, 0x0102_0304, 0x1112_1314_1516_1718);
    assert_eq!(write.write(), WRITE);
    let send = DdpHeader::untagged(RdmapOpcode::SendSolicitedInvalidate, false, 7, 1460);
    assert_eq!(send.invalidating(0xA0B0_C0D0).write(), SEND);
    let request = ReadRequest {
        sink_stag: 0x1055,
        sink_offset: 4096,
        size: 65_536,
        source_stag: 0x20AA,
        source_offset: 1 << 32,
    };
    let ddp = DdpHeader::untagged(RdmapOpcode::ReadRequest, true, 1, 0);
    assert_eq!([&ddp.write()[..], &request.write()].concat(), READ);
    let ddp = DdpHeader::untagged(RdmapOpcode::ImmediateSolicited, true, 3, 0);
    let immediate = ImmediateData { value: 0x0102_0304_0506_0708 };
    assert_eq!([&ddp.write()[..], &immediate.write()].concat(), IMMEDIATE);
    for golden in [&WRITE[..], &SEND, &READ, &IMMEDIATE] {
        let Ok(RdmaDatagram::Segment(segment)) = read(RdmaProfile::Bare, golden) else {
            panic!("{golden:?}")
        };
        assert_eq!(segment.ddp.write(), golden[..segment.payload.start]);
        assert_eq!(inspect(RdmaProfile::Bare, golden).problem, None);
    }
}

#[test]
fn a_terminate_is_read_in_either_order_and_written_in_that_of_the_rfc() {
    let (ddp, _) = DdpHeader::read(&WRITE).unwrap();
    let terminate = Terminate { length: Some(64), ..Terminate::of(RdmaRefusal::OutOfBounds, &ddp) };
    assert_eq!(terminate.write(), TERMINATE);
    assert_eq!(Terminate::read(&TERMINATE), Ok(terminate));
    // MPA, CRC error, as a little-endian host with bit fields writes it: halves of octet 0 exchanged, M at the low end.
    let swapped = [0x02, 0x02, 0b0000_0001, 0, 0, 9];
    let read = Terminate::read(&swapped).unwrap();
    assert_eq!(read.reason, TerminateReason { layer: 2, error_type: 0, code: 2 });
    assert_eq!((read.length, read.ddp), (Some(9), None));
    let unique: std::collections::BTreeSet<_> =
        TERMINATE_REASONS.iter().map(|(layer, kind, code, _)| (layer, kind, code)).collect();
    assert_eq!(unique.len(), TERMINATE_REASONS.len());
    for cut in 4..TERMINATE.len() {
        assert_eq!(Terminate::read(&TERMINATE[..cut]), Err(RdmaRefusal::Truncated), "{cut}");
    }
}

#[test]
fn mpa_frames_are_those_of_the_figures() {
    let request = Connect { private: vec![0xAB, 0xCD], ..Connect::request() };
    assert_eq!(request.write(), REQUEST);
    let (back, taken) = Connect::read(&REQUEST).unwrap().unwrap();
    assert_eq!((back.private, taken, back.frame.crc), (vec![0xAB, 0xCD], 22, 1));
    for cut in 0..REQUEST.len() {
        assert_eq!(Connect::read(&REQUEST[..cut]), Ok(None), "{cut}: more is needed");
    }
    let mut marked = REQUEST;
    marked[16] |= 0x80;
    assert_eq!(Connect::read(&marked), Err(RdmaRefusal::Markers));
    marked[..4].copy_from_slice(b"HTTP");
    assert_eq!(Connect::read(&marked), Err(RdmaRefusal::Mismatch));
    let enhanced = MpaEnhanced { ird: 128, ord: 16, read_first: 1, ..MpaEnhanced::default() };
    let mut reply = Connect { enhanced: Some(enhanced), ..Connect::reply(true) };
    reply.frame.revision = 2;
    let octets = reply.write();
    assert_eq!(octets[..16], *mpa::REPLY_KEY);
    // C, R and S; revision 2; four bytes: IRD, and D with ORD.
    assert_eq!(octets[16..], [0x70, 2, 0, 4, 0, 128, 0x40, 16]);
    assert_eq!(Connect::read(&octets).unwrap().unwrap().0.enhanced, Some(enhanced));

    // 2 + 17 bytes, one of padding, and the CRC of all 20, in the order of RFC 3720, B.4: least significant first.
    let fpdu = mpa::fpdu(&[&WRITE[..], &[9; 3]].concat()).unwrap();
    assert_eq!((fpdu.len(), &fpdu[..2], fpdu[19]), (24, &[0, 17][..], 0));
    assert_eq!(fpdu[20..], crc32c(&fpdu[..20]).to_le_bytes());
    assert_eq!(mpa::unframed(&fpdu).unwrap().unwrap().1, 24);
    let seen = inspect(RdmaProfile::Tcp, &fpdu);
    assert_eq!((seen.problem, seen.payload, seen.payload_end), (None, 16, 19), "neither padding nor CRC");
    for bit in 0..fpdu.len() * 8 {
        let mut damaged = fpdu.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(!matches!(mpa::unframed(&damaged), Ok(Some(_))), "bit {bit}");
    }
    assert_eq!(mpa::fpdu(&[]), None);
    assert_eq!(mpa::unframed(&[0; 8]), Err(RdmaRefusal::WrongSize));
}

#[test]
fn each_refusal_of_a_single_segment() {
    let with = |at: usize, octet: u8, golden: &[u8]| {
        let mut changed = golden.to_vec();
        changed[at] = octet;
        read(RdmaProfile::Bare, &changed).map(drop)
    };
    assert_eq!(with(0, 0xC2, &WRITE), Err(RdmaRefusal::BadVersion));
    assert_eq!(with(1, 0x00, &WRITE), Err(RdmaRefusal::BadVersion));
    assert_eq!(with(1, 0x4C, &WRITE), Err(RdmaRefusal::BadOpcode));
    assert_eq!(with(1, 0x4A, &READ), Err(RdmaRefusal::Atomic));
    assert_eq!(with(1, 0x4B, &READ), Err(RdmaRefusal::Atomic));
    assert_eq!(with(1, 0x43, &WRITE), Err(RdmaRefusal::Mismatch), "a tagged Send");
    assert_eq!(with(9, 2, &READ), Err(RdmaRefusal::Mismatch), "a Read Request on queue 2");
    assert_eq!(with(0, 0xFD, &WRITE), Ok(()), "reserved bits are not checked");
    for golden in [&WRITE[..], &SEND] {
        for cut in 0..golden.len() {
            assert_eq!(read(RdmaProfile::Bare, &golden[..cut]), Err(RdmaRefusal::Truncated));
        }
    }
}

/// The shim is our own; these bytes are those of `docs/reference/rdma-wire.md`.
#[test]
fn the_shim_is_that_of_the_page() {
    let shim = UcShim {
        version: 1,
        first: 1,
        immediate: 1,
        conn_id: 0x0A0B_0C0D,
        psn: 5,
        msn: 6,
        offset: 0,
        ..UcShim::default()
    };
    let octets = [0x18, 0x80, 0x0A, 0x0B, 0x0C, 0x0D, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 0];
    assert_eq!(shim.write(), octets);
    let datagram = [&octets[..], &WRITE, b"data"].concat();
    let Ok(RdmaDatagram::Segment(segment)) = read(RdmaProfile::Uc, &datagram) else { panic!() };
    assert_eq!((segment.shim, &datagram[segment.payload]), (Some(shim), &b"data"[..]));
    assert_eq!(inspect(RdmaProfile::Uc, &datagram).payload, 32);

    let control = UcControl { kind: UcKind::Accept.code(), private_bytes: 2, ..UcControl::default() };
    let shim = UcShim { version: 1, control: 1, ..UcShim::default() };
    let bare = [&shim.write()[..], &control.write(), b"ab"].concat();
    assert_eq!(read(RdmaProfile::Uc, &bare), Err(RdmaRefusal::BadChecksum), "control always has a CRC");
    let sealed = |shim: UcShim, body: &[u8]| {
        let content = [&UcShim { crc: 1, ..shim }.write()[..], body].concat();
        [&content[..], &crc32c(&content).to_le_bytes()].concat()
    };
    let write = sealed(UcShim { version: 1, ..UcShim::default() }, &[&WRITE[..], b"data"].concat());
    let seen = inspect(RdmaProfile::Uc, &write);
    assert_eq!((seen.problem, seen.payload, seen.payload_end), (None, 32, 36), "without the CRC");
    let whole = sealed(shim, &bare[18..]);
    let Ok(RdmaDatagram::Control(_, read_back, private)) = read(RdmaProfile::Uc, &whole) else { panic!() };
    assert_eq!((read_back, &whole[private]), (control, &b"ab"[..]));
    let long = UcControl { private_bytes: 3, ..control };
    let long = sealed(shim, &[&long.write()[..], b"ab"].concat());
    assert_eq!(read(RdmaProfile::Uc, &long), Err(RdmaRefusal::WrongSize));
    assert_eq!(read(RdmaProfile::Uc, &[&[0x28], &datagram[1..]].concat()), Err(RdmaRefusal::BadVersion));
}
