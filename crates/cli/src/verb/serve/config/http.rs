//! The section `[http]`: files and recordings over HTTP and WebDAV.

use super::key::Key;
use anyhow::{Result, ensure};
use skyhaul::core::hint::Hint;
use skyhaul::io::quantity::Span;
use skyhaul_daemon::webdav::{
    CertificateClient, ClientCertificates, CopyLimits, OwnTokens, ServedDirectory, ThirdPartyOptions,
    TlsFiles, TokenIssuer, WebDavOptions, WebDavRules, check_directory_name,
};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

/// Port of the server of files.
const DEFAULT_PORT: u16 = 8089;
/// Maximum number of directories.
const MAX_DIRECTORIES: usize = 64;
/// Maximum number of blocks of addresses.
const MAX_BLOCKS: usize = 256;
/// Maximum number of copies that may be allowed at a time: each takes a place of those that arrive or are sent.
const MAX_COPIES: usize = 128;
/// Shortest time without progress after which a copy may be ended.
const MIN_STALL: Duration = Duration::from_secs(1);

/// Maximum number of issuers of tokens, and of names of this server in the tokens of one.
const MAX_ISSUERS: usize = 64;
const MAX_AUDIENCES: usize = 64;
/// Maximum number of subjects of certificates, and of scopes of one.
const MAX_CLIENTS: usize = 4096;
const MAX_SCOPES: usize = 256;
/// How long keys of an issuer are used after it gave them: usually, at least, at most (WLCG profile 1.3).
const KEEP_KEYS: Duration = Duration::from_secs(2 * 86_400);
const MIN_KEEP_KEYS: Duration = Duration::from_secs(3600);
const MAX_KEEP_KEYS: Duration = Duration::from_secs(4 * 86_400);

/// What the section says.
pub(in crate::verb::serve) struct HttpConfig {
    pub(in crate::verb::serve) options: WebDavOptions,
    pub(in crate::verb::serve) token_file: Option<PathBuf>,
}

impl Key<'_> {
    /// The section.
    pub(super) fn http(&self) -> Result<HttpConfig> {
        let listen = (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into();
        let options = WebDavOptions {
            listen,
            directories: Vec::new(),
            recordings: false,
            record_uploads: false,
            tls: None,
            client_certificates: None,
            copy: ThirdPartyOptions::default(),
            issuers: Vec::new(),
            own_tokens: None,
            state: None,
            log: None,
            scitags: None,
        };
        let mut config = HttpConfig { options, token_file: None };
        let options = &mut config.options;
        let (mut certificate, mut key) = (None, None);
        for entry in self.entries()? {
            match entry.key {
                "copy" => options.copy = entry.copy()?,
                "certificate" => certificate = Some(PathBuf::from(entry.string()?)),
                "key" => key = Some(PathBuf::from(entry.string()?)),
                "issuer" => {
                    for issuer in entry.list(MAX_ISSUERS)? {
                        options.issuers.push(entry.at(issuer).issuer()?);
                    }
                }
                "listen" => options.listen = entry.parse()?,
                "log" => options.log = Some(entry.http_log()?),
                "scitags" => options.scitags = Some(entry.http_scitags()?),
                "own_tokens" => options.own_tokens = Some(entry.own_tokens()?),
                "state" => options.state = Some(entry.string()?.into()),
                "tls" => options.client_certificates = Some(entry.client_certificates()?),
                "token_file" => config.token_file = Some(entry.string()?.into()),
                "recordings" => options.recordings = entry.flag()?,
                "record_uploads" => options.record_uploads = entry.flag()?,
                "root" => {
                    for root in entry.list(MAX_DIRECTORIES)? {
                        options.directories.push(entry.at(root).root()?);
                    }
                }
                _ => {
                    let hint = "the keys of [http] are certificate, copy, issuer, key, listen, log, own_tokens, record_uploads, recordings, root, scitags, state, tls, token_file";
                    return Err(entry.wrong(format_args!("unknown key{}", Hint(hint))));
                }
            }
        }
        options.tls = match (certificate, key) {
            (Some(certificate), Some(key)) => Some(TlsFiles { certificate, key }),
            (None, None) => None,
            _ => return Err(self.wrong("certificate and key belong together: set both")),
        };
        let hint = Hint("set `certificate` and `key` of [http]");
        let is_asked = options.client_certificates.is_some() && options.tls.is_none();
        ensure!(!is_asked, self.wrong(format_args!("certificates of clients need TLS{hint}")));
        let roots = &options.directories;
        let hint = Hint("add [[http.root]] with name and directory, or recordings = true");
        ensure!(options.recordings || !roots.is_empty(), self.wrong(format_args!("nothing is served{hint}")));
        let needs = "record_uploads needs recordings = true: what is uploaded is served there";
        ensure!(options.recordings || !options.record_uploads, self.wrong(needs));
        for (at, root) in roots.iter().enumerate() {
            let is_again = roots[..at].iter().any(|other| other.name == root.name);
            let hint = Hint("give each a name of its own");
            ensure!(!is_again, self.wrong(format_args!("two roots are named {}{hint}", root.name)));
        }
        self.check_issuers(options)?;
        Ok(config)
    }

    /// What issuers must be together.
    fn check_issuers(&self, options: &WebDavOptions) -> Result<()> {
        let WebDavOptions { issuers, own_tokens, state, .. } = options;
        let own = own_tokens.as_ref().map(|own| &own.issuer);
        let urls: Vec<&String> = own.into_iter().chain(issuers.iter().map(|issuer| &issuer.url)).collect();
        for (at, url) in urls.iter().enumerate() {
            ensure!(!urls[..at].contains(url), self.wrong(format_args!("two issuers have the url {url}")));
        }
        let hint = Hint("set `state` to a directory, or `keys` of the issuer to a file");
        let has_keys = state.is_some() || issuers.iter().all(|issuer| issuer.keys.is_some());
        ensure!(has_keys, self.wrong(format_args!("keys of issuers need a directory to be kept in{hint}")));
        Ok(())
    }

    fn client_certificates(&self) -> Result<ClientCertificates> {
        let (mut authorities, mut required, mut clients) = (None, false, Vec::new());
        for entry in self.entries()? {
            match entry.key {
                "client_authorities" => authorities = Some(PathBuf::from(entry.string()?)),
                "client_certificates" => {
                    required = match entry.string()? {
                        "optional" => false,
                        "required" => true,
                        _ => return Err(entry.wrong("expected `optional` or `required`")),
                    }
                }
                "client" => {
                    for client in entry.list(MAX_CLIENTS)? {
                        clients.push(entry.at(client).client()?);
                    }
                }
                _ => {
                    let hint = "the keys of [http.tls] are client, client_authorities, client_certificates";
                    return Err(entry.wrong(format_args!("unknown key{}", Hint(hint))));
                }
            }
        }
        let hint = Hint("such as client_authorities = '/etc/grid-security/certificates'");
        let authorities = authorities.ok_or_else(|| {
            self.wrong(format_args!("certificates of clients need client_authorities{hint}"))
        })?;
        Ok(ClientCertificates { authorities, required, clients })
    }

    fn client(&self) -> Result<CertificateClient> {
        let mut client = CertificateClient::default();
        for entry in self.entries()? {
            match entry.key {
                "subject" => entry.string()?.clone_into(&mut client.subject),
                "issuer" => client.issuer = Some(entry.string()?.to_owned()),
                "scopes" => {
                    for scope in entry.list(MAX_SCOPES)? {
                        client.scopes.push(entry.at(scope).string()?.to_owned());
                    }
                }
                _ => {
                    let hint = Hint("the keys of a client are issuer, scopes, subject");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        client.check().map_err(|why| self.wrong(why))?;
        Ok(client)
    }

    fn own_tokens(&self) -> Result<OwnTokens> {
        let (mut issuer, mut key) = (None, None);
        for entry in self.entries()? {
            match entry.key {
                "issuer" => issuer = Some(entry.string()?.to_owned()),
                "key" => key = Some(PathBuf::from(entry.string()?)),
                _ => {
                    let hint = Hint("the keys of [http.own_tokens] are issuer, key");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let own = issuer.filter(|issuer| !issuer.is_empty()).zip(key);
        let hint = Hint("such as issuer = 'https://mh.example:8443' and key = '/var/lib/skyhaul/token.key'");
        let (issuer, key) =
            own.ok_or_else(|| self.wrong(format_args!("own tokens need issuer and key{hint}")))?;
        Ok(OwnTokens { issuer, key })
    }

    fn issuer(&self) -> Result<TokenIssuer> {
        let mut issuer = TokenIssuer {
            url: String::new(),
            audiences: Vec::new(),
            base_path: "/".to_owned(),
            keys: None,
            allow: Vec::new(),
            authorities: None,
            keep: KEEP_KEYS,
        };
        for entry in self.entries()? {
            match entry.key {
                "url" => entry.string()?.clone_into(&mut issuer.url),
                "audiences" => {
                    for name in entry.list(MAX_AUDIENCES)? {
                        issuer.audiences.push(entry.at(name).string()?.to_owned());
                    }
                }
                "base_path" => entry.string()?.clone_into(&mut issuer.base_path),
                "keys" => issuer.keys = Some(entry.string()?.into()),
                "allow" => {
                    for block in entry.list(MAX_BLOCKS)? {
                        issuer.allow.push(entry.at(block).parse()?);
                    }
                }
                "authorities" => issuer.authorities = Some(entry.string()?.into()),
                "keep" => {
                    issuer.keep = entry.parse::<Span>()?.duration();
                    let is_usual = (MIN_KEEP_KEYS..=MAX_KEEP_KEYS).contains(&issuer.keep);
                    ensure!(is_usual, entry.wrong("expected a time from 1h to 4d"));
                }
                _ => {
                    let hint = Hint(
                        "the keys of an issuer are allow, audiences, authorities, base_path, keep, keys, url",
                    );
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let is_whole = !issuer.url.is_empty() && !issuer.audiences.is_empty();
        ensure!(is_whole, self.wrong("an issuer needs url and audiences"));
        issuer.check().map_err(|why| self.wrong(why))?;
        Ok(issuer)
    }

    fn copy(&self) -> Result<ThirdPartyOptions> {
        let mut copy = ThirdPartyOptions::default();
        for entry in self.entries()? {
            let CopyLimits { total, per_user, per_host } = &mut copy.limits;
            match entry.key {
                "allow" => {
                    for block in entry.list(MAX_BLOCKS)? {
                        copy.allow.push(entry.at(block).parse()?);
                    }
                }
                "authorities" => copy.authorities = Some(entry.string()?.into()),
                "stall" => {
                    copy.stall = entry.parse::<Span>()?.duration();
                    let is_long = copy.stall >= MIN_STALL;
                    ensure!(is_long, entry.wrong(format_args!("at least {MIN_STALL:?}")));
                }
                "total" => *total = entry.count(MAX_COPIES)?,
                "per_user" => *per_user = entry.count(MAX_COPIES)?,
                "per_host" => *per_host = entry.count(MAX_COPIES)?,
                _ => {
                    let hint = Hint(
                        "the keys of [http.copy] are allow, authorities, per_host, per_user, stall, total",
                    );
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        Ok(copy)
    }

    fn root(&self) -> Result<ServedDirectory> {
        let (mut name, mut directory, mut is_writable) = (None, None, false);
        let mut rules = WebDavRules::default();
        for entry in self.entries()? {
            match entry.key {
                "name" => {
                    let text = entry.string()?;
                    check_directory_name(text).map_err(|why| entry.wrong(why))?;
                    name = Some(text.to_owned());
                }
                "directory" => directory = Some(PathBuf::from(entry.string()?)),
                "write" => is_writable = entry.flag()?,
                "rules" => {
                    rules = match entry.string()? {
                        "grid" => WebDavRules::Grid,
                        "rfc4918" => WebDavRules::Rfc4918,
                        _ => return Err(entry.wrong("expected `grid` or `rfc4918`")),
                    }
                }
                _ => {
                    let hint = Hint("the keys of a root are directory, name, rules, write");
                    return Err(entry.wrong(format_args!("unknown key{hint}")));
                }
            }
        }
        let (Some(name), Some(directory)) = (name, directory) else {
            return Err(self.wrong("a root needs name and directory"));
        };
        let hint = Hint("make the directory, or remove the root");
        let shown = directory.display();
        ensure!(directory.is_dir(), self.wrong(format_args!("{shown} is not a directory{hint}")));
        Ok(ServedDirectory { name, directory, is_writable, rules })
    }
}

#[cfg(test)]
mod tests {
    use crate::verb::serve::config::parse;

    fn with(http: &str) -> Result<String, String> {
        let station = "[station]\n[[station.disk]]\npath = '/'\n[[station.input]]\nname = 'a'\nlisten = ['udp://127.0.0.1:1']\n";
        let parsed = parse(&format!("{station}{http}"));
        parsed
            .map(|config| format!("{:?}", config.http.map(|http| http.options)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_section_is_read_and_mistakes_are_named() {
        assert_eq!(with("").unwrap(), "None");
        let read = with("[http]\nlisten = '127.0.0.1:9'\nrecordings = true\nrecord_uploads = true\n[[http.root]]\nname = 'exp'\ndirectory = '/'\nwrite = true\nrules = 'rfc4918'\n[http.copy]\nallow = ['10.0.0.0/8']\nstall = '2s'\nper_host = 3\n[[http.issuer]]\nurl = 'https://i'\naudiences = ['a', 'b']\nbase_path = '/exp'\nkeys = '/k'\nkeep = '3d'").unwrap();
        for part in [
            "127.0.0.1:9",
            "name: \"exp\"",
            "is_writable: true",
            "rules: Rfc4918",
            "recordings: true",
            "record_uploads: true",
            "first: 10.0.0.0, bits: 8",
            "stall: 2s",
            "per_host: 3",
            "audiences: [\"a\", \"b\"], base_path: \"/exp\", keys: Some(\"/k\")",
            "keep: 259200s",
        ] {
            assert!(read.contains(part), "{read}");
        }
        let root = "[[http.root]]\nname = 'a'\ndirectory = '/'\n";
        let issuer = "[[http.issuer]]\nurl = 'https://i'\naudiences = ['https://h:1']\n";
        for (http, why) in [
            ("[http]", "nothing is served"),
            ("[http]\nrecordings = 'yes'", "line 8: recordings: expected true or false"),
            (&format!("[http]\nrecord_uploads = true\n{root}"), "record_uploads needs recordings = true"),
            ("[http]\nkey = '/k'", "certificate and key belong together"),
            ("[http]\nport = 1", "unknown key; hint: the keys of [http] are"),
            (&format!("{root}{root}"), "two roots are named a"),
            ("[[http.root]]\nname = 'a/b'\ndirectory = '/'", "name: expected up to 64 letters"),
            ("[[http.root]]\nname = 'recordings'\ndirectory = '/'", "name: expected up to 64 letters"),
            ("[[http.root]]\nname = 'a'", "a root needs name and directory"),
            ("[[http.root]]\nname = 'a'\ndirectory = '/nowhere'", "/nowhere is not a directory"),
            (&format!("{root}rules = 'x'"), "expected `grid` or `rfc4918`"),
            (&format!("{root}mode = 'x'"), "the keys of a root are"),
            ("[http.copy]\nallow = ['10.0.0.1/8']", "allow: expected a block of addresses"),
            ("[http.copy]\nallow = '10.0.0.0/8'", "allow: expected a list"),
            ("[http.copy]\nstall = '10ms'", "stall: at least 1s"),
            ("[http.copy]\ntotal = 0", "total: expected a number from 1 to 128"),
            ("[http.copy]\nstreams = 1", "the keys of [http.copy] are"),
            (&format!("{root}[[http.issuer]]\nurl = 'https://i'"), "an issuer needs url and audiences"),
            (&format!("{root}{issuer}"), "keys of issuers need a directory to be kept in; hint: set `state`"),
            (
                &format!("{root}{issuer}keys = '/k'\n{issuer}keys = '/k'"),
                "two issuers have the url https://i",
            ),
            (&format!("{root}[http.own_tokens]\nissuer = 'https://h'"), "own tokens need issuer and key"),
            (
                &format!("{root}[http.own_tokens]\nkeys = 'k'"),
                "the keys of [http.own_tokens] are issuer, key",
            ),
            (
                &format!("{root}{issuer}keys = '/k'\n[http.own_tokens]\nissuer = 'https://i'\nkey = 'k'"),
                "two issuers have the url https://i",
            ),
            (&format!("{root}{issuer}keep = '5d'"), "keep: expected a time from 1h to 4d"),
            (&format!("{root}{issuer}base_path = 'a'"), "base_path: the path does not begin with `/`"),
            (
                &format!("{root}[[http.issuer]]\nurl = 'http://i'\naudiences = ['a']"),
                "url: keys are asked for over TLS",
            ),
            (&format!("{root}{issuer}scope = ''"), "the keys of an issuer are"),
            (&format!("{root}[http.tls]\nclient_authorities = '/'"), "certificates of clients need TLS"),
            (&format!("{root}[http.tls]\nclient_certificates = 'optional'"), "need client_authorities; hint"),
            (
                &format!("{root}[http.tls]\nclient_certificates = 'maybe'"),
                "expected `optional` or `required`",
            ),
            (&format!("{root}[http.tls]\nclients = []"), "the keys of [http.tls] are"),
            (
                &format!("{root}[[http.tls.client]]\nsubject = 'Ann'\nscopes = ['storage.read:/']"),
                "subject: `Ann` has no `=`",
            ),
            (
                &format!("{root}[[http.tls.client]]\nsubject = 'CN=Ann'\nscopes = ['read:/']"),
                "`read:/` is no scope",
            ),
            (&format!("{root}[[http.tls.client]]\ndn = 'CN=Ann'"), "the keys of a client are"),
        ] {
            let error = with(http).unwrap_err();
            assert!(error.contains(why), "{http}: {error}");
        }
    }
}
