use std::os::fd::AsRawFd;

use super::peek::{Label, Peek};
use super::*;

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
    let view = block.view(100..106);
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
#[cfg(debug_assertions)]
#[should_panic(expected = "while a view shows")]
fn writing_under_a_view_is_caught() {
    let pool = pool(1);
    let mut block = pool.take().unwrap();
    let _view = block.view(0..10);
    block.place(9, b"x");
}

#[test]
#[should_panic(expected = "is not in a block")]
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
                for round in 0..2000 {
                    let Some(mut block) = pool.take() else { continue };
                    block.place(0, &[thread; 64]);
                    let view = block.view(0..64);
                    if round % 2 == 0 {
                        drop(block);
                    }
                    assert!(view.iter().all(|&byte| byte == thread));
                }
            });
        }
    });
    assert_eq!(pool.free(), 8);
}

#[test]
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
fn only_sealed_pools_are_mapped() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 << 20).unwrap();
    assert!(Peek::open(std::process::id(), file.as_raw_fd(), 0).is_err());
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
