use super::*;

#[test]
fn runs_grow_as_they_are_found() {
    let mut memo = Memo::default();
    memo.put(3, 5, 'a');
    memo.put(5, 9, 'a');
    memo.put(12, 12, 'b');
    assert_eq!((2..=13).map(|piece| memo.at(piece)).collect::<Vec<_>>(), {
        let mut told = vec![None; 12];
        told[1..=7].fill(Some('a'));
        told[10] = Some('b');
        told
    });
    assert_eq!(memo.0.len(), 2);
}
