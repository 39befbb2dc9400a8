//! The REST service: the same calls, with messages as proto3 JSON.
//!
//! ```text
//!   POST /lb {"name": "run 7", "senderAddresses": ["10.1.0.0/16"]}   ─▶ ReserveLoadBalancerRequest ─▶ Api
//!   POST /sessions/3/state {"isReady": true, "fillPercent": 0.2}     ─▶ SendStateRequest { sessionId: "3", … }
//! ```
//!
//! The names of fields are those of the definition; `sender_addresses` is accepted for `senderAddresses`. An unknown
//! field is an error. Parts of the path are fields too.
//!
//! Below `/api/v1` are the same calls in the form of udplbd: see [`Dialect`].
//!
//! | | [`Definition`](Dialect::Definition) | [`Udplbd`](Dialect::Udplbd), below `/api/v1` |
//! |---|---|---|
//! | fields of replies | `lbId` | `lb_id` |
//! | 64-bit numbers, enumerations | `"7"`, `"PORT_RANGE_16"` | `7`, `4` |
//! | a series | `integerSamples` | `timeseries.IntegerSamples` |
//! | a reply without fields | 200 and `{}` | 204 |
//! | a token that is not valid | 401 | 403 |
//! | a token in a path | its number | its number or its text |
//! | version of IP | `IPV4` | `ipv4` |
//!
//! Requests accept both forms of names.

use super::super::api::{Answered, Api, Caller, Refusal, RefusalKind};
use super::super::client::AWAITED;
use super::super::json::{JsonError, Message, plain, read, text};
use super::super::proto::*;
use super::calls::{MAX_BODY_BYTES, ServerState};
use crate::http::decoded;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, RawPathParams, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post};
use axum::{Extension, Router};
use serde_json::{Map, Value, json};
use skyhaul::core::hint::Hint;

/// A call of the API.
type Call<Q, R> = fn(&Api, &Caller, Q) -> Result<R, Refusal>;

/// Request and reply of a call, by their names in the definition. `as` names what the API answers with, if that says more.
macro_rules! call {
    ($on:ident, $name:ident: $request:ident => $reply:ident) => { call!($on, $name: $request => $reply as $reply) };
    ($on:ident, $name:ident: $request:ident => $reply:ident as $answer:ty) => {{
        let call: Call<$request, $answer> = Api::$name;
        $on(
            move |State(door): State<ServerState>,
                  Extension(caller): Extension<Caller>,
                  Extension(dialect): Extension<Dialect>,
                  params: RawPathParams,
                  uri: Uri,
                  body: Bytes| async move {
                let names = (stringify!($request), stringify!($reply));
                answered::<_, $reply, _>(&door, dialect, caller, &params, &uri, &body, names, call).await
            },
        ) as MethodRouter<ServerState>
    }};
}

/// All calls, in both forms.
pub(super) fn routes(door: &ServerState) -> Router {
    let of = |dialect| calls(door).layer(Extension(dialect));
    of(Dialect::Definition).nest(UDPLBD_PREFIX, of(Dialect::Udplbd))
}

fn calls(door: &ServerState) -> Router {
    let senders = call!(post, add_senders: AddSendersRequest => AddSendersReply)
        .merge(call!(delete, remove_senders: RemoveSendersRequest => RemoveSendersReply));
    let reservation = call!(get, get_load_balancer: GetLoadBalancerRequest => ReserveLoadBalancerReply)
        .merge(call!(delete, free_load_balancer: FreeLoadBalancerRequest => FreeLoadBalancerReply));
    let chains = call!(post, chain_load_balancer: ChainLoadBalancerRequest => ChainLoadBalancerReply)
        .merge(call!(get, get_chain_graph: GetChainGraphRequest => GetChainGraphReply));
    Router::new()
        .route(
            "/lb",
            call!(post, reserve_load_balancer: ReserveLoadBalancerRequest => ReserveLoadBalancerReply),
        )
        .route("/lb/{lbId}", reservation)
        .route(
            "/lb/{lbId}/status",
            call!(get, load_balancer_status: LoadBalancerStatusRequest => LoadBalancerStatusReply),
        )
        .route(
            "/lb/{lbId}/reset",
            call!(post, reset_load_balancer: ResetLoadBalancerRequest => ResetLoadBalancerReply),
        )
        .route(
            "/lb/{lbId}/extend",
            call!(post, extend_reservation: ExtendReservationRequest => ExtendReservationReply),
        )
        .route("/lb/{lbId}/senders", senders)
        .route(
            "/lb/{lbId}/slots",
            call!(post, set_slot_demands: SetSlotDemandsRequest => SetSlotDemandsReply),
        )
        .route("/lb/{lbId}/chains", chains)
        .route(
            "/lb/{lbId}/chains/{chainId}",
            call!(delete, unchain_load_balancer: UnchainLoadBalancerRequest => UnchainLoadBalancerReply),
        )
        .route("/lb/{lbId}/sessions", call!(post, register: RegisterRequest => RegisterReply))
        .route("/sessions/{sessionId}", call!(delete, deregister: DeregisterRequest => DeregisterReply))
        .route(
            "/sessions/{sessionId}/state",
            call!(post, report: SendStateRequest => SendStateReply as Answered<SendStateReply>),
        )
        .route("/tokens", call!(post, create_token: CreateTokenRequest => CreateTokenReply))
        .route(
            "/tokens/{token}/permissions",
            call!(get, list_token_permissions: ListTokenPermissionsRequest => ListTokenPermissionsReply),
        )
        .route(
            "/tokens/{token}/children",
            call!(get, list_child_tokens: ListChildTokensRequest => ListChildTokensReply),
        )
        .route("/tokens/{token}", call!(delete, revoke_token: RevokeTokenRequest => RevokeTokenReply))
        .route("/timeseries", call!(get, timeseries: TimeseriesRequest => TimeseriesResponse))
        .route("/timeseries/{*path}", call!(get, timeseries: TimeseriesRequest => TimeseriesResponse))
        .route("/overview", call!(get, overview: OverviewRequest => OverviewReply))
        .route("/version", call!(get, version: VersionRequest => VersionReply))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(door.clone())
}

/// Parses the request, calls the API, and writes the reply.
#[expect(clippy::too_many_arguments, reason = "all of a request; it is called by a macro")]
async fn answered<Q: Message + Default + 'static, R: Message, A: Into<Answered<R>> + Send + 'static>(
    door: &ServerState,
    dialect: Dialect,
    caller: Caller,
    params: &RawPathParams,
    uri: &Uri,
    body: &[u8],
    (request, reply): (&str, &str),
    call: Call<Q, A>,
) -> Response {
    let read = fields(dialect, params, uri, body).and_then(|fields| Ok(read::<Q>(request, fields)?));
    let done = match read {
        Ok(request) => door.ask(caller, request, call).await,
        Err(refusal) => {
            let refused = Err(refusal);
            door.api.count(&refused);
            refused
        }
    };
    let done = done.map(A::into).and_then(|done| Ok((dialect.reply(reply, &done.reply)?, done.is_awaited)));
    let (text, is_awaited) = match done {
        Ok(done) => done,
        Err(refusal) => return refused(&refusal),
    };
    let mut response = match text {
        None => StatusCode::NO_CONTENT.into_response(),
        Some(text) => ([(CONTENT_TYPE, "application/json")], text).into_response(),
    };
    if is_awaited {
        response.headers_mut().insert(AWAITED, HeaderValue::from_static("1"));
    }
    response
}

impl From<JsonError> for Refusal {
    fn from(error: JsonError) -> Refusal {
        let kind = match error {
            JsonError::Request(..) => RefusalKind::Invalid,
            JsonError::Fault(..) => RefusalKind::Unavailable,
        };
        Refusal::new(kind, error.to_string())
    }
}

pub(super) fn refused(refusal: &Refusal) -> Response {
    let status = match refusal.kind {
        RefusalKind::Invalid | RefusalKind::Unfit => StatusCode::BAD_REQUEST,
        RefusalKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        RefusalKind::Denied => StatusCode::FORBIDDEN,
        RefusalKind::Missing => StatusCode::NOT_FOUND,
        RefusalKind::Exhausted => StatusCode::TOO_MANY_REQUESTS,
        RefusalKind::Ended => StatusCode::CONFLICT,
        RefusalKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = json!({ "error": refusal.text, "code": status.as_u16() }).to_string();
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}

/// The reply for an unknown path.
pub(super) async fn nothing(uri: Uri) -> Response {
    let text = format!("unknown path {}{}", uri.path(), Hint("/lb, /sessions, /tokens, /overview, /metrics"));
    refused(&Refusal::new(RefusalKind::Missing, text))
}

/// The fields of a request, from its body, its query and its path.
fn fields(
    dialect: Dialect,
    params: &RawPathParams,
    uri: &Uri,
    body: &[u8],
) -> Result<Map<String, Value>, Refusal> {
    let body: Value = match body {
        [] => json!({}),
        body => serde_json::from_slice(body)
            .map_err(|error| Refusal::invalid(format!("the body is not valid JSON: {error}")))?,
    };
    let Value::Object(fields) = renamed(body) else {
        return Err(Refusal::invalid(format!(
            "the body is not a JSON object{}",
            Hint("for example {\"name\": \"run 7\"}")
        )));
    };
    let mut fields = fields;
    let mut selectors = Vec::new();
    for (key, value) in
        uri.query().into_iter().flat_map(|query| query.split('&')).filter_map(|p| p.split_once('='))
    {
        match key {
            "seriesSelector" | "series_selector" | "series" => selectors.push(Value::String(decoded(value))),
            _ => drop(fields.insert(key.to_owned(), Value::String(decoded(value)))),
        }
    }
    for (key, value) in params {
        match key {
            // Only its number: its text would appear in logs.
            "token" if value == "self" => {}
            "token" => drop(fields.insert("target".to_owned(), dialect.token(value))),
            "path" => selectors.push(Value::String(format!("/{value}"))),
            _ => drop(fields.insert(key.to_owned(), Value::String(value.to_owned()))),
        }
    }
    dialect.request(&mut fields);
    if !selectors.is_empty() {
        fields.insert("seriesSelector".to_owned(), Value::Array(selectors));
    }
    Ok(fields)
}

/// Renames `sender_addresses` to `senderAddresses`, at any depth.
fn renamed(value: Value) -> Value {
    let camel = |key: String| {
        let mut parts = key.split('_');
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |mut name, part| {
            let mut letters = part.chars();
            name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
            name + letters.as_str()
        })
    };
    match value {
        Value::Object(map) => map.into_iter().map(|(key, value)| (camel(key), renamed(value))).collect(),
        Value::Array(list) => list.into_iter().map(renamed).collect(),
        other => other,
    }
}

/// The prefix of udplbd's paths.
pub(super) const UDPLBD_PREFIX: &str = "/api/v1";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Definition,
    Udplbd,
}

impl Dialect {
    /// The dialect of a path.
    pub(super) fn of(path: &str) -> Dialect {
        let rest = path.strip_prefix(UDPLBD_PREFIX);
        if rest.is_some_and(|rest| rest.starts_with('/')) { Dialect::Udplbd } else { Dialect::Definition }
    }

    /// The reply called `name` in the definition as JSON; `None` if it has no content.
    pub(super) fn reply<R: Message>(self, name: &str, reply: &R) -> Result<Option<String>, JsonError> {
        if self == Dialect::Definition {
            return text(name, reply).map(Some);
        }
        // This was written above, so it can be parsed.
        let reply: Value = serde_json::from_str(&plain(name, reply)?).unwrap_or_default();
        let is_empty = reply.as_object().is_some_and(Map::is_empty);
        Ok((!is_empty).then(|| snake(reply).to_string()))
    }

    /// Converts the fields of a request to those of the definition.
    pub(super) fn request(self, fields: &mut Map<String, Value>) {
        if let Some(Value::String(family)) = fields.get_mut("ipFamily").filter(|_| self == Dialect::Udplbd) {
            *family = if family.is_empty() { "DUAL_STACK".to_owned() } else { family.to_ascii_uppercase() };
        }
    }

    /// The token in a part of a path. Its text would appear in logs.
    pub(super) fn token(self, part: &str) -> Value {
        let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Dialect::Udplbd if !is_number => json!({ "token": part }),
            _ => json!({ "id": part }),
        }
    }

    /// The kind of refusal in this form.
    pub(super) fn refusal(self, refusal: Refusal, has_token: bool) -> Refusal {
        match refusal.kind {
            RefusalKind::Unauthenticated if has_token && self == Dialect::Udplbd => {
                Refusal { kind: RefusalKind::Denied, ..refusal }
            }
            _ => refusal,
        }
    }
}

/// Converts names to those of udplbd. Details of health issues stay unchanged.
fn snake(value: Value) -> Value {
    let Value::Object(map) = value else {
        return match value {
            Value::Array(list) => list.into_iter().map(snake).collect(),
            other => other,
        };
    };
    let mut all = Map::new();
    for (key, value) in map {
        match key.as_str() {
            "integerSamples" | "floatSamples" if value.is_null() => {}
            "integerSamples" => {
                drop(all.insert("timeseries".to_owned(), json!({ "IntegerSamples": snake(value) })));
            }
            "floatSamples" => {
                drop(all.insert("timeseries".to_owned(), json!({ "FloatSamples": snake(value) })));
            }
            "details" => drop(all.insert(key, value)),
            _ => drop(all.insert(snake_name(&key), snake(value))),
        }
    }
    Value::Object(all)
}

fn snake_name(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ejfat::proto::{FreeLoadBalancerReply, SlotRange, WorkerStatus};

    #[test]
    fn replies_are_as_udplbd_writes_them() {
        let reply = WorkerStatus {
            session_id: 7,
            total_events_recv: 9,
            port_range: 4,
            slots: vec![SlotRange { index: -1, length: 3 }],
            ..WorkerStatus::default()
        };
        let said = Dialect::Udplbd.reply("WorkerStatus", &reply).unwrap().unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(
            (&said["session_id"], &said["total_events_recv"], &said["port_range"], &said["slots"]),
            (&json!(7), &json!(9), &json!(4), &json!([{"index": -1, "length": 3}]))
        );
        assert_eq!(snake(json!({"details": {"anyName": 1}})), json!({"details": {"anyName": 1}}));
        let empty = FreeLoadBalancerReply {};
        assert_eq!(Dialect::Udplbd.reply("FreeLoadBalancerReply", &empty).unwrap(), None);
        assert_eq!(
            Dialect::Definition.reply("FreeLoadBalancerReply", &empty).unwrap(),
            Some("{}".to_owned())
        );
    }

    #[test]
    fn where_each_is() {
        for (path, is) in [("/api/v1/lb", true), ("/lb", false), ("/api/v1", false), ("/api/v10/lb", false)] {
            assert_eq!(Dialect::of(path) == Dialect::Udplbd, is, "{path}");
        }
        assert_eq!(Dialect::Udplbd.token("7"), json!({"id": "7"}));
        assert_eq!(Dialect::Udplbd.token("a7"), json!({"token": "a7"}));
        assert_eq!(Dialect::Definition.token("a7"), json!({"id": "a7"}));
    }
}
