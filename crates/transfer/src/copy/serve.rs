//! The server: copies to and from the given directories for clients that hold the token.

use super::activity::CopyActivity;
use super::control::{Control, Outcome, of_peer};
use super::destination::{Destination, TemporaryDirectories};
use super::manifest::{Allowed, Manifest, Root, asked_name};
use super::message::{Direction, Measured, MeasuredRate, Message, Request, Sample, Trial, VERSION};
use super::options::{Account, Budget, Tuning, tune};
use super::plan::trial;
use super::receiver::{self, ReceiveRequest};
use super::rights::{Asked, CopyRights, CopyRoot, Everything, OpenRoot};
use super::sender;
use super::session::LocalEnd;
use serde_json::Value;
use skyhaul::peer::{
    Admission, DataStream, Limits, PeerError, RequestSubject, Service, Session, SessionTally,
};
use skyhaul_core::hint::Hint;
use skyhaul_io::disk::tree::Kind;
use skyhaul_io::disk::{Engine, Faults, Tree};
use skyhaul_io::lock::lock;
use skyhaul_io::tcp::tune::LARGEST_WINDOW;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a client may take to attach its flows.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a copy may take: longer than any disk is written.
const LONGEST: Duration = Duration::from_secs(90 * 86_400);

/// A root at which a session has waited for so long does not respond.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// The sessions, and the roots of each.
type RunningCopies = Vec<(CopyActivity, Vec<PathBuf>)>;

/// Copies below some directories, as a [`Service`] of a [`Server`](skyhaul::peer::Server).
#[derive(Clone, Debug)]
pub struct CopyService {
    roots: Arc<[OpenRoot]>,
    rights: Arc<dyn CopyRights>,
    /// Nothing may be written.
    read_only: bool,
    engine: Engine,
    faults: Faults,
    pub(super) budget: Arc<Budget>,
    running: Arc<Mutex<RunningCopies>>,
    hung_after: Duration,
}

impl CopyService {
    /// Serve what is below `roots`, and take copies into it unless `read_only`.
    ///
    /// # Errors
    /// A directory does not exist.
    pub fn new(roots: &[PathBuf], read_only: bool) -> io::Result<Self> {
        let roots = roots.iter().map(|root| CopyRoot::plain(root, !read_only));
        Ok(Self { read_only, ..Self::of_roots(roots.collect::<io::Result<_>>()?)? })
    }

    /// Serve directories under names, to clients that may do everything there.
    ///
    /// # Errors
    /// A directory does not exist.
    pub fn of_roots(roots: Vec<CopyRoot>) -> io::Result<Self> {
        Ok(Self {
            roots: roots.into_iter().map(CopyRoot::open).collect::<io::Result<_>>()?,
            rights: Arc::new(Everything),
            read_only: false,
            engine: Engine::Auto,
            faults: Faults::default(),
            budget: Arc::default(),
            running: Arc::default(),
            hung_after: HUNG_AFTER,
        })
    }

    /// The same for clients with these rights. All share memory and limits.
    #[must_use]
    pub fn for_rights(&self, rights: Arc<dyn CopyRights>) -> Self {
        Self { rights, ..self.clone() }
    }

    /// With these system calls, and faults of the disk, for tests.
    #[must_use]
    pub fn with(self, engine: Engine, faults: Faults) -> Self {
        Self { engine, faults, ..self }
    }

    /// The root that holds `path`, and the path there: absolute, or below the first root.
    fn place(&self, path: &Path) -> Result<(Arc<Tree>, Asked<'_>), String> {
        let asked = Asked::find(&self.roots, path)?;
        // Opened anew for each copy: directories that it remembers may be gone by the next.
        let tree = Tree::open(asked.root.tree.path()).map_err(|error| error.to_string())?;
        Ok((Arc::new(tree.with(self.faults.clone())), asked))
    }

    /// The roots of these paths, if each of them responds.
    fn responding(&self, request: &Request) -> Result<Vec<PathBuf>, String> {
        let asked = request.paths.iter().map(|path| Asked::find(&self.roots, &path.path()));
        let roots = asked.map(|asked| asked.map(|asked| asked.root.tree.path().to_owned()));
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let running = lock(&self.running);
        let hung = running.iter().filter(|(activity, _)| activity.hangs(self.hung_after));
        let held = hung.flat_map(|(_, roots)| roots).find(|root| roots.contains(root));
        match held {
            // Another session would hang there, too.
            Some(root) => Err(format!(
                "{} does not respond: an earlier copy still waits for its disk{}",
                root.display(),
                Hint("see the server's disk, and try again")
            )),
            None => Ok(roots),
        }
    }

    /// A session begins, until what is returned is dropped.
    fn enter(&self, activity: &CopyActivity, request: &Request) -> io::Result<Running<'_>> {
        let roots = self.responding(request).map_err(io::Error::other)?;
        lock(&self.running).push((activity.clone(), roots));
        Ok(Running { service: self, activity: activity.clone() })
    }

    fn request(&self, body: &Value) -> Result<Request, String> {
        // Before anything else: another version may have other requests.
        let version = body.get("version").and_then(Value::as_u64);
        if version != Some(u64::from(VERSION)) {
            let theirs = version.map_or("unknown".to_owned(), |version| version.to_string());
            return Err(format!(
                "the client's copy protocol is version {theirs}, the server's version {VERSION}{}",
                Hint(
                    "install the same \
                 skyhaul on both hosts"
                )
            ));
        }
        let request: Request =
            serde_json::from_value(body.clone()).map_err(|error| format!("invalid request: {error}"))?;
        if self.read_only && request.way == Direction::Push && !request.verify {
            return Err(format!("this server is read-only{}", Hint("start it without --read-only")));
        }
        if request.paths.is_empty() || request.paths.len() > 1024 {
            return Err("a request has 1 to 1024 paths".into());
        }
        self.tuning(&request).check()?;
        for path in &request.paths {
            Asked::find(&self.roots, &path.path())?.check(&*self.rights, &request)?;
        }
        self.responding(&request)?;
        Ok(request)
    }

    fn tuning(&self, request: &Request) -> Tuning {
        let tuning = Tuning {
            flows: request.flows,
            encrypt: request.encrypt,
            range: request.range,
            direct: request.direct,
            engine: self.engine,
            window: request.window.map(|bytes| bytes.min(LARGEST_WINDOW)),
            congestion: request.congestion.clone(),
            limit: request.limit,
            faults: self.faults.clone(),
            ..Tuning::default()
        };
        tuning.bounded()
    }

    fn roots(&self, request: &Request) -> io::Result<Vec<Root>> {
        let root = |(at, name): (usize, &super::message::Name)| {
            let (tree, asked) = self.place(&name.path()).map_err(io::Error::other)?;
            let first = asked.rest.components().next().map(|first| Path::new(first.as_os_str()));
            let is_file = |path: &Path| {
                Ok::<_, io::Error>(tree.status(path)?.is_some_and(|there| there.kind != Kind::Directory))
            };
            if let Some(first) = first.filter(|_| asked.root.is_disk)
                && is_file(first)?
            {
                let text = format!("{} is no scan", name.path().display());
                return Err(io::Error::new(io::ErrorKind::NotFound, text));
            }
            if is_file(&asked.rest)? {
                asked.may_read(&*self.rights)?;
            }
            let path = asked.rest;
            // By the name that was asked for, also where it is a root itself.
            let name = asked_name(&name.path()).map(PathBuf::from).unwrap_or_default();
            Ok(Root { tree, path, name, to: request.to.get(at).copied().unwrap_or(0) })
        };
        request.paths.iter().enumerate().map(root).collect()
    }

    fn into(&self, request: &Request) -> io::Result<Vec<Destination>> {
        let into = |name: &super::message::Name| {
            let (tree, asked) = self.place(&name.path()).map_err(io::Error::other)?;
            let into = Destination { tree, path: asked.rest };
            if request.verify {
                return Ok(into);
            }
            // What only measures leaves nothing.
            if request.measure.is_some() || request.trial.is_some() || request.sample.is_some() {
                return into.existing();
            }
            into.make()?;
            Ok(into)
        };
        request.paths.iter().map(into).collect()
    }

    /// A client that pushes may write anything below the directories that it named.
    fn wishes<'a>(&self, into: &'a [Destination], request: &Request) -> Result<ReceiveRequest<'a>, String> {
        let mut keeps_directories = false;
        for path in &request.paths {
            keeps_directories |= !Asked::find(&self.roots, &path.path())?.may_modify(&*self.rights);
        }
        let (exists, verify) = (request.exists, request.verify);
        Ok(ReceiveRequest { into, exists, verify, allowed: Allowed::All, keeps_directories })
    }

    /// Copy some files, and leave nothing.
    fn rehearse(
        &self,
        session: &mut Session<'_>,
        flows: Vec<DataStream>,
        request: &Request,
        tuning: &Tuning,
        (sample, account): (&Sample, Account),
        (aside, roots): (Option<TemporaryDirectories>, &[Root]),
    ) -> io::Result<()> {
        let stop = until(session);
        let mut quiet = |_: &_| {};
        let talk = Control::new(session.connection, &stop, &mut quiet, tuning);
        if let Some(aside) = aside {
            let places = aside.places();
            let wishes = self.wishes(&places, request).map_err(io::Error::other)?;
            let outcome = receiver::receive(talk, flows, &wishes, tuning, account)?;
            tally(session, Direction::Push, &outcome);
        } else {
            let manifest = Manifest::of(roots, &account)?.sample(sample);
            let outcome = sender::send(talk, flows, roots, &manifest, tuning, account)?;
            tally(session, Direction::Pull, &outcome);
        }
        // Nothing is left: the next may begin.
        session.connection.send(&Message::Alive).map_err(of_peer)
    }

    fn serve(&self, session: &mut Session<'_>, request: &Request) -> io::Result<()> {
        let tuning = self.tuning(request);
        let account = Account::open(&self.budget, request.flows)?;
        let _running = self.enter(&tuning.activity, request)?;
        let asked = tuning.activity.at_disk();
        // Errors are reported before any data are sent.
        let (into, roots) = match request.way {
            Direction::Push => (self.into(request)?, Vec::new()),
            Direction::Pull => (Vec::new(), self.roots(request)?),
        };
        let aside = match &request.sample {
            Some(_) if request.way == Direction::Push => Some(TemporaryDirectories::of(&into)?),
            _ => None,
        };
        drop(asked);
        let flows = flows(session, request)?;
        if let Some(sample) = &request.sample {
            return self.rehearse(session, flows, request, &tuning, (sample, account), (aside, &roots));
        }
        let (stop, counted) = (until(session), session.tally);
        let mut quiet = |_: &_| {};
        let talk = Control::new(session.connection, &stop, &mut quiet, &tuning);
        if let Some(trial) = request.trial() {
            return answer((talk, counted), flows, trial, (&into, &roots), &tuning, account);
        }
        let outcome = match request.way {
            Direction::Push => {
                let wishes = self.wishes(&into, request).map_err(io::Error::other)?;
                receiver::receive(talk, flows, &wishes, &tuning, account)?
            }
            Direction::Pull => {
                let asked = tuning.activity.at_disk();
                let manifest = Manifest::of(&roots, &account)?;
                drop(asked);
                sender::send(talk, flows, &roots, &manifest, &tuning, account)?
            }
        };
        tally(session, request.way, &outcome);
        Ok(())
    }
}

/// Counts what a copy has moved.
fn tally(session: &Session<'_>, way: Direction, outcome: &Outcome) {
    let bytes = outcome.arrived;
    match way {
        Direction::Push => session.tally.add(bytes, 0),
        Direction::Pull => session.tally.add(0, bytes),
    }
    if outcome.stopped.is_some() {
        session.tally.cut();
    }
}

/// A session that runs.
struct Running<'a> {
    service: &'a CopyService,
    activity: CopyActivity,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        lock(&self.service.running).retain(|(activity, _)| !activity.is(&self.activity));
    }
}

/// Runs this end of a trial, and reports what it measured.
fn answer(
    (mut talk, tally): (Control<'_>, &SessionTally),
    flows: Vec<DataStream>,
    trial: Trial,
    (into, roots): (&[Destination], &[Root]),
    tuning: &Tuning,
    account: Account,
) -> io::Result<()> {
    let manifest = Manifest::of(roots, &account)?;
    let here = LocalEnd { roots, manifest: &manifest, into };
    // Said only for the network: disks are asked for it anew by each file.
    let spaces = match trial {
        Trial::Network => into.iter().map(Destination::space).collect::<io::Result<Vec<_>>>()?,
        Trial::Disk(_) | Trial::All { .. } => Vec::new(),
    };
    let sends = !roots.is_empty();
    let tried = trial::run(trial, sends, &here, flows, tuning, account)?;
    if !matches!(trial, Trial::Disk(_)) {
        let bytes = tried.side.bytes;
        tally.add(if sends { 0 } else { bytes }, if sends { bytes } else { 0 });
    }
    talk.say(&match trial {
        Trial::All { .. } => Message::Tried(Box::new(tried)),
        Trial::Network | Trial::Disk(_) => {
            let part = MeasuredRate::of(&tried.side);
            Message::Measured(Box::new(Measured { part, sizes: manifest.sizes(), spaces }))
        }
    })
}

/// Whether a session is over. It borrows its connection: its end is seen by the clock and the server's flag.
fn until<'a>(session: &Session<'a>) -> impl Fn() -> bool + use<'a> {
    let (left, begun, over) = (session.left(), Instant::now(), session.stop());
    move || over.load(std::sync::atomic::Ordering::Relaxed) || begun.elapsed() > left
}

/// Let the client's flows in.
fn flows(session: &mut Session<'_>, request: &Request) -> io::Result<Vec<DataStream>> {
    let connections = session.data_connections(request.flows, request.encrypt)?;
    session.connection.send(&Message::Ready { cookie: connections.cookie() }).map_err(of_peer)?;
    let (mut flows, end) = (Vec::new(), Instant::now() + ATTACH_TIMEOUT);
    while flows.len() < request.flows {
        let left = end.saturating_duration_since(Instant::now());
        let stream = connections.next(left).ok_or_else(|| {
            io::Error::new(io::ErrorKind::TimedOut, "the client did not connect its flows in time")
        })?;
        tune(stream.socket(), request.window, request.congestion.as_deref())?;
        flows.push(stream);
    }
    Ok(flows)
}

impl Service for CopyService {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn admit(&self, body: &Value, _: &Limits) -> Result<Admission, String> {
        self.request(body)?;
        Ok(Admission::aside(LONGEST))
    }

    fn subject(&self, body: &Value) -> RequestSubject {
        let request = serde_json::from_value::<Request>(body.clone()).ok();
        request.map_or_else(RequestSubject::default, |request| RequestSubject {
            paths: request.paths.iter().map(super::message::Name::path).collect(),
            is_upload: Some(request.way == Direction::Push),
        })
    }

    fn run(&self, session: &mut Session<'_>, body: Value) -> Result<(), PeerError> {
        let request = self.request(&body).map_err(|why| PeerError::Io(io::Error::other(why)))?;
        match self.serve(session, &request) {
            Ok(()) => Ok(()),
            Err(error) => {
                // Report to the client why it cannot begin.
                let why = error.to_string();
                let _ = session.connection.send(&Message::Stop { why });
                Err(PeerError::Io(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Exists, Name};
    use super::*;

    #[test]
    fn only_paths_below_the_roots_are_served() {
        let directory = tempfile::tempdir().unwrap();
        let (one, two) = (directory.path().join("one"), directory.path().join("one/two"));
        std::fs::create_dir_all(&two).unwrap();
        let service = CopyService::new(&[one.clone(), two.clone()], false).unwrap();
        let at = |path: &Path| service.place(path).map(|(tree, asked)| (tree.path().to_owned(), asked.rest));
        let (one, two) = (one.canonicalize().unwrap(), two.canonicalize().unwrap());
        assert_eq!(at(Path::new("exp")), Ok((one.clone(), "exp".into())));
        assert_eq!(at(&two.join("exp")), Ok((two, "exp".into())));
        assert_eq!(at(&one.join("./exp")), Ok((one.clone(), "exp".into())));
        for bad in ["../x", "exp/../../x", "/etc/passwd"] {
            assert!(at(Path::new(bad)).unwrap_err().contains("hint: "), "{bad}");
        }
        assert!(at(&one.join("../x")).is_err());
    }

    #[test]
    fn a_root_at_which_a_session_hangs_takes_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let roots = ["one", "two"].map(|name| directory.path().join(name));
        roots.iter().for_each(|root| std::fs::create_dir(root).unwrap());
        let mut service = CopyService::new(&roots, false).unwrap();
        service.hung_after = Duration::ZERO;
        let request = |root: &Path| Request {
            version: VERSION,
            way: Direction::Push,
            paths: vec![Name::from(&*root.canonicalize().unwrap())],
            to: vec![0],
            exists: Exists::Fail,
            flows: 1,
            encrypt: false,
            range: 64 << 10,
            direct: true,
            window: None,
            congestion: None,
            limit: None,
            measure: None,
            trial: None,
            longer: 0,
            sample: None,
            verify: false,
        };
        let activity = CopyActivity::default();
        let running = service.enter(&activity, &request(&roots[0])).unwrap();
        assert!(service.responding(&request(&roots[0])).is_ok(), "it waits for no disk");
        let asked = activity.at_disk();
        let said = service.responding(&request(&roots[0])).unwrap_err();
        assert!(said.contains("does not respond") && said.contains("hint: "), "{said}");
        assert!(service.responding(&request(&roots[1])).is_ok(), "the other root responds");
        assert!(service.enter(&CopyActivity::default(), &request(&roots[0])).is_err());
        drop(asked);
        assert!(service.responding(&request(&roots[0])).is_ok(), "its disk has answered");
        let _asked = activity.at_disk();
        drop(running);
        assert!(service.responding(&request(&roots[0])).is_ok(), "it has ended");
    }
}
