//! Converts messages of the protocol to and from proto3 JSON.
//!
//! The names of fields come from the compiled definition of the protocol, so there are no second types.

pub use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::sync::LazyLock;

/// The compiled definition of the protocol; a test checks that it is current.
static DEFINITION: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(&include_bytes!("../../proto/loadbalancer.bin")[..]).ok());

/// Why a message cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// The input is not such a message.
    #[error("the request is not a {0}: {1}")]
    Request(String, String),
    /// It is not a message of the protocol: a bug in this program.
    #[error("internal error: the message is not a {0}: {1}")]
    Fault(String, String),
}

/// Returns the message called `name` in the definition as JSON with all its fields.
///
/// # Errors
/// `message` is not such a message.
pub fn text<R: Message>(name: &str, message: &R) -> Result<String, JsonError> {
    written(name, message, &SerializeOptions::new().skip_default_fields(false))
}

/// The same, with 64-bit integers and enumerations as numbers.
pub(super) fn plain<R: Message>(name: &str, message: &R) -> Result<String, JsonError> {
    let options = SerializeOptions::new().skip_default_fields(false);
    written(name, message, &options.stringify_64_bit_integers(false).use_enum_numbers(true))
}

fn written<R: Message>(name: &str, message: &R, options: &SerializeOptions) -> Result<String, JsonError> {
    let fault = |error: &dyn Display| JsonError::Fault(name.to_owned(), error.to_string());
    let message = DynamicMessage::decode(descriptor(name)?, &message.encode_to_vec()[..])
        .map_err(|error| fault(&error))?;
    let mut text = Vec::new();
    message
        .serialize_with_options(&mut serde_json::Serializer::new(&mut text), options)
        .map_err(|error| fault(&error))?;
    String::from_utf8(text).map_err(|error| fault(&error))
}

/// Returns the message called `name` in the definition from its fields. An unknown field is an error.
pub(super) fn read<Q: Message + Default>(name: &str, fields: Map<String, Value>) -> Result<Q, JsonError> {
    let wrong = |error: &dyn Display| JsonError::Request(name.to_owned(), error.to_string());
    let message = DynamicMessage::deserialize(descriptor(name)?, Value::Object(fields))
        .map_err(|error| wrong(&error))?;
    Q::decode(&message.encode_to_vec()[..]).map_err(|error| wrong(&error))
}

fn descriptor(name: &str) -> Result<MessageDescriptor, JsonError> {
    let found =
        DEFINITION.as_ref().and_then(|pool| pool.get_message_by_name(&format!("loadbalancer.{name}")));
    found.ok_or_else(|| JsonError::Fault(name.to_owned(), "the definition has none".to_owned()))
}
