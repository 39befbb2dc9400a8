//! Settings of what is received and where it is written.

use super::context::{Context, Refused, Step, Stepped, parameter};
use crate::vsi::datastream::{MAX_DATASTREAMS, VsiDatastream};
use crate::vsi::mode::{ModeError, VsiMode, digits};
use crate::vsi::reply::VsiCode;
use crate::vsi::runtime::DEFAULT_DATA_PORT;
use crate::vsi::view::VsiPort;

/// Protocols of `net_protocol`: as they are given, and as `net_protocol?` gives them.
const PROTOCOLS: [(&str, &str); 10] = [
    ("udpsnor", "udpsnor"),
    ("udps", "udps"),
    ("udp", "udps"),
    ("vtp", "vtp"),
    ("pudp", "pudp"),
    ("tcp", "tcp"),
    ("rtcp", "rtcp"),
    ("itcp", "itcp"),
    ("udt", "udt"),
    ("unix", "unix"),
];
/// Maximum size of the buffer of a socket.
const MAX_SOCKET_BYTES: u64 = i32::MAX as u64;
/// Maximum size of a block, and so of a chunk.
const MAX_WORK_BYTES: u64 = 1 << 30;
/// Maximum number of blocks.
const MAX_BLOCKS: u64 = 1 << 16;
/// Maximum number of ports.
const MAX_PORTS: usize = 64;
/// Maximum clock, Hz.
const MAX_CLOCK: f64 = 1e12;

fn mode_error(error: &ModeError) -> Refused {
    let code = match error {
        ModeError::Unsupported(_) => VsiCode::NotImplemented,
        ModeError::Invalid(_) => VsiCode::Parameter,
        ModeError::NoClock => VsiCode::Conflict,
    };
    Refused(code, error.to_string())
}

pub(super) fn mode(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        let answer = context.runtime.mode.answer();
        return Ok(Step::Reply(context.reply(VsiCode::Done).fields(answer)));
    }
    context.idle_only()?;
    context.runtime.mode = VsiMode::parse(&context.request.fields).map_err(|error| mode_error(&error))?;
    context.done()
}

/// `clock_set = MHz : int|ext [: MHz]` and `play_rate = data : MHz`.
pub(super) fn clock(context: &mut Context<'_>) -> Stepped {
    let request = context.request;
    if request.query {
        let mode = &context.runtime.mode;
        let reply = context.reply(VsiCode::Done);
        let Some(hertz) = mode.clock() else {
            return Ok(Step::Reply(reply.field("?")));
        };
        if mode.includes_rate() {
            return Ok(Step::Reply(reply.field(format_args!("{:.3}", hertz / 1e6))));
        }
        let megahertz = hertz / 1e6;
        let middle = if request.keyword == "clock_set" { "int".into() } else { megahertz.to_string() };
        return Ok(Step::Reply(reply.field(megahertz).field(middle).field(megahertz)));
    }
    context.idle_only()?;
    let (text, reference) = match request.keyword.as_str() {
        "clock_set" => (request.field(0), request.word(1)),
        _ => (request.field(1), request.word(0)),
    };
    let known = if request.keyword == "clock_set" { &["int", "ext"][..] } else { &["data"] };
    if !known.contains(&reference.as_str()) {
        return Err(parameter(format!("expected the clock {}, got {reference}", known.join(" or "))));
    }
    let hertz = text.parse::<f64>().ok().map(|megahertz| megahertz * 1e6);
    let hertz = hertz.filter(|hertz| (1.0..=MAX_CLOCK).contains(hertz));
    let hertz = hertz.ok_or_else(|| parameter(format!("expected MHz such as 32, got {text}")))?;
    context.runtime.mode.set_clock(hertz.round() as u64).map_err(|error| mode_error(&error))?;
    context.done()
}

pub(super) fn mtu(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        return Ok(Step::Reply(context.reply(VsiCode::Done).field(context.runtime.mtu)));
    }
    context.idle_only()?;
    let text = context.request.field(0);
    let bytes = digits(text).filter(|bytes| (64..=9000).contains(bytes));
    context.runtime.mtu = bytes.ok_or_else(|| parameter(format!("expected 64 to 9000 bytes, got {text}")))?;
    context.done()
}

/// `ipd = 10 | 10us | 5000ns | -1`: the distance of packets that are sent.
pub(super) fn packet_interval(context: &mut Context<'_>) -> Stepped {
    let nanos = context.runtime.packet_interval;
    if context.request.query {
        let micros = if nanos < 0 { -1.0 } else { nanos as f64 / 1000.0 };
        return Ok(Step::Reply(context.reply(VsiCode::Done).field(micros)));
    }
    let text = context.request.word(0);
    let (number, scale) = match (text.strip_suffix("ns"), text.strip_suffix("us")) {
        (Some(number), _) => (number, 1.0),
        (_, Some(number)) => (number, 1000.0),
        _ => (text.as_str(), 1000.0),
    };
    let interval = number.parse::<f64>().ok().map(|n| n * scale).filter(|n| n.abs() <= f64::from(i32::MAX));
    let interval = interval.ok_or_else(|| parameter(format!("expected a time such as 10us, got {text}")))?;
    context.runtime.packet_interval = if interval < 0.0 { -1 } else { interval.round() as i64 };
    context.done()
}

pub(super) fn net_protocol(context: &mut Context<'_>) -> Stepped {
    let request = context.request;
    if request.query {
        let runtime = &*context.runtime;
        let reply = context.reply(VsiCode::Done).field(runtime.protocol);
        return Ok(Step::Reply(reply.fields([runtime.socket_bytes, runtime.work_bytes, runtime.blocks])));
    }
    context.idle_only()?;
    let (name, sizes) = (request.field(0), &request.fields[1..]);
    if request.fields.iter().all(String::is_empty) {
        return Err(parameter("expected a protocol such as udpsnor, or sizes"));
    }
    let protocol = PROTOCOLS.iter().find(|(given, _)| *given == name).map(|(_, shown)| *shown);
    if protocol.is_none() && !name.is_empty() {
        return Err(parameter(format!("unknown protocol {name}")));
    }
    let number = |at: usize, what: &str, range: std::ops::RangeInclusive<u64>| match sizes
        .get(at)
        .map_or("", String::as_str)
    {
        "" => Ok(None),
        text => {
            let number = size(text).filter(|n| range.contains(n));
            let wrong =
                || parameter(format!("{what} {text} is not from {} to {}", range.start(), range.end()));
            number.map(Some).ok_or_else(wrong)
        }
    };
    let socket = number(0, "socket buffer", 0..=MAX_SOCKET_BYTES)?;
    let work = number(1, "block size", 8..=MAX_WORK_BYTES)?;
    let blocks = number(2, "number of blocks", 1..=MAX_BLOCKS)?;
    let runtime = &mut *context.runtime;
    runtime.protocol = protocol.unwrap_or(runtime.protocol);
    runtime.socket_bytes = socket.unwrap_or(runtime.socket_bytes);
    runtime.work_bytes = work.map_or(runtime.work_bytes, |bytes| bytes / 8 * 8);
    runtime.blocks = blocks.unwrap_or(runtime.blocks);
    runtime.sizes_set = (runtime.sizes_set.0 || socket.is_some(), runtime.sizes_set.1 || work.is_some());
    context.done()
}

/// A number of bytes, `32M` or `128k`.
fn size(text: &str) -> Option<u64> {
    let (number, factor) = match (text.strip_suffix('k'), text.strip_suffix('M')) {
        (Some(number), _) => (number, 1 << 10),
        (_, Some(number)) => (number, 1 << 20),
        _ => (text, 1),
    };
    digits(number)?.checked_mul(factor)
}

/// `net_port = [host@]port[=suffix] : …`
pub(super) fn net_port(context: &mut Context<'_>) -> Stepped {
    if context.request.query {
        let shown = |port: &VsiPort| {
            let at = if port.host.is_empty() { "" } else { "@" };
            let equals = if port.suffix.is_empty() { "" } else { "=" };
            format!("{}{at}{}{equals}{}", port.host, port.port, port.suffix)
        };
        let ports = match (&context.runtime.ports[..], &context.view.default_ports[..]) {
            ([], []) => vec![DEFAULT_DATA_PORT.to_string()],
            ([], ports) | (ports, _) => ports.iter().map(shown).collect(),
        };
        return Ok(Step::Reply(context.reply(VsiCode::Done).fields(ports)));
    }
    context.idle_only()?;
    let given = context.request.fields.iter().filter(|field| !field.is_empty());
    let ports: Vec<VsiPort> = given.map(|text| port(text)).collect::<Result<_, _>>()?;
    let suffixes = ports.iter().filter(|port| !port.suffix.is_empty()).count();
    let why = match ports.len() {
        0 => "expected a port, such as 2630 or 10.0.0.2@46227",
        1 if suffixes > 0 => "one port takes no suffix",
        n if n > MAX_PORTS => "too many ports",
        n if suffixes != 0 && suffixes != n => "all ports or none need a suffix",
        _ => "",
    };
    if !why.is_empty() {
        return Err(parameter(why));
    }
    // Port 0 alone returns to the default.
    let is_reset = ports.len() == 1 && ports[0].port == 0;
    context.runtime.ports = if is_reset { Vec::new() } else { ports };
    context.done()
}

fn port(text: &str) -> Result<VsiPort, Refused> {
    let wrong = || parameter(format!("expected [host@]port[=suffix], got {text}"));
    let (address, suffix) = text.split_once('=').map_or((text, ""), |(address, suffix)| (address, suffix));
    let (host, port) = address.split_once('@').unwrap_or(("", address));
    let has_empty_part = (text.contains('=') && suffix.is_empty()) || (text.contains('@') && host.is_empty());
    let legal = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    let port = digits(port).and_then(|port| u16::try_from(port).ok()).ok_or_else(wrong)?;
    if has_empty_part || !legal(host) || !legal(suffix) || host.len() > 253 || suffix.len() > 64 {
        return Err(wrong());
    }
    Ok(VsiPort { host: host.to_owned(), port, suffix: suffix.to_owned() })
}

pub(super) fn datastream(context: &mut Context<'_>) -> Stepped {
    let (request, streams) = (context.request, &context.runtime.datastreams);
    if request.query {
        let reply = context.reply(VsiCode::Done);
        let name = request.field(0);
        if name.is_empty() {
            let names = streams.iter().map(|stream| &stream.name);
            return Ok(Step::Reply(reply.field(streams.len()).fields(names)));
        }
        let stream = streams.iter().find(|stream| stream.name == name);
        let stream = stream.ok_or_else(|| parameter(format!("no datastream {name}")))?;
        return Ok(Step::Reply(reply.field(&stream.name).fields(&stream.specs)));
    }
    context.idle_only()?;
    let (word, name) = (request.word(0), request.field(1));
    match word.as_str() {
        "add" if !context.view.divides_datastreams => {
            let why = "threads are recorded together here, none goes to a file of its own";
            return Err(Refused(VsiCode::NotImplemented, why.into()));
        }
        "add" => {
            let specs = request.fields.iter().skip(2).map(String::as_str);
            let new = VsiDatastream::new(name, specs).map_err(parameter)?;
            let streams = &mut context.runtime.datastreams;
            streams.retain(|stream| stream.name != name);
            if streams.len() >= MAX_DATASTREAMS {
                return Err(parameter("too many datastreams"));
            }
            streams.push(new);
        }
        "remove" if name.is_empty() => return Err(parameter("expected the name of a datastream")),
        "remove" => context.runtime.datastreams.retain(|stream| stream.name != name),
        "clear" => context.runtime.datastreams.clear(),
        // Names that were expanded in a recording are not kept beyond it.
        "reset" => {}
        _ => return Err(parameter("expected add, remove, reset or clear")),
    }
    context.done()
}

pub(super) fn set_disks(context: &mut Context<'_>) -> Stepped {
    let all = &context.view.disks;
    if context.request.query {
        let paths: Vec<&String> =
            context.view.selected(&context.runtime.disks).map(|disk| &disk.path).collect();
        return Ok(Step::Reply(context.reply(VsiCode::Done).field(paths.len()).fields(paths)));
    }
    context.idle_only()?;
    let patterns: Vec<&String> = context.request.fields.iter().filter(|field| !field.is_empty()).collect();
    if patterns.is_empty() {
        return Err(parameter("expected flexbuff, mk6, or paths of disks"));
    }
    let mut selected = Vec::new();
    for pattern in patterns {
        if pattern == "null" || pattern.starts_with('^') {
            let why = format!("{pattern} is not implemented here");
            return Err(Refused(VsiCode::NotImplemented, why));
        }
        selected.extend(all.iter().map(|disk| &disk.path).filter(|path| is_selected(path, pattern)));
    }
    selected.sort();
    selected.dedup();
    if selected.is_empty() {
        return Ok(Step::Reply(context.reply(VsiCode::Failed).field(0).field("no disk matches")));
    }
    if selected.len() < all.len() && !context.view.selects_disks && !context.runtime.in_blocks {
        return Err(Refused(VsiCode::NotImplemented, "recordings use all disks of this station".into()));
    }
    let reply = context.reply(VsiCode::Done).field(selected.len());
    context.runtime.disks = selected.into_iter().cloned().collect();
    Ok(Step::Reply(reply))
}

/// Whether a disk is meant: by `flexbuff`, `mk6`, slots of Mark 6, or a pattern of its path.
fn is_selected(path: &str, pattern: &str) -> bool {
    let slot = path.strip_prefix("/mnt/disks/").and_then(|rest| rest.split_once('/')).map(|(slot, _)| slot);
    match pattern {
        "flexbuff" => slot.is_none(),
        "mk6" => slot.is_some(),
        slots if slots.bytes().all(|b| (b'1'..=b'4').contains(&b)) => {
            slot.is_some_and(|slot| slots.contains(slot))
        }
        _ => matches(pattern.as_bytes(), path.as_bytes()),
    }
}

/// Whether a text matches a pattern of a shell: `*` and `?` stand for anything but a `/`.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(&b) if b == text[t] || (b == b'?' && text[t] != b'/') => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, from)) if text[from] != b'/' => {
                    star = Some((at, from + 1));
                    (p, t) = (at + 1, from + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_disks() {
        for (pattern, path, selected) in [
            ("flexbuff", "/mnt/disk3", true),
            ("flexbuff", "/mnt/disks/1/2", false),
            ("mk6", "/mnt/disks/1/2", true),
            ("13", "/mnt/disks/3/0", true),
            ("13", "/mnt/disks/2/0", false),
            ("/mnt/disk*", "/mnt/disk12", true),
            ("/mnt/*", "/mnt/disks/1/2", false),
            ("/mnt/disk?", "/mnt/disk12", false),
            ("/mnt/disks/*/*", "/mnt/disks/1/2", true),
            ("*k*2", "disk12", true),
        ] {
            assert_eq!(is_selected(path, pattern), selected, "{pattern} {path}");
        }
        // No pattern takes exponential time.
        assert!(!matches(&b"*a".repeat(200), &b"a".repeat(150)));
    }

    #[test]
    fn sizes_have_suffixes() {
        let of = size;
        assert_eq!(
            [of("128k"), of("32M"), of("7"), of("k"), of("1G"), of("-1")],
            [Some(131_072), Some(33_554_432), Some(7), None, None, None]
        );
        assert_eq!(size("999999999999999999M"), None);
    }
}
