//! Reads the fields of a packet, header by header.

use crate::{
    placement::Reject,
    wire::{
        header::{Field, Order},
        vtp::{self, Vtp, VtpBig},
    },
};

/// One field of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The header it is in: "VTP", "VDIF", "EDV 3", "item".
    pub section: &'static str,
    /// The standard's name for it.
    pub name: &'static str,
    /// First byte of its word, from the start of the packet.
    pub byte: usize,
    /// Bytes of its word.
    pub width: usize,
    /// Its lowest bit in the word.
    pub lsb: u32,
    /// How many bits it has.
    pub bits: u32,
    /// Its value.
    pub value: u64,
    /// What the value means, in words and units; may be empty.
    pub meaning: String,
}

/// Why a packet cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The header that cannot be read, or is inconsistent.
    pub layer: &'static str,
    /// Its first byte in the packet.
    pub at: usize,
    /// Bytes needed from there on; 0 if length is not the problem.
    pub needed: usize,
    /// Bytes available.
    pub had: usize,
    /// The reason for which a receiver would reject it.
    pub reason: Reject,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at octet {}: {}", self.layer, self.at, self.reason.name())?;
        if self.needed > 0 { write!(f, ", needs {} octets, has {}", self.needed, self.had) } else { Ok(()) }
    }
}

/// Describes the value of a field, in words and units, from its section, its name, its value and its `header`.
pub type Meaning = fn(section: &str, name: &str, value: u64, header: &[u8]) -> Option<String>;

/// For fields whose number needs no description.
#[must_use]
pub fn number(_: &str, _: &str, _: u64, _: &[u8]) -> Option<String> {
    None
}

/// Reads the fields of a packet.
#[derive(Debug)]
pub struct Reader<'a> {
    packet: &'a [u8],
    at: usize,
    rows: Vec<Row>,
    problem: Option<Problem>,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `packet`.
    #[must_use]
    pub fn new(packet: &'a [u8]) -> Reader<'a> {
        Reader { packet, at: 0, rows: Vec::new(), problem: None }
    }

    /// The fields read, and the first problem.
    #[must_use]
    pub fn finish(self) -> (Vec<Row>, Option<Problem>) {
        (self.rows, self.problem)
    }

    /// The whole packet.
    #[must_use]
    pub fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// The current byte.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The bytes not read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.packet.get(self.at..).unwrap_or_default()
    }

    /// Continue at this byte.
    pub fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Report a problem at the current byte; `needed` bytes if it is the length.
    pub fn fail(&mut self, layer: &'static str, reason: Reject, needed: usize) {
        self.fail_at(self.at, layer, reason, needed);
    }

    /// Report a problem at byte `at`.
    pub fn fail_at(&mut self, at: usize, layer: &'static str, reason: Reject, needed: usize) {
        let had = self.packet.len().saturating_sub(at);
        self.problem(Problem { layer, at, needed, had, reason });
    }

    /// Report a problem. Only the first one is kept.
    pub fn problem(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    /// Add a field of `octets` bytes that is not in a table.
    pub fn row(&mut self, row: Row, octets: usize) {
        self.rows.push(row);
        self.at += octets;
    }

    /// Add all fields of a table that are present. Returns whether the header is complete.
    pub fn table(
        &mut self,
        section: &'static str,
        fields: &[Field],
        length: usize,
        meaning: Meaning,
    ) -> bool {
        let header = self.rest();
        for field in fields {
            let Some(value) = field.value(header) else { break };
            self.rows.push(Row {
                section,
                name: field.name,
                byte: self.at + field.byte,
                width: field.width,
                lsb: field.lsb,
                bits: field.bits,
                value,
                meaning: meaning(section, field.name, value, header).unwrap_or_default(),
            });
        }
        let whole = header.len() >= length;
        if whole {
            self.at += length;
        } else {
            self.fail(section, Reject::Truncated, length);
        }
        whole
    }

    /// Add the sequence number before a frame, if `network` bytes are one.
    pub fn sequence(&mut self, network: usize) {
        if network == Vtp::LEN {
            match vtp::likely_order(self.packet) {
                Order::Little => self.table("VTP", Vtp::FIELDS, Vtp::LEN, number),
                Order::Big => self.table("VTP", VtpBig::FIELDS, VtpBig::LEN, number),
            };
        }
    }
}
