//! A1 to A9: clocks of processors, idle states, interrupts and memory near the card.

use crate::host::check::{ALL, table};
use crate::host::check::{CPUS, HostView, cpu_list, tally};
use crate::host::found::{CheckOutcome, CheckResult, NotJudged, not_applicable, unknown};
use std::collections::BTreeSet;

/// Exit latency in microseconds that a burst survives, at most.
const WAKE_US: f64 = 10.0;

table! {
    /// Processors.
    TABLE:
    A1 "CPU frequency governor" High Loss "FOTU" ALL, governor:
        "A core that first has to raise its clock is late at the start of every burst.";
    A2 "CPU energy preference" High Rate "T" ALL, energy:
        "intel_pstate and amd_pstate follow this preference; the governor alone does not keep the clock high.";
    A3 "turbo boost" Medium Rate "F" ALL, boost:
        "One flow runs on one core, so its rate follows the clock: 30 Gb/s need about 3 GHz.";
    A4 "deepest idle state" High Loss "UT" ALL, idle:
        "While a core wakes up, packets fill the card's ring. At a low duty cycle it wakes for every burst.";
    A5 "SMT (hyper-threading)" Medium Jitter "FOU" ALL, smt:
        "Two threads share a core, so the speed of a receiver depends on its sibling.";
    A6 "irqbalance" Medium Loss "FU" ALL, irqbalance:
        "It moves the card's interrupts between cores during transfers.";
    A7 "interrupts of the card" High Rate "FU" ALL, interrupts:
        "Interrupts on the other CPU socket, or several on one core, can halve the rate.";
    A8 "NUMA locality of the program" High Rate "FU" ALL, locality:
        "Every byte crosses between CPU sockets if the program or its memory is on another NUMA node than the card.";
    A9 "automatic NUMA balancing" Low Jitter "T" ALL, balancing:
        "Moving pages between NUMA nodes stalls the threads that use them.";
}

fn governor(h: &HostView<'_>) -> CheckOutcome {
    let all = h.each(CPUS, "/cpufreq/scaling_governor");
    if all.is_empty() {
        h.denied(CPUS, "/cpufreq/scaling_governor")?;
        return not_applicable("no frequency scaling on this host");
    }
    let wrong = all.iter().filter(|(_, value)| *value != "performance");
    let mut found = CheckResult::rule_if(
        h.target.at_least_gbps(10),
        wrong.clone().count() == 0,
        tally(all.iter().map(|(_, value)| *value)),
        "performance",
    );
    for (cpu, _) in wrong {
        found = found.set(format!("{CPUS}{cpu}/cpufreq/scaling_governor"), "performance");
    }
    Ok(found)
}

fn energy(h: &HostView<'_>) -> CheckOutcome {
    let (preference, bias) = ("/cpufreq/energy_performance_preference", "/power/energy_perf_bias");
    let (all, tail, wanted) = match h.each(CPUS, preference) {
        all if all.is_empty() => (h.each(CPUS, bias), bias, "0"),
        all => (all, preference, "performance"),
    };
    if all.is_empty() {
        h.denied(CPUS, preference)?;
        return not_applicable("this CPU has no energy preference");
    }
    let wrong: Vec<_> = all.iter().filter(|(_, value)| *value != wanted).collect();
    let mut found = CheckResult::rule_if(
        h.target.at_least_gbps(10),
        wrong.is_empty(),
        tally(all.iter().map(|(_, value)| *value)),
        wanted,
    );
    for (cpu, _) in wrong {
        found = found.set(format!("{CPUS}{cpu}{tail}"), wanted);
    }
    Ok(found)
}

fn boost(h: &HostView<'_>) -> CheckOutcome {
    let (intel, other) = (format!("{CPUS}intel_pstate/no_turbo"), format!("{CPUS}cpufreq/boost"));
    let known = h.facts.facts.contains_key(&intel) || h.facts.facts.contains_key(&other);
    if !known {
        return not_applicable("this host has no boost setting");
    }
    let (name, wanted) = if h.facts.facts.contains_key(&intel) { (intel, 0) } else { (other, 1) };
    let on = h.number(&name)? == wanted;
    Ok(CheckResult::rule(on, if on { "on" } else { "off" }, "on").set(name, wanted))
}

fn idle(h: &HostView<'_>) -> CheckOutcome {
    h.on_host()?;
    let states = h.each(CPUS, "/latency");
    if states.is_empty() {
        h.denied(CPUS, "/latency")?;
        return not_applicable("this kernel has no idle states");
    }
    let ring = h.facts.number(&h.card("ring/rx")).unwrap_or(512);
    let ring_us = ring as f64 * h.target.packet_ns(h.mtu()) / 1e3;
    let most = WAKE_US.min(ring_us / 4.0);
    let near = h.near();
    let mut deep = Vec::new();
    for (state, latency) in states {
        let Some((cpu, _)) = state.split_once("/cpuidle/") else { continue };
        let number = cpu.trim_start_matches("cpu").parse::<usize>().ok();
        let here = near.as_ref().is_none_or(|near| number.is_some_and(|number| near.contains(&number)));
        let off = h.maybe(&format!("{CPUS}{state}/disable")) == Some("1");
        let latency =
            latency.parse::<f64>().map_err(|_| NotJudged::Unknown(format!("latency '{latency}'")))?;
        if here && !off && latency > most {
            deep.push((latency, state));
        }
    }
    let wanted = format!("at most {most:.1} us to wake on the card's cores");
    if let Some(held) = h.facts.number("host/dma_latency").filter(|held| *held as f64 <= most) {
        return Ok(CheckResult::pass(format!("held at {held} us through /dev/cpu_dma_latency"), wanted));
    }
    let worst = deep.iter().map(|(latency, _)| *latency).fold(0.0, f64::max);
    let value = if deep.is_empty() { "shallow states only".into() } else { format!("up to {worst:.0} us") };
    let mut found = CheckResult::rule(deep.is_empty(), value, wanted).shows_if(
        !deep.is_empty(),
        format!("the ring of {ring} packets lasts {ring_us:.0} us at the target rate"),
    );
    for (_, state) in &deep {
        found = found.set(format!("{CPUS}{state}/disable"), 1);
    }
    Ok(found)
}

fn smt(h: &HostView<'_>) -> CheckOutcome {
    h.on_host()?;
    let active = h.number("/sys/devices/system/cpu/smt/active")? == 1;
    let single = h.target.measures() || h.target.flows == 1;
    Ok(match (active, single) {
        (false, true) => CheckResult::pass("off", "off for one flow"),
        (false, false) => {
            CheckResult::info("off", "sources disagree").shows("OSG: on for many flows; ESnet: off")
        }
        (true, _) => CheckResult::info("on", "sources disagree")
            .shows("ESnet: off; OSG: off to measure, on to transfer many flows")
            .advise("echo off > /sys/devices/system/cpu/smt/control", "kernel argument nosmt"),
    })
}

fn irqbalance(h: &HostView<'_>) -> CheckOutcome {
    h.on_host()?;
    let runs = h.text("process/irqbalance")? == "running";
    let found = CheckResult::rule(!runs, if runs { "running" } else { "not running" }, "not running");
    Ok(found.advise(
        "systemctl stop irqbalance",
        "systemctl disable irqbalance, or IRQBALANCE_BANNED_CPULIST with the card's cores in its environment",
    ))
}

fn interrupts(h: &HostView<'_>) -> CheckOutcome {
    h.on_host()?;
    let all = h.each("irq/", "/cpus");
    if all.is_empty() {
        h.denied("irq/", "/cpus")?;
        return unknown(format!("found no interrupts of {}", h.interface()));
    }
    let near = h.near();
    let mut used: BTreeSet<usize> = BTreeSet::new();
    let (mut far, mut shared) = (Vec::new(), Vec::new());
    for (irq, list) in &all {
        let cpus = cpu_list(list);
        if near.as_ref().is_some_and(|near| !cpus.is_subset(near)) {
            far.push(*irq);
        }
        if let [one] = cpus.iter().copied().collect::<Vec<_>>()[..]
            && !used.insert(one)
        {
            shared.push(*irq);
        }
    }
    let room = near.as_ref().map_or(h.processors().len(), BTreeSet::len);
    if all.len() > room {
        shared.clear();
    }
    let caches = caches(h, &used);
    let value = match (far.len(), shared.len()) {
        (0, 0) => format!("{} interrupts, each on a core near the card", all.len()),
        (far, shared) => {
            format!("of {} interrupts, {far} far from the card, {shared} sharing a core", all.len())
        }
    };
    let mut found =
        CheckResult::rule(far.is_empty() && shared.is_empty(), value, "one core near the card for each")
            .shows_if(
                caches > 1,
                format!("they are spread over {caches} L3 caches: pin the program to one of them"),
            );
    let free: Vec<usize> = near.unwrap_or_else(|| h.processors()).difference(&used).copied().collect();
    let spare = free.iter().chain(&used).cycle();
    for (irq, cpu) in far.iter().chain(&shared).zip(spare) {
        found = found.set(format!("/proc/irq/{irq}/smp_affinity_list"), cpu);
    }
    Ok(found)
}

/// Third-level caches that these processors have.
fn caches(h: &HostView<'_>, cpus: &BTreeSet<usize>) -> usize {
    let of = |cpu: &usize| h.maybe(&format!("{CPUS}cpu{cpu}/cache/index3/shared_cpu_list"));
    cpus.iter().filter_map(of).collect::<BTreeSet<_>>().len()
}

fn locality(h: &HostView<'_>) -> CheckOutcome {
    h.on_metal()?;
    if h.nodes() == 1 {
        return not_applicable("there is only one NUMA node");
    }
    let near = h.text(&h.net("device/local_cpulist"))?;
    let allowed = h.text("process/cpus_allowed")?;
    let (near_set, allowed_set) = (cpu_list(near), cpu_list(allowed));
    let wanted = format!("processors {near}");
    let now = format!("numactl --cpunodebind=netdev:{0} --membind=netdev:{0} COMMAND", h.interface());
    let value = format!("may run on {allowed}");
    if allowed_set.is_subset(&near_set) {
        Ok(CheckResult::pass(value, wanted))
    } else if allowed_set.is_disjoint(&near_set) {
        Ok(CheckResult::warn(value, wanted).advise(now, ""))
    } else {
        let found = CheckResult::info(value, wanted)
            .shows("the scheduler may choose a core on another NUMA node than the card");
        Ok(found.advise(now, "CPUAffinity= and NUMAPolicy= of its systemd unit"))
    }
}

fn balancing(h: &HostView<'_>) -> CheckOutcome {
    h.on_host()?;
    if h.nodes() == 1 {
        return not_applicable("there is only one NUMA node");
    }
    h.sysctl_is("kernel.numa_balancing", 0)
}
