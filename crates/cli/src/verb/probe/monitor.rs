//! `skyhaul probe monitor`: tests that are repeated for weeks.
//!
//! A file of tests.
//!
//! ```text
//!   every = "1min"              # for all tests; the names are those of the options
//!   [[test]]
//!   name = "paris"              # in lines and metrics; otherwise udp:HOST
//!   udp = "dtn2.example.org"    # or tcp = "HOST"
//!   rate = "50Mbps"
//! ```

use super::super::listener;
use super::super::receiving::print_json;
use super::path::resolve_port;
use crate::args::{HowArgs, MonitorArgs, OutputArgs, Target};
use crate::outcome::{Interrupt, Outcome};
use anyhow::{Result, anyhow, bail, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::core::schedule::Period;
use skyhaul::io::file::{SETTINGS, read_small_text};
use skyhaul::io::quantity::Size;
use skyhaul::peer::PORT;
use skyhaul_daemon::metrics::Server;
use skyhaul_measure::probe::monitor::{
    Monitor, MonitorEvent, MonitorOptions, MonitorRecord, MonitorReport, MonitorTest, Retention, TestKind,
    TestSpec,
};
use skyhaul_measure::probe::tcp::{TcpPoint, TestDirection};
use skyhaul_measure::probe::udp::{MAX_DATAGRAM, MAX_FLOWS, MIN_DATAGRAM, UdpPoint, spacing};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};
use toml::de::{DeTable, DeValue};

/// Most tests of one monitor: what a day has minutes.
const MAX_TESTS: usize = 1440;

pub(super) fn run(args: &MonitorArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let token = listener::peer_token(&args.token_file)?;
    let mut tests =
        args.tests.iter().map(|target| test(target, None, &args.how)).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.plan {
        tests.extend(read(path, &args.how)?);
    }
    ensure!(
        tests.len() <= MAX_TESTS,
        "{} tests are too many{}",
        tests.len(),
        Hint(format_args!("at most {MAX_TESTS} for one monitor"))
    );
    distinct(&mut tests);
    let mut monitor = Monitor::new(MonitorOptions {
        tests,
        token,
        lines: args.lines.clone(),
        keep: Retention {
            bytes: args.rotate.bytes(),
            files: args.keep,
            age: args.keep_for.map(|span| span.duration()),
        },
        metrics: args.metrics.clone(),
        seed: args.seed.unwrap_or_else(any_seed),
        find: Box::new(|host| {
            let why = |error: anyhow::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
            resolve_port(host, PORT).map_err(why)
        }),
    })?;
    if monitor.cut_bytes() > 0 {
        let (bytes, path) = (monitor.cut_bytes(), args.lines.display());
        say!("note: removed {bytes} bytes of an incomplete line from {path}");
    }
    let http = args.http.map(|at| Server::start(at, monitor.metrics())).transpose()?;
    if let Some(http) = &http {
        say!("metrics at http://{}/metrics", http.address());
    }
    say!("monitoring; lines go to {}", args.lines.display());
    let (stop, mut served) = (interrupt.flag(), true);
    monitor.run(&stop, args.length.map(|span| span.duration()), &mut |told| {
        show(&told, &args.output);
        if http.as_ref().is_some_and(|http| !http.is_running()) {
            served = false;
            stop.store(true, Ordering::Relaxed);
        }
    });
    let report = monitor.report();
    if args.output.json {
        print_json(&report)?;
    } else {
        conclude(&report);
    }
    ensure!(served, "the metrics server stopped because of a bug in this program");
    let lines = &report.totals.lines;
    Ok(if lines.lost + lines.waiting > 0 { Outcome::Failed } else { Outcome::Done })
}

/// Names are labels of metrics: no two may be the same.
fn distinct(tests: &mut [MonitorTest]) {
    let mut seen = BTreeSet::new();
    for test in tests {
        let name = test.name.clone();
        let mut n = 1;
        while !seen.insert(test.name.clone()) {
            n += 1;
            test.name = format!("{name} {n}");
        }
    }
}

/// Of this moment and this process.
fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_nanos() as u64 ^ (u64::from(std::process::id()) << 40)
}

fn show(told: &MonitorEvent<'_>, output: &OutputArgs) {
    match told {
        MonitorEvent::Ran(_) if output.quiet => {}
        // Standard output is for the report.
        MonitorEvent::Ran(line) if output.json => say!("{}", shown(line)),
        MonitorEvent::Ran(line) => tell!("{}", shown(line)),
        MonitorEvent::Full(error) => {
            say!("note: {error}\nnote: tests continue; pending results are written once there is space");
        }
        MonitorEvent::Room => say!("note: results can be written again"),
    }
}

/// A line for the terminal.
fn shown(line: &MonitorRecord) -> String {
    let mut text = format!("{} {:<24} {:<11}", line.at, line.test, line.outcome.name());
    for way in &line.udp {
        text +=
            &format!(" {} {:.1} Mb/s, {} of {} lost", way.way, way.bits_per_second / 1e6, way.lost, way.sent);
        if let Some(jitter) = way.jitter_seconds {
            text += &format!(", jitter {:.1} us", jitter * 1e6);
        }
    }
    for flow in &line.tcp {
        text += &format!(
            " {} {:.1} Mb/s, window {} KiB, round trip {:.3} ms, {} again",
            flow.way,
            flow.bits_per_second / 1e6,
            flow.congestion_window_mean >> 10,
            flow.rtt_mean_seconds * 1e3,
            flow.retransmits
        );
    }
    if let Some(why) = &line.why {
        text += &format!(" {}", why.lines().next().unwrap_or_default());
    }
    text
}

fn conclude(report: &MonitorReport) {
    for test in &report.totals.tests {
        let runs = test.runs.iter().filter(|(_, n)| **n > 0);
        let runs: Vec<String> = runs.map(|(outcome, n)| format!("{n} {}", outcome.name())).collect();
        let runs = if runs.is_empty() { "none ran".to_owned() } else { runs.join(", ") };
        tell!("{}: {runs}; {} missed", test.test, test.missed);
    }
    let lines = &report.totals.lines;
    tell!("{} written, {} lost", crate::print::counted(lines.written, "line"), lines.lost + lines.waiting);
}

/// Bytes of a datagram unless chosen, if it is not cut.
const DEFAULT_BYTES: u32 = 1472;
const KEYS: &str =
    "every, jitter, time, reverse, both, flows, size, rate, window, cc; of a test also name, udp, tcp";

/// The tests of a file; `how` is for what it does not say.
fn read(path: &Path, how: &HowArgs) -> Result<Vec<MonitorTest>> {
    let text = read_small_text(path, SETTINGS)?;
    tests(&text, how).map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn tests(text: &str, how: &HowArgs) -> Result<Vec<MonitorTest>> {
    let table = DeTable::parse(text).map_err(|error| {
        let line =
            error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        anyhow!(
            "line {line}: {}{}",
            error.message(),
            Hint("write lines as `key = \"value\"`, and [[test]] before each test")
        )
    })?;
    let mut all = how.clone();
    let mut list: &[_] = &[];
    for (key, value) in table.get_ref().iter() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("test", DeValue::Array(array)) => list = array,
            (key, value) => set(&mut all, key, value)?,
        }
    }
    ensure!(
        !list.is_empty(),
        "no tests{}",
        Hint("write [[test]], and below it udp = \"HOST\" or tcp = \"HOST\"")
    );
    let one = |(n, value): (usize, &toml::Spanned<DeValue<'_>>)| {
        let table = value.get_ref().as_table();
        let table =
            table.ok_or_else(|| anyhow!("test {}: expected a table{}", n + 1, Hint("write [[test]]")))?;
        one(table, &all).map_err(|error| anyhow!("test {}: {error}", n + 1))
    };
    list.iter().enumerate().map(one).collect()
}

fn one(table: &DeTable<'_>, all: &HowArgs) -> Result<MonitorTest> {
    let (mut how, mut name, mut target) = (all.clone(), None, None);
    for (key, value) in table.iter() {
        let text = || words(key.get_ref(), value.get_ref());
        let kind = match key.get_ref().as_ref() {
            "udp" => TestKind::Udp,
            "tcp" => TestKind::Tcp,
            "name" => {
                name = Some(text()?);
                continue;
            }
            key => {
                set(&mut how, key, value.get_ref())?;
                continue;
            }
        };
        ensure!(target.is_none(), "two servers in one test{}", Hint("write a [[test]] for each"));
        let host = text()?;
        ensure!(!host.is_empty(), "empty host name");
        target = Some(Target { kind, host });
    }
    let target =
        target.ok_or_else(|| anyhow!("no server{}", Hint("write udp = \"HOST\" or tcp = \"HOST\"")))?;
    test(&target, name, &how)
}

/// A test, if it can be made.
fn test(target: &Target, name: Option<String>, how: &HowArgs) -> Result<MonitorTest> {
    let (time, every) = (how.time.duration(), how.every.nanos());
    let jitter = how.jitter.map_or(every / 10, |span| span.nanos());
    ensure!(
        jitter <= every,
        "--jitter is longer than the time between tests{}",
        Hint("use a smaller --jitter")
    );
    let what = match target.kind {
        TestKind::Udp => {
            let direction = match (how.reverse, how.both) {
                (true, _) => TestDirection::Reverse,
                (false, true) => TestDirection::Both,
                (false, false) => TestDirection::Forward,
            };
            let size = how.size.unwrap_or(DEFAULT_BYTES);
            let point = UdpPoint::even(size, spacing(size, how.rate.bits_per_second()), time);
            point.check().map_err(|why| anyhow!(why))?;
            TestSpec::Udp(point, direction, how.flows)
        }
        TestKind::Tcp => {
            let point = TcpPoint {
                way: match (how.reverse, how.both) {
                    (true, _) => TestDirection::Reverse,
                    (false, true) => TestDirection::Both,
                    (false, false) => TestDirection::Forward,
                },
                flows: usize::from(how.flows),
                window: how.window.map(Size::bytes),
                congestion: how.cc.clone(),
                seconds: time.as_secs_f64(),
                ..TcpPoint::default()
            };
            point.check().map_err(|why| anyhow!(why))?;
            TestSpec::Tcp(point)
        }
    };
    let name = name.unwrap_or_else(|| format!("{}:{}", target.kind.name(), target.host));
    let (server, period, fit) = (target.host.clone(), Period { every, jitter }, how.size.is_none());
    Ok(MonitorTest { name, server, period, what, fit })
}

/// A key that is an option.
fn set(how: &mut HowArgs, key: &str, value: &DeValue<'_>) -> Result<()> {
    match key {
        "every" => how.every = some(key, value)?,
        "jitter" => how.jitter = Some(parsed(key, value)?),
        "time" => how.time = some(key, value)?,
        "reverse" => how.reverse = flag(key, value)?,
        "both" => how.both = flag(key, value)?,
        "flows" => how.flows = within(key, value, 1, u64::from(MAX_FLOWS))?,
        "size" => how.size = Some(within(key, value, MIN_DATAGRAM.into(), MAX_DATAGRAM.into())?),
        "rate" => how.rate = some(key, value)?,
        "window" => how.window = Some(some(key, value)?),
        "cc" => how.cc = Some(words(key, value)?),
        other => bail!("unknown key `{other}`{}", Hint(format_args!("the keys are {KEYS}"))),
    }
    ensure!(!(how.reverse && how.both), "reverse and both exclude each other{}", Hint("choose one"));
    Ok(())
}

fn words(key: &str, value: &DeValue<'_>) -> Result<String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        _ => bail!("`{key}` needs a string{}", Hint("write it in quotes, as on the command line")),
    }
}

fn flag(key: &str, value: &DeValue<'_>) -> Result<bool> {
    match value {
        DeValue::Boolean(flag) => Ok(*flag),
        _ => bail!("`{key}` must be true or false{}", Hint("write it without quotes")),
    }
}

fn parsed<T: FromStr<Err: Display>>(key: &str, value: &DeValue<'_>) -> Result<T> {
    words(key, value)?.parse().map_err(|error: T::Err| anyhow!("`{key}`: {error}"))
}

fn some<T: FromStr<Err: Display> + Default + PartialEq>(key: &str, value: &DeValue<'_>) -> Result<T> {
    let value = parsed::<T>(key, value)?;
    ensure!(value != T::default(), "`{key}` must be greater than zero{}", Hint("or leave it out"));
    Ok(value)
}

fn within<T: TryFrom<u64>>(key: &str, value: &DeValue<'_>, least: u64, most: u64) -> Result<T> {
    let number = words(key, value)?.parse::<u64>().ok().filter(|n| (least..=most).contains(n));
    let number = number.and_then(|n| T::try_from(n).ok());
    number.ok_or_else(|| {
        anyhow!(
            "`{key}` must be a whole number from {least} to {most}{}",
            Hint("correct it, or leave it out")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, ProbeWhat, Verb};
    use clap::Parser;
    use proptest::prelude::*;

    fn how() -> HowArgs {
        let words = "skyhaul probe monitor --token-file t udp:dtn2 --time 2s".split_whitespace();
        match Cli::try_parse_from(words).unwrap().verb {
            Verb::Probe(args) => match args.what {
                Some(ProbeWhat::Monitor(args)) => args.how,
                _ => panic!("another verb"),
            },
            _ => panic!("another verb"),
        }
    }

    #[test]
    fn a_plan_says_what_is_for_all_and_what_for_one() {
        let plan = "every = \"10min\"\n[[test]]\nname = \"p\"\nudp = \"dtn2\"\nrate = \"1Gbps\"\nboth = true\n\
                    [[test]]\ntcp = \"dtn3:99\"\nevery = \"1h\"\njitter = \"1s\"\nflows = 4\n";
        let tests = tests(plan, &how()).unwrap();
        let second = 1_000_000_000;
        assert_eq!((tests[0].name.as_str(), tests[1].name.as_str()), ("p", "tcp:dtn3:99"));
        assert_eq!((tests[0].period.every, tests[0].period.jitter), (600 * second, 60 * second));
        assert_eq!((tests[1].period.every, tests[1].period.jitter), (3600 * second, second));
        assert!(matches!(&tests[1].what, TestSpec::Tcp(point) if point.flows == 4 && point.seconds == 2.0));
        assert!((tests[0].takes() - 2.0).abs() < 0.1, "of the command line: {}", tests[0].takes());
    }

    #[test]
    fn what_is_wrong_is_named_with_a_hint() {
        for (wrong, said) in [
            ("", "no tests"),
            ("every = 5", "`every`"),
            ("every = \"0s\"\n[[test]]\nudp=\"a\"", "greater than zero"),
            ("[[test]]\n", "no server"),
            ("[[test]]\nudp=\"a\"\ntcp=\"b\"", "two servers"),
            ("[[test]]\nudp=\"a\"\nspeed=\"1\"", "test 1: unknown key `speed`"),
            ("[[test]]\nudp=\"a\"\nsize=1", "from 40 to"),
            ("[[test]]\nudp=\"a\"\nboth=true\nreverse=true", "choose one"),
            ("[[test]]\nudp=\"a\"\nevery=\"1s\"\njitter=\"2s\"", "jitter"),
            ("[[test]\n", "line 1"),
        ] {
            let error = tests(wrong, &how()).unwrap_err().to_string();
            assert!(error.contains(said) && error.contains("hint: "), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}", lines in "(\\[\\[test\\]\\]|udp|every|size|=|\"|\n|1|s){0,30}") {
            for text in [text, lines] {
                let _ = tests(&text, &how());
            }
        }
    }
}
