//! Where frames end in a TCP stream: each says its own length.

use skyhaul_core::wire::{Format, mark5b, vdif::Vdif};
use skyhaul_io::tcp::{Frame, Framer};

/// Reads the length of a VDIF or Mark 5B frame from its first bytes.
///
/// VTP over TCP is plain concatenated frames; there is no sequence number.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameLengths {
    pub(super) format: Format,
}

impl Framer for FrameLengths {
    fn frame(&self, head: &[u8]) -> Frame {
        let Some((word, _)) = head.split_first_chunk::<4>() else { return Frame::Incomplete };
        let is_mark5b = u32::from_le_bytes(*word) == mark5b::SYNC;
        match self.format {
            Format::Mark5b | Format::Auto if is_mark5b => Frame::Packet(mark5b::FRAME),
            Format::Vdif | Format::Auto => match Vdif::read(head) {
                None => Frame::Incomplete,
                Some((vdif, _)) if vdif.frame_bytes() > vdif.header_bytes() => {
                    Frame::Packet(vdif.frame_bytes())
                }
                Some(_) => Frame::Garbage,
            },
            _ => Frame::Garbage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
