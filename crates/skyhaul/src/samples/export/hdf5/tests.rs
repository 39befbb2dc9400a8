use super::lookup3;

#[test]
fn known_values() {
    // From the author's own test, `driver5`.
    assert_eq!(lookup3(b""), 0xDEAD_BEEF);
    assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
}
