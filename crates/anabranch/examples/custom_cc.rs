//! A user's own congestion control beside Reno and CUBIC in the twelve scenarios of `anabranch bench-cc`:
//! goodput, and mean delay of a probe. `cargo run --example custom_cc`

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::cc::{self, AckEvent, CongestionControl, CongestionEvent, ControlState};
use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::time::Duration;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/anabranch/bench_cc/scenarios");
const FILES: &str = "clean lossy bursty deep-buffer shallow-buffer long-fat rate-step equal-pair rtt-unfair \
                     versus-cubic reverse-congestion cellular";
const MSS: u32 = 1448;

/// A window that grows by an eighth per round trip until packets wait for more than 10 ms; a loss halves it.
#[derive(Debug)]
struct Polite(u32);

impl CongestionControl for Polite {
    fn on_ack(&mut self, event: &AckEvent) {
        let queueing = event.rtt.zip(event.min_rtt).map(|(rtt, min_rtt)| rtt - min_rtt);
        if event.is_window_limited && !event.in_recovery && queueing <= Some(Duration::from_millis(10)) {
            self.0 += event.newly_acked / 8;
        }
    }
    fn on_congestion(&mut self, _event: &CongestionEvent) {
        self.0 = (self.0 / 2).max(2 * MSS);
    }
    fn limits(&self) -> cc::SendLimits {
        cc::SendLimits::window(self.0)
    }
    fn state(&self) -> ControlState {
        ControlState { cwnd: self.0, ssthresh: self.0, phase: "polite" }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setup = cc::Setup {
        mss: MSS,
        initial_cwnd: 10 * MSS,
        rules: cc::Rules::Linux6,
        seed: 1,
        is_paced: false,
        headers: 0,
    };
    let others = [cc::Config::from(cc::reno::Config::default()), cc::cubic::Config::default().into()];
    for file in FILES.split_whitespace().map(|name| format!("{FOLDER}/{name}.toml")) {
        let study = Study::load(file.as_ref(), &[])?;
        for cell in 0..study.sweep.cell_count() {
            let scenario = study.cell(cell)?;
            for (column, name) in ["reno", "cubic", "polite"].iter().enumerate() {
                let mut run = Simulation::build(&scenario, 0, false)?;
                let own = scenario.flows.keys().filter(|flow| flow.starts_with("test"));
                for flow in own.clone() {
                    let polite = || cc::Controller::Custom(Box::new(Polite(10 * MSS)));
                    let control = others.get(column).map_or_else(polite, |other| other.build(&setup));
                    run.set_congestion_control(flow, Side::A, PathId(0), control)?;
                }
                let all = run.run(&mut || None)?.row;
                let sum: f64 = own.filter_map(|flow| all.value(&format!("{flow}.goodput_kbit_per_s"))).sum();
                let delay = all.value("probe.mean_delay_ms").unwrap_or(f64::NAN);
                println!("{:<18} {cell} {name:<6} {sum:>6.0} kbit/s {delay:>4.0} ms", scenario.name);
            }
        }
    }
    Ok(())
}
