use std::os::fd::AsRawFd;

use super::peek::{Label, Peek};
use super::*;
use crate::copy;

fn pool(blocks: u64) -> Pool {
    Pool::new(&PoolOptions { total_bytes: blocks * 8192, block_bytes: 8192, shared: false }).unwrap()
}

#[test]
fn a_full_pool_says_so_and_blocks_come_back() {
    let pool = pool(2);
    let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
    assert!(pool.take().is_none());
    assert_ne!(a.index(), b.index());
    assert_eq!(a.as_ptr() as usize % ALIGN, 0);
    drop(a);
    assert_eq!(pool.free(), 1);
    drop(b);
    assert_eq!(pool.free(), 2);
}

#[test]
fn a_view_holds_its_block_and_outlives_the_owner() {
    let pool = pool(1);
    let mut block = pool.take().unwrap();
    block.place(100, b"abcdef");
    let view = block.view(100..106).unwrap();
    let part = view.part(2..4);
    block.place(106, b"later bytes are free to be written");
    assert_eq!(block.views(), 2);
    drop(block);
    assert!(pool.take().is_none());
    assert_eq!((&view[..], &part[..]), (&b"abcdef"[..], &b"cd"[..]));
    drop(view);
    assert!(pool.take().is_none());
    drop(part);
    assert_eq!(pool.take().unwrap().generation(), 2);
}

#[test]
#[should_panic(expected = "while a view shows")]
fn writing_under_a_view_is_refused() {
    let pool = pool(1);
    let mut block = pool.take().unwrap();
    let _view = block.view(0..10);
    block.place(9, b"x");
}

/// A view may have been copied, or passed to the kernel: dropping it frees nothing while the block is owned.
#[test]
#[should_panic(expected = "while a view shows")]
fn what_was_shown_once_is_not_written_again() {
    let pool = pool(1);
    let mut block = pool.take().unwrap();
    drop(block.view(0..10));
    block.fill(0);
}

/// The writer is refused every byte that some view showed, and no other: compared with a plain map of bytes.
#[test]
#[cfg_attr(miri, ignore = "too many bytes for Miri")]
fn exactly_what_is_shown_is_refused() {
    const BYTES: usize = 65_536;
    let options = PoolOptions { total_bytes: BYTES as u64, block_bytes: BYTES, shared: false };
    let pool = Pool::new(&options).unwrap();
    let mut random = 1u32;
    let mut below = |n: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) as usize % n
    };
    for _ in 0..60 {
        let mut block = pool.take().unwrap();
        let (mut shown, mut views) = (vec![false; BYTES], Vec::new());
        for _ in 0..60 {
            let start = below(BYTES);
            let end = (start + below(3000)).min(BYTES);
            if below(3) > 0 {
                let clash = shown[start..end].contains(&true);
                let write = || block.part_mut(start..end).fill(1);
                let wrote = std::panic::catch_unwind(std::panic::AssertUnwindSafe(write));
                assert_eq!(wrote.is_err(), clash, "{start}..{end}");
            } else if let Some(view) = block.view(start..end) {
                shown[start..end].fill(true);
                views.push((start, view));
            } else {
                assert!(views.len() >= 16, "as many parts as pages");
            }
            if let Some((start, view)) = views.last_mut() {
                let more = below(200).min(BYTES - *start - view.len());
                if block.extend(view, more) {
                    shown[*start..*start + view.len()].fill(true);
                }
            }
        }
    }
}

#[test]
fn a_view_is_lengthened_by_its_own_block_only() {
    let pool = pool(2);
    let (mut block, mut other) = (pool.take().unwrap(), pool.take().unwrap());
    block.place(0, b"onetwo");
    let mut view = block.view(0..3).unwrap();
    assert!(block.extend(&mut view, 3));
    assert_eq!(&view[..], b"onetwo");
    assert!(!other.extend(&mut view, 3));
    let elsewhere = super::tests::pool(1);
    assert!(!elsewhere.take().unwrap().extend(&mut view, 3), "a block of the same number in another pool");
    assert_eq!(view.len(), 6);
}

#[test]
#[should_panic(expected = "is outside a block")]
fn writing_outside_is_refused() {
    pool(1).take().unwrap().place(8190, b"xyz");
}

#[test]
fn sizes_are_rounded_and_absurd_ones_refused() {
    let options = PoolOptions { total_bytes: 100_000, block_bytes: 5000, shared: false };
    let pool = Pool::new(&options).unwrap();
    assert_eq!((pool.block_bytes(), pool.blocks()), (8192, 12));
    for options in [
        PoolOptions { total_bytes: 10, block_bytes: 4096, shared: false },
        PoolOptions { total_bytes: u64::MAX, block_bytes: 4096, shared: false },
        PoolOptions { total_bytes: 1 << 50, block_bytes: 1 << 40, shared: false },
    ] {
        assert!(Pool::new(&options).is_err());
    }
    assert_eq!(default_block_bytes(4 << 30), 16 << 20);
    assert_eq!(default_block_bytes(1), 1 << 20);
    assert!(default_bytes() <= 4 << 30);
}

#[test]
fn blocks_cross_threads_and_none_is_lost() {
    let pool = pool(8);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let pool = pool.clone();
            scope.spawn(move || {
                for round in 0..if cfg!(miri) { 20 } else { 2000 } {
                    let Some(mut block) = pool.take() else { continue };
                    block.place(0, &[thread; 64]);
                    let view =
                        if round % 2 == 0 { block.into_view(0..64) } else { block.view(0..64).unwrap() };
                    assert!(view.iter().all(|&byte| byte == thread));
                }
            });
        }
    });
    assert_eq!(pool.free(), 8);
}

/// The kernel's lock of the address space is released between two parts, so a reader whose first packet needs new
/// memory does not wait for all of a large pool.
#[test]
#[cfg_attr(miri, ignore = "Miri touches no memory in advance")]
fn other_threads_get_memory_while_a_large_piece_is_touched() {
    const LARGE: usize = 256 << 20;
    const ENOUGH: usize = 20;
    // On a busy machine, the other thread may not get to run.
    let most = (0..20).map(|_| mapped_while_touching(LARGE)).find(|&count| count >= ENOUGH);
    assert!(
        most.is_some(),
        "one thread touched {LARGE} bytes, and no other got memory {ENOUGH} times meanwhile"
    );
}

/// Number of times that another thread mapped and returned a page meanwhile.
fn mapped_while_touching(bytes: usize) -> usize {
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let large = Mapping::anonymous(bytes).unwrap();
    std::thread::scope(|scope| {
        let meanwhile = scope.spawn(|| {
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            let one = || Mapping::anonymous(ALIGN).map(drop).unwrap();
            std::iter::repeat_with(one).take_while(|()| !done.load(Ordering::Relaxed)).count()
        });
        begun.store(true, Ordering::Relaxed);
        large.touch(0..bytes).unwrap();
        done.store(true, Ordering::Relaxed);
        meanwhile.join().unwrap()
    })
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memory files")]
fn a_shared_pool_is_read_from_outside_until_its_block_is_taken_again() {
    let options = PoolOptions { total_bytes: 4 * 8192, block_bytes: 8192, shared: true };
    let pool = Pool::new(&options).unwrap();
    let (fd, id) = pool.shared().unwrap();
    let peek = Peek::open(std::process::id(), fd.as_raw_fd(), id).unwrap();
    assert!(Peek::open(std::process::id(), fd.as_raw_fd(), id ^ 1).is_err(), "another pool");
    let mut out = Vec::new();
    let mut block = pool.take().unwrap();
    block.place(16, b"seventeen");
    assert!(!peek.read(7, 17, &mut out), "not published yet");
    block.publish(Label { stream: 7, number: 17, start: 16, length: 9 });
    drop(block);
    assert!(peek.read(7, 17, &mut out), "free, but nothing was written over it");
    assert_eq!(out, b"seventeen");
    assert!(!peek.read(8, 17, &mut out));
    let _all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert!(!peek.read(7, 17, &mut out), "its block is being written again");
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memory files")]
fn a_chunk_is_read_from_outside_wherever_it_begins_and_ends() {
    let pool = Pool::new(&PoolOptions { total_bytes: 8192, block_bytes: 8192, shared: true }).unwrap();
    let (fd, id) = pool.shared().unwrap();
    let peek = Peek::open(std::process::id(), fd.as_raw_fd(), id).unwrap();
    let bytes: Vec<u8> = (0..64).map(|n| n as u8 ^ 0x5A).collect();
    let mut block = pool.take().unwrap();
    block.place(4000, &bytes);
    let mut out = Vec::new();
    for start in 0..16 {
        for end in start..40 {
            let label = Label { stream: 7, number: 1, start: 4000 + start, length: end - start };
            block.publish(label);
            assert!(peek.read(7, 1, &mut out));
            assert_eq!(out, bytes[start as usize..end as usize], "{start}..{end}");
        }
    }
    // A label that points outside the block, as a broken or hostile writer might leave it.
    for (start, length) in [(8192, 1), (8191, 2), (u64::MAX, 1), (1, u64::MAX)] {
        block.publish(Label { stream: 7, number: 1, start, length });
        assert!(!peek.read(7, 1, &mut out), "{start} {length}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no memory files")]
fn only_sealed_pools_are_mapped() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 << 20).unwrap();
    assert!(Peek::open(std::process::id(), file.as_raw_fd(), 0).is_err());
}

/// Cost of checking each write against the shown ranges: the same copies without a block, alternating.
#[test]
#[ignore = "a measurement, not a test"]
fn how_long_a_place_takes() {
    const BYTES: usize = 16 << 20;
    let pool =
        Pool::new(&PoolOptions { total_bytes: 2 * BYTES as u64, block_bytes: BYTES, shared: false }).unwrap();
    for frame in [1000, 8032] {
        let payload = vec![7; frame];
        let frames = BYTES / frame;
        let timed = |mut write: Box<dyn FnMut(usize) + '_>, numbers: &mut dyn Iterator<Item = usize>| {
            let (begun, mut count) = (std::time::Instant::now(), 0);
            numbers.for_each(|n| {
                write(n * frame);
                count += 1;
            });
            copy::fence();
            begun.elapsed().as_nanos() as f64 / f64::from(count)
        };
        let (mut slice, mut held, mut holes, mut kept) = (f64::MAX, f64::MAX, f64::MAX, 0);
        for _ in 0..30 {
            let mut block = pool.take().unwrap();
            let raw: &mut [u8] = &mut block;
            let write = |at| copy::place(&mut raw[at..at + frame], &payload);
            slice = slice.min(timed(Box::new(write), &mut (0..frames)));
            held = held.min(timed(Box::new(|at| block.place(at, &payload)), &mut (0..frames)));
            // Every second frame is shown; the holes are filled between them.
            kept = (0..frames).step_by(2).map_while(|n| block.view(n * frame..(n + 1) * frame)).count();
            let between = &mut (0..kept).map(|n| 2 * n + 1);
            holes = holes.min(timed(Box::new(|at| block.place(at, &payload)), between));
        }
        println!(
            "{frame} bytes: slice {slice:.1} ns, block {held:.1} ns, between {kept} views {holes:.1} ns"
        );
    }
}

#[test]
#[ignore = "a measurement, not a test"]
fn how_long_a_gibibyte_takes() {
    for shared in [false, true] {
        let begun = std::time::Instant::now();
        let pool = Pool::new(&PoolOptions { total_bytes: 1 << 30, block_bytes: 16 << 20, shared }).unwrap();
        println!("shared {shared}: {} pages, {:?}", pool.pages().name(), begun.elapsed());
    }
}
