//! `record` and `reset`.

use super::blocks;
use super::context::{
    Context, ERROR_ENDED, ERROR_NOT_STARTED, Pending, Refused, Starting, Step, Stepped, parameter, unexpected,
};
use crate::vsi::mode::digits;
use crate::vsi::reply::VsiCode;
use crate::vsi::view::{VsiAction, VsiOutcome};

/// Maximum length of a label; the names of its files add suffixes.
const MAX_LABEL_BYTES: usize = 64;
/// Maximum number of threads of a kind.
const MAX_THREADS: u64 = 256;

impl Starting {
    pub(super) fn label(&self) -> String {
        variant(&self.base, self.variant).unwrap_or_else(|| self.base.clone())
    }

    /// The first label that is free, from its own on.
    pub(super) fn free_label(&mut self, context: &Context<'_>) -> Result<String, Refused> {
        loop {
            let Some(label) = variant(&self.base, self.variant) else {
                let why = format!("there are 53 recordings of the label {}", self.base);
                return Err(Refused(VsiCode::Conflict, why));
            };
            if context.view.scan_number(&label).is_none() {
                return Ok(label);
            }
            self.variant += 1;
        }
    }
}

/// Returns a label with the letter of a variant: none, `a` to `z`, `A` to `Z`.
fn variant(base: &str, number: usize) -> Option<String> {
    let letters = ('a'..='z').chain('A'..='Z');
    let mut variants = std::iter::once(None).chain(letters.map(Some));
    variants.nth(number).map(|letter| base.chars().chain(letter).collect())
}

pub(super) fn record(context: &mut Context<'_>) -> Stepped {
    let word = context.request.word(0);
    match (context.request.query, word.as_str()) {
        (true, "") => query(context),
        (true, "nthread") => {
            let (readers, writers) = context.runtime.threads;
            Ok(Step::Reply(context.reply(VsiCode::Done).field(readers).field(writers)))
        }
        (true, "mk6") => {
            let is_set = u8::from(context.runtime.in_blocks);
            Ok(Step::Reply(context.reply(VsiCode::Done).field(is_set)))
        }
        (false, "on") => on(context),
        (false, "off") => off(context),
        (false, "nthread") => threads(context),
        (false, "mk6") => blocks::choose(context),
        (_, other) => Err(Refused(VsiCode::NotImplemented, format!("record has no {other}"))),
    }
}

fn query(context: &Context<'_>) -> Stepped {
    let (runtime, view) = (&*context.runtime, context.view);
    let reply = context.reply(VsiCode::Done);
    let number = |label: &str| view.scan_number(label).map_or(view.scans.len(), |at| at) + 1;
    if let Some(recording) = runtime.running(view) {
        let reply = reply.field("on").field(number(&recording.label)).field(&recording.label);
        return Ok(Step::Reply(reply.field(recording.counts.received_bytes)));
    }
    if let Some((label, bytes)) = blocks::arriving(runtime, view) {
        return Ok(Step::Reply(reply.field("on").field(number(label)).field(label).field(bytes)));
    }
    let reply = reply.field("off");
    let Some((_, label)) = &runtime.last else { return Ok(Step::Reply(reply)) };
    let recording = runtime.last_recording(view).map(|recording| recording.counts.received_bytes);
    let bytes = recording.or_else(|| view.scan_number(label).map(|at| view.scans[at].bytes));
    Ok(Step::Reply(reply.field(number(label)).field(label).optional(bytes)))
}

fn threads(context: &mut Context<'_>) -> Stepped {
    let number = |text: &str, now: u32| match text {
        "" => Ok(now),
        text => digits(text)
            .filter(|n| (1..=MAX_THREADS).contains(n))
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| parameter(format!("expected 1 to {MAX_THREADS} threads, got {text}"))),
    };
    let (readers, writers) = context.runtime.threads;
    let readers = number(context.request.field(1), readers)?;
    context.runtime.threads = (readers, number(context.request.field(2), writers)?);
    context.done()
}

fn on(context: &mut Context<'_>) -> Stepped {
    let request = context.request;
    let base = label(request.field(1), request.field(2), request.field(3));
    if context.runtime.in_blocks { blocks::begin(context, base) } else { begin(context, base) }
}

/// Begins the recording of this label, if nothing is in its way.
pub(super) fn begin(context: &mut Context<'_>, base: Result<String, Refused>) -> Stepped {
    context.free_only()?;
    let base = base?;
    let protocol = context.runtime.protocol;
    if !["udpsnor", "udps", "vtp", "pudp", "tcp"].contains(&protocol) {
        let why =
            format!("{protocol} is not recorded here, set net_protocol to udpsnor, udps, vtp, pudp or tcp");
        return Err(Refused(VsiCode::Conflict, why));
    }
    context.all_disks_only()?;
    let id = context.number();
    start(context, Starting { id, base, variant: 0 })
}

/// Asks for the recording under the first label that is free, from that of `starting` on.
fn start(context: &mut Context<'_>, mut starting: Starting) -> Stepped {
    let label = starting.free_label(context)?;
    let options = context.runtime.record_options(starting.id, &label);
    Ok(Step::Act(VsiAction::Start(Box::new(options)), Pending::Start(starting)))
}

/// Returns the label of a scan, which is whole or comes in three parts.
pub(super) fn label(scan: &str, experiment: &str, station: &str) -> Result<String, Refused> {
    let or = |text: &str, default: &str| if text.is_empty() { default.to_owned() } else { text.to_owned() };
    let in_parts = !(experiment.is_empty() && station.is_empty()) && scan.matches('_').count() < 2;
    let label = match in_parts {
        true => format!("{}_{}_{scan}", or(experiment, "EXP"), or(station, "STN")),
        false => scan.to_owned(),
    };
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"_+-".contains(&b);
    let why = match scan {
        "" => "expected the label of the scan, such as n26c3_mh_no0001",
        // Readers of FlexBuff stumble over it.
        _ if label.contains('.') => "a label must not contain a .",
        _ if label.len() > MAX_LABEL_BYTES => "the label is longer than 64 characters",
        _ if !label.bytes().all(legal) || label.starts_with('-') => {
            "a label consists of letters, digits, _ + and -"
        }
        _ => return Ok(label),
    };
    Err(parameter(why))
}

pub(super) fn started(context: &mut Context<'_>, starting: Starting, outcome: Option<VsiOutcome>) -> Stepped {
    let code = match outcome {
        Some(VsiOutcome::Started) => VsiCode::Done,
        None => VsiCode::Started,
        Some(VsiOutcome::LabelTaken) => {
            return start(context, Starting { variant: starting.variant + 1, ..starting });
        }
        Some(VsiOutcome::Failed(code, why)) => {
            let error = format!("cannot record {}, {why}", starting.label());
            context.errors.add(ERROR_NOT_STARTED, &error, context.now);
            return Err(Refused(code, why));
        }
        Some(_) => return Err(unexpected()),
    };
    let runtime = &mut *context.runtime;
    (runtime.recording, runtime.is_stopping) = (Some(starting.id), false);
    runtime.last = Some((starting.id, starting.label()));
    runtime.measured = Some((starting.id, context.now, [0; 2]));
    Ok(Step::Reply(context.reply(code)))
}

pub(super) fn off(context: &mut Context<'_>) -> Stepped {
    if blocks::arriving(context.runtime, context.view).is_some() {
        return blocks::end(context);
    }
    let Some(recording) = context.runtime.running(context.view) else {
        return Err(Refused(VsiCode::Conflict, "not recording".into()));
    };
    let id = recording.id;
    context.runtime.select(&recording.label);
    Ok(Step::Act(VsiAction::Stop { id }, Pending::Stop))
}

pub(super) fn stopped(context: &mut Context<'_>, outcome: Option<VsiOutcome>) -> Stepped {
    match outcome {
        Some(VsiOutcome::Stopped) => {
            if let Some(error) = context.runtime.notice_end(context.view) {
                context.errors.add(ERROR_ENDED, &error, context.now);
            }
            context.runtime.recording = None;
            context.done()
        }
        // The disks are still writing.
        None => {
            context.runtime.is_stopping = true;
            Ok(Step::Reply(context.reply(VsiCode::Started)))
        }
        Some(VsiOutcome::Failed(code, why)) => Err(Refused(code, why)),
        Some(_) => Err(unexpected()),
    }
}

/// `net2disk`: a recording of what comes by TCP, as m5copy begins it on a Mark 5.
pub(super) fn net2disk(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        let (view, reply) = (context.view, context.reply(VsiCode::Done));
        return Ok(Step::Reply(match context.runtime.running(view) {
            Some(recording) => {
                let number = view.scan_number(&recording.label).map_or(view.scans.len(), |at| at) + 1;
                let reply = reply.field("active").field(number).field(&recording.label);
                reply.field(recording.counts.received_bytes)
            }
            None => reply.field("inactive"),
        }));
    }
    match context.request.word(0).as_str() {
        "open" => {
            context.tcp_only()?;
            begin(context, label(context.request.field(1), "", ""))
        }
        "close" => off(context),
        "" => Err(parameter("expected open or close")),
        other => Err(Refused(VsiCode::NotImplemented, format!("net2disk has no {other}"))),
    }
}

pub(super) fn reset(context: &mut Context<'_>) -> Stepped {
    let word = context.request.word(0);
    match (context.request.query, word.as_str()) {
        (true, _) => Err(Refused(VsiCode::NotImplemented, "only a command".into())),
        // It ends transfers; record=off ends a recording.
        (false, "abort") => super::transfer::disconnect(context),
        (false, "") => Err(parameter("expected abort")),
        (false, _) => Err(Refused(VsiCode::NotImplemented, "scans are not erased by this command".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_whole_or_in_parts() {
        let of = |scan, experiment, station| label(scan, experiment, station).ok();
        assert_eq!(of("n26c3_mh_no0001", "", "").unwrap(), "n26c3_mh_no0001");
        assert_eq!(of("no0001", "n26c3", "mh").unwrap(), "n26c3_mh_no0001");
        assert_eq!(of("no0001", "", "mh").unwrap(), "EXP_mh_no0001");
        assert_eq!(of("a_b_c", "n26c3", "mh").unwrap(), "a_b_c");
        let long = "x".repeat(65);
        for bad in ["", "a.b", "a/b", "..", "-a", "a b", "é", &long] {
            assert!(of(bad, "", "").is_none(), "{bad}");
        }
        assert!(of("x", &long[1..], "z").is_none());
    }

    #[test]
    fn variants_are_a_to_z_in_both_cases() {
        let all: Vec<_> = (0..).map_while(|number| variant("x", number)).collect();
        assert_eq!((all.len(), &all[0][..], &all[1][..], &all[52][..]), (53, "x", "xa", "xZ"));
    }
}
