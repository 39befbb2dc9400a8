//! `file_check? [strict] : [bytes] : path`: what the samples of a file are, as `scan_check?` says it of a scan.
//!
//! m5copy asks for it when it is to send a file to a program that must know the format.

use super::arrival::MAX_PATH_BYTES;
use super::context::{Context, Pending, Refused, Step, Stepped, parameter};
use super::scan;
use crate::vsi::mode::digits;
use crate::vsi::reply::VsiCode;
use crate::vsi::view::{VsiAction, VsiOutcome};

/// Bytes in which jive5ab looks for frames, unless others are given; a file must have them.
const DEFAULT_BYTES: u64 = 1_000_000;
/// Maximum number of bytes to look at.
const MAX_BYTES: u64 = 2 << 30;

pub(super) fn file_check(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    let request = context.request;
    if !["", "0", "1"].contains(&request.field(0)) {
        return Err(parameter("expected 0 or 1 for strict"));
    }
    let bytes = bytes(request.field(1))?;
    match request.field(2) {
        "" => Err(parameter("expected the path of a file")),
        path if path.len() > MAX_PATH_BYTES => Err(parameter("the path is too long")),
        path => Ok(Step::Act(VsiAction::InspectFile { path: path.to_owned() }, Pending::CheckFile(bytes))),
    }
}

/// `500000`, `500k` or `5M`, as a multiple of 8.
fn bytes(text: &str) -> Result<u64, Refused> {
    let wrong =
        || parameter(format!("expected a number of bytes such as 5M, from 8 to {MAX_BYTES}, got {text}"));
    let (number, unit) = match text.as_bytes().last() {
        None => return Ok(DEFAULT_BYTES),
        Some(b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(_) => (text, 1),
    };
    let bytes = digits(number).and_then(|n| n.checked_mul(unit)).map(|bytes| bytes & !7);
    bytes.filter(|bytes| (1..=MAX_BYTES).contains(bytes)).ok_or_else(wrong)
}

pub(super) fn checked(context: &Context<'_>, bytes: u64, outcome: Option<VsiOutcome>) -> Stepped {
    let facts = scan::inspected(outcome)?;
    if facts.bytes < bytes {
        let why = format!("the file is too short to check, need {bytes} bytes, have {}", facts.bytes);
        return Err(Refused(VsiCode::Conflict, why));
    }
    Ok(Step::Reply(scan::described(context.reply(VsiCode::Done), &facts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units() {
        let of = |text| bytes(text).ok();
        assert_eq!(
            [of(""), of("1001"), of("5k"), of("2M"), of("2048M")],
            [Some(1_000_000), Some(1000), Some(5120), Some(2 << 20), Some(2 << 30)]
        );
        for bad in ["0", "7", "k", "-1", "2049M", "5G", "18446744073709551615M"] {
            assert!(of(bad).is_none(), "{bad}");
        }
    }
}
