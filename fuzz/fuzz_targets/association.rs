//! An SCTP association to which strangers send packets.
#![no_main]

use anabranch_fuzz::association::Overheard;
use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_fuzz::stage::{Beginning, MTU, PATHS, Stage};
use anabranch_transport::endpoint::Multipath as _;
use anabranch_transport::flow::Side;
use anabranch_transport::rng::Streams;
use anabranch_transport::sctp::{Association, Config};
use libfuzzer_sys::fuzz_target;

const SETTINGS: [&str; 8] = [
    "{}",
    r#"{"interleaving": true, "streams": 4}"#,
    r#"{"load_sharing": {}}"#,
    r#"{"profile": "linux", "nagle": false}"#,
    r#"{"profile": "freebsd_10", "nr_sack": true, "procedures": {"only_delivered_is_final": true}}"#,
    r#"{"profile": "rfc4960", "policy": {"kind": "delay_centric"}, "hb_interval": "0.1 s"}"#,
    r#"{"nr_sack": true, "path_max_retrans": 1, "pf_max_retrans": 0, "rto_min": "20 ms", "rto_max": "0.2 s"}"#,
    r#"{"interleaving": true, "stream_scheduler": {"kind": "round_robin"}, "receive_buffer": "4 kB"}"#,
];

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let Beginning { config, ip, changes_addresses, opens } = Beginning::<Config>::read(&mut script, SETTINGS);
    let parameters = config.resolve().expect("possible settings");
    let streams = Streams { seed: 1, replication: 0 };
    let held = Held::default();
    let mut ends = [Side::A, Side::B]
        .map(|side| Association::new(&parameters, side, &[MTU; PATHS], ip, streams, side.name()));
    if changes_addresses {
        for end in &mut ends {
            end.enable_reconfiguration(&[]).expect("no path is absent");
        }
    }
    let mut stage = Stage::new(ends, Overheard::default(), ip, held);
    if opens {
        stage.open();
    }
    stage.play(&mut script);
});
