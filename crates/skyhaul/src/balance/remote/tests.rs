use super::*;

#[test]
fn one_has_it_at_a_time_and_it_is_free_again() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("plane");
    let first = Claim::take(&socket).unwrap();
    let second = Claim::take(&socket).unwrap_err();
    assert!(second.kind() == io::ErrorKind::AddrInUse && second.to_string().contains("already"), "{second}");
    drop(first);
    drop(Claim::take(&socket).unwrap());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    let none = Claim::take(&directory.path().join("no/plane")).unwrap_err().to_string();
    assert!(none.starts_with("lock "), "{none}");
}
