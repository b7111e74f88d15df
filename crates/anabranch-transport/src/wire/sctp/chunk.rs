//! The chunks of SCTP: one file each, with its picture (RFC 9260 section 3.3, RFC 3758, RFC 4895, RFC 5061,
//! RFC 8260, draft-natarajan-tsvwg-sctp-nrsack).

use super::authentication::Hmac;
use super::reconfig::Reconfig;

pub use super::abort::Abort;
pub use super::asconf::{AddressChange, AddressRequest, Asconf, RefusedRequest};
pub use super::asconf_ack::{AddressError, AddressResponse, AsconfAck};
pub use super::cookie::{Cookie, StateCookie};
pub use super::data::{DATA_HEADER_BYTES, Data};
pub use super::error_cause::{ErrorCause, OtherCause};
pub use super::forward_tsn::{ForwardTsn, SkippedStream};
pub use super::heartbeat::{HeartbeatInfo, PairMark};
pub use super::i_data::{I_DATA_HEADER_BYTES, IData};
pub use super::i_forward_tsn::{IForwardTsn, SkippedMessage};
pub use super::init::Init;
pub use super::init_ack::InitAck;
pub use super::nr_sack::{NR_SACK_HEADER_BYTES, NrSack};
pub use super::opaque::{Illegal, Opaque};
pub use super::sack::{GapBlock, SACK_HEADER_BYTES, Sack};

/// One chunk.
#[derive(Clone, Debug, PartialEq)]
#[repr(u8)]
pub enum Chunk {
    /// Ends the association at once (RFC 9260 section 3.3.7).
    Abort(Abort),
    /// Asks for a change of the sender's addresses (RFC 5061 section 4.1.1).
    Asconf(Box<Asconf>),
    /// Answers [`Chunk::Asconf`] (RFC 5061 section 4.1.2).
    AsconfAck(Box<AsconfAck>),
    /// Authenticates the chunks after it in its packet (RFC 4895 section 4.1).
    Auth(Hmac),
    /// Answers [`Chunk::CookieEcho`] (section 3.3.12).
    CookieAck,
    /// Returns the State Cookie (section 3.3.11).
    CookieEcho(Box<Cookie>),
    /// User data (section 3.3.1).
    Data(Data),
    /// An error that does not end the association (section 3.3.10).
    Error(ErrorCause),
    /// Moves the receiver's cumulative TSN past abandoned data (RFC 3758 section 3.2).
    ForwardTsn(ForwardTsn),
    /// Asks whether a path works (section 3.3.5).
    Heartbeat(HeartbeatInfo),
    /// Answers [`Chunk::Heartbeat`] with its own contents (section 3.3.6).
    HeartbeatAck(HeartbeatInfo),
    /// User data that may alternate with that of other messages (RFC 8260 section 2.1).
    IData(IData),
    /// [`Chunk::ForwardTsn`] for [`Chunk::IData`] (RFC 8260 section 2.3.1).
    IForwardTsn(IForwardTsn),
    /// A chunk that breaks the protocol, so that the association has to be aborted.
    Illegal(Box<Illegal>),
    /// Opens an association (section 3.3.2). The bytes are those parameters, as they came, that this library
    /// does not know and that are to be reported (section 3.2.1).
    Init(Box<Init>, Box<[u8]>),
    /// Answers [`Chunk::Init`] (section 3.3.3).
    InitAck(Box<InitAck>),
    /// Selective acknowledgement that also says what the receiver will not withdraw
    /// (draft-natarajan-tsvwg-sctp-nrsack section 4.2). Its flags are those of [`Chunk::Sack`].
    NrSack(u8, Box<NrSack>),
    /// An unknown chunk, or one with contents that only the peer reads: kept as it came.
    Opaque(Box<Opaque>),
    /// Asks for stream resets, or answers such a request (RFC 6525).
    Reconfig(Box<Reconfig>),
    /// Selective acknowledgement (section 3.3.4). Its flags hold how many packets with data have arrived
    /// since the last one, 0 if that is not stated (Iyengar et al. 2006, section 3.3; `SCTP_SACK_CMT_DAC`).
    Sack(u8, Sack),
    /// No more data will come (section 3.3.8).
    Shutdown {
        /// Last TSN received in sequence.
        cumulative_tsn: u32,
    },
    /// Answers [`Chunk::Shutdown`] (section 3.3.9).
    ShutdownAck,
    /// Answers [`Chunk::ShutdownAck`] (section 3.3.13).
    ShutdownComplete {
        /// The T bit: the packet's verification tag is the sender's own.
        tag_reflected: bool,
    },
}

impl Chunk {
    /// The chunk's name in lower case and, if it has one, the TSN: that of data, of the last data
    /// acknowledged, or of the last data given up.
    pub fn describe(&self) -> (&'static str, Option<u32>) {
        match self {
            Self::Abort(_) => ("abort", None),
            Self::Asconf(_) => ("asconf", None),
            Self::AsconfAck(_) => ("asconf_ack", None),
            Self::Auth(_) => ("auth", None),
            Self::CookieAck => ("cookie_ack", None),
            Self::CookieEcho(_) => ("cookie_echo", None),
            Self::Data(data) => ("data", Some(data.tsn)),
            Self::Error(_) => ("error", None),
            Self::ForwardTsn(forward) => ("forward_tsn", Some(forward.new_cumulative_tsn)),
            Self::Heartbeat(_) => ("heartbeat", None),
            Self::HeartbeatAck(_) => ("heartbeat_ack", None),
            Self::IData(data) => ("i_data", Some(data.tsn)),
            Self::IForwardTsn(forward) => ("i_forward_tsn", Some(forward.new_cumulative_tsn)),
            Self::Illegal(_) => ("illegal", None),
            Self::Init(..) => ("init", None),
            Self::InitAck(_) => ("init_ack", None),
            Self::NrSack(_, nr_sack) => ("nr_sack", Some(nr_sack.sack.cumulative_tsn)),
            Self::Opaque(_) => ("opaque", None),
            Self::Reconfig(_) => ("re_config", None),
            Self::Sack(_, sack) => ("sack", Some(sack.cumulative_tsn)),
            Self::Shutdown { cumulative_tsn } => ("shutdown", Some(*cumulative_tsn)),
            Self::ShutdownAck => ("shutdown_ack", None),
            Self::ShutdownComplete { .. } => ("shutdown_complete", None),
        }
    }

    /// Length on the wire in bytes, padding included.
    #[inline]
    pub fn wire_size(&self) -> u32 {
        match self {
            Self::Data(data) => data.wire_size(),
            Self::ForwardTsn(forward) => forward.wire_size(),
            Self::Heartbeat(info) => info.bytes() + u32::from(info.padding),
            Self::HeartbeatAck(info) => info.bytes(),
            Self::Sack(_, sack) => sack.wire_size(),
            rare => rare.rare_wire_size(),
        }
    }

    /// The size of chunks that do not come with every packet.
    #[inline(never)]
    fn rare_wire_size(&self) -> u32 {
        match self {
            Self::Abort(abort) => abort.wire_size(),
            Self::Asconf(asconf) => asconf.wire_size(),
            Self::AsconfAck(ack) => ack.wire_size(),
            Self::Auth(hmac) => hmac.chunk_bytes(),
            Self::CookieEcho(cookie) => 4 + cookie.wire_size(),
            Self::Error(cause) => 4 + cause.wire_size(),
            Self::IData(data) => data.wire_size(),
            Self::IForwardTsn(forward) => forward.wire_size(),
            Self::Illegal(illegal) => illegal.chunk.wire_size(),
            Self::NrSack(_, nr_sack) => nr_sack.wire_size(),
            Self::Init(init, unrecognized) => init.wire_size(false) + unrecognized.len() as u32,
            Self::InitAck(ack) => ack.wire_size(),
            Self::Opaque(opaque) => opaque.wire_size(),
            Self::Reconfig(reconfig) => reconfig.wire_size(),
            Self::Shutdown { .. } => 8,
            Self::CookieAck | Self::ShutdownAck | Self::ShutdownComplete { .. } => 4,
            Self::Data(_)
            | Self::ForwardTsn(_)
            | Self::Heartbeat(_)
            | Self::HeartbeatAck(_)
            | Self::Sack(..) => unreachable!("measured by the caller"),
        }
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::flow::{IpVersion, PathId, Payload};
    use crate::time::Time;
    use crate::wire::sctp::SctpPacket;

    fn size_with_ip(mut chunks: Vec<Chunk>) -> u32 {
        let (first, rest) = (chunks.remove(0), chunks);
        let packet = SctpPacket { source_port: 1, destination_port: 2, verification_tag: 3, first, rest };
        IpVersion::Ipv4.header_bytes() + packet.wire_size()
    }

    fn data(length: u32) -> Chunk {
        Chunk::Data(Data {
            tsn: 1,
            stream: 0,
            ssn: 0,
            ppid: 0,
            unordered: true,
            beginning: true,
            ending: true,
            immediate: false,
            payload: Payload { offset: 0, length },
        })
    }

    #[test]
    fn sizes_are_those_of_the_voip_study() {
        assert_eq!(size_with_ip(vec![data(160)]), 32 + 176);
        assert_eq!(size_with_ip(vec![data(160); 8]), 32 + 8 * 176);
        let mut sack =
            Sack { cumulative_tsn: 1, a_rwnd: 1, gap_blocks: smallvec![], duplicates: Box::default() };
        assert_eq!(size_with_ip(vec![Chunk::Sack(0, sack.clone())]), 48);
        sack.gap_blocks.push(GapBlock { start: 2, end: 3 });
        assert_eq!(size_with_ip(vec![Chunk::Sack(0, sack)]), 52);
        let info = HeartbeatInfo { sent_at: Time::ZERO, nonce: 1, path: PathId(0), padding: 0, pair: None };
        assert_eq!(size_with_ip(vec![Chunk::Heartbeat(info)]), 56);
        let forward = ForwardTsn { new_cumulative_tsn: 1, streams: Box::default() };
        assert_eq!(size_with_ip(vec![Chunk::ForwardTsn(forward)]), 40);
    }

    #[test]
    fn what_is_moved_per_packet_is_small() {
        assert_eq!(size_of::<Chunk>(), 56);
    }
}
