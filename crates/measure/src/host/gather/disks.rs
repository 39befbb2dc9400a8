//! Disks and file systems that hold data.

use super::asked::{Asked, Devices};
use super::files::keep;
use crate::host::facts::Facts;
use skyhaul_io::host::tree::Tree;

/// Of every disk.
const QUEUE: &[&str] = &[
    "scheduler",
    "read_ahead_kb",
    "nr_requests",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "nomerges",
    "rq_affinity",
    "rotational",
    "write_cache",
];
/// Disks that are none.
const NOT_DISKS: [&str; 6] = ["loop", "ram", "zram", "sr", "fd", "nbd"];

pub(super) fn note(tree: &Tree, devices: &dyn Devices, asked: &Asked, facts: &mut Facts) {
    for disk in tree.names("/sys/block") {
        if NOT_DISKS.iter().any(|kind| disk.starts_with(kind)) {
            continue;
        }
        for name in QUEUE {
            keep(tree, facts, &format!("/sys/block/{disk}/queue/{name}"));
        }
        for name in ["level", "chunk_size"] {
            keep(tree, facts, &format!("/sys/block/{disk}/md/{name}"));
        }
        for path in tree.matching(&format!("/sys/block/{disk}/{disk}*/start")) {
            keep(tree, facts, &path);
        }
    }
    for nvme in tree.names("/sys/class/nvme") {
        let device = format!("/sys/class/nvme/{nvme}");
        for name in
            ["numa_node", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width"]
        {
            keep(tree, facts, &format!("{device}/device/{name}"));
        }
        let sensors = tree.matching(&format!("{device}/hwmon*/temp1_input"));
        for path in sensors.iter().flat_map(|path| [path.clone(), path.replace("_input", "_max")]) {
            let name = if path.ends_with("_input") { "temperature" } else { "temperature_most" };
            if let Some(milli) = tree.read(&path).ok().and_then(|text| text.trim().parse::<i64>().ok()) {
                facts.note(format!("nvme/{nvme}/{name}"), milli / 1000);
            }
        }
    }
    mounts(tree, devices, asked, facts);
}

/// File systems on disks, or those that the given directories are on.
fn mounts(tree: &Tree, devices: &dyn Devices, asked: &Asked, facts: &mut Facts) {
    let table = match tree.read("/proc/self/mountinfo") {
        Ok(table) => table,
        Err(error) => return facts.unreadable("mounts", skyhaul_io::address::system_text(&error)),
    };
    let mut all: Vec<Mount<'_>> = table.lines().filter_map(Mount::read).collect();
    // Of several on one place, the last counts.
    all.reverse();
    let mut seen = Vec::new();
    all.retain(|mount| {
        !seen.contains(&mount.at) && {
            seen.push(mount.at.clone());
            true
        }
    });
    let wanted: Vec<&Mount<'_>> = if asked.data.is_empty() {
        let disk = |mount: &&Mount<'_>| mount.source.starts_with("/dev/") && !mount.at.starts_with("/boot");
        all.iter().filter(disk).filter(|mount| !all.iter().any(|whole| mount.is_part_of(whole))).collect()
    } else {
        let on = |path: &String| {
            let holds = |mount: &&Mount<'_>| std::path::Path::new(path).starts_with(&mount.at);
            all.iter().filter(holds).max_by_key(|mount| mount.at.len())
        };
        asked.data.iter().filter_map(on).collect()
    };
    for mount in wanted {
        let key = format!("mount/{}", mount.at);
        facts.note(format!("{key}#type"), mount.kind);
        facts.note(format!("{key}#options"), &mount.options);
        facts.note(format!("{key}#source"), mount.source);
        if let Some(free) = devices.free(&mount.at) {
            facts.note(format!("{key}#free"), free);
        }
    }
}

struct Mount<'a> {
    /// Numbers of the device.
    device: &'a str,
    /// What of its file system is mounted.
    root: &'a str,
    at: String,
    kind: &'a str,
    source: &'a str,
    options: String,
}

impl<'a> Mount<'a> {
    /// `36 35 98:0 /root /at rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`
    fn read(line: &'a str) -> Option<Self> {
        let (first, second) = line.split_once(" - ")?;
        let mut first = first.split(' ').skip(2);
        let (device, root) = (first.next()?, first.next()?);
        let at = unescaped(first.next()?);
        let options = first.next()?;
        let mut second = second.split(' ');
        let (kind, source) = (second.next()?, second.next()?);
        let options = format!("{options},{}", second.next().unwrap_or_default());
        Some(Self { device, root, at, kind, source, options })
    }

    /// Whether it is a directory of what is mounted elsewhere too (`mount --bind`, `/run/netns`).
    fn is_part_of(&self, whole: &Self) -> bool {
        let below = self.root.strip_prefix(whole.root);
        self.device == whole.device
            && below.is_some_and(|rest| !rest.is_empty() && (whole.root == "/" || rest.starts_with('/')))
    }
}

/// Spaces of a path are written as `\040`.
fn unescaped(path: &str) -> String {
    path.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mounts_is_read() {
        let line = "36 35 98:0 / /data\\040one rw,noatime shared:1 - xfs /dev/nvme0n1p1 rw,attr2";
        let mount = Mount::read(line).unwrap();
        assert_eq!((mount.at.as_str(), mount.kind, mount.source), ("/data one", "xfs", "/dev/nvme0n1p1"));
        assert_eq!(mount.options, "rw,noatime,rw,attr2");
        assert!(Mount::read("36 35 98:0 / /data").is_none());
    }

    #[test]
    fn a_part_of_a_file_system_is_no_disk() {
        let part = |a: &str, b: &str| {
            let (a, b) =
                (format!("1 0 {a} /a rw - ext4 /dev/vda rw"), format!("2 0 {b} /b rw - ext4 /dev/vda rw"));
            Mount::read(&a).unwrap().is_part_of(&Mount::read(&b).unwrap())
        };
        assert!(part("254:0 /run/netns", "254:0 /"));
        assert!(part("254:0 /@/data", "254:0 /@"));
        assert!(!part("254:0 /", "254:0 /"));
        assert!(!part("254:0 /", "254:0 /run/netns"));
        assert!(!part("254:0 /@home", "254:0 /@"));
        assert!(!part("254:1 /run/netns", "254:0 /"));
    }
}
