//! CRC-32C (Castagnoli, RFC 3720, 12.1), eight bytes at a time from tables of 8 KiB.
//!
//! A short header takes a few steps; with a single table, each byte would be a dependent step.

/// The CRC-32C of bytes whose CRC-32C is the first argument, followed by these. The core has [`crc32c_append`]; who has instructions of the
/// CPU for it passes them to what reads and writes whole payloads.
pub type Crc32cAppend = fn(u32, &[u8]) -> u32;

/// The polynomial, reflected.
const POLYNOMIAL: u32 = 0x82F6_3B78;

/// The contribution of a byte at this distance from the end.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut octet = 0;
    while octet < 256 {
        let (mut crc, mut bit) = (octet as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][octet] = crc;
        octet += 1;
    }
    let mut table = 1;
    while table < 8 {
        octet = 0;
        while octet < 256 {
            let before = tables[table - 1][octet];
            tables[table][octet] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            octet += 1;
        }
        table += 1;
    }
    tables
};

/// The CRC-32C of these bytes.
#[inline]
#[must_use]
pub fn crc32c(octets: &[u8]) -> u32 {
    crc32c_append(0, octets)
}

/// The CRC-32C of bytes whose CRC-32C is `crc`, followed by these.
#[inline]
#[must_use]
pub fn crc32c_append(crc: u32, octets: &[u8]) -> u32 {
    let mut crc = !crc;
    let (words, rest) = octets.as_chunks::<8>();
    for word in words {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        let at = |table: usize, octet: u8| TABLES[table][usize::from(octet)];
        crc = at(7, a) ^ at(6, b) ^ at(5, c) ^ at(4, d) ^ at(3, e) ^ at(2, f) ^ at(1, g) ^ at(0, h);
    }
    for &octet in rest {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ octet)];
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_values_of_rfc_3720() {
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(&ascending), 0x46DD_794E);
        assert_eq!(crc32c(&[]), 0);
    }

    proptest! {
        #[test]
        fn eight_at_a_time_is_one_at_a_time(octets in proptest::collection::vec(any::<u8>(), 0..70), cut in 0usize..70) {
            let mut crc = !0u32;
            for octet in &octets {
                crc ^= u32::from(*octet);
                (0..8).for_each(|_| crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 });
            }
            prop_assert_eq!(crc32c(&octets), !crc);
            let (front, back) = octets.split_at(cut.min(octets.len()));
            prop_assert_eq!(crc32c_append(crc32c(front), back), !crc);
        }
    }
}
