//! EJFAT's control plane for Python: reservations, senders, tokens. What has many fields is passed as JSON.

use crate::address;
use crate::errors::of_connection;
use crate::process::Here;
use pyo3::exceptions::{PyLookupError, PyPermissionError, PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use serde_json::{Value, json};
use skyhaul::core::hint::Hint;
use skyhaul_daemon::Uri;
use skyhaul_daemon::client::{ClientOptions, ControlError, ControlPlane, Trust, Why};
use skyhaul_daemon::ejfat::proto::{
    self, ReserveLoadBalancerRequest, ResetLoadBalancerRequest, TokenPermission, WorkerStatus,
    timeseries::Timeseries, token_selector::TokenSelector,
};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// A control plane.
#[pyclass(frozen, module = "skyhaul._native")]
pub(crate) struct BalancerClient(Here<ControlPlane>);

/// The exception for a call that failed.
pub(crate) fn failed(error: &ControlError) -> PyErr {
    let text = error.to_string();
    match &error.why {
        Why::Unreachable(_) | Why::Untrusted { .. } => of_connection(text),
        Why::Silent(_) => PyTimeoutError::new_err(text),
        Why::Unsent { .. } => PyValueError::new_err(text),
        Why::Refused { code, .. } => match format!("{code:?}").as_str() {
            "Unauthenticated" | "PermissionDenied" => PyPermissionError::new_err(text),
            "NotFound" => PyLookupError::new_err(text),
            "InvalidArgument" => PyValueError::new_err(text),
            _ => PyRuntimeError::new_err(text),
        },
    }
}

/// The control plane of this URI, or of the environment's.
pub(crate) fn plane(
    uri: Option<&str>,
    certificate: Option<PathBuf>,
    any_certificate: bool,
    deadline: Duration,
) -> PyResult<ControlPlane> {
    let of_environment = || std::env::var("EJFAT_URI").ok().filter(|text| !text.is_empty());
    let text = uri.map(str::to_owned).or_else(of_environment).ok_or_else(|| {
        PyValueError::new_err(format!(
            "no balancer{}",
            Hint("pass uri, or set EJFAT_URI to what reserving a balancer printed")
        ))
    })?;
    let uri: Uri = text
        .parse()
        .map_err(|error: skyhaul::wire::ejfat::UriError| PyValueError::new_err(error.to_string()))?;
    let trust = match certificate {
        _ if any_certificate => Trust::Anyone,
        Some(file) => Trust::File(file),
        None => Trust::System,
    };
    let options = ClientOptions { trust, deadline, ..ClientOptions::default() };
    ControlPlane::new(&uri, &options).map_err(|error| failed(&error))
}

fn later(seconds: f64) -> SystemTime {
    SystemTime::now() + Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default()
}

impl BalancerClient {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        make: impl FnOnce(&ControlPlane) -> Result<T, ControlError> + Send,
    ) -> PyResult<T> {
        let plane = self.0.get()?;
        py.detach(|| make(plane)).map_err(|error| failed(&error))
    }
}

#[pymethods]
impl BalancerClient {
    #[new]
    #[pyo3(signature = (uri = None, *, certificate = None, any_certificate = false, deadline = 5.0))]
    fn new(
        uri: Option<&str>,
        certificate: Option<PathBuf>,
        any_certificate: bool,
        deadline: f64,
    ) -> PyResult<Self> {
        let deadline = crate::wait::duration(Some(deadline))?.unwrap_or(Duration::MAX);
        Ok(Self(Here::new("balancer", plane(uri, certificate, any_certificate, deadline)?)))
    }

    /// The URI that it was made with, token included.
    #[getter]
    fn uri(&self) -> PyResult<String> {
        Ok(self.0.get()?.uri().to_string())
    }

    /// Where the control plane is.
    #[getter]
    fn at(&self) -> PyResult<String> {
        Ok(self.0.get()?.at().to_owned())
    }

    /// Reserve a balancer for this many seconds; the reservation's URI.
    fn reserve(
        &self,
        py: Python<'_>,
        name: String,
        seconds: Option<f64>,
        senders: Vec<String>,
        strategy: String,
    ) -> PyResult<String> {
        let ask = ReserveLoadBalancerRequest {
            name,
            until: seconds.map(|seconds| later(seconds).into()),
            sender_addresses: address::hosts(senders)?,
            strategy,
            ..ReserveLoadBalancerRequest::default()
        };
        self.call(py, |plane| Ok(plane.uri_of(&plane.reserve(ask)?).to_string()))
    }

    /// The URI of the reservation, with its addresses.
    fn get(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, |plane| Ok(plane.uri_of(&plane.get()?).to_string()))
    }

    fn free(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, ControlPlane::free)
    }

    /// Let the reservation last this many seconds from now; the time at which it ends, as a Unix time.
    fn extend(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<f64>> {
        self.call(py, |plane| Ok(plane.extend(later(seconds).into())?.map(|until| unix(&until))))
    }

    fn add_senders(&self, py: Python<'_>, senders: Vec<String>) -> PyResult<()> {
        let senders = address::hosts(senders)?;
        self.call(py, |plane| plane.add_senders(senders))
    }

    fn remove_senders(&self, py: Python<'_>, senders: Vec<String>) -> PyResult<()> {
        let senders = address::hosts(senders)?;
        self.call(py, |plane| plane.remove_senders(senders))
    }

    fn reset(&self, py: Python<'_>, sync: bool, epochs: bool, senders: bool, workers: bool) -> PyResult<()> {
        let parts = ResetLoadBalancerRequest { lb_id: String::new(), sync, epochs, senders, workers };
        self.call(py, |plane| plane.reset(&parts).map(|_| ()))
    }

    /// Its status as JSON.
    fn status(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, |plane| Ok(status(&plane.status()?).to_string()))
    }

    /// All reservations as JSON.
    fn overview(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, |plane| {
            let one = |o: &proto::Overview| {
                let id = o.reservation.as_ref().map(|reply| &reply.lb_id);
                json!({ "name": o.name, "id": id, "status": o.status.as_ref().map(status) })
            };
            Ok(Value::from(plane.overview()?.iter().map(one).collect::<Vec<_>>()).to_string())
        })
    }

    /// Samples of what the paths select, since this Unix time, as JSON.
    fn timeseries(&self, py: Python<'_>, paths: Vec<String>, since: Option<f64>) -> PyResult<String> {
        let time = |at: f64| {
            let since = Duration::try_from_secs_f64(at.max(0.0)).ok();
            let time = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
            time.ok_or_else(|| PyValueError::new_err(format!("{at} is no Unix time")))
        };
        let since = since.map(time).transpose()?.map(Into::into);
        self.call(py, |plane| {
            let one = |series: &proto::Timeseries| {
                let samples: Vec<(i64, f64)> = match &series.timeseries {
                    Some(Timeseries::IntegerSamples(all)) => {
                        all.data.iter().map(|one| (one.timestamp, one.value as f64)).collect()
                    }
                    Some(Timeseries::FloatSamples(all)) => {
                        all.data.iter().map(|one| (one.timestamp, one.value.into())).collect()
                    }
                    None => Vec::new(),
                };
                json!({ "name": series.name, "unit": series.unit, "samples": samples })
            };
            Ok(Value::from(plane.timeseries(paths, since)?.timeseries.iter().map(one).collect::<Vec<_>>())
                .to_string())
        })
    }

    /// Commit, build and compatibility of the server.
    fn version(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        self.call(py, |plane| plane.version().map(|reply| (reply.commit, reply.build, reply.compat_tag)))
    }

    /// Make a token with permissions (resource, id, level); the token.
    fn create_token(
        &self,
        py: Python<'_>,
        name: &str,
        permissions: Vec<(String, String, String)>,
    ) -> PyResult<String> {
        let read = |(resource, id, level): (String, String, String)| {
            let kind = proto::token_permission::ResourceType::from_str_name(&resource.to_uppercase());
            let right = proto::token_permission::PermissionType::from_str_name(&level.to_uppercase());
            let (Some(kind), Some(right)) = (kind, right) else {
                let text = format!(
                    "no permission {level:?} on {resource:?}{}",
                    Hint(
                        "read_only, register, reserve or update on all, load_balancer, reservation or session"
                    )
                );
                return Err(PyValueError::new_err(text));
            };
            Ok(TokenPermission { resource_type: kind.into(), resource_id: id, permission: right.into() })
        };
        let permissions = permissions.into_iter().map(read).collect::<PyResult<Vec<_>>>()?;
        self.call(py, |plane| plane.create_token(name, permissions).map(|reply| reply.token))
    }

    /// The tokens below the own one as JSON.
    fn tokens(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, |plane| {
            let own = TokenSelector::Token(plane.uri().token.clone().unwrap_or_default());
            Ok(Value::from(plane.child_tokens(own)?.iter().map(token).collect::<Vec<_>>()).to_string())
        })
    }

    /// Revoke a token, by its id or itself, and all below it.
    #[pyo3(signature = (id, token))]
    fn revoke_token(&self, py: Python<'_>, id: Option<u32>, token: Option<String>) -> PyResult<()> {
        let target = id.map_or_else(|| TokenSelector::Token(token.unwrap_or_default()), TokenSelector::Id);
        self.call(py, |plane| plane.revoke_token(target))
    }
}

/// Seconds since 1970.
fn unix(time: &(impl Clone + TryInto<SystemTime>)) -> f64 {
    let time = time.clone().try_into().unwrap_or(SystemTime::UNIX_EPOCH);
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn token(details: &proto::TokenDetails) -> Value {
    let permission = |one: &TokenPermission| {
        json!([
            one.resource_type().as_str_name().to_lowercase(),
            one.resource_id,
            one.permission().as_str_name().to_lowercase()
        ])
    };
    let permissions: Vec<Value> = details.permissions.iter().map(permission).collect();
    json!({ "id": details.id, "name": details.name, "created": details.created_at, "permissions": permissions })
}

fn status(reply: &proto::LoadBalancerStatusReply) -> Value {
    json!({
        "time": reply.timestamp.as_ref().map(unix),
        "expires": reply.expires_at.as_ref().map(unix),
        "epoch": reply.current_epoch,
        "tick": reply.current_predicted_event_number,
        "slots": reply.slot_resolution,
        "senders": reply.sender_addresses,
        "workers": reply.workers.iter().map(worker).collect::<Vec<_>>(),
    })
}

fn worker(w: &WorkerStatus) -> Value {
    json!({
        "name": w.name,
        "session": w.session_id,
        "address": w.ip_address,
        "port": w.udp_port,
        "ports": 1u32 << w.port_range.clamp(0, 14),
        "fill": w.fill_percent,
        "signal": w.control_signal,
        "slots": w.slots_assigned,
        "heard": w.last_updated.as_ref().map(unix),
        "min_factor": w.min_factor,
        "max_factor": w.max_factor,
        "events": w.total_events_recv,
        "complete": w.total_events_reassembled,
        "incomplete": w.total_events_reassembly_err,
        "taken": w.total_events_dequeued,
        "refused": w.total_event_enqueue_err,
        "bytes": w.total_bytes_recv,
        "packets": w.total_packets_recv,
    })
}
