//! The keys of a fleet: read in pages, written with conditions.
//!
//! Each call may be sent twice if its first reply was lost, and says the same then: what was written by the first is found by the second,
//! as it has the value and the lease that were to be written.

use super::connection::Connection;
use super::error::{FleetStoreError, StoreProblem};
use super::options::FleetStoreOptions;
use super::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use super::proto::kv_client::KvClient;
use super::proto::maintenance_client::MaintenanceClient;
use super::proto::request_op::Request as Operation;
use super::proto::response_op::Response as OperationReply;
use super::proto::{
    CompactionRequest, Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse,
    RequestOp, StatusRequest, TxnRequest, TxnResponse,
};
use super::runtime::StoreRuntime;
use skyhaul_core::fleet::MAX_VEX_PART_BYTES;
use std::sync::Arc;
use tonic::Code;

/// Maximum length of a key, bytes.
const MAX_KEY_BYTES: usize = 512;
/// Keys of a page; fewer if their values are long.
const PAGE_KEYS: i64 = 256;
/// Maximum length of all values of a list, bytes: what others have written does not fill the memory of this host.
const MAX_LIST_BYTES: usize = 256 << 20;

/// A client of a fleet's store: its calls block, and none waits longer than its deadline. Clones share one connection.
#[derive(Clone, Debug)]
pub struct FleetStore {
    pub(super) connection: Arc<Connection>,
    pub(super) runtime: Arc<StoreRuntime>,
}

/// A key of a fleet's store with its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredValue {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision at which the key was made.
    pub create_revision: i64,
    /// Revision of its last change.
    pub mod_revision: i64,
    /// The lease that it vanishes with; 0: none.
    pub lease: i64,
}

/// All keys with a prefix, at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredList {
    /// The keys in order.
    pub values: Vec<StoredValue>,
    /// The revision of the store.
    pub revision: i64,
    /// Keys and values that were left out: longer than they may be, or no text.
    pub left_out: u64,
}

/// The result of a write under a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConditionalWrite {
    /// It was written.
    Written {
        /// The revision of the key since.
        mod_revision: i64,
        /// The revision at which the key was made.
        create_revision: i64,
    },
    /// The condition did not hold: the key as it is, if it exists.
    Refused(Option<StoredValue>),
}

/// A member of a fleet's store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMemberStatus {
    /// Its URL.
    pub at: String,
    /// Version of etcd.
    pub version: String,
    /// Whether it is the leader.
    pub is_leader: bool,
    /// Whether it knows a leader.
    pub has_leader: bool,
    /// Size of its data, bytes.
    pub data_bytes: i64,
    /// What it reports as wrong: alarms.
    pub problems: Vec<String>,
}

impl StoredValue {
    /// From a message; `None` if key or value are longer than they may be, or the key is no text.
    pub(super) fn read(kv: KeyValue) -> Option<Self> {
        if kv.key.len() > MAX_KEY_BYTES || kv.value.len() > MAX_VEX_PART_BYTES {
            return None;
        }
        Some(Self {
            key: String::from_utf8(kv.key).ok()?,
            value: kv.value,
            create_revision: kv.create_revision,
            mod_revision: kv.mod_revision,
            lease: kv.lease,
        })
    }
}

/// The end of the range of all keys with a prefix.
pub(super) fn range_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        // In UTF-8 no byte is 255; an empty prefix ends nowhere.
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

impl FleetStore {
    /// A client of the store with these members. It connects with the first call.
    ///
    /// # Errors
    /// An address or a file that cannot be used, or no thread can be started.
    pub fn open(options: &FleetStoreOptions) -> Result<Self, FleetStoreError> {
        let connection = Arc::new(Connection::new(options)?);
        let runtime = StoreRuntime::start().map_err(|error| {
            let problem = format!("start a thread: {error}");
            let why = StoreProblem::Unsent { problem, hint: "fewer threads, or raise ulimit -u" };
            FleetStoreError { what: "connect", at: connection.all(), why }
        })?;
        Ok(Self { connection, runtime: Arc::new(runtime) })
    }

    /// Waits for a call.
    pub(super) fn wait<T: Send + 'static>(
        &self,
        what: &'static str,
        call: impl Future<Output = Result<T, FleetStoreError>> + Send + 'static,
    ) -> Result<T, FleetStoreError> {
        self.runtime.wait(call).unwrap_or_else(|| {
            let why = StoreProblem::Unreachable("the call was cancelled".to_owned());
            Err(FleetStoreError { what, at: self.connection.all(), why })
        })
    }

    /// Returns a key with its value, if it exists.
    ///
    /// # Errors
    /// See [`FleetStoreError`].
    pub fn get(&self, key: &str) -> Result<Option<StoredValue>, FleetStoreError> {
        let request = RangeRequest { key: key.as_bytes().to_vec(), ..RangeRequest::default() };
        let connection = Arc::clone(&self.connection);
        let reply = self.wait("read a key", async move {
            let call = |channel, request| async move { KvClient::new(channel).range(request).await };
            connection.call("read a key", request, call).await
        })?;
        Ok(reply.kvs.into_iter().find_map(StoredValue::read))
    }

    /// Returns all keys with a prefix, at most `max_keys`, read in pages at one revision.
    ///
    /// # Errors
    /// There are more keys; or see [`FleetStoreError`].
    pub fn list(&self, prefix: &str, max_keys: usize) -> Result<StoredList, FleetStoreError> {
        let (connection, prefix) = (Arc::clone(&self.connection), prefix.to_owned());
        self.wait("list keys", async move { list(&connection, &prefix, max_keys).await })
    }

    /// Returns all keys with one of these prefixes, at most `max_keys` with each, all at one revision.
    ///
    /// # Errors
    /// There are more keys, or the revision was compacted meanwhile; or see [`FleetStoreError`].
    pub fn list_all(&self, prefixes: &[String], max_keys: usize) -> Result<StoredList, FleetStoreError> {
        let (connection, prefixes) = (Arc::clone(&self.connection), prefixes.to_vec());
        self.wait("list keys", async move {
            let mut all = StoredList::default();
            for prefix in &prefixes {
                let mut list = StoredList { revision: all.revision, ..StoredList::default() };
                list_into(&connection, prefix, max_keys, &mut list).await?;
                all.revision = list.revision;
                all.left_out += list.left_out;
                all.values.append(&mut list.values);
            }
            Ok(all)
        })
    }

    /// Writes a key, and returns its revision. `lease` is the number of a lease with which it vanishes.
    ///
    /// # Errors
    /// The value is too long; or see [`FleetStoreError`].
    pub fn put(&self, key: &str, value: &[u8], lease: Option<i64>) -> Result<i64, FleetStoreError> {
        let put = self.put_request("write a key", (key, value), lease)?;
        let connection = Arc::clone(&self.connection);
        let reply = self.wait("write a key", async move {
            let call = |channel, request| async move { KvClient::new(channel).put(request).await };
            connection.call("write a key", put, call).await
        })?;
        Ok(reply.header.map_or(0, |header| header.revision))
    }

    /// Writes a key that does not exist.
    ///
    /// # Errors
    /// The value is too long; or see [`FleetStoreError`].
    pub fn put_if_absent(
        &self,
        key: &str,
        value: &[u8],
        lease: Option<i64>,
    ) -> Result<ConditionalWrite, FleetStoreError> {
        self.write_if(created_at(key, 0), (key, value), lease)
    }

    /// Writes a key whose last change was at this revision.
    ///
    /// # Errors
    /// The value is too long; or see [`FleetStoreError`].
    pub fn replace(
        &self,
        key: &str,
        value: &[u8],
        mod_revision: i64,
        lease: Option<i64>,
    ) -> Result<ConditionalWrite, FleetStoreError> {
        self.write_if(changed_at(key, mod_revision), (key, value), lease)
    }

    /// Writes a key if a condition holds.
    pub(super) fn write_if(
        &self,
        condition: Compare,
        (key, value): (&str, &[u8]),
        lease: Option<i64>,
    ) -> Result<ConditionalWrite, FleetStoreError> {
        const WHAT: &str = "write a key";
        let put = self.put_request(WHAT, (key, value), lease)?;
        let read = RangeRequest { key: put.key.clone(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![condition],
            success: vec![
                operation(Operation::RequestPut(put)),
                operation(Operation::RequestRange(read.clone())),
            ],
            failure: vec![operation(Operation::RequestRange(read))],
        };
        let connection = Arc::clone(&self.connection);
        let reply = self.wait(WHAT, async move {
            let call = |channel, request| async move { KvClient::new(channel).txn(request).await };
            connection.call(WHAT, request, call).await
        })?;
        let current = found(reply);
        match current {
            // Also if an earlier attempt has written it, whose reply was lost.
            Some(current) if current.value == value && current.lease == lease.unwrap_or(0) => {
                let (mod_revision, create_revision) = (current.mod_revision, current.create_revision);
                Ok(ConditionalWrite::Written { mod_revision, create_revision })
            }
            current => Ok(ConditionalWrite::Refused(current)),
        }
    }

    /// Deletes a key, and returns whether it existed.
    ///
    /// # Errors
    /// See [`FleetStoreError`].
    pub fn delete(&self, key: &str) -> Result<bool, FleetStoreError> {
        self.delete_with(DeleteRangeRequest { key: key.as_bytes().to_vec(), ..DeleteRangeRequest::default() })
    }

    fn delete_with(&self, request: DeleteRangeRequest) -> Result<bool, FleetStoreError> {
        let connection = Arc::clone(&self.connection);
        let reply = self.wait("delete a key", async move {
            let call = |channel, request| async move { KvClient::new(channel).delete_range(request).await };
            connection.call("delete a key", request, call).await
        })?;
        Ok(reply.deleted > 0)
    }

    /// Deletes a key whose last change was at this revision, and returns whether it is gone.
    ///
    /// # Errors
    /// See [`FleetStoreError`].
    pub fn delete_unchanged(&self, key: &str, mod_revision: i64) -> Result<bool, FleetStoreError> {
        const WHAT: &str = "delete a key";
        let delete = DeleteRangeRequest { key: key.as_bytes().to_vec(), ..DeleteRangeRequest::default() };
        let read = RangeRequest { key: key.as_bytes().to_vec(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![changed_at(key, mod_revision)],
            success: vec![operation(Operation::RequestDeleteRange(delete))],
            failure: vec![operation(Operation::RequestRange(read))],
        };
        let connection = Arc::clone(&self.connection);
        let reply = self.wait(WHAT, async move {
            let call = |channel, request| async move { KvClient::new(channel).txn(request).await };
            connection.call(WHAT, request, call).await
        })?;
        Ok(reply.succeeded || found(reply).is_none())
    }

    /// Has the store forget what keys were before a revision. Watches that were cut before it list again.
    ///
    /// # Errors
    /// See [`FleetStoreError`].
    pub fn compact(&self, revision: i64) -> Result<(), FleetStoreError> {
        let connection = Arc::clone(&self.connection);
        let done = self.wait("compact", async move {
            let request = CompactionRequest { revision, physical: true };
            let call = |channel, request| async move { KvClient::new(channel).compact(request).await };
            connection.call("compact", request, call).await
        });
        match done {
            // By an earlier attempt, or by others.
            Err(FleetStoreError { why: StoreProblem::Compacted, .. }) => Ok(()),
            done => done.map(|_| ()),
        }
    }

    /// Returns the state of each member, in any order. A member that does not reply has its error.
    #[must_use]
    pub fn members(&self) -> Vec<Result<StoreMemberStatus, FleetStoreError>> {
        let connection = Arc::clone(&self.connection);
        let all = async move {
            let ask = |member| {
                let connection = Arc::clone(&connection);
                tokio::spawn(async move { status(&connection, member).await })
            };
            let asked: Vec<_> = (0..connection.members.len()).map(ask).collect();
            let mut all = Vec::new();
            for reply in asked {
                all.extend(reply.await.ok());
            }
            all
        };
        self.runtime.wait(all).unwrap_or_default()
    }

    fn put_request(
        &self,
        what: &'static str,
        (key, value): (&str, &[u8]),
        lease: Option<i64>,
    ) -> Result<PutRequest, FleetStoreError> {
        if key.is_empty() || key.len() > MAX_KEY_BYTES || value.len() > MAX_VEX_PART_BYTES {
            let problem = format!(
                "a key has 1 to {MAX_KEY_BYTES} bytes, a value up to {MAX_VEX_PART_BYTES}; got {} and {}",
                key.len(),
                value.len()
            );
            let why = StoreProblem::Unsent { problem, hint: "divide it into parts" };
            return Err(FleetStoreError { what, at: self.connection.all(), why });
        }
        Ok(PutRequest { key: key.as_bytes().to_vec(), value: value.to_vec(), lease: lease.unwrap_or(0) })
    }
}

async fn status(connection: &Connection, member: usize) -> Result<StoreMemberStatus, FleetStoreError> {
    let reply = connection.ask_member("ask for the status", member, |channel| async move {
        MaintenanceClient::new(channel).status(StatusRequest {}).await
    });
    let (at, reply) = (connection.members[member].at.clone(), reply.await?);
    let member_id = reply.header.map_or(0, |header| header.member_id);
    Ok(StoreMemberStatus {
        at,
        version: reply.version,
        is_leader: reply.leader == member_id && member_id != 0,
        has_leader: reply.leader != 0,
        data_bytes: reply.db_size,
        problems: reply.errors,
    })
}

/// All keys with a prefix at one revision.
pub(super) async fn list(
    connection: &Connection,
    prefix: &str,
    max_keys: usize,
) -> Result<StoredList, FleetStoreError> {
    loop {
        let mut list = StoredList::default();
        match list_into(connection, prefix, max_keys, &mut list).await {
            // It took so long that its first page is of a revision that is forgotten.
            Err(FleetStoreError { why: StoreProblem::Compacted, .. }) => {}
            listed => return listed.map(|()| list),
        }
    }
}

/// Reads all pages at the revision of the list; if it has none, at that of the first page.
async fn list_into(
    connection: &Connection,
    prefix: &str,
    max_keys: usize,
    list: &mut StoredList,
) -> Result<(), FleetStoreError> {
    let (mut limit, mut read, mut key) = (PAGE_KEYS, 0, prefix.as_bytes().to_vec());
    let mut bytes = 0;
    loop {
        let (range_end, revision) = (range_end(prefix), list.revision);
        let request =
            RangeRequest { key: key.clone(), range_end, limit, revision, ..RangeRequest::default() };
        let page: RangeResponse = match connection.call("list keys", request, range).await {
            Ok(page) => page,
            // Longer than a message may be: others write longer values.
            Err(error) if is_too_long(&error) && limit > 1 => {
                limit /= 2;
                continue;
            }
            Err(error) => return Err(error),
        };
        if list.revision == 0 {
            list.revision = page.header.map_or(0, |header| header.revision);
        }
        let (before, count) = (list.values.len(), page.kvs.len());
        read += count;
        bytes += page.kvs.iter().map(|kv| kv.value.len()).sum::<usize>();
        let too_much = match (read > max_keys, bytes > MAX_LIST_BYTES) {
            (true, _) => Some(StoreProblem::TooManyKeys(max_keys)),
            (_, true) => Some(StoreProblem::TooManyBytes(MAX_LIST_BYTES)),
            _ => None,
        };
        if let Some(why) = too_much {
            return Err(FleetStoreError { what: "list keys", at: connection.all(), why });
        }
        let last = page.kvs.last().map(|kv| kv.key.clone()).filter(|_| page.more);
        list.values.extend(page.kvs.into_iter().filter_map(StoredValue::read));
        list.left_out += (count - (list.values.len() - before)) as u64;
        match last {
            None => return Ok(()),
            Some(mut last) => {
                last.push(0);
                key = last;
            }
        }
    }
}

async fn range(
    channel: tonic::transport::Channel,
    request: tonic::Request<RangeRequest>,
) -> Result<tonic::Response<RangeResponse>, tonic::Status> {
    KvClient::new(channel).range(request).await
}

fn is_too_long(error: &FleetStoreError) -> bool {
    matches!(&error.why, StoreProblem::Refused { code: Code::OutOfRange, message } if message.contains("too large"))
}

fn operation(request: Operation) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// The key that a transaction has read at its end.
fn found(reply: TxnResponse) -> Option<StoredValue> {
    let read = reply.responses.into_iter().find_map(|reply| match reply.response {
        Some(OperationReply::ResponseRange(range)) => Some(range),
        _ => None,
    });
    read?.kvs.into_iter().find_map(StoredValue::read)
}

/// The condition that a key was made at this revision; 0: that it does not exist.
pub(super) fn created_at(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.as_bytes().to_vec(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
    }
}

/// The condition that the last change of a key was at this revision.
fn changed_at(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key: key.as_bytes().to_vec(),
        target_union: Some(TargetUnion::ModRevision(revision)),
    }
}
