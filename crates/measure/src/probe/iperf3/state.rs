//! The states that both ends tell each other, one octet each, and the numbers of errors.

/// A state, as it goes over the control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    /// All streams are there.
    TestStart = 1,
    /// Data flow.
    TestRunning = 2,
    /// The client has had enough.
    TestEnd = 4,
    /// The client sends its parameters.
    ParamExchange = 9,
    /// The client opens its streams.
    CreateStreams = 10,
    /// The server ends the test.
    ServerTerminate = 11,
    /// The client ends the test.
    ClientTerminate = 12,
    /// Both send their results, the client first.
    ExchangeResults = 13,
    /// Both have them.
    DisplayResults = 14,
    /// Idle.
    IperfStart = 15,
    /// The end.
    IperfDone = 16,
    /// The server is busy.
    AccessDenied = -1,
    /// The server failed: the number of its error and that of the system follow, 4 octets each.
    ServerError = -2,
}

impl State {
    const ALL: [Self; 13] = [
        Self::TestStart,
        Self::TestRunning,
        Self::TestEnd,
        Self::ParamExchange,
        Self::CreateStreams,
        Self::ServerTerminate,
        Self::ClientTerminate,
        Self::ExchangeResults,
        Self::DisplayResults,
        Self::IperfStart,
        Self::IperfDone,
        Self::AccessDenied,
        Self::ServerError,
    ];

    /// Read an octet.
    #[must_use]
    pub fn read(octet: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.octet() == octet)
    }

    /// Write it.
    #[must_use]
    pub const fn octet(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Numbers of errors that a server sends, as iperf3 counts them.
pub mod code {
    /// The test is too long.
    pub const DURATION: u32 = 5;
    /// Too many streams.
    pub const STREAMS: u32 = 6;
    /// The blocks are too long.
    pub const BLOCK: u32 = 7;
    /// The window is too large.
    pub const WINDOW: u32 = 8;
    /// The segment is too long.
    pub const SEGMENT: u32 = 10;
    /// The omitted time is too long.
    pub const OMIT: u32 = 12;
    /// Not implemented.
    pub const UNKNOWN: u32 = 13;
    /// The datagrams are too long or too short.
    pub const DATAGRAM: u32 = 20;
    /// The rate exceeds what the server allows.
    pub const RATE: u32 = 27;
    /// The test is longer than the server allows.
    pub const TOO_LONG_HERE: u32 = 37;
    /// A stream did not come.
    pub const ACCEPT: u32 = 104;
    /// Parameters that cannot be read.
    pub const PARAMETERS: u32 = 114;
    /// Results that cannot be read.
    pub const RESULTS: u32 = 117;
    /// The congestion control is not there.
    pub const CONGESTION: u32 = 134;
    /// Nothing came for too long.
    pub const SILENT: u32 = 144;

    /// What iperf3 says of it.
    #[must_use]
    pub fn text(code: u32) -> &'static str {
        match code {
            DURATION => "the test is too long",
            STREAMS => "too many streams",
            BLOCK => "the blocks are too long",
            WINDOW => "the window is too large",
            SEGMENT => "the largest segment is too large",
            OMIT => "the omitted time is too long",
            UNKNOWN => "not implemented there",
            DATAGRAM => "the datagrams are too long or too short",
            RATE => "the rate exceeds the server's limit",
            TOO_LONG_HERE => "the test is longer than the server allows",
            ACCEPT => "a stream did not come",
            PARAMETERS => "the parameters could not be read",
            RESULTS => "the results could not be read",
            CONGESTION => "the congestion control is not there",
            SILENT => "nothing came for too long",
            142 => "the test needs a user name and password",
            160 => "the time of the test was over",
            _ => "an error of iperf3",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_the_octets_of_iperf3() {
        for octet in 0..=255 {
            if let Some(state) = State::read(octet) {
                assert_eq!(state.octet(), octet);
            }
        }
        assert_eq!(State::read(0xFF), Some(State::AccessDenied));
        assert_eq!(State::read(0xFE), Some(State::ServerError));
        assert_eq!((State::read(3), State::read(0)), (None, None));
    }
}
