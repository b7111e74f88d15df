//! Drills: one short exchange per rule of RFC 8684, with what must be on the wire.

use super::testing::{Pair, Wire, config, ms, plain};
use super::{Config, Handshake, Profile, Signal};
use crate::endpoint::{CloseReason, Command, Event, PathState};
use crate::packet::Side;
use crate::tcp;
use crate::time::{Duration, Time};
use crate::units::Bytes;

fn rfc() -> Config {
    config(Profile::Rfc8684)
}

fn wires(count: usize) -> Vec<Wire> {
    vec![Wire::default(); count]
}

fn mbps(rate: u64, millis: u64) -> Wire {
    Wire { delay: ms(millis), rate: Some(rate * 1_000_000), ..Wire::default() }
}

#[test]
fn a_transfer_uses_both_paths() {
    for profile in [Profile::Rfc8684, Profile::Linux6, Profile::KheirkhahV1] {
        let mut pair = Pair::new(&config(profile), vec![mbps(10, 20); 2]);
        pair.command(Side::A, Command::Connect);
        pair.write_and_close(Side::A, 2_000_000);
        pair.run_to_the_end(60);
        assert_eq!(pair.received_bytes(Side::B), 2_000_000, "{profile:?}");
        assert_eq!(pair.closed(Side::A), Some(CloseReason::Shutdown), "{profile:?}");
        assert_eq!(pair.closed(Side::B), Some(CloseReason::Shutdown), "{profile:?}");
        for path in [0, 1] {
            assert!(pair.bytes_on(Side::A, path) > 700_000, "{profile:?}: {}", pair.bytes_on(Side::A, path));
        }
    }
}
