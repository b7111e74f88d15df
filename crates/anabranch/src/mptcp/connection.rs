//! One end of a connection: its state, and the dispatch of inputs to the procedures.

use std::collections::VecDeque;

use super::parameters::Parameters;
use super::stats::Stats;
use crate::cc::Controller;
use crate::endpoint::{Endpoint, Input, Output, PathSample};
use crate::packet::{IpVersion, PathId, Side};
use crate::report::Report;
use crate::rng::Streams;
use crate::tcp;
use crate::time::Time;

/// One end of an MPTCP connection. See the [module](super) for sources and deviations.
#[derive(Debug)]
pub struct Connection {
    subflows: Vec<tcp::Connection>,
    outputs: VecDeque<Output>,
    stats: Stats,
}

impl Connection {
    /// One end whose paths have these MTUs (bytes, IP header included). Everything random in it comes from
    /// streams whose names start with `name`, such as `flow/call/mptcp/a`.
    ///
    /// # Panics
    /// When [`Parameters::check_paths`] would refuse these paths.
    pub fn new(
        parameters: &Parameters,
        side: Side,
        mtus: &[u32],
        ip: IpVersion,
        streams: Streams,
        name: &str,
    ) -> Self {
        if let Err(error) = parameters.check_paths(mtus, ip) {
            panic!("{error}");
        }
        let subflow = |path: usize| {
            let name = format!("{name}/subflow_{path}");
            let parameters = parameters.tcp.of_subflow(path as u8);
            tcp::Connection::new(&parameters, side, mtus, ip, streams, &name)
        };
        Self {
            subflows: (0..mtus.len()).map(subflow).collect(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// What has been counted so far, in all connections.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Gives a subflow another congestion control than the settings name, for this and further connections.
    pub fn set_congestion_control(&mut self, path: PathId, control: Controller) {
        self.subflows[path.index()].set_congestion_control(control);
    }

    /// Lets the addresses of side A come and go; these paths are not there at first.
    ///
    /// # Errors
    /// When none is there at first: one sentence.
    pub(crate) fn enable_reconfiguration(&mut self, absent: &[PathId]) -> Result<(), String> {
        if absent.len() == self.subflows.len() {
            return Err("addresses: no path is there at first; leave one without `add`".into());
        }
        Ok(())
    }
}

impl Endpoint for Connection {
    fn handle_input(&mut self, now: Time, input: Input) {
        self.subflows[0].handle_input(now, input);
    }

    fn poll_output(&mut self, now: Time) -> Output {
        match self.outputs.pop_front() {
            Some(output) => output,
            None => self.subflows[0].poll_output(now),
        }
    }

    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        for subflow in &self.subflows {
            subflow.sample_paths(samples);
        }
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.report(report);
        for (path, subflow) in self.subflows.iter().enumerate() {
            subflow.report(&mut report.section(&format!("subflow_{path}")));
        }
    }
}
