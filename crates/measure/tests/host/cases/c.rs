//! The network stack.

pub(super) const CASES: &str = "
C1 pass
C1 warn     /proc/sys/net/core/rmem_max=212992
C1 pass     /proc/sys/net/core/rmem_max=212992 ; role=send
C1 warn     /proc/sys/net/core/wmem_max=212992
C1 pass     /proc/sys/net/core/wmem_max=212992 ; role=record
C1 unknown  /proc/sys/net/core/rmem_max=?
C2 pass
C2 warn     /proc/sys/net/core/rmem_default=536870912
C2 unknown  /proc/sys/net/core/rmem_default=?
C3 pass
C3 warn     /proc/sys/net/ipv4/tcp_rmem=4096 131072 16777216
C3 unknown  /proc/sys/net/ipv4/tcp_rmem=4096 131072
C3 unknown  /proc/sys/net/ipv4/tcp_rmem=?
C4 pass
C4 warn     /proc/sys/net/ipv4/tcp_wmem=4096 16384 4194304
C4 pass     /proc/sys/net/ipv4/tcp_wmem=4096 16384 4194304 ; role=record
C4 unknown  /proc/sys/net/ipv4/tcp_wmem=?
C5 pass
C5 warn     /proc/sys/net/ipv4/udp_mem=1000 2000 3000
C5 warn     /proc/sys/net/ipv4/tcp_mem=1000 2000 3000
C5 unknown  /proc/sys/net/ipv4/udp_mem=?
C6 pass
C6 warn     /proc/sys/net/ipv4/tcp_moderate_rcvbuf=0
C6 unknown  /proc/sys/net/ipv4/tcp_moderate_rcvbuf=?
C7 pass
C7 warn     /proc/sys/net/ipv4/tcp_timestamps=0
C7 warn     /proc/sys/net/ipv4/tcp_window_scaling=0
C7 unknown  /proc/sys/net/ipv4/tcp_sack=?
C8 pass
C8 warn     /proc/sys/net/ipv4/tcp_no_metrics_save=0 ; role=measure
C8 info     /proc/sys/net/ipv4/tcp_no_metrics_save=0
C8 unknown  /proc/sys/net/ipv4/tcp_no_metrics_save=?
C9 pass
C9 warn     /proc/sys/net/ipv4/tcp_slow_start_after_idle=1
C9 info     /proc/sys/net/ipv4/tcp_slow_start_after_idle=1 ; role=record
C9 unknown  /proc/sys/net/ipv4/tcp_slow_start_after_idle=?
C10 pass
C10 warn    /proc/sys/net/ipv4/tcp_mtu_probing=0
C10 info    /proc/sys/net/ipv4/tcp_mtu_probing=0 ; /sys/class/net/eth1/mtu=1500
C10 unknown /proc/sys/net/ipv4/tcp_mtu_probing=?
C11 pass
C11 pass    /proc/sys/net/ipv4/tcp_congestion_control=bbr
C11 warn    /proc/sys/net/ipv4/tcp_congestion_control=reno
C11 info    /proc/sys/net/ipv4/tcp_congestion_control=htcp
C11 unknown /proc/sys/net/ipv4/tcp_congestion_control=?
C12 n/a
C12 pass    /proc/sys/net/ipv4/tcp_congestion_control=bbr
C12 info    /proc/sys/net/ipv4/tcp_congestion_control=bbr ; qdisc/leaves=pfifo_fast
C12 warn    /proc/sys/net/ipv4/tcp_congestion_control=bbr ; qdisc/leaves=pfifo_fast ; /proc/sys/kernel/osrelease=4.19.0
C12 n/a     /proc/sys/kernel/osrelease=4.4.0
C12 unknown /proc/sys/net/ipv4/tcp_congestion_control=bbr ; qdisc/root=?
C13 pass
C13 warn    /proc/sys/net/core/default_qdisc=pfifo_fast
C13 info    /proc/sys/net/core/default_qdisc=pfifo_fast ; role=receive
C13 unknown /proc/sys/net/core/default_qdisc=?
C14 pass
C14 warn    rise=count/softnet/3/dropped:9
C14 pass    rise=count/softnet/3/dropped:9 ; /proc/sys/net/core/netdev_max_backlog=250000
C14 unknown /proc/sys/net/core/netdev_max_backlog=?
C15 pass
C15 warn    rise=count/softnet/3/squeezed:9 ; rise=count/softnet/3/dropped:9
C15 pass    rise=count/softnet/3/squeezed:9
C15 unknown /proc/sys/net/core/netdev_budget=?
C16 pass
C16 fail    rise=count/softnet/3/dropped:9
C16 info    /proc/thread-self/net/softnet_stat=00000064 00000005 00000000
C16 pass    rise=count/softnet/3/processed:9
C16 unknown /proc/thread-self/net/softnet_stat=?
C17 pass
C17 info    /proc/sys/net/core/busy_read=50
C17 pass    /proc/sys/net/core/busy_read=50 ; role=measure
C17 unknown /proc/sys/net/core/busy_read=?
C18 pass
C18 warn    /proc/sys/net/core/optmem_max=20480
C18 info    /proc/sys/net/core/optmem_max=20480 ; role=receive
C18 unknown /proc/sys/net/core/optmem_max=?
C19 pass
C19 warn    /proc/sys/net/ipv4/tcp_limit_output_bytes=262144
C19 warn    /proc/sys/net/ipv4/tcp_limit_output_bytes=1048576 ; /proc/sys/kernel/osrelease=6.1.0
C19 pass    /proc/sys/net/ipv4/tcp_limit_output_bytes=1048576
C19 unknown /proc/sys/net/ipv4/tcp_limit_output_bytes=?
C20 pass
C20 warn    /proc/sys/net/ipv4/tcp_notsent_lowat=131072
C20 info    /proc/sys/net/ipv4/tcp_notsent_lowat=131072 ; role=record
C20 unknown /proc/sys/net/ipv4/tcp_notsent_lowat=?
C21 pass
C21 warn    /proc/sys/net/ipv4/tcp_adv_win_scale=2
C21 unknown /proc/sys/net/ipv4/tcp_shrink_window=?
C22 pass
C22 warn    /proc/sys/net/ipv4/tcp_ecn=0
C22 unknown /proc/sys/net/ipv4/tcp_ecn=?
C23 pass
C23 warn    /proc/sys/net/ipv4/tcp_min_tso_segs=16
C23 unknown /proc/sys/net/ipv4/tcp_min_tso_segs=?
C24 pass
C24 warn    /etc/sysctl.d/99-old.conf=net.ipv4.tcp_tw_recycle = 1
C25 pass
C25 warn    /proc/sys/net/ipv4/udp_rmem_min=1024
C25 unknown /proc/sys/net/ipv4/udp_rmem_min=?
C26 pass
C26 warn    socket/granted=212992
C26 info    socket/granted=212992 ; role=send
C26 unknown socket/granted=?
C27 pass
C27 fail    rise=count/Udp/RcvbufErrors:5
C27 fail    rise=count/Udp/InErrors:5
C27 pass    rise=count/Udp/InDatagrams:5
C27 info    /proc/thread-self/net/snmp=Udp: InDatagrams InErrors RcvbufErrors\\nUdp: 9 3 3
C27 unknown /proc/thread-self/net/snmp=?
C28 pass
C28 fail    rise=count/TcpExt/PruneCalled:1
C28 pass    rise=count/TcpExt/TCPTimeouts:1
C28 info    /proc/thread-self/net/netstat=TcpExt: PruneCalled\\nTcpExt: 7
C28 unknown /proc/thread-self/net/netstat=?
C29 pass
C29 fail    rise=count/Ip/ReasmFails:1
C29 info    /proc/thread-self/net/snmp=Ip: ReasmReqds ReasmFails\\nIp: 9 3
C29 unknown /proc/thread-self/net/snmp=?
C30 pass
C30 info    /proc/sys/net/netfilter/nf_conntrack_max=262144 ; /proc/sys/net/netfilter/nf_conntrack_count=100
C30 warn    /proc/sys/net/netfilter/nf_conntrack_max=262144 ; /proc/sys/net/netfilter/nf_conntrack_count=250000
C30 warn    /proc/sys/net/netfilter/nf_conntrack_max=262144 ; /proc/sys/net/netfilter/nf_conntrack_count=100 ; role=record
C30 pass    /proc/sys/net/netfilter/nf_conntrack_max=262144 ; /proc/sys/net/netfilter/nf_conntrack_count=0
C30 fail    /proc/sys/net/netfilter/nf_conntrack_max=262144 ; /proc/sys/net/netfilter/nf_conntrack_count=9 ; rise=count/conntrack/drop:1
C30 unknown /proc/sys/net/netfilter/nf_conntrack_max=?
C31 pass
C31 pass    firewall/rules=20 ; firewall/tables=inet filter
C31 warn    firewall/rules=4000
C31 unknown firewall/rules=?
C32 pass
C32 warn    /proc/thread-self/net/packet=sk RefCnt Type Proto Iface R Rmem User Inode\\n0000 3 3 0003 3 1 0 0 9
C32 pass    /proc/thread-self/net/packet=sk RefCnt Type Proto Iface R Rmem User Inode\\n0000 3 3 88cc 3 1 0 0 9
C32 unknown /proc/thread-self/net/packet=?
C32 n/a     world=container
C33 pass
C33 pass    /sys/class/net/eth2/operstate=up
C33 warn    /sys/class/net/eth2/operstate=up ; /proc/sys/net/ipv4/conf/eth1/rp_filter=1
C33 pass    /proc/sys/net/ipv4/conf/eth1/rp_filter=1
C33 unknown /proc/sys/net/ipv4/conf/eth1/rp_filter=?
C34 n/a
C34 pass    route/interface=eth1
C34 warn    route/interface=eth0
C34 warn    route/interface=eth1 ; route/mtu=1400
C34 unknown route/interface=?
C35 n/a
C35 pass    peer/v4=192.0.2.1 ; peer/v6=2001:db8::1 ; peer/v4/rtt_us=7500 ; peer/v6/rtt_us=7600
C35 warn    peer/v4=192.0.2.1 ; peer/v6=2001:db8::1 ; peer/v4/rtt_us=7500 ; peer/v6/rtt_us=27600
C35 info    peer/v4=192.0.2.1 ; peer/v4/rtt_us=7500
C36 n/a
C36 pass    /sys/class/net/eth1/bonding/mode=802.3ad 4 ; /sys/class/net/eth1/bonding/xmit_hash_policy=layer3+4 1
C36 warn    /sys/class/net/eth1/bonding/mode=802.3ad 4 ; /sys/class/net/eth1/bonding/xmit_hash_policy=layer2 0
C36 warn    /sys/class/net/eth1/bonding/mode=balance-rr 0 ; /sys/class/net/eth1/bonding/xmit_hash_policy=layer3+4 1
C36 unknown /sys/class/net/eth1/bonding/mode=? ; /sys/class/net/eth1/bonding/xmit_hash_policy=layer2 0
C37 pass
C37 warn    ethtool/eth1/driver=veth
C37 warn    /sys/class/net/eth1/brport/state=3
C37 info    world=container
C37 unknown ethtool/eth1/driver=?
C38 info
C38 unknown ethtool/eth1/feature/rx-gro=?
C39 pass
C39 warn    clock/synchronised=no ; role=measure
C39 info    clock/synchronised=no
C39 unknown clock/synchronised=?
";
