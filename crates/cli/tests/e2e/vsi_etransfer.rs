//! `disk2etransfer` of VSI-S: scans to files of another station that serves etransfer.

use crate::etransfer::Station;
use crate::site::{Site, free_port, wait_for};
use crate::vsi::{FieldSystem, flexbuff, serve_with, site_status};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

const LABEL: &str = "n26c3_mh_no0001";

impl FieldSystem {
    #[track_caller]
    fn selects(&mut self, range: &str) {
        let line = format!("scan_set={LABEL}{range}");
        wait_for("the list of scans", || (self.ask(&line)[0] == "0").then_some(()));
    }

    /// Sends to the end; the answer to the first query after it.
    #[track_caller]
    fn uploads(&mut self, request: &str) -> Vec<String> {
        assert_eq!(self.ask(&format!("disk2etransfer={request}")), ["1"], "{request}");
        wait_for("the end of the upload", || {
            let said = self.ask("disk2etransfer?");
            (said.get(1).map(String::as_str) != Some("active")).then_some(said)
        })
    }
}

#[test]
fn a_scan_becomes_a_file_of_another_station() {
    let there = Station::of(Site::new(1));
    let site = Site::new(2);
    let whole = flexbuff(&site, LABEL, &[0, 1, 2]).concat();
    let (job, mut fs, _) = serve_with(&site, "");
    let (host, port) = there.command.rsplit_once(':').unwrap();
    let at = format!("{host}@{port}");
    let path = |name: &str| there.root.join(name).display().to_string();
    let read = |name: &str| fs::read(there.root.join(name)).unwrap();
    let done = ["0", "inactive"];

    fs.selects("");
    assert_eq!(fs.uploads(&format!("{at}:{}:new", path("x.vdif"))), done);
    assert!(read("x.vdif") == whole);
    let refused = fs.uploads(&format!("{at}:{}:new", path("x.vdif")));
    assert!(refused[0] == "4" && refused[1].contains("File exists"), "{refused:?}");
    assert_eq!(fs.uploads(&format!("{at}:{}:skipexisting", path("x.vdif"))), done);
    assert_eq!(fs.uploads(&format!("{at}:{}:resume", path("x.vdif"))), done);
    assert!(read("x.vdif") == whole);

    // A range; one that is continued; one in place of a file; a file that has more.
    fs.selects(":803200:+1606400");
    assert_eq!(fs.uploads(&format!("{at}:{}", path("range.vdif"))), done);
    assert!(read("range.vdif") == whole[803_200..2_409_600]);
    fs::write(there.root.join("part.vdif"), &whole[803_200..1_000_000]).unwrap();
    assert_eq!(fs.uploads(&format!("{at}:{}:resume", path("part.vdif"))), done);
    assert!(read("part.vdif") == whole[803_200..2_409_600]);
    let longer = fs.uploads(&format!("{at}:{}:resume", path("x.vdif")));
    assert!(longer[0] == "4" && longer[1].contains("more than the 1606400 here"), "{longer:?}");
    assert_eq!(fs.uploads(&format!("{at}:{}:allowoverwrite", path("x.vdif"))), done);
    assert!(read("x.vdif") == whole[803_200..2_409_600]);

    // A path that is not served, and a host where nobody listens.
    let outside = fs.uploads(&format!("{at}:/none/x.vdif:new"));
    assert_eq!(outside[0], "4", "{outside:?}");
    let nobody = fs.uploads(&format!("127.0.0.1@{}:/x:new", free_port()));
    assert!(nobody[0] == "4" && nobody[1].contains("Connection refused"), "{nobody:?}");
    let outcomes = site_status(&job);
    let of = |name: &str| outcomes.iter().filter(|of| of["outcome"] == name).count();
    assert_eq!((of("complete"), of("failed"), outcomes.len()), (6, 4, 10), "{outcomes:?}");
    assert!(outcomes[0]["to"].as_str().unwrap().starts_with(&format!("etd://{}/", there.command)));
}

/// A server that takes a file and says little: `confirms`, whether it has all; `has`, how much of it the file then has.
fn server(confirms: bool, lacks: i64) -> u16 {
    let (command, data) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = command.local_addr().unwrap().port();
    let data_port = data.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = data.accept().unwrap();
        let (mut all, mut piece) = (0, vec![0; 1 << 20]);
        let mut head = Vec::new();
        while !head.ends_with(b"}") {
            stream.read_exact(&mut piece[..1]).unwrap();
            head.push(piece[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let size: usize =
            head.split_once("sz:").unwrap().1.split([',', ' ', '}']).next().unwrap().parse().unwrap();
        while all < size {
            match stream.read(&mut piece) {
                Ok(read) if read > 0 => all += read,
                _ => return,
            }
        }
        if confirms {
            stream.write_all(b"y").unwrap();
            let _ = stream.read(&mut piece);
        }
    });
    std::thread::spawn(move || {
        let (stream, _) = command.accept().unwrap();
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stream.try_clone().unwrap()));
        let mut to = stream;
        while let Some(Ok(line)) = lines.next() {
            let reply = match line.split(' ').next().unwrap() {
                "protocol-version" => "OK 1\n".to_owned(),
                word if word.starts_with("write-file") => "AlreadyHave:0\nUUID:a\nOK\n".to_owned(),
                word if word.starts_with("data-channel") => format!("OK <tcp/127.0.0.1:{data_port}>\nOK\n"),
                "read-file" => format!("Remain:{lacks}\nUUID:b\nOK\n"),
                _ => "OK\n".to_owned(),
            };
            to.write_all(reply.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn what_a_server_does_not_confirm_is_not_complete() {
    let site = Site::new(1);
    flexbuff(&site, LABEL, &[0]);
    let (job, mut fs, _) = serve_with(&site, "");
    fs.selects("");
    assert_eq!(fs.uploads(&format!("127.0.0.1@{}:/x:new", server(true, 0))), ["0", "inactive"]);
    for (port, why) in [(server(false, 0), "did not confirm"), (server(true, -7), "bytes of it")] {
        let said = fs.uploads(&format!("127.0.0.1@{port}:/x:new"));
        assert!(said[0] == "4" && said[1].contains(why), "{said:?}");
    }
    let outcomes: Vec<_> =
        site_status(&job).iter().map(|of| of["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(outcomes, ["complete", "failed", "failed"]);
}
