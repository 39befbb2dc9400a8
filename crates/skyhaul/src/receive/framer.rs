//! Where frames end in a TCP stream: each says its own length.

use skyhaul_core::wire::{Format, Framing};
use skyhaul_io::tcp::{Frame, Framer};

/// Reads the length of a frame from its first bytes, as the families that have frames in byte streams tell it.
///
/// VTP over TCP is plain concatenated frames; there is no sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLengths {
    pub(super) format: Format,
}

impl Framer for FrameLengths {
    fn frame(&self, head: &[u8]) -> Frame {
        match self.format.framing(head) {
            Framing::Incomplete => Frame::Incomplete,
            Framing::Length(bytes) => Frame::Packet(bytes),
            Framing::Unknown => Frame::Garbage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skyhaul_core::wire::{mark5b, vdif::Vdif};

    #[test]
    fn a_frame_tells_its_length_and_nonsense_is_garbage() {
        let framer = FrameLengths { format: Format::Auto };
        let vdif = Vdif::shape(8000, 1, 2, false, false).unwrap();
        assert_eq!(framer.frame(&vdif.write()), Frame::Packet(8032));
        assert_eq!(framer.frame(&vdif.write()[..10]), Frame::Incomplete);
        assert_eq!(framer.frame(&mark5b::SYNC.to_le_bytes()), Frame::Packet(10_016));
        assert_eq!(framer.frame(&[0; 32]), Frame::Garbage);
    }
}
