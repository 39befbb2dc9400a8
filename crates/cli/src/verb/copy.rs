//! `skyhaul copy`: files, directories and recordings to another host, or from it.

mod etransfer;
mod options;
mod summary;
mod via;
mod web;

use super::listener::{self, Listener};
use super::output::command_line;
use super::receiving::print_json;
use crate::args::{CopyArgs, CopyFilesArgs, CopyServeArgs, CopyWhat};
use crate::outcome::Interrupt;
use crate::outcome::Outcome;
use crate::print::Progress as Line;
use anyhow::{Context, Result, bail};
use options::{engine, exists, is_url, refuse, tuning};
use serde::Serialize;
use skyhaul::core::hint::Hint;
use skyhaul::io::disk::Faults;
use skyhaul::peer::{PeerError, Server, ServerKey, ServerOptions, ServerStats, Service, Token};
use skyhaul::stop::StopFlag;
use skyhaul_transfer::copy::{CopyOptions, CopyService, StallLimits, copy_watched, remote};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;
use summary::{shown, tell};

/// How long a copy may stand still. A disk that tries a bad sector again takes tens of seconds; a server that reads for a comparison, or waits for a
/// recording, takes hours; who presses Ctrl-C waits for none.
const LIMITS: StallLimits = StallLimits {
    moving: Duration::from_secs(120),
    claimed: Duration::from_secs(24 * 3600),
    stopping: Duration::from_secs(1),
};

/// What a server did, and where.
#[derive(Serialize)]
struct Served<'a> {
    command: String,
    listening: [Listener; 1],
    roots: &'a [PathBuf],
    read_only: bool,
    connections: ServerStats,
}

pub(crate) fn run(args: &CopyArgs) -> Result<Outcome> {
    match &args.what {
        Some(CopyWhat::Serve(args)) => serve(args),
        None if args.copy.via.via.is_some() => via::run(&args.copy),
        None if args.copy.paths.iter().any(|path| etransfer::is_url(path)) => etransfer::run(&args.copy),
        None if args.copy.paths.iter().any(|path| path.to_str().is_some_and(is_url)) => web::run(&args.copy),
        None => files(&args.copy),
    }
}

fn serve(args: &CopyServeArgs) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let faults: Faults =
        args.disk_faults.as_deref().unwrap_or_default().parse().map_err(anyhow::Error::msg)?;
    let service = CopyService::new(&args.root, args.read_only)?.with(engine(args.disk_engine), faults);
    let (token, key) = listener::peer_server(&args.token_file)?;
    let server = listen(args.listen, &token, &key, ServerOptions::default(), service)?;
    let roots: Vec<String> = args.root.iter().map(|root| root.display().to_string()).collect();
    say!("serving {} at {}", roots.join(", "), server.local());
    let door = Listener::with_token("copy", server.local(), &args.token_file, key.fingerprint());
    door.say();
    let roots_are = if args.read_only {
        "they may copy from here, and write nothing"
    } else {
        "they may copy from here and to here"
    };
    say!("  {roots_are}");
    listener::warn_of_traffic(server.local().ip());
    while !interrupt.is_set() {
        anyhow::ensure!(server.is_running(), "the server stopped accepting connections");
        std::thread::sleep(Duration::from_millis(50));
    }
    if args.json {
        print_json(&Served {
            command: command_line(),
            listening: [door],
            roots: &args.root,
            read_only: args.read_only,
            connections: server.stats(),
        })?;
    }
    Ok(Outcome::Done)
}

/// Listen where it was asked for, or for both versions of IP, or for IPv4 where the kernel has no IPv6.
fn listen(
    at: Option<SocketAddr>,
    token: &Token,
    key: &ServerKey,
    options: ServerOptions,
    service: CopyService,
) -> Result<Server, PeerError> {
    let services: Vec<Box<dyn Service>> = vec![Box::new(service)];
    let port = skyhaul_transfer::copy::PORT;
    let six = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
    let at = at.unwrap_or_else(|| match has_ipv6() {
        true => six,
        false => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
    });
    Server::start_with(key, at, token.clone(), options, services)
}

fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

fn files(args: &CopyFilesArgs) -> Result<Outcome> {
    let mut options = options(args)?;
    let refused = [
        ("--ca", args.ca.is_some()),
        ("--scitag", args.scitag.is_some()),
        ("--plain-token", args.plain_token),
        ("--third-party", args.third_party),
    ];
    refuse(&refused, "without a URL")?;
    let hint = Hint("give the file of the server's `copy serve --token-file`");
    let path = args.token_file.as_deref().with_context(|| format!("--token-file is missing{hint}"))?;
    let token = listener::peer_token(path)?;
    // One warning, for an address that is not this host.
    let elsewhere = options.server.iter().find(|address| !address.ip().is_loopback());
    if let Some(address) = elsewhere.or(options.server.first()).filter(|_| !args.encrypt) {
        listener::warn_of_traffic(address.ip());
    }
    let interrupt = Interrupt::listen()?;
    options.stop = StopFlag::from(interrupt.flag());
    let mut line = Line::new(args.output.quiet);
    if options.plan || options.dry_run {
        line.show("measuring disks and path");
    }
    if options.verify {
        line.show("reading the files at both ends");
    }
    let report = copy_watched(&options, &token, LIMITS, (), &mut |progress| line.show(&shown(progress)));
    line.clear();
    let report = match report {
        // Given up: no wrong use, and the copy did not hold.
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
            say!("error: {error}");
            return Ok(Outcome::Failed);
        }
        report => report?,
    };
    tell(args, &report)
}

/// Sources on one side, directories on the other.
fn options(args: &CopyFilesArgs) -> Result<CopyOptions> {
    let hint = Hint(
        "`SRC... HOST:DIR` uploads, `HOST:SRC... DIR` downloads; write a local path with a colon as ./a:b",
    );
    let mut local: Vec<(usize, PathBuf)> = Vec::new();
    let mut far: Vec<(usize, PathBuf)> = Vec::new();
    let mut host: Option<String> = None;
    for (at, word) in args.paths.iter().enumerate() {
        let Some((name, path)) = word.to_str().and_then(remote) else {
            local.push((at, word.into()));
            continue;
        };
        if host.as_ref().is_some_and(|host| host != name) {
            bail!("a copy needs exactly one remote host{hint}");
        }
        host = Some(name.to_owned());
        far.push((at, path.to_owned()));
    }
    let Some(host) = host else { bail!("no remote host given{hint}") };
    let Some(first) = local.first() else { bail!("both ends are on {host}; one must be local{hint}") };
    let pull = first.0 > 0;
    let (sources, into) = if pull { (far, local) } else { (local, far) };
    // All sources, then all directories.
    if sources.last().map(|(at, _)| *at) > into.first().map(|(at, _)| *at) {
        bail!("sources must come before directories{hint}");
    }
    let paths = |of: Vec<(usize, PathBuf)>| of.into_iter().map(|(_, path)| path).collect();
    Ok(CopyOptions {
        server: resolve(&host, args.port.unwrap_or(skyhaul_transfer::copy::PORT))?,
        sources: paths(sources),
        into: paths(into),
        pull,
        exists: exists(args.exists)?,
        tuning: tuning(args),
        plan: args.plan,
        dry_run: args.dry_run,
        verify: args.verify,
        stop: StopFlag::default(),
    })
}

/// All addresses of a name: the first that answers is used.
fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let found = (host, port).to_socket_addrs().with_context(|| {
        format!(
            "find {host}{}",
            Hint(format_args!("check the name with `getent hosts {host}`, or write its address"))
        )
    })?;
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        bail!(
            "find {host}: it has no address{}",
            Hint(format_args!("check the name with `getent hosts {host}`"))
        );
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ConfigPaths, Parsed, Verb, parse};

    fn of(line: &str) -> Result<CopyOptions> {
        let words = ["skyhaul", "copy", "--token-file", "t"].into_iter().chain(line.split(' '));
        let Parsed::Run(cli) = parse(words, &ConfigPaths::default())? else { panic!() };
        let Verb::Copy(args) = cli.verb else { panic!() };
        options(&args.copy)
    }

    #[test]
    fn the_side_with_the_host_is_the_far_one() {
        let push = of("a b 127.0.0.1:/d1 127.0.0.1:/d2").unwrap();
        assert_eq!((push.pull, push.sources.len(), push.into.len()), (false, 2, 2));
        let pull = of("127.0.0.1:/d1/exp here --flows 2 --limit 1Gbps").unwrap();
        assert_eq!((pull.pull, pull.tuning.flows, pull.tuning.limit), (true, 2, Some(1_000_000_000)));
        for bad in ["a b", "127.0.0.1:/a 127.0.0.1:/b", "a 127.0.0.1:/b 127.0.0.2:/c", "a 127.0.0.1:/b c"] {
            assert!(of(bad).unwrap_err().to_string().contains("hint: "), "{bad}");
        }
    }
}
