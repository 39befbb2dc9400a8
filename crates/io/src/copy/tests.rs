use super::*;

#[test]
fn the_warm_limit_is_that_of_the_caches_unless_it_is_set() {
    let caches = Caches { l1d: 48 << 10, l2: 512 << 10, l3: 32 << 20 };
    assert_eq!(limit_of(None, caches), WarmLimit::by_caches(caches.l2, caches.l3));
    for (text, bytes) in [("0", 0), ("3MiB", 3 << 20), ("100", 100)] {
        assert_eq!(limit_of(Some(text), caches), WarmLimit::asked(bytes, "SKYHAUL_WARM_COPY"), "{text}");
    }
    let wrong = limit_of(Some("much"), caches);
    assert_eq!(wrong.bytes, 2 << 20);
    assert!(wrong.because.ends_with("SKYHAUL_WARM_COPY=much is not a size and was ignored"), "{wrong:?}");
}

type Copy = fn(&mut [u8], &[u8]);

fn forms() -> Vec<(&'static str, Copy)> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut forms: Vec<(&'static str, Copy)> =
        vec![("place", place), ("warm", place_warm), ("again", place_warm)];
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: AVX2 was just detected, and the two are of one length.
            forms.push(("avx2", |d, s| unsafe { x86::place_avx2(d.as_mut_ptr(), s) }));
            // SAFETY: as above.
            forms.push(("warm avx2", |d, s| unsafe { x86::place_warm_avx2(d.as_mut_ptr(), s) }));
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: AVX-512F was just detected, and the two are of one length.
            forms.push(("avx512", |d, s| unsafe { x86::place_avx512(d.as_mut_ptr(), s) }));
            // SAFETY: as above.
            forms.push(("warm avx512", |d, s| unsafe { x86::place_warm_avx512(d.as_mut_ptr(), s) }));
        }
    }
    forms
}

#[test]
fn every_alignment_and_size_equals_a_plain_copy_and_touches_nothing_else() {
    let source: Vec<u8> = (0..10_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let sizes = (0..300).chain([511, 512, 513, 1408, 1472, 5032, 8000, 8032, 9000]);
    for (name, copy) in forms() {
        for size in sizes.clone() {
            for (to, from) in [(0, 0), (1, 0), (0, 1), (31, 7), (32, 5), (63, 63), (64, 1), (17, 48)] {
                let mut wrote = vec![0xA5u8; size + 256];
                let mut expected = wrote.clone();
                expected[to..to + size].copy_from_slice(&source[from..from + size]);
                copy(&mut wrote[to..to + size], &source[from..from + size]);
                fence();
                assert!(wrote == expected, "{name}: {size} bytes, offsets {to} and {from}");
            }
        }
    }
}

#[test]
fn a_run_is_its_payloads_one_behind_the_other() {
    type Run = fn(&mut [u8], &[u8], usize, usize);
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut forms: Vec<(&str, Run)> = vec![("place_run", place_run), ("the second time", place_run)];
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx2") {
            forms.push(("avx2", |d, s, stride, each| {
                let payloads = s.chunks(stride).map(|payload| &payload[..each]);
                // SAFETY: AVX2 was just detected, and the slot is as long as all payloads.
                unsafe { x86::place_run_avx2(d.as_mut_ptr(), payloads) }
            }));
        }
        if std::arch::is_x86_feature_detected!("avx512f") {
            forms.push(("avx512", |d, s, stride, each| {
                let payloads = s.chunks(stride).map(|payload| &payload[..each]);
                // SAFETY: AVX-512F was just detected, and the slot is as long as all payloads.
                unsafe { x86::place_run_avx512(d.as_mut_ptr(), payloads) }
            }));
        }
    }
    let source: Vec<u8> = (0..90_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, copy) in forms {
        for each in (1..140).chain([511, 512, 1464, 8032]) {
            for (to, start, count) in [(0, 8, 9), (1, 0, 2), (63, 8, 5), (17, 3, 1), (64, 72, 7), (5, 8, 0)] {
                let (stride, bytes) = (start + each, each * count);
                let mut wrote = vec![0xA5u8; bytes + 256];
                let mut expected = wrote.clone();
                let packets = &source[..(stride * count).saturating_sub(start)];
                let payloads: Vec<u8> = packets.chunks(stride).flat_map(|p| &p[..each]).copied().collect();
                expected[to..to + bytes].copy_from_slice(&payloads);
                copy(&mut wrote[to..to + bytes], packets, stride, each);
                fence();
                assert!(wrote == expected, "{name}: {count} of {each} bytes at {to}");
            }
        }
    }
}

#[test]
#[should_panic(expected = "one length")]
fn different_lengths_are_refused() {
    place(&mut [0; 4], &[0; 5]);
}

#[test]
fn the_choice_has_a_name() {
    assert!(["avx512-stream", "avx2-stream", "memcpy"].contains(&name()));
}
