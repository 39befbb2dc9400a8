//! Recordings come first: at 90 % of a disk's rate, while readers, transfers, a mount and a copy that arrives there ask for all of it, no
//! packet is lost, and they share the rest.
//!
//! The disk is a device of this process with a rate; it serves requests in order of arrival. Nothing here is timed: what
//! the recording lost is counted, and how far each of the others came.

use crate::copied::{Place, noise};
use crate::device::Device;
use crate::mounted::ScanPoint;
use crate::serve::Serving;
use crate::site::{Job, Site, number, wait_for, words};
use crate::webdav::address;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Bytes per second of the disk.
const DISK_RATE: u64 = 32_000_000;
/// Bytes per second of the recording.
const RECORD_RATE: u64 = DISK_RATE / 10 * 9;
const SECONDS: u64 = 8;
/// Frames of the pattern.
const FRAME_BYTES: u64 = 8032;
/// Of each kind: clients of the HTTP port, processes that read the disk.
const READERS: usize = 4;
const COPIES: u64 = 4;
/// Of the file that arrives on the disk.
const ARRIVING_BYTES: usize = 96 << 20;

/// Somebody who reads all the time, and how far he came.
struct Greedy {
    what: String,
    bytes: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Greedy {
    /// `open` gives the bytes of the scan, again and again.
    fn new<R: Read>(
        what: String,
        is_over: &Arc<AtomicBool>,
        mut open: impl FnMut() -> R + Send + 'static,
    ) -> Self {
        let (bytes, is_over) = (Arc::<AtomicU64>::default(), Arc::clone(is_over));
        let count = Arc::clone(&bytes);
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 256 << 10];
            while !is_over.load(Ordering::Relaxed) {
                let mut from = open();
                let mut all = 0;
                while !is_over.load(Ordering::Relaxed) {
                    match from.read(&mut buffer) {
                        Ok(0) if all == 0 => return Err("it read nothing".to_owned()),
                        Ok(0) => break,
                        Ok(n) => {
                            all += n;
                            count.fetch_add(n as u64, Ordering::Relaxed);
                        }
                        Err(error) => return Err(error.to_string()),
                    }
                }
            }
            Ok(())
        });
        Self { what, bytes, thread: Some(thread) }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn end(mut self) {
        let end = self.thread.take().unwrap().join().unwrap();
        assert_eq!(end, Ok(()), "{} failed after {} bytes", self.what, self.bytes());
    }
}

/// A `cat`, killed when it is dropped.
struct Cat(Child);

impl Cat {
    fn new(site: &Path) -> Self {
        let binary = std::env::var_os("SKYHAUL_BINARY");
        let mut command = Command::new(binary.unwrap_or_else(|| env!("CARGO_BIN_EXE_skyhaul").into()));
        command.args(["cat", "old", "--disk"]).arg(site).env("SKYHAUL_CONFIG", "/dev/null");
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Read for Cat {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.0.stdout.as_mut().unwrap().read(into)
    }
}

impl Drop for Cat {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn http(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /recordings/old HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

/// The station, with four hosts to copy to and the recordings over HTTP.
fn serve(site: Site, place: &Place) -> Serving {
    let root = place.at("shown");
    std::fs::create_dir(&root).unwrap();
    let mut more = String::new();
    for number in 0..COPIES {
        more += &format!(
            "[[station.destination]]\nname = 'c{number}'\nhost = '127.0.0.1'\nport = {}\ntoken_file = '{}'\nflows = 1\nstall = '20s'\n",
            place.port,
            place.at("token").display()
        );
    }
    more += &format!(
        "[http]\nlisten = '127.0.0.1:0'\nrecordings = true\n[[http.root]]\nname = 'shown'\ndirectory = '{}'\n",
        root.display()
    );
    Serving::start(site, &more)
}

fn record(serving: &Serving, name: &str, rate: u64, packets: u64) -> Value {
    let (port, rate) = (serving.ports[0], rate * 8 / 1000);
    let line = format!(
        "send --pattern --payload {} --rate {rate}kbps --packets {packets} --to udp://127.0.0.1:{port}",
        FRAME_BYTES - 32
    );
    Job::start(&words(&line)).finish().expect(0);
    wait_for("all to arrive", || {
        let status = serving.recording(name);
        let lost = number(&status["kernel_drops"]) + number(&status["lost_frames"]);
        (number(&status["packets"]) + lost >= packets).then_some(())
    });
    serving.call(&format!("station stop {name}")).json()
}

/// What the files of a directory take on its disk.
fn stored_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |status| status.blocks() * 512)).sum()
}

#[test]
fn a_recording_at_nine_tenths_of_its_disk_loses_nothing_to_readers_copies_and_a_mount() {
    let site = Site::new(1);
    let device = match Device::slow(&site.disks[0], 640 << 20) {
        Ok(device) => device,
        // A disk with a known rate is made of FUSE and a loop device, which only root may use.
        Err(why) => return println!("SKIPPED: {why}"),
    };
    let place = Place::new();
    let serving = serve(site, &place);
    let (disk, files) = (serving.site.disks[0].clone(), address(&serving));
    // What the others read: while the disk has no limit yet.
    serving.call("station start old --input a").expect(0);
    let old = record(&serving, "old", 60_000_000, 64_000_000 / FRAME_BYTES);
    assert_eq!(old["outcome"], "complete", "{old}");
    let Some(mount) = ScanPoint::new(&serving.site, "") else { return };
    device.limit(DISK_RATE);
    // Of so small chunks, many wait to be durable: each is several requests, one after the other, behind what is written.
    serving.call("station start new --input a --memory 150MiB").expect(0);
    let is_over = Arc::<AtomicBool>::default();
    let mut greedy = Vec::new();
    for number in 0..READERS {
        let (files, disk) = (files.clone(), disk.clone());
        greedy.push(Greedy::new(format!("client {number}"), &is_over, move || http(&files)));
        greedy.push(Greedy::new(format!("cat {number}"), &is_over, move || Cat::new(&disk)));
    }
    let file = mount.file("old");
    greedy.push(Greedy::new("mount".to_owned(), &is_over, move || {
        // From the beginning, and nothing from the page cache.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).unwrap();
        file.try_clone().unwrap()
    }));
    for copy in 0..COPIES {
        serving.call(&format!("transfers add old c{copy}:in{copy}")).expect(0);
    }
    let arriving = disk.join(".arriving");
    std::fs::create_dir(&arriving).unwrap();
    let there = Place::of(&arriving);
    std::fs::write(there.at("long"), noise(ARRIVING_BYTES)).unwrap();
    let copy = there.start(&format!("{} 127.0.0.1:in --flows 4", there.at("long").display()));
    let before = device.moved();
    let new = record(&serving, "new", RECORD_RATE, RECORD_RATE * SECONDS / FRAME_BYTES);
    let after = device.moved();
    let came: Vec<_> = greedy.iter().map(|one| format!("{} {}", one.what, one.bytes())).collect();
    let queue = || serving.call("transfers").expect(0).json()["queue"].as_array().unwrap().clone();
    let copied = queue();
    println!(
        "the disk read {} and wrote {} bytes; {}; copies {}; {new}",
        after.0 - before.0,
        after.1 - before.1,
        came.join(", "),
        copied.iter().map(|copy| copy["there_bytes"].to_string()).collect::<Vec<_>>().join(" ")
    );
    assert_eq!(new["outcome"], "complete", "{new}");
    for lost in ["discarded_bytes", "kernel_drops", "lost_frames"] {
        assert_eq!(number(&new[lost]), 0, "{lost}: {new}");
    }
    // The others got the rest, each of them some; and none failed.
    for one in &greedy {
        wait_for(&format!("bytes for {}", one.what), || (one.bytes() > 1 << 20).then_some(()));
    }
    wait_for("bytes of the copy that arrives", || {
        (stored_bytes(&arriving.join("in")) > 1 << 20).then_some(())
    });
    device.limit(0);
    assert_eq!(number(&copy.finish().expect(0).json()["bytes"]), ARRIVING_BYTES as u64);
    for copy in queue() {
        assert_eq!(number(&copy["attempts"]), 1, "{copy}");
    }
    wait_for("the copies", || queue().iter().all(|copy| copy["state"] == "done").then_some(()));
    is_over.store(true, Ordering::Relaxed);
    greedy.into_iter().for_each(Greedy::end);
    assert!(!mount.said().contains("error"), "{}", mount.said());
}
