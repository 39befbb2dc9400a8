//! CPU, power, memory.

pub(super) const CASES: &str = "
A1 pass
A1 warn     /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor=powersave
A1 info     /sys/devices/system/cpu/cpu3/cpufreq/scaling_governor=powersave ; rate=1Gbps
A1 n/a      world=guest
A1 unknown  world=guest ; /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor=?
A2 pass
A2 warn     /sys/devices/system/cpu/cpu1/cpufreq/energy_performance_preference=balance_power
A2 info     /sys/devices/system/cpu/cpu1/cpufreq/energy_performance_preference=balance_power ; rate=1Gbps
A2 pass     world=guest ; /sys/devices/system/cpu/cpu1/power/energy_perf_bias=0
A2 warn     world=guest ; /sys/devices/system/cpu/cpu1/power/energy_perf_bias=6
A2 unknown  world=guest ; /sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference=?
A2 n/a      world=guest
A3 pass
A3 pass     world=epyc
A3 warn     /sys/devices/system/cpu/intel_pstate/no_turbo=1
A3 warn     world=epyc ; /sys/devices/system/cpu/cpufreq/boost=0
A3 unknown  world=epyc ; /sys/devices/system/cpu/cpufreq/boost=?
A3 n/a      world=guest
A4 pass
A4 warn     /sys/devices/system/cpu/cpu2/cpuidle/state2/disable=0
A4 pass     /sys/devices/system/cpu/cpu9/cpuidle/state2/disable=0
A4 pass     /sys/devices/system/cpu/cpu2/cpuidle/state2/disable=0 ; host/dma_latency=0
A4 warn     /sys/devices/system/cpu/cpu2/cpuidle/state2/disable=0 ; host/dma_latency=2000000000
A4 unknown  /sys/devices/system/cpu/cpu2/cpuidle/state1/latency=odd
A4 n/a      world=guest
A4 n/a      world=container
A5 info     /sys/devices/system/cpu/smt/active=1
A5 info
A5 pass     flows=1
A5 pass     role=measure
A5 unknown  /sys/devices/system/cpu/smt/active=?
A5 n/a      world=guest
A6 pass
A6 warn     /proc/700/comm=irqbalance
A6 n/a      world=guest
A6 n/a      world=container
A7 pass
A7 warn     /proc/irq/103/effective_affinity_list=12
A7 warn     /proc/irq/103/effective_affinity_list=2
A7 unknown  /proc/interrupts=CPU0
A7 n/a      world=guest
A7 pass     world=epyc
A8 pass
A8 warn     process/cpus_allowed=8-15
A8 info     process/cpus_allowed=0-15
A8 unknown  /sys/class/net/eth1/device/local_cpulist=-
A8 n/a      world=epyc
A8 n/a      world=guest
A9 pass
A9 warn     /proc/sys/kernel/numa_balancing=1
A9 unknown  /proc/sys/kernel/numa_balancing=?
A9 n/a      world=epyc
A10 pass
A10 warn    /sys/class/net/eth1/device/iommu_group/type=DMA-FQ
A10 pass    /sys/class/net/eth1/device/iommu_group/type=-
A10 unknown /sys/class/net/eth1/device/iommu_group/type=- ; host/iommus=2
A10 unknown /sys/class/net/eth1/device/iommu_group/type=?
A10 n/a     world=guest
A11 pass
A11 info    /sys/devices/system/cpu/vulnerabilities/spectre_v2=Mitigation: Retpolines
A11 unknown /sys/devices/system/cpu/vulnerabilities/meltdown=?
A12 pass
A12 warn    /sys/class/net/eth1/device/current_link_width=4
A12 warn    rate=400Gbps
A12 unknown /sys/class/net/eth1/device/current_link_speed=Unknown
A12 unknown /sys/class/net/eth1/device/current_link_speed=?
A12 n/a     world=guest
A12 n/a     world=container
A13 pass
A13 warn    payload=128
A13 unknown pci/payload=?
A13 n/a     world=guest
A14 pass
A14 pass    world=epyc
A14 warn    world=epyc ; /sys/devices/system/node/node1/cpulist=8-15
A14 warn    dmi/slots=16 ; dmi/slots_used=8 ; dmi/channels=16 ; dmi/channels_used=8
A14 pass    dmi/slots=32 ; dmi/slots_used=16 ; dmi/channels=16 ; dmi/channels_used=16
A14 unknown /sys/devices/system/node/node0/cpulist=- ; /sys/devices/system/node/node1/cpulist=-
A14 n/a     world=guest
A15 pass
A15 info    /sys/kernel/mm/transparent_hugepage/enabled=[always] madvise never
A15 unknown /sys/kernel/mm/transparent_hugepage/enabled=?
A16 pass
A16 pass    world=guest
A16 warn    /sys/devices/system/clocksource/clocksource0/current_clocksource=hpet
A16 unknown /sys/devices/system/clocksource/clocksource0/current_clocksource=?
A17 pass
A17 info    /sys/devices/system/cpu/isolated=8-11
A17 pass    /sys/devices/system/cpu/isolated=0-7
A17 info    /sys/devices/system/cpu/nohz_full=4-7
A17 unknown /sys/devices/system/cpu/isolated=?
A18 pass
A18 warn    limit/rtprio=0 ; role=record
A18 info    limit/rtprio=0
A18 pass    limit/rtprio=0 ; process/privileges=0000000000800000 ; role=record
A18 warn    /proc/sys/kernel/sched_rt_runtime_us=0 ; role=record
A18 unknown /proc/sys/kernel/sched_rt_runtime_us=?
A19 pass
A19 warn    limit/memlock=65536
A19 pass    limit/memlock=65536 ; process/privileges=0000000000004000
A19 warn    limit/nofile=1024
A19 unknown /proc/self/limits=?
";
