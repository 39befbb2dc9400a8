//! The two forms of the REST API.
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

use super::super::desk::{Kind, Refusal};
use super::super::json::{JsonError, Message, plain, text};
use serde_json::{Map, Value, json};

/// The prefix of udplbd's paths.
pub(super) const PREFIX: &str = "/api/v1";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Definition,
    Udplbd,
}

impl Dialect {
    /// The dialect of a path.
    pub(super) fn of(path: &str) -> Dialect {
        let rest = path.strip_prefix(PREFIX);
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
            Kind::Unauthenticated if has_token && self == Dialect::Udplbd => {
                Refusal { kind: Kind::Denied, ..refusal }
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
    use super::super::super::proto::{FreeLoadBalancerReply, SlotRange, WorkerStatus};
    use super::*;

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
