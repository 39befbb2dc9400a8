use super::*;

#[test]
fn each_object_has_its_own_last_arrival() {
    let mut arrivals = Arrivals::default();
    arrivals.placed(1);
    assert_eq!(arrivals.take(1), None, "the kernel noted nothing");
    arrivals.at(Some(Nanos(9)));
    arrivals.placed(1);
    arrivals.at(None);
    arrivals.placed(1);
    assert_eq!(arrivals.take(1), None, "nothing of the last packet");
    for (time, object) in [(10, 1), (11, 1), (12, 2), (13, 1), (14, 2), (15, 3)] {
        arrivals.at(Some(Nanos(time)));
        arrivals.placed(object);
    }
    assert_eq!(
        [1, 2, 3, 1].map(|object| arrivals.take(object).map(|time| time.0)),
        [Some(13), Some(14), Some(15), None]
    );
    for object in 0..1000 {
        arrivals.placed(object);
    }
    assert_eq!(
        (arrivals.take(0), arrivals.take(998), arrivals.others.len()),
        (None, Some(Nanos(15)), MAX_OBJECTS - 1)
    );
    arrivals.forget();
    assert_eq!(arrivals.take(999), None);
}
