//! The results of a run: its row of scalars, and its traces.

use anabranch_transport::endpoint::Endpoint as _;
use anabranch_transport::flow::Side;
use anabranch_transport::observed::Observed as _;
use anabranch_transport::report::{Row, declare};
use anabranch_transport::time::Time;

use super::cuts::{Cuts, just_before};
use super::engine::{Outcome, Simulation};
use super::flow_groups;
use crate::app::App as _;
use crate::trace::{self, SentPackets, TimeAccounts, Trace};

declare! {
    /// The scalars of a whole run.
    SCALARS:
    /// Simulated time.
    SIMULATED_S = "simulated_s": Seconds;
    /// Events at hosts: packets that arrived, timers that expired, and ticks of applications.
    EVENTS = "events": One;
    /// Packets that hosts sent.
    PACKETS_SENT = "packets_sent": One;
    /// Packets that hosts received.
    PACKETS_DELIVERED = "packets_delivered": One;
    /// Packets that were lost or dropped on the way.
    PACKETS_DROPPED = "packets_dropped": One;
}

impl Simulation {
    pub(super) fn finish(mut self, cuts: Cuts) -> Outcome {
        self.network.catch_up(self.network.now);
        self.network.check_conservation();
        let now = self.network.now;
        let end = self.row(now, now);
        let mut row = cuts.report(end);
        flow_groups::report(&self.groups, &mut row);
        let (mut tables, mut sent) = (Vec::new(), SentPackets::default());
        if let Some(trace) = self.network.trace.take() {
            let Trace { packets, hops, paths, media, events } = *trace;
            let (packets, places, kept) = packets.into_table(&self.flow_names, &self.link_names, now);
            sent = kept;
            tables.push(packets);
            tables.push(hops.into_table(&places, &self.link_names, now));
            tables.push(paths.into_table(&self.flow_names));
            tables.push(events.into_table(&self.flow_names));
            if !media.is_empty() {
                tables.push(media.into_table(&self.flow_names));
            }
            tables
                .push(trace::frames_table(&self.flow_names, |flow, side| self.flows[flow].app.frames(side)));
            tables.push(trace::ratings_table(&self.flow_names, |flow, side| {
                self.flows[flow].app.ratings(side)
            }));
            tables.push(trace::intervals_table(&self.flow_names, |flow, side| {
                self.flows[flow].app.intervals(side, now)
            }));
            tables.push(trace::exchanges_table(&self.flow_names, |flow| self.flows[flow].app.exchanges()));
            tables.push(trace::queues_table(&self.link_names, now, |link, direction| {
                let mut samples = self.network.links[link].take_queue_samples(direction);
                samples.extend(self.network.media.take_queue_samples(link as u32, direction));
                samples
            }));
            tables.push(trace::loss_states_table(&self.link_names, |link, direction| {
                self.network.links[link].take_loss_states(direction, now)
            }));
            if self.network.media.has_radio() {
                tables.push(trace::radio_table(&self.link_names, now, |link, direction| {
                    self.network.media.take_radio_samples(link as u32, direction)
                }));
            }
        }
        if let Some(TimeAccounts { limits, head_of_line }) = self.accounts.map(|accounts| *accounts) {
            tables.push(limits.into_table(&self.flow_names, now));
            tables.push(head_of_line.into_table(&self.flow_names, now));
        }
        Outcome { row, tables, packets: sent, steps: self.limits.steps() }
    }

    /// The scalars up to a cut that the run has come to. What happens at the time of the cut belongs to the
    /// part after it.
    pub(super) fn row_at_cut(&mut self, cut: Time) -> Row {
        self.row_so_far(cut, just_before(cut))
    }

    /// The scalars up to a cut after the last event of the run, which may end before it.
    pub(super) fn row_at_last_cuts(&mut self, cut: Time) -> Row {
        let now = self.network.now;
        if cut <= now { self.row_at_cut(cut) } else { self.row_so_far(now, now) }
    }

    /// The names of the scalars that the run will report, without running it.
    pub fn scalars(mut self) -> Vec<String> {
        // Components write the same scalars at any time, as a warm-up needs.
        let row = self.row_so_far(Time::ZERO, Time::ZERO);
        let mut cuts = Cuts::new(&self.config);
        while !cuts.next().is_never() {
            cuts.push(row.clone());
        }
        let mut row = cuts.report(row);
        flow_groups::report(&self.groups, &mut row);
        row.scalars().map(|(name, _)| name.to_owned()).collect()
    }

    /// The scalars up to now; the run continues.
    pub(super) fn row_so_far(&mut self, now: Time, until: Time) -> Row {
        self.network.catch_up(until);
        let links = self.network.links.clone();
        let row = self.row(now, until);
        self.network.links = links;
        row
    }

    /// The scalars at `now`. Links and media are brought up to `until`, and a link can do nothing more after
    /// that.
    fn row(&mut self, now: Time, until: Time) -> Row {
        let mut row = Row::default();
        let accounts = self.accounts.as_ref().filter(|_| self.config.time_accounts);
        for (index, (name, flow)) in self.flow_names.iter().zip(&self.flows).enumerate() {
            let mut report = row.section(name.as_str());
            flow.app.report(now, &mut report);
            for side in [Side::A, Side::B] {
                let endpoint = &flow.endpoints[side.index()];
                let mut report = report.section(&format!("{}.{}", endpoint.protocol(), side.name()));
                endpoint.report(&mut report);
                if let Some(TimeAccounts { limits, head_of_line }) = accounts.map(|accounts| &**accounts) {
                    limits.report(now, index, side, &mut report);
                    head_of_line.report(now, index, side, &mut report);
                }
            }
        }
        self.network.media.finish(until);
        for (index, (name, link)) in self.link_names.iter().zip(&mut self.network.links).enumerate() {
            link.finish(until);
            let mut report = row.section(format!("link.{name}"));
            link.report(&mut report);
            self.network.media.report(index, &mut report);
        }
        let mut report = row.section("run");
        report.scalar(SIMULATED_S, now.as_secs_f64());
        report.count(EVENTS, self.limits.events());
        let tally = &self.network.tally;
        report.count(PACKETS_SENT, tally.sent);
        report.count(PACKETS_DELIVERED, tally.delivered);
        report.count(PACKETS_DROPPED, tally.dropped(until));
        row
    }
}
