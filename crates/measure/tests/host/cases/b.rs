//! The card and its driver.

pub(super) const CASES: &str = "
B1 pass
B1 warn     /sys/class/net/eth1/operstate=down
B1 warn     /sys/class/net/eth1/operstate=down ; /sys/class/net/eth1/carrier=0
B1 pass     /sys/class/net/eth1/operstate=down ; /sys/class/net/eth1/carrier=1
B1 warn     /sys/class/net/eth1/speed=40000
B1 warn     /sys/class/net/eth1/duplex=half
B1 fail     rise=count/net/carrier_changes:2
B1 unknown  /sys/class/net/eth1/operstate=?
B1 unknown  /sys/class/net/eth1/speed=-1
B1 n/a      world=guest
B2 pass
B2 warn     ethtool/eth1/fec=baser
B2 fail     rise=count/card/rx_fec_uncorrectable:1
B2 pass     ran=yes
B2 unknown  ethtool/eth1/fec=?
B2 n/a      /sys/class/net/eth1/speed=10000
B2 n/a      world=guest
B3 pass
B3 warn     /sys/class/net/eth1/mtu=1500
B3 info     /sys/class/net/eth1/mtu=1500 ; rate=1Gbps
B3 pass     /sys/class/net/eth1/mtu=1500 ; wanted-mtu=1500
B3 warn     wanted-mtu=1500
B3 pass     /sys/class/net/eth1/mtu=1500 ; link/max_mtu=1500
B3 unknown  /sys/class/net/eth1/mtu=?
B4 n/a
B4 pass     path/mtu=9000
B4 pass     path/mtu=9000 ; peer-mtu=9000
B4 warn     path/mtu=1500
B4 warn     path/mtu=9000 ; peer-mtu=1500
B4 pass     path/mtu=9000 ; ran=yes
B4 fail     path/mtu=9000 ; rise=count/TcpExt/TCPMTUPFail:3
B4 unknown  path/mtu=?
B5 pass
B5 info     ethtool/eth1/ring/rx=1024
B5 warn     ethtool/eth1/ring/rx=1024 ; /proc/sys/kernel/osrelease=6.8.0
B5 warn     ethtool/eth1/ring/rx=1024 ; rise=count/card/rx_out_of_buffer:9
B5 unknown  ethtool/eth1/ring/rx=?
B5 n/a      world=guest
B6 pass
B6 fail     rise=count/net/rx_missed_errors:3
B6 fail     rise=count/card/rx_out_of_buffer:3
B6 pass     ran=yes
B6 pass     rise=count/card/rx_packets:3
B6 info     /sys/class/net/eth1/statistics/rx_missed_errors=12
B6 unknown  /sys/class/net/eth1/statistics/rx_missed_errors=-
B7 pass
B7 info     ethtool/eth1/coalesce/adaptive-rx=0
B7 warn     role=measure
B7 pass     role=measure ; ethtool/eth1/coalesce/adaptive-rx=0
B7 unknown  ethtool/eth1/coalesce/adaptive-rx=?
B7 n/a      world=guest
B8 pass
B8 warn     ethtool/eth1/coalesce/rx-usecs=0 ; ethtool/eth1/coalesce/rx-frames=1 ; ethtool/eth1/coalesce/adaptive-rx=0
B8 pass     ethtool/eth1/coalesce/rx-usecs=0 ; ethtool/eth1/coalesce/rx-frames=1
B8 warn     ethtool/eth1/coalesce/rx-usecs=5000
B8 unknown  ethtool/eth1/coalesce/rx-usecs=?
B8 n/a      world=guest ; ethtool/eth1/coalesce/rx-usecs=?
B9 pass
B9 warn     ethtool/eth1/feature/rx-gro=off
B9 warn     ethtool/eth1/feature/tx-tcp-segmentation=off
B9 pass     ethtool/eth1/feature/tx-tcp-segmentation=off fixed
B9 unknown  ethtool/eth1/feature/rx-gro=?
B10 pass
B10 warn    ethtool/eth1/feature/rx-lro=on
B10 info    ethtool/eth1/feature/rx-gro-hw=off
B10 pass    ethtool/eth1/feature/rx-gro-hw=off fixed
B10 unknown ethtool/eth1/feature/rx-gro=?
B11 pass
B11 warn    ethtool/eth1/feature/tx-udp-segmentation=off
B11 warn    ethtool/eth1/feature/rx-gro-list=on
B11 pass    ethtool/eth1/feature/tx-udp-segmentation=off fixed
B11 unknown ethtool/eth1/feature/rx-gro=?
B11 n/a     /proc/sys/kernel/osrelease=4.14.0
B12 pass
B12 warn    ethtool/eth1/channels/combined=2
B12 pass    ethtool/eth1/channels/combined=2 ; flows=1
B12 warn    ethtool/eth1/channels/combined=63
B12 unknown ethtool/eth1/channels/combined=?
B12 n/a     world=guest
B13 pass
B13 warn    ethtool/eth1/hash/udp4=sd
B13 info    ethtool/eth1/hash/udp4=sd ; role=send
B13 unknown ethtool/eth1/hash/udp4=?
B13 n/a     world=guest
B14 pass
B14 warn    ethtool/eth1/indirection=0:120 1:8
B14 unknown ethtool/eth1/indirection=?
B14 n/a     world=guest
B15 pass
B15 pass    /proc/sys/net/core/rps_sock_flow_entries=0 ; ethtool/eth1/rules=4
B15 info    /proc/sys/net/core/rps_sock_flow_entries=0
B15 warn    /proc/sys/net/core/rps_sock_flow_entries=0 ; role=record
B15 unknown /proc/sys/net/core/rps_sock_flow_entries=?
B15 n/a     world=guest ; /sys/class/net/eth1/queues/rx-1/rps_cpus=- ; /sys/class/net/eth1/queues/rx-2/rps_cpus=- ; /sys/class/net/eth1/queues/rx-3/rps_cpus=- ; /sys/class/net/eth1/queues/rx-4/rps_cpus=- ; /sys/class/net/eth1/queues/rx-5/rps_cpus=- ; /sys/class/net/eth1/queues/rx-6/rps_cpus=- ; /sys/class/net/eth1/queues/rx-7/rps_cpus=-
B16 pass
B16 warn    world=guest ; /sys/class/net/eth1/queues/rx-0/rps_cpus=f
B16 pass    /sys/class/net/eth1/queues/rx-0/rps_cpus=f
B16 info    /sys/class/net/eth1/queues/tx-0/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-1/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-2/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-3/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-4/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-5/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-6/xps_cpus=0 ; /sys/class/net/eth1/queues/tx-7/xps_cpus=0
B16 unknown /sys/class/net/eth1/queues=-
B17 pass
B17 info    ethtool/eth1/pause/tx=0
B17 fail    rise=count/card/tx_pause_ctrl_phy:8
B17 unknown ethtool/eth1/pause/rx=?
B17 n/a     world=guest
B18 pass
B18 warn    ethtool/eth1/stamp/rx=no ; role=measure
B18 info    ethtool/eth1/stamp/rx=no
B18 unknown ethtool/eth1/stamp/rx=?
B19 info
B19 info    peer-driver=ice ; peer-firmware=4.40
B19 pass    peer-firmware=22.41.1000
B19 warn    peer-firmware=22.1.1
B19 unknown ethtool/eth1/driver=?
B19 n/a     world=guest
B20 pass
B20 warn    ethtool/eth1/private/rx_striding_rq=off
B20 unknown ethtool/eth1/private/rx_striding_rq=?
B20 n/a     ethtool/eth1/driver=ice
B21 n/a
B21 pass    qdisc/leaves=pfifo_fast
B21 warn    qdisc/leaves=pfifo_fast ; /sys/class/net/eth1/tx_queue_len=100
B21 n/a     world=container
B21 unknown /sys/class/net/eth1/tx_queue_len=?
B22 pass
B22 info    rtt=100us
B22 info    link/gso_max_size=185000 ; link/gro_max_size=185000
B22 pass    link/gso_max_size=185000 ; link/gro_max_size=185000 ; rtt=100us
B22 unknown link/gso_max_size=?
B22 n/a     /proc/sys/kernel/osrelease=5.15.0
B23 pass
B23 warn    link/gso_max_size=185000
B23 pass    link/gso_max_size=185000 ; /proc/sys/net/core/max_skb_frags=45
B23 unknown /proc/sys/net/core/max_skb_frags=?
B23 n/a     /proc/sys/kernel/osrelease=6.1.0
B24 pass
B24 warn    qdisc/leaves=fq_codel fq_codel
B24 warn    qdisc/root=pfifo_fast ; qdisc/leaves=-
B24 fail    rise=count/qdisc/drops:4
B24 unknown qdisc/root=?
B24 n/a     role=record
B24 n/a     world=container
B25 pass
B25 info    rtt=50ms
B25 pass    qdisc/fq/maxrate=1300000000 ; rtt=50ms
B25 warn    qdisc/fq/maxrate=1000000
B25 n/a     role=receive
B25 n/a     qdisc/leaves=pfifo_fast
B25 unknown qdisc/root=?
B26 pass
B26 info    /sys/class/net/eth1/gro_flush_timeout=20000 ; /sys/class/net/eth1/napi_defer_hard_irqs=2
B26 warn    /sys/class/net/eth1/gro_flush_timeout=2000000
B26 unknown /sys/class/net/eth1/gro_flush_timeout=?
";
