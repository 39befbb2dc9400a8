//! D1 to D10: file systems, disks, memory that data cross.

use crate::host::check::{ALL, table};
use crate::host::found::{Examined, Found, Gap, not_applicable, unknown};
use crate::host::target::{Role, size};
use crate::host::view::{View, chosen};
use std::collections::BTreeSet;

/// Read ahead, for files that are read through the cache.
const AHEAD_KB: u64 = 4096;
/// A piece of a striped array, at least.
const STRIPE: u64 = 128 << 10;
/// The largest write that a disk gets at once, at least.
const WRITE_KB: u64 = 1024;
/// Sectors of a mebibyte, to which partitions are aligned.
const SECTORS: u64 = 2048;
/// Memory above which a share of it is much.
const LARGE: u64 = 64 << 30;
/// Copies that a byte goes through: from the kernel to its place.
const COPIES: f64 = 1.0;

table! {
    /// Disks.
    TABLE:
    D1 "file system" Medium Rate "F" ALL, file_system:
        "XFS writes streams to large extents; access times are writes that nobody reads.";
    D2 "scheduler of the disk" Medium Rate "FU" ALL, scheduler:
        "Flash needs no order of requests, and pays for it; a disk that turns does need it.";
    D3 "read-ahead" Low Rate "T" ALL, read_ahead:
        "Files read through the cache wait for each piece if little is read ahead.";
    D4 "requests of the disk" Low Rate "K" ALL, requests:
        "Requests that are cut small cost a command each.";
    D5 "array of disks" Medium Rate "UF" ALL, array:
        "Parity is computed for each write; small stripes cut requests.";
    D6 "NVMe: link and node" High Rate "U" ALL, nvme:
        "Data that cross between sockets on their way to the disk share that link with the card.";
    D7 "limits of dirty memory" Medium Jitter "T" ALL, dirty:
        "Seconds of data that are flushed at once stall writers, which looks like losses of the network.";
    D8 "free space, temperature" High Rate "K" ALL, free:
        "A full file system scatters files; a hot disk slows down.";
    D9 "discard, write cache" Low Jitter "K" ALL, discard:
        "Freeing blocks at once stalls writes; once a week is enough.";
    D10 "bandwidth of memory" Medium Rate "K" ALL, bandwidth:
        "Each copy reads and writes memory once: with the card's own access this bounds the rate.";
}

/// Names of disks with what one file of their queue says.
fn queues<'a>(h: &View<'a>, tail: &'a str) -> Result<Vec<(&'a str, &'a str)>, Gap> {
    let all = h.each("/sys/block/", tail);
    if all.is_empty() {
        h.denied("/sys/block/", tail)?;
        return not_applicable("no disk is seen");
    }
    Ok(all)
}

fn mounts<'a>(h: &View<'a>, tail: &'a str) -> Result<Vec<(&'a str, &'a str)>, Gap> {
    h.denied("mounts", "")?;
    let all = h.each("mount/", tail);
    if all.is_empty() { not_applicable("no file system is on a disk (--disk names one)") } else { Ok(all) }
}

fn file_system(h: &View<'_>) -> Examined {
    let all = mounts(h, "#type")?;
    let (mut other, mut times, mut seen) = (Vec::new(), Vec::new(), Vec::new());
    for (at, kind) in all {
        let options = h.maybe(&format!("mount/{at}#options")).unwrap_or_default();
        seen.push(format!("{at} {kind}"));
        if kind != "xfs" {
            other.push(at);
        }
        if !options.split(',').any(|option| option == "noatime") {
            times.push(at);
        }
    }
    let value = seen.join(", ");
    let remount = |at: &&str| format!("mount -o remount,noatime {at}");
    let found = match (other.is_empty(), times.is_empty()) {
        (true, true) => Found::pass(value, "xfs with noatime"),
        (true, false) => Found::info(value, "xfs with noatime"),
        (false, _) => Found::warn(value, "xfs with noatime"),
    };
    let found = found.shows_if(!times.is_empty(), format!("access times are kept on {}", times.join(", ")));
    let lines: Vec<String> = times.iter().map(remount).collect();
    Ok(found.advise(lines.join("; "), "noatime in /etc/fstab; mkfs.xfs for a new file system of data"))
}

fn turns(h: &View<'_>, disk: &str) -> bool {
    h.maybe(&format!("/sys/block/{disk}/queue/rotational")) == Some("1")
}

fn scheduler(h: &View<'_>) -> Examined {
    let (mut wrong, mut seen) = (Vec::new(), Vec::new());
    for (disk, all) in queues(h, "/queue/scheduler")? {
        let now = chosen(all);
        seen.push(format!("{disk} {now}"));
        let wanted = if turns(h, disk) { "mq-deadline" } else { "none" };
        if now != wanted && all.contains(wanted) {
            wrong.push((disk, wanted));
        }
    }
    let mut found =
        Found::rule(wrong.is_empty(), seen.join(", "), "none for flash, mq-deadline for disks that turn");
    for (disk, wanted) in wrong {
        found = found.set(format!("/sys/block/{disk}/queue/scheduler"), wanted);
    }
    Ok(found)
}

fn read_ahead(h: &View<'_>) -> Examined {
    let all = queues(h, "/queue/read_ahead_kb")?;
    let small: Vec<&str> = all
        .iter()
        .filter(|(_, kb)| kb.parse::<u64>().is_ok_and(|kb| kb < AHEAD_KB))
        .map(|(disk, _)| *disk)
        .collect();
    let value = all.iter().map(|(disk, kb)| format!("{disk} {kb} KiB")).collect::<Vec<_>>().join(", ");
    // A recorder reads nothing, and a sender of ours reads past the cache.
    let reads = matches!(h.target.role, Role::Send | Role::Both);
    let mut found = Found::rule_if(reads, small.is_empty(), value, format!("at least {AHEAD_KB} KiB"))
        .shows("does not matter to programs that read past the cache (O_DIRECT)");
    for disk in small {
        found = found.set(format!("/sys/block/{disk}/queue/read_ahead_kb"), AHEAD_KB);
    }
    Ok(found)
}

fn requests(h: &View<'_>) -> Examined {
    let mut wrong = Vec::new();
    let all = queues(h, "/queue/max_sectors_kb")?;
    for (disk, now) in &all {
        let number = |name: &str| h.facts.number(&format!("/sys/block/{disk}/queue/{name}"));
        let most = number("max_hw_sectors_kb").unwrap_or(WRITE_KB).min(WRITE_KB);
        let now: u64 =
            now.parse().map_err(|_| Gap::Unknown(format!("max_sectors_kb of {disk} is '{now}'")))?;
        if now < most {
            wrong.push((format!("{disk}/queue/max_sectors_kb"), now, most));
        }
        if let Some(affinity) = number("rq_affinity").filter(|affinity| *affinity != 2) {
            wrong.push((format!("{disk}/queue/rq_affinity"), affinity, 2));
        }
        if let Some(merges) = number("nomerges").filter(|merges| *merges != 0) {
            wrong.push((format!("{disk}/queue/nomerges"), merges, 0));
        }
    }
    let shown = |(name, now, _): &(String, u64, u64)| format!("{} {now}", name.replace("/queue/", " "));
    let value = if wrong.is_empty() {
        format!("{} disks", all.len())
    } else {
        wrong.iter().map(shown).collect::<Vec<_>>().join(", ")
    };
    let mut found = Found::rule(wrong.is_empty(), value, "requests up to 1 MiB, rq_affinity 2, merges on");
    for (name, _, wanted) in wrong {
        found = found.set(format!("/sys/block/{name}"), wanted);
    }
    Ok(found)
}

fn array(h: &View<'_>) -> Examined {
    h.denied("/sys/block/", "/md/level")?;
    let arrays = h.each("/sys/block/", "/md/level");
    let offset = |(part, start): &(&str, &str)| {
        start
            .parse::<u64>()
            .is_ok_and(|start| start % SECTORS != 0)
            .then(|| part.rsplit('/').next().unwrap_or(part).to_owned())
    };
    let crooked: Vec<String> = h.each("/sys/block/", "/start").iter().filter_map(offset).collect();
    if arrays.is_empty() && crooked.is_empty() {
        return not_applicable("there is no array, and every partition is aligned");
    }
    let (mut holds, mut seen) = (crooked.is_empty(), Vec::new());
    for (disk, level) in arrays {
        let chunk = h.facts.number(&format!("/sys/block/{disk}/md/chunk_size")).unwrap_or(0);
        let striped = matches!(level, "raid0" | "raid10");
        holds &= level == "raid1" || (striped && chunk >= STRIPE);
        seen.push(format!("{disk} {level}, chunks of {}", size(chunk)));
    }
    seen.extend(crooked.iter().map(|part| format!("{part} not aligned to 1 MiB")));
    let found = Found::rule(
        holds,
        seen.join("; "),
        "raid0 or raid10 with chunks of at least 128KiB, aligned partitions",
    );
    Ok(found.advise("", "mdadm --create with --level=0 or 10 --chunk=512K; or give skyhaul each disk (--disk), which needs no array"))
}

fn nvme(h: &View<'_>) -> Examined {
    h.on_metal()?;
    let head = "/sys/class/nvme/";
    let disks: BTreeSet<&str> =
        h.each(head, "/device/current_link_width").iter().map(|(disk, _)| *disk).collect();
    if disks.is_empty() {
        h.denied(head, "/device/current_link_width")?;
        return not_applicable("there is no NVMe disk");
    }
    let card = h.maybe(&h.net("device/numa_node")).unwrap_or("-1");
    let (mut slow, mut far) = (Vec::new(), Vec::new());
    for disk in &disks {
        let read = |name: &str| h.maybe(&format!("{head}{disk}/device/{name}")).unwrap_or_default();
        let link = |which: &str| (read(&format!("{which}_link_speed")), read(&format!("{which}_link_width")));
        if link("current") != link("max") {
            slow.push(*disk);
        }
        let node = read("numa_node");
        if card != "-1" && !node.is_empty() && node != "-1" && node != card {
            far.push(*disk);
        }
    }
    let value = match (slow.is_empty(), far.is_empty()) {
        (true, true) => format!("{} disks at full width, on the card's node", disks.len()),
        (false, true) => format!("below their link's best: {}", slow.join(", ")),
        (true, false) => format!("on another node than the card: {}", far.join(", ")),
        (false, false) => format!("slow link: {}; other node: {}", slow.join(", "), far.join(", ")),
    };
    let found = Found::rule(slow.is_empty() && far.is_empty(), value, "full width, on the card's node");
    Ok(found.advise("", "other slots; or run the program on the disks' node if they are the bound"))
}

fn dirty(h: &View<'_>) -> Examined {
    let bytes = h.sysctl("vm.dirty_background_bytes")?;
    let ratio = h.sysctl("vm.dirty_background_ratio")?;
    let memory = h.number("host/memory")?;
    let now = if bytes > 0 { bytes } else { (memory / 100).saturating_mul(ratio) };
    let most = (h.target.rate / 8).saturating_mul(2).max(256 << 20);
    let large = bytes == 0 && memory > LARGE;
    let value = if bytes > 0 { size(now) } else { format!("{ratio} % of memory, {}", size(now)) };
    let writes = matches!(h.target.role, Role::Receive | Role::Both | Role::Record);
    let found = Found::rule_if(
        writes,
        now <= most && !large,
        value,
        format!("up to {}, two seconds of data", size(most)),
    );
    let background = most.min(4 << 30);
    Ok(found
        .shows("does not matter to programs that write past the cache (O_DIRECT), as skyhaul record does")
        .advise(
            format!("sysctl -w vm.dirty_bytes={} vm.dirty_background_bytes={background}", background * 2),
            "both in /etc/sysctl.d/90-skyhaul.conf",
        ))
}

fn free(h: &View<'_>) -> Examined {
    let all = mounts(h, "#free")?;
    let full: Vec<String> = all
        .iter()
        .filter(|(_, free)| free.parse::<u64>().is_ok_and(|free| free <= 10))
        .map(|(at, free)| format!("{at} {free} % free"))
        .collect();
    let mut hot = Vec::new();
    for (disk, now) in h.each("nvme/", "/temperature") {
        let most = h.facts.number(&format!("nvme/{disk}/temperature_most"));
        if let (Ok(now), Some(most)) = (now.parse::<u64>(), most)
            && now >= most
        {
            hot.push(format!("{disk} at {now} of {most} degrees"));
        }
    }
    let list: Vec<String> = full.iter().chain(&hot).cloned().collect();
    let value = if list.is_empty() {
        all.iter().map(|(at, free)| format!("{at} {free} % free")).collect::<Vec<_>>().join(", ")
    } else {
        list.join(", ")
    };
    Ok(Found::rule(list.is_empty(), value, "more than 10 % free, below the disk's limit").advise(
        if full.is_empty() { "" } else { "delete what is no longer needed" },
        if hot.is_empty() { "" } else { "cool the disks" },
    ))
}

fn discard(h: &View<'_>) -> Examined {
    let all = mounts(h, "#options")?;
    let online: Vec<&str> = all
        .iter()
        .filter(|(_, options)| options.split(',').any(|option| option.starts_with("discard")))
        .map(|(at, _)| *at)
        .collect();
    let caches: Vec<String> = h
        .each("/sys/block/", "/queue/write_cache")
        .iter()
        .map(|(disk, mode)| format!("{disk} {mode}"))
        .collect();
    let value = if online.is_empty() {
        "not at once".to_owned()
    } else {
        format!("at once on {}", online.join(", "))
    };
    let now: Vec<String> = online.iter().map(|at| format!("mount -o remount,nodiscard {at}")).collect();
    Ok(Found::rule(online.is_empty(), value, "by a timer")
        .shows_if(!caches.is_empty(), format!("write cache: {}", caches.join(", ")))
        .advise(now.join("; "), "systemctl enable fstrim.timer; without discard in /etc/fstab"))
}

fn bandwidth(h: &View<'_>) -> Examined {
    let Some(bytes) = h.facts.number("memory/bandwidth").filter(|bytes| *bytes > 0) else {
        return unknown("the bandwidth of memory was not measured");
    };
    let need = h.target.rate as f64 / 8.0 * (COPIES + 1.0) * 2.0;
    let most = 0.6 * bytes as f64;
    Ok(Found::rule(
        need <= most,
        format!("{} for the rate, of {} measured", per_second(need), per_second(bytes as f64)),
        "up to 60 %",
    )
    .advise("", "all channels of memory filled; fewer copies"))
}

/// Bytes per second, with two digits at the least: a slow rate is not 0 GB/s.
fn per_second(bytes: f64) -> String {
    match bytes {
        b if b >= 1e10 => format!("{:.0} GB/s", b / 1e9),
        b if b >= 1e9 => format!("{:.1} GB/s", b / 1e9),
        b if b >= 1e7 => format!("{:.0} MB/s", b / 1e6),
        b => format!("{:.2} MB/s", b / 1e6),
    }
}
