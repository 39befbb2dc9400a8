//! What is served to other hosts, by whichever protocol: directories, uploads into them, and closed recordings as files.
//!
//! | module | contents |
//! |---|---|
//! | `roots` | directories, and uploads that have no name until they are whole |
//! | `continued` | uploads by PUT that broke off and that their client continues |
//! | `part` | parts of uploads that wait to be continued |
//! | `resumable` | uploads of etransfer that a later connection continues |
//! | `recordings` | closed recordings as files that do not change |
//! | `space` | the space of file systems |
//! | `sums`, `summing` | digests of recordings as they are kept; the thread that computes them |
//! | `object` | a file or a recording that is sent |

pub(crate) mod continued;
pub(crate) mod object;
pub(crate) mod part;
pub(crate) mod recordings;
pub(crate) mod resumable;
pub(crate) mod roots;
pub(crate) mod space;
pub(crate) mod summing;
pub(crate) mod sums;
