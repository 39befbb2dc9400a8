//! The calls of the HTTP API: one table, from which the router and the OpenAPI document are made.

use serde_json::{Map, Value, json};

/// What a route does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Status,
    Start,
    Recording,
    Stop,
    Scans,
    Schedules,
    LoadSchedule,
    Schedule,
    RemoveSchedule,
    Figures,
    Fleet,
    Transfers,
    Queue,
    QueueCopies,
    CancelCopy,
    RetryCopy,
    RemoveCopy,
    Events,
    OpenApi,
    Metrics,
}

/// One route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) call: Call,
    summary: &'static str,
    /// Fields of the body: name, type, whether it is required, what it is.
    body: &'static [(&'static str, &'static str, bool, &'static str)],
    /// Parameters of the query: name, type, what it is.
    query: &'static [(&'static str, &'static str, &'static str)],
    /// The reply: status, content type, what it is.
    reply: (u16, &'static str, &'static str),
    /// Statuses of errors.
    errors: &'static [u16],
}

const JSON: &str = "application/json";

/// Every call.
pub(super) const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/api/v1/status",
        call: Call::Status,
        summary: "Inputs, disks, memory, recordings, transfers, data that arrive by VSI-S, and scans that a recorder left without an end",
        body: &[],
        query: &[],
        reply: (200, JSON, "the state of the station"),
        errors: &[],
    },
    Route {
        method: "POST",
        path: "/api/v1/recordings",
        call: Call::Start,
        summary: "Start a recording; the reply comes when it is ready for the first packet",
        body: &[
            ("name", "string", true, "name of the scan"),
            ("input", "string", false, "name of the input (default: the first one)"),
            ("memory_bytes", "integer", false, "memory (default: that of the input)"),
            ("stop", "string", false, "data time at which it stops, UTC, such as 2026-11-27T12:00:00Z"),
            ("format", "string", false, "format of its data (this and the following: default: the input's)"),
            ("rate_bits", "integer", false, "maximum rate, bits per second: reserved of the disks' rate"),
            ("threads", "integer", false, "receiving threads, 1 to 256"),
            ("socket_bytes", "integer", false, "receive buffer of each socket"),
            ("ports", "array", false, "ports on which it listens, at the input's first address"),
            ("from", "array", false, "senders that are allowed, such as 10.1.0.0/16 or 10.1.2.3:5000"),
        ],
        query: &[],
        reply: (201, JSON, "the recording"),
        errors: &[400, 409, 503],
    },
    Route {
        method: "GET",
        path: "/api/v1/recordings/{name}",
        call: Call::Recording,
        summary: "A recording of this run of the service",
        body: &[],
        query: &[],
        reply: (
            200,
            JSON,
            "the recording; `outcome`: complete, gaps, irregular, lossy, empty or failed; `reason`: what went wrong",
        ),
        errors: &[404],
    },
    Route {
        method: "POST",
        path: "/api/v1/recordings/{name}/stop",
        call: Call::Stop,
        summary: "Stop a recording",
        body: &[("wait", "boolean", false, "reply when everything is on the disks (default: false)")],
        query: &[],
        reply: (
            200,
            JSON,
            "the recording; `outcome`: complete, gaps, irregular, lossy, empty or failed; `reason`: what went wrong",
        ),
        errors: &[400, 404, 503],
    },
    Route {
        method: "GET",
        path: "/api/v1/scans",
        call: Call::Scans,
        summary: "Scans on the disks, by name",
        body: &[],
        query: &[
            ("after", "string", "only scans whose names come after this one"),
            ("limit", "integer", "maximum number of scans, up to 1000 (default: 100)"),
        ],
        reply: (
            200,
            JSON,
            "`scans`, as `skyhaul ls --json` has them, and `silent_disks`, whose scans may be missing",
        ),
        errors: &[400, 503],
    },
    Route {
        method: "GET",
        path: "/api/v1/schedules",
        call: Call::Schedules,
        summary: "Schedules that are followed, in numbers",
        body: &[],
        query: &[],
        reply: (200, JSON, "the schedules, by name"),
        errors: &[],
    },
    Route {
        method: "POST",
        path: "/api/v1/schedules",
        call: Call::LoadSchedule,
        summary: "Load a schedule; the reply comes when it is kept for a restart",
        body: &[
            ("text", "string", true, "the schedule: VEX 1.5 or 2.0, SNAP, or TOML"),
            ("procedures", "string", false, "procedures of the Field System, for the rates of SNAP"),
            ("format", "string", false, "vex, snap or toml (default: found from its first statement)"),
            ("station", "string", false, "the station whose scans count; needed if there are several"),
            ("input", "string", false, "name of the input (default: the first one)"),
            ("name", "string", false, "its name if it gives neither an experiment nor a station"),
            ("replace", "boolean", false, "take the place of a schedule of its name (default: false)"),
            ("force", "boolean", false, "load it in spite of conflicts (default: false)"),
            (
                "deliveries",
                "array",
                false,
                "where its recordings go, in place of what it says itself: objects of to, scans, after, from, until, priority and rate_bits",
            ),
        ],
        query: &[],
        reply: (201, JSON, "the schedule, its scans, and notes"),
        errors: &[400, 409, 503],
    },
    Route {
        method: "GET",
        path: "/api/v1/schedules/{name}",
        call: Call::Schedule,
        summary: "A schedule: each scan, and what became of it",
        body: &[],
        query: &[],
        reply: (200, JSON, "the schedule and its scans"),
        errors: &[404],
    },
    Route {
        method: "DELETE",
        path: "/api/v1/schedules/{name}",
        call: Call::RemoveSchedule,
        summary: "Remove a schedule; what is recorded of it continues to its end",
        body: &[],
        query: &[],
        reply: (200, JSON, "the schedules that remain"),
        errors: &[404, 409, 503],
    },
    Route {
        method: "GET",
        path: "/api/v1/figures",
        call: Call::Figures,
        summary: "Figures of the last second: rates, disks, memory, alarms; ten minutes of rates, and the last events",
        body: &[],
        query: &[],
        reply: (200, JSON, "the figures"),
        errors: &[],
    },
    Route {
        method: "GET",
        path: "/api/v1/fleet",
        call: Call::Fleet,
        summary: "The fleet: how this station stands to its store, the members of the store and all recorders; these are read every 5 s while they are asked for",
        body: &[],
        query: &[],
        reply: (200, JSON, "the fleet; `seen` is null until the store was read"),
        errors: &[404],
    },
    Route {
        method: "GET",
        path: "/api/v1/transfers",
        call: Call::Transfers,
        summary: "Scans that are sent to other hosts, and the last ones that were",
        body: &[],
        query: &[],
        reply: (200, JSON, "the transfers"),
        errors: &[],
    },
    Route {
        method: "GET",
        path: "/api/v1/queue",
        call: Call::Queue,
        summary: "The queue of copies to other hosts, by number; ended ones are in it until they are removed",
        body: &[],
        query: &[],
        reply: (200, JSON, "the copies"),
        errors: &[],
    },
    Route {
        method: "POST",
        path: "/api/v1/queue",
        call: Call::QueueCopies,
        summary: "Copy scans to another host, all or none; the reply comes when the path was tried, there is space, and the copies are kept for a restart",
        body: &[
            (
                "scans",
                "array",
                false,
                "names of scans; * and ? stand for any characters (this, schedule, or both are needed)",
            ),
            ("schedule", "string", false, "all recordings of this schedule"),
            (
                "to",
                "array",
                true,
                "NAME:DIRECTORY, one for each disk that a scan may be on; NAME is a destination of the configuration",
            ),
            (
                "at",
                "string",
                false,
                "begin at this time: of the day (22:00, UTC) or of the calendar (default: now)",
            ),
            ("rate_bits", "integer", false, "maximum rate of each copy, bits per second"),
            (
                "from",
                "string",
                false,
                "bytes are copied from this time of the day, UTC (with until; default: always)",
            ),
            ("until", "string", false, "and until this time of the day"),
            ("priority", "integer", false, "copies of a higher one begin first, -9 to 9 (default: 0)"),
            ("encrypt", "boolean", false, "encrypt the contents of files (default: as the destination says)"),
        ],
        query: &[],
        reply: (
            201,
            JSON,
            "`copies`; `left_out`, scans of the patterns that are recorded or queued; `path`, what its trial found",
        ),
        errors: &[400, 404, 409, 502, 503],
    },
    Route {
        method: "POST",
        path: "/api/v1/queue/{name}/cancel",
        call: Call::CancelCopy,
        summary: "End a copy; the reply comes when it has ended. What is at its destination stays there",
        body: &[],
        query: &[],
        reply: (200, JSON, "the copy"),
        errors: &[400, 404, 409, 503],
    },
    Route {
        method: "POST",
        path: "/api/v1/queue/{name}/retry",
        call: Call::RetryCopy,
        summary: "Try a copy again that failed, was cancelled, or waits for its next attempt; with another destination, one that failed or was cancelled is replaced by a new copy",
        body: &[(
            "to",
            "array",
            false,
            "NAME:DIRECTORY of another destination, one for each disk that the scan is on (default: its own)",
        )],
        query: &[],
        reply: (200, JSON, "the copy"),
        errors: &[400, 404, 409, 502, 503],
    },
    Route {
        method: "DELETE",
        path: "/api/v1/queue/{name}",
        call: Call::RemoveCopy,
        summary: "Forget a copy that has ended",
        body: &[],
        query: &[],
        reply: (200, JSON, "the copies that remain"),
        errors: &[400, 404, 409, 503],
    },
    Route {
        method: "GET",
        path: "/api/v1/events",
        call: Call::Events,
        summary: "Changes as server-sent events: `status` first, then `recording`, `disk`, `transfer`, `queued`, `scan`, `schedules`, `log`, and `figures` each second",
        body: &[],
        query: &[],
        reply: (200, "text/event-stream", "changes, until the client is too slow or leaves"),
        errors: &[503],
    },
    Route {
        method: "GET",
        path: "/api/v1/openapi.json",
        call: Call::OpenApi,
        summary: "This document",
        body: &[],
        query: &[],
        reply: (200, JSON, "OpenAPI 3.1"),
        errors: &[],
    },
    Route {
        method: "GET",
        path: "/metrics",
        call: Call::Metrics,
        summary: "Counters in the format of Prometheus; requires no token",
        body: &[],
        query: &[],
        reply: (200, crate::metrics::CONTENT_TYPE_TEXT, "counters"),
        errors: &[],
    },
];

/// The OpenAPI document of [`ROUTES`].
pub(super) fn openapi() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let of_path = paths.entry(route.path).or_insert_with(|| json!({}));
        of_path[route.method.to_ascii_lowercase()] = operation(route);
    }
    let error = json!({
        "type": "object",
        "properties": { "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": { "type": "string" },
                "message": { "type": "string" },
                "hint": { "type": ["string", "null"] },
            },
        } },
    });
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Skyhaul station", "version": "1" },
        "paths": paths,
        "components": {
            "schemas": { "Error": error },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let in_path = route
        .path
        .contains("{name}")
        .then(|| json!({ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = route.query.iter().map(|(name, kind, text)| {
        json!({ "name": name, "in": "query", "description": text, "schema": { "type": kind } })
    });
    let (status, content, text) = route.reply;
    let mut responses = Map::new();
    responses.insert(status.to_string(), json!({ "description": text, "content": { content: {} } }));
    let always: &[u16] = if route.call == Call::Metrics { &[] } else { &[401, 403] };
    for status in always.iter().chain(route.errors) {
        let schema = json!({ "$ref": "#/components/schemas/Error" });
        let error = json!({ "description": "refused", "content": { JSON: { "schema": schema } } });
        responses.insert(status.to_string(), error);
    }
    let security = if route.call == Call::Metrics { json!([]) } else { json!([{ "token": [] }, {}]) };
    let mut operation = json!({
        "operationId": format!("{:?}", route.call).to_ascii_lowercase(),
        "summary": route.summary,
        "security": security,
        "parameters": in_path.into_iter().chain(in_query).collect::<Vec<_>>(),
        "responses": responses,
    });
    if !route.body.is_empty() {
        let required: Vec<_> = route.body.iter().filter(|field| field.2).map(|field| field.0).collect();
        let field = |(name, kind, _, text): &(&str, &str, bool, &str)| {
            ((*name).to_owned(), json!({ "type": kind, "description": text }))
        };
        operation["requestBody"] = json!({
            "required": !required.is_empty(),
            "content": { JSON: { "schema": {
                "type": "object",
                "required": required,
                "additionalProperties": false,
                "properties": route.body.iter().map(field).collect::<Map<_, _>>(),
            } } },
        });
    }
    operation
}
