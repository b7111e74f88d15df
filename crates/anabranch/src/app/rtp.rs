//! What datagrams with RTP carry: payload types and clocks (RFC 3551, RFC 4867, RFC 7587).

use anabranch_transport::quality::Codec;
use anabranch_transport::time::Time;
use anabranch_transport::wire::rtp::Header;

use super::AppConfig;

/// A payload of RTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtpPayload {
    payload_type: u8,
    /// Ticks of the time stamps per second.
    clock_hz: u32,
}

/// The first dynamic payload type (RFC 3551 section 6).
const DYNAMIC: u8 = 96;

impl RtpPayload {
    /// What an application sends: speech, or something whose clock is that of video (RFC 3551 section 5).
    pub const fn of(app: &AppConfig) -> Self {
        match app {
            AppConfig::Voip(call) => Self::of_codec(call.codec),
            _ => Self { payload_type: DYNAMIC, clock_hz: 90_000 },
        }
    }

    /// The payload types and clocks of RFC 3551 tables 4 and 5; G.722's clock is 8000 Hz there for historical
    /// reasons (section 4.5.2). AMR: RFC 4867 section 8; Opus: 48 kHz whatever the band (RFC 7587 section
    /// 4.1).
    const fn of_codec(codec: Codec) -> Self {
        let (payload_type, clock_hz) = match codec {
            Codec::G711 | Codec::G711Plc => (0, 8_000),
            Codec::GsmFr => (3, 8_000),
            Codec::G7231At53 | Codec::G7231At63 => (4, 8_000),
            Codec::G722 => (9, 8_000),
            Codec::G729 | Codec::G729aVad => (18, 8_000),
            Codec::Amr475 | Codec::Amr74 | Codec::Amr122 | Codec::G726At32 | Codec::GsmEfr => {
                (DYNAMIC, 8_000)
            }
            Codec::AmrWb1265 | Codec::AmrWb2305 | Codec::AmrWb2385 => (DYNAMIC, 16_000),
            Codec::Opus24 | Codec::OpusNb11 | Codec::OpusNb8 | Codec::OpusWb12 | Codec::OpusWb15 => {
                (DYNAMIC, 48_000)
            }
        };
        Self { payload_type, clock_hz }
    }

    /// The header of what is sent now. Speech is sent as soon as its last sample is there, so that its clock
    /// runs with that of the run, in pauses, too (RFC 3550 section 5.1).
    pub const fn stamped(self, now: Time, rtp: Header) -> Header {
        let ticks = now.as_nanos() as u128 * self.clock_hz as u128 / 1_000_000_000;
        Header { payload_type: self.payload_type, timestamp: ticks as u32, ..rtp }
    }
}
