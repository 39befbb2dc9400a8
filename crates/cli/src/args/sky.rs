//! The samples of a sky that stations share, as `send --sky` describes them.

use skyhaul::core::hint::Hint;
use skyhaul::core::sky::Sky;
use std::str::FromStr;

/// A station and what it receives of the sky.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SkyArg {
    /// Two ASCII characters.
    pub(crate) station: String,
    /// Seed of its own noise, without the station.
    noise: u32,
    sky: Sky,
}

const EXAMPLE: &str =
    "station=Ef,seed=1,correlation=0.1,delay=1.25us,rate=3e-12,epoch=2026-11-21T03:00:00Z,frequency=8.4GHz";
const SECONDS: [(&str, f64); 6] =
    [("ps", 1e-12), ("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const HERTZ: [(&str, f64); 5] = [("THz", 1e12), ("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)];

impl SkyArg {
    /// What sender `number` sends of it: each has noise of its own.
    pub(crate) fn of_sender(&self, number: usize) -> Sky {
        let station = self.station.bytes().fold(0, |all, letter| all << 8 | u64::from(letter));
        Sky { noise: u64::from(self.noise) << 32 | station << 16 | (number as u64 & 0xFFFF), ..self.sky }
    }
}

impl FromStr for SkyArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        read(text).map_err(|wrong| format!("{wrong}{}", Hint(format_args!("write it like {EXAMPLE}"))))
    }
}

fn read(text: &str) -> Result<SkyArg, String> {
    let sky = Sky { seed: 1, noise: 0, correlation: 0.1, delay: 0.0, rate: 0.0, frequency: 0.0, epoch: 0 };
    let mut read = SkyArg { station: String::new(), noise: 1, sky };
    let (mut given, sky) = (Vec::new(), &mut read.sky);
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(|| format!("'{part}' has no value"))?;
        let wrong = |expected: &str| format!("{key} '{value}': expected {expected}");
        match key {
            "station" => {
                let legal = value.len() == 2 && value.bytes().all(|letter| letter.is_ascii_graphic());
                read.station =
                    legal.then(|| value.to_owned()).ok_or_else(|| wrong("two letters or digits"))?;
            }
            "seed" => sky.seed = value.parse().map_err(|_| wrong("a whole number from 0"))?,
            "noise" => {
                read.noise = value.parse().map_err(|_| wrong("a whole number from 0 to 4294967295"))?;
            }
            "correlation" => sky.correlation = number(value).ok_or_else(|| wrong("a number from 0 to 1"))?,
            "delay" => sky.delay = quantity(value, &SECONDS).ok_or_else(|| wrong("a time such as 1.25us"))?,
            "rate" => sky.rate = number(value).ok_or_else(|| wrong("seconds per second, such as 3e-12"))?,
            "frequency" => {
                sky.frequency = quantity(value, &HERTZ).ok_or_else(|| wrong("a frequency such as 8.4GHz"))?;
            }
            "epoch" => sky.epoch = skyhaul::time::parse(value).map_err(|error| error.to_string())?,
            _ => return Err(format!("unknown key '{key}'")),
        }
        if given.contains(&key) {
            return Err(format!("{key} is given twice"));
        }
        given.push(key);
    }
    if read.station.is_empty() {
        return Err("the station is missing: its letters name the frames and start its own noise".to_owned());
    }
    if sky.rate != 0.0 && !given.contains(&"epoch") {
        return Err("a rate needs the epoch at which the delay holds, the same for all stations".to_owned());
    }
    sky.check()?;
    Ok(read)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// `1.25us`, `-3e-6s`, or 0.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    if text == "0" {
        return Some(0.0);
    }
    let mut found = units.iter().filter_map(|(unit, scale)| Some(number(text.strip_suffix(unit)?)? * scale));
    found.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_with_its_unit() {
        let all: SkyArg = format!("{EXAMPLE},noise=7").parse().unwrap();
        let expected = Sky {
            seed: 1,
            noise: 7 << 32 | 0x4566 << 16 | 3,
            correlation: 0.1,
            delay: 1.25e-6,
            rate: 3e-12,
            frequency: 8.4e9,
            epoch: 1_795_230_000,
        };
        let found = all.of_sender(3);
        assert!((found.delay - expected.delay).abs() < 1e-18);
        assert_eq!((Sky { delay: expected.delay, ..found }, &*all.station), (expected, "Ef"));
        let delay = |text: &str| format!("station=Ef,delay={text}").parse::<SkyArg>().unwrap().sky.delay;
        for (text, seconds) in
            [("-2ms", -2e-3), ("0", 0.0), ("3e-7s", 3e-7), ("5ps", 5e-12), ("1.5ns", 1.5e-9)]
        {
            assert!((delay(text) - seconds).abs() < 1e-20, "{text}");
        }
    }

    #[test]
    fn senders_and_stations_have_noise_of_their_own() {
        let of = |text: &str, number| text.parse::<SkyArg>().unwrap().of_sender(number).noise;
        let noises =
            [of("station=Ef", 0), of("station=Ef", 1), of("station=On", 0), of("station=Ef,noise=2", 0)];
        assert!((0..4).all(|a| (0..a).all(|b| noises[a] != noises[b])), "{noises:?}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("", "station is missing"),
            ("station=E", "two letters"),
            ("station=Ef,seed=-1", "seed '-1'"),
            ("station=Ef,noise=5000000000", "noise"),
            ("station=Ef,correlation=2", "correlation 2"),
            ("station=Ef,correlation=NaN", "correlation 'NaN'"),
            ("station=Ef,delay=5", "delay '5': expected a time"),
            ("station=Ef,delay=2s", "delay 2e0 s is more than"),
            ("station=Ef,rate=1e-12", "needs the epoch"),
            ("station=Ef,rate=1,epoch=0", "rate 1e0"),
            ("station=Ef,frequency=8.4", "frequency '8.4'"),
            ("station=Ef,frequency=-1GHz", "negative"),
            ("station=Ef,epoch=noon", "not a valid time"),
            ("station=Ef,delay", "'delay' has no value"),
            ("station=Ef,dealy=1us", "unknown key 'dealy'"),
            ("station=Ef,seed=1,seed=2", "given twice"),
        ] {
            let said = text.parse::<SkyArg>().unwrap_err();
            assert!(said.contains(named) && said.contains("hint: "), "{text}: {said}");
        }
    }
}
