//! A congestion control of one's own in the simulator: `cargo run --example custom_congestion_control`.
//!
//! A window that never changes, whatever happens, against SCTP's own control, both with more data than a
//! lossy path carries at once.

use std::path::Path;

use anabranch::cc::{AckEvent, CongestionControl, CongestionEvent, ControlState, Controller, SendLimits};
use anabranch::packet::{PathId, Side};
use anabranch::scenario::Study;
use anabranch::sim::Simulation;

/// A congestion window that stays as it is; in bytes.
#[derive(Debug)]
struct FixedWindow(u32);

impl CongestionControl for FixedWindow {
    fn on_ack(&mut self, _event: &AckEvent) {}

    fn on_congestion(&mut self, _event: &CongestionEvent) {}

    fn limits(&self) -> SendLimits {
        SendLimits::window(self.0)
    }

    fn state(&self) -> ControlState {
        ControlState { cwnd: self.0, ssthresh: self.0, phase: "fixed" }
    }
}

const SCENARIO: &str = r#"
    run.duration = "30 s"
    links.wan = { ends = ["a", "b"], rate = "5 Mbit/s", delay = "40 ms", loss = { kind = "bernoulli", probability = "1 %" } }
    paths.only.via = ["wan"]

    [flows.load]
    from = "a"
    to = "b"
    paths = ["only"]
    transport = { kind = "sctp", rto_min = "0.2 s" }
    app = { kind = "datagrams", rate = "5 Mbit/s", size = "1400 B", intervals = { kind = "cbr" } }
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let study = Study::parse(SCENARIO, &[], Path::new("."))?;
    for window in [None, Some(20_000), Some(60_000)] {
        let mut simulation = Simulation::build(&study.scenario, 0, false)?;
        if let Some(bytes) = window {
            let control = Controller::Custom(Box::new(FixedWindow(bytes)));
            simulation.set_congestion_control("load", Side::A, PathId(0), control)?;
        }
        let row = simulation.run(&mut || None)?.row;
        let name = window.map_or("SCTP's own".to_owned(), |bytes| format!("{bytes} B"));
        println!("{name:>10}: {:.0} kbit/s", row.value("load.goodput_kbit_per_s").unwrap_or(f64::NAN));
    }
    Ok(())
}
