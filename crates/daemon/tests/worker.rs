//! A worker whose control plane forgets it, dies, hangs and refuses.
#![allow(clippy::unwrap_used)]

mod plane;

use plane::{Api, Plane, wait_for};
use skyhaul::receive::{Loaded, ObjectLoad};
use skyhaul_daemon::client::{ClientOptions, ControlPlane};
use skyhaul_daemon::worker::{Worker, WorkerOptions};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::Status;

/// A receiver whose load a test sets.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<ObjectLoad>>);

impl Loaded for Receiver {
    fn load(&self) -> ObjectLoad {
        *self.0.lock().unwrap()
    }
}

#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    fn has(&self, text: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(text))
    }

    #[track_caller]
    fn wait(&self, text: &str) {
        wait_for(text, || self.has(text).then_some(()));
    }
}

fn options(said: &Said) -> WorkerOptions {
    let said = said.clone();
    WorkerOptions {
        name: "w7".into(),
        ports: 4,
        min_factor: 0.5,
        max_factor: 2.0,
        period: Duration::from_millis(10),
        drain: Duration::from_secs(60),
        say: Arc::new(move |text| said.0.lock().unwrap().push(text.to_owned())),
        ..WorkerOptions::new([127, 0, 0, 1].into(), 17_750)
    }
}

fn join(uri: &str, receiver: &Receiver, said: &Said) -> Worker {
    let plane = ControlPlane::new(&uri.parse().unwrap(), &ClientOptions::default()).unwrap();
    Worker::join(&plane, options(said), Box::new(receiver.clone())).unwrap()
}

#[test]
fn it_registers_reports_what_its_receiver_counts_and_leaves_when_its_packets_cease() {
    let (api, receiver, said) = (Api::default(), Receiver::default(), Said::default());
    let plane = Plane::start(&api);
    let load = ObjectLoad {
        fill: 0.25,
        finished: 100,
        complete: 97,
        incomplete: 3,
        taken: 90,
        ring_full: 2,
        packets: 1000,
        bytes: 5000,
        dropped: 0,
    };
    let worker = join(&plane.uri(), &receiver, &said);
    let registered = api.known().sessions["1"].clone();
    assert_eq!((registered.lb_id.as_str(), registered.name.as_str()), ("1", "w7"));
    assert_eq!(
        (registered.ip_address.as_str(), registered.udp_port, registered.port_range),
        ("127.0.0.1", 17_750, 2)
    );
    assert_eq!((registered.min_factor, registered.max_factor, registered.weight), (0.5, 2.0, 1.0));
    *receiver.0.lock().unwrap() = load;
    let state = wait_for("a report", || api.last().filter(|state| state.fill_percent == 0.25));
    assert!(state.is_ready && state.timestamp.is_some() && state.lb_id == "1");
    assert_eq!(
        (state.total_events_recv, state.total_events_reassembled, state.total_events_reassembly_err),
        (100, 97, 3)
    );
    assert_eq!(
        (
            state.total_events_dequeued,
            state.total_event_enqueue_err,
            state.total_bytes_recv,
            state.total_packets_recv
        ),
        (90, 2, 5000, 1000)
    );
    worker.set_ready(false);
    wait_for("not ready", || api.last().filter(|state| !state.is_ready));
    worker.set_ready(true);
    wait_for("ready", || api.last().filter(|state| state.is_ready));
    // Packets of old calendars come until 20 more reports are there, and no less is waited for.
    let leaving = std::thread::spawn(move || worker.leave());
    let said_at = wait_for("not ready", || {
        let known = api.known();
        known.states.last().is_some_and(|state| !state.is_ready).then_some(known.states.len())
    });
    while api.known().states.len() < said_at + 400 && !leaving.is_finished() {
        receiver.0.lock().unwrap().packets += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!leaving.is_finished(), "packets still came");
    // Nothing comes any more, but a sender has not passed the last calendar that names this worker.
    api.known().awaits = true;
    let (more, seen) = (said_at + 440, || api.known().states.len());
    wait_for("more reports", || (seen() >= more || leaving.is_finished()).then_some(()));
    assert!(!leaving.is_finished(), "the balancer says that packets may come");
    api.known().awaits = false;
    let report = leaving.join().unwrap();
    assert!(report.has_left && report.seconds_leaving >= 2.5, "{report:?}");
    assert_eq!((report.registrations, report.times_away, report.session.as_str()), (1, 0, "1"));
    assert_eq!((report.events, report.taken, report.ports), (100, 90, 4));
    let known = api.known();
    assert_eq!(known.deregistered, ["1"]);
    assert!(known.states[said_at..].iter().all(|state| !state.is_ready));
    assert!(said.0.lock().unwrap().is_empty(), "nothing happened that anybody must know");
}

#[test]
fn a_control_plane_that_forgot_it_is_registered_with_again() {
    let (api, said) = (Api::default(), Said::default());
    let plane = Plane::start(&api);
    let worker = join(&plane.uri(), &Receiver::default(), &said);
    wait_for("a report", || api.last());
    api.forget();
    said.wait("registering again");
    wait_for("a report of the new session", || api.last().filter(|state| state.session_id == "2"));
    assert!(said.has("registered with balancer"));
    // It does not want it any more, and says why once.
    api.known().refuses = Some(Status::resource_exhausted("all seats are taken"));
    api.forget();
    said.wait("all seats are taken");
    api.known().refuses = None;
    wait_for("a report of the third session", || api.last().filter(|state| state.session_id == "3"));
    let told = said.0.lock().unwrap().iter().filter(|line| line.contains("all seats")).count();
    assert_eq!(told, 1);
    assert_eq!((worker.report().registrations, worker.report().session), (3, "3".into()));
    drop(worker);
    assert_eq!(api.known().deregistered, ["3"], "one that is dropped deregisters");
}

#[test]
fn it_goes_on_while_the_control_plane_is_away() {
    let (api, said) = (Api::default(), Said::default());
    let plane = Plane::start(&api);
    let worker = join(&plane.uri(), &Receiver::default(), &said);
    wait_for("a report", || api.last());
    let at = plane.at;
    drop(plane);
    said.wait("receiving continues");
    // It lost its state with its life.
    let api = Api::default();
    let plane = Plane::at(at, &api, None);
    said.wait("back after");
    wait_for("a report of the new session", || api.last());
    api.known().hangs = true;
    wait_for("the second absence", || (worker.report().times_away == 2).then_some(()));
    api.known().hangs = false;
    let before = api.known().states.len();
    wait_for("reports", || (api.known().states.len() > before + 3).then_some(()));
    let report = worker.leave_at_once();
    assert!(report.has_left && report.seconds_away > 0.0 && report.error.is_some(), "{report:?}");
    assert_eq!(report.registrations, 2, "{report:?}");
    drop(plane);
}

#[test]
fn leaving_ends_although_nobody_answers() {
    let (api, said) = (Api::default(), Said::default());
    let plane = Plane::start(&api);
    let uri = plane.uri().parse().unwrap();
    let control = ControlPlane::new(&uri, &ClientOptions::default()).unwrap();
    let options = WorkerOptions { drain: Duration::from_millis(300), ..options(&said) };
    let worker = Worker::join(&control, options, Box::new(Receiver::default())).unwrap();
    drop(plane);
    let report = worker.leave();
    assert!(!report.has_left, "{report:?}");
    said.wait("left anyway");
    assert!(!said.has(plane::TOKEN));
}

#[test]
fn what_is_refused_at_first_is_an_error() {
    let api = Api::default();
    let plane = Plane::start(&api);
    let uri = plane.uri();
    let join = |uri: &str, options: WorkerOptions| {
        let control = ControlPlane::new(&uri.parse().unwrap(), &ClientOptions::default()).unwrap();
        Worker::join(&control, options, Box::new(Receiver::default())).unwrap_err().to_string()
    };
    let right = || options(&Said::default());
    let error = join(&uri.replace(plane::TOKEN, "other"), right());
    assert!(error.contains("token … is not known") && error.contains("hint: "), "{error}");
    api.known().refuses = Some(Status::invalid_argument("no; hint: ask nicely"));
    let error = join(&uri, right());
    assert!(error.ends_with("refused: no; hint: ask nicely"), "its own hint, and no other: {error}");
    let error = join(&uri, WorkerOptions { ports: 3, ..right() });
    assert!(error.contains("3 ports; hint: 1, 2, 4"), "{error}");
    let error = join(&format!("ejfat://t@{}/", plane.at), right());
    assert!(error.contains("EJFAT_URI names none"), "{error}");
}
