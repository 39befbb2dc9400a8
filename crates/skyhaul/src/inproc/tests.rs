use super::*;

fn packets(queue: &mut InprocQueue) -> Vec<Vec<u8>> {
    let mut got = Vec::new();
    while queue.poll(Duration::ZERO, &mut |train| got.extend(train.packets().map(<[u8]>::to_vec))).unwrap()
        > 0
    {}
    got
}

#[test]
fn packets_come_out_as_they_went_in_whatever_their_lengths() {
    let mut queue = InprocQueue::default();
    let lengths = [5, 5, 5, 3, 0, 0, 9, 9, 9000, 9000, 70_000, 1, 1, 5, 60_000, 60_000];
    let sent: Vec<Vec<u8>> = lengths.iter().enumerate().map(|(i, &length)| vec![i as u8; length]).collect();
    for at_once in [1, 3, 16] {
        for part in sent.chunks(at_once) {
            let halves: Vec<_> = part.iter().map(|p| p.split_at(p.len() / 2)).collect();
            let slices: Vec<IoSlice<'_>> =
                halves.iter().flat_map(|(a, b)| [IoSlice::new(a), IoSlice::new(b)]).collect();
            let extent = |(n, p): (usize, &Vec<u8>)| Extent { first: 2 * n, bytes: p.len() };
            let extents: Vec<Extent> = part.iter().enumerate().map(extent).collect();
            let all = Gathered::new(&slices, &extents);
            assert_eq!(queue.push_gathered(all, 0, Duration::ZERO).unwrap(), part.len());
        }
        assert_eq!(queue.waiting(), 16);
        assert_eq!(packets(&mut queue), sent, "{at_once} at once");
        assert_eq!(queue.waiting(), 0);
    }
    assert_eq!(queue.stats().packets, 48);
    assert!(queue.stats().trains < 48);
    assert_eq!(queue.shared.lock().used, 0);
}

#[test]
fn a_full_queue_says_so_and_a_reader_makes_room() {
    let mut queue = InprocQueue::new(1000);
    let sent = (0..).take_while(|_| queue.push(&[0; 100], Duration::ZERO).unwrap()).count();
    assert!((9..=10).contains(&sent), "{sent}");
    let sender = queue.clone();
    let waits = std::thread::spawn(move || sender.push(&[1; 5000], Duration::MAX));
    let mut got = Vec::new();
    while got.len() <= sent {
        let wait = Duration::from_millis(10);
        queue.poll(wait, &mut |train| got.extend(train.packets().map(<[u8]>::len))).unwrap();
    }
    assert!(waits.join().unwrap().unwrap());
    assert_eq!(got.last(), Some(&5000));
    let empty = (0..).take_while(|_| queue.push(&[], Duration::ZERO).unwrap()).take(100).count();
    assert!(empty < 100, "packets without bytes fill it too");
}

#[test]
fn closing_ends_senders_that_wait_and_readers_when_empty() {
    let mut queue = InprocQueue::new(1);
    queue.push(b"last", Duration::ZERO).unwrap();
    let sender = queue.clone();
    let waits = std::thread::spawn(move || sender.push(b"too late", Duration::MAX));
    queue.close();
    let error = waits.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("hint: "), "{error}");
    assert!(!queue.is_finished(), "there is still a packet");
    assert_eq!(packets(&mut queue), [b"last"]);
    assert!(queue.is_finished() && queue.is_closed());
    let mut reader = queue.clone();
    assert_eq!(reader.poll(Duration::MAX, &mut |_| ()).unwrap(), 0, "no waiting for what cannot come");
}

#[test]
fn senders_can_be_told_apart() {
    let mut queue = InprocQueue::default();
    for number in [1, 2, 2, 1] {
        queue.as_sender(number).push(&[number as u8], Duration::ZERO).unwrap();
    }
    let mut got = Vec::new();
    queue.poll(Duration::ZERO, &mut |train| got.push((train.sender.port(), train.count()))).unwrap();
    assert_eq!(got, [(1, 1), (2, 2), (1, 1)]);
}
