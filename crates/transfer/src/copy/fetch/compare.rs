//! Checksums beside those of the server: of files that have come, and of those that are there already.

use super::super::destination::{self, Verdict};
use super::super::flows::{Check, WriteOrder};
use super::super::message::Exists;
use super::super::target::Target;
use super::Fetcher;
use super::server::DigestMismatch;
use super::work::Work;
use skyhaul_core::hint::Hint;
use std::io;
use std::sync::Arc;

impl Fetcher<'_> {
    /// All ranges of a file have come.
    pub(super) fn complete(&mut self, number: usize) {
        let (file, state) = (&self.files[number], &mut self.states[number]);
        let order = match (file.crc32c, file.adler32) {
            (Some(crc), _) => WriteOrder::Sent { file: number, digest: Some(crc) },
            (None, Some(expected)) => {
                let ranges = file.size.div_ceil(self.shared.tuning.range);
                match self.workers.adler32(number, ranges) {
                    Some(found) if found == expected => WriteOrder::Sent { file: number, digest: None },
                    found => {
                        let found = found.unwrap_or_default();
                        let error = format!(
                            "CHECKSUM MISMATCH: Adler-32 {expected:08x} at the source, {found:08x} arrived"
                        );
                        WriteOrder::Spoiled { file: number, error }
                    }
                }
            }
            (None, None) if self.workers.is_ordered(number) => {
                match self.workers.compare(number, file.size.div_ceil(self.shared.tuning.range)) {
                    Some(Ok(())) => WriteOrder::Sent { file: number, digest: None },
                    Some(Err(DigestMismatch { expected, found })) => {
                        let error = format!("CHECKSUM MISMATCH: {expected} at the source, {found} arrived");
                        WriteOrder::Spoiled { file: number, error }
                    }
                    None => return self.job(number, Work::SumRest),
                }
            }
            (None, None) if state.is_confirmed => WriteOrder::Sent { file: number, digest: None },
            (None, None) => {
                state.is_confirmed = true;
                return self.job(number, Work::Confirm);
            }
        };
        self.shared.orders.push(order);
    }

    pub(super) fn compare(&mut self, number: usize, target: Arc<Target>) {
        let file = &self.files[number];
        match (file.crc32c, file.adler32) {
            (Some(_), _) => self.shared.checks.push(Check::Whole { file: number, target }),
            (None, Some(_)) => self.job(number, Work::SumFile),
            (None, None) if self.workers.is_ordered(number) => self.job(number, Work::SumFile),
            (None, None) if self.rules.exists == Exists::Replace && !self.rules.verify => {
                self.wanted_again(number, target);
            }
            (None, None) => {
                let hint = Hint("--exists replace overwrites it, --exists skip keeps it");
                let hint = if self.rules.verify { String::new() } else { hint.to_string() };
                let text = format!(
                    "a file of the same size is there, and the server gives no checksum to compare it by{hint}"
                );
                self.failed(number, text);
            }
        }
    }

    /// The file that is there is that of the server, or why not; or it cannot be read.
    pub(super) fn compared(&mut self, number: usize, found: Result<Result<(), DigestMismatch>, String>) {
        match found {
            Ok(Ok(())) => {
                let crc = self.files[number].crc32c;
                self.shared.files.end(number);
                self.workers.forget(number);
                self.kept(number, crc);
            }
            Ok(Err(DigestMismatch { expected, found })) if self.rules.verify => {
                let text = format!("differs: {expected} at the source, {found} at the destination");
                self.failed(number, text);
            }
            Ok(Err(_)) if self.rules.exists == Exists::Replace => {
                match self.shared.files.find(number as u64) {
                    Ok(target) => self.wanted_again(number, target),
                    Err(why) => self.failed(number, &io::Error::from(why)),
                }
            }
            Ok(Err(_)) => self.failed(number, destination::differs().to_string()),
            Err(error) => self.failed(number, format!("cannot be read at the destination: {error}")),
        }
    }

    fn wanted_again(&mut self, number: usize, target: Arc<Target>) {
        match destination::wanted(target) {
            Ok(Verdict::Check(target)) => self.shared.checks.push(Check::Part { file: number, target }),
            Ok(Verdict::Wanted(target)) => self.want(number, &target),
            Ok(_) => {}
            Err(error) => self.failed(number, &error),
        }
    }
}
