//! The bytes of data that has arrived and has not been delivered: those of the current datagram, and
//! fragments and messages that wait for others.

use std::collections::BTreeMap;
use std::ops::Range;

use anabranch_transport::endpoint::Keeper;
use anabranch_transport::flow::Payload;
use anabranch_transport::observed::{HeadOfLine, Observed as _};
use anabranch_transport::sctp::Association;
use anabranch_transport::wire::bytes::Piece;

/// With fewer bytes, the cost of pieces included, there is no search for those that are no longer needed.
const LEAST_SWEPT: usize = 256 * 1024;
/// The approximate cost of a piece besides its bytes.
const PIECE_COST: usize = 128;
/// The cost of a receive buffer full of pieces of 64 bytes, as a multiple of its size.
const COST_OF_BUFFER: usize = 1 + PIECE_COST / 64;
/// Bits for the bytes of a chunk in an offset; the TSN is above them.
const CHUNK_BITS: u32 = 16;

/// Identifies the fragment in an I-DATA chunk: stream, U bit, Message Identifier and Fragment Sequence
/// Number.
type Fragment = (u16, bool, u32, u32);

/// The pieces of a datagram, as ranges in it. However many there are and in whatever order, finding one takes
/// logarithmic time.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// By TSN; of several with the same one, the first.
    pieces: BTreeMap<u32, (Piece, Range<usize>)>,
    /// The TSNs of fragments that may alternate with those of other messages.
    fragments: BTreeMap<Fragment, u32>,
}

impl Staged {
    pub(super) fn push(&mut self, piece: Piece, range: Range<usize>) {
        let tsn = tsn(piece);
        if let Some(fragment) = fragment(piece) {
            self.fragments.entry(fragment).or_insert(tsn);
        }
        self.pieces.entry(tsn).or_insert((piece, range));
    }

    fn take(&mut self, tsn: u32) -> Option<(Piece, Range<usize>)> {
        let taken = self.pieces.remove(&tsn)?;
        if let Some(fragment) = fragment(taken.0)
            && self.fragments.get(&fragment) == Some(&tsn)
        {
            self.fragments.remove(&fragment);
        }
        Some(taken)
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Pieces by TSN; no two that wait have the same one.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    /// The bytes of the current datagram.
    pub(super) staged: Staged,
    kept: BTreeMap<u32, Kept>,
    /// The TSNs of fragments that are kept and may alternate with those of other messages.
    fragments: BTreeMap<Fragment, u32>,
    /// The cost of what is kept, in bytes.
    cost: usize,
    sweep_at: usize,
}

#[derive(Debug)]
struct Kept {
    bytes: Box<[u8]>,
    piece: Piece,
    is_needed: bool,
}

/// The offset that stands for the bytes of a chunk.
pub(super) const fn offset_of(tsn: u32) -> u64 {
    (tsn as u64) << CHUNK_BITS
}

/// The TSN of the chunk whose bytes an offset stands for.
pub(super) const fn tsn_of(offset: u64) -> u32 {
    (offset >> CHUNK_BITS) as u32
}

const fn tsn(piece: Piece) -> u32 {
    match piece {
        Piece::Data { tsn } | Piece::IData { tsn, .. } => tsn,
        Piece::Datagram => 0,
    }
}

const fn fragment(piece: Piece) -> Option<Fragment> {
    match piece {
        Piece::IData { stream, unordered, mid, fsn, .. } => Some((stream, unordered, mid, fsn)),
        _ => None,
    }
}

impl Incoming {
    /// The bytes of a message that is delivered; `datagram` is the one being processed. [`None`] if a peer
    /// has sent different bytes under the same TSN, so that they do not fit together.
    pub(super) fn take(&mut self, payload: Payload, datagram: &[u8]) -> Option<Vec<u8>> {
        let length = payload.length as usize;
        let mut message = Vec::with_capacity(length.min(self.cost + datagram.len()));
        let mut next = Some(tsn_of(payload.offset));
        while message.len() < length {
            let tsn = next?;
            let piece = self.take_piece(tsn, datagram, &mut message)?;
            next = match piece {
                Piece::IData { stream, unordered, mid, fsn, .. } => {
                    self.tsn_of_fragment((stream, unordered, mid, fsn.wrapping_add(1)))
                }
                _ => Some(tsn.wrapping_add(1)),
            };
        }
        (message.len() == length).then_some(message)
    }

    fn tsn_of_fragment(&self, wanted: Fragment) -> Option<u32> {
        self.staged.fragments.get(&wanted).or_else(|| self.fragments.get(&wanted)).copied()
    }

    /// Appends the bytes of a piece, which is then removed.
    fn take_piece(&mut self, wanted: u32, datagram: &[u8], message: &mut Vec<u8>) -> Option<Piece> {
        if let Some(kept) = self.remove(wanted) {
            message.extend_from_slice(&kept.bytes);
            return Some(kept.piece);
        }
        let (piece, range) = self.staged.take(wanted)?;
        message.extend_from_slice(&datagram[range]);
        Some(piece)
    }

    fn remove(&mut self, tsn: u32) -> Option<Kept> {
        let kept = self.kept.remove(&tsn)?;
        if let Some(fragment) = fragment(kept.piece)
            // A stream that has been reset uses its numbers again.
            && self.fragments.get(&fragment) == Some(&tsn)
        {
            self.fragments.remove(&fragment);
        }
        self.cost -= kept.bytes.len() + PIECE_COST;
        Some(kept)
    }

    /// Keeps the data of the current datagram that has not been delivered, and from time to time forgets
    /// bytes that are no longer needed.
    pub(super) fn keep_staged(&mut self, datagram: &[u8], end: &impl Keeper) {
        for (tsn, (piece, range)) in std::mem::take(&mut self.staged).pieces {
            if self.kept.contains_key(&tsn) {
                continue;
            }
            if let Some(fragment) = fragment(piece) {
                self.fragments.insert(fragment, tsn);
            }
            let bytes: Box<[u8]> = datagram[range].into();
            self.cost += bytes.len() + PIECE_COST;
            self.kept.insert(tsn, Kept { bytes, piece, is_needed: false });
        }
        if self.cost >= self.sweep_at.max(LEAST_SWEPT) {
            self.sweep(end);
        }
    }

    /// Forgets everything but the datagram being processed, because the peer has restarted and its TSNs mean
    /// something else.
    pub(super) fn forget(&mut self) {
        *self = Self { staged: std::mem::take(&mut self.staged), ..Self::default() };
    }

    /// Forgets bytes that are neither a fragment nor a waiting message: copies, and data that was given up.
    fn sweep(&mut self, end: &impl Keeper) {
        let (kept, fragments) = (&mut self.kept, &self.fragments);
        end.payloads_that_wait(&mut |payload| {
            let (mut next, mut left) = (Some(tsn_of(payload.offset)), payload.length as usize);
            while let Some(piece) = next.and_then(|tsn| kept.get_mut(&tsn)) {
                piece.is_needed = true;
                left = left.saturating_sub(piece.bytes.len());
                next = match piece.piece {
                    _ if left == 0 => None,
                    Piece::IData { stream, unordered, mid, fsn, .. } => {
                        fragments.get(&(stream, unordered, mid, fsn.wrapping_add(1))).copied()
                    }
                    piece => Some(tsn(piece).wrapping_add(1)),
                };
            }
        });
        let unneeded: Vec<u32> = self
            .kept
            .iter_mut()
            .filter_map(|(&tsn, kept)| (!std::mem::take(&mut kept.is_needed)).then_some(tsn))
            .collect();
        for tsn in unneeded {
            self.remove(tsn);
        }
        self.sweep_at = 2 * self.cost;
    }

    /// Whether the current datagram has to be dropped: it has user data, the small pieces that wait cost many
    /// times the receive buffer, and it lacks the chunk that the others wait for.
    pub(super) fn is_full(&self, end: &Association) -> bool {
        let most = LEAST_SWEPT + 2 * COST_OF_BUFFER * end.receive_buffer() as usize;
        let closes_gap =
            |gap: HeadOfLine| self.staged.pieces.keys().any(|tsn| u64::from(*tsn) == gap.missing.number);
        !self.staged.pieces.is_empty() && self.cost > most && !end.head_of_line().is_some_and(closes_gap)
    }
}
