//! A connection of MPTCP to which strangers send packets.
#![no_main]

use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_fuzz::segments::Overheard;
use anabranch_fuzz::stage::{Beginning, MTU, PATHS, Stage};
use anabranch_transport::endpoint::Multipath as _;
use anabranch_transport::flow::Side;
use anabranch_transport::mptcp::{Config, Connection};
use anabranch_transport::rng::Streams;
use libfuzzer_sys::fuzz_target;

const SETTINGS: [&str; 8] = [
    "{}",
    r#"{"profile": "linux_6"}"#,
    r#"{"backup": [1]}"#,
    r#"{"scheduler": "round_robin"}"#,
    r#"{"receive_buffer": "8 kB", "send_buffer": "8 kB", "opportunistic_retransmission": true, "penalisation": true}"#,
    r#"{"reinjection": true, "stale_after": 2}"#,
    r#"{"coupling": {"kind": "olia"}, "tcp": {"ecn": "rfc3168"}}"#,
    r#"{"rejoin": {"after": "1 s"}, "close_timeout": "1 s"}"#,
];

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let Beginning { config, ip, changes_addresses, opens } = Beginning::<Config>::read(&mut script, SETTINGS);
    let parameters = config.resolve().expect("possible settings");
    let streams = Streams { seed: 1, replication: 0 };
    let held = Held::default();
    let mut ends = [Side::A, Side::B]
        .map(|side| Connection::new(&parameters, side, &[MTU; PATHS], ip, streams, side.name()));
    if changes_addresses {
        let _ = ends[0].enable_reconfiguration(&[]);
    }
    let mut stage = Stage::new(ends, Overheard::default(), ip, held).with_half_close();
    if opens {
        stage.open();
    }
    stage.play(&mut script);
});
