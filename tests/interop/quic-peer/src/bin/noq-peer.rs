//! noq as a peer.

use noq as stack;

include!("../peer.rs");

/// Another run of this program knows the connection IDs of one before.
fn keep_ids(config: &mut EndpointConfig) {
    config.cid_generator(Arc::new(|| Box::new(noq_proto::HashedConnectionIdGenerator::from_key(7))));
}
