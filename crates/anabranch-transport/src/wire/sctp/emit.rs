//! An SCTP packet as bytes (RFC 9260 section 3).

use super::SctpPacket;
use super::authentication::chunk_code;
use super::chunk::Chunk;
use super::codes::{TAG_REFLECTED, chunk};
use super::writer::Writer;
use crate::flow::PathId;
use crate::wire::bytes::Append as _;
use crate::wire::sctp::context::SctpSending;

impl SctpPacket {
    /// Appends the bytes of the packet, checksum included, as they are sent on a path.
    pub fn emit(&self, path: PathId, sending: &impl SctpSending, out: &mut Vec<u8>) {
        let start = out.len();
        out.u16(self.source_port);
        out.u16(self.destination_port);
        out.u32(self.verification_tag);
        out.u32(0);
        let mut signed_from = None;
        for chunk in self.chunks() {
            let chunk_start = out.len();
            if let Chunk::Auth(hmac) = chunk {
                signed_from = Some((chunk_start, *hmac));
            }
            let ports = [self.source_port, self.destination_port];
            chunk.emit(&mut Writer { path, ports, sending, start: chunk_start, out: &mut *out });
            debug_assert_eq!((out.len() - chunk_start) as u32, chunk.wire_size(), "{chunk:?}");
        }
        if let Some((from, hmac)) = signed_from {
            // RFC 4895 section 6.2: the code is computed over the chunk itself, with zeros in place of the
            // code, and all chunks that follow.
            let code = chunk_code(hmac, sending.association_key(), &out[from..]);
            out[from + 8..from + 8 + code.len()].copy_from_slice(&code);
        }
        // RFC 9260 section 6.8 and appendix A: CRC32c in the order in which it is computed.
        let checksum = crc32c::crc32c(&out[start..]);
        out[start + 8..start + 12].copy_from_slice(&checksum.to_le_bytes());
    }
}

impl Chunk {
    fn emit(&self, writer: &mut Writer<'_, impl SctpSending>) {
        match self {
            Self::Abort(abort) => abort.emit(writer),
            Self::Asconf(asconf) => asconf.emit(writer),
            Self::AsconfAck(ack) => ack.emit(writer),
            Self::Auth(hmac) => hmac.emit(writer),
            Self::CookieAck => writer.with_header(chunk::COOKIE_ACK, 0, |_| {}),
            Self::CookieEcho(cookie) => {
                writer.with_header(chunk::COOKIE_ECHO, 0, |writer| cookie.emit(writer));
            }
            Self::Data(data) => data.emit(writer),
            Self::Error(cause) => writer.with_header(chunk::ERROR, 0, |writer| cause.emit(writer)),
            Self::ForwardTsn(forward) => forward.emit(writer),
            Self::Heartbeat(info) => info.emit(writer),
            Self::HeartbeatAck(info) => info.emit_ack(writer),
            Self::IData(data) => data.emit(writer),
            Self::IForwardTsn(forward) => forward.emit(writer),
            Self::Illegal(illegal) => illegal.chunk.emit(writer),
            Self::Init(init, unrecognized) => writer.with_header(chunk::INIT, 0, |writer| {
                init.emit(false, writer);
                writer.parameters(unrecognized);
            }),
            Self::InitAck(ack) => ack.emit(writer),
            Self::NrSack(packets, nr_sack) => nr_sack.emit(*packets, writer),
            Self::Opaque(opaque) => opaque.emit(writer),
            Self::Reconfig(reconfig) => {
                writer.with_header(chunk::RECONFIG, 0, |writer| reconfig.emit(writer.out));
            }
            Self::Sack(packets, sack) => sack.emit(*packets, writer),
            Self::Shutdown { cumulative_tsn } => {
                writer.with_header(chunk::SHUTDOWN, 0, |writer| writer.out.u32(*cumulative_tsn));
            }
            Self::ShutdownAck => writer.with_header(chunk::SHUTDOWN_ACK, 0, |_| {}),
            Self::ShutdownComplete { tag_reflected } => {
                let flags = if *tag_reflected { TAG_REFLECTED } else { 0 };
                writer.with_header(chunk::SHUTDOWN_COMPLETE, flags, |_| {});
            }
        }
    }
}
