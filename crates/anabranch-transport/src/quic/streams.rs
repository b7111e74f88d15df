//! The streams of a connection: which there are, whose they are, and which has something to send (RFC 9000
//! sections 2 and 3).

use std::collections::{BTreeMap, VecDeque};

use super::errors::{Violation, code, violation};
use super::flow_control::{FlowControl, Window};
use super::receive_stream::ReceiveStream;
use super::send_stream::SendStream;
use crate::flow::PathSet;
use crate::wire::quic::Parameters;

/// The kinds of streams: their place in pairs of limits.
const BIDIRECTIONAL: usize = 0;
const UNIDIRECTIONAL: usize = 1;

/// What a stream's ID says (section 2.1).
pub(super) const fn is_servers(id: u64) -> bool {
    id & 1 == 1
}

pub(super) const fn is_bidirectional(id: u64) -> bool {
    id & 2 == 0
}

const fn kind(id: u64) -> usize {
    if is_bidirectional(id) { BIDIRECTIONAL } else { UNIDIRECTIONAL }
}

/// A stream: the parts that this end has of it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) send: Option<SendStream>,
    pub(super) receive: Option<ReceiveStream>,
    /// Frames about the stream that are to be sent.
    pub(super) wants: Wants,
}

/// Frames about a stream that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "a frame of each kind")]
pub(super) struct Wants {
    pub(super) max_stream_data: bool,
    pub(super) reset: bool,
    pub(super) stop_sending: bool,
    pub(super) blocked: bool,
    /// Whether the stream stands in the queue of those that want something.
    is_queued: bool,
}

/// The streams of a connection.
#[derive(Debug)]
pub(super) struct Streams {
    is_server: bool,
    all: BTreeMap<u64, Stream>,
    /// How many this end has opened, and how many it may (`MAX_STREAMS`), of each kind.
    opened: [u64; 2],
    pub(super) limits: [u64; 2],
    /// How many the peer has opened, may open, and has had closed.
    opened_by_peer: [u64; 2],
    pub(super) offered: [u64; 2],
    closed_by_peer: [u64; 2],
    most: u64,
    /// What the peer permits on a stream at first: of ours, of its own, of one direction.
    first_limits: [u64; 3],
    window: Window,
    /// Streams with data to send, in the order in which they may.
    ready: VecDeque<u64>,
    /// Streams with frames about them to send.
    wanting: VecDeque<u64>,
    /// The kinds of which `MAX_STREAMS` and `STREAMS_BLOCKED` are to be sent.
    pub(super) wants_limit: [bool; 2],
    pub(super) wants_blocked: [bool; 2],
}

impl Streams {
    pub(super) fn new(is_server: bool, most: u64, window: Window) -> Self {
        Self {
            is_server,
            all: BTreeMap::new(),
            opened: [0; 2],
            limits: [0; 2],
            opened_by_peer: [0; 2],
            offered: [most; 2],
            closed_by_peer: [0; 2],
            most,
            first_limits: [0; 3],
            window,
            ready: VecDeque::new(),
            wanting: VecDeque::new(),
            wants_limit: [false; 2],
            wants_blocked: [false; 2],
        }
    }

    /// The limits that the peer's transport parameters say (section 18.2).
    pub(super) fn set_limits(&mut self, peer: &Parameters) {
        self.limits = [peer.initial_max_streams_bidi, peer.initial_max_streams_uni];
        self.first_limits = [
            // What is remote to the peer is ours.
            peer.initial_max_stream_data_bidi_remote,
            peer.initial_max_stream_data_bidi_local,
            peer.initial_max_stream_data_uni,
        ];
    }

    const fn is_own(&self, id: u64) -> bool {
        is_servers(id) == self.is_server
    }

    /// A stream of these parts.
    fn create(&mut self, id: u64) {
        let (is_own, has_both) = (self.is_own(id), is_bidirectional(id));
        let limit = match (has_both, is_own) {
            (true, true) => self.first_limits[0],
            (true, false) => self.first_limits[1],
            (false, _) => self.first_limits[2],
        };
        let stream = Stream {
            send: (has_both || is_own).then(|| SendStream::new(limit)),
            receive: (has_both || !is_own).then(|| ReceiveStream::new(self.window)),
            wants: Wants::default(),
        };
        self.all.insert(id, stream);
    }

    /// Opens a stream of this end, if the peer permits another one (section 4.6).
    pub(super) fn open(&mut self, bidirectional: bool) -> Option<u64> {
        let kind = if bidirectional { BIDIRECTIONAL } else { UNIDIRECTIONAL };
        if self.opened[kind] >= self.limits[kind] {
            self.wants_blocked[kind] = true;
            return None;
        }
        let id = self.opened[kind] << 2 | (kind as u64) << 1 | u64::from(self.is_server);
        self.opened[kind] += 1;
        self.create(id);
        Some(id)
    }

    /// Whether the peer permits another stream of this end.
    pub(super) const fn can_open(&self, bidirectional: bool) -> bool {
        let kind = if bidirectional { BIDIRECTIONAL } else { UNIDIRECTIONAL };
        self.opened[kind] < self.limits[kind]
    }

    /// The ID of the next stream with two directions that this end opens.
    pub(super) fn next_id(&self) -> u64 {
        self.opened[BIDIRECTIONAL] << 2 | u64::from(self.is_server)
    }

    /// The stream that a frame of the peer is about; [`None`] if it is over. `sends` is whether the frame is
    /// about what this end sends (sections 19.4 to 19.13).
    pub(super) fn of_frame(&mut self, id: u64, sends: bool) -> Result<Option<&mut Stream>, Violation> {
        let number = id >> 2;
        let kind = kind(id);
        if self.is_own(id) {
            if number >= self.opened[kind] {
                return Err(violation(
                    code::STREAM_STATE_ERROR,
                    "a frame is about a stream that is not open",
                ));
            }
            if !sends && kind == UNIDIRECTIONAL {
                return Err(violation(
                    code::STREAM_STATE_ERROR,
                    "the peer sends on a stream that only we send on",
                ));
            }
        } else {
            if sends && kind == UNIDIRECTIONAL {
                return Err(violation(code::STREAM_STATE_ERROR, "we do not send on this stream"));
            }
            if number >= self.offered[kind] {
                return Err(violation(code::STREAM_LIMIT_ERROR, "the peer opens more streams than it may"));
            }
            // Section 3.2: a stream opens all of its kind before it.
            while self.opened_by_peer[kind] <= number {
                let opened = self.opened_by_peer[kind];
                self.create(opened << 2 | id & 3);
                self.opened_by_peer[kind] += 1;
            }
        }
        Ok(self.all.get_mut(&id))
    }

    /// Whether there is or was such a stream.
    pub(super) fn has_opened(&self, id: u64) -> bool {
        let opened = if self.is_own(id) { self.opened } else { self.opened_by_peer };
        id >> 2 < opened[kind(id)]
    }

    pub(super) fn get(&self, id: u64) -> Option<&Stream> {
        self.all.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Stream> {
        self.all.get_mut(&id)
    }

    pub(super) fn sender(&mut self, id: u64) -> Option<&mut SendStream> {
        self.all.get_mut(&id)?.send.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Stream)> {
        self.all.iter().map(|(id, stream)| (*id, stream))
    }

    /// Puts the stream in the queue of those with data, unless it is there.
    pub(super) fn queue(&mut self, id: u64) {
        if let Some(send) = self.all.get_mut(&id).and_then(|stream| stream.send.as_mut())
            && !send.is_queued
        {
            send.is_queued = true;
            self.ready.push_back(id);
        }
    }

    /// Puts all streams that flow control of the connection held back in the queue.
    pub(super) fn queue_all(&mut self) {
        let waiting: Vec<u64> =
            self.all.iter().filter(|(_, stream)| stream.has_unsent()).map(|(id, _)| *id).collect();
        for id in waiting {
            self.queue(id);
        }
    }

    /// Whether a stream may have data to send.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a stream that stays on none of these paths may have data to send.
    pub(super) fn has_ready_beside(&self, paths: &PathSet) -> bool {
        let sending = self.ready.iter().filter_map(|id| self.all.get(id)?.send.as_ref());
        sending.into_iter().any(|send| send.path.is_none_or(|path| !paths.contains(path)))
    }

    /// The stream whose turn it is, which has something to send and stays on none of these paths. Streams
    /// that have nothing leave the queue.
    pub(super) fn next_ready(&mut self, flow: &FlowControl, others: &PathSet) -> Option<u64> {
        let mut passed = 0;
        while let Some(&id) = self.ready.get(passed).and_then(|_| self.ready.front()) {
            let stream = self.all.get_mut(&id);
            if let Some(Stream { send: Some(send), wants, .. }) = stream {
                if send.next(flow.room()).is_some() {
                    if send.path.is_none_or(|path| !others.contains(path)) {
                        return Some(id);
                    }
                    self.ready.rotate_left(1);
                    passed += 1;
                    continue;
                }
                send.is_queued = false;
                if send.is_blocked() && send.blocked_at != Some(send.limit) {
                    // Section 4.1: say so once for each limit.
                    send.blocked_at = Some(send.limit);
                    wants.blocked = true;
                    self.want(id);
                }
            }
            self.ready.pop_front();
        }
        None
    }

    /// The stream at the front has had its turn.
    pub(super) fn rotate(&mut self) {
        if self.ready.len() > 1
            && let Some(id) = self.ready.pop_front()
        {
            self.ready.push_back(id);
        }
    }

    /// Notes that frames about the stream wait.
    pub(super) fn want(&mut self, id: u64) {
        if let Some(stream) = self.all.get_mut(&id)
            && !stream.wants.is_queued
        {
            stream.wants.is_queued = true;
            self.wanting.push_back(id);
        }
    }

    pub(super) fn has_wanting(&self) -> bool {
        !self.wanting.is_empty() || self.wants_limit != [false; 2] || self.wants_blocked != [false; 2]
    }

    /// The stream about which frames wait.
    pub(super) fn next_wanting(&mut self) -> Option<(u64, &mut Stream)> {
        let id = loop {
            let id = *self.wanting.front()?;
            if self.all.get(&id).is_some_and(|stream| stream.wants.has_any()) {
                break id;
            }
            if let Some(stream) = self.all.get_mut(&id) {
                stream.wants.is_queued = false;
            }
            self.wanting.pop_front();
        };
        self.all.get_mut(&id).map(|stream| (id, stream))
    }

    /// Forgets a stream if both ends are through with it; another one of the peer may come for it (section
    /// 4.6).
    pub(super) fn close_if_done(&mut self, id: u64) {
        let Some(stream) = self.all.get(&id) else { return };
        let sends = stream.send.as_ref().is_some_and(|send| !send.is_done());
        let receives = stream.receive.as_ref().is_some_and(|receive| !receive.is_done());
        if sends || receives {
            return;
        }
        self.all.remove(&id);
        if !self.is_own(id) {
            let kind = kind(id);
            self.closed_by_peer[kind] += 1;
            let left = self.offered[kind] - self.closed_by_peer[kind];
            if left <= self.most / 2 {
                self.wants_limit[kind] = true;
            }
        }
    }

    /// The limit of a `MAX_STREAMS` frame that is sent now.
    pub(super) fn offer(&mut self, kind: usize) -> u64 {
        self.offered[kind] = self.offered[kind].max(self.closed_by_peer[kind] + self.most);
        self.offered[kind]
    }

    /// The peer permits more streams.
    pub(super) fn on_max_streams(&mut self, bidirectional: bool, limit: u64) {
        let kind = if bidirectional { BIDIRECTIONAL } else { UNIDIRECTIONAL };
        self.limits[kind] = self.limits[kind].max(limit);
    }

    /// The peer's limits are higher than what was remembered of them (section 7.4.1).
    pub(super) fn raise_limits(&mut self) {
        let own: Vec<u64> = self.all.keys().copied().filter(|id| self.is_own(*id)).collect();
        for id in own {
            let limit = self.first_limits[if is_bidirectional(id) { 0 } else { 2 }];
            if let Some(send) = self.sender(id) {
                send.limit = send.limit.max(limit);
            }
            self.queue(id);
        }
    }

    /// All streams of this end begin anew, under the limits of now, as after early data that is rejected (RFC
    /// 9001 section 4.6.2). Returns those beyond the limit, which are not open any more: what was written on
    /// each, and whether that is all. Those with one direction are the live host's, which sends no early
    /// data.
    pub(super) fn begin_anew(&mut self) -> Vec<(u64, u64, bool)> {
        let own: Vec<u64> = self.all.keys().copied().filter(|id| self.is_own(*id)).collect();
        let mut beyond = Vec::new();
        for id in own {
            let limit = self.first_limits[if is_bidirectional(id) { 0 } else { 2 }];
            let Some(send) = self.sender(id) else { continue };
            send.begin_anew(limit);
            let (written, is_finished, is_reset) = (send.written, send.is_finished, send.reset.is_some());
            if is_bidirectional(id) && id >> 2 >= self.limits[BIDIRECTIONAL] {
                self.all.remove(&id);
                self.opened[BIDIRECTIONAL] -= 1;
                beyond.push((id, written, is_finished));
            } else {
                self.queue(id);
            }
            if is_reset && let Some(stream) = self.all.get_mut(&id) {
                stream.wants.reset = true;
                self.want(id);
            }
        }
        beyond
    }

    /// How many streams are open, of both ends.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

impl Stream {
    /// Whether it has something that has not been sent, or has to be again.
    pub(super) fn has_unsent(&self) -> bool {
        self.send.as_ref().is_some_and(|send| send.next(u64::MAX - send.sent).is_some())
    }
}

impl Wants {
    const fn has_any(self) -> bool {
        self.max_stream_data || self.reset || self.stop_sending || self.blocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(is_server: bool) -> Streams {
        let mut streams = Streams::new(is_server, 10, Window { bytes: 1_000, parts: 2 });
        streams.set_limits(&Parameters {
            initial_max_streams_bidi: 2,
            initial_max_streams_uni: 1,
            initial_max_stream_data_bidi_local: 11,
            initial_max_stream_data_bidi_remote: 12,
            initial_max_stream_data_uni: 13,
            ..Parameters::default()
        });
        streams
    }

    /// RFC 9000 sections 2.1, 4.6 and 18.2.
    #[test]
    fn ids_and_limits_are_those_of_the_rfc() {
        for (is_server, ids) in [(false, [0, 4, 2]), (true, [1, 5, 3])] {
            let mut streams = streams(is_server);
            assert_eq!([true, true, false].map(|both| streams.open(both)), ids.map(Some));
            assert_eq!([streams.open(true), streams.open(false)], [None; 2]);
            assert_eq!(streams.wants_blocked, [true; 2]);
            assert_eq!(streams.sender(ids[0]).unwrap().limit, 12);
            assert_eq!(streams.sender(ids[2]).unwrap().limit, 13);
            assert!(streams.get(ids[2]).unwrap().receive.is_none());
            streams.on_max_streams(true, 3);
            assert_eq!(streams.open(true), Some(ids[1] + 4));
        }
    }

    /// RFC 9000 sections 2.1, 3.2 and 19.
    #[test]
    fn frames_about_wrong_streams_are_errors() {
        let mut streams = streams(false);
        let codes =
            |streams: &mut Streams, id, sends| streams.of_frame(id, sends).map(|_| ()).map_err(|e| e.code);
        assert_eq!(codes(&mut streams, 0, false), Err(code::STREAM_STATE_ERROR), "we have not opened it");
        assert_eq!(codes(&mut streams, 3, true), Err(code::STREAM_STATE_ERROR), "we do not send there");
        streams.open(false);
        assert_eq!(codes(&mut streams, 2, false), Err(code::STREAM_STATE_ERROR), "only we send there");
        assert_eq!(codes(&mut streams, 1 + 4 * 10, false), Err(code::STREAM_LIMIT_ERROR));
        assert_eq!(codes(&mut streams, 1 + 4 * 3, false), Ok(()));
        assert_eq!(streams.len(), 5, "one of ours, and four of the peer's");
        assert_eq!(streams.sender(1).unwrap().limit, 11);
    }

    #[test]
    fn what_is_over_makes_room_for_others() {
        let mut streams = streams(false);
        for number in 0..10 {
            let id = 3 + 4 * number;
            let stream = streams.of_frame(id, false).unwrap().unwrap();
            let mut flow = FlowControl::new(Window { bytes: 100, parts: 2 });
            stream.receive.as_mut().unwrap().on_reset(0, &mut flow).unwrap();
            streams.close_if_done(id);
        }
        assert_eq!((streams.len(), streams.wants_limit), (0, [false, true]));
        assert_eq!(streams.offer(UNIDIRECTIONAL), 20);
        assert!(streams.of_frame(3, false).unwrap().is_none(), "it is over");
    }
}
