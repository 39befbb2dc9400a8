//! An RSP packet field by field.

use super::{Rsp, UNSET};
use crate::{placement::Reject, wire::inspect::reader::Reader};

/// The fields of a packet.
pub(super) fn packet(reader: &mut Reader<'_>) {
    let header = Rsp::read(reader.rest()).map(|(header, _)| header);
    if let Some(header) = &header {
        if let Some(Err(reason)) = header.payload_bytes().map(|_| header.time()) {
            reader.fail("LOFAR RSP", reason, 0);
        }
        if header.payload_bytes().is_none() {
            reader.fail("LOFAR RSP", Reject::BadField, 0);
        }
    }
    reader.table("LOFAR RSP", Rsp::FIELDS, Rsp::LEN, meaning);
    let needed = header.and_then(|header| header.payload_bytes()).map(|payload| Rsp::LEN + payload);
    if let Some(needed) = needed.filter(|&needed| reader.packet().len() < needed) {
        reader.fail_at(0, "LOFAR RSP", Reject::Truncated, needed);
        reader.go_to(Rsp::LEN);
    }
}

/// The meaning of a header field.
fn meaning(_: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    let (rsp, _) = Rsp::read(header)?;
    Some(match name {
        "version" => match value {
            2 => "BDI 5.0".to_owned(),
            3 => "BDI 6.0".to_owned(),
            _ => "not known".to_owned(),
        },
        "clock" => format!("{} MHz", rsp.clock_hz() / 1_000_000),
        "sample" => rsp.bits().map_or("not known".to_owned(), |bits| format!("{bits} bits")),
        "payload_error" if value == 1 => "the payload must not be used".to_owned(),
        "second" if value == u64::from(UNSET) => "the board's clock is not set".to_owned(),
        "slice" => rsp.time().map_or("invalid slice".to_owned(), |slices| format!("{slices} since 1970")),
        _ => return None,
    })
}
