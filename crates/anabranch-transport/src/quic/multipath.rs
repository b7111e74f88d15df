//! Several paths at the same time (RFC 10069, read as draft-ietf-quic-multipath-21): how they are opened and
//! given up, which of them carries what is sent next, and on which one packets are acknowledged.
//!
//! A client opens a path for each further one of the flow's paths as soon as both ends have issued connection
//! IDs for it. Who hears nothing on a path for a probe timeout sends elsewhere what was outstanding there,
//! and goes on to probe it.

use smallvec::SmallVec;

use super::config::AckPath;
use super::connection::{Connection, State};
use super::connection_ids::MOST;
use super::errors::{Violation, code, violation};
use super::parameters::LEAST_DATAGRAM;
use super::path::{Address, News, Path, Route, Standing};
use super::send::Load;
use super::sent_packets::Content;
use super::space::SpaceId;
use crate::cc::coupled::{Group, PathSetup};
use crate::cc::{self, CongestionControl as _, Controller};
use crate::endpoint::{CloseReason, Event, Output};
use crate::flow::{PathId, PathSet, Side};
use crate::path::PathState;
use crate::path::scheduler::{self, AnyScheduler, Decision, PathView, Pending, Scheduler as _};
use crate::rng::Draw as _;
use crate::time::Time;
use crate::wire::quic::{ConnectionId, Frame, LEAST_SAMPLED, Packet, Stream};

/// IDs that are issued for each further path: one, and one to spare.
const IDS_EACH: u64 = 2;

/// How many IDs an end issues for a path.
pub(super) const fn ids_of(place: usize) -> u64 {
    if place == 0 { MOST } else { IDS_EACH }
}

/// What a connection with several paths has.
#[derive(Debug)]
pub(super) struct Multipath {
    scheduler: AnyScheduler,
    views: Vec<PathView>,
}

impl Connection {
    /// The control of a path ID, which may be one of a group.
    pub(super) fn control_of(&self, group: Option<&Group>, place: usize, seed: u64) -> Controller {
        let setup = super::connection::setup(&self.parameters, self.datagram_bytes, self.ip, seed);
        match group {
            None => self.parameters.cc.build(&setup),
            Some(group) => {
                Controller::Coupled(group.join(PathId(place as u8), &member(&self.parameters.cc, setup)))
            }
        }
    }

    /// The control of a path for other addresses (RFC 9000 section 9.4), unless a user's own is on it. One
    /// whose window depends on those of other paths begins anew among them.
    pub(super) fn new_control(&mut self, place: usize) -> Option<Controller> {
        let seed = self.numbers.bits();
        if self.has_own_control {
            return None;
        }
        let mut control = self.control_of(None, place, seed);
        let current = &mut self.paths[place].congestion.control;
        if self.group.is_some()
            && let Controller::Coupled(of_group) = current
        {
            let setup = super::connection::setup(&self.parameters, self.datagram_bytes, self.ip, seed);
            of_group.begin_anew(&member(&self.parameters.cc, setup));
            std::mem::swap(&mut control, current);
        }
        Some(control)
    }

    /// Both ends know what the other says of itself: the path IDs that both permit are there from now on
    /// (sections 2.1 and 3.2.1).
    pub(super) fn begin_multipath(&mut self) {
        let (Some(own), Some(peers)) = (self.greatest_path_id(), self.peer.initial_max_path_id) else {
            return;
        };
        let seed = self.numbers.bits();
        let scheduler = self.parameters.scheduler.build(seed);
        self.multipath = Some(Multipath { scheduler, views: Vec::new() });
        self.permit_paths(own.min(peers));
    }

    /// There are path IDs up to this one.
    fn permit_paths(&mut self, greatest: u32) {
        let (limit, length) = (self.peer.active_connection_id_limit, self.parameters.connection_id_bytes);
        for place in self.paths.len()..=greatest as usize {
            let seed = self.numbers.bits();
            let control = self.control_of(None, place, seed);
            let mut path = Path::new(&self.parameters, control, self.datagram_bytes, Standing::Unused);
            path.own_ids.fill(limit.min(IDS_EACH), length, &mut self.numbers);
            path.own_ids.to_announce.push_front(0);
            self.paths.push(path);
        }
    }

    /// The greatest path ID that this end permits; [`None`] without multipath.
    pub(super) fn greatest_path_id(&self) -> Option<u32> {
        self.parameters.multipath.then(|| self.mtus.len() as u32 - 1)
    }

    /// A client opens the paths for which both ends have issued IDs (section 3.1).
    pub(super) fn open_paths(&mut self, now: Time) {
        if self.multipath.is_none() || self.side == Side::B || !self.handshake.is_confirmed || self.is_live {
            return;
        }
        for place in 1..self.paths.len() {
            let path = &self.paths[place];
            if path.standing != Standing::Unused || !path.peer_ids.has_any() {
                continue;
            }
            let first = self.parameters.path;
            // The flow's other paths, in their order.
            let network = PathId(if place as u8 <= first { place as u8 - 1 } else { place as u8 });
            self.open_towards(now, place, network);
        }
    }

    /// A client opens a path between this pair of addresses.
    pub(super) fn open_towards(&mut self, now: Time, place: usize, network: PathId) {
        // The server's address is known to be its own; that the path works is not.
        let route = Route::new(Address { network, port: self.ports[1], host: 0 }, true);
        self.open_path(now, place, route);
        if self.parameters.backup.contains(&network.0) {
            self.paths[place].wish(true);
        }
    }

    /// Packets come, or go, on a path ID that has not been used.
    pub(super) fn open_path(&mut self, now: Time, place: usize, route: Route) {
        let challenge = self.challenge(now);
        if let Some(group) = self.group.clone() {
            let seed = self.numbers.bits();
            self.paths[place].congestion.control = self.control_of(Some(&group), place, seed);
        }
        let path = &mut self.paths[place];
        path.standing = Standing::Open;
        path.route = route;
        path.route.challenge = Some(challenge);
    }

    /// The place of the path ID by one of whose connection IDs the peer calls this end.
    pub(super) fn place_of(&self, id: ConnectionId) -> Option<usize> {
        self.paths.iter().position(|path| path.own_ids.owns(id))
    }

    /// The place of a path ID that a frame names; [`None`] if it is over, so that the frame is ignored
    /// (section 4).
    pub(super) fn place_in_frame(&self, path: u32) -> Result<Option<usize>, Violation> {
        if self.multipath.is_none() {
            return Err(violation(code::FRAME_ENCODING_ERROR, "a frame's type is not known"));
        }
        if self.greatest_path_id().is_none_or(|greatest| path > greatest) {
            return Err(violation(code::PROTOCOL_VIOLATION, "a path ID is above the limit"));
        }
        let place = path as usize;
        let is_there = self.paths.get(place).is_some_and(|path| path.standing != Standing::Abandoned);
        Ok(is_there.then_some(place))
    }

    /// Takes a frame about paths (section 4).
    pub(super) fn on_path_frame(&mut self, now: Time, frame: &Frame) -> Result<(), Violation> {
        match *frame {
            Frame::PathAbandon { path, .. } => {
                if let Some(place) = self.place_in_frame(path)? {
                    self.abandon(now, place, code::NO_ERROR);
                }
            }
            Frame::PathStatus { path, sequence, is_available } => {
                if let Some(place) = self.place_in_frame(path)? {
                    let wish = &mut self.paths[place].news.wish;
                    if wish.is_none_or(|(latest, _)| sequence > latest) {
                        *wish = Some((sequence, !is_available));
                    }
                }
            }
            Frame::PathCidsBlocked { path, next } => {
                if let Some(place) = self.place_in_frame(path)?
                    && next > self.paths[place].own_ids.next_sequence()
                {
                    return Err(violation(code::PROTOCOL_VIOLATION, "the peer waits for an ID far ahead"));
                }
            }
            Frame::PathsBlocked { limit } => {
                self.place_in_frame(limit)?;
            }
            // Section 4.6: it never lowers the limit.
            Frame::MaxPathId { limit } => {
                self.place_in_frame(0)?;
                if self.peer.initial_max_path_id.is_some_and(|first| limit < first) {
                    return Err(violation(code::PROTOCOL_VIOLATION, "the limit of path IDs is lowered"));
                }
                self.permit_paths(limit.min(self.greatest_path_id().unwrap_or(0)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Gives a path up (section 3.4): nothing is sent there any more, and what was on its way goes elsewhere.
    pub(super) fn abandon(&mut self, now: Time, place: usize, code: u64) {
        let path = &mut self.paths[place];
        if path.standing == Standing::Abandoned {
            return;
        }
        path.standing = Standing::Abandoned;
        path.is_ready = false;
        path.news = News { abandon: Some(code), status: false, ..path.news };
        path.peer_ids = super::connection_ids::PeerIds::default();
        path.own_ids.to_announce.clear();
        (path.route.challenge, path.route.response) = (None, None);
        (path.previous, path.answer) = (None, None);
        path.congestion.pacing.timer = Time::NEVER;
        let contents = path.space.forget_sent(&mut path.congestion);
        for content in contents {
            self.on_content_lost(SpaceId::Data(place), content, matches!(content, Content::Datagram(_)));
        }
        if self.group.is_some() {
            // Its window is none of the group's any more.
            self.paths[place].congestion.control = self.control_of(None, place, 0);
        }
        self.report_state(place, PathState::Inactive);
        if self.paths.iter().all(|path| path.standing != Standing::Open) {
            self.close(now, code::NO_ERROR, false, CloseReason::Lost);
        }
    }

    /// Whether packets may be sent on a path now, at least one of 1200 bytes.
    pub(super) fn may_send_on(&self, place: usize) -> bool {
        let path = &self.paths[place];
        path.standing == Standing::Open
            && path.peer_ids.has_any()
            && path.route.allowance() >= LEAST_DATAGRAM.into()
    }

    /// Whether data goes on a path without reservation: it has been validated, and answers.
    fn works(&self, place: usize) -> bool {
        self.paths[place].is_ready && self.paths[place].rtt.back_offs() == 0 && self.may_send_on(place)
    }

    /// Whether another path than this one works.
    fn another_works(&self, place: usize) -> bool {
        (0..self.paths.len()).any(|other| other != place && self.works(other))
    }

    /// The first path that works, and where none does the one that was heard of last.
    pub(super) fn first_open(&self) -> Option<usize> {
        (0..self.paths.len()).find(|place| self.works(*place)).or_else(|| self.last_heard())
    }

    /// The path on which packets may be sent that was heard of last. Where none seems to work, this one does
    /// in one direction at least: the peer may have acknowledged its packets on a path that is dead.
    fn last_heard(&self) -> Option<usize> {
        let open = (0..self.paths.len()).filter(|place| self.may_send_on(*place));
        open.rev().max_by_key(|place| (self.paths[*place].is_ready, self.paths[*place].heard_at))
    }

    /// The path on which the packets of a path are acknowledged (section 5.4). Where none works it is one on
    /// which they come: without acknowledgements no path ever works again.
    pub(super) fn acknowledges(&self, place: usize) -> Option<usize> {
        let first = || self.first_open();
        match self.parameters.ack_path {
            AckPath::Same if self.works(place) || self.may_send_on(place) && self.is_best(place) => {
                Some(place)
            }
            AckPath::Fastest => {
                let working = (0..self.paths.len()).filter(|place| self.works(*place));
                working.min_by_key(|place| self.paths[*place].rtt.srtt()).or_else(first)
            }
            AckPath::First | AckPath::Same => first(),
        }
    }

    /// Whether a path that does not work is as good as any to acknowledge what comes there: it is not
    /// validated yet, or no other one works.
    fn is_best(&self, place: usize) -> bool {
        !self.paths[place].is_ready || !(0..self.paths.len()).any(|place| self.works(place))
    }

    /// The spaces whose packets are acknowledged by those of this one.
    pub(super) fn acknowledged_by(&self, id: SpaceId) -> SmallVec<[SpaceId; 2]> {
        match id {
            SpaceId::Data(carrier) if self.multipath.is_some() => {
                let places = 0..self.paths.len();
                let wanted = |place: &usize| {
                    self.paths[*place].space.arrived.waiting > 0 && self.acknowledges(*place) == Some(carrier)
                };
                places.filter(wanted).map(SpaceId::Data).collect()
            }
            _ => SmallVec::from_slice(&[id]),
        }
    }

    /// Sends what may be sent now on all paths: first what keeps each of them going and what is about the
    /// connection, then data where the scheduler says.
    pub(super) fn send_on_paths(&mut self, now: Time) {
        self.open_paths(now);
        let carrier = self.first_open();
        for place in 0..self.paths.len() {
            if self.may_send_on(place) {
                let load = if carrier == Some(place) { Load::Control } else { Load::Own };
                while self.send_datagram(now, place, load) {}
            }
        }
        while self.has_data_to_send() {
            let sent = match self.schedule(now) {
                Decision::Send(path) => self.send_datagram(now, path.index(), Load::Data),
                Decision::Duplicate(paths) => self.send_duplicates(now, &paths),
                Decision::Wait => false,
            };
            if !sent {
                break;
            }
        }
        self.note_limits(now, carrier);
    }

    /// What the scheduler says of the next datagram.
    fn schedule(&mut self, now: Time) -> Decision {
        let Some(mut multipath) = self.multipath.take() else { return Decision::Wait };
        multipath.views.clear();
        let any_works = (0..self.paths.len()).any(|place| self.works(place));
        for place in 0..self.paths.len() {
            if self.paths[place].standing == Standing::Open {
                multipath.views.push(self.view(now, place, any_works));
            }
        }
        let bytes = self.datagram_bytes;
        let window = u32::try_from(self.flow.room()).unwrap_or(u32::MAX);
        let data = Pending::new(now, bytes, self.unsent(), window);
        let decision = multipath.scheduler.schedule(&data, &multipath.views);
        self.multipath = Some(multipath);
        decision
    }

    /// Whether this end wants a path to be a backup.
    pub(super) fn is_own_backup(&self, place: usize) -> bool {
        let path = &self.paths[place];
        match path.news.own_wish {
            (0, _) => self.parameters.backup.contains(&path.route.address.network.0),
            (_, is_backup) => is_backup,
        }
    }

    /// What the scheduler may know of a path.
    fn view(&self, now: Time, place: usize, any_works: bool) -> PathView {
        let path = &self.paths[place];
        let (congestion, state) = (&path.congestion, path.congestion.control.state());
        let mut view = PathView::new(PathId(place as u8));
        let may_carry =
            self.works(place) || (!any_works && path.is_ready && self.last_heard() == Some(place));
        view.is_usable = may_carry && self.has_data_for(place);
        view.is_backup = self.is_own_backup(place) || path.news.wish.is_some_and(|(_, is_backup)| is_backup);
        // A copy leaves when the first one does, whatever the pace of its own path.
        let is_paced = self.parameters.scheduler != scheduler::Config::Redundant;
        view.has_room = congestion.has_room() && (!is_paced || congestion.held_until(now).is_none());
        (view.srtt, view.rttvar) = (path.rtt.srtt(), path.rtt.rttvar());
        (view.cwnd, view.ssthresh, view.outstanding) = (state.cwnd, state.ssthresh, congestion.in_flight);
        view.pace = congestion.control.limits().pacing_rate.map(|rate| rate.bits_per_sec() / 8);
        view.in_recovery = congestion.is_recovering();
        view
    }

    /// The other paths whose streams do not come to this one: with `pin_streams` those that work.
    pub(super) fn kept_from(&self, place: usize) -> PathSet {
        let mut others = PathSet::default();
        if self.parameters.pin_streams {
            let working = (0..self.paths.len()).filter(|other| *other != place && self.works(*other));
            working.for_each(|other| others.insert(PathId(other as u8)));
        }
        others
    }

    /// Whether some of the data that waits may go on this path.
    fn has_data_for(&self, place: usize) -> bool {
        !self.parameters.pin_streams
            || !self.messages.is_empty()
            || self.streams.has_ready_beside(&self.kept_from(place))
    }

    /// Bytes of streams that are written and have not been sent.
    fn unsent(&self) -> u64 {
        let sending = self.streams.iter().filter_map(|(_, stream)| stream.send.as_ref());
        sending.map(|send| send.written.saturating_sub(send.sent)).sum()
    }

    /// Sends a datagram with data on the first of these paths, and its data again on the others.
    fn send_duplicates(&mut self, now: Time, paths: &[PathId]) -> bool {
        let may_leave = |path: &&PathId| self.paths[path.index()].congestion.held_until(now).is_none();
        let Some(&first) = paths.iter().find(may_leave) else { return false };
        if !self.send_datagram(now, first.index(), Load::Data) {
            return false;
        }
        let last = self.paths[first.index()].space.sent.last();
        let chunks: SmallVec<[Content; 2]> = last
            .into_iter()
            .flat_map(|packet| packet.contents.iter().copied())
            .filter(|content| matches!(content, Content::Stream { .. }))
            .collect();
        for other in paths.iter().filter(|other| **other != first) {
            self.send_copy(now, other.index(), &chunks);
        }
        true
    }

    /// Sends data that has just left elsewhere on this path, too.
    fn send_copy(&mut self, now: Time, place: usize, chunks: &[Content]) {
        let id = SpaceId::Data(place);
        let number = self.space(id).next;
        let mut packet: Packet = self.blank(id, number);
        for (index, chunk) in chunks.iter().enumerate() {
            let &Content::Stream { id, position, length, fin } = chunk else { continue };
            let data = crate::flow::Payload { offset: position, length };
            // The last frame ends with the packet.
            let has_length = index + 1 < chunks.len();
            packet.frames.push(Frame::Stream(Stream { id, position, data, fin, has_length }));
            self.stats.bytes_retransmitted += u64::from(length);
        }
        let short = LEAST_SAMPLED.saturating_sub(packet.content() + usize::from(packet.number_bytes));
        if short > 0 {
            super::send::pad(&mut packet, short);
        }
        if !chunks.is_empty() {
            self.send_packet(now, id, packet, chunks.iter().copied().collect());
        }
    }

    /// Nothing more leaves: what holds it back, by path (RFC 9002 section 7.8).
    fn note_limits(&mut self, now: Time, carrier: Option<usize>) {
        let has_data = self.has_data_to_send();
        for place in 0..self.paths.len() {
            let load = if carrier == Some(place) { Load::Control } else { Load::Own };
            let path = &self.paths[place];
            let waits = path.standing == Standing::Open
                && (has_data && path.is_ready || self.has_content(SpaceId::Data(place), load));
            let congestion = &mut self.paths[place].congestion;
            let held = congestion.held_until(now).filter(|_| congestion.has_room());
            congestion.pacing.timer = held.filter(|_| waits).unwrap_or(Time::NEVER);
            if !waits {
                congestion.on_app_limited();
            } else if held.is_some() || !congestion.has_room() {
                congestion.is_limited = true;
            }
        }
        // Data that flow control holds back waits for what is slower.
        if self.flow.room() == 0
            && let Some(multipath) = &mut self.multipath
        {
            multipath.scheduler.on_blocked();
        }
    }

    /// The probe timeout of a path has expired: what is outstanding there is sent again elsewhere, if that is
    /// wanted and there is a path that works (section 5.7). Returns whether it is.
    pub(super) fn reinject(&mut self, place: usize) -> bool {
        if self.multipath.is_none() {
            return false;
        }
        if self.paths[place].rtt.back_offs() == 1 {
            self.report_state(place, PathState::PotentiallyFailed);
        }
        let is_possible = self.goes_elsewhere(SpaceId::Data(place));
        if is_possible && self.paths[place].rtt.back_offs() == 1 {
            self.send_elsewhere_again(place);
        }
        is_possible
    }

    /// What is outstanding on a path waits to be sent again.
    fn send_elsewhere_again(&mut self, place: usize) {
        let outstanding: Vec<_> =
            self.paths[place].space.sent.iter().flat_map(|packet| packet.contents.clone()).collect();
        for content in outstanding {
            self.on_content_lost(SpaceId::Data(place), content, true);
        }
    }

    /// When a path is given up because none of its packets is acknowledged, while another one works.
    pub(super) fn given_up_at(&self, id: SpaceId) -> Option<Time> {
        let (SpaceId::Data(place), Some(patience)) = (id, self.parameters.path_idle_timeout) else {
            return None;
        };
        let is_possible = self.multipath.is_some() && self.another_works(place);
        let oldest = self.paths[place].space.sent.iter().find(|packet| packet.elicits_ack)?;
        is_possible.then(|| oldest.at + patience)
    }

    /// Whether what a path has not delivered is sent again on another one.
    pub(super) fn goes_elsewhere(&self, id: SpaceId) -> bool {
        let SpaceId::Data(place) = id else { return false };
        self.multipath.is_some() && self.parameters.reinjection && self.another_works(place)
    }

    /// A path answers again. What went on the others while none did goes on this one.
    pub(super) fn report_answer(&mut self, place: usize) {
        if self.multipath.is_none() || !self.paths[place].is_ready {
            return;
        }
        self.report_state(place, PathState::Active);
        for other in 0..self.paths.len() {
            if self.paths[other].rtt.back_offs() > 0 && self.goes_elsewhere(SpaceId::Data(other)) {
                self.send_elsewhere_again(other);
            }
        }
    }

    fn report_state(&mut self, place: usize, state: PathState) {
        let path = self.paths[place].route.address.network;
        if self.state == State::Open {
            self.outputs.push_back(Output::Event(Event::PathChanged { path, state }));
        }
    }
}

/// What a group needs to know of a path.
pub(super) fn member(own: &cc::Config, setup: cc::Setup) -> PathSetup {
    // As in TCP (RFC 5681): two segments at least, once for several timeouts in a row.
    PathSetup { own: own.clone(), setup, initial_ssthresh: u32::MAX, ssthresh_floor: 2, holds_ssthresh: true }
}
