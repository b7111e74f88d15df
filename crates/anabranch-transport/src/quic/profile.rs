//! Whose defaults an endpoint has, and where each of them is read.
//!
//! What implementations find out as they run is here what they end with: the search for the MTU, and windows
//! of flow control that grow.

use super::bucket::Burst;
use super::config::Profile;
use super::congestion::Pace;
use crate::cc;
use crate::time::Duration;

/// The values that profiles differ in.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) cc: cc::Config,
    pub(super) initial_rtt: Duration,
    pub(super) max_ack_delay: Duration,
    /// The first window in bytes, whatever the datagrams are; [`None`] for RFC 9002 section 7.2.
    pub(super) initial_window: Option<u32>,
    /// The same of BBR's first version, if that has another one.
    pub(super) initial_window_of_bbr: Option<u32>,
    pub(super) pace: Pace,
    /// What leaves together; [`None`] where each datagram has its turn.
    pub(super) burst: Option<Burst>,
    /// Whether CUBIC leaves slow start at a loss only.
    pub(super) plain_slow_start: bool,
    /// The largest payload of UDP that a search for the MTU would find.
    pub(super) found_datagram: u32,
    pub(super) send_buffer: u64,
    pub(super) max_data: u64,
    pub(super) max_stream_data: u64,
    /// The first of so many parts of a window of flow control, after which the peer is told of more.
    pub(super) window_parts: u64,
    pub(super) max_streams: u64,
    pub(super) connection_id_bytes: usize,
}

/// The bursts of quinn and noq, which suit the timers of sockets.
pub(super) const COARSE: Burst =
    Burst { of: Duration::from_millis(2), least: 10, most: 256, least_wait: None };

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
            initial_window_of_bbr: None,
            pace: Pace::Usual,
            burst: None,
            plain_slow_start: false,
            // RFC 9000 section 14.2.
            found_datagram: 1_200,
            send_buffer: 4 << 20,
            max_data: 15 << 20,
            max_stream_data: 6 << 20,
            window_parts: 2,
            max_streams: 100,
            connection_id_bytes: 8,
        };
        // quinn-proto 0.11 and noq-proto 1.x, src/config/transport.rs: TransportConfig::default,
        // MtuDiscoveryConfig::default; src/congestion/cubic.rs: initial_window, 14,720 B, but from 2 to 10
        // datagrams of 1200 B, and no way out of slow start but a loss; src/connection/streams: recv.rs
        // (max_stream_data), state.rs (add_read_credits), an eighth of a window; src/connection/pacing.rs.
        let noq = Values {
            initial_window: Some(12_000),
            plain_slow_start: true,
            burst: Some(COARSE),
            window_parts: 8,
            found_datagram: 1_452,
            send_buffer: 10_000_000,
            max_data: UNLIMITED,
            max_stream_data: 1_250_000,
            ..rfc.clone()
        };
        match self {
            Self::Rfc9000 => rfc,
            Self::Noq => noq,
            // src/congestion/bbr/mod.rs: K_MAX_INITIAL_CONGESTION_WINDOW; src/connection/mod.rs, where
            // poll_transmit asks the pacer with the window alone.
            Self::Quinn => Values { initial_window_of_bbr: Some(200 * 1_200), pace: Pace::Window, ..noq },
            // quic-go of August 2026. internal/ackhandler/sent_packet_handler.go: NewCubicSender with "use
            // Reno"; internal/congestion/cubic_sender.go: renoBeta; initialCongestionWindow, 32 datagrams of
            // InitialPacketSize (hybrid_slow_start.go, which looks at the delay alone, is not here);
            // internal/utils/rtt_stats.go: DefaultInitialRTT; internal/protocol: params.go (windows that have
            // grown, WindowUpdateThreshold, DefaultMaxIncomingStreams, DefaultConnectionIDLength),
            // protocol.go (MaxPacketBufferSize); internal/congestion/pacer.go.
            Self::QuicGo => Values {
                cc: cc::Config::Reno(cc::reno::Config { beta: Some(0.7), ..cc::reno::Config::default() }),
                initial_rtt: Duration::from_millis(100),
                initial_window: Some(32 * 1_280),
                burst: Some(Burst { most: u32::MAX, least_wait: Some(Duration::from_millis(1)), ..COARSE }),
                found_datagram: 1_452,
                window_parts: 4,
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
