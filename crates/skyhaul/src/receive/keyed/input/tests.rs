use super::*;
use crate::receive::keyed::config::StreamConfig;
use crate::receive::keyed::ring::Ring;
use crate::receive::keyed::store::ObjectStore;
use crate::spead::receive::tests::{config, packets};
use skyhaul_core::placement::Nanos;
use skyhaul_core::wire::spead::SpeadWire;
use std::sync::Arc;
use std::time::Instant;

fn core(config: &StreamConfig) -> StreamState<ObjectStore<SpeadWire>> {
    let store = ObjectStore::new(config, Nanos(0));
    StreamState::new(config, Instant::now(), store, Arc::new(Ring::new(config.ring)))
}

/// Looks until the end; the most bytes that one of them passed, and how many there were.
fn looks(bytes: &[u8], heaps: u64) -> (usize, usize) {
    let core = core(&config());
    let mut me = core.enter("test".into(), true);
    let mut input = BytesInput::new(bytes.to_vec());
    let (mut most, mut looks) = (0, 0);
    while !input.is_finished() {
        let before = input.at;
        input.poll(&core, &mut me);
        assert!(input.at > before, "a look brings it further");
        (most, looks) = (most.max(input.at - before), looks + 1);
    }
    assert_eq!((me.counts.heaps, me.counts.rejects.total()), (heaps, 0));
    assert_eq!(me.counts.bytes + me.counts.skipped_bytes, bytes.len() as u64);
    (most, looks)
}

#[test]
fn garbage_ends_a_look_as_packets_do() {
    let good: Vec<u8> = packets(1, 1000, 1472).concat();
    let noise = vec![0xAA; 5 * POLL_BYTES];
    let (most, count) = looks(&[&noise[..], &good].concat(), 1);
    assert!(most <= POLL_BYTES + good.len() && count >= 5, "{most} bytes in one of {count} looks");
    // Nothing is found later than it would be without the bound: what looks like a head, and ends beyond the bytes, is
    // passed over wherever a look ends.
    let claims = [0x53, 4, 2, 6, 0, 0, 0xFF, 0xFF].repeat(1000);
    let (_, count) = looks(&[&noise[..POLL_BYTES - 100], &claims, &good].concat(), 1);
    assert!(count > 100, "each of them costs its half megabyte, not {count} looks");
}

#[test]
fn heads_that_are_none_and_long_to_read_end_a_look() {
    // Each is read to its end, half a megabyte further, before it is seen that nothing in it tells a heap.
    let bad = [0x53, 4, 2, 6, 0, 0, 0xFF, 0xFF].repeat(70_000);
    let core = core(&config());
    let mut me = core.enter("test".into(), true);
    let mut input = BytesInput::new(bad);
    for _ in 0..50 {
        let before = input.at;
        input.poll(&core, &mut me);
        assert!((1..=64).contains(&(input.at - before)), "{} bytes", input.at - before);
    }
}
