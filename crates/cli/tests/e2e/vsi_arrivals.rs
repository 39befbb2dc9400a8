//! VSI-S between two stations, as m5copy drives them: chunks by `vbs2net` and `net2vbs`, files by `file2net` and `net2file`.

use crate::site::{Site, free_port, number, run, wait_for};
use crate::vsi::{FieldSystem, flexbuff, serve_with, site_api, site_list, site_status};
use rustix::process::Signal;
use std::fs;

/// Settings that m5copy makes on both sides; returns the port of data.
fn prepare(sides: [&mut FieldSystem; 2]) {
    let port = free_port();
    for (side, name) in sides.into_iter().zip(["aaaaaaaa", "bbbbbbbb"]) {
        assert_eq!(side.ask(&format!("runtime={name}:transient"))[0], "0");
        for line in ["mode=none", "net_protocol=tcp:4M:2M", "mtu=1500", "ipd=0ns"] {
            side.does(line);
        }
        side.does(&format!("net_port={port}"));
    }
}

/// Sends the chunks of a scan; returns the code of the last `tstat`, by which m5copy knows of the end, and the bytes that arrived.
#[track_caller]
fn chunks(from: &mut FieldSystem, to: &mut FieldSystem, label: &str) -> (Vec<String>, u64) {
    to.does("net2vbs=nthread:1:8");
    to.does("net2vbs=open");
    from.does("vbs2net=nthread:2:1");
    from.does(&format!("vbs2net=connect:{label}:127.0.0.1"));
    let last = wait_for("the end of the chunks", || {
        let said = from.ask("tstat=");
        (said.get(2).map(String::as_str) != Some("vbs2net")).then_some(said)
    });
    let arrived = to.ask("net2vbs?");
    assert_eq!(arrived[1], "active");
    from.ask("vbs2net=disconnect");
    to.ask("net2vbs=close");
    (last, arrived[2].parse().unwrap())
}

#[test]
fn chunks_go_from_one_station_to_another() {
    let (here, there) = (Site::new(2), Site::new(3));
    let label = "n26c3_mh_no0001";
    let all = flexbuff(&here, label, &[0, 1, 2, 3]);
    let size = all.iter().map(Vec::len).sum::<usize>() as u64;
    let ((job, mut from, _), (other, mut to, _)) = (serve_with(&here, ""), serve_with(&there, ""));
    prepare([&mut from, &mut to]);
    wait_for("the list of scans", || (from.ask(&format!("scan_set={label}"))[0] == "0").then_some(()));
    let ended = |last: &[String]| assert_eq!(last[..], ["0", "0.0", "no_transfer"]);
    let (last, arrived) = chunks(&mut from, &mut to, label);
    ended(&last);
    assert_eq!(arrived, size);
    let seen = site_list(&other, "arrivals");
    assert!(seen.len() == 1 && seen[0]["state"] == "closed" && seen[0]["kind"] == "chunks", "{seen:?}");
    assert_eq!(number(&seen[0]["written_bytes"]), size);
    let found = |chunk: usize| {
        let name = format!("{label}/{label}.{chunk:08}");
        let mut files = there.disks.iter().filter_map(|disk| fs::read(disk.join(&name)).ok());
        let file = files.next();
        assert!(files.next().is_none(), "{name} is on two disks");
        file
    };
    (0..4).for_each(|at| assert!(found(at).as_ref() == Some(&all[at]), "{at}"));
    // Those that are there are not sent again; one that is not is.
    let (last, arrived) = chunks(&mut from, &mut to, label);
    ended(&last);
    assert_eq!(arrived, 0);
    let lost = there
        .disks
        .iter()
        .map(|disk| disk.join(format!("{label}/{label}.00000002")))
        .find(|path| path.exists());
    fs::remove_file(lost.unwrap()).unwrap();
    let (last, arrived) = chunks(&mut from, &mut to, label);
    ended(&last);
    assert_eq!(arrived, all[2].len() as u64);
    assert!(found(2).as_ref() == Some(&all[2]));
    // It is a scan there: by the other station's own list, and as the same bytes.
    let cat = there.run(&format!(
        "cat {label} --output-file {}",
        there.disks[0].parent().unwrap().join("cat").display()
    ));
    cat.expect(1);
    assert!(fs::read(there.disks[0].parent().unwrap().join("cat")).unwrap() == all.concat());

    // A chunk that is damaged here is not sent, and m5copy hears of it.
    let path = here.disks[1].join(format!("{label}/{label}.00000001"));
    let mut damaged = fs::read(&path).unwrap();
    damaged[4_000_000..4_100_000].fill(0);
    fs::write(path, damaged).unwrap();
    there.disks.iter().for_each(|disk| drop(fs::remove_file(disk.join(format!("{label}/{label}.00000001")))));
    let (last, _) = chunks(&mut from, &mut to, label);
    assert!(last[0] == "4" && last[1].contains(label), "{last:?}");
    assert_eq!(found(1), None);
    // So does it if nobody listens.
    from.does(&format!("vbs2net=connect:{label}:127.0.0.1"));
    let last = wait_for("the failure", || Some(from.ask("tstat=")).filter(|said| said[0] != "0"));
    assert_eq!(last[0], "4", "{last:?}");
    let outcomes: Vec<_> =
        site_status(&job).iter().map(|of| of["outcome"].as_str().unwrap().to_owned()).collect();
    assert_eq!(outcomes, ["complete", "complete", "complete", "failed", "failed"]);
    assert_eq!(number(&site_status(&job)[0]["sent_bytes"]), size);
    for job in [job, other] {
        job.signal(Signal::TERM);
        job.finish().expect(0);
    }
}

#[test]
fn files_go_from_one_station_to_another() {
    let (here, there) = (Site::new(1), Site::new(1));
    let [out, into] = [&here, &there].map(|site| site.disks[0].parent().unwrap().join("files"));
    [&out, &into].iter().for_each(|path| fs::create_dir(path).unwrap());
    let keys = |path: &std::path::Path| format!("files = ['{}']\n", path.display());
    let (job, mut from, _) = serve_with(&here, &keys(&out));
    let (other, mut to, _) = serve_with(&there, &keys(&into));
    prepare([&mut from, &mut to]);
    let whole: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(out.join("a.vdif"), &whole).unwrap();
    let (source, sink) = (out.join("a.vdif").display().to_string(), into.join("a.m5a").display().to_string());
    let mut copy = |mode: &str, on: &str| {
        let opened = to.ask(&format!("net2file=open:{sink},{mode}"));
        assert_eq!(opened[0], "0", "{opened:?}");
        let status = run(&format!("status --station http://{}", site_api(&other))).expect(0);
        let line = format!(": {sink}: open, ");
        assert!(
            status.told().lines().any(|of| of.starts_with("arriving on ") && of.contains(&line)),
            "{}",
            status.told()
        );
        from.does(&format!("file2net=connect:127.0.0.1:{source}"));
        wait_for("the connection", || (from.ask("file2net?")[1] == "connected").then_some(()));
        from.does(&format!("file2net=on:{on}"));
        let ended = wait_for("the end of the file", || {
            Some(from.ask("file2net?")).filter(|said| said[1] == "inactive")
        });
        assert_eq!(ended[4], ended[5], "{ended:?}");
        let arrived = wait_for("what was sent", || {
            let said = to.ask("net2file?");
            (said[2] == (ended[5].parse::<u64>().unwrap() - ended[3].parse::<u64>().unwrap()).to_string())
                .then_some(said)
        });
        assert_eq!(arrived[1], "active");
        to.does("net2file=close");
        opened[1].parse::<usize>().unwrap()
    };
    assert_eq!(copy("n", ":"), 0);
    assert!(fs::read(into.join("a.m5a")).unwrap() == whole);
    let cut = fs::File::options().write(true).open(into.join("a.m5a")).unwrap();
    cut.set_len(12_345_679).unwrap();
    assert_eq!(copy("a", "12345679:"), 12_345_679);
    assert!(fs::read(into.join("a.m5a")).unwrap() == whole);
    copy("w", "1000:+5000");
    assert!(fs::read(into.join("a.m5a")).unwrap() == whole[1000..6000]);
    let refused = to.ask(&format!("net2file=open:{sink},n"));
    assert!(refused[0] == "4" && refused[1..].concat().contains("File exists"), "{refused:?}");
    // Paths outside, and what is no file.
    let outside = here.disks[0].display().to_string();
    assert_eq!(to.ask(&format!("net2file=open:{outside}/x,w"))[0], "4");
    from.does("file2net=connect:127.0.0.1:/etc/passwd");
    let error = wait_for("the refusal", || Some(from.ask("error?")).filter(|said| said[1] == "1003"));
    assert!(error[2].contains("is below no directory"), "{error:?}");
    for job in [job, other] {
        job.signal(Signal::TERM);
        job.finish().expect(0);
    }
}
