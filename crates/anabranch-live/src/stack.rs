//! What a driver drives: a host of some transport, which does no input or output itself.

use anabranch_transport::ground::Ecn;
use anabranch_transport::time::Time;

use crate::outbox::Transmit;
use crate::route::Route;

/// A host without sockets and clock. After every call packets are to be [taken](Stack::poll_transmit) and
/// events to be [told](Stack::poll_event) until there are none.
pub trait Stack: Send + 'static {
    /// The number of its protocol in the header of IP.
    const PROTOCOL: u8;

    /// What it tells, with the number of the connection that it is about.
    type Event: Send + 'static;

    /// Takes what is behind the header of IP, or of UDP.
    fn handle_datagram(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]);

    /// When [`Stack::handle_timeout`] is to be called; [`Time::NEVER`] where nothing is to be waited for.
    fn next_timeout(&self) -> Time;

    /// The time that [`Stack::next_timeout`] named has come.
    fn handle_timeout(&mut self, now: Time);

    /// What there is to tell, the earliest first.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// What is to be sent next: up to so many datagrams of one length, and one shorter behind them, to one
    /// place.
    fn poll_transmit(&mut self, most: usize) -> Option<Transmit<'_>>;

    /// The last so many datagrams of what [`Stack::poll_transmit`] gave could not be sent: they are given
    /// again.
    fn untransmit(&mut self, count: usize);
}
