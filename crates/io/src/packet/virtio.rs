//! The header before a frame that describes incomplete checksums and unsegmented trains: `struct virtio_net_hdr`.

/// Its length in bytes.
pub const VIRTIO: usize = 10;
const NEEDS_CHECKSUM: u8 = 1;
const KIND: u8 = 0x7F;

/// What is left to do with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Virtio {
    flags: u8,
    /// How it is cut: 0 not, 1 and 4 TCP over IPv4 and IPv6, 5 UDP; the highest bit: explicit congestion notification.
    pub kind: u8,
    /// Bytes of all headers.
    pub headers: u16,
    /// Bytes of payload in each packet.
    pub each: u16,
    /// Where the checksum begins.
    pub begin: u16,
    /// Where it is written, from there.
    pub offset: u16,
}

impl Virtio {
    /// Of TCP over IPv4.
    pub const TCP4: u8 = 1;
    /// Of TCP over IPv6.
    pub const TCP6: u8 = 4;
    /// Of UDP, in datagrams.
    pub const UDP: u8 = 5;

    /// Read one.
    #[must_use]
    pub fn read(octets: &[u8; VIRTIO]) -> Self {
        let half = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        Self {
            flags: octets[0],
            kind: octets[1],
            headers: half(2),
            each: half(4),
            begin: half(6),
            offset: half(8),
        }
    }

    /// Write it.
    #[must_use]
    pub fn octets(&self) -> [u8; VIRTIO] {
        let mut octets = [self.flags, self.kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, half) in [(2, self.headers), (4, self.each), (6, self.begin), (8, self.offset)] {
            octets[at..at + 2].copy_from_slice(&half.to_ne_bytes());
        }
        octets
    }

    /// Whether the checksum is still to be calculated; its field then holds that of the pseudo-header.
    #[must_use]
    pub fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CHECKSUM != 0
    }

    /// How it is cut, without notification of congestion; 0 if it is one packet.
    #[must_use]
    pub fn cut(&self) -> u8 {
        self.kind & KIND
    }

    /// The header for a single packet of the train.
    #[must_use]
    pub fn single(self) -> Self {
        Self { kind: 0, headers: 0, each: 0, ..self }
    }

    /// For a frame with nothing left to do.
    #[must_use]
    pub fn finished(self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let one = Virtio { flags: 1, kind: 0x81, headers: 54, each: 1448, begin: 34, offset: 16 };
        assert_eq!(Virtio::read(&one.octets()), one);
        assert!(one.needs_checksum() && one.cut() == Virtio::TCP4);
        assert_eq!((one.single().cut(), one.single().needs_checksum()), (0, true));
        assert_eq!(one.finished(), Virtio::default());
    }
}
