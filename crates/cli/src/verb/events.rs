//! `skyhaul send` of events: any number of sources, each in a thread of its own.
//!
//! ```text
//!   --data-id 5 --senders 3    sources 5, 6 and 7 send parts of the same ticks (with --tick N)
//! ```

mod content;
mod job;
#[cfg(feature = "services")]
mod joining;

use super::sending::{Sender, check_feedback, cpu, mode, rate};
#[cfg(not(feature = "services"))]
pub(crate) use super::unbuilt::senders::{join, leave};
use crate::args::{EventSendArgs, MtuArg, RateArg, SendArgs, TickArg};
use anyhow::{Context, Result, bail, ensure};
use content::{Content, Files, Sizes};
use job::Job;
#[cfg(feature = "services")]
pub(crate) use joining::{join, leave};
use skyhaul::io::udp::largest_datagram;
use skyhaul::io::udp::send::SendOptions;
use skyhaul::send::Pacing;
use skyhaul::send::events::{
    EventConfig, EventDivision, EventSender, EventSenderOptions, SyncOptions, Target, Ticks,
};
use skyhaul::wire::Addressing;
use std::sync::Arc;

/// Bytes of an event that is not from a file.
const EVENT: u64 = 1 << 20;

/// The senders.
pub(crate) fn senders(args: &SendArgs) -> Result<Vec<Sender>> {
    ensure!(!args.noise, "events are made from --pattern or --input\nhint: leave out --noise");
    let content = content(args)?;
    let jobs = (0..args.senders * args.targets.len()).map(|number| job(args, number, content.clone()));
    let jobs = jobs.collect::<Result<Vec<Job>>>()?;
    Ok(jobs.into_iter().map(|job| Box::new(move |stop: &_| job.run(stop)) as Sender).collect())
}

fn job(args: &SendArgs, number: usize, content: Content) -> Result<Job> {
    let of_events = &args.of_events;
    let mut target = args.targets[number / args.senders % args.targets.len()].clone();
    target.sync = of_events.sync.clone().or(target.sync);
    let source = number % args.senders;
    let id = u16::try_from(source).ok().and_then(|source| of_events.data_id.checked_add(source));
    let data_id = id.with_context(|| {
        format!(
            "data id {} and {} senders: ids end at 65535\nhint: use a lower --data-id",
            of_events.data_id, args.senders
        )
    })?;
    let ticks = match of_events.tick {
        TickArg::Clock => Ticks::default(),
        TickArg::From(next) => Ticks::Counted { next, step: of_events.tick_step },
    };
    let options = EventSenderOptions {
        config: config(args, number, &target)?,
        ticks,
        sockets: of_events.sockets,
        socket: SendOptions { mode: mode(args), buffer: of_events.socket_buffer, ..SendOptions::default() },
        events_per_second: of_events.event_rate.map(|rate| rate as f64),
        syncs: SyncOptions { period: of_events.sync_period.duration(), source: u32::from(data_id) },
        warm_up: of_events.warm_up.duration(),
        faults: args.faults,
    };
    let sender = EventSender::open(&target, options)?;
    let files = content.events().unwrap_or(u64::MAX);
    Ok(Job {
        sender,
        to: target.to_string(),
        content,
        data_id,
        events: of_events.events.unwrap_or(u64::MAX).min(files),
        duration: args.duration.map(|duration| duration.duration()),
        delay: of_events.delay.map(|delay| (delay.duration(), of_events.delay_every)),
        event_rate: of_events.event_rate,
        is_clock: of_events.tick == TickArg::Clock,
        cpu: cpu(args, number),
    })
}

fn config(args: &SendArgs, number: usize, target: &Target) -> Result<EventConfig> {
    let of_events = &args.of_events;
    let asked = rate(args, number)?;
    check_feedback(asked, &args.to)?;
    let (bits, auto) = match asked {
        None | Some(RateArg::Max) => (0, None),
        Some(RateArg::Fixed(rate)) => (rate.bits_per_second(), None),
        Some(RateArg::Auto(_)) if target.is_balancer => {
            bail!("no feedback comes through a balancer\nhint: give a rate, such as --rate 8Gbps")
        }
        Some(RateArg::Auto(_)) if of_events.sockets > 1 => {
            bail!("--rate auto needs one socket\nhint: omit --sockets, or give a rate, such as --rate 8Gbps")
        }
        Some(RateArg::Auto(bounds)) => (0, Some(bounds.control())),
        Some(RateArg::Search(_)) => {
            bail!(
                "--rate search applies only to --format spead\nhint: use --rate auto, or give a rate, like 8Gbps"
            )
        }
    };
    let addressing =
        Addressing { version: of_events.lb_version, slot: of_events.slot, port: of_events.entropy };
    let division = EventDivision {
        packet_bytes: packet_bytes(of_events, target)?,
        addressing: Some(addressing),
        version: of_events.re_version,
    };
    let pacing = Pacing { rate: bits, auto, ..Pacing::default() };
    Ok(EventConfig { division, pacing, ..EventConfig::default() })
}

fn packet_bytes(of_events: &EventSendArgs, target: &Target) -> Result<usize> {
    Ok(match of_events.mtu {
        MtuArg::Bytes(mtu) => mtu - target.overhead(),
        MtuArg::Auto => largest_datagram(target.first())?,
    })
}

/// What events are made of.
fn content(args: &SendArgs) -> Result<Content> {
    let of_events = &args.of_events;
    if !args.inputs.is_empty() {
        let piece = of_events.event.map(|size| {
            ensure!(
                size.least == size.most,
                "files are cut into events of one size\nhint: give --event one size, or leave it out for an event of each file"
            );
            Ok(size.most)
        });
        let files = Files::open(&args.inputs, piece.transpose()?, args.r#loop)?;
        return Ok(Content::Files(Arc::new(files)));
    }
    let (least, most) = of_events.event.map_or((EVENT, EVENT), |size| (size.least, size.most));
    Ok(Content::Made { sizes: Sizes { least, most, seed: of_events.seed }, pattern: args.pattern })
}
