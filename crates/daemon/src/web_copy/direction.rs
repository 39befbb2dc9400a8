//! Which server of a copy between two is asked, as the user wants it and the URLs permit.

use crate::remote::url::RemoteUrl;
use skyhaul::core::hint::Hint;
use skyhaul_transfer::copy::Exists;
use std::io;

/// Which server is asked to copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyDirection {
    /// The destination fetches; where it cannot copy between servers at all, the source sends.
    #[default]
    Either,
    /// The destination fetches.
    Pull,
    /// The source sends.
    Push,
}

/// Which server is asked. A signature permits one request, GET or PUT: its server is asked for no copy, and not what it has.
pub(super) fn direction(
    asked: CopyDirection,
    exists: Exists,
    from: &RemoteUrl,
    to: &RemoteUrl,
) -> io::Result<CopyDirection> {
    let refused = |text: String, hint: &str| {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{text}{}", Hint(hint))))
    };
    match (from.is_signed(), to.is_signed(), asked) {
        (false, false, asked) => return Ok(asked),
        (true, true, _) => {
            let hint = "download it with `skyhaul copy URL FILE`, and upload it with `skyhaul copy FILE URL`";
            return refused("both URLs are signed: neither server can be asked to copy".to_owned(), hint);
        }
        (true, _, CopyDirection::Push) => {
            let hint = "leave --mode out, or use --mode pull: the destination fetches it";
            return refused(
                format!("{from} is signed for one GET: its server cannot be asked to send"),
                hint,
            );
        }
        (_, true, CopyDirection::Pull) => {
            let hint = "leave --mode out, or use --mode push: the source sends it";
            return refused(format!("{to} is signed for one PUT: its server cannot be asked to fetch"), hint);
        }
        (true, ..) => return Ok(CopyDirection::Pull),
        (_, true, _) => {}
    }
    if from.is_directory() || to.is_directory() {
        let hint = "copy each file to a URL of its own";
        return refused(format!("{to} is signed for one object, and no directory can go there"), hint);
    }
    if exists == Exists::Skip {
        let hint = "leave --exists out: an object that exists makes the copy fail";
        return refused(format!("{to} is signed for one PUT: whether it exists cannot be asked"), hint);
    }
    Ok(CopyDirection::Push)
}
