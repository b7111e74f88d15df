//! The endpoint of a connection, of TCP or of MPTCP, and what waits for one.

use anabranch_transport::endpoint::{HalfClose, Input, Output, Site, Transport as _};
use anabranch_transport::listener::{Answer, Listen as _, Listener as _};
use anabranch_transport::observed::{Observed, PathLimit};
use anabranch_transport::tcp::config::Nagle;
use anabranch_transport::tcp::fast_open::{Client, Remembered, Server};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::Packet;
use anabranch_transport::{mptcp, tcp};

/// The endpoint of a connection.
#[derive(Debug)]
pub(super) enum End {
    Mptcp(Box<mptcp::Connection>),
    Tcp(Box<tcp::Connection>),
}

/// The settings of a connection of MPTCP whose subflows have these; control and buffers are the connection's.
fn multipath(config: tcp::Config) -> mptcp::Config {
    let tcp::Config { cc, send_buffer, receive_buffer, .. } = config;
    mptcp::Config {
        profile: mptcp::Profile::Linux6,
        cc,
        send_buffer,
        receive_buffer,
        tcp: Some(tcp::Config { cc: None, send_buffer: None, receive_buffer: None, ..config }),
        ..mptcp::Config::default()
    }
}

impl End {
    /// An end that opens the connection.
    pub(super) fn build(config: tcp::Config, is_multipath: bool, site: &Site<'_>) -> Result<Self, String> {
        Ok(if is_multipath {
            Self::Mptcp(Box::new(multipath(config).build(site)?))
        } else {
            Self::Tcp(Box::new(config.build(site)?))
        })
    }

    pub(super) const fn is_multipath(&self) -> bool {
        matches!(self, Self::Mptcp(_))
    }

    /// The connection, if it is of MPTCP.
    pub(super) fn multipath(&mut self) -> Option<&mut mptcp::Connection> {
        match self {
            Self::Mptcp(end) => Some(end),
            Self::Tcp(_) => None,
        }
    }

    /// The keys of a connection of MPTCP, our own first; 0 for a key that is not known.
    pub(super) fn keys(&self) -> [u64; 2] {
        match self {
            Self::Mptcp(end) => end.keys().map(|key| key.unwrap_or(0)),
            Self::Tcp(_) => [0; 2],
        }
    }

    fn observed(&self) -> &dyn Observed {
        match self {
            Self::Mptcp(end) => &**end,
            Self::Tcp(end) => &**end,
        }
    }

    fn endpoint_mut(&mut self) -> &mut dyn HalfClose {
        match self {
            Self::Mptcp(end) => &mut **end,
            Self::Tcp(end) => &mut **end,
        }
    }

    /// Does something that only a TCP socket can do; such options of an MPTCP socket are refused before this
    /// is called.
    fn with_tcp(&mut self, apply: impl FnOnce(&mut tcp::Connection)) {
        if let Self::Tcp(end) = self {
            apply(end);
        }
    }

    pub(super) fn handle_input(&mut self, now: Time, input: Input) {
        self.endpoint_mut().handle_input(now, input);
    }

    pub(super) fn poll_output(&mut self, now: Time) -> Output {
        self.endpoint_mut().poll_output(now)
    }

    pub(super) fn set_half_close(&mut self, on: bool) {
        self.endpoint_mut().set_half_close(on);
    }

    pub(super) fn sample_limits(&self, now: Time, limits: &mut Vec<PathLimit>) {
        self.observed().sample_limits(now, limits);
    }

    pub(super) fn info(&self) -> tcp::Info {
        match self {
            Self::Mptcp(end) => end.info(),
            Self::Tcp(end) => end.info(),
        }
    }

    /// Makes the next connection begin with data, or with a request for a cookie.
    pub(super) fn open_fast(&mut self, client: Client) {
        self.with_tcp(|end| end.set_fast_open(Some(client), None));
    }

    /// What is known of the server to which this end opened fast.
    pub(super) fn remembered(&self) -> Option<&Remembered> {
        match self {
            Self::Mptcp(_) => None,
            Self::Tcp(end) => end.remembered(),
        }
    }

    /// The most bytes that the next SYN can carry; [`None`] if it can carry none.
    pub(super) fn syn_room(&self) -> Option<u32> {
        match self {
            Self::Mptcp(_) => None,
            Self::Tcp(end) => end.syn_room(),
        }
    }

    pub(super) fn on_syn_too_big(&mut self, now: Time, mtu: u32) -> bool {
        match self {
            Self::Mptcp(_) => false,
            Self::Tcp(end) => end.on_syn_too_big(now, mtu),
        }
    }

    pub(super) fn on_unreachable(&mut self) -> bool {
        match self {
            Self::Mptcp(_) => false,
            Self::Tcp(end) => end.on_unreachable(),
        }
    }

    pub(super) fn close_reading(&mut self, now: Time) {
        self.with_tcp(|end| end.close_reading(now));
    }

    pub(super) fn end_record(&mut self, length: u64) {
        self.with_tcp(|end| end.end_record(length));
    }

    pub(super) fn end_buffer(&mut self, length: u64) {
        self.with_tcp(|end| end.end_buffer(length));
    }

    pub(super) fn extend_buffer(&mut self) {
        self.with_tcp(tcp::Connection::extend_buffer);
    }

    pub(super) fn end_write(&mut self) {
        self.with_tcp(tcp::Connection::end_write);
    }

    pub(super) fn mark_push(&mut self, length: u64) {
        self.with_tcp(|end| end.mark_push(length));
    }

    pub(super) fn push_out(&mut self, now: Time) {
        self.with_tcp(|end| end.push_out(now));
    }

    pub(super) fn set_bursts(&mut self, least: u32, window_divisor: u32) {
        self.with_tcp(|end| end.set_bursts(least, window_divisor));
    }

    pub(super) fn set_corked(&mut self, now: Time, is_corked: bool) {
        self.with_tcp(|end| end.set_corked(now, is_corked));
    }

    pub(super) fn set_more(&mut self, follows: bool) {
        self.with_tcp(|end| end.set_more(follows));
    }

    pub(super) fn set_nagle(&mut self, now: Time, nagle: Nagle) {
        self.with_tcp(|end| end.set_nagle(now, nagle));
    }

    pub(super) fn set_syn_retries(&mut self, retries: u32) {
        self.with_tcp(|end| end.set_syn_retries(retries));
    }

    pub(super) fn set_user_timeout(&mut self, timeout: Option<Duration>) {
        self.with_tcp(|end| end.set_user_timeout(timeout));
    }
}

/// What waits for peers.
#[derive(Debug)]
pub(super) enum Listener {
    Mptcp(mptcp::Listener),
    Tcp(tcp::Listener),
}

/// What becomes of a packet that comes to something that waits.
pub(super) enum First {
    Accepted(End),
    Nothing,
    Reply(Box<Packet>),
}

impl Listener {
    pub(super) fn build(config: tcp::Config, is_multipath: bool, site: &Site<'_>) -> Result<Self, String> {
        Ok(if is_multipath {
            Self::Mptcp(multipath(config).listen(site)?)
        } else {
            Self::Tcp(config.listen(site)?)
        })
    }

    /// Sets how the next connection takes data of its SYN.
    pub(super) fn set_fast_open(&mut self, server: Option<Server>) {
        if let Self::Tcp(listener) = self {
            listener.set_fast_open(server);
        }
    }

    pub(super) fn handle_packet(&mut self, now: Time, packet: Box<Packet>) -> First {
        match self {
            Self::Mptcp(listener) => match listener.handle_packet(now, packet) {
                Answer::Accepted(end) => First::Accepted(End::Mptcp(end)),
                Answer::Nothing => First::Nothing,
                Answer::Reply(packet) => First::Reply(packet),
            },
            Self::Tcp(listener) => match listener.handle_packet(now, packet) {
                Answer::Accepted(end) => First::Accepted(End::Tcp(end)),
                Answer::Nothing => First::Nothing,
                Answer::Reply(packet) => First::Reply(packet),
            },
        }
    }
}
