//! A server that holds the token and takes its time: one byte a second, claims without a byte, ranges without end, names taken late.

use super::super::message::{Entry, Message, Name, Origin, Sent, What};
use super::super::{CopyOptions, HOLE, RangeHead, StallLimits, copy, copy_watched};
use super::{Site, token};
use serde_json::Value;
use skyhaul::peer::{Admission, Connection, Limits, PeerError, Server, ServerOptions, Service, Session};
use skyhaul::stop::StopFlag;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, channel, sync_channel};
use std::time::Duration;

/// Only a hang lasts this long.
const LIMIT: Duration = Duration::from_secs(90);
/// The patience of these clients.
const PATIENCE: Duration = Duration::from_millis(500);
/// A client that drops ranges for ever is stopped after this.
const FLOOD_LIMIT: Duration = Duration::from_secs(20);
const SIZE: u64 = 1 << 20;

/// Names one file of more, and does this when it is wanted.
struct Evil<P>(P);

impl<P> Service for Evil<P>
where
    P: Fn(&mut Connection, &mut TcpStream) -> Result<(), PeerError> + Send + Sync + 'static,
{
    fn name(&self) -> &'static str {
        "copy"
    }

    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::aside(LIMIT))
    }

    fn run(&self, session: &mut Session<'_>, _: Value) -> Result<(), PeerError> {
        let connections = session.data_connections(1, false)?;
        session.connection.send(&Message::Ready { cookie: connections.cookie() })?;
        let Some(flow) = connections.next(LIMIT) else { return Ok(()) };
        let mut flow = flow.into_sender()?.0;
        let entry = Entry {
            to: 0,
            path: Name::Text("exp".into()),
            what: What::File { size: SIZE, sparse: true },
            mode: 0o644,
            modified: (1, 0),
            origin: Origin::default(),
        };
        session.connection.send(&Message::Entries(vec![entry]))?;
        while !matches!(session.connection.receive(LIMIT)?, Message::Wanted(_)) {}
        (self.0)(session.connection, &mut flow)
    }
}

fn head() -> RangeHead {
    RangeHead { size: SIZE, length: 256 << 10, ..RangeHead::default() }
}

/// How a client ends that copies from such a server; it is told to stop after a time.
fn ended<P>(play: P, limits: StallLimits, stop_after: Duration) -> String
where
    P: Fn(&mut Connection, &mut TcpStream) -> Result<(), PeerError> + Send + Sync + 'static,
{
    ended_by(&StopFlag::default(), play, limits, stop_after)
}

fn ended_by<P>(stop: &StopFlag, play: P, limits: StallLimits, stop_after: Duration) -> String
where
    P: Fn(&mut Connection, &mut TcpStream) -> Result<(), PeerError> + Send + Sync + 'static,
{
    let site = Site::new();
    let server = Server::start(
        "127.0.0.1:0".parse().unwrap(),
        token(),
        ServerOptions::default(),
        vec![Box::new(Evil(play))],
    )
    .unwrap();
    let mut options = CopyOptions { server: vec![server.local()], ..site.options(&["exp"], &["home"], true) };
    (options.tuning.flows, options.tuning.patience, options.stop) = (1, PATIENCE, stop.clone());
    let (told, tells) = channel();
    std::thread::spawn(move || {
        let report = copy_watched(&options, &token(), limits, (), &mut |_| {});
        let said = report.map_or_else(
            |error| error.to_string(),
            |report| format!("{:?} {:?}", report.stopped, report.failed),
        );
        told.send(said)
    });
    let said = tells.recv_timeout(stop_after).or_else(|_| {
        stop.stop();
        tells.recv_timeout(LIMIT)
    });
    drop(server);
    said.expect("the client does not end")
}

const PATIENT: StallLimits =
    StallLimits { moving: LIMIT, claimed: LIMIT, stopping: Duration::from_millis(500) };

/// Says each moment that it does something.
fn works(connection: &mut Connection) -> Result<(), PeerError> {
    for steps in 1.. {
        connection.send(&Message::Moving { steps, durable_bytes: 0 })?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn a_flow_that_trickles_ends_the_copy() {
    let trickle = |connection: &mut Connection, flow: &mut TcpStream| -> Result<(), PeerError> {
        let bytes = head().octets().into_iter().chain(std::iter::repeat(7));
        for (steps, byte) in bytes.enumerate() {
            flow.write_all(&[byte])?;
            connection.send(&Message::Moving { steps: steps as u64, durable_bytes: 0 })?;
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    let said = ended(trickle, PATIENT, LIMIT);
    assert!(said.contains("of a range in 2 s, less than 16 KiB"), "{said}");
}

#[test]
fn a_server_that_only_says_that_it_works_is_given_up() {
    let limits = StallLimits { claimed: Duration::from_secs(2), ..PATIENT };
    let said = ended(|connection, _| works(connection), limits, LIMIT);
    assert!(said.contains("nothing arrived for 2 s, although the other host says that it works"), "{said}");
}

#[test]
fn who_presses_ctrl_c_waits_for_no_claims() {
    let said = ended(|connection, _| works(connection), PATIENT, Duration::from_secs(1));
    assert!(said.contains("stopped") || said.contains("interrupted"), "{said}");
}

/// Ranges of a file that has failed, which are dropped: not for ever, and not when the client is to end.
#[test]
fn ranges_without_end_of_a_file_that_has_ended_end_the_copy() {
    let flood = |connection: &mut Connection, flow: &mut TcpStream| -> Result<(), PeerError> {
        let error = Some("gone".to_owned());
        connection.send(&Message::Sent(vec![Sent { file: 0, digest: None, error }]))?;
        // Before, a range that comes twice is refused for itself.
        while !matches!(connection.receive(LIMIT)?, Message::Done(_)) {}
        let heads = RangeHead { flags: HOLE, ..head() }.octets().repeat(1000);
        loop {
            flow.write_all(&heads)?;
        }
    };
    let said = ended(flood, PATIENT, FLOOD_LIMIT);
    assert!(said.contains("a range twice"), "{said}");
}

/// Sends all of the file, and waits until the client has it.
fn sends_all(connection: &mut Connection, flow: &mut TcpStream) -> Result<(), PeerError> {
    connection.send(&Message::AllEntries)?;
    for range in 0..SIZE / (256 << 10) {
        flow.write_all(&RangeHead { flags: HOLE, offset: range * (256 << 10), ..head() }.octets())?;
    }
    connection.send(&Message::Sent(vec![Sent { file: 0, digest: None, error: None }]))?;
    while !matches!(connection.receive(LIMIT)?, Message::Finished(_)) {}
    Ok(())
}

/// All is there, and the server says everything but that.
#[test]
fn a_server_that_does_not_end_the_copy_is_given_up() {
    let play = |connection: &mut Connection, flow: &mut TcpStream| -> Result<(), PeerError> {
        sends_all(connection, flow)?;
        works(connection)
    };
    let said = ended(play, PATIENT, LIMIT);
    assert!(said.contains("did not end the copy in time"), "{said}");
}

/// The same, and the user has enough of it.
#[test]
fn who_presses_ctrl_c_when_all_is_there_waits_for_no_other_end() {
    let stop = StopFlag::default();
    let pressed = stop.clone();
    let play = move |connection: &mut Connection, flow: &mut TcpStream| -> Result<(), PeerError> {
        sends_all(connection, flow)?;
        pressed.stop();
        works(connection)
    };
    let said = ended_by(&stop, play, PATIENT, LIMIT);
    assert!(said.contains("interrupted"), "{said}");
}

/// An end to which is copied; does this when it is about to be named what there is.
struct Destination(fn(&mut Connection) -> Result<(), PeerError>, SyncSender<bool>);

impl Service for Destination {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn admit(&self, _: &Value, _: &Limits) -> Result<Admission, String> {
        Ok(Admission::aside(LIMIT))
    }

    fn run(&self, session: &mut Session<'_>, _: Value) -> Result<(), PeerError> {
        let connections = session.data_connections(1, false)?;
        session.connection.send(&Message::Ready { cookie: connections.cookie() })?;
        (self.0)(session.connection)?;
        let _flow = connections.next(LIMIT);
        let mut all = false;
        while let Ok(message) = session.connection.receive::<Message>(LIMIT) {
            if let Message::AllEntries = message {
                all = true;
                session.connection.send(&Message::Stop { why: "all of it".to_owned() })?;
            }
        }
        self.1.send(all).map_err(|_| PeerError::Stopped)
    }
}

/// Copies some 12 MiB of names there; why it ended, and whether all of them came.
fn named(does: fn(&mut Connection) -> Result<(), PeerError>) -> (String, bool) {
    let site = Site::new();
    let long: PathBuf = std::iter::repeat_n("d".repeat(250), 12).collect();
    std::fs::create_dir_all(site.at("src").join(&long)).unwrap();
    for file in 0..4000 {
        std::fs::write(site.at("src").join(&long).join(file.to_string()), "").unwrap();
    }
    let (to, heard) = sync_channel(1);
    let services: Vec<Box<dyn Service>> = vec![Box::new(Destination(does, to))];
    let server =
        Server::start("127.0.0.1:0".parse().unwrap(), token(), ServerOptions::default(), services).unwrap();
    let mut options = CopyOptions { server: vec![server.local()], ..site.options(&["src"], &["in"], false) };
    options.tuning.flows = 1;
    let stopped = copy(&options, &token(), &mut |_| {}).unwrap().stopped.unwrap();
    (stopped, heard.recv_timeout(LIMIT).unwrap())
}

/// An end that names hears what the other one says, between any two messages: when that fills the buffers, each waits for the other.
#[test]
fn answers_are_heard_before_more_is_named() {
    let (stopped, all) = named(|connection| {
        for _ in 0..1000 {
            connection.send(&Message::Done(Vec::new()))?;
        }
        connection.send(&Message::Stop { why: "enough of it".to_owned() })
    });
    assert!(stopped.contains("enough of it") && !all, "{stopped}, all of it: {all}");
}

/// A host may take more seconds for names than a message may take, while it says that it works.
#[test]
fn an_end_that_takes_names_slowly_is_waited_for() {
    let (stopped, all) = named(|connection| {
        for steps in 0..12 {
            connection.send(&Message::Moving { steps, durable_bytes: 0 })?;
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    });
    assert!(stopped.contains("all of it") && all, "{stopped}, all of it: {all}");
}
