//! The interface between a driver and a host of some transport, which does no input or output itself.

use anabranch_transport::flow::Ecn;
use anabranch_transport::time::Time;

use crate::outbox::Transmit;
use crate::route::Route;

/// What an ICMP message says of a packet that could not be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Where the packet was going; the address at this end is not said.
    pub route: Route,
    /// Whether nobody has the packet's protocol, or its port of UDP, there.
    pub is_refused: bool,
    /// What is unreachable, in words.
    pub reason: &'static str,
}

/// A host without sockets and clock. After every call, packets must be [taken](Stack::poll_transmit) and
/// events [told](Stack::poll_event) until there are none left.
pub trait Stack: Send + 'static {
    /// The number of its protocol in the header of IP.
    const PROTOCOL: u8;

    /// An event, with the number of the connection that it is about.
    type Event: Send + 'static;

    /// Handles a datagram, given from after the header of IP or UDP.
    fn handle_datagram(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]);

    /// Handles an ICMP message, which quotes the beginning of what a datagram had after the header of IP or
    /// UDP.
    fn handle_unreachable(&mut self, _now: Time, _unreachable: Unreachable, _quoted: &[u8]) {}

    /// When [`Stack::handle_timeout`] has to be called; [`Time::NEVER`] if no timer runs.
    fn next_timeout(&self) -> Time;

    /// Acts at the time that [`Stack::next_timeout`] named.
    fn handle_timeout(&mut self, now: Time);

    /// The next event, the earliest first.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// The next datagrams to send: up to `most` datagrams of one length, and a shorter one after them, to one
    /// address.
    fn poll_transmit(&mut self, most: usize) -> Option<Transmit<'_>>;

    /// Puts back the last `count` datagrams from [`Stack::poll_transmit`], which could not be sent.
    fn untransmit(&mut self, count: usize);
}
