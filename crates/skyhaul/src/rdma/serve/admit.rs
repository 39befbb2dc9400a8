//! Who is accepted, and when.

use super::super::address::RegionSpec;
use super::super::report::ConnectionReport;
use super::{Applicant, RdmaServer, Region};
use skyhaul_core::wire::rdma::RdmaRefusal;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time that a peer waits to be accepted while its program is loaded. Then it has none: it gives up after five seconds.
const LOADING: Duration = Duration::from_secs(3);

impl RdmaServer {
    pub(super) fn requested(&mut self, connection: u32, peer: SocketAddr, private: &[u8]) -> io::Result<()> {
        self.report.requested += 1;
        let is_it = |region: &Region| region.spec.name.as_bytes() == private && !region.is_invalid;
        let named = self.regions.iter().position(is_it);
        let taken = self.accepted + self.applicants.len() as u64;
        let is_enough = self.options.connections.is_some_and(|most| taken >= most);
        let (Some(region), false) = (named, is_enough) else {
            self.report.rejected += 1;
            return answered(self.driver.endpoint.reject(connection));
        };
        self.applicants.push(Applicant { connection, peer, region, since: Instant::now() });
        Ok(())
    }

    /// Accepts those whose program is there, or who need none, or who have waited long enough.
    pub(super) fn admit(&mut self) -> io::Result<()> {
        for applicant in std::mem::take(&mut self.applicants) {
            let target = self.regions[applicant.region].target();
            if self.regions[applicant.region].is_invalid {
                self.report.rejected += 1;
                answered(self.driver.endpoint.reject(applicant.connection))?;
                continue;
            }
            let is_loading = self.driver.is_loading(applicant.connection, target);
            if is_loading && applicant.since.elapsed() < LOADING {
                self.applicants.push(applicant);
            } else {
                self.accept(&applicant)?;
            }
        }
        Ok(())
    }

    fn accept(&mut self, &Applicant { connection, peer, region, .. }: &Applicant) -> io::Result<()> {
        let region = &self.regions[region];
        let (stag, target, RegionSpec { name, bytes, rights }) = (region.stag, region.target(), &region.spec);
        let (rights, name) = (*rights, name.clone());
        let mut answer = stag.to_be_bytes().to_vec();
        answer.extend(bytes.to_be_bytes());
        answer.push(u8::from(rights.read) | u8::from(rights.write) << 1 | u8::from(rights.invalidate) << 2);
        answered(self.driver.with(|endpoint, context| {
            endpoint.grant(stag, connection, rights)?;
            endpoint.accept(connection, &answer, context)
        }))?;
        // Before the peer hears of it, so that its first Write finds the program.
        self.driver.place_for(peer, connection, target);
        self.accepted += 1;
        self.numbers.insert(connection, self.accepted);
        let report = ConnectionReport { peer: peer.to_string(), region: name, ..ConnectionReport::default() };
        self.open.insert(connection, report);
        self.post_buffers(connection)?;
        Ok(())
    }
}

/// The endpoint has this connection: it has just said so.
fn answered(answer: Result<(), RdmaRefusal>) -> io::Result<()> {
    answer.map_err(|why| io::Error::other(format!("answer a request: {}", why.name())))
}
