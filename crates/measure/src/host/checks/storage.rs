//! D1 to D10: file systems, disks, memory that data cross.

use crate::host::check::{ALL, table};
use crate::host::check::{HostView, chosen};
use crate::host::found::{CheckOutcome, CheckResult, NotJudged, not_applicable, unknown};
use crate::host::target::{HostRole, size};
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
        "XFS writes streams in large extents. Access times cause extra writes.";
    D2 "disk scheduler" Medium Rate "FU" ALL, scheduler:
        "Flash gains nothing from sorted requests; a rotating disk does.";
    D3 "read-ahead" Low Rate "T" ALL, read_ahead:
        "With little read-ahead, reads through the page cache wait for each block.";
    D4 "disk request size" Low Rate "K" ALL, requests:
        "Each small request costs a command of its own.";
    D5 "disk array" Medium Rate "UF" ALL, array:
        "Parity must be computed for each write, and small stripes split requests.";
    D6 "NVMe: link and NUMA node" High Rate "U" ALL, nvme:
        "Data that cross between CPU sockets on the way to the disk share that link with the card.";
    D7 "limits of dirty pages" Medium Jitter "T" ALL, dirty:
        "Flushing seconds of data in one go stalls writers, which looks like network loss.";
    D8 "free space, temperature" High Rate "K" ALL, free:
        "A full file system fragments files, and a hot disk throttles.";
    D9 "discard, write cache" Low Jitter "K" ALL, discard:
        "Online discard stalls writes; a weekly fstrim is enough.";
    D10 "memory bandwidth" Medium Rate "K" ALL, bandwidth:
        "Each copy reads and writes memory once. Together with the card's own access, this limits the rate.";
}

/// Names of disks with what one file of their queue says.
fn queues<'a>(h: &HostView<'a>, tail: &'a str) -> Result<Vec<(&'a str, &'a str)>, NotJudged> {
    let all = h.each("/sys/block/", tail);
    if all.is_empty() {
        h.denied("/sys/block/", tail)?;
        return not_applicable("no disk found");
    }
    Ok(all)
}

fn mounts<'a>(h: &HostView<'a>, tail: &'a str) -> Result<Vec<(&'a str, &'a str)>, NotJudged> {
    h.denied("mounts", "")?;
    let all = h.each("mount/", tail);
    if all.is_empty() { not_applicable("no file system on a disk; name one with --disk") } else { Ok(all) }
}

fn file_system(h: &HostView<'_>) -> CheckOutcome {
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
        (true, true) => CheckResult::pass(value, "xfs with noatime"),
        (true, false) => CheckResult::info(value, "xfs with noatime"),
        (false, _) => CheckResult::warn(value, "xfs with noatime"),
    };
    let found =
        found.shows_if(!times.is_empty(), format!("access times are recorded on {}", times.join(", ")));
    let lines: Vec<String> = times.iter().map(remount).collect();
    Ok(found.advise(lines.join("; "), "noatime in /etc/fstab; mkfs.xfs for a new file system of data"))
}

fn turns(h: &HostView<'_>, disk: &str) -> bool {
    h.maybe(&format!("/sys/block/{disk}/queue/rotational")) == Some("1")
}

fn scheduler(h: &HostView<'_>) -> CheckOutcome {
    let (mut wrong, mut seen) = (Vec::new(), Vec::new());
    for (disk, all) in queues(h, "/queue/scheduler")? {
        let now = chosen(all);
        seen.push(format!("{disk} {now}"));
        let wanted = if turns(h, disk) { "mq-deadline" } else { "none" };
        if now != wanted && all.contains(wanted) {
            wrong.push((disk, wanted));
        }
    }
    let mut found = CheckResult::rule(
        wrong.is_empty(),
        seen.join(", "),
        "none for flash, mq-deadline for rotating disks",
    );
    for (disk, wanted) in wrong {
        found = found.set(format!("/sys/block/{disk}/queue/scheduler"), wanted);
    }
    Ok(found)
}

fn read_ahead(h: &HostView<'_>) -> CheckOutcome {
    let all = queues(h, "/queue/read_ahead_kb")?;
    let small: Vec<&str> = all
        .iter()
        .filter(|(_, kb)| kb.parse::<u64>().is_ok_and(|kb| kb < AHEAD_KB))
        .map(|(disk, _)| *disk)
        .collect();
    let value = all.iter().map(|(disk, kb)| format!("{disk} {kb} KiB")).collect::<Vec<_>>().join(", ");
    // A recorder reads nothing, and a sender of ours reads past the cache.
    let reads = matches!(h.target.role, HostRole::Send | HostRole::Both);
    let mut found = CheckResult::rule_if(reads, small.is_empty(), value, format!("at least {AHEAD_KB} KiB"))
        .shows("irrelevant to programs that bypass the page cache (O_DIRECT)");
    for disk in small {
        found = found.set(format!("/sys/block/{disk}/queue/read_ahead_kb"), AHEAD_KB);
    }
    Ok(found)
}

fn requests(h: &HostView<'_>) -> CheckOutcome {
    let mut wrong = Vec::new();
    let all = queues(h, "/queue/max_sectors_kb")?;
    for (disk, now) in &all {
        let number = |name: &str| h.facts.number(&format!("/sys/block/{disk}/queue/{name}"));
        let most = number("max_hw_sectors_kb").unwrap_or(WRITE_KB).min(WRITE_KB);
        let now: u64 =
            now.parse().map_err(|_| NotJudged::Unknown(format!("max_sectors_kb of {disk} is '{now}'")))?;
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
    let mut found =
        CheckResult::rule(wrong.is_empty(), value, "requests up to 1 MiB, rq_affinity 2, merges on");
    for (name, _, wanted) in wrong {
        found = found.set(format!("/sys/block/{name}"), wanted);
    }
    Ok(found)
}

fn array(h: &HostView<'_>) -> CheckOutcome {
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
        return not_applicable("no array, and every partition is aligned");
    }
    let (mut holds, mut seen) = (crooked.is_empty(), Vec::new());
    for (disk, level) in arrays {
        let chunk = h.facts.number(&format!("/sys/block/{disk}/md/chunk_size")).unwrap_or(0);
        let striped = matches!(level, "raid0" | "raid10");
        holds &= level == "raid1" || (striped && chunk >= STRIPE);
        seen.push(format!("{disk} {level}, chunks of {}", size(chunk)));
    }
    seen.extend(crooked.iter().map(|part| format!("{part} not aligned to 1 MiB")));
    let found = CheckResult::rule(
        holds,
        seen.join("; "),
        "raid0 or raid10 with chunks of at least 128KiB, aligned partitions",
    );
    Ok(found.advise("", "mdadm --create with --level=0 or 10 --chunk=512K; or give skyhaul each disk with --disk, without an array"))
}

fn nvme(h: &HostView<'_>) -> CheckOutcome {
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
    let found = CheckResult::rule(slow.is_empty() && far.is_empty(), value, "full width, on the card's node");
    Ok(found.advise(
        "",
        "use other slots; or run the program on the disks' NUMA node if the disks are the bottleneck",
    ))
}

fn dirty(h: &HostView<'_>) -> CheckOutcome {
    let bytes = h.sysctl("vm.dirty_background_bytes")?;
    let ratio = h.sysctl("vm.dirty_background_ratio")?;
    let memory = h.number("host/memory")?;
    let now = if bytes > 0 { bytes } else { (memory / 100).saturating_mul(ratio) };
    let most = (h.target.rate / 8).saturating_mul(2).max(256 << 20);
    let large = bytes == 0 && memory > LARGE;
    let value = if bytes > 0 { size(now) } else { format!("{ratio} % of memory, {}", size(now)) };
    let writes = matches!(h.target.role, HostRole::Receive | HostRole::Both | HostRole::Record);
    let found = CheckResult::rule_if(
        writes,
        now <= most && !large,
        value,
        format!("up to {}, two seconds of data", size(most)),
    );
    let background = most.min(4 << 30);
    Ok(found
        .shows("irrelevant to programs that bypass the page cache (O_DIRECT), such as skyhaul record")
        .advise(
            format!("sysctl -w vm.dirty_bytes={} vm.dirty_background_bytes={background}", background * 2),
            "both in /etc/sysctl.d/90-skyhaul.conf",
        ))
}

fn free(h: &HostView<'_>) -> CheckOutcome {
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
    Ok(CheckResult::rule(list.is_empty(), value, "more than 10 % free, below the disk's limit").advise(
        if full.is_empty() { "" } else { "delete what is no longer needed" },
        if hot.is_empty() { "" } else { "cool the disks" },
    ))
}

fn discard(h: &HostView<'_>) -> CheckOutcome {
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
    Ok(CheckResult::rule(online.is_empty(), value, "by a timer")
        .shows_if(!caches.is_empty(), format!("write cache: {}", caches.join(", ")))
        .advise(now.join("; "), "systemctl enable fstrim.timer; without discard in /etc/fstab"))
}

fn bandwidth(h: &HostView<'_>) -> CheckOutcome {
    let Some(bytes) = h.facts.number("memory/bandwidth").filter(|bytes| *bytes > 0) else {
        return unknown("memory bandwidth was not measured");
    };
    let need = h.target.rate as f64 / 8.0 * (COPIES + 1.0) * 2.0;
    let most = 0.6 * bytes as f64;
    Ok(CheckResult::rule(
        need <= most,
        format!("{} for the rate, of {} measured", per_second(need), per_second(bytes as f64)),
        "up to 60 %",
    )
    .advise("", "populate all memory channels; avoid copies"))
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
