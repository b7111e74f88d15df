//! A telephone call over two paths, written down in Rust: `cargo run --example two_path_call`.
//!
//! The first path loses packets in bursts; the call may move to the second one. Prints what a listener
//! would say of it with different limits on the retransmission timeout.

use std::path::Path;

use anabranch::sim::Simulation;
use anabranch::study::Study;

const SCENARIO: &str = r#"
    [links.first]
    ends = ["caller", "callee"]
    rate = "1 Mbit/s"
    delay = "30 ms"
    loss = { kind = "gilbert", mean_loss = "10 %", mean_bad = "130 ms" }

    [links.second]
    ends = ["caller", "callee"]
    rate = "1 Mbit/s"
    delay = "45 ms"

    [paths]
    p0.via = ["first"]
    p1.via = ["second"]

    [flows.call]
    from = "caller"
    to = "callee"
    paths = ["p0", "p1"]
    transport = { kind = "sctp", path_max_retrans = 1, rto_min = "20 ms", hb_interval = "0.1 s" }
    app = { kind = "voip", codec = "g711+plc", start = "1 s", duration = "30 s" }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for rto_max in ["0.1 s", "1 s", "10 s"] {
        let settings = [("flows.call.transport.rto_max".to_owned(), rto_max.to_owned())];
        let study = Study::parse(SCENARIO, &settings, Path::new("."))?;
        let outcome = Simulation::build(&study.scenario, 0, false)?.run(&mut || None)?;
        let value = |name: &str| outcome.row.value(name).unwrap_or(f64::NAN);
        println!(
            "RTO.Max {rto_max:>5}: MOS {:.2}, {:.1} % lost, longest gap {:.0} ms",
            value("call.mos"),
            value("call.loss_percent"),
            value("call.longest_gap_ms"),
        );
    }
    Ok(())
}
