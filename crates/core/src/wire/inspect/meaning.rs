//! What the values of fields mean, in words and units.

use crate::wire::{
    mark5b::{Mark5b, from_bcd},
    spead::{Descriptor, Item, id},
    vdif::{EPOCH_SECONDS, UNIX_2000, Vdif},
};

/// The meaning of a field of the `header` it is in; empty where the number says all.
pub(super) fn of(section: &str, name: &str, value: u64, header: &[u8]) -> String {
    match section {
        "VDIF" => vdif(name, value, header),
        "Mark 5B" | "EDV 0xAB" => mark5b(name, value, header),
        _ => extended(section, name, value, header),
    }
    .unwrap_or_default()
}

fn vdif(name: &str, value: u64, header: &[u8]) -> Option<String> {
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

fn mark5b(name: &str, value: u64, header: &[u8]) -> Option<String> {
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

fn extended(section: &str, name: &str, value: u64, header: &[u8]) -> Option<String> {
    Some(match (section, name) {
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
        ("reassembly", "version") => match value {
            0 => "as udplbd writes it".to_owned(),
            1 => "as E2SAR writes it".to_owned(),
            2 => "as packetBlaster writes it".to_owned(),
            _ => "unknown".to_owned(),
        },
        _ => return None,
    })
}

/// Name and meaning of a SPEAD item.
pub(super) fn of_item(item: Item) -> (&'static str, String) {
    let known = match item.id {
        id::NULL => "null",
        id::HEAP_COUNTER => "heap counter",
        id::HEAP_SIZE => "heap size",
        id::HEAP_OFFSET => "heap offset",
        id::PAYLOAD_LENGTH => "payload length",
        id::DESCRIPTOR => "descriptor",
        id::STREAM_CONTROL => "stream control",
        id::NAME => "descriptor name",
        id::DESCRIPTION => "descriptor description",
        id::SHAPE => "descriptor shape",
        id::TYPE => "descriptor type",
        id::ID => "descriptor id",
        id::DTYPE => "descriptor dtype",
        _ => return ("user item", format!("id {:#x}", item.id)),
    };
    let control = ["start", "descriptors again", "stop", "descriptors changed"];
    let meaning = match item.id {
        id::STREAM_CONTROL if item.immediate => control.get(item.value as usize).copied().unwrap_or_default(),
        _ => "",
    };
    (known, meaning.to_owned())
}

/// What a SPEAD descriptor says, in a line.
pub(super) fn of_descriptor(descriptor: &Descriptor) -> String {
    let mut words = format!("id {:#x}, {}", descriptor.id, shown(&descriptor.name));
    match &descriptor.numpy {
        Some(header) => words += &format!(", numpy {}", shown(header)),
        None => {
            let fields: Vec<String> = descriptor
                .format
                .iter()
                .take(MANY)
                .map(|(code, bits)| format!("{}{bits}", code.escape_default()))
                .collect();
            let size = |size: &Option<u64>| size.map_or("?".to_owned(), |size| size.to_string());
            let sizes: Vec<String> = descriptor.shape.iter().take(MANY).map(size).collect();
            words += &format!(", {}, shape ({})", fields.join(" "), sizes.join(", "));
        }
    }
    if descriptor.description.is_empty() {
        words
    } else {
        format!("{words}: {}", shown(&descriptor.description))
    }
}

/// How many letters, fields and dimensions of a descriptor are shown.
const MANY: usize = 160;

/// Text of a stranger, fit for a terminal.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(MANY) {
        if letter.is_ascii_graphic() || letter == ' ' {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_default());
        }
    }
    if text.chars().nth(MANY).is_some() { shown + "…" } else { shown }
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

    #[test]
    fn items_have_names() {
        let stop = Item { immediate: true, id: 6, value: 2 };
        assert_eq!(of_item(stop), ("stream control", "stop".to_owned()));
        assert_eq!(of_item(Item { id: 0x1001, ..stop }), ("user item", "id 0x1001".to_owned()));
    }
}
