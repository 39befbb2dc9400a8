//! Disks.

pub(super) const CASES: &str = "
D1 pass
D1 warn     /proc/self/mountinfo=36 35 259:1 / /data rw,noatime shared:1 - ext4 /dev/nvme0n1p1 rw
D1 info     /proc/self/mountinfo=36 35 259:1 / /data rw,relatime shared:1 - xfs /dev/nvme0n1p1 rw
D1 unknown  /proc/self/mountinfo=?
D1 n/a      /proc/self/mountinfo=36 35 0:1 / / rw - tmpfs tmpfs rw
D2 pass
D2 warn     /sys/block/nvme0n1/queue/scheduler=none [mq-deadline]
D2 warn     /sys/block/sda/queue/scheduler=[none] mq-deadline ; /sys/block/sda/queue/rotational=1
D2 pass     /sys/block/sda/queue/scheduler=none [mq-deadline] ; /sys/block/sda/queue/rotational=1
D2 unknown  /sys/block/nvme0n1/queue/scheduler=?
D2 n/a      /sys/block=-
D3 pass
D3 warn     /sys/block/nvme0n1/queue/read_ahead_kb=128
D3 info     /sys/block/nvme0n1/queue/read_ahead_kb=128 ; role=record
D3 unknown  /sys/block/nvme0n1/queue/read_ahead_kb=?
D3 n/a      /sys/block=-
D4 pass
D4 warn     /sys/block/nvme0n1/queue/max_sectors_kb=128
D4 warn     /sys/block/nvme0n1/queue/rq_affinity=1
D4 unknown  /sys/block/nvme0n1/queue/max_sectors_kb=?
D4 n/a      /sys/block=-
D5 n/a
D5 pass     /sys/block/md0/md/level=raid0 ; /sys/block/md0/md/chunk_size=524288
D5 warn     /sys/block/md0/md/level=raid6 ; /sys/block/md0/md/chunk_size=524288
D5 warn     /sys/block/md0/md/level=raid0 ; /sys/block/md0/md/chunk_size=65536
D5 warn     /sys/block/nvme0n1/nvme0n1p1/start=63
D5 unknown  /sys/block/md0/md/level=?
D6 pass
D6 warn     /sys/class/nvme/nvme0/device/current_link_width=2
D6 warn     /sys/class/nvme/nvme0/device/numa_node=1
D6 unknown  /sys/class/nvme/nvme0/device/current_link_width=?
D6 n/a      world=guest
D6 n/a      /sys/class/nvme=-
D7 pass
D7 warn     /proc/sys/vm/dirty_background_bytes=0 ; /proc/sys/vm/dirty_background_ratio=10
D7 warn     /proc/sys/vm/dirty_background_bytes=99000000000
D7 info     /proc/sys/vm/dirty_background_bytes=99000000000 ; role=send
D7 unknown  /proc/sys/vm/dirty_background_bytes=?
D8 pass
D8 warn     free:/data=4
D8 warn     /sys/class/nvme/nvme0/hwmon3/temp1_input=85000
D8 unknown  /proc/self/mountinfo=?
D8 n/a      /proc/self/mountinfo=36 35 0:1 / / rw - tmpfs tmpfs rw
D9 pass
D9 warn     /proc/self/mountinfo=36 35 259:1 / /data rw,noatime,discard shared:1 - xfs /dev/nvme0n1p1 rw
D9 unknown  /proc/self/mountinfo=?
D9 n/a      /proc/self/mountinfo=36 35 0:1 / / rw - tmpfs tmpfs rw
D10 pass
D10 warn    memory/bandwidth=20000000000
D10 unknown memory/bandwidth=-
";
