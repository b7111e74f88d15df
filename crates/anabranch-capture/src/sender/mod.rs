//! What held a sender back, as far as packets show it: the time of each of its paths.
//!
//! Everything is seen from where the sender sends: data when it leaves, acknowledgements when they come in. A
//! retransmission follows an acknowledgement at once where that reported a loss; one that comes out of
//! silence is a timer's. The congestion window is not on the wire, so what waits for it and what waits for
//! the network's round trip are one limit here, [`Limit::UnderWay`].

mod space;
mod track;
mod walk;

pub use space::Run;
pub use track::{Limit, Track, Trip};
pub use walk::walk;

/// The flags of TCP that matter (RFC 9293 section 3.1).
pub(crate) const FIN: i16 = 1;
pub(crate) const SYN: i16 = 2;
pub(crate) const RST: i16 = 4;
pub(crate) const ACK: i16 = 16;

/// A chunk of SCTP (RFC 9260 section 3.2).
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Its type.
    pub kind: u8,
    /// The TSN of data, the cumulative one of others; negative where it is cut off.
    pub number: i64,
    /// Bytes of user data.
    pub octets: i64,
    /// The receiver window credit of a SACK.
    pub window: i64,
    /// A hash of a heartbeat's information.
    pub identity: u64,
    /// Gap Ack Blocks of a SACK, as TSNs that do not start over behind its cumulative one.
    pub gaps: Vec<Run>,
}

/// What a packet says.
#[derive(Clone, Debug)]
pub enum Said {
    /// Of SCTP, in the order of the packet.
    Chunks(Vec<Chunk>),
    /// Of TCP.
    Segment(Segment),
}

/// What a segment of TCP says. A number that it lacks is [`None`].
#[derive(Clone, Debug)]
pub struct Segment {
    /// Nine bits.
    pub flags: i16,
    /// The number of its first byte.
    pub sequence: i64,
    /// How many numbers its data has, SYN and FIN among them.
    pub length: i64,
    /// With the flag ACK.
    pub acknowledgement: Option<i64>,
    /// The field, which a window scale multiplies.
    pub window: i64,
    /// The window scale of a SYN.
    pub scale: Option<u32>,
    /// What has arrived above a gap; where that lies below the acknowledgement, what came twice.
    pub selective: Vec<Run>,
    /// Of Multipath TCP, the number behind its data on the connection level.
    pub data_end: Option<i64>,
    /// What is acknowledged on the connection level.
    pub data_acknowledgement: Option<i64>,
}

/// A packet of either end.
#[derive(Clone, Debug)]
pub struct Packet {
    /// When it was sent.
    pub sent_s: f64,
    /// Its length as an IP packet.
    pub octets: i64,
    /// It filled a hole since others had overtaken it.
    pub is_overtaken: bool,
    /// What it says.
    pub said: Said,
}

/// A packet leaves the sender, or comes to it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub at_s: f64,
    /// On which path.
    pub path: usize,
    /// Its index among the packets.
    pub packet: usize,
    /// Whether it leaves.
    pub is_own: bool,
}

/// How numbers of paths belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Each path has numbers of its own, and those of the connection besides.
    Mptcp,
    /// All paths share their numbers.
    Sctp,
    /// One path.
    Tcp,
}

/// A flow as one of its ends sees it.
#[derive(Debug)]
pub struct Talk {
    /// What it speaks.
    pub protocol: Protocol,
    /// When its first packet was sent.
    pub start_s: f64,
    /// When its last one was seen.
    pub end_s: f64,
    /// For each path, whether it was open before.
    pub is_open: Vec<bool>,
    /// The least round trip that is known of its paths; infinite where none is.
    pub round_trip_s: f64,
    /// When the clock was set back: no time is measured across it.
    pub cuts_s: Vec<f64>,
    /// Of both ends.
    pub packets: Vec<Packet>,
    /// In the order of their times.
    pub events: Vec<Event>,
}

/// A retransmission timer that expired.
#[derive(Debug)]
pub struct Expiry {
    /// When.
    pub at_s: f64,
    /// On which path.
    pub path: usize,
    /// Since something was heard on the path, or since the timer had expired before.
    pub waited_s: f64,
    /// Its number among those that followed each other with nothing heard in between.
    pub row: u32,
}

/// New data goes on another path than before.
#[derive(Debug)]
pub struct Move {
    /// When.
    pub at_s: f64,
    /// The path that it leaves.
    pub source: usize,
    /// The path that it takes.
    pub target: usize,
    /// How long nothing had been heard on the path that it leaves.
    pub silent_s: f64,
    /// Whether that path was in a retransmission timeout.
    pub is_failover: bool,
}

/// Why a packet asks rather than brings something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// To bring data.
    #[default]
    Data,
    /// Whether the peer is still there.
    Keepalive,
    /// Whether the peer's window is still closed.
    Probe,
}

/// What the walk says of a packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fate {
    /// Something of it was sent before.
    pub is_again: bool,
    /// Something of it was sent again, or given up, before it was acknowledged.
    pub was_repeated: bool,
    /// Its peer still said that it waits for just this when it was sent again: it was lost behind this place.
    pub was_awaited: bool,
    /// Whether it asks rather than brings something.
    pub purpose: Purpose,
}

/// One end of a flow as a sender of data.
#[derive(Debug)]
pub struct Sender {
    /// Its paths.
    pub tracks: Vec<Track>,
    /// In the order of time.
    pub expiries: Vec<Expiry>,
    /// In the order of time; none where all paths are in use at once.
    pub moves: Vec<Move>,
    /// Packets that the peer reported to have had before (RFC 2883).
    pub came_twice: u64,
    /// When it could send; when it did first, where it was open before the capture began.
    pub opened_s: Option<f64>,
    /// Packets with which it asked for the connection, or granted it.
    pub attempts: u64,
    /// Whether the peer's window is known wherever it acknowledges something.
    pub knows_window: bool,
    /// Packets of TCP beyond the peer's window as it is in the capture.
    pub beyond: u64,
    /// By packet; only of its own ones.
    pub fates: Vec<Fate>,
}
