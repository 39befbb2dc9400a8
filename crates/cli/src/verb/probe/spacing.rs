//! The spacing of a rate.

/// Picoseconds from one datagram to the next at a rate of payload.
pub(super) fn spacing(size: u32, bits_per_second: u64) -> u64 {
    let picoseconds = u128::from(size) * 8 * 1_000_000_000_000 / u128::from(bits_per_second.max(1));
    u64::try_from(picoseconds).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_spacing_to_the_picosecond() {
        assert_eq!(spacing(8972, 100_000_000_000), 717_760);
        assert_eq!(spacing(64, u64::MAX), 1);
    }
}
