//! A connection of TCP to which strangers send packets.
#![no_main]

use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_fuzz::segments::Overheard;
use anabranch_fuzz::stage::{Beginning, MTU, PATHS, Stage};
use anabranch_transport::flow::Side;
use anabranch_transport::rng::Streams;
use anabranch_transport::tcp::{Config, Connection};
use libfuzzer_sys::fuzz_target;

const SETTINGS: [&str; 8] = [
    "{}",
    r#"{"ecn": "accurate"}"#,
    r#"{"ecn": "rfc3168", "cc": {"kind": "cubic"}}"#,
    r#"{"profile": "rfc"}"#,
    r#"{"profile": "linux_2_6_20"}"#,
    r#"{"sack": false, "timestamps": false, "nagle": "rfc896"}"#,
    r#"{"loss_detection": "dupacks", "receive_buffer": "4 kB", "send_buffer": "8 kB"}"#,
    r#"{"cc": {"kind": "bbr"}, "pacing": true, "receive_autotuning": true}"#,
];

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let Beginning { config, ip, opens, .. } = Beginning::<Config>::read(&mut script, SETTINGS);
    let parameters = config.resolve().expect("possible settings");
    let streams = Streams { seed: 1, replication: 0 };
    let held = Held::default();
    let ends = [Side::A, Side::B]
        .map(|side| Connection::new(&parameters, side, &[MTU; PATHS], ip, streams, side.name()));
    let mut stage = Stage::new(ends, Overheard::default(), ip, held).with_half_close();
    if opens {
        stage.open();
    }
    stage.play(&mut script);
});
