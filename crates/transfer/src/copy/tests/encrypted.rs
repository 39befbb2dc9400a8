//! Copies whose data are encrypted, with someone on the path.

use super::super::copy;
use super::hostile::damaging;
use super::{Site, bytes, same, token, tree, until_whole};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Between client and server: it keeps all that passes.
fn listening(to: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (here, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<u8>>>::default());
    let kept = heard.clone();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(to) else { return };
            for (mut from, mut into) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                let kept = kept.clone();
                std::thread::spawn(move || {
                    let mut piece = vec![0; 64 << 10];
                    while let Ok(n) = from.read(&mut piece)
                        && n > 0
                    {
                        kept.lock().unwrap().extend_from_slice(&piece[..n]);
                        if into.write_all(&piece[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = into.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (here, heard)
}

fn contains(all: &[u8], word: &[u8]) -> bool {
    all.windows(word.len()).any(|part| part == word)
}

#[test]
fn neither_names_nor_contents_of_an_encrypted_copy_can_be_read_on_the_way() {
    let site = Site::new();
    tree(&site.at("src"));
    std::fs::write(site.at("src/name-that-is-secret"), "contents that are secret").unwrap();
    for (pull, encrypt) in [(false, false), (true, false), (false, true), (true, true)] {
        let (from, into) = if pull { ("in0/src", "back") } else { ("src", "in") };
        let into = format!("{into}{}", usize::from(encrypt));
        let mut options = site.options(&[from], &[&into], pull);
        let (at, heard) = listening(site.server.local());
        (options.server, options.tuning.encrypt) = (vec![at], encrypt);
        let report = copy(&options, &token(), &mut |_| {}).unwrap();
        assert!(report.is_whole(), "{report:?}");
        assert_eq!((report.control_encrypted, report.data_encrypted), (Some(true), Some(encrypt)));
        let copied =
            if pull { site.at(&format!("{into}/src")) } else { site.at(&format!("root/{into}/src")) };
        same(&site.at("src"), &copied);
        let heard = heard.lock().unwrap();
        assert!(!contains(&heard, b"name-that-is-secret"));
        assert_eq!(contains(&heard, b"contents that are secret"), !encrypt, "pull {pull}, encrypt {encrypt}");
    }
}

#[test]
fn encrypted_data_that_are_altered_end_the_copy_and_the_rest_is_resumed() {
    let site = Site::new();
    std::fs::write(site.at("src"), bytes(6, 8 << 20)).unwrap();
    let mut options = site.options(&["src"], &["in"], false);
    (options.server, options.tuning.encrypt) = (vec![damaging(site.server.local())], true);
    let report = copy(&options, &token(), &mut |_| {}).unwrap();
    assert!(!report.is_whole() && report.again == 0, "{report:?}");
    assert!(!site.at("root/in/src").exists());
    options.server = vec![site.server.local()];
    let report = until_whole(|| copy(&options, &token(), &mut |_| {}).unwrap());
    assert!(report.resumed_bytes > 0 && report.moved_bytes < 8 << 20, "{report:?}");
    same(&site.at("src"), &site.at("root/in/src"));
}
