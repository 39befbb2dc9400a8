//! The cutter without a socket, fed arbitrary bytes in arbitrary pieces: it must terminate, and its reports must be true.
//!
//! The fuzz target calls only this function, so a failing input becomes a one-line test here.

use super::Heads;
use super::cut::{Cutter, Rules, Told};

/// Longest body accepted.
const LONGEST_BODY: u64 = 700;

/// Everything fed so far, and how much of it was reported.
struct Ledger {
    stream: Vec<u8>,
    /// The first byte that was neither delivered in a piece nor reported as skipped.
    at: usize,
    /// Where the current packet begins, and its head.
    packet: Option<(usize, Vec<u8>)>,
    /// Where each completely delivered packet began and ended.
    packets: Vec<(usize, usize)>,
    /// The next choices of the taker, and how long stretches are.
    choices: u64,
}

impl Ledger {
    fn choose(&mut self, of: u64) -> u64 {
        self.choices = self.choices.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.choices >> 33) % of
    }

    fn pass(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        assert_eq!(self.stream.get(self.at..end), Some(bytes), "what is told is not what came");
        self.at = end;
    }

    fn take(&mut self, told: Told<'_>) {
        match told {
            Told::Lost => assert!(self.packet.is_none(), "lost within a packet"),
            Told::Skipped { bytes, found } => {
                assert!(!found || self.packet.is_none(), "found within a packet");
                self.at += bytes as usize;
                assert!(self.at <= self.stream.len(), "more is skipped than came");
            }
            Told::Piece { head, at, body, bytes } => {
                assert!(body <= LONGEST_BODY && at + bytes.len() as u64 <= body);
                if at == 0 {
                    assert!(self.packet.is_none(), "a packet within a packet");
                    self.packet = Some((self.at, head.to_vec()));
                    self.pass(head);
                }
                let begin = self.packet.as_ref().map(|(begin, known)| {
                    assert_eq!(head, known, "the head comes with each piece");
                    *begin
                });
                let begin = begin.expect("its beginning was told");
                assert_eq!(self.at as u64, (begin + head.len()) as u64 + at, "pieces are in order");
                self.pass(bytes);
                if at + bytes.len() as u64 == body {
                    self.packet = None;
                    self.packets.push((begin, self.at));
                }
            }
        }
    }
}

/// `input` is three bytes of choices, then a stream, after which `good` is repeated: a packet of at most 300 bytes in
/// which only the beginning looks like a head. The longest head must be at most 1000 bytes.
pub fn cutter(heads: Box<dyn Heads>, good: &[u8], input: &[u8]) {
    let Some((&[whole, step, taker], stream)) = input.split_first_chunk() else { return };
    let rules = Rules::new(heads, LONGEST_BODY, good.len() + usize::from(whole) * 3);
    let mut cutter = Cutter::new(&rules);
    let seed = u64::from(step) << 8 | u64::from(taker);
    let mut ledger = Ledger { stream: Vec::new(), at: 0, packet: None, packets: Vec::new(), choices: seed };
    // The most that a head with a false length can take: itself, its body, and what the search waits for.
    let slack = rules.keep() * 2 + rules.longest_head + LONGEST_BODY as usize;
    let copies = slack / good.len() + 12;
    let all = [stream, &good.repeat(copies)].concat();
    let mut rest = &all[..];
    while !rest.is_empty() {
        let most = 1 + u64::from(step) * u64::from(step);
        let length = 1 + ledger.choose(most) as usize;
        let (now, later) = rest.split_at(length.min(rest.len()));
        ledger.stream.extend(now);
        let bytes = [cutter.kept(), now].concat();
        let tell = |ledger: &mut Ledger, told: Told<'_>| {
            let takes =
                !matches!(told, Told::Piece { .. }) || taker < 128 || ledger.choose(256) >= u64::from(taker);
            if takes {
                ledger.take(told);
            }
            takes
        };
        cutter.feed(&bytes, &rules, &mut |told| tell(&mut ledger, told));
        // As after silence; not during the good packets, because the rejected beginning would be one of them.
        if step & 7 == 7 && ledger.stream.len() < stream.len() {
            cutter.doubt(&rules, &mut |told| tell(&mut ledger, told));
        }
        for _ in 0..1_000_000 {
            if !cutter.is_held() {
                break;
            }
            cutter.resume(&rules, &mut |told| tell(&mut ledger, told));
        }
        assert!(!cutter.is_held(), "it never ends");
        assert_eq!(ledger.at as u64 + cutter.pending(), ledger.stream.len() as u64, "bytes lost or doubled");
        rest = later;
    }
    // Resynchronised: the last good packets were delivered, except those that may still be incomplete.
    for n in copies - 8..copies - 2 {
        let begin = stream.len() + n * good.len();
        assert!(ledger.packets.contains(&(begin, begin + good.len())), "the stream is not found again");
    }
    let within = cutter.end(&rules, &mut |told| ledger.take(told));
    assert_eq!((ledger.at, cutter.pending()), (all.len(), 0), "bytes are left at the end");
    assert!(!within || ledger.packets.last().is_none_or(|&(_, end)| end < all.len()));
}
