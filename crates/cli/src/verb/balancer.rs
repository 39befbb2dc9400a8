//! `skyhaul balancer`: an operator's calls to the control plane of a load balancer, ours or another's.
//!
//! ```text
//!   EJFAT_URI, --balancer-file, --token-file ─▶ ControlPlane ─▶ one call ─▶ text, or the reply as JSON
//! ```
//!
//! A token is read from the environment or a file, and is in no error. What programs need is on standard output: a URI, a
//! table, JSON. Limits: one call, or two, for each run.

mod text;

use super::listener;
use crate::args::{
    Allowed, AtArgs, BalancerArgs, BalancerWhat, ChainArgs, CreateArgs, RESERVATION, ReserveArgs,
    SendersWhat, StrategyArg, TokensWhat, UntilArgs, WorkersWhat,
};
use crate::outcome::Outcome;
use crate::print;
use anyhow::{Context, Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::failed;
use skyhaul_daemon::Uri;
use skyhaul_daemon::balancer::{Timestamp, json, proto};
use skyhaul_daemon::client::{ClientOptions, ControlError, ControlPlane, Trust};
use std::path::Path;
use std::time::SystemTime;

pub(crate) fn run(args: &BalancerArgs) -> Result<Outcome> {
    let plane = connect(&args.at)?;
    let json = args.at.json;
    match &args.what {
        BalancerWhat::Reserve(args) => reserve(&plane, args, json)?,
        BalancerWhat::Status => status(&plane, json)?,
        BalancerWhat::Overview => {
            let reply = proto::OverviewReply { load_balancers: plane.overview()? };
            show(json, "OverviewReply", &reply, &text::overview(&reply))?;
        }
        BalancerWhat::Extend(args) => extend(&plane, args, json)?,
        BalancerWhat::Free => {
            plane.free()?;
            done(json, "freed")?;
        }
        BalancerWhat::Reset(args) => {
            let (senders, workers, ticks) = (args.senders, args.workers, args.ticks);
            let lb_id = String::new();
            let parts =
                proto::ResetLoadBalancerRequest { lb_id, senders, workers, sync: ticks, epochs: ticks };
            let reply = plane.reset(&parts)?;
            show(json, "ResetLoadBalancerReply", &reply, &text::reset(&reply))?;
        }
        BalancerWhat::Senders(args) => {
            let texts = |networks: &[_]| networks.iter().map(ToString::to_string).collect();
            match &args.what {
                SendersWhat::Add(args) => plane.add_senders(texts(&args.networks))?,
                SendersWhat::Remove(args) => plane.remove_senders(texts(&args.networks))?,
            }
            let status = plane.status()?;
            show(json, "LoadBalancerStatusReply", &status, &text::senders(&status))?;
        }
        BalancerWhat::Workers(args) => {
            let WorkersWhat::Remove { session } = args.what;
            plane.deregister(&session.to_string(), None)?;
            done(json, "removed")?;
        }
        BalancerWhat::Tokens(args) => tokens(&plane, &args.what, json)?,
        BalancerWhat::Chain(args) => chain(&plane, args, json)?,
        BalancerWhat::Unchain { chain } => {
            plane.unchain(chain)?;
            done(json, "unchained: events in flight still arrive")?;
        }
        BalancerWhat::Chains => {
            let reply = plane.chain_graph(Vec::new())?;
            show(json, "GetChainGraphReply", &reply, &text::chains(&reply))?;
        }
        BalancerWhat::Version => {
            let reply = plane.version()?;
            show(json, "VersionReply", &reply, &text::version(&reply))?;
        }
    }
    Ok(Outcome::Done)
}

/// The control plane that the arguments name.
fn connect(args: &AtArgs) -> Result<ControlPlane> {
    let text = match (&args.balancer, &args.balancer_file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(path)) => Some(super::listener::read_line(path)?),
        (None, None) => std::env::var("EJFAT_URI").ok(),
    };
    let text = text.filter(|text| !text.is_empty()).with_context(|| {
        format!(
            "no load balancer{}",
            Hint("set EJFAT_URI, or use --balancer ejfat://host:port/ with --token-file FILE")
        )
    })?;
    let mut uri: Uri = text.parse()?;
    if let Some(path) = &args.token_file {
        uri.token = Some(super::listener::read(path)?);
    }
    ensure!(
        uri.token.is_some(),
        "no token: the control plane requires one{}",
        Hint("ejfat://TOKEN@… in EJFAT_URI, or --token-file FILE")
    );
    let trust = match &args.certificate {
        _ if args.any_certificate => Trust::Anyone,
        Some(file) => Trust::File(file.clone()),
        None => Trust::System,
    };
    let options = ClientOptions { trust, deadline: args.timeout.duration(), ..ClientOptions::default() };
    listener::warn_of_token_to(&uri);
    Ok(ControlPlane::new(&uri, &options)?)
}

fn reserve(plane: &ControlPlane, args: &ReserveArgs, json: bool) -> Result<()> {
    let family = match (args.ipv4, args.ipv6) {
        (true, _) => proto::IpFamily::Ipv4,
        (_, true) => proto::IpFamily::Ipv6,
        _ => proto::IpFamily::DualStack,
    };
    let strategy = match args.strategy {
        StrategyArg::Dynamic => "dynamic",
        StrategyArg::Static => "static",
        StrategyArg::Explicit => "explicit",
    };
    let reply = plane.reserve(proto::ReserveLoadBalancerRequest {
        name: args.name.clone(),
        until: until(&args.until)?,
        sender_addresses: args.sender.iter().map(ToString::to_string).collect(),
        ip_family: family.into(),
        strategy: strategy.to_owned(),
    })?;
    let uri = plane.uri_of(&reply);
    let reply = reply.reached_at(&uri);
    if let Err(error) = give(args.uri_file.as_deref(), &uri, json) {
        // Nobody would know how to end it.
        let freed = ControlPlane::new(&uri, &ClientOptions::default()).and_then(|plane| plane.free());
        let what = if freed.is_ok() { "the reservation was freed" } else { "it is still reserved" };
        return Err(error.context(what));
    }
    if json {
        return print(&json_of("ReserveLoadBalancerReply", &reply)?);
    }
    say!("reserved: {} as `{}`, {}", reply.lb_id, args.name, text::lasts(&args.until));
    if args.sender.is_empty() {
        let hint = Hint("skyhaul balancer senders add 10.1.0.7");
        print::note(&format!("the reservation has no senders yet{hint}"));
    }
    Ok(())
}

/// Put a URI where it is asked for; as JSON it is part of the reply.
fn give(file: Option<&Path>, uri: &Uri, json: bool) -> Result<()> {
    let uri = uri.to_string();
    match file {
        Some(path) => {
            super::listener::private(path, &uri).map_err(|error| failed("write", path, &error))?;
            say!("EJFAT_URI is in {}", path.display());
            Ok(())
        }
        None if json => Ok(()),
        None => print(&uri).and_then(|()| ensure_read()),
    }
}

/// What is handed out on standard output is lost without a reader.
fn ensure_read() -> Result<()> {
    ensure!(!print::is_closed(), "standard output is closed{}", Hint("add --uri-file FILE"));
    Ok(())
}

/// When a reservation ends; the epoch of UNIX stands for never.
fn until(args: &UntilArgs) -> Result<Option<Timestamp>> {
    if args.forever {
        return Ok(Some(Timestamp::default()));
    }
    let Some(lasts) = args.lasts else { return Ok(None) };
    let until = SystemTime::now().checked_add(lasts.duration()).context("there is no such time")?;
    Ok(Some(until.into()))
}

fn extend(plane: &ControlPlane, args: &UntilArgs, json: bool) -> Result<()> {
    let until =
        until(args)?.with_context(|| format!("no end given{}", Hint("add --for 2h, or --forever")))?;
    let until = plane.extend(until)?;
    let reply = proto::ExtendReservationReply { until };
    show(json, "ExtendReservationReply", &reply, &text::extended(&reply))
}

fn status(plane: &ControlPlane, json: bool) -> Result<()> {
    let reply = plane.status()?;
    if json {
        return print(&json_of("LoadBalancerStatusReply", &reply)?);
    }
    // The protocol has the counters of a balancer in its time series only; not every token or server gives them.
    let id = plane.balancer()?;
    let paths = text::COUNTED.iter().map(|(name, _)| format!("/lb/{id}/{name}"));
    let series = plane.timeseries(paths.collect(), None).unwrap_or_default();
    print(text::status(&id, &reply, &series).trim_end())
}

fn tokens(plane: &ControlPlane, what: &TokensWhat, json: bool) -> Result<()> {
    use proto::token_selector::TokenSelector;
    let target = |id: Option<u32>| match id {
        Some(id) => TokenSelector::Id(id),
        None => TokenSelector::Token(plane.uri().token.clone().unwrap_or_default()),
    };
    match what {
        TokensWhat::Create(args) => create(plane, args, json),
        TokensWhat::List(args) => {
            let reply = proto::ListChildTokensReply { tokens: plane.child_tokens(target(args.id))? };
            show(json, "ListChildTokensReply", &reply, &text::tokens(&reply.tokens))
        }
        TokensWhat::Show(args) => {
            let reply = proto::ListTokenPermissionsReply { token: plane.token_permissions(target(args.id))? };
            let all: Vec<_> = reply.token.iter().cloned().collect();
            show(json, "ListTokenPermissionsReply", &reply, &text::tokens(&all))
        }
        TokensWhat::Revoke { id } => {
            plane.revoke_token(TokenSelector::Id(*id))?;
            done(json, "revoked, with all that came from it")
        }
    }
}

fn create(plane: &ControlPlane, args: &CreateArgs, json: bool) -> Result<()> {
    let permission = |allowed: &Allowed| -> Result<_, ControlError> {
        let (resource_type, resource_id) = match &allowed.resource {
            Some(resource) => (resource.kind, resource.id.clone()),
            None => (RESERVATION, plane.balancer()?),
        };
        Ok(proto::TokenPermission { resource_type, resource_id, permission: allowed.level })
    };
    let permissions = args.allow.iter().map(permission).collect::<Result<Vec<_>, _>>()?;
    let reply = plane.create_token(&args.name, permissions)?;
    // The control plane as it was reached.
    let uri = Uri { token: Some(reply.token.clone()), ..plane.uri().clone() };
    let reply = reply.reached_at(&uri);
    give(args.uri_file.as_deref(), &uri, json)?;
    if json { print(&json_of("CreateTokenReply", &reply)?) } else { Ok(()) }
}

fn chain(plane: &ControlPlane, args: &ChainArgs, json: bool) -> Result<()> {
    let from = match (&args.from, &args.from_file) {
        (Some(uri), _) => uri.clone(),
        (None, Some(path)) => super::listener::read_line(path)?,
        (None, None) => String::new(),
    };
    // What is wrong with it is told here, without its token.
    let from: Uri = from.parse()?;
    let family = if args.ipv6 { proto::IpFamily::Ipv6 } else { proto::IpFamily::Ipv4 };
    let chain_id = plane.chain(proto::ChainLoadBalancerRequest {
        ip_family: family.into(),
        weight: args.weight,
        min_factor: args.min_factor,
        max_factor: args.max_factor,
        ..proto::ChainLoadBalancerRequest::from_balancer(&from)
    })?;
    let reply = proto::ChainLoadBalancerReply { chain_id };
    let text = format!("chain {}: load balancer {} sends to this one", reply.chain_id, text::place(&from));
    show(json, "ChainLoadBalancerReply", &reply, &text)
}

/// A reply, as text or as JSON.
fn show<R: json::Message>(json: bool, name: &str, reply: &R, text: &str) -> Result<()> {
    if json { print(&json_of(name, reply)?) } else { print(text.trim_end()) }
}

/// A call without an answer.
fn done(json: bool, text: &str) -> Result<()> {
    if json {
        return print("{}");
    }
    say!("{text}");
    Ok(())
}

fn json_of<R: json::Message>(name: &str, reply: &R) -> Result<String> {
    let value: serde_json::Value = serde_json::from_str(&json::text(name, reply)?)?;
    Ok(serde_json::to_string_pretty(&value)?)
}

fn print(text: &str) -> Result<()> {
    print::page(&format!("{text}\n"))
}
