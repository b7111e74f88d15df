//! A path policy of one's own beside the standard's failover and the delay-centric one, on a call that walks out of
//! its Wi-Fi: mean opinion score and changes of the primary path. `cargo run --release --example custom_path_policy`

use anabranch::packet::{PathId, Side};
use anabranch::path::failover::{self, Failover, Settings};
use anabranch::path::{
    Basis, PathEvent, PathSelector, PathStatus, Reason, Retransmission, Selection, Selector,
};
use anabranch::{scenario::Study, sim::Simulation, time::Duration, time::Time};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/wifi-to-lte.toml");
const LOSS: Basis = Basis::compared("data lost in a second", '>', "%");

/// Leaves the primary path for the next one when more than 5 % of its data was lost within a second.
#[derive(Debug)]
struct Impatient {
    tick: Time,
    before: Vec<PathStatus>,
    failover: Failover,
}

impl PathSelector for Impatient {
    fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
        match event {
            PathEvent::Opened | PathEvent::Tick if now >= self.tick || event == PathEvent::Opened => {
                let primary = selection.primary.index();
                let before = self.before.get(primary).copied().unwrap_or_default();
                let sent = (paths[primary].sent_bytes - before.sent_bytes).max(1) as f64;
                let loss = 100.0 * (paths[primary].lost_bytes - before.lost_bytes) as f64 / sent;
                let next = (primary + 1) % paths.len();
                if loss > 5.0 && paths[next].is_usable() {
                    selection.switch(PathId(next as u8), Reason::compared(&LOSS, loss, 5.0));
                }
                self.before = paths.to_vec();
                self.tick = now + Duration::from_secs(1);
            }
            _ => self.failover.select(now, event, paths, selection),
        }
    }
    fn retransmission_path(&mut self, loss: &Retransmission, paths: &[PathStatus], at: &Selection) -> PathId {
        self.failover.retransmission_path(loss, paths, at)
    }
    fn measures(&self) -> bool {
        true
    }
    fn next_tick(&self) -> Time {
        self.tick
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scenario = Study::load(FILE.as_ref(), &[])?.scenario;
    let failover = Failover::new(&failover::Config::default(), Settings::default());
    let own = Selector::Custom(Box::new(Impatient { tick: Time::NEVER, before: Vec::new(), failover }));
    let (delay, standard) = (anabranch::path::delay_centric::Config::default(), failover);
    let delay = Selector::DelayCentric(anabranch::path::delay_centric::DelayCentric::new(
        &delay,
        Settings::default(),
    ));
    for (name, policy) in
        [("impatient", own), ("delay_centric", delay), ("failover", Selector::Failover(standard))]
    {
        let mut run = Simulation::build(&scenario, 0, false)?;
        run.set_path_selector("call", Side::A, policy)?;
        let row = run.run(&mut || None)?.row;
        let value = |name: &str| row.value(name).unwrap_or(f64::NAN);
        let changes = value("call.sctp.a.primary_changes");
        println!("{name:<14} MOS {:.2}, {changes} changes of the primary path", value("call.mos"));
    }
    Ok(())
}
