//! What the policy asks for is done, and the policy is told what came of it.

use super::{FirstOfPair, Probe, Probing};
use crate::cc::{CongestionControl as _, ProbeEvent};
use crate::flow::PathId;
use crate::path::{PathEvent, PathSelector as _, PathStatus, Request};
use crate::sctp::association::Association;
use crate::sctp::outstanding::SentState;
use crate::sctp::path::Path;
use crate::sctp::tsn;
use crate::time::Time;
use crate::wire::sctp::chunk::{Chunk, HeartbeatInfo, PairMark};

impl Association {
    /// Prepares what the policy may ask for, if it asks for measurements.
    pub(in crate::sctp) fn prepare_probing(&mut self) {
        self.parts.probing =
            self.routing.selector.measures().then(|| Box::new(Probing::new(self.routing.paths.len())));
        self.refresh_parts();
    }

    /// Brings those parts of the paths' status up to date that only policies that measure are told of.
    fn refresh_status(&mut self) {
        for (path, status) in self.routing.paths.iter().zip(&mut self.routing.status) {
            (status.rto, status.mtu) = (path.rtt.rto(), path.mtu);
        }
        let refresh = |path: &Path, status: &mut PathStatus| {
            let control = path.cc.state();
            (status.cwnd, status.ssthresh) = (control.cwnd, control.ssthresh);
        };
        if let Some(sharing) = &mut self.parts.sharing {
            let mut changed = sharing.take_changed_controls(&mut self.sender.outstanding);
            while let Some(path) = changed.pop() {
                refresh(&self.routing.paths[path.index()], &mut self.routing.status[path.index()]);
            }
        } else {
            self.routing
                .paths
                .iter()
                .zip(&mut self.routing.status)
                .for_each(|(path, status)| refresh(path, status));
        }
    }

    /// Tells a policy that measures what happened, and carries out its requests.
    #[cold]
    pub(in crate::sctp) fn on_measured_event(&mut self, now: Time, event: PathEvent) {
        if matches!(event, PathEvent::TimerExpired(_)) {
            self.end_recoveries(now, true);
        }
        self.refresh_status();
        self.select(now, event);
        if !self.state.sends_data() {
            if let Some(probing) = &mut self.parts.probing {
                probing.tick = Time::NEVER;
            }
            return;
        }
        while let Some(request) = self.routing.selector.next_request() {
            match request {
                Request::HeartbeatPair { path, size } => self.send_heartbeat_pair(now, path, size),
                Request::Probe { path, bytes, is_burst } => self.begin_probe(now, path, bytes, is_burst),
            }
        }
        if let Some(probing) = &mut self.parts.probing {
            probing.tick = self.routing.selector.next_tick();
        }
    }

    #[cold]
    pub(in crate::sctp) fn on_policy_tick(&mut self, now: Time) {
        self.on_path_event(now, PathEvent::Tick);
        let next = self.parts.probing.as_ref().map_or(Time::NEVER, |probing| probing.tick);
        assert!(next > now, "the path policy wants its next tick at {next}, which is not after {now}");
        self.send(now);
    }

    /// Tells the path policy that a path's window was reduced because of missing reports, outside a fast
    /// recovery.
    #[cold]
    pub(in crate::sctp) fn on_fast_retransmit(&mut self, now: Time, path: PathId, cwnd_before: u32) {
        if let Some(probing) = &mut self.parts.probing {
            probing.in_recovery.insert(path);
            self.on_path_event(now, PathEvent::FastRetransmit { path, cwnd_before });
        }
    }

    /// Tells the path policy what a SACK has brought, after the paths have taken it.
    #[cold]
    pub(in crate::sctp) fn follow_sack(&mut self, now: Time) {
        self.end_recoveries(now, false);
        self.check_probe(now);
    }

    /// Tells the path policy after a SACK which fast recoveries have ended. It is not told of those that a
    /// timeout ends.
    #[cold]
    pub(in crate::sctp) fn end_recoveries(&mut self, now: Time, by_timeout: bool) {
        let Some(probing) = &self.parts.probing else { return };
        let mut in_recovery = probing.in_recovery;
        while let Some(path) = in_recovery.pop() {
            if self.routing.paths[path.index()].fast_recovery_exit.is_some() {
                continue;
            }
            let Some(probing) = &mut self.parts.probing else { return };
            probing.in_recovery.remove(path);
            if !by_timeout {
                self.on_path_event(now, PathEvent::RecoveryEnded(path));
            }
        }
    }

    /// A chunk in flight on `path` was found lost.
    #[cold]
    pub(in crate::sctp) fn record_probe_loss(&mut self, path: PathId, tsn: u32, length: u32) {
        self.routing.status[path.index()].lost_bytes += u64::from(length);
        if let Some(probe) = self.parts.probing.as_mut().and_then(|probing| probing.probe.as_mut())
            && probe.path == path
            && probe.tsns.contains(&tsn)
        {
            probe.lost += length;
        }
    }

    fn begin_probe(&mut self, now: Time, path: PathId, bytes: u32, is_burst: bool) {
        let is_idle = |probing: &&mut Box<Probing>| probing.probe.is_none() && self.parts.sharing.is_none();
        let Some(probing) = self.parts.probing.as_mut().filter(is_idle) else { return };
        let tsns = Vec::new();
        probing.probe = Some(Probe { path, left: bytes, bytes: 0, lost: 0, is_burst, tsns });
        self.stats.checkpoints += 1;
        self.routing.paths[path.index()].cc.on_probe(&ProbeEvent::new(now, bytes));
    }

    /// Sends new data as the probe, before all other new data.
    #[cold]
    pub(in crate::sctp) fn send_probe(&mut self, now: Time) {
        let Some(mut probe) = self.parts.probing.as_mut().and_then(|probing| probing.probe.take()) else {
            return;
        };
        // The path has failed, or its address has gone.
        if !self.routing.status[probe.path.index()].is_usable() || !self.allows_data(probe.path) {
            probe.left = 0;
        }
        let limit = if probe.is_burst { u32::MAX } else { self.burst_limit(probe.path) };
        while probe.left > 0 && self.may_send_new(now, probe.path, limit) {
            let first = self.sender.outstanding.next_tsn();
            let before = self.sender.outstanding.bytes();
            self.send_packet(now, probe.path);
            let bytes = (self.sender.outstanding.bytes() - before) as u32;
            let count = self.sender.outstanding.next_tsn().wrapping_sub(first);
            probe.tsns.extend((0..count).map(|step| first.wrapping_add(step)));
            probe.left = probe.left.saturating_sub(bytes);
            probe.bytes += bytes;
            self.stats.probe_bytes += u64::from(bytes);
        }
        if let Some(probing) = &mut self.parts.probing {
            probing.probe = Some(probe);
        }
    }

    /// Finds out whether all of the probe has arrived or has been given up.
    fn check_probe(&mut self, now: Time) {
        let Some(probe) = self.parts.probing.as_mut().and_then(|probing| probing.probe.as_mut()) else {
            return;
        };
        let outstanding = &self.sender.outstanding;
        probe.tsns.retain(|&tsn| {
            !tsn::before(tsn, outstanding.first_tsn)
                && matches!(
                    outstanding.chunks[outstanding.index(tsn)].state,
                    SentState::InFlight | SentState::Lost
                )
        });
        let Probe { path, left, bytes, lost, ref tsns, .. } = *probe;
        if left > 0 || !tsns.is_empty() {
            return;
        }
        if let Some(probing) = &mut self.parts.probing {
            probing.probe = None;
        }
        self.on_path_event(now, PathEvent::ProbeDone { path, bytes, lost });
    }

    /// Two heartbeats back to back, filled up with a PAD chunk (RFC 4820) each. They only measure; ordinary
    /// heartbeats find out whether the path works.
    fn send_heartbeat_pair(&mut self, now: Time, path: PathId, size: u32) {
        if !self.is_present(path) {
            return;
        }
        let Some(probing) = &mut self.parts.probing else { return };
        probing.pair_number = probing.pair_number.wrapping_add(1);
        let number = probing.pair_number;
        let own = &self.routing.paths[path.index()];
        let least = self.local.headers_bytes + HeartbeatInfo::PAIR_BYTES;
        let padding = (size.min(own.mtu).saturating_sub(least) & !3) as u16;
        let nonce = own.heartbeat.nonce;
        for is_second in [false, true] {
            let pair = Some(PairMark { number, is_second, arrived_at: Time::ZERO });
            let info = HeartbeatInfo { sent_at: now, nonce, path, padding, pair };
            self.stats.heartbeats_sent += 1;
            self.stats.probe_bytes += u64::from(least + u32::from(padding));
            self.transmit_one(path, Chunk::Heartbeat(info));
        }
    }

    /// One heartbeat of a pair has been answered.
    #[cold]
    pub(in crate::sctp) fn on_pair_ack(&mut self, now: Time, info: &HeartbeatInfo, mark: PairMark) {
        self.stats.heartbeats_acked += 1;
        let path = info.path;
        let size = self.local.headers_bytes + HeartbeatInfo::PAIR_BYTES + u32::from(info.padding);
        let Some(probing) = &mut self.parts.probing else { return };
        let first = &mut probing.pairs[path.index()];
        if !mark.is_second {
            *first = Some(FirstOfPair { mark, sent_at: info.sent_at, answered_at: now });
            return;
        }
        let Some(first) = first.take().filter(|first| first.mark.number == mark.number) else { return };
        let rtt = first.answered_at.saturating_since(first.sent_at);
        let spacing = mark.arrived_at.saturating_since(first.mark.arrived_at);
        self.on_path_event(now, PathEvent::PairMeasured { path, rtt, spacing, size });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::endpoint::{Command, Event, Multipath as _};
    use crate::flow::Side;
    use crate::path::failover::{self, Failover, Settings};
    use crate::path::{PathSelector, Selection, Selector};
    use crate::sctp::Config;
    use crate::sctp::config::Profile;
    use crate::sctp::testing::{Logged, Pair, config, drop_first, ms};

    /// Makes one request a second after the association has opened, and records what it is told.
    #[derive(Debug)]
    struct Once {
        at: Time,
        request: Option<Request>,
        heard: Arc<Mutex<Vec<PathEvent>>>,
        failover: Failover,
    }

    impl PathSelector for Once {
        fn select(&mut self, now: Time, event: PathEvent, paths: &[PathStatus], selection: &mut Selection) {
            self.heard.lock().expect("nobody panicked").push(event);
            match event {
                PathEvent::Opened => self.at = now + ms(1_000),
                PathEvent::Tick => self.at = Time::NEVER,
                _ => self.failover.select(now, event, paths, selection),
            }
        }
        crate::path::retransmits_by_failover!();
        fn measures(&self) -> bool {
            true
        }
        fn next_tick(&self) -> Time {
            self.at
        }
        fn next_request(&mut self) -> Option<Request> {
            self.request.take_if(|_| self.at.is_never())
        }
    }

    const FIRST: PathId = PathId(0);
    const SECOND: PathId = PathId(1);

    /// Two ends that are open, some 50 ms before the request.
    fn open(request: Request) -> (Pair, Arc<Mutex<Vec<PathEvent>>>) {
        let config =
            Config { send_buffer: Some(crate::sctp::config::Buffer::Off), ..config(Profile::Rfc9260) };
        let mut pair = Pair::new(&config, 2);
        let heard = Arc::default();
        let failover = Failover::new(&failover::Config::default(), Settings::default());
        let (at, request) = (Time::ZERO + ms(3_600_000), Some(request));
        let policy = Once { at, request, heard: Arc::clone(&heard), failover };
        pair.ends[0].set_path_selector(Selector::Custom(Box::new(policy)));
        pair.connect();
        // One round trip until the association is open, and the second after it.
        pair.run_for(ms(490));
        (pair, heard)
    }

    /// Packets with data that the first end sent on a path.
    fn data(pair: &Pair, path: PathId) -> Vec<&Logged> {
        pair.sent(Side::A, "data").into_iter().filter(|packet| packet.path == path.0).collect()
    }

    fn probe(is_burst: bool) -> Request {
        Request::Probe { path: SECOND, bytes: 20_000, is_burst }
    }

    #[test]
    fn a_probe_is_new_data_in_one_burst_beside_what_the_primary_path_carries() {
        let (mut pair, heard) = open(probe(true));
        pair.send_reliable(200, 1_400);
        pair.run_for(ms(10_000));
        let burst = data(&pair, SECOND);
        assert_eq!(burst.len(), 15, "20,000 B in packets of 1,400 B");
        assert!(burst.iter().all(|packet| packet.at == burst[0].at));
        let tsns: Vec<u32> = burst.iter().flat_map(|packet| packet.tsns()).collect();
        assert!(tsns.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)));
        assert_eq!(data(&pair, FIRST).len(), 185);
        assert_eq!(pair.received(Side::B).len(), 200);
        let heard = heard.lock().expect("nobody panicked");
        assert!(heard.contains(&PathEvent::ProbeDone { path: SECOND, bytes: 21_000, lost: 0 }));
        assert_eq!(pair.ends[0].stats().probe_bytes, 21_000);
        assert_eq!(
            (pair.ends[0].routing.status[0].sent_bytes, pair.ends[0].routing.status[1].sent_bytes),
            (259_000, 21_000)
        );
    }

    #[test]
    fn max_burst_holds_where_it_is_asked_for() {
        let (mut pair, heard) = open(probe(false));
        pair.send_reliable(200, 1_400);
        pair.run_for(ms(10_000));
        let packets = data(&pair, SECOND);
        let at_once = packets.iter().filter(|packet| packet.at == packets[0].at).count();
        // Section 6.1 D: the fifth packet takes what is outstanding beyond four MTUs.
        assert_eq!((packets.len(), at_once), (15, 5));
        assert!(
            heard
                .lock()
                .expect("nobody panicked")
                .iter()
                .any(|event| matches!(event, PathEvent::ProbeDone { .. }))
        );
    }

    #[test]
    fn what_a_probe_loses_is_recovered_before_it_is_done() {
        let (mut pair, heard) = open(probe(true));
        let mut left = 2;
        pair.drop_if = Box::new(move |_, from, packet| {
            let is_lost = left > 0 && from == Side::A && packet.path == SECOND && packet.size > 1_000;
            left -= i32::from(is_lost);
            is_lost
        });
        pair.send_reliable(200, 1_400);
        pair.run_for(ms(10_000));
        let heard = heard.lock().expect("nobody panicked");
        assert!(heard.contains(&PathEvent::ProbeDone { path: SECOND, bytes: 21_000, lost: 2_800 }));
        assert_eq!(pair.ends[0].routing.status[1].lost_bytes, 2_800);
        assert_eq!(pair.received(Side::B).len(), 200);
    }

    #[test]
    fn recovery_is_told_from_the_loss_to_its_end() {
        let (mut pair, heard) = open(probe(true));
        pair.drop_if = drop_first("data", 1);
        pair.send_reliable(40, 1_400);
        pair.run_for(ms(900));
        let heard = heard.lock().expect("nobody panicked");
        let position = |wanted: &dyn Fn(&PathEvent) -> bool| heard.iter().position(wanted);
        let begin = position(&|event| matches!(event, PathEvent::FastRetransmit { path: FIRST, .. }));
        let end = position(&|event| *event == PathEvent::RecoveryEnded(FIRST));
        assert!(begin.is_some() && begin < end, "{heard:?}");
    }

    #[test]
    fn a_pair_of_heartbeats_is_full_and_its_answers_are_not() {
        let (mut pair, heard) = open(Request::HeartbeatPair { path: SECOND, size: 9_000 });
        pair.run_for(ms(2_000));
        let pairs: Vec<_> =
            pair.sent(Side::A, "heartbeat").into_iter().filter(|sent| sent.size > 100).collect();
        assert_eq!(pairs.iter().map(|sent| (sent.path, sent.size)).collect::<Vec<_>>(), [(1, 1_500); 2]);
        let answers = pair.sent(Side::B, "heartbeat_ack").into_iter().filter(|sent| sent.size == 72).count();
        assert_eq!(answers, 2);
        let measured = PathEvent::PairMeasured { path: SECOND, rtt: ms(40), spacing: ms(0), size: 1_500 };
        assert!(heard.lock().expect("nobody panicked").contains(&measured));
        assert_eq!(pair.ends[0].stats().probe_bytes, 3_000);
    }

    #[test]
    fn ticks_end_with_the_association() {
        let (mut pair, heard) = open(probe(true));
        pair.command(Side::A, Command::Shutdown);
        pair.run_for(ms(5_000));
        assert!(pair.events[0].iter().any(|(_, event)| matches!(event, Event::Closed(_))));
        assert!(!heard.lock().expect("nobody panicked").contains(&PathEvent::Tick));
    }
}
