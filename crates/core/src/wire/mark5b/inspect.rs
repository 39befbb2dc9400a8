//! A Mark 5B packet field by field.

use super::{FRAME, Mark5b, from_bcd};
use crate::{placement::Reject, wire::inspect::reader::Reader};

/// The fields of a packet whose frame begins after `network` bytes.
pub(super) fn packet(reader: &mut Reader<'_>, network: usize) {
    reader.sequence(network);
    header(reader);
    let needed = network + FRAME;
    if reader.packet().len() < needed {
        reader.fail_at(0, "Mark 5B", Reject::Truncated, needed);
        reader.go_to(network + Mark5b::LEN);
    }
}

/// The fields of the header that begins here.
pub(crate) fn header(reader: &mut Reader<'_>) {
    if let Some(Err(reason)) = Mark5b::read(reader.rest()).map(|(header, _)| header.time()) {
        reader.fail("Mark 5B", reason, 0);
    }
    reader.table("Mark 5B", Mark5b::FIELDS, Mark5b::LEN, meaning);
}

/// The meaning of a header field.
pub(crate) fn meaning(_: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    let decimal = from_bcd(value as u32);
    let digits = || decimal.map_or("no BCD".to_owned(), |digits| digits.to_string());
    Some(match name {
        "day_bcd" => format!("MJD …{:0>3}", digits()),
        "second_bcd" => format!("{} s of the day", digits()),
        "fraction_bcd" => format!("0.{:0>4} s", digits()),
        "crc" if value == 0 => "none written".to_owned(),
        "crc" => match u64::from(Mark5b::read(header)?.0.computed_crc()) {
            right if right == value => "right".to_owned(),
            right => format!("should be {right:#06x}"),
        },
        _ => return None,
    })
}
