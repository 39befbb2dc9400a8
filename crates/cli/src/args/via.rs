//! Arguments of `copy --via`: copies that a transfer service carries out.

use super::limits::from_to;
use clap::{Args, ValueEnum, ValueHint};
use skyhaul::core::hint::Hint;
use skyhaul_daemon::web_copy::fts::FtsJobId;
use std::path::PathBuf;
use std::str::FromStr;

/// A transfer service.
const VIA: &str = "Copy by a transfer service (--via)";

#[derive(Args, Debug)]
pub(crate) struct ViaArgs {
    /// Submit the copy to an FTS server, which has the storage at both ends carry it out: `URL... URL`. Prints the number of the job
    #[arg(long, group = "between", value_name = "fts=URL", help_heading = VIA)]
    pub(crate) via: Option<FtsServer>,
    /// Follow the job to its end. Ctrl-C stops following; the job continues at the server
    #[arg(long, requires = "via", help_heading = VIA)]
    pub(crate) wait: bool,
    /// Show a job that was submitted before; with --wait, follow it
    #[arg(long, value_name = "ID", requires = "via", conflicts_with_all = ["paths", "dry_run"], help_heading = VIA)]
    pub(crate) job: Option<FtsJobId>,
    /// Cancel this job
    #[arg(long, requires = "job", conflicts_with_all = ["wait", "paths", "dry_run", "checksum", "checksum_mode", "retry", "priority", "activity"], help_heading = VIA)]
    pub(crate) cancel: bool,
    /// File with the bearer token for the FTS server, if it is not that of --token-file, which storage gets
    #[arg(long, value_name = "FILE", requires = "via", value_hint = ValueHint::FilePath, help_heading = VIA)]
    pub(crate) via_token_file: Option<PathBuf>,
    /// Checksum that FTS compares, or that of the one file with its value, such as ADLER32:03da0195 [default: ADLER32]
    #[arg(long, value_name = "ALGORITHM[:VALUE]", requires = "via", conflicts_with = "job", help_heading = VIA)]
    pub(crate) checksum: Option<String>,
    /// Ends whose checksum FTS compares [default: both]
    #[arg(long, value_enum, requires = "via", conflicts_with = "job", help_heading = VIA)]
    pub(crate) checksum_mode: Option<ChecksumModeArg>,
    /// Times that FTS tries a file again; 0 for none [default: as the server is configured]
    #[arg(long, value_name = "N", requires = "via", conflicts_with = "job", value_parser = from_to::<u16>(0, 100, "3 is usual"), help_heading = VIA)]
    pub(crate) retry: Option<u16>,
    /// Priority among jobs of the same users, 1 to 5; 5 begins first [default: as the server is configured]
    #[arg(long, value_name = "N", requires = "via", conflicts_with = "job", value_parser = from_to::<u8>(1, 5, "3 is usual"), help_heading = VIA)]
    pub(crate) priority: Option<u8>,
    /// Activity, to which FTS gives a share of the transfers of an experiment [default: default]
    #[arg(long, value_name = "NAME", requires = "via", conflicts_with = "job", help_heading = VIA)]
    pub(crate) activity: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumModeArg {
    /// Source with destination
    Both,
    /// Source with the value of --checksum
    Source,
    /// Destination with the value of --checksum
    Target,
    /// Sizes only
    None,
}

/// The URL of an FTS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FtsServer(pub(crate) String);

impl FromStr for FtsServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("fts=") {
            Some(url) if url.contains("://") => Ok(Self(url.to_owned())),
            _ => Err(format!("expected fts=URL; got {text}{}", Hint("such as fts=https://fts.example:8446"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{ConfigPaths, Parsed, Verb, parse};

    /// Whether a line is taken, and else why not.
    fn of(line: &str) -> Result<(), String> {
        let words = ["skyhaul", "copy"].into_iter().chain(line.split(' '));
        match parse(words, &ConfigPaths::default()) {
            Ok(Parsed::Run(cli)) => {
                assert!(matches!(cli.verb, Verb::Copy(_)));
                Ok(())
            }
            Ok(_) => panic!("{line}"),
            Err(error) => Err(format!("{error:#}")),
        }
    }

    #[test]
    fn options_of_a_transfer_service_need_one_and_those_of_a_job_no_urls() {
        let fts = "--via fts=https://fts.example:8446";
        let job = "--job 9fee8c1e-c46d-11e3-8299-02163e00a17a";
        for line in [
            format!(
                "{fts} https://a/x https://b/x --wait --retry 0 --priority 5 --checksum-mode none --activity a"
            ),
            format!("{fts} https://a/x https://b/x --source-token-file s --via-token-file v --scitag 449"),
            format!("{fts} {job}"),
            format!("{fts} {job} --wait"),
            format!("{fts} {job} --cancel"),
        ] {
            assert_eq!(of(&line), Ok(()), "{line}");
        }
        for (line, why) in [
            ("https://a/x https://b/x --wait".to_owned(), "--via"),
            ("https://a/x https://b/x --checksum MD5".to_owned(), "--via"),
            ("https://a/x https://b/x --source-token-file s".to_owned(), "--via"),
            (job.to_owned(), "--via"),
            (fts.to_owned(), "SRC"),
            (format!("{fts} {job} https://a/x https://b/x"), "cannot be used with"),
            (format!("{fts} {job} --wait --cancel"), "cannot be used with"),
            (format!("{fts} {job} --retry 3"), "cannot be used with"),
            (format!("{fts} https://a/x https://b/x --cancel"), "cannot be used with"),
            (format!("{fts} --cancel"), "--job"),
            (format!("{fts} --job 7"), "the number of a job"),
            (format!("{fts} https://a/x https://b/x --priority 6"), "from 1 to 5"),
            ("--via https://fts.example https://a/x https://b/x".to_owned(), "expected fts=URL"),
        ] {
            let said = of(&line).expect_err(&line);
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
