//! Goes over what is sent and what comes in, in the order of time.

use std::collections::BTreeMap;

use super::space::{Record, Space};
use super::track::PROMPT_S;
use super::{
    ACK, Chunk, Event, Expiry, FIN, Fate, Limit, Move, Packet, Protocol, Purpose, RST, Run, SYN, Said,
    Segment, Sender, Talk, Track,
};

/// Changes of the path per packet of new data from which on all paths are in use at once.
const SHARED: f64 = 0.02;

/// Chunks that answer each other at once (RFC 9260 sections 5.1 and 8.3): INIT, INIT ACK, COOKIE ECHO, COOKIE
/// ACK; HEARTBEAT.
const ANSWERS: [(u8, u8); 4] = [(1, 2), (2, 10), (10, 11), (HEARTBEAT, 5)];
const HEARTBEAT: u8 = 4;

/// What its peer answers at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    /// Of SCTP: the kind of a chunk, and the identity of a heartbeat. It is answered on any path.
    Chunk(u8, u64),
    /// Of TCP, on a path: whether the peer or its window is still there.
    Purpose(usize),
    Syn(usize),
}

/// Follows one end of a flow.
pub fn walk(talk: &Talk) -> Sender {
    let mut walk = Walk::new(talk);
    for event in &talk.events {
        walk.now = event.at_s;
        if event.is_own {
            walk.on_sent(event);
        } else {
            walk.on_heard(event);
        }
        walk.record_limits();
    }
    walk.now = talk.end_s.max(walk.now);
    for track in &mut walk.tracks {
        track.close(walk.now);
        track.settle();
    }
    Sender {
        tracks: walk.tracks,
        expiries: walk.expiries,
        moves: walk.moves,
        came_twice: walk.came_twice,
        opened_s: walk.opened_s,
        attempts: walk.attempts,
        knows_window: walk.knows_window,
        beyond: walk.beyond,
        fates: walk.fates,
    }
}

struct Walk<'a> {
    talk: &'a Talk,
    tracks: Vec<Track>,
    /// One for all paths of SCTP, else one for each.
    spaces: Vec<Space>,
    /// Of Multipath TCP, what has been sent and acknowledged on the connection level.
    data: Space,
    expiries: Vec<Expiry>,
    moves: Vec<Move>,
    fates: Vec<Fate>,
    came_twice: u64,
    opened_s: Option<f64>,
    attempts: u64,
    /// The path on which the connection began, of TCP.
    opening: Option<usize>,
    /// When and on which path the peer was asked what is not answered yet; [`None`] if twice.
    asked: BTreeMap<Question, Option<(f64, usize)>>,
    /// What the peer of SCTP still takes, as it said last.
    window: Option<i64>,
    /// By how many bits the peer shifts its window; [`None`] where its SYN was not captured.
    scale: Option<u32>,
    knows_window: bool,
    /// The number up to which the peer takes data.
    edge: Option<i64>,
    /// Packets of new data that went beyond that, and the number behind the last one under way.
    beyond: u64,
    doubted: Option<i64>,
    /// Whether the peer said last that it takes nothing.
    is_zero: bool,
    largest: i64,
    primary: Option<usize>,
    is_shared: bool,
    /// Which paths ever carry data.
    carries: Vec<bool>,
    least_s: f64,
    now: f64,
    /// Bytes under way on all paths, and on how many paths there are some.
    outstanding: i64,
    busy: usize,
}

impl<'a> Walk<'a> {
    fn new(talk: &'a Talk) -> Self {
        let count = talk.is_open.len();
        let mut carries = vec![false; count];
        let (mut changes, mut packets, mut before) = (0, 0, None);
        for event in talk.events.iter().filter(|event| event.is_own) {
            if has_data(&talk.packets[event.packet]) {
                carries[event.path] = true;
                changes += usize::from(before.is_some_and(|path| path != event.path));
                packets += 1;
                before = Some(event.path);
            }
        }
        let spaces = if talk.protocol == Protocol::Sctp { 1 } else { count };
        Self {
            talk,
            tracks: talk.is_open.iter().map(|is_open| Track::new(talk.start_s, *is_open)).collect(),
            spaces: (0..spaces).map(|_| Space::default()).collect(),
            data: Space::default(),
            expiries: Vec::new(),
            moves: Vec::new(),
            fates: vec![Fate::default(); talk.packets.len()],
            came_twice: 0,
            opened_s: None,
            attempts: 0,
            opening: None,
            asked: BTreeMap::new(),
            window: None,
            scale: None,
            knows_window: true,
            edge: None,
            beyond: 0,
            doubted: None,
            is_zero: false,
            largest: 0,
            primary: None,
            is_shared: f64::from(changes as u32) > SHARED * f64::from(packets),
            carries,
            least_s: talk.round_trip_s,
            now: talk.start_s,
            outstanding: 0,
            busy: 0,
        }
    }

    fn is_sctp(&self) -> bool {
        self.talk.protocol == Protocol::Sctp
    }

    const fn space_of(&self, path: usize) -> usize {
        if self.spaces.len() == 1 { 0 } else { path }
    }

    /// Bytes go under way on a path, or are there no longer.
    fn load(&mut self, path: usize, octets: i64) {
        let track = &mut self.tracks[path];
        let was_busy = track.outstanding > 0;
        track.outstanding += octets;
        self.outstanding += octets;
        match (was_busy, track.outstanding > 0) {
            (false, true) => self.busy += 1,
            (true, false) => self.busy -= 1,
            _ => {}
        }
    }

    fn on_sent(&mut self, event: &Event) {
        let (talk, path) = (self.talk, event.path);
        let packet = &talk.packets[event.packet];
        match &packet.said {
            Said::Segment(segment) if segment.flags & SYN != 0 => {
                let opening = *self.opening.get_or_insert(path);
                self.attempts += u64::from(opening == path);
                self.tracks[path].attempts += 1;
                if segment.scale.is_none() {
                    // Both ends have to offer it (RFC 7323 section 2.2).
                    self.scale = Some(0);
                }
            }
            Said::Segment(_) => {}
            Said::Chunks(chunks) => {
                self.attempts += u64::from(chunks.iter().any(|chunk| matches!(chunk.kind, 1 | 2)));
                if let Some(passed) =
                    chunks.iter().rev().find(|one| matches!(one.kind, 192 | 194) && one.number >= 0)
                {
                    self.on_passed(path, passed.number);
                }
            }
        }
        self.ask(event, packet);
        if self.fates[event.packet].purpose != Purpose::Data || packet.is_overtaken {
            return;
        }
        let runs = runs(packet);
        if runs.is_empty() {
            return;
        }
        if !self.is_sctp() || self.attempts == 0 {
            self.open(path); // it has been, although the capture may lack how
        }
        self.tracks[path].packets += 1;
        self.tracks[path].octets += packet.octets;
        let before = self.highest(path);
        self.on_data(event, &runs);
        if let Said::Segment(Segment { data_end: Some(end), .. }) = packet.said {
            let end = self.data.near(end);
            self.data.highest = self.data.highest.max(Some(end));
        }
        let highest = self.highest(path);
        if self.edge.is_some() && highest > before.max(self.edge) {
            // No sender does that (RFC 9293 section 3.8.6): the window that it has is another one.
            self.beyond += 1;
            self.doubted = highest;
        }
        self.tracks[path].again += u64::from(self.fates[event.packet].is_again);
    }

    fn on_data(&mut self, event: &Event, runs: &[(Run, i64)]) {
        let (path, at) = (event.path, self.space_of(event.path));
        let mut is_new = false;
        for (run, octets) in runs {
            let space = &mut self.spaces[at];
            let start = space.near(run.start);
            let whole = start..start + run.end - run.start;
            let known = space.highest.unwrap_or(whole.start);
            if whole.start >= known {
                self.add(event, whole, *octets);
                self.largest = self.largest.max(*octets);
                is_new = true;
            } else {
                self.on_again(event, &whole);
                if whole.end > known {
                    self.add(event, known..whole.end, whole.end - known);
                }
            }
        }
        if is_new {
            self.on_new(path, runs.iter().map(|(_, octets)| octets).sum());
        }
    }

    fn add(&mut self, event: &Event, run: Run, octets: i64) {
        let at = self.space_of(event.path);
        let (path, packet) = (event.path, event.packet);
        self.spaces[at].add(Record { run, octets, path, packet, times: 1, is_acknowledged: false });
        self.load(path, octets);
    }

    /// Remembers what the peer answers at once.
    fn ask(&mut self, event: &Event, packet: &Packet) {
        let path = event.path;
        let purpose = self.purpose(path, packet);
        self.fates[event.packet].purpose = purpose;
        self.tracks[path].keepalives += u64::from(purpose == Purpose::Keepalive);
        if purpose == Purpose::Probe {
            self.tracks[path].probed_s.push(self.now);
        }
        let asked = Some((self.now, path));
        if purpose != Purpose::Data && !self.is_sctp() {
            self.asked.insert(Question::Purpose(path), asked);
        }
        let mut ask = |question| {
            self.asked.entry(question).and_modify(|known| *known = None).or_insert(asked);
        };
        match &packet.said {
            Said::Segment(segment) if segment.flags & SYN != 0 => ask(Question::Syn(path)),
            Said::Segment(_) => {}
            Said::Chunks(chunks) => {
                for chunk in chunks {
                    if let Some((kind, _)) = ANSWERS.iter().find(|(kind, _)| *kind == chunk.kind) {
                        ask(question(*kind, chunk));
                    }
                }
            }
        }
    }

    /// Whether a packet asks for the peer or its window, rather than to bring something.
    ///
    /// A keep-alive has the number before the next one, and that byte or none; so has a probe of Linux.
    /// Others' probes have the next byte, which the peer does not take.
    fn purpose(&self, path: usize, packet: &Packet) -> Purpose {
        let space = &self.spaces[self.space_of(path)];
        let Some(highest) = space.highest.filter(|_| space.cumulative == space.highest) else {
            return Purpose::Data;
        };
        match &packet.said {
            Said::Chunks(chunks) => {
                let mut data = chunks.iter().filter(|chunk| is_data(chunk));
                let is_next = data.next().is_some_and(|chunk| space.near(chunk.number) == highest);
                if self.is_zero && is_next && data.next().is_none() { Purpose::Probe } else { Purpose::Data }
            }
            Said::Segment(segment) if segment.flags & (SYN | FIN | RST) != 0 => Purpose::Data,
            Said::Segment(segment) => {
                let start = space.near(segment.sequence);
                if segment.length <= 1 && start == highest - 1 {
                    if self.is_zero { Purpose::Probe } else { Purpose::Keepalive }
                } else if self.is_zero && segment.length == 1 && start == highest {
                    Purpose::Probe
                } else {
                    Purpose::Data
                }
            }
        }
    }

    /// Round trips of what is answered at once.
    fn answered(&mut self, path: usize, said: &Said) {
        match said {
            Said::Segment(segment) if segment.flags & ACK != 0 => {
                self.answer(Question::Syn(path));
                self.answer(Question::Purpose(path));
            }
            Said::Segment(_) => {}
            Said::Chunks(chunks) => {
                for chunk in chunks {
                    if let Some((asked, _)) = ANSWERS.iter().find(|(_, answer)| *answer == chunk.kind) {
                        self.answer(question(*asked, chunk));
                    }
                }
            }
        }
    }

    fn answer(&mut self, question: Question) {
        if let Some(Some((since_s, path))) = self.asked.remove(&question)
            && self.is_measured(since_s)
        {
            let delay_s = self.now - since_s;
            self.tracks[path].answers.push((self.now, delay_s));
            self.least_s = self.least_s.min(delay_s);
        }
    }

    /// Data up to this TSN is given up rather than sent again.
    fn on_passed(&mut self, path: usize, last: i64) {
        let at = self.space_of(path);
        let end = self.spaces[at].near(last) + 1;
        for (count, record) in self.spaces[at].acknowledge(end).into_iter().enumerate() {
            if count == 0 {
                self.classify(at, record);
            }
            let Record { path, packet, octets, .. } = self.spaces[at].records[record];
            self.fates[packet].was_repeated = true;
            self.load(path, -octets);
        }
    }

    /// New data goes on this path.
    fn on_new(&mut self, path: usize, octets: i64) {
        self.tracks[path].send_new(octets, self.now);
        let Some(before) = self.primary.replace(path) else { return };
        if before == path || self.is_shared {
            return;
        }
        let old = &mut self.tracks[before];
        let silent_s = self.now - old.heard_s;
        let usual_s = if old.longest_s >= 0.0 { old.longest_s } else { f64::INFINITY };
        let waits = old.outstanding > 0 && silent_s > 2.0 * usual_s;
        let is_failover = old.timeout.is_some() || waits;
        old.is_down |= is_failover;
        self.moves.push(Move { at_s: self.now, source: before, target: path, silent_s, is_failover });
    }

    fn on_again(&mut self, event: &Event, run: &Run) {
        let at = self.space_of(event.path);
        for index in self.spaces[at].within(run) {
            if self.spaces[at].records[index].is_acknowledged {
                continue;
            }
            if !self.fates[event.packet].is_again {
                self.classify(at, index);
                self.fates[event.packet].is_again = true;
            }
            let space = &mut self.spaces[at];
            let (cumulative, told_s) = (space.cumulative, space.told_s);
            let record = &mut space.records[index];
            let is_awaited = cumulative.is_some_and(|number| record.run.contains(&number))
                && told_s.is_some_and(|told_s| told_s > self.talk.packets[record.packet].sent_s);
            let fate = &mut self.fates[record.packet];
            fate.was_repeated = true;
            fate.was_awaited |= is_awaited;
            let (from, octets) = (record.path, record.octets);
            (record.path, record.packet, record.times) = (event.path, event.packet, record.times + 1);
            if from != event.path {
                self.load(from, -octets);
                self.load(event.path, octets);
            }
        }
        // What has been acknowledged meanwhile, and is sent all the same, was sent again too.
        self.fates[event.packet].is_again = true;
    }

    /// Whether a loss was reported, or a timer has expired, on the path of what was lost.
    fn classify(&mut self, at: usize, record: usize) {
        let space = &self.spaces[at];
        let path = space.records[record].path;
        let is_last = record + 1 == space.records.len();
        let is_first = record == space.base;
        let highest = space.highest.unwrap_or(0);
        // A timer takes no less than a round trip (RFC 6298 section 2, RFC 9260 section 6.3.1).
        let prompt_s = if self.least_s.is_finite() { PROMPT_S.max(self.least_s) } else { PROMPT_S };
        let is_sctp = self.is_sctp();
        let track = &mut self.tracks[path];
        let silent_s = self.now - track.heard_s;
        if silent_s <= prompt_s {
            if track.timeout.is_none() && track.recovery.is_none() {
                track.recovery = Some(highest);
                track.recoveries += 1;
            }
            return;
        }
        if self.now - track.expired_s <= prompt_s {
            return; // what was lost goes out packet by packet
        }
        if !is_sctp && is_last && !is_first && track.timeout.is_none() {
            track.probes += 1;
            return;
        }
        track.row = if track.expired_s >= track.heard_s { track.row + 1 } else { 1 };
        let since_s = track.heard_s.max(track.expired_s);
        self.expiries.push(Expiry { at_s: self.now, path, waited_s: self.now - since_s, row: track.row });
        track.timeouts += 1;
        track.expired_s = self.now;
        (track.timeout, track.recovery) = (Some(highest), None);
        if track.row > 1 {
            // Others are heard while it is silent.
            let heard_s = track.heard_s;
            let is_down = self.tracks.iter().any(|one| one.heard_s > heard_s);
            self.tracks[path].is_down |= is_down;
        }
    }

    fn on_heard(&mut self, event: &Event) {
        let (talk, path) = (self.talk, event.path);
        let said = &talk.packets[event.packet].said;
        self.answered(path, said);
        match said {
            Said::Segment(segment) => {
                if segment.flags & SYN != 0 {
                    // The peer's window has the scale of its SYN.
                    self.scale = Some(segment.scale.unwrap_or(0));
                }
                (self.tracks[path].heard_s, self.tracks[path].is_down) = (self.now, false);
                if segment.flags & ACK != 0 {
                    self.open(path);
                }
                if let Some(number) = segment.acknowledgement {
                    self.on_segment(path, segment, number);
                }
            }
            Said::Chunks(chunks) => {
                if chunks.iter().any(|chunk| matches!(chunk.kind, 10 | 11)) {
                    (0..self.tracks.len()).for_each(|each| self.open(each));
                }
                if chunks.iter().any(|chunk| ANSWERS.iter().any(|(_, answer)| *answer == chunk.kind)) {
                    (self.tracks[path].heard_s, self.tracks[path].is_down) = (self.now, false);
                }
                let is_sack = |chunk: &&Chunk| matches!(chunk.kind, 3 | 16) && chunk.number >= 0;
                if let Some(sack) = chunks.iter().rev().find(is_sack) {
                    self.on_sack(path, sack);
                }
            }
        }
        self.end_episodes();
    }

    fn open(&mut self, path: usize) {
        self.opened_s.get_or_insert(self.now);
        self.tracks[path].is_open = true;
    }

    fn on_segment(&mut self, path: usize, segment: &Segment, number: i64) {
        let at = self.space_of(path);
        let space = &mut self.spaces[at];
        let cumulative = space.near(number);
        space.take(cumulative);
        space.told_s = Some(self.now);
        let known: Vec<Run> =
            segment.selective.iter().map(|run| space.near(run.start)..space.near(run.end)).collect();
        // What lies below the acknowledgement, or in the second report, came twice (RFC 2883).
        let is_twice = known.first().is_some_and(|first| {
            first.end <= cumulative
                || known.get(1).is_some_and(|one| one.start <= first.start && first.end <= one.end)
        });
        let mut done = space.acknowledge(cumulative);
        for run in &known[usize::from(is_twice)..] {
            done.extend(space.select(run));
        }
        let is_asked =
            self.tracks[path].keepalives > 0 && known.first() == Some(&(cumulative - 1..cumulative));
        self.came_twice += u64::from(is_twice && !is_asked);
        self.acknowledged(at, &done);
        self.is_zero = segment.window == 0;
        let scale = if segment.flags & SYN != 0 || self.is_zero { Some(0) } else { self.scale };
        self.knows_window &= scale.is_some();
        let Some(scale) = scale else {
            self.edge = None;
            return;
        };
        let window = segment.window << scale.min(14);
        let start = match self.talk.protocol {
            Protocol::Mptcp => segment.data_acknowledgement.map(|number| self.data.near(number)),
            _ => Some(cumulative),
        };
        if let Some(start) = start {
            self.edge = Some(start + window);
            self.doubted.take_if(|doubted| *doubted <= start);
        }
    }

    fn on_sack(&mut self, path: usize, sack: &Chunk) {
        let at = self.space_of(path);
        let space = &mut self.spaces[at];
        let cumulative = space.near(sack.number) + 1;
        space.take(cumulative);
        space.told_s = Some(self.now);
        let mut done = space.acknowledge(cumulative);
        let offset = cumulative - 1 - sack.number;
        for gap in &sack.gaps {
            done.extend(space.select(&(gap.start + offset..gap.end + offset)));
        }
        self.acknowledged(at, &done);
        self.tracks[path].heard_s = self.now;
        self.window = Some(sack.window);
        self.is_zero = sack.window == 0;
    }

    fn acknowledged(&mut self, at: usize, done: &[usize]) {
        // By path: the newest record that was sent once, and whether all were in one packet.
        let mut newest: Vec<(usize, Option<usize>, usize, bool)> = Vec::new();
        for &index in done {
            let Record { path, packet, octets, times, .. } = self.spaces[at].records[index];
            self.load(path, -octets);
            self.tracks[path].heard_s = self.now;
            let known = newest.iter().position(|one| one.0 == path).unwrap_or_else(|| {
                newest.push((path, None, packet, true));
                newest.len() - 1
            });
            let (_, best, first, is_single) = &mut newest[known];
            *is_single &= *first == packet;
            if times == 1 {
                self.tracks[path].is_down = false;
                let sent_s = |packet: usize| self.talk.packets[packet].sent_s;
                if best.is_none_or(|best| sent_s(packet) > sent_s(best)) {
                    *best = Some(packet);
                }
            }
        }
        for (path, best, _, is_single) in newest {
            let Some(packet) = best else { continue };
            let sent_s = self.talk.packets[packet].sent_s;
            if !self.is_measured(sent_s) {
                continue;
            }
            let delay_s = self.now - sent_s;
            // A second packet is acknowledged at once (RFC 9293 section 3.8.6.3, RFC 9260 section 6.2); one
            // with nothing behind it may have waited for one.
            let is_last = self.spaces[at].records.last().is_some_and(|last| last.packet == packet);
            let track = &mut self.tracks[path];
            if is_single && is_last {
                track.bounds.push((self.now, delay_s));
            } else {
                track.round_trips.push((self.now, delay_s));
                track.longest_s = track.longest_s.max(delay_s);
            }
            self.least_s = self.least_s.min(delay_s);
        }
    }

    /// Whether the clock was not set meanwhile.
    fn is_measured(&self, since_s: f64) -> bool {
        let cuts = |until_s: f64| self.talk.cuts_s.partition_point(|cut| *cut < until_s);
        cuts(since_s) == cuts(self.now)
    }

    fn end_episodes(&mut self) {
        let is_one = self.spaces.len() == 1;
        for (path, track) in self.tracks.iter_mut().enumerate() {
            let done = self.spaces[if is_one { 0 } else { path }].cumulative.unwrap_or(-1);
            let is_over = |until: &mut i64| done >= *until || track.outstanding <= 0;
            track.recovery.take_if(is_over);
            track.timeout.take_if(is_over);
        }
    }

    /// What the peer takes beyond what it has been sent, in bytes; all where it is not known.
    fn room(&self, path: usize) -> i64 {
        if self.is_sctp() {
            return self.window.map_or(i64::MAX, |window| window - self.outstanding);
        }
        match (self.edge, self.highest(path)) {
            (Some(edge), Some(highest)) if self.doubted.is_none() => edge - highest,
            _ => i64::MAX,
        }
    }

    /// The number behind what has been sent, where the peer's window counts.
    fn highest(&self, path: usize) -> Option<i64> {
        let is_whole = self.talk.protocol == Protocol::Mptcp;
        if is_whole { self.data.highest } else { self.spaces[self.space_of(path)].highest }
    }

    fn limit(&self, path: usize, room: i64) -> Limit {
        let track = &self.tracks[path];
        let is_busy = track.outstanding > 0;
        let is_elsewhere = self.busy > usize::from(is_busy);
        // A path that others carry data beside, and that never has any, stands by.
        let is_spare = !self.carries[path] && self.carries.contains(&true);
        let is_primary = self.primary.is_none_or(|primary| primary == path);
        if !track.is_open {
            Limit::Handshake
        } else if track.is_down {
            Limit::PathDown
        } else if track.timeout.is_some() {
            Limit::InTimeout
        } else if track.recovery.is_some() {
            Limit::InRecovery
        } else if is_busy && room < self.largest {
            Limit::ReceiveWindowLimited
        } else if is_busy {
            Limit::UnderWay
        } else if self.is_zero && is_primary {
            Limit::WindowClosed
        } else if is_spare || is_elsewhere || !is_primary {
            Limit::Standby
        } else {
            Limit::ApplicationLimited
        }
    }

    fn record_limits(&mut self) {
        for path in 0..self.tracks.len() {
            let room = self.room(path);
            let limit = self.limit(path, room);
            self.tracks[path].wait_for(limit, room, self.now);
        }
    }
}

fn is_data(chunk: &Chunk) -> bool {
    matches!(chunk.kind, 0 | 64) && chunk.number >= 0
}

fn question(kind: u8, chunk: &Chunk) -> Question {
    Question::Chunk(kind, if kind == HEARTBEAT { chunk.identity } else { 0 })
}

/// Whether a packet carries something of the application's.
fn has_data(packet: &Packet) -> bool {
    match &packet.said {
        Said::Segment(segment) => segment.length > 0 && segment.flags & SYN == 0,
        Said::Chunks(chunks) => chunks.iter().any(is_data),
    }
}

/// The numbers of a packet's data, each with its bytes.
fn runs(packet: &Packet) -> Vec<(Run, i64)> {
    match &packet.said {
        Said::Segment(_) if !has_data(packet) => Vec::new(),
        Said::Segment(segment) => {
            vec![(segment.sequence..segment.sequence + segment.length, segment.length)]
        }
        Said::Chunks(chunks) => chunks
            .iter()
            .filter(|chunk| is_data(chunk))
            .map(|chunk| (chunk.number..chunk.number + 1, chunk.octets))
            .collect(),
    }
}
