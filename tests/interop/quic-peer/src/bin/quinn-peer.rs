//! quinn as a peer.

use quinn as stack;

include!("../peer.rs");

/// Another run of this program knows the connection IDs of one before.
fn keep_ids(config: &mut EndpointConfig) {
    config.cid_generator(|| Box::new(quinn_proto::HashedConnectionIdGenerator::from_key(7)));
}

/// It has one path at a time.
fn transport(_words: &Words) -> Outcome<Option<Arc<stack::TransportConfig>>> {
    Ok(None)
}

fn watch_paths(_connection: &Connection) {}

async fn steer(_connection: &Connection, _words: &[&str]) -> Outcome<bool> {
    Ok(false)
}
