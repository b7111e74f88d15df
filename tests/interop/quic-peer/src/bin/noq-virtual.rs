//! noq-proto in virtual time.

use std::num::NonZeroUsize;

use noq_proto as stack;
use noq_proto::{FourTuple, PathStatus};
use noq_proto::congestion::Bbr3Config as Bbr;

include!("../virtual.rs");

fn endpoint(config: EndpointConfig, server: Option<Arc<ServerConfig>>) -> Endpoint {
    Endpoint::new(Arc::new(config), server, true)
}

fn handle(
    endpoint: &mut Endpoint,
    now: Instant,
    [from, to]: [SocketAddr; 2],
    datagram: &[u8],
    answer: &mut Vec<u8>,
) -> Option<DatagramEvent> {
    let path = FourTuple::new(from, Some(to.ip()));
    endpoint.handle(now, path, None, datagram.into(), answer)
}

/// The bytes of what it sends, and of each datagram, and where to.
fn transmit(
    connection: &mut Connection,
    now: Instant,
    buffer: &mut Vec<u8>,
) -> Option<(usize, Option<usize>, SocketAddr)> {
    let most = NonZeroUsize::new(TOGETHER)?;
    connection.poll_transmit(now, most, buffer).map(|transmit| (transmit.size, transmit.segment_size, transmit.destination))
}

fn several_paths(config: &mut TransportConfig, paths: usize) {
    config.max_concurrent_multipath_paths(paths as u32);
}

/// Opens a path from the first of these addresses to the second; whether it could.
fn open_path(connection: &mut Connection, now: Instant, [from, to]: [SocketAddr; 2]) -> bool {
    let path = FourTuple::new(to, Some(from.ip()));
    connection.open_path(path, PathStatus::Available, now).is_ok()
}
