//! The end that forwards: tells what it did, and takes tables.

use super::super::data_plane::DataPlane;
use super::super::shared::Planes;
use super::messages::{DONE, END, HELLO, Hello, Outbox, PATIENCE, TABLE, Told, read, write, write_json};
use skyhaul_core::balance::Table;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often planes say what they did.
const PERIOD: Duration = Duration::from_millis(50);
/// How long the socket may take for a part of that.
const BRIEFLY: Duration = Duration::from_millis(1);

impl DataPlane {
    /// Serve controllers at `path`, one after the other, until one says that all is to end, or `stop` is set; then forward what is in the
    /// sockets, and end. Without a controller, packets go on by the last table. So they do while a controller is stopped: it
    /// stays the controller, and is told the newest counts when it reads again.
    ///
    /// # Errors
    /// The socket cannot be made: the error names the path. A file that nobody listens at is replaced. A thread that forwards
    /// has ended by itself: another process is better.
    pub fn serve(mut self, path: &Path, stop: &AtomicBool) -> io::Result<()> {
        let listener = listen(path)?;
        let mut ordered = false;
        while !ordered && !stop.load(Ordering::Acquire) && self.fault().is_none() {
            match listener.accept() {
                Ok((stream, _)) => ordered = self.follow(&listener, &stream, stop).unwrap_or(false),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PERIOD),
                Err(error) => self.shared.note(format!("no controller can connect: {error}")),
            }
        }
        let fault = self.fault().filter(|_| !ordered);
        // As long as it forwards it is found: no other one is started beside it.
        self.end();
        let _ = std::fs::remove_file(path);
        fault.map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    /// Do what one controller says. Returns whether all is to end.
    fn follow(
        &mut self,
        listener: &UnixListener,
        stream: &UnixStream,
        stop: &AtomicBool,
    ) -> io::Result<bool> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (tables, table) = (self.shared.tables(), self.shared.table().to_bytes());
        write_json(stream, HELLO, &Hello { id: self.id, data: self.data.clone(), tables, table })?;
        let (from, shared) = (stream.try_clone()?, Arc::clone(&self.shared));
        let tables = std::thread::Builder::new().name("balance-tables".to_owned());
        let tables = tables.spawn(move || {
            loop {
                match read(&from) {
                    Ok((TABLE, octets)) => match Table::from_bytes(&octets) {
                        Ok(table) => shared.publish(table),
                        Err(error) => shared.note(error.to_string()),
                    },
                    Ok((END, _)) => return true,
                    Ok(_) | Err(_) => return false,
                }
            }
        })?;
        stream.set_write_timeout(Some(BRIEFLY))?;
        let mut out = Outbox::default();
        while !tables.is_finished() && !stop.load(Ordering::Acquire) && self.fault().is_none() {
            std::thread::sleep(PERIOD);
            // A second controller is turned away.
            drop(listener.accept());
            if out.is_empty() {
                let ticks = self.shared.take_ticks();
                out.put_json(DONE, &Told::new(self.shared.merged(), ticks))?;
            }
            if out.flush(stream).is_err() {
                break;
            }
        }
        if !tables.is_finished() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let ordered = tables.join().unwrap_or(false);
        if ordered {
            self.end();
            // It ends also if its controller does not hear of it.
            let _ = self.farewell(stream, &mut out);
        }
        Ok(ordered)
    }

    /// The last counts, after what is still on its way.
    fn farewell(&self, stream: &UnixStream, out: &mut Outbox) -> io::Result<()> {
        stream.set_write_timeout(Some(PATIENCE))?;
        out.flush(stream)?;
        if out.is_empty() {
            let ticks = self.shared.take_ticks();
            write_json(stream, DONE, &Told::new(self.shared.merged(), ticks))?;
            write(stream, END, &[])?;
        }
        Ok(())
    }
}

/// Listen at `path`, where nobody does.
fn listen(path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("listen at {}: {error}", path.display()));
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && UnixStream::connect(path).is_err() => {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        listener => listener,
    };
    let listener = listener.map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}
