//! Frames of a length in their first byte, over loopback.

use super::*;
use crate::gathered::Extent;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};

/// A frame is its length and so many bytes less one; the first of a connection must have 4 bytes.
fn rule(is_first: bool, head: &[u8]) -> Frame {
    match head[0] {
        0 => Frame::Garbage,
        length if is_first && length != 4 => Frame::Garbage,
        length => Frame::Packet(length.into()),
    }
}

const OPTIONS: FrameOptions = FrameOptions {
    longest_frame: 255,
    connections: 8,
    guests: 3,
    patience: Duration::from_secs(30),
    keepalive: Duration::from_secs(10),
};

fn listening(options: &FrameOptions) -> TcpFrames {
    TcpFrames::listen(&Endpoint::tcp("127.0.0.1:0".parse().unwrap()), rule, options).unwrap()
}

/// What was heard, as text.
fn told(heard: &FrameEvent<'_>) -> String {
    match heard {
        FrameEvent::Opened(_) => "opened".into(),
        FrameEvent::Frame(frame) => format!("frame {frame:?}"),
        FrameEvent::Garbage(bytes) => format!("garbage {bytes:?}"),
        FrameEvent::Finished { rest } => format!("finished {rest:?}"),
        FrameEvent::Ended { rest, error } => {
            format!("ended {rest:?} {:?}", error.as_ref().map(io::Error::kind))
        }
    }
}

/// Polls until so many things were heard.
#[track_caller]
fn hear(frames: &mut TcpFrames, count: usize) -> Vec<(u64, String)> {
    let (mut all, began) = (Vec::new(), Instant::now());
    while all.len() < count {
        assert!(began.elapsed() < Duration::from_secs(30), "only {all:?}");
        let mut each = |mark, heard: FrameEvent<'_>| {
            all.push((mark, told(&heard)));
            true
        };
        frames.poll(Duration::from_millis(20), &mut each).unwrap();
    }
    all
}

fn write(frames: &mut TcpFrames, mark: u64, all: &[&[u8]]) {
    let slices: Vec<IoSlice<'_>> = all.iter().map(|frame| IoSlice::new(frame)).collect();
    let extents: Vec<Extent> =
        all.iter().enumerate().map(|(first, frame)| Extent { first, bytes: frame.len() }).collect();
    frames.write(mark, 1, Gathered::new(&slices, &extents));
}

#[test]
fn frames_come_whole_and_in_order_and_are_answered() {
    let mut server = listening(&OPTIONS);
    let mut client = TcpStream::connect(server.local()).unwrap();
    assert_eq!(hear(&mut server, 1), [(0, "opened".into())]);
    client.write_all(&[4, 1, 2, 3, 3, 9]).unwrap();
    assert_eq!(hear(&mut server, 1), [(0, "frame [4, 1, 2, 3]".into())]);
    client.write_all(&[8, 1, 2]).unwrap();
    assert_eq!(hear(&mut server, 2), [(0, "frame [3, 9, 8]".into()), (0, "frame [1]".into())]);
    write(&mut server, 0, &[&[5, 5], &[6]]);
    let mut got = [0; 3];
    client.read_exact(&mut got).unwrap();
    assert_eq!(got, [5, 5, 6]);
    assert_eq!(server.tallies()[1], FrameTally { frames: 2, bytes: 3, unsent: 0, held: 0 });
    // It ends its half inside a frame, and is still answered.
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(hear(&mut server, 1), [(0, "finished [2]".into())]);
    write(&mut server, 0, &[&[7]]);
    assert_eq!(client.read(&mut got).unwrap(), 1);
    server.finish(0);
    assert_eq!(hear(&mut server, 1), [(0, "ended [] None".into())]);
    assert_eq!(client.read(&mut got).unwrap(), 0);
    write(&mut server, 0, &[&[7]]);
    assert_eq!(server.tallies()[1], FrameTally { frames: 3, bytes: 4, unsent: 1, held: 0 });
}

/// One that has ended its half is not looked at again and again, and what waits for it is written, or counted when it has gone.
#[test]
fn what_waits_for_a_peer_that_has_ended_its_half_is_written() {
    for reads in [true, false] {
        let mut server = listening(&OPTIONS);
        let mut client = TcpStream::connect(server.local()).unwrap();
        client.write_all(&[4, 0, 0, 0]).unwrap();
        hear(&mut server, 2);
        // 32 MB are more than the buffers of the kernel grow to.
        let (frame, written) = ([200; 200], 160_000_u64);
        (0..written / 400).for_each(|_| write(&mut server, 0, &[&frame[..]; 400]));
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(hear(&mut server, 1), [(0, "finished []".into())]);
        let began = Instant::now();
        let polled = server.poll(Duration::from_millis(200), &mut |_, _| panic!("nothing has happened"));
        assert_eq!(polled.unwrap(), 0);
        assert!(began.elapsed() >= Duration::from_millis(100), "the end was reported again");
        server.finish(0);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            if reads {
                client.read_to_end(&mut all).unwrap();
            }
            all.len() as u64
        });
        let heard = hear(&mut server, 1);
        let count = server.tallies()[1];
        if reads {
            assert_eq!(heard, [(0, "ended [] None".into())]);
            assert_eq!(count, FrameTally { frames: written, bytes: written * 200, unsent: 0, held: 0 });
        } else {
            // As the write that failed says, not as the end that is read.
            assert!(heard[0].1.starts_with("ended [] Some("), "{heard:?} {count:?}");
            assert!(
                count.unsent > 0 && count.held == 0 && count.frames + count.unsent == written,
                "{count:?}"
            );
        }
        assert_eq!(reader.join().unwrap(), if reads { written * 200 } else { 0 });
    }
}

#[test]
fn what_is_no_frame_ends_one_connection_and_no_other() {
    let mut server = listening(&OPTIONS);
    let mut one = TcpStream::connect(server.local()).unwrap();
    let mut other = TcpStream::connect(server.local()).unwrap();
    hear(&mut server, 2);
    one.write_all(b"GET / HTTP/1.1").unwrap();
    let heard = hear(&mut server, 1);
    assert!(heard[0].1.starts_with("garbage [71, 69"), "{heard:?}");
    server.leave(0);
    other.write_all(&[4, 0, 0, 0]).unwrap();
    assert_eq!(hear(&mut server, 1), [(1, "frame [4, 0, 0, 0]".into())]);
    // The end of what is written to it, and no reset, though it has sent more.
    one.write_all(b"Host: x").unwrap();
    assert_eq!(one.read(&mut [0; 9]).unwrap(), 0);
    drop(one);
    assert_eq!(hear(&mut server, 1), [(0, "ended [] None".into())]);
}

#[test]
fn a_peer_that_does_not_read_is_written_to_later_and_the_frames_are_counted_when_it_has_them() {
    let mut server = listening(&OPTIONS);
    let mut client = TcpStream::connect(server.local()).unwrap();
    client.write_all(&[4, 0, 0, 0]).unwrap();
    hear(&mut server, 2);
    let (frame, mut written) = ([200; 200], 0_u64);
    while server.is_clear(0) {
        write(&mut server, 0, &[&frame[..]; 100]);
        written += 100;
    }
    let count = server.tallies()[1];
    assert!(count.held > 0 && count.frames + count.held == written, "{count:?}");
    server.finish(0);
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        client.read_to_end(&mut all).unwrap();
        all
    });
    // Its end is heard when it has read all, and has gone.
    assert_eq!(hear(&mut server, 1), [(0, "ended [] None".into())]);
    assert_eq!(reader.join().unwrap().len() as u64, written * 200);
    let bytes = written * 200;
    assert_eq!(server.tallies()[1], FrameTally { frames: written, bytes, unsent: 0, held: 0 });
}

#[test]
fn half_a_frame_has_a_time_and_guests_make_room() {
    let patience = Duration::from_millis(200);
    let mut server = listening(&FrameOptions { patience, ..OPTIONS });
    let mut quiet = TcpStream::connect(server.local()).unwrap();
    quiet.write_all(&[4, 0, 0, 0]).unwrap();
    hear(&mut server, 2);
    quiet.write_all(&[9, 1]).unwrap();
    let began = Instant::now();
    assert_eq!(hear(&mut server, 1), [(0, "ended [9, 1] Some(TimedOut)".into())]);
    assert!(began.elapsed() >= patience / 2, "it had no time");
    // One between two frames stays, and so it does when guests come.
    let mut server = listening(&OPTIONS);
    let mut stays = TcpStream::connect(server.local()).unwrap();
    stays.write_all(&[4, 0, 0, 0]).unwrap();
    hear(&mut server, 2);
    let guests: Vec<TcpStream> = (0..5).map(|_| TcpStream::connect(server.local()).unwrap()).collect();
    let heard = hear(&mut server, 7);
    let ended: Vec<u64> = heard
        .iter()
        .filter(|(_, told)| told == "ended [] Some(ConnectionAborted)")
        .map(|one| one.0)
        .collect();
    assert_eq!(ended, [1, 2], "{heard:?}");
    stays.write_all(&[1]).unwrap();
    assert_eq!(hear(&mut server, 1), [(0, "frame [1]".into())]);
    drop(guests);
}

#[test]
fn nobody_listening_is_an_error_with_the_address() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = TcpFrames::connect(&Endpoint::tcp(free), rule, &OPTIONS, Duration::from_secs(5), &|| false);
    let error = refused.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert!(error.to_string().contains(&free.to_string()), "{error}");
}

/// A listener whose queue is full answers no connection.
#[test]
fn a_connection_that_is_not_wanted_any_more_ends_at_once_and_one_in_vain_in_its_time() {
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    full.listen(0).unwrap();
    let at = full.local_addr().unwrap().as_socket().unwrap();
    let _first = TcpStream::connect(at).unwrap();
    let connect = |patience, is_stopped: &dyn Fn() -> bool| {
        TcpFrames::connect(&Endpoint::tcp(at), rule, &OPTIONS, patience, is_stopped).err().unwrap()
    };
    let began = Instant::now();
    let error = connect(Duration::from_secs(30), &|| began.elapsed() > Duration::from_millis(100));
    assert_eq!(error.kind(), io::ErrorKind::Interrupted, "{error}");
    assert!(began.elapsed() < Duration::from_secs(20));
    let error = connect(Duration::from_millis(100), &|| false);
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    assert!(error.to_string().contains(&at.to_string()), "{error}");
}
