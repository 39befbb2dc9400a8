//! Which object of a full window gives way when several senders share it.
//!
//! ```text
//!   window   f f h f f f f f │ one more      f: more than half is from one address, whose oldest object gives way
//!            a b c d a b c d │ one more      nobody has more than half: the oldest gives way
//! ```
//!
//! Nothing proves who sends a packet, and one packet with a new counter begins an object. If the oldest object always gave way,
//! one host that sends such packets would push out what others send before it is complete. So an address gets at most half of a
//! window in which others have objects, and of what one address has, a port gets at most half. Honest senders that share a window
//! stay below that, and lose what they lost without it: the oldest.
//!
//! Limits: a window of one object. Several forging addresses that each have at most half. A forger who sends from the sender's own
//! address and port. Only the oldest [`MAX_LOOKED_AT`] objects of a window count.

/// Host and port of a sender.
pub(super) type Origin = (u128, u16);

/// Objects of a window that are looked at, from the oldest on.
pub(super) const MAX_LOOKED_AT: usize = 64;

/// Of these objects, oldest first, the oldest of the sender who has more than half, if one of `next` begins; `None` if nobody has.
pub(super) fn excess<I>(objects: impl Fn() -> I, next: Option<Origin>) -> Option<u32>
where
    I: Iterator<Item = (u32, Origin)>,
{
    let all = || objects().map(|(_, origin)| origin).chain(next);
    let address = majority(|| all().map(|(address, _)| address))?;
    let its = || objects().filter(|(_, origin)| origin.0 == address);
    let ports = || all().filter(|origin| origin.0 == address).map(|(_, port)| port);
    let of_port = majority(ports).and_then(|port| its().find(|(_, origin)| origin.1 == port));
    of_port.or_else(|| its().next()).map(|(at, _)| at)
}

/// What more than half of the values are.
fn majority<T: PartialEq, I: Iterator<Item = T>>(values: impl Fn() -> I) -> Option<T> {
    let mut leader: Option<(T, usize)> = None;
    for value in values() {
        leader = match leader {
            Some((of, votes)) if of == value => Some((of, votes + 1)),
            Some((of, votes)) if votes > 1 => Some((of, votes - 1)),
            Some(_) => None,
            None => Some((value, 1)),
        };
    }
    let (leader, _) = leader?;
    let (its, all) = values().fold((0, 0), |(its, all), value| (its + usize::from(value == leader), all + 1));
    (2 * its > all).then_some(leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which object gives way: those of these senders are there, and one of `next` begins.
    fn gives_way(there: &[Origin], next: Origin) -> Option<u32> {
        excess(|| (0..).zip(there.iter().copied()), Some(next))
    }

    #[test]
    fn who_has_more_than_half_gives_way() {
        let (a, b, c) = ((1, 7), (2, 7), (3, 7));
        assert_eq!(gives_way(&[a, b, b, b], a), Some(1));
        assert_eq!(gives_way(&[a, b, b, b], b), Some(1));
        assert_eq!(gives_way(&[a, b, c, b], a), None);
        assert_eq!(gives_way(&[a, b, a, b], b), Some(1), "with the one that begins");
        assert_eq!(gives_way(&[a, a, a], a), Some(0));
        assert_eq!(gives_way(&[a], b), None, "a window of one object has no shares");
        // Of one address, the port that has more than half of what the address has.
        let (d, e) = ((1, 8), (1, 9));
        assert_eq!(gives_way(&[a, d, d, b], d), Some(1));
        assert_eq!(gives_way(&[a, d, e, b], e), Some(0), "the address has too much, and none of its ports");
    }
}
