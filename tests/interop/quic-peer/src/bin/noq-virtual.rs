//! noq-proto in virtual time.

use std::num::NonZeroUsize;

use noq_proto as stack;
use noq_proto::FourTuple;
use noq_proto::congestion::Bbr3Config as Bbr;

include!("../virtual.rs");

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true)
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    from: SocketAddr,
    datagram: &[u8],
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    endpoint.handle(now, FourTuple::new(from, None), None, datagram.into(), answer)
}

/// The bytes of what it sends, and of each datagram.
fn transmit(
    connection: &mut Connection,
    now: Instant,
    buffer: &mut Vec<u8>,
) -> Option<(usize, Option<usize>)> {
    let most = NonZeroUsize::new(TOGETHER)?;
    connection.poll_transmit(now, most, buffer).map(|transmit| (transmit.size, transmit.segment_size))
}
