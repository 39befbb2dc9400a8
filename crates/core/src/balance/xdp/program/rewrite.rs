//! Rewrites the packet, counts it and sends it.

use super::super::checksum;
use super::super::image::{CUT, INTERFACE, IP, LINK, MASK, MTU, PORT, WHOLE};
use super::super::maps::MapName;
use super::{
    ABORTED, DATAGRAM, ETHERNET, HEADERS, KEY, LABEL_PORT, LABEL_SUM, NEW_DATAGRAM, OLD_SUM, PERIOD, SEAT,
    SEND_BACK, TICK, UDP, Version, Writer, head,
};
use crate::balance::xdp::image::{NEWEST_AT, PERIOD_AT, SEATS_AT};
use crate::bytecode::{Helper, If, Op, Reg, Reg::*, Width::*};

impl Writer<'_> {
    /// Require that the packet fits the MTU. Keeps the new length of the datagram in `NEW_DATAGRAM`.
    pub(super) fn fits(&mut self) {
        self.asm.load_slot(Double, R1, DATAGRAM);
        self.asm.load(Half, R2, R9, WHOLE);
        let divisible = self.asm.place();
        self.asm.jump_if(If::Equal, R2, 0, divisible);
        self.asm.load(Word, R2, R6, 4);
        self.asm.set(R3, R1);
        self.asm.compute(Op::Add, R3, R7);
        self.asm.compute(Op::Add, R3, self.version.udp() as i32);
        self.asm.jump_if(If::Above, R3, R2, self.pass);
        self.asm.here(divisible);
        self.asm.load(Half, R2, R9, CUT);
        self.asm.compute(Op::Sub, R1, R2);
        self.asm.store_slot(Double, NEW_DATAGRAM, R1);
        self.asm.compute(Op::Add, R1, self.version.header as i32);
        self.asm.load(Half, R2, R9, MTU);
        self.asm.jump_if(If::Above, R1, R2, self.pass);
    }

    /// Write the new IP and UDP headers to `HEADERS`.
    pub(super) fn new_headers(&mut self) {
        let Version { header, source, address } = self.version;
        for at in (0..header + UDP).step_by(4) {
            self.asm.load(Word, R1, R7, ETHERNET + at);
            self.asm.store_slot(Word, HEADERS + at as i16, R1);
        }
        // The packet's destination becomes its source.
        for at in (0..address).step_by(4) {
            self.asm.load(Word, R1, R7, ETHERNET + source + address + at);
            self.asm.store_slot(Word, HEADERS + (source + at) as i16, R1);
            self.asm.load(Word, R1, R9, IP + at);
            self.asm.store_slot(Word, HEADERS + (source + address + at) as i16, R1);
        }
        let ttl = HEADERS + self.version.ttl() as i16;
        self.asm.load_slot(Octet, R1, ttl);
        self.asm.compute(Op::Sub, R1, 1);
        self.asm.store_slot(Octet, ttl, R1);
        self.asm.load_slot(Double, R1, NEW_DATAGRAM);
        self.asm.network(R1, 16);
        self.asm.store_slot(Half, HEADERS + header as i16 + 4, R1);
        self.asm.load_slot(Double, R1, NEW_DATAGRAM);
        let at = if self.version.is_v4() { 2 } else { 4 };
        self.asm.compute(Op::Add, R1, if self.version.is_v4() { 20 } else { 0 });
        self.asm.network(R1, 16);
        self.asm.store_slot(Half, HEADERS + at, R1);
        self.asm.load_slot(Double, R1, LABEL_PORT);
        self.asm.load(Half, R2, R9, MASK);
        self.asm.compute(Op::And, R1, R2);
        self.asm.load(Half, R2, R9, PORT);
        self.asm.compute(Op::Add, R1, R2);
        self.asm.network(R1, 16);
        self.asm.store_slot(Half, HEADERS + header as i16 + 2, R1);
        if self.version.is_v4() {
            self.header_checksum();
        }
        self.datagram_checksum();
    }

    /// Update the checksum of the IPv4 header.
    fn header_checksum(&mut self) {
        self.asm.set(R1, 0);
        checksum::add(self.asm, R1, R7, ETHERNET, 10, R5);
        checksum::add(self.asm, R1, R7, ETHERNET + 12, 8, R5);
        self.asm.set(R3, 0);
        self.sum_slots(R3, HEADERS, 10);
        self.sum_slots(R3, HEADERS + 12, 8);
        self.asm.load(Half, R4, R7, ETHERNET + 10);
        checksum::update(self.asm, R4, R1, R3, R5);
        self.asm.store_slot(Half, HEADERS + 10, R4);
    }

    fn sum_slots(&mut self, sum: Reg, from: i16, octets: i16) {
        for at in (0..octets).step_by(2) {
            self.asm.load_slot(Half, R5, from + at);
            self.asm.compute(Op::Add, sum, R5);
        }
    }

    /// Update the UDP checksum, unless there is none.
    fn datagram_checksum(&mut self) {
        let Version { header, source, address } = self.version;
        let udp = HEADERS + header as i16;
        let none = self.asm.place();
        self.asm.load_slot(Half, R4, udp + 6);
        self.asm.jump_if(If::Equal, R4, 0, none);
        self.asm.set(R3, 0);
        self.sum_slots(R3, HEADERS + source as i16, 2 * address as i16);
        // The length is also part of the pseudo-header.
        self.sum_slots(R3, udp + 4, 2);
        self.sum_slots(R3, udp + 2, 4);
        self.asm.load_slot(Double, R1, OLD_SUM);
        let kept = self.asm.place();
        self.asm.load(Half, R5, R9, CUT);
        self.asm.jump_if(If::Equal, R5, 0, kept);
        self.asm.load_slot(Double, R5, LABEL_SUM);
        self.asm.compute(Op::Add, R1, R5);
        self.asm.here(kept);
        checksum::update(self.asm, R4, R1, R3, R5);
        self.asm.store_slot(Half, udp + 6, R4);
        self.asm.here(none);
    }

    /// Remove the label and write the headers. Until here, the packet is unchanged.
    pub(super) fn rewrite(&mut self) {
        let headers = self.version.header + UDP;
        self.asm.set(R1, R6);
        self.asm.load(Half, R2, R9, CUT);
        self.asm.call(Helper::AdjustHead);
        self.asm.jump_if(If::NotEqual, R0, 0, self.pass);
        let (lost, here) = (self.asm.place(), self.asm.place());
        head(self.asm, ETHERNET + headers, lost);
        self.asm.jump(here);
        // This cannot happen, but the verifier requires the check.
        self.asm.here(lost);
        self.asm.set(R0, ABORTED);
        self.asm.exit();
        self.asm.here(here);
        for at in (0..12).step_by(4) {
            self.asm.load(Word, R1, R9, LINK + at);
            self.asm.store(Word, R7, at, R1);
        }
        self.asm.set(R1, self.version.ether_type());
        self.asm.store(Half, R7, 12, R1);
        for at in (0..headers).step_by(4) {
            self.asm.load_slot(Word, R1, HEADERS + at as i16);
            self.asm.store(Word, R7, ETHERNET + at, R1);
        }
    }

    pub(super) fn count(&mut self) {
        let (done, same) = (self.asm.place(), self.asm.place());
        self.asm.map(R1, MapName::Counts);
        self.asm.set(R2, R10);
        self.asm.compute(Op::Add, R2, i32::from(KEY));
        self.asm.call(Helper::LookUp);
        self.asm.jump_if(If::Equal, R0, 0, done);
        self.asm.load_slot(Double, R1, SEAT);
        self.asm.compute(Op::Left, R1, 4);
        self.asm.compute(Op::Add, R1, R0);
        self.asm.load(Double, R2, R1, SEATS_AT);
        self.asm.compute(Op::Add, R2, 1);
        self.asm.store(Double, R1, SEATS_AT, R2);
        self.asm.load_slot(Double, R3, NEW_DATAGRAM);
        self.asm.compute(Op::Sub, R3, UDP as i32);
        self.asm.load(Double, R2, R1, SEATS_AT + 8);
        self.asm.compute(Op::Add, R2, R3);
        self.asm.store(Double, R1, SEATS_AT + 8, R2);
        // The highest tick of this period.
        let higher = self.asm.place();
        self.asm.load_slot(Double, R2, PERIOD);
        self.asm.load_slot(Double, R3, TICK);
        self.asm.load(Double, R4, R0, PERIOD_AT);
        self.asm.jump_if(If::Equal, R4, R2, same);
        self.asm.store(Double, R0, PERIOD_AT, R2);
        self.asm.jump(higher);
        self.asm.here(same);
        self.asm.load(Double, R4, R0, NEWEST_AT);
        self.asm.jump_if(If::AtMost, R3, R4, done);
        self.asm.here(higher);
        self.asm.store(Double, R0, NEWEST_AT, R3);
        self.asm.here(done);
    }

    pub(super) fn send(&mut self) {
        let redirect = self.asm.place();
        self.asm.load(Word, R1, R9, INTERFACE);
        self.asm.set_word(R2, self.inlet.interface);
        self.asm.jump_if(If::NotEqual, R1, R2, redirect);
        self.asm.set(R0, SEND_BACK);
        self.asm.exit();
        self.asm.here(redirect);
        self.asm.set(R2, 0);
        self.asm.call(Helper::Redirect);
        self.asm.exit();
    }
}
