//! Fields of a JSON object, by their types.

use super::error::NotAFleetValue;
use serde_json::{Map, Value};
use skyhaul::time::{parse, parse_exact};
use skyhaul_core::fleet::FleetName;
use skyhaul_core::station::UnixMillis;

/// The fields of an object. A field that is missing, or `null`, is absent.
pub(super) struct Fields<'a>(pub(super) &'a Map<String, Value>);

type Read<T> = Result<T, NotAFleetValue>;

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn if_any<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Read<Option<T>> {
        let wrong = NotAFleetValue::Field { name, expected };
        self.get(name).map(|value| read(value).ok_or(wrong)).transpose()
    }

    fn required<T>(
        &self,
        name: &'static str,
        expected: &'static str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Read<T> {
        self.if_any(name, expected, read)?.ok_or(NotAFleetValue::Field { name, expected })
    }

    pub(super) fn text(&self, name: &'static str) -> Read<String> {
        self.required(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn text_if_any(&self, name: &'static str) -> Read<Option<String>> {
        self.if_any(name, "a text", |value| value.as_str().map(str::to_owned))
    }

    pub(super) fn texts(&self, name: &'static str) -> Read<Vec<String>> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        self.required(name, "a list of texts", |value| value.as_array()?.iter().map(text).collect())
    }

    pub(super) fn name(&self, name: &'static str) -> Read<FleetName> {
        self.required(name, "a name", |value| FleetName::new(value.as_str()?).ok())
    }

    pub(super) fn number(&self, name: &'static str) -> Read<u64> {
        self.required(name, "a number", Value::as_u64)
    }

    pub(super) fn small(&self, name: &'static str) -> Read<u32> {
        self.required(name, "a number", |value| u32::try_from(value.as_u64()?).ok())
    }

    pub(super) fn number_if_any(&self, name: &'static str) -> Read<Option<u64>> {
        self.if_any(name, "a number", Value::as_u64)
    }

    pub(super) fn flag_if_any(&self, name: &'static str) -> Read<Option<bool>> {
        self.if_any(name, "true or false", Value::as_bool)
    }

    pub(super) fn signed_if_any(&self, name: &'static str) -> Read<Option<i64>> {
        self.if_any(name, "a number", Value::as_i64)
    }

    pub(super) fn fraction_if_any(&self, name: &'static str) -> Read<Option<f64>> {
        let fraction = |value: &Value| value.as_f64().filter(|part| (0.0..=1.0).contains(part));
        self.if_any(name, "a number from 0 to 1", fraction)
    }

    pub(super) fn sum_if_any(&self, name: &'static str) -> Read<Option<u32>> {
        let sum = |text: &str| (text.len() == 8).then(|| u32::from_str_radix(text, 16).ok()).flatten();
        self.if_any(name, "8 hexadecimal digits", |value| sum(value.as_str()?))
    }

    pub(super) fn seconds_if_any(&self, name: &'static str) -> Read<Option<i64>> {
        self.if_any(name, "a time, such as 2026-11-29T12:00:00Z", |value| parse(value.as_str()?).ok())
    }

    pub(super) fn millis(&self, name: &'static str) -> Read<UnixMillis> {
        let millis = |text: &str| i64::try_from(parse_exact(text).ok()?.div_euclid(1_000_000)).ok();
        let read = |value: &'a Value| millis(value.as_str()?).map(UnixMillis);
        self.required(name, "a time, such as 2026-11-29T12:00:00Z", read)
    }

    pub(super) fn position(&self, name: &'static str) -> Read<Option<[f64; 3]>> {
        let position = |value: &Value| {
            let all: Option<Vec<f64>> = value.as_array()?.iter().map(Value::as_f64).collect();
            all?.try_into().ok()
        };
        self.if_any(name, "three numbers", position)
    }

    pub(super) fn object_if_any(&self, name: &'static str) -> Read<Option<&'a Map<String, Value>>> {
        self.if_any(name, "an object", Value::as_object)
    }

    pub(super) fn one_of<T: Copy>(
        &self,
        name: &'static str,
        expected: &'static str,
        all: &[T],
        text: fn(T) -> &'static str,
    ) -> Read<T> {
        let find = |value: &Value| {
            let given = value.as_str()?;
            all.iter().copied().find(|one| text(*one) == given)
        };
        self.required(name, expected, find)
    }
}
