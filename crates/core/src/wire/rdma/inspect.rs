//! Datagrams of RDMA field by field.

use super::datagram::{RdmaDatagram, RdmaProfile};
use super::ddp::{DdpHeader, DdpTagged, DdpUntagged};
use super::mpa::{self, CRC_BYTES, MpaEnhanced, MpaFrame};
use super::rdmap::{ImmediateData, RdmapOpcode, ReadRequest};
use super::refusal::RdmaRefusal;
use super::shim::{UcControl, UcKind, UcShim};
use super::terminate::{Terminate, TerminateControl, TerminateReason};
use crate::wire::family::Format;
use crate::wire::inspect::{Inspection, Reader, number};

/// The fields of a datagram; of the TCP profile, of a connect frame or an FPDU at the front of `bytes`.
#[must_use]
pub fn inspect(profile: RdmaProfile, bytes: &[u8]) -> Inspection {
    let mut reader = Reader::new(bytes);
    let problem = match profile {
        RdmaProfile::Bare => segment(&mut reader),
        RdmaProfile::Uc => uc(&mut reader),
        RdmaProfile::Tcp => tcp(&mut reader),
    };
    if let Err(refusal) = problem.and_then(|()| whole(profile, bytes)) {
        reader.fail(refusal.name(), refusal.reject(), 0);
    }
    let payload = reader.at().min(bytes.len());
    let (rows, problem) = reader.finish();
    let payload_end = segment_end(profile, bytes).max(payload);
    Inspection { format: Format::Auto, rows, problem, payload, payload_end }
}

/// One past the last octet of the DDP segment: before a checksum, and what fills up an FPDU.
fn segment_end(profile: RdmaProfile, bytes: &[u8]) -> usize {
    let without_crc = bytes.len().saturating_sub(CRC_BYTES);
    match profile {
        RdmaProfile::Uc if UcShim::read(bytes).is_some_and(|(shim, _)| shim.crc == 1) => without_crc,
        RdmaProfile::Tcp => {
            mpa::unframed(bytes).ok().flatten().map_or(bytes.len(), |(segment, _)| 2 + segment.len())
        }
        RdmaProfile::Uc | RdmaProfile::Bare => bytes.len(),
    }
}

/// What is wrong with it as a whole.
fn whole(profile: RdmaProfile, bytes: &[u8]) -> Result<(), RdmaRefusal> {
    match profile {
        RdmaProfile::Tcp => Ok(()),
        _ => RdmaDatagram::read(profile, bytes).map(drop),
    }
}

fn uc(reader: &mut Reader<'_>) -> Result<(), RdmaRefusal> {
    let is_control = UcShim::read(reader.packet()).is_some_and(|(shim, _)| shim.control == 1);
    if !reader.table("UC shim", UcShim::FIELDS, UcShim::LEN, number) {
        return Err(RdmaRefusal::Truncated);
    }
    if is_control {
        let meaning = |_: &str, name: &str, value: u64, _: &[u8]| {
            UcKind::of(value as u16).filter(|_| name == "kind").map(|kind| kind.name().to_owned())
        };
        let is_whole = reader.table("UC control", UcControl::FIELDS, UcControl::LEN, meaning);
        return if is_whole { Ok(()) } else { Err(RdmaRefusal::Truncated) };
    }
    segment(reader)
}

fn tcp(reader: &mut Reader<'_>) -> Result<(), RdmaRefusal> {
    let packet = reader.packet();
    let starts = |key: &[u8; 16]| packet.starts_with(key);
    if starts(mpa::REQUEST_KEY) || starts(mpa::REPLY_KEY) {
        if !reader.table("MPA", MpaFrame::FIELDS, MpaFrame::LEN, number) {
            return Err(RdmaRefusal::Truncated);
        }
        let is_enhanced = MpaFrame::read(packet).is_some_and(|(frame, _)| frame.enhanced == 1);
        if is_enhanced && !reader.table("MPA enhanced", MpaEnhanced::FIELDS, MpaEnhanced::LEN, number) {
            return Err(RdmaRefusal::Truncated);
        }
        return mpa::Connect::read(packet)?.map(drop).ok_or(RdmaRefusal::Truncated);
    }
    let length = crate::wire::Field {
        name: "ulpdu_length",
        byte: 0,
        width: 2,
        lsb: 0,
        bits: 16,
        order: crate::wire::Order::Big,
        doc: "Octets of the DDP segment.",
    };
    if !reader.table("FPDU", &[length], 2, number) {
        return Err(RdmaRefusal::Truncated);
    }
    segment(reader)?;
    let (inside, taken) = mpa::unframed(packet)?.ok_or(RdmaRefusal::Truncated)?;
    RdmaDatagram::read(RdmaProfile::Tcp, inside)?;
    let crc = crate::wire::Field { name: "crc", width: CRC_BYTES, bits: 32, ..length };
    let at = reader.at();
    reader.go_to(taken - CRC_BYTES);
    reader.table(
        "FPDU",
        &[crate::wire::Field { order: crate::wire::Order::Little, ..crc }],
        CRC_BYTES,
        number,
    );
    reader.go_to(at);
    Ok(())
}

fn opcode(_: &str, name: &str, value: u64, _: &[u8]) -> Option<String> {
    RdmapOpcode::of(value as u8).filter(|_| name == "opcode").map(|opcode| opcode.name().to_owned())
}

fn segment(reader: &mut Reader<'_>) -> Result<(), RdmaRefusal> {
    let is_tagged = reader.rest().first().ok_or(RdmaRefusal::Truncated)? >> 7 == 1;
    let header = DdpHeader::read(reader.rest()).map(|(header, _)| header);
    let is_whole = match is_tagged {
        true => reader.table("DDP tagged", DdpTagged::FIELDS, DdpTagged::LEN, opcode),
        false => reader.table("DDP untagged", DdpUntagged::FIELDS, DdpUntagged::LEN, opcode),
    };
    if !is_whole {
        return Err(RdmaRefusal::Truncated);
    }
    let is_body = match header?.checked_opcode()? {
        RdmapOpcode::ReadRequest => {
            reader.table("Read Request", ReadRequest::FIELDS, ReadRequest::LEN, number)
        }
        RdmapOpcode::Immediate | RdmapOpcode::ImmediateSolicited => {
            reader.table("Immediate Data", ImmediateData::FIELDS, ImmediateData::LEN, number)
        }
        RdmapOpcode::Terminate => {
            let body = reader.rest();
            let read = Terminate::read(body).map(|read| read.reason);
            let means = |reason: TerminateReason| reason.meaning().unwrap_or("unknown").to_owned();
            let at = reader.at();
            let is_whole = reader.table("Terminate", TerminateControl::FIELDS, TerminateControl::LEN, number);
            if let Ok(reason) = read {
                let value = u64::from(reason.code);
                let (section, name) = ("Terminate", "reason");
                let (byte, width, lsb, bits) = (at, TerminateControl::LEN, 16, 8);
                let meaning = means(reason);
                let row = crate::wire::inspect::Row { section, name, byte, width, lsb, bits, value, meaning };
                reader.row(row, 0);
            }
            is_whole
        }
        _ => true,
    };
    if is_body { Ok(()) } else { Err(RdmaRefusal::Truncated) }
}
