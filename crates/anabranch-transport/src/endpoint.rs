//! The interface of all transport endpoints: a state machine without clock, socket or thread.
//!
//! # The contract
//! `now` comes in, [`Output`] comes out. After every [`Endpoint::handle_input`] call
//! **[`Endpoint::poll_output`] until it returns [`Output::Timeout`]**; that time is when the endpoint
//! next wants [`Input::Timeout`], unless another input comes first. An endpoint that is given
//! `Input::Timeout` early does nothing; one that is given it on time or late acts, and the timeout it
//! then returns lies after `now`. `now` never decreases. Equal inputs give equal outputs.
//!
//! The same object serves the simulator and the real-time driver.
//!
//! The enums that are handed over for every packet have tags as wide as what follows them: with a narrow tag
//! the compiler copies the rest in pieces that overlap (`docs/performance.md` has what that costs).

use std::fmt::{self, Display, Formatter};
use std::num::TryFromIntError;

use crate::cc::{Controller, media};
use crate::flow::{IpVersion, PathId, Payload, Side};
use crate::path::{PathState, Reason, Selector};
use crate::rng::Streams;
use crate::secret::SecretNumbers;
use crate::time::{Duration, Time};
use crate::units::Rate;
use crate::wire::Packet;

/// A transport protocol: its settings, from which the two ends of a connection are built.
pub trait Transport {
    /// One end of a connection.
    type Endpoint: Endpoint;

    /// Builds an end.
    ///
    /// # Errors
    /// When the settings are impossible, by themselves or with these paths: one sentence that names the key,
    /// the value found and what is allowed.
    fn build(&self, site: &Site<'_>) -> Result<Self::Endpoint, String>;
}

/// What an endpoint needs to know about the place where it is built.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The endpoint's end of the connection.
    pub side: Side,
    /// The largest IP packet that each of its paths carries, in bytes.
    pub mtus: &'a [u32],
    /// The version of IP.
    pub ip: IpVersion,
    /// The source of all its random numbers.
    pub streams: Streams,
    /// The connection's name: with `flow/call`, the names of TCP's streams start with `flow/call/tcp/a`.
    pub connection: &'a str,
}

impl Site<'_> {
    /// The prefix of the names of this protocol's streams.
    pub(crate) fn name(&self, protocol: &str) -> String {
        format!("{}/{protocol}/{}", self.connection, self.side.name())
    }
}

/// What follows from a packet to which an end [responds](Endpoint::respond) at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Tell the application first.
    pub event: Option<Event>,
    /// Then send this packet on its path.
    pub packet: Box<Packet>,
}

/// A transport endpoint. See the [module](self) for the contract.
///
/// This is what every transport needs. What only some callers ask stands beside it: [`Multipath`],
/// [`HalfClose`], [`Keeper`], [`Observed`](crate::observed::Observed).
pub trait Endpoint {
    /// The protocol's name in lower case, as metrics and messages have it.
    fn protocol(&self) -> &'static str;

    /// Whether the peer of this end may speak this protocol.
    fn understands(&self, protocol: &str) -> bool {
        protocol == self.protocol()
    }

    /// The service that it offers its application.
    fn service(&self) -> Service;

    /// Whether a packet is for this endpoint, judged by its ports, verification tag or token. When a packet
    /// comes between two addresses that have not been seen together, the caller asks all endpoints. If none
    /// of them owns the packet, it is for the [`Listener`](crate::listener::Listener).
    fn owns(&self, packet: &Packet) -> bool;

    /// Whether a packet is one that [`Endpoint::respond`] may take.
    #[inline]
    fn may_respond(&self, _packet: &Packet) -> bool {
        false
    }

    /// A short way for a packet from which nothing follows but one answer and perhaps an event, and which
    /// leaves the time of the next timeout as it was: there is nothing to poll. It is for a caller that has
    /// polled everything before. The end then is as it would be after [`Endpoint::handle_input`], which alone
    /// says what follows from a packet.
    ///
    /// # Errors
    /// Any other packet, untouched: it is for [`Endpoint::handle_input`].
    #[inline]
    fn respond(&mut self, _now: Time, packet: Box<Packet>) -> Result<Response, Box<Packet>> {
        Err(packet)
    }

    /// Takes one input.
    fn handle_input(&mut self, now: Time, input: Input);

    /// The next thing that the endpoint wants done; [`Output::Timeout`] when there is nothing else.
    fn poll_output(&mut self, now: Time) -> Output;
}

/// What can be changed of an endpoint's paths, from outside: how many there are, and who steers them. A
/// transport that has nothing of it implements it without a method.
pub trait Multipath: Endpoint {
    /// Gives a path another congestion control than the settings name, for this and further connections.
    /// Returns false if the protocol has none; `path` is one of those that
    /// [`Observed::sample_paths`](crate::observed::Observed::sample_paths) lists.
    fn set_congestion_control(&mut self, _path: PathId, _control: Controller) -> bool {
        false
    }

    /// Gives a path another congestion control of media than the settings name. Returns false if the protocol
    /// has none, or no such path.
    fn set_media_control(&mut self, _path: PathId, _control: media::Controller) -> bool {
        false
    }

    /// Gives the endpoint another path policy than the settings name. Returns false if the protocol has none.
    fn set_path_selector(&mut self, _selector: Selector) -> bool {
        false
    }

    /// Lets the addresses of side A come and go; these paths do not exist at first.
    ///
    /// # Errors
    /// One sentence, when the protocol cannot do that, or not with these paths.
    fn enable_reconfiguration(&mut self, _absent: &[PathId]) -> Result<(), String> {
        Err(format!("addresses: over \"{}\" they cannot change", self.protocol()))
    }

    /// Adds a path behind the last one, and returns its number. `mtu` is in bytes, with the IP header. The
    /// path is part of the connection at once; where addresses [come and
    /// go](Multipath::enable_reconfiguration), it is from [`Command::AddAddress`] on. The peer gives it the
    /// same number when it hears of it, or else its driver translates. The caller then
    /// [asks](Endpoint::poll_output) what the endpoint wants done.
    ///
    /// # Errors
    /// When the protocol has one path, or the settings do not go with this one: one sentence.
    fn add_path(&mut self, _now: Time, _mtu: u32) -> Result<PathId, String> {
        Err(format!("paths: \"{}\" has one", self.protocol()))
    }
}

/// An end of a connection of which each end is closed by itself.
pub trait HalfClose: Endpoint {
    /// Switches half-close on or off (RFC 9293 section 3.6). With it this end goes on sending after its peer
    /// has finished, until [`Command::Shutdown`]. Without it, which is the default, this end closes too, once
    /// it has sent what it was given.
    fn set_half_close(&mut self, on: bool);
}

/// What a host needs that sends real bytes to strangers: which of the bytes it must keep, and numbers that
/// none of them can guess.
pub trait Keeper: Endpoint {
    /// Names the pieces of its application's data that may have to be sent, or sent again: the keeper of the
    /// bytes may forget all others. They come in no particular order, in time proportional to their number.
    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload));

    /// Names the pieces of its peer's data that have arrived and have not been [delivered](Event::Received)
    /// yet.
    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload));

    /// Draws everything that a stranger must not guess from these numbers from now on, and not from the end's
    /// own streams: verification tags, initial sequence numbers, keys, nonces. It is for an end that is
    /// closed and will talk to strangers.
    fn draw_from(&mut self, numbers: SecretNumbers);
}

/// An input of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The application wants something.
    Command(Command),
    /// A packet arrived; it has passed its checksum.
    Packet(Box<Packet>),
    /// The time that the last [`Output::Timeout`] named has come.
    Timeout,
}

/// An output of an endpoint, for its caller to carry out.
#[derive(Clone, Debug, PartialEq)]
#[repr(u64)]
pub enum Output {
    /// Tell the application.
    Event(Event),
    /// There is nothing more to do now; call again at this time ([`Time::NEVER`]: only with other input).
    Timeout(Time),
    /// Send this packet on its path.
    Transmit(Box<Packet>),
}

/// A command of an application to its endpoint. An endpoint answers commands that it cannot carry out with
/// [`Event::Unsupported`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u64)]
pub enum Command {
    /// Give up the connection at once.
    Abort,
    /// This end's address on this path has come: make it part of the association (SCTP, RFC 5061; MPTCP, RFC
    /// 8684 section 3.4.1).
    AddAddress(PathId),
    /// Open the connection. The passive end needs no command.
    Connect,
    /// Deletes this end's address on this path: nothing is sent from it any more (SCTP, RFC 5061; MPTCP, RFC
    /// 8684 section 3.4.2).
    DeleteAddress(PathId),
    /// Read nothing for the time being: what arrives waits in the receive buffer (TCP).
    PauseReading,
    /// Between the ends, a NAT gives the client another port or another address on this path: what the peer
    /// sends to the one before is lost, and the client hears nothing of it (QUIC, RFC 9000 section 9).
    Rebind {
        /// Which path.
        path: PathId,
        /// Whether the address is another one; it is the port otherwise.
        address: bool,
    },
    /// Ask the peer's application for a key frame (RTP, PLI of RFC 4585).
    RequestKeyFrame,
    /// Read again (TCP).
    ResumeReading,
    /// Send one message. Over TCP, append it to the stream: what does not fit into the send buffer is
    /// refused.
    Send(Message),
    /// Ask the peer to make this path its primary one (SCTP, RFC 5061; MPTCP, RFC 8684 section 3.3.8).
    SetPeerPrimary(PathId),
    /// Make this path the primary one.
    SetPrimary(PathId),
    /// Close the connection after everything queued has been delivered. Over TCP the peer then closes too,
    /// unless it has [half-close](HalfClose::set_half_close), and after [`Event::Closed`] a new
    /// [`Command::Connect`] opens another connection.
    Shutdown,
}

impl Command {
    /// Its name in traces.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::AddAddress(_) => "add_address",
            Self::Connect => "connect",
            Self::DeleteAddress(_) => "delete_address",
            Self::PauseReading => "pause_reading",
            Self::Rebind { .. } => "rebind",
            Self::RequestKeyFrame => "request_key_frame",
            Self::ResumeReading => "resume_reading",
            Self::Send(_) => "send",
            Self::SetPeerPrimary(_) => "set_peer_primary",
            Self::SetPrimary(_) => "set_primary",
            Self::Shutdown => "shutdown",
        }
    }

    /// The path that the command is about, if it is about one.
    pub const fn path(&self) -> Option<PathId> {
        match self {
            Self::AddAddress(path)
            | Self::DeleteAddress(path)
            | Self::Rebind { path, .. }
            | Self::SetPeerPrimary(path)
            | Self::SetPrimary(path) => Some(*path),
            _ => None,
        }
    }
}

/// The service that a transport offers to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Single messages, sent without regard to what the network can carry (UDP).
    Datagrams,
    /// Messages with flow control (SCTP).
    Messages {
        /// The longest message that the send buffer takes, in bytes.
        longest: u64,
        /// The longest message that the receive buffer has room for, in bytes; a longer one is delivered in
        /// [parts](Event::ReceivedPart).
        whole: u64,
        /// Whether the send buffer has a limit, so that a sender ever has to wait.
        is_limited: bool,
    },
    /// A stream of bytes with flow control (TCP).
    Stream,
    /// Streams of bytes, of which each has an order, flow control and an end of its own, and datagrams beside
    /// them (QUIC). An [unordered](Message::unordered) message is a datagram: it is sent once, and a loss
    /// delays nothing else.
    Streams {
        /// The longest datagram, in bytes; 0 if there are none.
        longest_datagram: u32,
    },
}

impl Service {
    /// Whether it keeps bytes in order and does not keep apart what was written: one stream or several.
    #[must_use]
    pub const fn is_of_bytes(self) -> bool {
        matches!(self, Self::Stream | Self::Streams { .. })
    }

    /// The service of a connection between these two ends.
    #[must_use]
    pub fn both(self, other: Self) -> Self {
        match (self, other) {
            (
                Self::Messages { longest, whole, is_limited },
                Self::Messages { longest: other_longest, whole: other_whole, is_limited: other_is_limited },
            ) => Self::Messages {
                longest: longest.min(other_longest),
                whole: whole.min(other_whole),
                is_limited: is_limited && other_is_limited,
            },
            (Self::Streams { longest_datagram }, Self::Streams { longest_datagram: other }) => {
                Self::Streams { longest_datagram: longest_datagram.min(other) }
            }
            _ => self,
        }
    }
}

/// A stream of a connection that has several, by the number that the protocol gives it: 16 bits in SCTP (RFC
/// 9260 section 3.3.1), 62 in QUIC (RFC 9000 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl Display for StreamId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<u16> for StreamId {
    fn from(stream: u16) -> Self {
        Self(stream.into())
    }
}

impl TryFrom<StreamId> for u16 {
    type Error = TryFromIntError;

    fn try_from(stream: StreamId) -> Result<Self, TryFromIntError> {
        stream.0.try_into()
    }
}

/// A message to send, or the next bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The stream (QUIC, SCTP); 0 elsewhere.
    pub stream: StreamId,
    /// The payload protocol identifier (SCTP), which the peer's application is told; 0 elsewhere.
    pub ppid: u32,
    /// Deliver as soon as it is complete, without regard to order (QUIC, as a datagram; SCTP).
    pub unordered: bool,
    /// The stream ends with this payload, which may then have no bytes (QUIC); elsewhere streams have no end
    /// of their own, and it means nothing.
    pub ends_stream: bool,
    /// More follows at the same time, for which the packet may wait (QUIC; `MSG_MORE` of Linux).
    pub more: bool,
    /// The message's reliability.
    pub reliability: Reliability,
    /// The data to send.
    pub payload: Payload,
}

impl Message {
    /// A message that is reliable and in order, on the first stream.
    pub const fn new(payload: Payload) -> Self {
        Self {
            stream: StreamId(0),
            ppid: 0,
            unordered: false,
            ends_stream: false,
            more: false,
            reliability: Reliability::Reliable,
            payload,
        }
    }
}

/// How long a partially reliable transport tries to deliver a message (RFC 3758, RFC 7496).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Retransmit at most this many times (RFC 7496 section 3.1.1); 0 is "send once".
    LimitedRetransmissions(u32),
    /// Abandon it when a message of higher priority needs the buffer; 0 is the highest (RFC 7496 section
    /// 3.1.2).
    Priority(u32),
    /// Keep it until it is delivered or the connection ends.
    #[default]
    Reliable,
    /// Abandon it this long after it was handed over (RFC 3758 section 4.1).
    Timed(Duration),
}

/// An event that an endpoint reports to its application.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[repr(u64)]
pub enum Event {
    /// A message was given up.
    Abandoned(Payload),
    /// A path has become part of the association; data follows once it is confirmed (RFC 5061).
    AddressAdded(PathId),
    /// A path is no longer part of the association (RFC 5061).
    AddressDeleted(PathId),
    /// The peer has refused to add or delete this end's address on this path, or to make it the primary one
    /// (RFC 5061).
    AddressRefused(PathId),
    /// The connection has ended.
    Closed(CloseReason),
    /// The connection is open; data may flow.
    Connected,
    /// The peer's application asks for a key frame (RTP, PLI of RFC 4585).
    KeyFrameRequested,
    /// The state of a path changed.
    PathChanged {
        /// The path.
        path: PathId,
        /// Its new state.
        state: PathState,
    },
    /// The rest of the message that was being delivered in [parts](Event::ReceivedPart) on this stream,
    /// ordered or not, will never come: the peer has given it up (SCTP, RFC 3758 section 3.6).
    PartialDeliveryAborted {
        /// The stream.
        stream: StreamId,
        /// Whether it is the unordered message.
        unordered: bool,
    },
    /// The peer has nothing more to say, and all of it has been read (TCP's FIN, MPTCP's `DATA_FIN`).
    PeerFinished,
    /// Another path became the primary one.
    PrimaryChanged {
        /// The former primary path.
        from: PathId,
        /// The new primary path.
        to: PathId,
        /// The policy's reason and the numbers behind it.
        reason: Reason,
    },
    /// A message arrived, or the next bytes of a stream. Over TCP, the payload's offset is the position of
    /// the first of them.
    Received(Received),
    /// A part of a message arrived for which the receive buffer has too little room (SCTP, partial delivery,
    /// RFC 9260 section 6.9). The parts of a message come in order. On a stream there is at most one ordered
    /// and one unordered message in parts at a time, and its parts end with the last one, with
    /// [`Event::PartialDeliveryAborted`], [`Event::Restarted`] or [`Event::Closed`].
    ReceivedPart(Part),
    /// A message could not be taken because the send buffer is full; try again after [`Event::Writable`].
    /// Over a stream of bytes, this is the part of it that was not taken; where there are several, wait for
    /// [`Event::StreamWritable`].
    Refused(Payload),
    /// The peer has restarted, and the connection is open again without its earlier state (RFC 9260 section
    /// 5.2.4): data that had been sent and was not acknowledged may not have arrived, and will not.
    Restarted,
    /// This outgoing stream has been reset (RFC 6525).
    StreamReset(StreamId),
    /// The peer has reset this stream of its own, or all of its streams (RFC 6525).
    StreamResetByPeer(Option<StreamId>),
    /// The peer has refused the reset of this outgoing stream (RFC 6525).
    StreamResetRefused(StreamId),
    /// There is room for more data of this stream, of which some was refused (QUIC).
    StreamWritable(StreamId),
    /// The encoder is to make this much from now on (RTP).
    TargetRate(Rate),
    /// The [`Command`] of this name is not one of this protocol, or not as the endpoint is set up, or is
    /// about a path that there is not: nothing has been done.
    Unsupported(&'static str),
    /// There is room in the send buffer again. Over SCTP, where a message was refused a second time, it is
    /// room for that message.
    Writable,
}

impl Event {
    /// Its name and particulars in traces.
    pub fn describe(&self) -> (&'static str, String) {
        match self {
            Self::Abandoned(payload) => ("abandoned", format!("offset {}", payload.offset)),
            Self::AddressAdded(path) => ("address_added", format!("path {}", path.0)),
            Self::AddressDeleted(path) => ("address_deleted", format!("path {}", path.0)),
            Self::AddressRefused(path) => ("address_refused", format!("path {}", path.0)),
            Self::Closed(reason) => ("closed", format!("{reason:?}").to_lowercase()),
            Self::Connected => ("connected", String::new()),
            Self::KeyFrameRequested => ("key_frame_requested", String::new()),
            Self::PathChanged { path, state } => {
                ("path_changed", format!("path {} is {}", path.0, state.name()))
            }
            Self::PartialDeliveryAborted { stream, .. } => {
                ("partial_delivery_aborted", format!("stream {stream}"))
            }
            Self::PeerFinished => ("peer_finished", String::new()),
            Self::PrimaryChanged { from, to, reason } => {
                ("primary_changed", format!("path{} -> path{}: {reason}", from.0, to.0))
            }
            Self::Received(_) => ("received", String::new()),
            Self::ReceivedPart(_) => ("received_part", String::new()),
            Self::Refused(payload) => ("refused", format!("offset {}", payload.offset)),
            Self::Restarted => ("restarted", String::new()),
            Self::StreamReset(stream) => ("stream_reset", format!("stream {stream}")),
            Self::StreamResetByPeer(None) => ("stream_reset_by_peer", "all streams".into()),
            Self::StreamResetByPeer(Some(stream)) => ("stream_reset_by_peer", format!("stream {stream}")),
            Self::StreamResetRefused(stream) => ("stream_reset_refused", format!("stream {stream}")),
            Self::StreamWritable(stream) => ("stream_writable", format!("stream {stream}")),
            Self::TargetRate(rate) => ("target_rate", rate.to_string()),
            Self::Unsupported(command) => ("unsupported", (*command).into()),
            Self::Writable => ("writable", String::new()),
        }
    }
}

/// A message that arrived, or the next bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The stream (QUIC, SCTP); 0 elsewhere.
    pub stream: StreamId,
    /// The payload protocol identifier that the peer gave it (SCTP); 0 elsewhere.
    pub ppid: u32,
    /// Whether it was delivered without regard to order.
    pub unordered: bool,
    /// Whether the stream ends with this payload, which may then have no bytes (QUIC).
    pub ends_stream: bool,
    /// The data that arrived.
    pub payload: Payload,
}

impl Received {
    /// Data in order, on the first stream.
    pub const fn new(payload: Payload) -> Self {
        Self { stream: StreamId(0), ppid: 0, unordered: false, ends_stream: false, payload }
    }

    /// Data without regard to order, as datagrams are.
    pub const fn unordered(payload: Payload) -> Self {
        Self { unordered: true, ..Self::new(payload) }
    }
}

/// A part of a message that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The stream.
    pub stream: StreamId,
    /// The payload protocol identifier that the peer gave the message.
    pub ppid: u32,
    /// Whether the message is delivered without regard to order.
    pub unordered: bool,
    /// Whether the message ends with this part.
    pub is_last: bool,
    /// The data of the part.
    pub payload: Payload,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// One end aborted.
    Aborted,
    /// The peer could not be reached any more, or not at all.
    Lost,
    /// Both ends shut down in order.
    Shutdown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_moved_per_packet_is_small() {
        assert_eq!(size_of::<Output>(), 48);
    }

    #[test]
    fn both_ends_send_what_each_of_them_takes() {
        let streams = |longest_datagram| Service::Streams { longest_datagram };
        assert_eq!(streams(1_200).both(streams(0)), streams(0));
        assert_eq!(streams(1_000).both(streams(1_200)), streams(1_000));
        assert_eq!(Service::Stream.both(Service::Stream), Service::Stream);
    }

    /// The commands about a path, and about reading, that are answered with [`Event::Unsupported`].
    fn unsupported(transport: &impl Transport, path: PathId) -> Vec<&'static str> {
        let streams = Streams { seed: 1, replication: 0 };
        let ip = IpVersion::Ipv4;
        let mut end = transport
            .build(&Site { side: Side::A, mtus: &[1_500, 1_500], ip, streams, connection: "flow/x" })
            .expect("the settings are possible");
        let commands = [
            Command::AddAddress(path),
            Command::DeleteAddress(path),
            Command::PauseReading,
            Command::Rebind { path, address: false },
            Command::RequestKeyFrame,
            Command::ResumeReading,
            Command::SetPeerPrimary(path),
            Command::SetPrimary(path),
        ];
        let mut found = Vec::new();
        for command in commands {
            end.handle_input(Time::ZERO, Input::Command(command));
            loop {
                match end.poll_output(Time::ZERO) {
                    Output::Event(Event::Unsupported(name)) => {
                        assert_eq!(name, command.name());
                        found.push(name);
                    }
                    Output::Timeout(_) => break,
                    _ => {}
                }
            }
        }
        found
    }

    #[test]
    fn what_an_endpoint_cannot_do_is_answered() {
        let [there, nowhere] = [PathId(1), PathId(2)];
        let addresses = ["add_address", "delete_address", "rebind", "request_key_frame", "set_peer_primary"];
        let reading = ["pause_reading", "resume_reading"];
        let primary = ["set_primary"];
        let sorted = |parts: &[&[&'static str]]| {
            let mut names = parts.concat();
            names.sort_unstable();
            names
        };
        let udp = crate::udp::Config::default();
        assert_eq!(unsupported(&udp, there), sorted(&[&addresses, &reading]));
        assert_eq!(unsupported(&udp, nowhere), sorted(&[&addresses, &reading, &primary]));
        let sctp = crate::sctp::Config::default();
        assert_eq!(unsupported(&sctp, there), sorted(&[&addresses, &reading]));
        assert_eq!(unsupported(&sctp, nowhere), sorted(&[&addresses, &reading, &primary]));
        let tcp = crate::tcp::Config::default();
        assert_eq!(unsupported(&tcp, there), sorted(&[&addresses, &primary]));
        let mptcp = crate::mptcp::Config::default();
        assert_eq!(unsupported(&mptcp, there), ["rebind", "request_key_frame"]);
        assert_eq!(unsupported(&mptcp, nowhere), sorted(&[&addresses, &primary]));
        let quic = crate::quic::Config::default();
        let others =
            ["add_address", "delete_address", "request_key_frame", "set_peer_primary", "set_primary"];
        assert_eq!(unsupported(&quic, there), others);
        let rtp = crate::rtp::Config::default();
        let others = [
            "add_address",
            "delete_address",
            "pause_reading",
            "rebind",
            "resume_reading",
            "set_peer_primary",
        ];
        assert_eq!(unsupported(&rtp, there), others);
    }
}
