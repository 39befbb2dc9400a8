use super::*;
use crate::wire::{
    header::{Order, tests::round_trip},
    vtp,
};
use proptest::prelude::*;

#[test]
fn table_round_trips() {
    round_trip!(Mark5b);
}

/// Word 2, fraction, CRC of frames that a formatter wrote (MJD 821, second 19801).
const GOLDEN: [(u32, u16, u16); 4] = [
    (0x8211_9801, 0x0000, 0x975D),
    (0x8211_9801, 0x0001, 0x1758),
    (0x8211_9801, 0x0003, 0x9757),
    (0x8211_9801, 0x0004, 0x1746),
];

fn golden() -> [Mark5b; 4] {
    [0, 1, 2, 3].map(|i| {
        let (_, fraction, _) = GOLDEN[i];
        Mark5b::new(Time { day: 821, second: 19_801, frame: i as u32 }, u32::from(fraction))
    })
}

#[test]
fn crc_and_time_of_a_real_formatter() {
    for ((word2, fraction, want), header) in GOLDEN.into_iter().zip(golden()) {
        assert_eq!(crc(word2, fraction), want);
        assert_eq!((header.crc, header.day_bcd << 20 | header.second_bcd), (u32::from(want), word2));
        assert_eq!((header.time().unwrap().day, header.time().unwrap().second), (821, 19_801));
    }
}

#[test]
fn the_date_is_the_nearest_with_these_three_digits() {
    // MJD 56821 is 2014-06-13.
    let day = (56_821 - 40_587) * 86_400;
    assert_eq!(unix_seconds(821, 19_801, day + 400 * 86_400), day + 19_801);
    assert_eq!(unix_seconds(821, 0, day - 499 * 86_400), day);
    assert_eq!(unix_seconds(821, 0, day + 600 * 86_400), day + 1000 * 86_400);
}

#[test]
fn the_rate_shows_in_the_fractions() {
    assert_eq!(frames_per_second(&golden()), Some(6400), "512 Mb/s");
    assert_eq!(frames_per_second(&golden()[..1]), None, "frame 0 says nothing");
    let fast = Mark5b::new(Time { day: 1, second: 1, frame: 51_199 }, 9999);
    assert_eq!(frames_per_second(&[fast]), Some(51_200), "4 Gb/s, 16-bit frame number");
    let tested = golden().map(|header| Mark5b { test: 1, ..header });
    assert_eq!(frames_per_second(&tested), Some(6400), "the test bit is no part of the number");
}

fn packet(header: Mark5b) -> Vec<u8> {
    let mut packet = header.write().to_vec();
    packet.resize(FRAME, 0);
    packet
}

fn layout(fps: Option<u32>) -> Mark5bLayout {
    Mark5bLayout::new(Blocks::new(FRAME, 0, 1, 10 * FRAME as u64).unwrap(), None, fps, 0).unwrap()
}

fn position(layout: &Mark5bLayout, header: Mark5b) -> Result<u64, Reject> {
    layout.place(&packet(header)).map(|p| p.key.number * 10 + p.offset / FRAME as u64)
}

#[test]
fn frames_are_placed_by_time() {
    let at = |second, frame| Mark5b::new(Time { day: 821, second, frame }, 0);
    let known = layout(Some(6400));
    assert_eq!(position(&known, at(7, 6399)).unwrap() + 1, position(&known, at(8, 0)).unwrap());
    assert_eq!(position(&known, at(7, 0x8001)), position(&known, at(7, 1)), "15 bits are enough: test bit");
    let fast = layout(Some(51_200));
    assert_eq!(position(&fast, at(7, 0x8000)).unwrap(), position(&fast, at(7, 0x7FFF)).unwrap() + 1);
    let unknown = layout(None);
    assert!(
        unknown.short_objects()
            && position(&unknown, at(8, 0)).unwrap() > position(&unknown, at(7, 65_535)).unwrap()
    );
    assert_eq!(unknown.units_between(0, 1 << 40), None);
}

/// MJD 61 999 is followed by MJD 62 000, on 2028-08-17.
#[test]
fn the_first_day_of_a_thousand_follows_the_last() {
    let at = |day, second, frame| Mark5b::new(Time { day, second, frame }, 0);
    for days in [61_600, 61_999, 62_000, 62_400] {
        let near = (days - UNIX_EPOCH_MJD) * 86_400;
        let blocks = Blocks::new(FRAME, 0, 1, 10 * FRAME as u64).unwrap();
        let layout = Mark5bLayout::new(blocks, None, Some(6400), near).unwrap();
        let last = position(&layout, at(999, 86_399, 6399)).unwrap();
        assert_eq!(position(&layout, at(0, 0, 0)), Ok(last + 1), "near MJD {days}");
    }
    for near in [i64::MIN, i64::MAX] {
        let blocks = Blocks::new(FRAME, 0, 1, 10 * FRAME as u64).unwrap();
        let layout = Mark5bLayout::new(blocks, None, Some(1 << 16), near).unwrap();
        assert!(position(&layout, at(0, 0, 0)).is_ok(), "an index may say any time");
    }
}

#[test]
fn or_by_the_sequence_number_before_them() {
    let blocks = Blocks::new(FRAME + 8, 8, 1, 10 * FRAME as u64).unwrap();
    let layout = Mark5bLayout::new(blocks, Some(Order::Big), None, 0).unwrap();
    let broken_time = Mark5b { second_bcd: 0xFFFFF, ..golden()[0] };
    let whole = [&vtp::write(31, Order::Big)[..], &packet(broken_time)].concat();
    let place = layout.place(&whole).unwrap();
    assert_eq!((place.key.number, place.offset, place.start), (3, FRAME as u64, 8));
    let no_sync = [&vtp::write(31, Order::Big)[..], &packet(Mark5b::default())].concat();
    assert_eq!(layout.place(&no_sync), Err(Reject::BadMagic));
    let bare = Blocks::new(FRAME, 0, 1, 10 * FRAME as u64).unwrap();
    assert_eq!(Mark5bLayout::new(bare, Some(Order::Big), None, 0).unwrap_err(), Reject::WrongSize);
}

#[test]
fn each_refusal() {
    let (layout, good) = (layout(Some(6400)), golden()[1]);
    assert_eq!(position(&layout, good), Ok(position(&layout, golden()[0]).unwrap() + 1));
    let zero_crc = Mark5b { crc: 0, fraction_bcd: 0, ..good };
    assert_eq!(position(&layout, zero_crc), position(&layout, good), "formatters that write no CRC");
    assert_eq!(position(&layout, Mark5b { crc: 1, ..good }), Err(Reject::BadChecksum));
    assert_eq!(position(&layout, Mark5b { sync: 1, ..good }), Err(Reject::BadMagic));
    assert_eq!(position(&layout, Mark5b { second_bcd: 0xA, crc: 0, ..good }), Err(Reject::BadField));
    assert_eq!(position(&layout, Mark5b { second_bcd: 0x99999, crc: 0, ..good }), Err(Reject::BadField));
    assert_eq!(position(&layout, Mark5b { frame: 6400, ..good }), Err(Reject::BadField));
    assert_eq!(layout.place(&packet(good)[..FRAME - 1]), Err(Reject::Truncated));
    assert_eq!(layout.place(&[packet(good), vec![0]].concat()), Err(Reject::WrongSize));
}

proptest! {
    #[test]
    fn bcd_is_the_decimal_digits(value in 0u32..100_000_000, nibble in 0u32..8, digit in 10u32..16) {
        let bcd = to_bcd(value);
        prop_assert_eq!(format!("{bcd:x}").parse::<u32>().unwrap(), value);
        prop_assert_eq!(from_bcd(bcd), Some(value));
        prop_assert_eq!(from_bcd(bcd & !(15 << (4 * nibble)) | digit << (4 * nibble)), None);
    }

    #[test]
    fn any_header_is_placed_inside_its_object_or_refused(raw: [u8; 16], sync: bool, fps in proptest::option::of(1u32..100_000)) {
        let (mut header, _) = Mark5b::read(&raw).unwrap();
        if sync { header = Mark5b { sync: SYNC, crc: 0, day_bcd: to_bcd(header.day_bcd % 1000), ..header } }
        if let Ok(place) = layout(fps).place(&packet(header)) {
            prop_assert!(place.offset + place.length <= place.size.unwrap());
        }
    }
}
