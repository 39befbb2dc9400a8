//! Keys of the store: each is a place in the tree of its fleet, and each name in it is one level of that tree.

use crate::station::is_scan_name;
use std::fmt::{self, Display, Formatter};

/// What all keys of all fleets begin with: the layout of version 1.
pub const FLEET_PREFIX: &str = "/skyhaul/v1/";
/// Maximum length of a part of a schedule's VEX text, bytes.
pub const MAX_VEX_PART_BYTES: usize = 512 << 10;
/// Maximum length of every other value, bytes.
pub const MAX_FLEET_VALUE_BYTES: usize = 64 << 10;

/// A name in the tree of a fleet: of a fleet, station, recorder, experiment, scan, site or alarm.
///
/// It has 1 to 120 letters, digits or `._+-`, and begins with neither `.` nor `-`: so it cannot leave its level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetName(String);

/// Why a text is not a [`FleetName`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAFleetName(pub String);

impl FleetName {
    /// Returns a name.
    ///
    /// # Errors
    /// [`NotAFleetName`] if it could leave its level of the tree, or is too long.
    pub fn new(text: &str) -> Result<Self, NotAFleetName> {
        if is_scan_name(text) { Ok(Self(text.to_owned())) } else { Err(NotAFleetName(text.to_owned())) }
    }

    /// A name that stands in the source.
    pub(super) fn literal(text: &'static str) -> Self {
        debug_assert!(is_scan_name(text));
        Self(text.to_owned())
    }

    /// Returns its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for FleetName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Display for NotAFleetName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(130).collect();
        write!(
            f,
            "{shown:?} is not a name: expected 1 to 120 letters, digits or ._+-, beginning with neither . nor -"
        )
    }
}

impl std::error::Error for NotAFleetName {}

/// What one holder at a time may use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimResource {
    /// A link between two sites, such as `ON-JIVE`.
    Link(FleetName),
    /// The buffer of a site.
    Buffer(FleetName),
    /// A device of a station, such as a network card.
    Device(FleetName, FleetName),
    /// The work on a transfer.
    Transfer(FleetName),
}

/// A key of a fleet, without the prefix of its [`FleetRoot`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FleetKey {
    /// `stations/ST`: a station, by its operator.
    Station(FleetName),
    /// `recorders/ST/REC/info`: what a recorder is.
    RecorderInfo(FleetName, FleetName),
    /// `recorders/ST/REC/live`: what a recorder does now, under a lease.
    RecorderLive(FleetName, FleetName),
    /// `schedules/EXP/meta`: a schedule, written after its parts.
    ScheduleMeta(FleetName),
    /// `schedules/EXP/vex/N`: part N of its VEX text, counted from 0.
    SchedulePart(FleetName, u32),
    /// `current/ST`: the schedule that a station follows.
    CurrentSchedule(FleetName),
    /// `desired/ST/REC/SCAN`: a scan that a recorder is to record, or to stop.
    DesiredScan(FleetName, FleetName, FleetName),
    /// `acks/ST/REC/SCAN`: the recorder's answer.
    ScanAck(FleetName, FleetName, FleetName),
    /// `claims/RESOURCE`: the holder of a resource.
    Claim(ClaimResource),
    /// `scans/EXP/SCAN/ST`: a scan that was recorded.
    ClosedScan(FleetName, FleetName, FleetName),
    /// `replicas/EXP/SCAN/ST/SITE`: a copy of it.
    Replica(FleetName, FleetName, FleetName, FleetName),
    /// `transfers/ID`: a transfer between sites.
    Transfer(FleetName),
    /// `alarms/ST/REC/NAME`: an alarm that is raised, under a lease.
    Alarm(FleetName, FleetName, FleetName),
}

/// Why a text is not a key of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAFleetKey {
    /// It is in another tree.
    OtherTree,
    /// The layout has no such key.
    Unknown,
    /// A level is not a name.
    Name(NotAFleetName),
}

impl Display for NotAFleetKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherTree => f.write_str("the key is not of this fleet"),
            Self::Unknown => f.write_str("the layout of a fleet has no such key"),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl std::error::Error for NotAFleetKey {}

impl Display for FleetKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Station(station) => write!(f, "stations/{station}"),
            Self::RecorderInfo(station, recorder) => write!(f, "recorders/{station}/{recorder}/info"),
            Self::RecorderLive(station, recorder) => write!(f, "recorders/{station}/{recorder}/live"),
            Self::ScheduleMeta(experiment) => write!(f, "schedules/{experiment}/meta"),
            Self::SchedulePart(experiment, part) => write!(f, "schedules/{experiment}/vex/{part}"),
            Self::CurrentSchedule(station) => write!(f, "current/{station}"),
            Self::DesiredScan(station, recorder, scan) => write!(f, "desired/{station}/{recorder}/{scan}"),
            Self::ScanAck(station, recorder, scan) => write!(f, "acks/{station}/{recorder}/{scan}"),
            Self::Claim(resource) => write!(f, "claims/{resource}"),
            Self::ClosedScan(experiment, scan, station) => write!(f, "scans/{experiment}/{scan}/{station}"),
            Self::Replica(experiment, scan, station, site) => {
                write!(f, "replicas/{experiment}/{scan}/{station}/{site}")
            }
            Self::Transfer(transfer) => write!(f, "transfers/{transfer}"),
            Self::Alarm(station, recorder, alarm) => write!(f, "alarms/{station}/{recorder}/{alarm}"),
        }
    }
}

impl Display for ClaimResource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(name) => write!(f, "link/{name}"),
            Self::Buffer(name) => write!(f, "buffer/{name}"),
            Self::Device(station, name) => write!(f, "device/{station}/{name}"),
            Self::Transfer(name) => write!(f, "transfer/{name}"),
        }
    }
}

impl ClaimResource {
    fn of(levels: &[&str]) -> Result<Self, NotAFleetKey> {
        Ok(match *levels {
            ["link", link] => Self::Link(name(link)?),
            ["buffer", buffer] => Self::Buffer(name(buffer)?),
            ["device", station, device] => Self::Device(name(station)?, name(device)?),
            ["transfer", transfer] => Self::Transfer(name(transfer)?),
            _ => return Err(NotAFleetKey::Unknown),
        })
    }
}

/// Reads a resource as it stands behind `claims/`.
impl std::str::FromStr for ClaimResource {
    type Err = NotAFleetKey;
    fn from_str(text: &str) -> Result<Self, NotAFleetKey> {
        Self::of(&levels(text)?)
    }
}

/// Reads a key without the prefix of its fleet.
impl std::str::FromStr for FleetKey {
    type Err = NotAFleetKey;
    fn from_str(text: &str) -> Result<Self, NotAFleetKey> {
        Ok(match *levels(text)?.as_slice() {
            ["stations", station] => Self::Station(name(station)?),
            ["recorders", station, recorder, "info"] => Self::RecorderInfo(name(station)?, name(recorder)?),
            ["recorders", station, recorder, "live"] => Self::RecorderLive(name(station)?, name(recorder)?),
            ["schedules", experiment, "meta"] => Self::ScheduleMeta(name(experiment)?),
            ["schedules", experiment, "vex", part] => Self::SchedulePart(name(experiment)?, number(part)?),
            ["current", station] => Self::CurrentSchedule(name(station)?),
            ["desired", station, recorder, scan] => {
                Self::DesiredScan(name(station)?, name(recorder)?, name(scan)?)
            }
            ["acks", station, recorder, scan] => Self::ScanAck(name(station)?, name(recorder)?, name(scan)?),
            ["claims", ref resource @ ..] => Self::Claim(ClaimResource::of(resource)?),
            ["scans", experiment, scan, station] => {
                Self::ClosedScan(name(experiment)?, name(scan)?, name(station)?)
            }
            ["replicas", experiment, scan, station, site] => {
                Self::Replica(name(experiment)?, name(scan)?, name(station)?, name(site)?)
            }
            ["transfers", transfer] => Self::Transfer(name(transfer)?),
            ["alarms", station, recorder, alarm] => {
                Self::Alarm(name(station)?, name(recorder)?, name(alarm)?)
            }
            _ => return Err(NotAFleetKey::Unknown),
        })
    }
}

/// The levels of a key; no key has more than 5.
fn levels(text: &str) -> Result<Vec<&str>, NotAFleetKey> {
    let levels: Vec<&str> = text.split('/').take(6).collect();
    if levels.len() > 5 { Err(NotAFleetKey::Unknown) } else { Ok(levels) }
}

fn name(text: &str) -> Result<FleetName, NotAFleetKey> {
    FleetName::new(text).map_err(NotAFleetKey::Name)
}

/// A number as it is printed: a second spelling would be a second key of one part.
fn number(text: &str) -> Result<u32, NotAFleetKey> {
    let number = text.parse().map_err(|_| NotAFleetKey::Unknown)?;
    if format!("{number}") == text { Ok(number) } else { Err(NotAFleetKey::Unknown) }
}

/// A part of the tree that is listed or watched as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetBranch {
    /// Everything.
    All,
    /// All stations.
    Stations,
    /// All recorders: what they are, and what they do.
    Recorders,
    /// The schedule of an experiment, meta and parts.
    Schedule(FleetName),
    /// The current schedule of a station: one key.
    Current(FleetName),
    /// The current schedules of all stations.
    AllCurrent,
    /// The desired scans of a recorder.
    Desired(FleetName, FleetName),
    /// The answers of a recorder.
    Acks(FleetName, FleetName),
    /// The alarms of a recorder.
    Alarms(FleetName, FleetName),
    /// The scans of an experiment.
    Scans(FleetName),
    /// All scans.
    AllScans,
}

impl FleetBranch {
    /// Returns what the keys of the branch begin with, without the prefix of the fleet. Only [`Current`](Self::Current) is a
    /// whole key.
    #[must_use]
    pub fn prefix(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Stations => "stations/".into(),
            Self::Recorders => "recorders/".into(),
            Self::Schedule(experiment) => format!("schedules/{experiment}/"),
            Self::Current(station) => format!("current/{station}"),
            Self::AllCurrent => "current/".into(),
            Self::Desired(station, recorder) => format!("desired/{station}/{recorder}/"),
            Self::Acks(station, recorder) => format!("acks/{station}/{recorder}/"),
            Self::Alarms(station, recorder) => format!("alarms/{station}/{recorder}/"),
            Self::Scans(experiment) => format!("scans/{experiment}/"),
            Self::AllScans => "scans/".into(),
        }
    }
}

/// The root of a fleet: `/skyhaul/v1/FLEET/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRoot(String);

impl FleetRoot {
    /// Returns the root of a fleet.
    #[must_use]
    pub fn new(fleet: &FleetName) -> Self {
        Self(format!("{FLEET_PREFIX}{fleet}/"))
    }

    /// Returns the prefix of all its keys, which ends in `/`.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.0
    }

    /// Returns the whole key.
    #[must_use]
    pub fn key(&self, key: &FleetKey) -> String {
        format!("{}{key}", self.0)
    }

    /// Returns the whole prefix of a branch.
    #[must_use]
    pub fn branch(&self, branch: &FleetBranch) -> String {
        format!("{}{}", self.0, branch.prefix())
    }

    /// Reads a whole key.
    ///
    /// # Errors
    /// [`NotAFleetKey`] if it is of another fleet, or of no place in the layout.
    pub fn parse(&self, key: &str) -> Result<FleetKey, NotAFleetKey> {
        key.strip_prefix(&self.0).ok_or(NotAFleetKey::OtherTree)?.parse()
    }
}
