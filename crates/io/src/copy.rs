//! The only copy of a payload: from a cache-hot scratch to its final, cold place.
//!
//! An ordinary copy reads each destination line into the cache before overwriting it, which doubles the memory traffic
//! and evicts useful lines. *Non-temporal* stores write whole lines past the cache. The instructions are chosen once, at
//! run time, by the CPU's features.
//!
//! ```text
//!   src (hot)   ┌───────────────────────────────────────────┐
//!   dst (cold)      head │ line │ line │ ··· │ line │ tail
//!                plain copy   streamed past the cache  plain copy
//! ```
//!
//! ```
//! let mut slot = vec![0u8; 1000];
//! skyhaul_io::copy::place(&mut slot[3..903], &[7; 900]);
//! skyhaul_io::copy::fence(); // once, after the last packet of a train
//! assert!(slot[3..903].iter().all(|&b| b == 7));
//! ```
//!
//! Limits: it pays only if the destination is not in the cache already ([`cache_bytes`]), and not read again soon.
//! Streamed stores are weakly ordered: call [`fence`] before another thread (or a disk) uses the bytes.

use crate::host::cache::Caches;
use crate::quantity::Size;
use skyhaul_core::warm::WarmLimit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Below this many bytes the destination lines are mostly partial, and a plain copy is faster.
const SMALL: usize = 192;

const UNKNOWN: u8 = 0;
const PLAIN: u8 = 1;
#[cfg(target_arch = "x86_64")]
const AVX2: u8 = 2;
#[cfg(target_arch = "x86_64")]
const AVX512: u8 = 3;

/// Features of this CPU, detected at the first copy.
static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Copy `src` into `dst`, past the cache if that pays.
///
/// # Panics
/// If the lengths differ, as in `copy_from_slice`.
#[inline]
pub fn place(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len(), "a payload and its slot are of one length");
    // SAFETY: `dst` is as long as `src`, and borrowed for writing.
    unsafe { place_at(dst.as_mut_ptr(), src) }
}

/// The same for memory that others may access through pointers.
///
/// # Safety
/// `src.len()` bytes from `dst` on are writable and do not overlap `src`, and no reference to them exists. If they are
/// read or written meanwhile, the content is an arbitrary mixture.
#[inline]
pub unsafe fn place_at(dst: *mut u8, src: &[u8]) {
    if src.len() >= SMALL {
        match LEVEL.load(Ordering::Relaxed) {
            #[cfg(target_arch = "x86_64")]
            AVX512 => {
                // SAFETY: as promised; this level is only stored after the CPU was found to have AVX-512F.
                return unsafe { x86::place_avx512(dst, src) };
            }
            #[cfg(target_arch = "x86_64")]
            AVX2 => {
                // SAFETY: as promised; this level is only stored after the CPU was found to have AVX2.
                return unsafe { x86::place_avx2(dst, src) };
            }
            PLAIN => {}
            _ => LEVEL.store(detect(), Ordering::Relaxed),
        }
    }
    // SAFETY: as promised.
    unsafe { ptr::copy_nonoverlapping(src.as_ptr(), dst, src.len()) }
}

/// Copy payloads of `each` bytes, which begin every `stride` bytes of `src`, contiguously into `dst`. A cache line that
/// two of them share is written once, past the cache like the others.
///
/// # Panics
/// If `dst` does not have the length of all payloads together, or `src` does not begin and end with a payload.
pub fn place_run(dst: &mut [u8], src: &[u8], stride: usize, each: usize) {
    let (strides, rest) = (src.len() / stride, src.len() % stride);
    let whole = src.is_empty() || rest == each || (rest == 0 && each == stride);
    assert!((1..=stride).contains(&each) && whole, "payloads are whole");
    let payloads = src.chunks(stride).map(|payload| &payload[..each]);
    let count = strides + usize::from(rest > 0);
    assert_eq!(dst.len(), count * each, "payloads and their slot are of one length");
    match LEVEL.load(Ordering::Relaxed) {
        #[cfg(target_arch = "x86_64")]
        AVX512 => {
            // SAFETY: `dst` is as long as all payloads, and borrowed for writing; this level is only stored after the CPU was
            // found to have AVX-512F.
            return unsafe { x86::place_run_avx512(dst.as_mut_ptr(), payloads) };
        }
        #[cfg(target_arch = "x86_64")]
        AVX2 => {
            // SAFETY: as above, for AVX2.
            return unsafe { x86::place_run_avx2(dst.as_mut_ptr(), payloads) };
        }
        PLAIN => {}
        _ => LEVEL.store(detect(), Ordering::Relaxed),
    }
    for (dst, payload) in dst.chunks_exact_mut(each).zip(payloads) {
        dst.copy_from_slice(payload);
    }
}

/// Copy `src` into `dst`, which is in the cache already.
///
/// # Panics
/// If the lengths differ, as in `copy_from_slice`.
#[inline]
pub fn place_warm(dst: &mut [u8], src: &[u8]) {
    /// From here on a C library copies with `rep movsb`, which takes up to twice as long on AMD's Zen 4.
    const LONG: usize = 2048;
    assert_eq!(dst.len(), src.len(), "a payload and its slot are of one length");
    if src.len() >= LONG {
        match LEVEL.load(Ordering::Relaxed) {
            #[cfg(target_arch = "x86_64")]
            AVX512 => {
                // SAFETY: `dst` is as long as `src`, and borrowed for writing; this level is only stored after the CPU was found to
                // have AVX-512F.
                return unsafe { x86::place_warm_avx512(dst.as_mut_ptr(), src) };
            }
            #[cfg(target_arch = "x86_64")]
            AVX2 => {
                // SAFETY: as above, for AVX2.
                return unsafe { x86::place_warm_avx2(dst.as_mut_ptr(), src) };
            }
            PLAIN => {}
            _ => LEVEL.store(detect(), Ordering::Relaxed),
        }
    }
    dst.copy_from_slice(src);
}

/// Make all earlier [`place`]s visible before any later write. Call it once per train, before its objects are passed to
/// another thread.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    x86::fence();
}

/// Bytes of the largest cache of this machine, which other programs share.
#[must_use]
pub fn cache_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    /// If the system does not report it.
    const USUAL: usize = 8 << 20;
    *BYTES.get_or_init(|| match Caches::of_cpu(0) {
        Caches { l2: 0, l3: 0, .. } => USUAL,
        caches => caches.last_level() as usize,
    })
}

/// Sets [`warm_limit`]: a size, such as `2MiB`; 0 streams every copy.
pub const WARM_LIMIT_VARIABLE: &str = "SKYHAUL_WARM_COPY";

/// How soon memory must be reused for a payload to be copied into the caches instead of past them: by this machine's caches,
/// unless the environment sets it ([`WARM_LIMIT_VARIABLE`]). Decided at the first call.
pub fn warm_limit() -> &'static WarmLimit {
    static LIMIT: OnceLock<WarmLimit> = OnceLock::new();
    LIMIT.get_or_init(|| limit_of(std::env::var(WARM_LIMIT_VARIABLE).ok().as_deref(), Caches::of_cpu(0)))
}

fn limit_of(asked: Option<&str>, caches: Caches) -> WarmLimit {
    let limit = WarmLimit::by_caches(caches.l2, caches.l3);
    match asked.map(|text| (text, text.parse::<Size>())) {
        Some((_, Ok(size))) => WarmLimit::asked(size.bytes(), WARM_LIMIT_VARIABLE),
        Some((text, Err(_))) => {
            let because =
                format!("{}; {WARM_LIMIT_VARIABLE}={text} is not a size and was ignored", limit.because);
            WarmLimit { because, ..limit }
        }
        None => limit,
    }
}

/// The name of the copy in use, for reports.
#[must_use]
pub fn name() -> &'static str {
    match detect() {
        #[cfg(target_arch = "x86_64")]
        AVX512 => "avx512-stream",
        #[cfg(target_arch = "x86_64")]
        AVX2 => "avx2-stream",
        _ => "memcpy",
    }
}

fn detect() -> u8 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return AVX512;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return AVX2;
        }
    }
    PLAIN
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256, _mm512_loadu_si512,
        _mm512_stream_si512,
    };
    use std::ptr;

    /// Bytes in a cache line, and in the widest store.
    const LINE: usize = 64;

    #[inline]
    pub(super) fn fence() {
        // SAFETY: every x86-64 CPU has this instruction; it touches no memory of ours.
        unsafe { _mm_sfence() }
    }

    /// Write a line past the cache.
    ///
    /// # Safety
    /// `to` are 64 writable bytes, aligned to 64.
    #[target_feature(enable = "avx512f")]
    #[inline]
    unsafe fn stream_avx512(to: *mut u8, from: &[u8; LINE]) {
        let from: *const __m512i = from.as_ptr().cast();
        // SAFETY: `from` points to the 64 readable bytes of an array; the load needs no alignment.
        let line = unsafe { _mm512_loadu_si512(from) };
        // SAFETY: as promised.
        unsafe { _mm512_stream_si512(to.cast(), line) };
    }

    /// The same in two halves.
    ///
    /// # Safety
    /// As `stream_avx512`.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn stream_avx2(to: *mut u8, from: &[u8; LINE]) {
        for (n, from) in from.as_chunks::<32>().0.iter().enumerate() {
            let from: *const __m256i = from.as_ptr().cast();
            // SAFETY: `from` points to the 32 readable bytes of an array; the load needs no alignment.
            let half = unsafe { _mm256_loadu_si256(from) };
            // SAFETY: as promised: this is one half of the 64 bytes.
            unsafe { _mm256_stream_si256(to.wrapping_add(32 * n).cast(), half) };
        }
    }

    /// # Safety
    /// As [`place_at`](super::place_at).
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn place_avx512(dst: *mut u8, src: &[u8]) {
        // SAFETY: it is given 64 writable bytes, aligned to 64.
        let stream = |to: *mut u8, line: &[u8; LINE]| unsafe { stream_avx512(to, line) };
        // SAFETY: as promised.
        unsafe { by_lines(dst, src, stream) }
    }

    /// # Safety
    /// As [`place_at`](super::place_at).
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn place_avx2(dst: *mut u8, src: &[u8]) {
        // SAFETY: it is given 64 writable bytes, aligned to 64.
        let stream = |to: *mut u8, line: &[u8; LINE]| unsafe { stream_avx2(to, line) };
        // SAFETY: as promised.
        unsafe { by_lines(dst, src, stream) }
    }

    /// # Safety
    /// As [`place_at`](super::place_at).
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn place_warm_avx512(dst: *mut u8, src: &[u8]) {
        let store = |to: *mut u8, line: &[u8; LINE]| {
            let from: *const __m512i = line.as_ptr().cast();
            // SAFETY: `from` points to the 64 readable bytes of an array; the load needs no alignment.
            let line = unsafe { _mm512_loadu_si512(from) };
            // SAFETY: it is given 64 writable bytes, aligned to 64. (Volatile, or the loop would become a call of `memcpy`.)
            unsafe { ptr::write_volatile(to.cast(), line) };
        };
        // SAFETY: as promised.
        unsafe { by_lines(dst, src, store) }
    }

    /// # Safety
    /// As [`place_at`](super::place_at).
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn place_warm_avx2(dst: *mut u8, src: &[u8]) {
        let store = |to: *mut u8, line: &[u8; LINE]| {
            for (n, from) in line.as_chunks::<32>().0.iter().enumerate() {
                let from: *const __m256i = from.as_ptr().cast();
                // SAFETY: `from` points to the 32 readable bytes of an array; the load needs no alignment.
                let half = unsafe { _mm256_loadu_si256(from) };
                // SAFETY: it is given 64 writable bytes, aligned to 64: this is one half. (Volatile: as above.)
                unsafe { ptr::write_volatile(to.wrapping_add(32 * n).cast(), half) };
            }
        };
        // SAFETY: as promised.
        unsafe { by_lines(dst, src, store) }
    }

    /// # Safety
    /// As [`place_at`](super::place_at), for all payloads together.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn place_run_avx512<'a>(dst: *mut u8, payloads: impl Iterator<Item = &'a [u8]>) {
        // SAFETY: it is given 64 writable bytes, aligned to 64.
        let stream = |to: *mut u8, line: &[u8; LINE]| unsafe { stream_avx512(to, line) };
        // SAFETY: as promised.
        unsafe { by_joined_lines(dst, payloads, stream) }
    }

    /// # Safety
    /// As [`place_at`](super::place_at), for all payloads together.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn place_run_avx2<'a>(dst: *mut u8, payloads: impl Iterator<Item = &'a [u8]>) {
        // SAFETY: it is given 64 writable bytes, aligned to 64.
        let stream = |to: *mut u8, line: &[u8; LINE]| unsafe { stream_avx2(to, line) };
        // SAFETY: as promised.
        unsafe { by_joined_lines(dst, payloads, stream) }
    }

    /// Copy payloads contiguously. A line in which one ends and the next begins is joined first: if written in two parts,
    /// it would be read from memory.
    ///
    /// # Safety
    /// As [`place_at`](super::place_at), for all payloads together.
    #[inline(always)]
    unsafe fn by_joined_lines<'a>(
        dst: *mut u8,
        payloads: impl Iterator<Item = &'a [u8]>,
        stream: impl Fn(*mut u8, &[u8; LINE]),
    ) {
        let mut to = dst;
        // The beginning of a line that the next payload continues.
        let (mut line, mut held) = ([0; LINE], 0);
        for mut payload in payloads {
            // If nothing is held, `to` is aligned, except at the front of the run.
            let wanted = if held == 0 { to.align_offset(LINE) } else { LINE - held };
            let (head, rest) = payload.split_at(wanted.min(payload.len()));
            payload = rest;
            if held == 0 {
                // SAFETY: `dst` has room for all payloads, and `to` is as far in it as they were copied.
                unsafe { ptr::copy_nonoverlapping(head.as_ptr(), to, head.len()) };
                to = to.wrapping_add(head.len());
            } else {
                line[held..held + head.len()].copy_from_slice(head);
                held += head.len();
                if held < LINE {
                    continue;
                }
                stream(to, &line);
                to = to.wrapping_add(LINE);
            }
            let (lines, tail) = payload.as_chunks::<LINE>();
            for line in lines {
                stream(to, line);
                to = to.wrapping_add(LINE);
            }
            line[..tail.len()].copy_from_slice(tail);
            held = tail.len();
        }
        // SAFETY: as above; this is the end.
        unsafe { ptr::copy_nonoverlapping(line.as_ptr(), to, held) };
    }

    /// Copy the unaligned head and tail, and give each whole aligned line to `stream`, with 64 writable bytes aligned to
    /// 64.
    ///
    /// # Safety
    /// As [`place_at`](super::place_at).
    #[inline(always)]
    unsafe fn by_lines(dst: *mut u8, src: &[u8], stream: impl Fn(*mut u8, &[u8; LINE])) {
        let head = dst.align_offset(LINE).min(src.len());
        let (head, rest) = src.split_at(head);
        // SAFETY: `dst` has room for all of `src`, of which this is the beginning.
        unsafe { ptr::copy_nonoverlapping(head.as_ptr(), dst, head.len()) };
        let (lines, tail) = rest.as_chunks::<LINE>();
        let mut to = dst.wrapping_add(head.len());
        for line in lines {
            stream(to, line);
            to = to.wrapping_add(LINE);
        }
        // SAFETY: as above; this is the end.
        unsafe { ptr::copy_nonoverlapping(tail.as_ptr(), to, tail.len()) };
    }
}

#[cfg(test)]
mod tests;
