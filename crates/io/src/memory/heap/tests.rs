use super::{HUGE, HeapMemory, *};
use std::collections::HashSet;
use std::sync::mpsc;

#[test]
fn classes_leave_at_most_a_fifth_over() {
    let mut last = 0;
    for index in 0..120 {
        let bytes = class::bytes_of(index);
        assert!(bytes > last && bytes.is_multiple_of(64), "class {index} of {bytes}");
        assert_eq!(class::index_of(bytes), index);
        assert_eq!(class::index_of(last + 1), index);
        if last >= 256 {
            assert!((bytes - last - 1) * 5 <= bytes, "{} of {bytes} bytes are left over", bytes - last - 1);
        }
        last = bytes;
    }
    assert_eq!(class::index_of(0), 0);
}

#[test]
fn heaps_do_not_overlap_and_keep_their_bytes() {
    let memory = HeapMemory::new(64 << 20);
    let sizes = [0, 1, 64, 65, 1000, 1024, 4096, 9000, 65_536, 1 << 20, 3 << 20];
    let mut heaps: Vec<HeapBytes> = sizes.iter().map(|&n| memory.take(n).unwrap()).collect();
    for (n, heap) in heaps.iter_mut().enumerate() {
        assert_eq!((heap.len(), heap.as_ptr() as usize % 64), (sizes[n], 0));
        assert!(heap.capacity() >= heap.len());
        heap.fill(n as u8 + 1);
    }
    for (n, heap) in heaps.iter().enumerate() {
        assert!(heap.iter().all(|&b| b == n as u8 + 1), "heap {n}");
    }
    assert!(memory.used() <= memory.limit());
}

#[test]
fn what_is_returned_is_used_again_and_nothing_grows() {
    let memory = HeapMemory::new(1 << 30);
    drop(memory.take(1024));
    let used = memory.used();
    let mut seen = HashSet::new();
    for _ in 0..100_000 {
        seen.insert(memory.take(1024).unwrap().as_ptr() as usize);
    }
    assert_eq!(memory.used(), used);
    assert!(seen.len() <= 2048, "{} places", seen.len());
}

#[test]
fn the_limit_is_kept_and_each_refusal_counted() {
    let memory = HeapMemory::new(10_000);
    let heaps: Vec<_> = (0..20).map_while(|_| memory.take(1024)).collect();
    assert_eq!((heaps.len(), memory.refused()), (9, 1));
    assert!(memory.take(100_000).is_none() && memory.take(usize::MAX).is_none());
    assert_eq!(memory.refused(), 3);
    drop(heaps);
    assert!(memory.take(1024).is_some());
    let exact = HeapMemory::new(1_000_000);
    assert_eq!(exact.take(999_936).unwrap().len(), 999_936, "the whole limit, between two classes");
    assert_eq!(HeapMemory::new(0).limit(), 64);
}

#[test]
fn idle_classes_give_back_to_those_that_need() {
    let memory = HeapMemory::new(8 << 20);
    let small: Vec<_> = (0..8000).map_while(|_| memory.take(1024)).collect();
    assert_eq!(small.len(), 8000);
    assert!(memory.take(3 << 20).is_none(), "all is in use");
    let keep = small.into_iter().next().unwrap();
    // After a failed search, the next one waits a little.
    let mut large = Vec::new();
    while large.len() < 2 {
        large.extend(memory.take(3 << 20));
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert!(memory.take(3 << 20).is_none(), "6 of the 8 MiB were idle; one block keeps the span it is in");
    assert!(memory.given_back() >= 3 && memory.used() <= memory.limit());
    drop((large, keep));
    let mut again = Vec::new();
    while again.len() < 8000 {
        let more = memory.take(1024);
        if more.is_none() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        again.extend(more);
    }
}

/// Few blocks, so that Miri is fast enough: spans are removed while nodes of others stay in the lists.
#[test]
fn spans_that_are_idle_go_to_another_class() {
    let memory = HeapMemory::new(64 << 10);
    for _ in 0..2 {
        let small: Vec<_> = (0..64).map_while(|_| memory.take(1024)).collect();
        assert!(small.len() > 30, "{}", small.len());
        drop(small);
        let large = memory.take(20 << 10).expect("nothing is in use");
        assert!(memory.used() <= memory.limit() && memory.given_back() > 0);
        drop(large);
    }
}

#[test]
fn heaps_outlive_their_memory() {
    let memory = HeapMemory::new(1 << 20);
    let mut heaps: Vec<_> = (0..10).map(|_| memory.take(2000).unwrap()).collect();
    drop(heaps.pop());
    drop(memory);
    heaps[0].fill(7);
    assert!(heaps[0].iter().all(|&b| b == 7));
    drop(heaps);
    drop(HeapMemory::new(1 << 20));
}

#[test]
fn any_thread_returns_while_others_take() {
    let memory = HeapMemory::new(4 << 20);
    std::thread::scope(|scope| {
        for taker in 0..2u8 {
            let (send, receive) = mpsc::sync_channel::<HeapBytes>(100);
            let memory = memory.clone();
            scope.spawn(move || {
                for n in 0..if cfg!(miri) { 100 } else { 20_000usize } {
                    let Some(mut heap) = memory.take(100 + n % 5000) else { continue };
                    let mark = taker ^ n as u8;
                    heap[0] = mark;
                    let last = heap.len() - 1;
                    heap[last] = mark;
                    let _ = send.send(heap);
                }
            });
            scope.spawn(move || {
                for heap in receive {
                    assert_eq!(heap[0], heap[heap.len() - 1], "two holders of one block");
                }
            });
        }
        drop(memory);
    });
}

#[test]
fn handles_and_heaps_may_go_in_any_order_on_any_thread() {
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let memory = HeapMemory::new(1 << 20);
        let heaps: Vec<_> = (0..4).map(|_| memory.take(5000).unwrap()).collect();
        std::thread::scope(|scope| {
            for heap in heaps {
                scope.spawn(move || drop(heap));
            }
            scope.spawn(move || drop(memory));
        });
    }
}

#[test]
fn memory_can_be_had_before_it_is_needed() {
    let memory = HeapMemory::new(8 << 20);
    assert_eq!(memory.prepare(1000, 100), 100);
    let used = memory.used();
    let heaps: Vec<_> = (0..100).map(|_| memory.take(1000).unwrap()).collect();
    assert_eq!(memory.used(), used);
    assert_eq!(memory.prepare(4 << 20, 10), 1, "what is left");
    assert_eq!(memory.prepare(100 << 20, 1), 0);
    let mut heap = heaps.into_iter().next().unwrap();
    heap.set_len(1024);
    assert_eq!(heap.part_mut(1000..1024).len(), 24);
}

#[test]
fn a_cache_gives_everything_back() {
    let memory = HeapMemory::new(64 << 20);
    let mut cache = memory.cache();
    for round in 0..3 {
        let heaps: Vec<_> = (0..4000).map_while(|n| cache.take(500 + n % 3000)).collect();
        assert_eq!(heaps.len(), 4000, "round {round}");
        let places: HashSet<_> = heaps.iter().map(|heap| heap.as_ptr() as usize).collect();
        assert_eq!(places.len(), 4000);
    }
    let refused = memory.refused();
    assert!(cache.take(65 << 20).is_none() && memory.refused() > refused);
    // The cache holds only small classes; a large heap needs that memory back.
    drop(cache.take(1000));
    let mut large = None;
    while large.is_none() {
        large = cache.take(60 << 20);
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
    drop((large, cache));
    drop(memory);
}

/// Bytes of `memory` for which the kernel has provided pages.
fn resident(block: &HeapBytes) -> usize {
    let pages = block.len().div_ceil(4096);
    let mut there = vec![0u8; pages];
    // SAFETY: the block is mapped and begins a page; `there` has a byte for each page of it.
    let done = unsafe { libc::mincore(block.as_ptr().cast_mut().cast(), block.len(), there.as_mut_ptr()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    there.iter().filter(|&&page| page & 1 == 1).count() * 4096
}

#[test]
fn what_is_kept_ahead_is_touched_whatever_the_size() {
    let cold = HeapMemory::new(256 << 20);
    let block = cold.take(8 << 20).unwrap();
    assert_eq!(resident(&block), 0, "nothing is touched unless asked for");

    let memory = HeapMemory::new(256 << 20);
    memory.keep_ahead(48 << 20);
    memory.wait_ahead();
    let ready = memory.used();
    assert!(ready > 0 && ready <= 48 << 20, "{ready} bytes");
    for bytes in [1 << 20, 8 << 20] {
        let block = memory.take(bytes).unwrap();
        assert_eq!(resident(&block), bytes);
    }
    // The keeper replaces what was taken, if asked for.
    memory.wait_ahead();
    assert!(memory.used() >= ready + (16 << 20), "{} after {ready}", memory.used());
    let third = memory.take(12 << 20).unwrap();
    assert_eq!(resident(&third), 12 << 20);
}

#[test]
fn a_stream_that_reuses_its_memory_has_none_touched_beside_it() {
    let memory = HeapMemory::new(512 << 20);
    memory.keep_ahead(64 << 20);
    memory.wait_ahead();
    let ready = memory.used();
    let wait = || std::thread::sleep(std::time::Duration::from_millis(2));
    // A span of 16 MiB is taken once. (The keeper had time for more than one piece.)
    for _ in 0..100 {
        drop(memory.take(1 << 20).unwrap());
        wait();
        assert_eq!(memory.used(), ready, "nothing was added");
    }
    // Less than half is left: memory is running out, and more is touched.
    let _used: Vec<_> = (0..48).map(|_| memory.take(1 << 20).unwrap()).collect();
    while memory.used() <= ready {
        wait();
    }
}

#[test]
fn what_is_kept_ahead_is_large_enough_for_the_heaps_that_come() {
    let memory = HeapMemory::new(512 << 20);
    memory.keep_ahead(40 << 20);
    memory.wait_ahead();
    // Larger than every ready piece: the kernel provides it, and the keeper makes larger pieces from now on.
    let _first = memory.take(20 << 20).unwrap();
    memory.wait_ahead();
    let second = memory.take(20 << 20).unwrap();
    assert_eq!(resident(&second), 20 << 20);
}

#[test]
fn there_is_no_limit_that_is_too_large() {
    let memory = HeapMemory::new(u64::MAX);
    memory.keep_ahead(4 << 20);
    memory.wait_ahead();
    assert!(memory.take(1 << 20).is_some() && memory.take(usize::MAX).is_none());
}

#[test]
fn what_is_kept_ahead_never_stands_in_the_way() {
    let memory = HeapMemory::new(64 << 20);
    memory.keep_ahead(u64::MAX);
    memory.wait_ahead();
    assert_eq!(memory.used(), 16 << 20, "a quarter of it");
    // The whole memory in one heap, while the keeper is working.
    for _ in 0..20 {
        let whole = memory.take(64 << 20).expect("nothing is in use");
        assert!(memory.take(1).is_none());
        drop(whole);
        let mut small = Vec::new();
        while small.len() < 60 {
            match memory.take(1 << 20) {
                Some(block) => small.push(block),
                // The search for idle spans is not repeated at once.
                None => std::thread::sleep(std::time::Duration::from_micros(200)),
            }
        }
        drop(small);
        std::thread::sleep(std::time::Duration::from_millis(6));
    }
    // Few bytes: all tests of this process share what may be kept ahead.
    let handles: Vec<_> = (0..20).map(|_| HeapMemory::new(64 << 20)).collect();
    handles.iter().for_each(|memory| memory.keep_ahead(4 << 20));
    // Closed while it is being touched.
    drop(handles);
}

#[test]
fn exactly_the_part_is_zero() {
    let bytes = 5 * HUGE;
    let memory = HeapMemory::new(64 << 20);
    for (start, end) in
        [(0, bytes), (1, bytes - 1), (HUGE + 3, HUGE + 4), (HUGE - 1, 3 * HUGE + 1), (HUGE, 2 * HUGE), (7, 7)]
    {
        let mut heap = memory.take(bytes).unwrap();
        heap.fill(0xA5);
        heap.zero(start..end);
        let wrong = heap
            .iter()
            .enumerate()
            .find(|&(at, &byte)| byte != if (start..end).contains(&at) { 0 } else { 0xA5 });
        assert_eq!(wrong, None, "{start}..{end}");
    }
}

/// An event gets memory for 1/256 of it first, and for all of it beside that.
#[test]
fn the_largest_heap_beside_its_first_part_fits() {
    const GIB: u64 = 1 << 30;
    assert!(HeapMemory::new(6 * GIB).largest_beside(256) > u64::from(u32::MAX), "the default for events");
    for limit in [1 << 16, 48 << 20, GIB, 4 * GIB] {
        let largest = HeapMemory::new(limit).largest_beside(256);
        assert!(largest < limit && largest >= limit / 2, "{limit}: {largest}");
    }
    // Both are had, and the next larger one is not.
    let memory = HeapMemory::new(48 << 20);
    let largest = memory.largest_beside(256) as usize;
    let first = memory.take(largest / 256).unwrap();
    assert!(memory.take(largest + 1).is_none());
    drop(memory.take(largest).unwrap());
    drop(first);
}

/// Senders that come, or are forged, each take a part until they go.
#[test]
fn half_of_the_memory_is_never_set_aside() {
    let memory = HeapMemory::new(64 << 20);
    let taken: Vec<BytesAside> = (0..10).filter_map(|_| memory.set_aside(12 << 20)).collect();
    assert_eq!((taken.len(), memory.used()), (2, 24 << 20));
    let rest = memory.set_aside(8 << 20);
    assert!(rest.is_some() && memory.set_aside(1).is_none());
    assert!(memory.take(16 << 20).is_some(), "other heaps have the rest");
    let used = memory.used();
    drop((taken, rest));
    assert_eq!(memory.used(), used - (32 << 20));
    assert!(memory.set_aside(20 << 20).is_some());
}
