//! Loopback replies to the requests that every interface supports; the other replies are parsed from words laid out as
//! in the kernel's header.

use super::*;

fn lo() -> Card {
    Card::open("lo").unwrap()
}

fn refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL))
}

#[test]
fn loopback_says_its_features() {
    let features = lo().features().unwrap();
    assert!(features["tx-udp-segmentation"].on, "{features:?}");
    assert!(features["loopback"].on && !features["loopback"].changeable, "{features:?}");
    assert!(features["rx-gro"].changeable, "{features:?}");
}

#[test]
fn what_a_driver_does_not_say_is_an_error_and_no_zero() {
    assert!(refused(&lo().ring().unwrap_err()));
    assert!(refused(&lo().coalescing().unwrap_err()));
    assert!(refused(&lo().channels().unwrap_err()));
    assert!(refused(&lo().pause().unwrap_err()));
    assert!(refused(&lo().fec().unwrap_err()));
    assert!(refused(&lo().hash_fields("udp4").unwrap_err()));
    assert_eq!(lo().hash_fields("icmp").unwrap_err().raw_os_error(), Some(libc::EINVAL));
    assert!(!lo().timestamps().unwrap().sends, "loopback has no clock");
}

#[test]
fn an_interface_that_is_none_is_an_error() {
    for name in ["", "a-name-that-is-too-long", "no\0pe"] {
        assert_eq!(Card::open(name).unwrap_err().raw_os_error(), Some(libc::ENODEV), "{name:?}");
    }
    let gone = Card::open("no-such").unwrap();
    assert_eq!(gone.features().unwrap_err().raw_os_error(), Some(libc::ENODEV));
}

#[test]
fn a_setting_that_is_none_is_refused_before_the_kernel_sees_it() {
    for (setting, value) in [
        ("mtu", "9000"),
        ("feature/no-such", "on"),
        ("feature/rx-gro", "maybe"),
        ("coalesce/", "1"),
        ("ring/rx-max", "1"),
        ("ring/", "1"),
        ("ring/rx", "many"),
    ] {
        assert_eq!(lo().set(setting, value).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{setting}");
    }
    assert_eq!(lo().set("hash/udp4", "sx").unwrap_err().raw_os_error(), Some(libc::EINVAL));
}

#[test]
fn words_become_text_and_numbers() {
    let words: Vec<u32> = b"mlx5_core\0rest\0\0"
        .chunks_exact(4)
        .map(|four| u32::from_ne_bytes(four.try_into().unwrap()))
        .collect();
    assert_eq!(text(&octets(&words)), "mlx5_core");
    let low_first = [7u64.to_ne_bytes(), (1u64 << 40).to_ne_bytes()].concat();
    let words: Vec<u32> =
        low_first.chunks_exact(4).map(|four| u32::from_ne_bytes(four.try_into().unwrap())).collect();
    assert_eq!((long(&words), long(&words[2..])), (7, 1 << 40));
}

#[test]
fn sizes_of_rings_stand_where_the_kernel_has_them() {
    // struct ethtool_ringparam: cmd, rx_max, rx_mini_max, rx_jumbo_max, tx_max, rx, rx_mini, rx_jumbo, tx.
    assert_eq!(["rx", "tx"].map(ring_word), [Some(5), Some(8)]);
    assert_eq!(["rx-max", "tx-max", "", "rx_mini"].map(ring_word), [None; 4]);
    let names: Vec<usize> =
        RING.iter().enumerate().filter(|(_, name)| !name.is_empty()).map(|(at, _)| at + 1).collect();
    assert_eq!(names, [1, 4, 5, 8]);
}
