//! Whose defaults an endpoint has, and where each of them is read.
//!
//! What implementations find out as they run is here what they end with: the search for the MTU, and windows
//! of flow control that grow.

use super::config::Profile;
use crate::cc;
use crate::time::Duration;

/// The values that profiles differ in.
#[derive(Debug)]
pub(super) struct Values {
    pub(super) cc: cc::Config,
    pub(super) initial_rtt: Duration,
    pub(super) max_ack_delay: Duration,
    /// The first window in bytes, whatever the datagrams are; [`None`] for RFC 9002 section 7.2.
    pub(super) initial_window: Option<u32>,
    /// The largest payload of UDP that a search for the MTU would find.
    pub(super) found_datagram: u32,
    pub(super) send_buffer: u64,
    pub(super) max_data: u64,
    pub(super) max_stream_data: u64,
    pub(super) max_streams: u64,
    pub(super) connection_id_bytes: usize,
}

/// No limit.
const UNLIMITED: u64 = 1 << 30;

impl Profile {
    pub(super) fn values(self) -> Values {
        let cubic = || cc::Config::Cubic(cc::cubic::Config::default());
        let reno = || cc::Config::Reno(cc::reno::Config::default());
        let rfc = Values {
            cc: cubic(),
            // RFC 9002 section 6.2.2.
            initial_rtt: Duration::from_millis(333),
            // RFC 9000 section 18.2.
            max_ack_delay: Duration::from_millis(25),
            initial_window: None,
            // RFC 9000 section 14.2.
            found_datagram: 1_200,
            send_buffer: 4 << 20,
            max_data: 15 << 20,
            max_stream_data: 6 << 20,
            max_streams: 100,
            connection_id_bytes: 8,
        };
        match self {
            Self::Rfc9000 => rfc,
            // quinn-proto 0.11 and noq-proto 1.x, src/config/transport.rs: TransportConfig::default,
            // MtuDiscoveryConfig::default; src/congestion/cubic.rs: initial_window, 14,720 B, but from 2 to
            // 10 datagrams of 1200 B.
            Self::Noq | Self::Quinn => Values {
                initial_window: Some(12_000),
                found_datagram: 1_452,
                send_buffer: 10_000_000,
                max_data: UNLIMITED,
                max_stream_data: 1_250_000,
                ..rfc
            },
            // quic-go of August 2026. internal/ackhandler/sent_packet_handler.go: NewCubicSender with "use
            // Reno"; internal/congestion/cubic_sender.go: initialCongestionWindow, 32 datagrams of
            // InitialPacketSize; internal/utils/rtt_stats.go: DefaultInitialRTT; internal/protocol: params.go
            // (windows that have grown, DefaultMaxIncomingStreams, DefaultConnectionIDLength), protocol.go
            // (MaxPacketBufferSize).
            Self::QuicGo => Values {
                cc: reno(),
                initial_rtt: Duration::from_millis(100),
                initial_window: Some(32 * 1_280),
                found_datagram: 1_452,
                connection_id_bytes: 4,
                ..rfc
            },
            // picoquic of August 2026, picoquic/picoquic.h: PICOQUIC_DEFAULT_CONGESTION_ALGORITHM;
            // picoquic/picoquic_internal.h: PICOQUIC_INITIAL_RTT, PICOQUIC_ACK_DELAY_MAX,
            // PICOQUIC_CWIN_INITIAL (10 times PICOQUIC_MAX_PACKET_SIZE), PICOQUIC_PRACTICAL_MAX_MTU;
            // picoquic/quicctx.c: picoquic_init_transport_parameters, local_cnxid_length. Its windows grow
            // with what is read.
            Self::Picoquic => Values {
                cc: reno(),
                initial_rtt: Duration::from_millis(250),
                max_ack_delay: Duration::from_millis(10),
                initial_window: Some(10 * 1_536),
                found_datagram: 1_440,
                max_streams: 512,
                ..rfc
            },
        }
    }
}
