//! Parsers given any bytes, and bytes to begin from.

use super::datagram::{RdmaDatagram, RdmaProfile};
use super::ddp::DdpHeader;
use super::inspect::inspect;
use super::mpa::{self, crc_octets};
use super::rdmap::{ImmediateData, RdmapOpcode, ReadRequest};
use super::refusal::RdmaRefusal;
use super::shim::{self, UcControl, UcShim};
use super::terminate;
use crate::wire::crc32c::crc32c;

/// Takes any bytes; panics where a promise is broken.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    for profile in RdmaProfile::ALL {
        match RdmaDatagram::read(profile, bytes) {
            Ok(RdmaDatagram::Segment(segment)) => {
                assert!(segment.payload.start <= segment.payload.end && segment.payload.end <= bytes.len());
                let start = segment.payload.start - segment.ddp.write().len();
                let (again, _) =
                    DdpHeader::read(&segment.ddp.write()).expect("a header that was read is whole");
                assert_eq!(again, segment.ddp, "a header does not write back");
                assert_eq!(segment.shim.map_or(0, |_| UcShim::LEN), start);
                let payload = &bytes[segment.payload.clone()];
                if segment.opcode == RdmapOpcode::Terminate {
                    let _ = terminate::Terminate::read(payload);
                }
            }
            Ok(RdmaDatagram::Control(_, control, private)) => {
                assert_eq!(private.len(), usize::from(control.private_bytes));
                assert!(private.end <= bytes.len());
            }
            Err(_) => {}
        }
        let seen = inspect(profile, bytes);
        assert!(seen.payload <= bytes.len());
        assert!(seen.rows.iter().all(|row| row.byte + row.width <= bytes.len()));
    }
    mpa::fuzz(bytes);
}

/// Datagrams from which fuzzing begins.
#[doc(hidden)]
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let write = DdpHeader::tagged(RdmapOpcode::Write, true, 0x0102_0304, 77).write();
    let bare = [&write[..], &[9; 40]].concat();
    let shim = UcShim { version: shim::VERSION, first: 1, conn_id: 7, psn: 1, msn: 1, ..UcShim::default() };
    let uc = [&shim.write()[..], &bare].concat();
    let sealed = |mut shim: UcShim, body: &[u8]| {
        shim.crc = 1;
        let datagram = [&shim.write()[..], body].concat();
        [&datagram[..], &crc_octets(crc32c(&datagram))].concat()
    };
    let request = ReadRequest { sink_stag: 1, size: 100, source_stag: 2, ..ReadRequest::default() };
    let read =
        [&DdpHeader::untagged(RdmapOpcode::ReadRequest, true, 1, 0).write()[..], &request.write()].concat();
    let immediate = DdpHeader::untagged(RdmapOpcode::Immediate, true, 1, 0).write();
    let immediate = [&immediate[..], &ImmediateData { value: 5 }.write()].concat();
    let control = UcControl { kind: shim::UcKind::Request.code(), private_bytes: 3, ..UcControl::default() };
    let control = [&control.write()[..], b"abc"].concat();
    let terminate =
        terminate::Terminate::of(RdmaRefusal::OutOfBounds, &DdpHeader::read(&write).expect("whole").0);
    let ended = DdpHeader::untagged(RdmapOpcode::Terminate, true, 1, 0).write();
    let mut all = vec![
        uc.clone(),
        sealed(shim, &bare),
        sealed(UcShim { control: 1, first: 0, ..shim }, &control),
        mpa::fpdu(&bare).expect("short"),
        mpa::fpdu(&read).expect("short"),
        mpa::Connect { private: b"xyz".to_vec(), ..mpa::Connect::request() }.write(),
        [&ended[..], &terminate.write()].concat(),
        read,
        immediate,
        bare,
    ];
    all.push(uc[..20].to_vec());
    all
}
