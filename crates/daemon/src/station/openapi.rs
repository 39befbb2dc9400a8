//! The OpenAPI document, made from the table of calls.

use super::routes::{Call, JSON, ROUTES, Route};
use serde_json::{Map, Value, json};

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
