//! A VDIF packet field by field.

use super::{EPOCH_SECONDS, Extended, Header, UNIX_2000, Vdif, extended::Words};
use crate::{
    placement::Reject,
    wire::{inspect::reader::Reader, mark5b},
};

/// The fields of a packet whose frame begins after `network` bytes.
pub(super) fn packet(reader: &mut Reader<'_>, network: usize) {
    reader.sequence(network);
    let start = reader.at();
    let Some((vdif, _)) = Vdif::read(reader.rest()) else {
        reader.table("VDIF", Vdif::FIELDS, Vdif::LEN, meaning);
        return;
    };
    reader.table("VDIF", Vdif::FIELDS, Vdif::LEN, meaning);
    if vdif.legacy == 0 {
        let extended = Extended::read(reader.rest());
        let (section, fields) = extended.as_ref().unwrap_or(&Extended::Legacy).table();
        reader.table(section, fields, Words::LEN, self::extended);
    }
    let frame = reader.packet().get(start..).unwrap_or_default();
    if let Err(reason) = Header::read(frame) {
        reader.fail_at(
            start,
            "VDIF",
            reason,
            if reason == Reject::Truncated { vdif.frame_bytes() } else { 0 },
        );
    }
}

fn meaning(_: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    let epoch = EPOCH_SECONDS.get(value as usize).map(|&seconds| UNIX_2000 + i64::from(seconds));
    let vdif = || Vdif::read(header).map(|(vdif, _)| vdif);
    Some(match name {
        "invalid" if value == 1 => "samples not valid".to_owned(),
        "legacy" if value == 1 => "16-octet header".to_owned(),
        "seconds" => utc(vdif()?.unix_seconds()),
        "epoch" => utc(epoch?).get(..10)?.to_owned(),
        "log2_channels" => format!("{} channels", 1u64 << value),
        "length8" => format!("{} octets", 8 * value),
        "bits_minus_one" => format!("{} bits per sample", value + 1),
        "complex" => if value == 1 { "complex" } else { "real" }.to_owned(),
        "station" => vdif()?.station_text(),
        _ => return None,
    })
}

fn extended(section: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    Some(match (section, name) {
        ("EDV 0xAB", _) => return mark5b::meaning(section, name, value, header),
        ("EDV 1" | "EDV 3", "rate") => {
            let megahertz = header.get(3 - 1)? & 0x80 != 0;
            format!("{value} {}", if megahertz { "MHz" } else { "kHz" })
        }
        ("EDV 1", "name") => {
            let letters = value.to_le_bytes();
            letters.iter().filter(|c| c.is_ascii_graphic()).map(|&c| char::from(c)).collect()
        }
        ("EDV 2 R2DBE", "pps_difference") => {
            let ticks = value as u32 as i32;
            format!("{:+.3} µs", f64::from(ticks) / 256.0)
        }
        ("EDV 3", "tuning") => format!("{:.6} MHz", value as f64 / f64::from(1 << 24)),
        ("EDV 3", "sideband") => if value == 1 { "upper" } else { "lower" }.to_owned(),
        _ => return None,
    })
}

/// A Unix time as ISO 8601 in UTC.
fn utc(unix: i64) -> String {
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years, so that the leap day is a year's last.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (date, january) = (day - (153 * month + 2) / 5 + 1, month >= 10);
    let (year, month) = (era * 400 + year + i64::from(january), if january { month - 9 } else { month + 3 });
    format!("{year:04}-{month:02}-{date:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
        assert_eq!(utc(-1), "1969-12-31T23:59:59Z");
    }
}
