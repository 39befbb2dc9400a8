//! A bare loop that copies frames from either port to the other unchanged, as a baseline for a forwarder.

use super::{Incoming, Outgoing, Piece, Port, VIRTIO, wait};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum time before it checks whether it should end.
const WAIT: u64 = 20_000_000;

/// Copies frames between two ports until told to stop, up to `batch` per system call; returns how many the kernel
/// refused.
///
/// # Errors
/// A system error of a port that receives.
pub fn copy(ports: &[Port; 2], batch: usize, stop: &AtomicBool) -> io::Result<u64> {
    let (mut incoming, mut outgoing) = (Incoming::new(batch), Outgoing::new(batch));
    let (mut heads, mut refused) = (Vec::<[u8; VIRTIO]>::with_capacity(batch), 0);
    while !stop.load(Ordering::Relaxed) {
        let mut came = 0;
        for (from, to) in [(&ports[0], &ports[1]), (&ports[1], &ports[0])] {
            came += from.receive(&mut incoming)?;
            heads.clear();
            heads.extend(incoming.frames().map(|frame| frame.virtio.octets()));
            let pieces: Vec<Piece<'_>> = incoming
                .frames()
                .zip(&heads)
                .map(|(frame, head)| Piece { head, payload: frame.frame })
                .collect();
            let mut done = 0;
            while done < pieces.len() {
                match to.send(&mut outgoing, &pieces[done..]) {
                    Ok(sent) => done += sent,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => (done, refused) = (done + 1, refused + 1),
                }
            }
        }
        if came == 0 {
            wait(ports, WAIT)?;
        }
    }
    Ok(refused)
}
