//! quinn-proto in virtual time.

use quinn_proto as stack;
use quinn_proto::congestion::BbrConfig as Bbr;

include!("../virtual.rs");

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true, None)
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    [from, to]: [SocketAddr; 2],
    datagram: &[u8],
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, from, Some(to.ip()), None, datagram.into(), answer)
}

/// The bytes of what it sends, and of each datagram, and where to.
fn transmit(
    connection: &mut Connection,
    now: Instant,
    buffer: &mut Vec<u8>,
) -> Option<(usize, Option<usize>, SocketAddr)> {
    connection.poll_transmit(now, TOGETHER, buffer).map(|transmit| (transmit.size, transmit.segment_size, transmit.destination))
}

/// It has one path.
fn several_paths(_: &mut TransportConfig, _: usize) {}

fn open_path(_: &mut Connection, _: Instant, _: [SocketAddr; 2]) -> bool {
    false
}
