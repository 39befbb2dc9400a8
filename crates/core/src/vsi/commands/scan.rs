//! `scan_set`, `scan_check` and `scandir`: scans on the disks.

use super::context::{Context, Pending, Refused, Selection, Step, Stepped, parameter, unexpected};
use super::numbers::{significant, vex_time};
use crate::observation::time::vex_time as read_time;
use crate::placement::Nanos;
use crate::vsi::mode::digits;
use crate::vsi::reply::{VsiCode, VsiReply};
use crate::vsi::runtime::SelectedScan;
use crate::vsi::view::{VsiAction, VsiOutcome, VsiScan, VsiScanFacts};

/// What `s+` and `e` mean, in bytes from the start and before the end.
const AFTER_START_BYTES: u64 = 65_536;
const BEFORE_END_BYTES: u64 = 1_000_000;

pub(super) fn scan_set(context: &mut Context<'_>) -> Stepped {
    let (request, view) = (context.request, context.view);
    if request.query {
        let SelectedScan { label, start, end } = &context.runtime.selected;
        let number = view.scan_number(label);
        let bytes = number.map_or(0, |at| view.scans[at].bytes);
        let shown = number.map_or("?".to_owned(), |at| (at + 1).to_string());
        let reply = context.reply(VsiCode::Done).field(shown).field(label).field(start);
        return Ok(Step::Reply(reply.field(end.unwrap_or(bytes))));
    }
    let at = search(context)?;
    let label = view.scans[at].label.clone();
    let (start, end) = (request.field(1).to_owned(), request.field(2).to_owned());
    let selection = Selection { label: label.clone(), start, end };
    Ok(Step::Act(VsiAction::Inspect { label }, Pending::Select(selection)))
}

/// Returns the number of the scan that is searched for.
fn search(context: &mut Context<'_>) -> Result<usize, Refused> {
    let (view, runtime) = (context.view, &mut *context.runtime);
    let count = view.scans.len();
    let conflict = |why: &str| Refused(VsiCode::Conflict, why.to_owned());
    if count == 0 {
        return Err(conflict("there are no scans"));
    }
    let current = view.scan_number(&runtime.selected.label);
    let running = runtime.running(view).map(|recording| recording.label.clone());
    let wanted = context.request.field(0);
    match wanted.to_ascii_lowercase().as_str() {
        // The last one that has been recorded.
        "" => {
            let is_whole = |scan: &VsiScan| Some(&scan.label) != running.as_ref();
            view.scans.iter().rposition(is_whole).ok_or_else(|| conflict("no scan has been recorded yet"))
        }
        "inc" => current.map(|at| (at + 1) % count).ok_or_else(|| conflict("no scan is selected")),
        "dec" => current.map(|at| (at + count - 1) % count).ok_or_else(|| conflict("no scan is selected")),
        "next" => {
            let search = runtime.search.clone().ok_or_else(|| conflict("nothing has been searched for"))?;
            let from = current.map_or(0, |at| at + 1);
            find(&view.scans, &search, from).ok_or_else(|| parameter(format!("no scan matches {search}")))
        }
        _ => {
            let number = digits(wanted).and_then(|n| usize::try_from(n).ok());
            if let Some(at) = number.filter(|n| (1..=count).contains(n)) {
                return Ok(at - 1);
            }
            runtime.search = Some(wanted.to_owned());
            // What is the label of a scan is not searched for.
            let exact = view.scan_number(wanted);
            let found = exact.or_else(|| find(&view.scans, wanted, 0));
            found.ok_or_else(|| parameter(format!("no scan matches {wanted}")))
        }
    }
}

/// The first scan from number `from` on, and around the end, whose label contains the text, or whose subfields contain its subfields.
fn find(scans: &[VsiScan], search: &str, from: usize) -> Option<usize> {
    let search = search.to_ascii_lowercase();
    let parts: Vec<&str> = search.splitn(3, '_').collect();
    let is_match = |scan: &VsiScan| {
        let label = scan.label.to_ascii_lowercase();
        let subfields: Vec<&str> = label.splitn(3, '_').collect();
        let in_order = parts.len() > 1
            && parts.len() <= subfields.len()
            && parts.iter().zip(&subfields).all(|(part, subfield)| subfield.contains(part));
        label.contains(&search) || in_order
    };
    let after = (from..scans.len()).chain(0..from.min(scans.len()));
    let mut after = after;
    after.find(|&at| is_match(&scans[at]))
}

pub(super) fn selected(
    context: &mut Context<'_>,
    selection: &Selection,
    outcome: Option<VsiOutcome>,
) -> Stepped {
    let facts = inspected(outcome)?;
    let bytes = facts.bytes;
    let start = match selection.start.as_str() {
        "" | "s" => 0,
        "c" => bytes / 2,
        "e" => bytes.saturating_sub(BEFORE_END_BYTES),
        "s+" => AFTER_START_BYTES,
        text => position(text, &facts, 0, bytes)?,
    };
    let end = match selection.end.as_str() {
        "" => bytes,
        text => position(text, &facts, start, bytes)?,
    };
    if start > end || end > bytes {
        let why = format!("{start} to {end} is outside of the scan, which has {bytes} bytes");
        return Err(parameter(why));
    }
    context.runtime.selected = SelectedScan { label: selection.label.clone(), start, end: Some(end) };
    context.done()
}

/// Returns a byte number of a scan: `1000` from its start, `+1000` from `start`, `-1000` before `end`; the same with times such as `+30s`,
/// and a time of data such as `12h30m0s`.
fn position(text: &str, facts: &VsiScanFacts, start: u64, end: u64) -> Result<u64, Refused> {
    let wrong = || parameter(format!("expected a number of bytes or a time, got {text}"));
    let (sign, rest) = match text.as_bytes().first() {
        Some(sign @ (b'+' | b'-')) => (Some(*sign), &text[1..]),
        _ => (None, text),
    };
    let (bytes, is_time) = match digits(rest) {
        Some(bytes) => (bytes, false),
        None if sign.is_none() => (bytes_of(since_start(rest, facts)?, rate_of(facts)?), true),
        None => (bytes_of(duration(rest).ok_or_else(wrong)?, rate_of(facts)?), true),
    };
    let value = match sign {
        None => Some(bytes),
        Some(b'+') => start.checked_add(bytes),
        Some(_) => end.checked_sub(bytes),
    };
    // A range in time begins and ends between frames. Times are whole nanoseconds, those of frames need not be.
    let frame = facts.frame_bytes.filter(|_| is_time).map_or(1, u64::from).max(1);
    let slack = if is_time { bytes_of(2, rate_of(facts)?) + 1 } else { 0 }.min(frame - 1);
    let value =
        value.map(|value| if value == end { value } else { value.saturating_add(slack) / frame * frame });
    value.ok_or_else(|| parameter(format!("{text} is outside of the scan")))
}

fn rate_of(facts: &VsiScanFacts) -> Result<f64, Refused> {
    let why = || Refused(VsiCode::Failed, "the data rate of the scan is unknown, give bytes".into());
    facts.bytes_per_second.filter(|rate| *rate > 0.0).ok_or_else(why)
}

/// Bytes of so many nanoseconds.
fn bytes_of(nanos: i128, bytes_per_second: f64) -> u64 {
    (nanos as f64 * bytes_per_second / 1e9).round() as u64
}

/// Nanoseconds from the start of a scan to a time. What is missing before the time as written, such as the day, is that of the scan; if
/// that is before the scan, the next such time is meant.
fn since_start(text: &str, facts: &VsiScanFacts) -> Result<i128, Refused> {
    const SECOND: i128 = 1_000_000_000;
    let wrong = || parameter(format!("expected a number of bytes or a time, got {text}"));
    let unknown = || Refused(VsiCode::Failed, "the start of the scan is unknown, give bytes".into());
    let start = i128::from(facts.start.ok_or_else(unknown)?.0);
    let target = if text.contains('y') {
        read_time(text).ok_or_else(wrong)?.total_nanos()
    } else {
        let since = duration(text).ok_or_else(wrong)?;
        let period = if text.contains('d') {
            return Err(parameter("a time with a day needs its year"));
        } else if text.contains('h') {
            86_400 * SECOND
        } else if text.contains('m') {
            3600 * SECOND
        } else {
            60 * SECOND
        };
        let target = start.div_euclid(period) * period + since;
        if target < start { target + period } else { target }
    };
    if target < start {
        return Err(parameter(format!("{text} is before the scan")));
    }
    Ok(target - start)
}

/// Nanoseconds of a time such as `1h02m3.5s` or `30s`.
fn duration(text: &str) -> Option<i128> {
    let (mut rest, mut seconds, mut given) = (text, 0.0, false);
    for (unit, factor) in [('d', 86_400.0), ('h', 3600.0), ('m', 60.0), ('s', 1.0)] {
        let Some((number, behind)) = rest.split_once(unit) else { continue };
        let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let number = number.parse::<f64>().ok().filter(|n| plain && *n < 1e9)?;
        (rest, seconds, given) = (behind, seconds + number * factor, true);
    }
    (given && rest.is_empty()).then_some((seconds * 1e9).round() as i128)
}

pub(super) fn inspected(outcome: Option<VsiOutcome>) -> Result<VsiScanFacts, Refused> {
    match outcome {
        Some(VsiOutcome::Inspected(facts)) => Ok(facts),
        Some(VsiOutcome::Failed(code, why)) => Err(Refused(code, why)),
        None => Err(Refused(VsiCode::Busy, "the scan is still being read, ask again".into())),
        Some(_) => Err(unexpected()),
    }
}

pub(super) fn scan_check(context: &mut Context<'_>) -> Stepped {
    context.query_only()?;
    if !["", "0", "1"].contains(&context.request.field(0)) {
        return Err(parameter("expected 0 or 1 for strict"));
    }
    let label = context.runtime.selected.label.clone();
    if label.is_empty() {
        return Err(parameter("no scan is selected, use scan_set"));
    }
    Ok(Step::Act(VsiAction::Inspect { label }, Pending::Check))
}

pub(super) fn checked(context: &mut Context<'_>, outcome: Option<VsiOutcome>) -> Stepped {
    let facts = inspected(outcome)?;
    let label = &context.runtime.selected.label;
    let number = context.view.scan_number(label).map_or("?".to_owned(), |at| (at + 1).to_string());
    let reply = context.reply(VsiCode::Done).field(number).field(label);
    Ok(Step::Reply(described(reply, &facts)))
}

/// Appends what the samples are, to the bytes of a frame; `?` if that is not known.
pub(super) fn described(reply: VsiReply, facts: &VsiScanFacts) -> VsiReply {
    let Some(format) = &facts.format else { return reply.field("?") };
    fn shown<T>(value: Option<T>, write: impl Fn(T) -> String) -> String {
        value.map_or_else(|| "?".to_owned(), write)
    }
    let seconds = |length: Nanos| significant(length.0 as f64 / 1e9) + "s";
    reply
        .field(format)
        .field(shown(facts.tracks, |tracks| tracks.to_string()))
        .field(shown(facts.start, |start| vex_time(start, 4)))
        .field(shown(facts.length, seconds))
        .field(shown(facts.track_bits_per_second, |bits| significant(bits / 1e6) + "Mbps"))
        .field(shown(facts.missing_bytes, |bytes| bytes.to_string()))
        .field(shown(facts.frame_bytes, |bytes| bytes.to_string()))
}

/// `scandir? N`: how many scans there are, and the label, start and length of number N, from 0.
pub(super) fn scandir(context: &mut Context<'_>) -> Stepped {
    let (text, scans) = (context.request.field(0), &context.view.scans);
    let number = if text.is_empty() { Some(0) } else { digits(text) };
    let number = number.and_then(|n| usize::try_from(n).ok());
    let number = number.ok_or_else(|| parameter(format!("expected the number of a scan, got {text}")))?;
    let reply = context.reply(VsiCode::Done).field(scans.len());
    Ok(Step::Reply(match scans.get(number) {
        Some(scan) => reply.field(&scan.label).field(0).field(scan.bytes),
        None => reply.field(format_args!("scan {number} is out of range")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> VsiScanFacts {
        VsiScanFacts {
            bytes: 1_000_000,
            start: Some(Nanos(1_795_694_430 * Nanos::SECOND.0)),
            bytes_per_second: Some(10_000.0),
            ..VsiScanFacts::default()
        }
    }

    #[test]
    fn positions_in_bytes_and_times() {
        let of = |text| position(text, &facts(), 100, 1_000_000).ok();
        assert_eq!(
            [of("5"), of("+5"), of("-5"), of("+1m1.5s"), of("-2s")],
            [Some(5), Some(105), Some(999_995), Some(615_100), Some(980_000)]
        );
        // The scan begins at 12:00:30.
        assert_eq!(
            [of("40s"), of("20s"), of("01m00s"), of("12h01m00s")],
            [Some(100_000), Some(500_000), Some(300_000), Some(300_000)]
        );
        assert_eq!(of("2026y330d12h00m50s"), Some(200_000));
        for bad in ["x", "+", "-", "+x", "1", "5ss", "s", "+-1s", "-1000001", "2026y330d12h00m00s", "1d0s"] {
            assert!(of(bad).is_none() || bad == "1", "{bad}");
        }
        let framed = VsiScanFacts { frame_bytes: Some(8032), ..facts() };
        assert_eq!(position("40s", &framed, 0, 1_000_000).ok(), Some(100_000 / 8032 * 8032));
    }

    #[test]
    fn labels_are_found_by_parts() {
        let scans: Vec<VsiScan> = ["grf103_ef_123-1056", "GRF103_mh_7", "x_ef_1056a"]
            .map(|label| VsiScan { label: label.into(), bytes: 0 })
            .to_vec();
        assert_eq!(find(&scans, "GRF103", 0), Some(0));
        assert_eq!(find(&scans, "grf103", 1), Some(1));
        assert_eq!(find(&scans, "grf103", 2), Some(0));
        assert_eq!(find(&scans, "_ef_1056", 1), Some(2));
        assert_eq!(find(&scans, "grf__7", 0), Some(1));
        assert_eq!(find(&scans, "none", 9), None);
    }

    /// A time is the first byte of the frame that begins then, whichever frame the scan begins with.
    #[test]
    fn times_are_exact_to_the_frame() {
        const FRAME: u64 = 8032;
        let noon = u64::try_from(read_time("2026y330d12h").unwrap().second).unwrap() * 1_000_000_000;
        for fps in [6400, 25_600, 31_250, 124_999, 125_000] {
            for first in (0..fps).step_by(7) {
                let facts = VsiScanFacts {
                    start: Some(Nanos(noon + first * 1_000_000_000 / fps)),
                    bytes_per_second: Some((FRAME * fps) as f64),
                    frame_bytes: Some(FRAME as u32),
                    ..VsiScanFacts::default()
                };
                let at = |text: &str| position(text, &facts, 0, u64::MAX).ok();
                let expected = Some((5 * fps - first) * FRAME);
                assert_eq!(at("12h00m05s"), expected, "{first} of {fps}");
                assert_eq!(at("2026y330d12h00m05s"), expected, "{first} of {fps}");
                assert_eq!(at("+3s"), Some(3 * fps * FRAME));
            }
        }
        let facts = VsiScanFacts {
            start: Some(Nanos(noon)),
            bytes_per_second: Some(16_000.0 * FRAME as f64),
            frame_bytes: Some(FRAME as u32),
            ..VsiScanFacts::default()
        };
        let at = |text: &str| position(text, &facts, 0, u64::MAX).ok();
        assert_eq!((at("12h00m00.5s"), at("2026y330d12h00m00.5s")), (Some(8000 * FRAME), Some(8000 * FRAME)));
        assert_eq!(at("2026y330d11h59m59s"), None);
    }
}
