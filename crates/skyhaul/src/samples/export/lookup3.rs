//! The checksum of HDF5's metadata: Bob Jenkins' lookup3 (2006, public domain), `hashlittle` with an initial value of 0.

/// The checksum of these octets.
pub(super) fn lookup3(octets: &[u8]) -> u32 {
    let mut state = [0xDEAD_BEEF_u32.wrapping_add(octets.len() as u32); 3];
    let mut rest = octets;
    while rest.len() > 12 {
        let (block, behind) = rest.split_at(12);
        add(&mut state, block);
        mix(&mut state);
        rest = behind;
    }
    if rest.is_empty() {
        return state[2];
    }
    add(&mut state, rest);
    last(&mut state)
}

/// Add up to twelve octets, little-endian.
fn add(state: &mut [u32; 3], octets: &[u8]) {
    for (n, &octet) in octets.iter().enumerate() {
        state[n / 4] = state[n / 4].wrapping_add(u32::from(octet) << (n % 4 * 8));
    }
}

fn mix(state: &mut [u32; 3]) {
    let [mut a, mut b, mut c] = *state;
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    *state = [a, b, c];
}

fn last(state: &mut [u32; 3]) -> u32 {
    let [mut a, mut b, mut c] = *state;
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    c
}

#[cfg(test)]
mod tests {
    use super::lookup3;

    #[test]
    fn known_values() {
        // From the author's own test, `driver5`.
        assert_eq!(lookup3(b""), 0xDEAD_BEEF);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
