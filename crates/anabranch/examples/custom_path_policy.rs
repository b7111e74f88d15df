//! A user's own path policy beside the standard's failover, on a call that leaves its Wi-Fi: mean opinion
//! score and changes of the primary path. At the root of the repository: `cargo run --example
//! custom_path_policy`

use anabranch::sim::Simulation;
use anabranch::study::Study;
use anabranch_transport::flow::{PathId, Side};
use anabranch_transport::path::failover::{self, Failover, Settings};
use anabranch_transport::path::{
    Basis, PathEvent, PathSelector, PathStatus, Reason, Retransmission, Selection, Selector,
};
use anabranch_transport::time::{Duration, Time};

const LOSS: Basis = Basis::compared("lost in the last second", '>', "%");

/// Leaves the primary path for the next one when more than 5 % of its data was lost within a second.
#[derive(Debug)]
struct Impatient(Time, Vec<PathStatus>, Failover);

impl PathSelector for Impatient {
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        if !matches!(event, PathEvent::Opened | PathEvent::Tick) {
            return self.2.select(now, event, paths, selection);
        }
        let primary = selection.primary.index();
        let before = self.1.get(primary).copied().unwrap_or_default();
        let sent = (paths[primary].sent_bytes - before.sent_bytes).max(1) as f64;
        let loss = 100.0 * (paths[primary].lost_bytes - before.lost_bytes) as f64 / sent;
        let next = (primary + 1) % paths.len();
        if loss > 5.0 && paths[next].is_usable() {
            selection.switch(PathId(next as u8), Reason::compared(&LOSS, loss, 5.0));
        }
        (self.0, self.1) = (now + Duration::from_secs(1), paths.to_vec());
    }
    fn retransmission_path(
        &mut self,
        loss: &Retransmission,
        paths: &[PathStatus],
        now: &Selection,
    ) -> PathId {
        self.2.retransmission_path(loss, paths, now)
    }
    fn measures(&self) -> bool {
        true
    }
    fn next_tick(&self) -> Time {
        self.0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Study::load("scenarios/wifi-to-lte.toml".as_ref(), &[])?.scenario;
    let failover = Failover::new(&failover::Config::default(), Settings::default());
    let own = Selector::Custom(Box::new(Impatient(Time::NEVER, Vec::new(), failover)));
    for (name, policy) in [("failover", Selector::Failover(failover)), ("impatient", own)] {
        let mut run = Simulation::build(&scenario, 0, false)?;
        run.set_path_selector("call", Side::A, policy)?;
        let row = run.run(&mut || None)?.row;
        let value = |metric: &str| row.value(&format!("call.{metric}")).unwrap_or(0.0);
        println!("{name}: MOS {:.2}, {} changes", value("mos"), value("sctp.a.primary_changes"));
    }
    Ok(())
}
