//! `skyhaul token`: tokens that the station signs, and what a token says.
//!
//! ```text
//!   [http.own_tokens] of the configuration ─▶ key ─▶ create ─▶ standard output
//!   [http] ─▶ issuers, own key, kept keys ─▶ show: accepted now, or why not
//! ```

use super::listener::warn_of_readers;
use super::serve::http_options;
use crate::args::{TokenArgs, TokenCreateArgs, TokenShowArgs, TokenWhat};
use crate::outcome::Outcome;
use crate::print;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use skyhaul::core::hint::Hint;
use skyhaul::io::file::read_small_text;
use skyhaul_daemon::tokens::{TokenClaims, TokenKey};
use skyhaul_daemon::webdav::{TokenInspection, WebDavOptions, inspect_token};
use std::io::Read;
use std::path::Path;

/// Longest text that is read as a token: as long as the head of a request.
const MAX_TOKEN_BYTES: usize = 16 << 10;

pub(crate) fn run(args: &TokenArgs) -> Result<Outcome> {
    let options = args.file.as_deref().map(http_options).transpose()?.flatten();
    match &args.what {
        TokenWhat::Create(what) => create(options.as_ref(), what),
        TokenWhat::Show(what) => show(options.as_ref(), what),
    }
}

fn create(options: Option<&WebDavOptions>, args: &TokenCreateArgs) -> Result<Outcome> {
    let Some(own) = options.and_then(|options| options.own_tokens.as_ref()) else {
        let hint = Hint(
            "name the station's configuration by --config FILE; docs/reference/files-over-http.md has an example",
        );
        bail!("no section [http.own_tokens] with issuer and key{hint}");
    };
    let key = TokenKey::read_or_make(&own.key)?;
    warn_of_readers(&own.key);
    let token = TokenClaims {
        issuer: own.issuer.clone(),
        subject: args.subject.clone(),
        scopes: args.scope.clone(),
        lifetime: args.lifetime.duration(),
    };
    tell!("{}", key.sign(&token)?);
    Ok(Outcome::Done)
}

fn show(options: Option<&WebDavOptions>, args: &TokenShowArgs) -> Result<Outcome> {
    let text = read(&args.token)?;
    let inspection = inspect_token(options, text.trim())?;
    let TokenInspection { head, claims, verdict } = &inspection;
    let is_accepted = verdict.as_ref().is_some_and(Result::is_ok);
    if args.json {
        let why = verdict.as_ref().and_then(|verdict| verdict.as_ref().err());
        let accepted = verdict.as_ref().map(Result::is_ok);
        print::json(&json!({ "head": head, "claims": claims, "accepted": accepted, "reason": why }))?;
    } else {
        fields(head);
        fields(claims);
        match verdict {
            Some(Ok(())) => tell!("accepted now: yes"),
            Some(Err(why)) => tell!("accepted now: no, {why}"),
            None => tell!("accepted now: unknown; without [http] in a configuration nothing is accepted"),
        }
    }
    Ok(if is_accepted { Outcome::Done } else { Outcome::Failed })
}

/// The values of a part of a token; times also as people read them.
fn fields(part: &Value) {
    for (name, value) in part.as_object().into_iter().flatten() {
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let time = value.as_i64().filter(|_| ["exp", "iat", "nbf"].contains(&name.as_str()));
        let time = time.map(|seconds| format!(" ({})", skyhaul::time::format(seconds))).unwrap_or_default();
        tell!("{}", skyhaul::io::say::escaped_name(&format!("{name}: {shown}{time}")));
    }
}

fn read(path: &Path) -> Result<String> {
    if path.as_os_str() != "-" {
        return read_small_text(path, MAX_TOKEN_BYTES).context("token");
    }
    let mut text = String::new();
    let bytes = std::io::stdin().take(MAX_TOKEN_BYTES as u64 + 1).read_to_string(&mut text);
    bytes.context("read the token from standard input")?;
    if text.len() > MAX_TOKEN_BYTES {
        bail!("the token on standard input is longer than {MAX_TOKEN_BYTES} bytes");
    }
    Ok(text)
}
