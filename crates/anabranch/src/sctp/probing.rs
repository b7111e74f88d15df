//! What a path policy that measures asks for: ticks, probes with new data, pairs of heartbeats
//! (`path`, [`Request`]). Nothing here runs for a policy that does not measure.

use super::association::{Association, State};
use super::chunk::{Chunk, HeartbeatInfo, PairMark};
use super::outstanding::SentState;
use super::tsn;
use crate::cc::{CongestionControl as _, ProbeEvent};
use crate::packet::PathId;
use crate::path::{PathEvent, PathSelector as _, Request};
use crate::time::Time;

/// What an endpoint keeps for a policy that measures.
#[derive(Debug)]
pub(super) struct Probing {
    /// When the policy wants its tick.
    pub(super) tick: Time,
    probe: Option<Probe>,
    /// Whether a fast recovery goes on, by path.
    in_recovery: Vec<bool>,
    /// The first answer to a pair of heartbeats, by path: number, when it was sent, when the first of it was
    /// answered, when that had arrived at the peer.
    pairs: Vec<Option<FirstOfPair>>,
    pair_number: u32,
}

#[derive(Clone, Copy, Debug)]
struct FirstOfPair {
    mark: PairMark,
    sent_at: Time,
    answered_at: Time,
}

/// New data on its way as a probe.
#[derive(Debug)]
struct Probe {
    path: PathId,
    /// Bytes still to be sent.
    left: u32,
    bytes: u32,
    lost: u32,
    is_burst: bool,
    /// What has been sent and is not known to have arrived, in order.
    tsns: Vec<u32>,
}

impl Probing {
    fn new(paths: usize) -> Self {
        Self {
            tick: Time::NEVER,
            probe: None,
            in_recovery: vec![false; paths],
            pairs: vec![None; paths],
            pair_number: 0,
        }
    }
}

impl Association {
    /// Gets ready for what the policy will ask for, if it will.
    pub(super) fn prepare_probing(&mut self) {
        self.probing = self.selector.measures().then(|| Box::new(Probing::new(self.paths.len())));
    }

    /// Brings what only policies that measure are told up to date.
    fn refresh_status(&mut self) {
        for (path, status) in self.paths.iter().zip(&mut self.status) {
            let control = path.cc.state();
            (status.cwnd, status.ssthresh) = (control.cwnd, control.ssthresh);
            (status.rto, status.mtu) = (path.rto.rto, path.mtu);
        }
    }

    /// Tells a policy that measures what happened, and does what it then asks for.
    #[cold]
    pub(super) fn tell_measuring_selector(&mut self, now: Time, event: PathEvent) {
        self.refresh_status();
        self.select(now, event);
        if !matches!(self.state, State::Established | State::ShutdownPending | State::ShutdownReceived) {
            if let Some(probing) = &mut self.probing {
                probing.tick = Time::NEVER;
            }
            return;
        }
        while let Some(request) = self.selector.next_request() {
            match request {
                Request::HeartbeatPair { path, size } => self.send_heartbeat_pair(now, path, size),
                Request::Probe { path, bytes, is_burst } => self.begin_probe(now, path, bytes, is_burst),
            }
        }
        if let Some(probing) = &mut self.probing {
            probing.tick = self.selector.next_tick();
        }
    }

    #[cold]
    pub(super) fn on_policy_tick(&mut self, now: Time) {
        self.tell_selector(now, PathEvent::Tick);
        let next = self.probing.as_ref().map_or(Time::NEVER, |probing| probing.tick);
        assert!(next > now, "the path policy wants its next tick at {next}, which is not after {now}");
        self.send(now);
    }

    /// A path's window was reduced because of missing reports, outside a fast recovery.
    #[cold]
    pub(super) fn note_fast_retransmit(&mut self, now: Time, path: PathId, cwnd_before: u32) {
        if let Some(probing) = &mut self.probing {
            probing.in_recovery[path.index()] = true;
            self.tell_selector(now, PathEvent::FastRetransmit { path, cwnd_before });
        }
    }

    /// A SACK has been taken to the paths.
    #[cold]
    pub(super) fn follow_sack(&mut self, now: Time) {
        self.note_recovery_end(now, false);
        self.check_probe(now);
    }

    /// After a SACK or a timeout: which fast recoveries are over. A timeout tells nobody.
    #[cold]
    pub(super) fn note_recovery_end(&mut self, now: Time, by_timeout: bool) {
        for index in 0..self.paths.len() {
            let Some(probing) = &mut self.probing else { return };
            if self.paths[index].fast_recovery_exit.is_some() {
                continue;
            }
            if std::mem::take(&mut probing.in_recovery[index]) && !by_timeout {
                self.tell_selector(now, PathEvent::RecoveryEnded(PathId(index as u8)));
            }
        }
    }

    /// A chunk in flight on `path` was found lost.
    #[cold]
    pub(super) fn note_probe_loss(&mut self, path: PathId, tsn: u32, length: u32) {
        self.status[path.index()].lost_bytes += u64::from(length);
        if let Some(probe) = self.probing.as_mut().and_then(|probing| probing.probe.as_mut())
            && probe.path == path
            && probe.tsns.contains(&tsn)
        {
            probe.lost += length;
        }
    }

    fn begin_probe(&mut self, now: Time, path: PathId, bytes: u32, is_burst: bool) {
        let Some(probing) = self.probing.as_mut().filter(|probing| probing.probe.is_none()) else { return };
        let tsns = Vec::new();
        probing.probe = Some(Probe { path, left: bytes, bytes: 0, lost: 0, is_burst, tsns });
        self.stats.checkpoints += 1;
        self.paths[path.index()].cc.on_probe(&ProbeEvent::new(now, bytes));
    }

    /// New data for the probe, before all other new data.
    #[cold]
    pub(super) fn send_probe(&mut self, now: Time) {
        let Some(mut probe) = self.probing.as_mut().and_then(|probing| probing.probe.take()) else { return };
        // It has failed, or its address has gone.
        if !self.status[probe.path.index()].is_usable() || !self.is_usable(probe.path) {
            probe.left = 0;
        }
        let limit = if probe.is_burst { u32::MAX } else { self.burst_limit(probe.path) };
        while probe.left > 0 && self.may_send_new(now, probe.path, limit) {
            let first = self.outstanding.next_tsn();
            let before = self.outstanding.bytes;
            self.send_packet(now, probe.path);
            let bytes = (self.outstanding.bytes - before) as u32;
            let count = self.outstanding.next_tsn().wrapping_sub(first);
            probe.tsns.extend((0..count).map(|step| first.wrapping_add(step)));
            probe.left = probe.left.saturating_sub(bytes);
            probe.bytes += bytes;
            self.stats.probe_bytes += u64::from(bytes);
        }
        if let Some(probing) = &mut self.probing {
            probing.probe = Some(probe);
        }
    }

    /// Whether all of the probe has arrived, or has been given up.
    fn check_probe(&mut self, now: Time) {
        let Some(probe) = self.probing.as_mut().and_then(|probing| probing.probe.as_mut()) else { return };
        let outstanding = &self.outstanding;
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
        if let Some(probing) = &mut self.probing {
            probing.probe = None;
        }
        self.tell_selector(now, PathEvent::ProbeDone { path, bytes, lost });
    }

    /// Two heartbeats back to back, filled up with a PAD chunk (RFC 4820) each. They measure only: whether
    /// the path works is what ordinary heartbeats ask.
    fn send_heartbeat_pair(&mut self, now: Time, path: PathId, size: u32) {
        if !self.is_present(path) {
            return;
        }
        let Some(probing) = &mut self.probing else { return };
        probing.pair_number = probing.pair_number.wrapping_add(1);
        let number = probing.pair_number;
        let own = &self.paths[path.index()];
        let least = self.headers_bytes + HeartbeatInfo::PAIR_BYTES;
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

    /// The answer to one heartbeat of a pair.
    #[cold]
    pub(super) fn on_pair_ack(&mut self, now: Time, info: &HeartbeatInfo, mark: PairMark) {
        self.stats.heartbeats_acked += 1;
        let path = info.path;
        let size = self.headers_bytes + HeartbeatInfo::PAIR_BYTES + u32::from(info.padding);
        let Some(probing) = &mut self.probing else { return };
        let first = &mut probing.pairs[path.index()];
        if !mark.is_second {
            *first = Some(FirstOfPair { mark, sent_at: info.sent_at, answered_at: now });
            return;
        }
        let Some(first) = first.take().filter(|first| first.mark.number == mark.number) else { return };
        let rtt = first.answered_at.saturating_since(first.sent_at);
        let spacing = mark.arrived_at.saturating_since(first.mark.arrived_at);
        self.tell_selector(now, PathEvent::PairMeasured { path, rtt, spacing, size });
    }
}
