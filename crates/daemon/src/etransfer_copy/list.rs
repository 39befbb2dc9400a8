//! What is at a URL: the files that match, and what is below the directories that match.

use super::client::{EtransferClient, MAX_DEPTH, MAX_LISTED};
use super::session::Session;
use super::url::EtransferUrl;
use skyhaul_core::etransfer::{EtransferPath, EtransferReply, EtransferRequest, has_wildcards};
use skyhaul_transfer::copy::FetchError;
use std::path::{Path, PathBuf};

/// Files and directories.
#[derive(Default)]
pub(super) struct Listing {
    /// Paths on the server, and below the destination.
    pub(super) files: Vec<(String, PathBuf)>,
    pub(super) directories: Vec<PathBuf>,
}

impl EtransferClient {
    /// Lists what URLs of this server name.
    pub(super) fn list(
        &self,
        urls: &[EtransferUrl],
        is_over: &dyn Fn() -> bool,
    ) -> Result<Listing, FetchError> {
        let mut all = Listing::default();
        for url in urls {
            let found = self.with_session(is_over, &mut |session| {
                let mut found = Listing::default();
                list(session, &url.path, (Path::new(""), 0), &mut found, is_over)?;
                Ok(found)
            })?;
            if found.files.is_empty() && found.directories.is_empty() {
                return Err(FetchError::Final(format!("{url}: No such file or directory")));
            }
            all.files.extend(found.files);
            all.directories.extend(found.directories);
        }
        all.files.sort_by(|(_, a), (_, b)| a.cmp(b));
        if let Some(two) = all.files.windows(2).find(|two| two[0].1 == two[1].1) {
            let text = format!("{} and {} would be one file here", two[0].0, two[1].0);
            return Err(FetchError::Final(text));
        }
        Ok(all)
    }

    /// Whether the server has a directory of this path.
    pub(super) fn is_directory(&self, path: &str, is_over: &dyn Fn() -> bool) -> Result<bool, FetchError> {
        let path = path.trim_end_matches('/');
        let paths = self.with_session(is_over, &mut |session| entries(session, path, is_over))?;
        Ok(paths == [format!("{path}/")])
    }
}

fn entries(session: &mut Session, path: &str, is_over: &dyn Fn() -> bool) -> Result<Vec<String>, FetchError> {
    let replies = session.ask(&EtransferRequest::List { path: path.to_owned() }, is_over)?;
    let paths = replies.into_iter().filter_map(|reply| match reply {
        EtransferReply::Ok(path) => Some(path),
        _ => None,
    });
    Ok(paths.collect())
}

fn list(
    session: &mut Session,
    path: &str,
    (below, depth): (&Path, usize),
    found: &mut Listing,
    is_over: &dyn Fn() -> bool,
) -> Result<(), FetchError> {
    for path in entries(session, path, is_over)? {
        if is_over() {
            return Err(FetchError::Over);
        }
        let strange = || FetchError::Final(format!("the server lists {path:?}, which is no path"));
        let parsed = EtransferPath::parse(&path).map_err(|_| strange())?;
        let at = below.join(parsed.names.last().ok_or_else(strange)?);
        if found.files.len() + found.directories.len() >= MAX_LISTED {
            return Err(FetchError::Final(format!("the server lists more than {MAX_LISTED} names")));
        }
        if !parsed.is_directory {
            found.files.push((path, at));
            continue;
        }
        if depth >= MAX_DEPTH {
            return Err(FetchError::Final(format!("{path}: directories are nested too deep")));
        }
        // A name with wildcards in it would match others, too.
        if parsed.names.iter().any(|name| has_wildcards(name)) {
            return Err(FetchError::Final(format!("{path}: it has wildcards in its name")));
        }
        found.directories.push(at.clone());
        list(session, &path, (&at, depth + 1), found, is_over)?;
    }
    Ok(())
}
