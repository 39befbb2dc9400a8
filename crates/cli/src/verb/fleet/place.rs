//! Stations and recorders as they are typed.

use anyhow::Result;
use skyhaul::core::fleet::FleetName;

/// A station, or one of its recorders, as it was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) station: FleetName,
    pub(super) recorder: Option<FleetName>,
}

impl Place {
    pub(super) fn of(text: &str) -> Result<Self> {
        let (station, recorder) = text.split_once('/').map_or((text, None), |(st, rec)| (st, Some(rec)));
        Ok(Self { station: FleetName::new(station)?, recorder: recorder.map(FleetName::new).transpose()? })
    }

    pub(super) fn has(&self, station: &FleetName, recorder: &FleetName) -> bool {
        self.station == *station && self.recorder.as_ref().is_none_or(|one| one == recorder)
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.station.fmt(f)?;
        self.recorder.as_ref().map_or(Ok(()), |recorder| write!(f, "/{recorder}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_station_or_one_of_its_recorders() {
        let name = |text| FleetName::new(text).unwrap();
        let (on, one) = (Place::of("On").unwrap(), Place::of("On/rec1").unwrap());
        assert!(on.has(&name("On"), &name("rec2")) && !one.has(&name("On"), &name("rec2")));
        assert!(one.has(&name("On"), &name("rec1")) && !one.has(&name("Mh"), &name("rec1")));
        assert_eq!((on.to_string(), one.to_string()), ("On".to_owned(), "On/rec1".to_owned()));
        for bad in ["", "../x", "On/", "On/a/b"] {
            assert!(Place::of(bad).is_err(), "{bad}");
        }
    }
}
