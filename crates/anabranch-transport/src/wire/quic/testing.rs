//! Data, and frames of any kind.

use proptest::prelude::*;

use super::{Ack, ConnectionId, Fields, Frame, MAX_ACK_RANGES, Part, Stream, varint};
use crate::flow::Payload;

/// Keeps all data one behind the other.
#[derive(Default)]
pub(super) struct Store(pub(super) Vec<u8>);

impl Store {
    /// The data that frames of tests have.
    pub(super) fn full() -> Self {
        Self((0..1_000_u32).map(|index| index as u8).collect())
    }
}

impl Fields for Store {
    fn append(&mut self, _: Part, data: Payload, out: &mut Vec<u8>) {
        out.extend(&self.0[data.offset as usize..][..data.length as usize]);
    }

    fn keep(&mut self, _: Part, _: u64, bytes: &[u8]) -> u64 {
        let offset = self.0.len() as u64;
        self.0.extend(bytes);
        offset
    }
}

pub(super) fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..64_u64, 0..1_u64 << 14, 0..1_u64 << 30, 0..=varint::MAX]
}

pub(super) fn id() -> impl Strategy<Value = ConnectionId> {
    proptest::collection::vec(any::<u8>(), 1..=20)
        .prop_map(|bytes| ConnectionId::new(&bytes).expect("it is short enough"))
}

/// Data, which the store has at its beginning.
fn data() -> impl Strategy<Value = Payload> {
    (0..=1_000_u32).prop_map(|length| Payload { offset: 0, length })
}

fn ack() -> impl Strategy<Value = Frame> {
    let runs = proptest::collection::vec((0..1_000_u64, 2..1_000_u64), 1..=MAX_ACK_RANGES);
    let counts = proptest::option::of([number(), number(), number()]);
    (runs, number(), counts, path()).prop_map(|(runs, delay, ecn, path)| {
        let mut next = 0;
        let mut ranges: Vec<(u64, u64)> = runs
            .into_iter()
            .map(|(length, gap)| {
                let range = (next, next + length);
                next += length + gap;
                range
            })
            .collect();
        ranges.reverse();
        Frame::Ack(Box::new(Ack { path, ranges: ranges.into_iter().collect(), delay, ecn }))
    })
}

/// The path ID of a frame that may have one.
fn path() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of(any::<u32>())
}

/// Frames about paths (RFC 10069 section 4).
fn of_paths() -> impl Strategy<Value = Frame> {
    (any::<u32>(), number(), any::<bool>(), 0..5).prop_map(|(path, number, is_available, kind)| match kind {
        0 => Frame::MaxPathId { limit: path },
        1 => Frame::PathAbandon { path, code: number },
        2 => Frame::PathCidsBlocked { path, next: number },
        3 => Frame::PathsBlocked { limit: path },
        _ => Frame::PathStatus { path, sequence: number, is_available },
    })
}

fn frame() -> impl Strategy<Value = Frame> {
    let position = 0..varint::MAX - 1_000;
    prop_oneof![
        ack(),
        of_paths(),
        (number(), proptest::option::of(number()), 0..50_u64)
            .prop_map(|(code, frame, reason)| Frame::ConnectionClose { code, frame, reason }),
        (position.clone(), data()).prop_map(|(position, data)| Frame::Crypto { position, data }),
        number().prop_map(|limit| Frame::DataBlocked { limit }),
        data().prop_map(|data| Frame::Datagram { data, has_length: true }),
        (number(), number(), number(), number()).prop_map(|(sequence, threshold, delay, reordering)| {
            Frame::AckFrequency { sequence, threshold, delay, reordering }
        }),
        Just(Frame::HandshakeDone),
        Just(Frame::ImmediateAck),
        number().prop_map(|limit| Frame::MaxData { limit }),
        (number(), number()).prop_map(|(stream, limit)| Frame::MaxStreamData { stream, limit }),
        (any::<bool>(), number())
            .prop_map(|(is_bidirectional, limit)| Frame::MaxStreams { is_bidirectional, limit }),
        (path(), number(), number(), id(), any::<[u8; 16]>()).prop_map(
            |(path, sequence, other, id, token)| {
                Frame::NewConnectionId {
                    path,
                    sequence: sequence.max(other),
                    retire_prior_to: sequence.min(other),
                    id,
                    reset_token: token,
                }
            }
        ),
        proptest::collection::vec(any::<u8>(), 1..100)
            .prop_map(|token| Frame::NewToken { token: token.into() }),
        (1..2_000_u32).prop_map(|length| Frame::Padding { length }),
        any::<[u8; 8]>().prop_map(|data| Frame::PathChallenge { data }),
        any::<[u8; 8]>().prop_map(|data| Frame::PathResponse { data }),
        Just(Frame::Ping),
        (number(), number(), number()).prop_map(|(stream, code, final_size)| Frame::ResetStream {
            stream,
            code,
            final_size
        }),
        (path(), number()).prop_map(|(path, sequence)| Frame::RetireConnectionId { path, sequence }),
        (number(), number()).prop_map(|(stream, code)| Frame::StopSending { stream, code }),
        (number(), position, data(), any::<bool>()).prop_map(|(id, position, data, fin)| {
            Frame::Stream(Stream { id, position, data, fin, has_length: true })
        }),
        (number(), number()).prop_map(|(stream, limit)| Frame::StreamDataBlocked { stream, limit }),
        (any::<bool>(), number())
            .prop_map(|(is_bidirectional, limit)| Frame::StreamsBlocked { is_bidirectional, limit }),
    ]
}

/// Places are those of another store.
pub(super) fn without_places(frames: &mut [Frame]) {
    for frame in frames {
        match frame {
            Frame::Crypto { data, .. } | Frame::Datagram { data, .. } => data.offset = 0,
            Frame::Stream(stream) => stream.data.offset = 0,
            _ => {}
        }
    }
}

/// The frames of a packet: two paddings in a row would be one, and the last frame may go to the packet's end.
pub(super) fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let is_padding = |frame: &Frame| matches!(frame, Frame::Padding { .. });
    let is_joined = move |frames: &Vec<Frame>| frames.windows(2).all(|pair| !pair.iter().all(is_padding));
    (proptest::collection::vec(frame(), 1..10).prop_filter("paddings are joined", is_joined), any::<bool>())
        .prop_map(|(mut frames, open)| {
            if open && let Some(Frame::Stream(stream)) = frames.last_mut() {
                stream.has_length = false;
            }
            frames
        })
}
