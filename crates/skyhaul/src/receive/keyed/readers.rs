//! Readers of a stream, independent of the kind of its objects.

use super::config::TcpReaderOptions;
use super::connections::Connections;
use super::fed::FedReader;
use super::input::Bytes;
use super::recorded::Recorded;
use super::state::StreamState;
use super::store::Store;
use super::tcp::Pieces;
use crate::control::{Answering, Gauge};
use crate::inproc::InprocQueue;
use crate::recording;
use skyhaul_core::wire::end_of;
use skyhaul_io::address::Endpoint;
use skyhaul_io::pcap::PcapSource;
use skyhaul_io::source::Source;
use skyhaul_io::tcp::TcpPort;
use skyhaul_io::udp::{UdpOptions, UdpSource};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A stream, stopped when this is dropped.
pub(crate) struct Readers<S: Store> {
    pub(crate) core: Arc<StreamState<S>>,
}

impl<S: Store> Readers<S> {
    pub(crate) fn new(core: StreamState<S>) -> Self {
        Self { core: Arc::new(core) }
    }

    pub(crate) fn add_udp(&self, at: &Endpoint, options: &UdpOptions) -> io::Result<SocketAddr> {
        self.udp(UdpSource::open(at, options)?)
    }

    pub(crate) fn add_udp_answering(&self, at: &Endpoint, options: &UdpOptions) -> io::Result<SocketAddr> {
        self.answering(UdpSource::open(at, options)?)
    }

    pub(crate) fn add_udp_socket_answering(
        &self,
        socket: OwnedFd,
        options: &UdpOptions,
    ) -> io::Result<SocketAddr> {
        self.answering(UdpSource::from_fd(socket, options)?)
    }

    fn answering(&self, source: UdpSource) -> io::Result<SocketAddr> {
        let (local, gauge) = (source.local(), Arc::new(Gauge::default()));
        let source: Box<dyn Source> = Box::new(Answering::new(source, gauge.clone())?);
        FedReader::spawn(&self.core, format!("udp://{local}"), false, Some(gauge), source)?;
        Ok(local)
    }

    pub(crate) fn add_udp_socket(&self, socket: OwnedFd, options: &UdpOptions) -> io::Result<SocketAddr> {
        self.udp(UdpSource::from_fd(socket, options)?)
    }

    pub(crate) fn add_tcp(&self, at: &Endpoint, options: &TcpReaderOptions) -> io::Result<SocketAddr> {
        self.tcp(TcpPort::open(at)?, options)
    }

    pub(crate) fn add_tcp_socket(&self, fd: OwnedFd, options: &TcpReaderOptions) -> io::Result<SocketAddr> {
        self.tcp(TcpPort::from_fd(fd)?, options)
    }

    fn tcp(&self, port: TcpPort, options: &TcpReaderOptions) -> io::Result<SocketAddr> {
        let local = port.local();
        FedReader::spawn(
            &self.core,
            format!("tcp://{local}"),
            true,
            None,
            Pieces::new(port, options, &self.core),
        )?;
        Ok(local)
    }

    /// TCP connections, of which some may stand already, for whoever polls them.
    pub(crate) fn connections(
        &self,
        name: String,
        port: TcpPort,
        options: &TcpReaderOptions,
    ) -> Connections<S> {
        Connections::new(&self.core, name, Pieces::new(port, options, &self.core))
    }

    fn udp(&self, source: UdpSource) -> io::Result<SocketAddr> {
        let local = source.local();
        self.add_source(format!("udp://{local}"), Box::new(source), false)?;
        Ok(local)
    }

    pub(crate) fn add_source(&self, name: String, source: Box<dyn Source>, waits: bool) -> io::Result<()> {
        FedReader::spawn(&self.core, name, waits, None, source)
    }

    pub(crate) fn add_bytes(&self, bytes: impl AsRef<[u8]> + Send + 'static) -> io::Result<()> {
        FedReader::spawn(&self.core, "bytes".into(), true, None, Bytes::new(bytes))
    }

    pub(crate) fn add_recording(&self, name: String, reader: recording::Reader) -> io::Result<()> {
        FedReader::spawn(&self.core, name, true, None, Recorded::new(reader))
    }

    pub(crate) fn add_pcap(&self, path: &Path, port: Option<u16>) -> io::Result<()> {
        let source = PcapSource::open(path, port)?.cut(end_of::<S::Wire>);
        self.add_source(path.display().to_string(), Box::new(source), true)
    }

    pub(crate) fn add_inproc(&self, queue: InprocQueue) -> io::Result<()> {
        self.add_source("inproc".into(), Box::new(queue), true)
    }
}

impl<S: Store> Drop for Readers<S> {
    fn drop(&mut self) {
        self.core.stop();
    }
}

/// The methods that every kind of stream has; `self.readers` is its [`Readers`].
macro_rules! reader_methods {
    () => {
        /// Read a UDP port or multicast group. Returns the address, with the port the system chose.
        ///
        /// # Errors
        /// If the address cannot be opened; the error has the operation, the address and a hint.
        pub fn add_udp(&self, at: &Endpoint, options: &UdpOptions) -> io::Result<SocketAddr> {
            self.readers.add_udp(at, options)
        }

        /// The same, and send feedback to senders that request it ([`control`](crate::control)): losses here, including
        /// lack of memory and a full ring, then slow them down. Unicast only.
        ///
        /// # Errors
        /// If the address cannot be opened; the error has the operation, the address and a hint.
        pub fn add_udp_answering(&self, at: &Endpoint, options: &UdpOptions) -> io::Result<SocketAddr> {
            self.readers.add_udp_answering(at, options)
        }

        /// Read a bound UDP socket that was made elsewhere.
        ///
        /// # Errors
        /// If it is not a bound UDP socket, or a system call fails; the error names the operation and the address.
        pub fn add_udp_socket(&self, socket: OwnedFd, options: &UdpOptions) -> io::Result<SocketAddr> {
            self.readers.add_udp_socket(socket, options)
        }

        /// The same with feedback, as [`add_udp_answering`](Self::add_udp_answering).
        ///
        /// # Errors
        /// If it is not a bound UDP socket, or a system call fails; the error names the operation and the address.
        pub fn add_udp_socket_answering(
            &self,
            socket: OwnedFd,
            options: &UdpOptions,
        ) -> io::Result<SocketAddr> {
            self.readers.add_udp_socket_answering(socket, options)
        }

        /// Listen for TCP connections with consecutive packets of any length. Returns the address.
        ///
        /// # Errors
        /// If the address cannot be opened; the error has the operation, the address and a hint.
        pub fn add_tcp(&self, at: &Endpoint, options: &TcpReaderOptions) -> io::Result<SocketAddr> {
            self.readers.add_tcp(at, options)
        }

        /// The same with a TCP socket that was made elsewhere, listening or connected.
        ///
        /// # Errors
        /// If it is neither, or a system call fails; the error names the operation and the address.
        pub fn add_tcp_socket(&self, socket: OwnedFd, options: &TcpReaderOptions) -> io::Result<SocketAddr> {
            self.readers.add_tcp_socket(socket, options)
        }

        /// Read any source of packets. `can_be_held`: it loses nothing while it is not read.
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_source(&self, name: &str, source: Box<dyn Source>, can_be_held: bool) -> io::Result<()> {
            self.readers.add_source(name.to_owned(), source, can_be_held)
        }

        /// Read consecutive packets in memory.
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_bytes(&self, bytes: impl AsRef<[u8]> + Send + 'static) -> io::Result<()> {
            self.readers.add_bytes(bytes)
        }

        /// Read the packets of a recording, called `name` in reports. Gaps are in the reader's
        /// [`Account`](crate::recording::Account).
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_recording(&self, name: &str, reader: crate::recording::Reader) -> io::Result<()> {
            self.readers.add_recording(name.to_owned(), reader)
        }

        /// Read a capture: UDP packets to `port`, or all. Unsegmented trains (GSO, GRO) are split.
        ///
        /// # Errors
        /// If the file cannot be read, or is not a capture.
        pub fn add_pcap(&self, path: &Path, port: Option<u16>) -> io::Result<()> {
            self.readers.add_pcap(path, port)
        }

        /// Read an in-process queue until it is closed and empty.
        ///
        /// # Errors
        /// If no thread can be started.
        pub fn add_inproc(&self, queue: InprocQueue) -> io::Result<()> {
            self.readers.add_inproc(queue)
        }

        /// Start the readers, if the configuration has `explicit_start`.
        pub fn start(&self) {
            self.readers.core.start();
        }

        /// End the stream: sockets close, heaps under construction are delivered as they are, and waiting calls return.
        /// Returns when all readers have ended, within some tens of milliseconds.
        pub fn stop(&self) {
            self.readers.core.stop();
        }

        /// Wait until every reader has ended by itself. Heaps may still be queued.
        pub fn join(&self) {
            self.readers.core.join();
        }

        /// Why it ended, if it has.
        #[must_use]
        pub fn ended(&self) -> Option<Ended> {
            self.readers.core.table().ended()
        }

        /// All counters, in total and per reader.
        #[must_use]
        pub fn stats(&self) -> Stats {
            self.readers.core.stats()
        }
    };
}
pub(crate) use reader_methods;
