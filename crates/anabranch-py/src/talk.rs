//! What packets of a capture say of a flow's ends, from columns of numbers and back to them.

use std::borrow::Cow;
use std::ops::Range;

use anabranch_capture::chain::{self, States, Stretch};
use anabranch_capture::journeys::{self, Sighting};
use anabranch_capture::sender::{
    self, Chunk, Event, Fate, Packet, Protocol, Purpose, Said, Segment, Talk, Trip,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Columns by their names, each as the bytes of 64-bit numbers.
struct Columns<'py>(Bound<'py, PyDict>);

impl Columns<'_> {
    fn numbers<T>(&self, name: &str, of: fn([u8; 8]) -> T) -> PyResult<Vec<T>> {
        let missing = || PyValueError::new_err(format!("there is no column `{name}`"));
        let bytes = self.0.get_item(name)?.ok_or_else(missing)?.cast_into::<PyBytes>()?;
        Ok(bytes.as_bytes().as_chunks().0.iter().map(|number| of(*number)).collect())
    }

    fn integers(&self, name: &str) -> PyResult<Vec<i64>> {
        self.numbers(name, i64::from_le_bytes)
    }

    fn reals(&self, name: &str) -> PyResult<Vec<f64>> {
        self.numbers(name, f64::from_le_bytes)
    }

    /// Several of the same length, row by row.
    fn rows<const N: usize>(&self, names: [&str; N]) -> PyResult<Vec<[i64; N]>> {
        let mut columns = Vec::with_capacity(N);
        for name in names {
            columns.push(self.integers(name)?);
        }
        let length = columns[0].len();
        if columns.iter().any(|column| column.len() != length) {
            return Err(PyValueError::new_err(format!("the columns {names:?} have different lengths")));
        }
        Ok((0..length).map(|row| std::array::from_fn(|at| columns[at][row])).collect())
    }

    /// Ranges by the row that each belongs to, of which there are so many.
    fn ranges(&self, table: &str, owner: &str, count: usize) -> PyResult<Vec<Vec<Range<i64>>>> {
        let names = [owner, "start", "end"].map(|name| format!("{table}.{name}"));
        let mut found = vec![Vec::new(); count];
        for [owner, start, end] in self.rows(names.each_ref().map(String::as_str))? {
            of(&mut found, owner)?.push(start..end);
        }
        Ok(found)
    }
}

fn of<T>(rows: &mut [T], index: i64) -> PyResult<&mut T> {
    let outside = || PyValueError::new_err(format!("there is no row {index}"));
    usize::try_from(index).ok().and_then(|at| rows.get_mut(at)).ok_or_else(outside)
}

const fn known(number: i64) -> Option<i64> {
    if number < 0 { None } else { Some(number) }
}

fn packets(columns: &Columns<'_>, is_sctp: bool) -> PyResult<Vec<Packet>> {
    let sent_s = columns.reals("sent_s")?;
    let rows = columns.rows(["octets", "is_overtaken"])?;
    if rows.len() != sent_s.len() {
        return Err(PyValueError::new_err("the packets' columns have different lengths"));
    }
    let said = if is_sctp { chunks(columns, rows.len())? } else { segments(columns)? };
    let packets = sent_s.into_iter().zip(rows).zip(said);
    Ok(packets
        .map(|((sent_s, [octets, overtaken]), said)| Packet {
            sent_s,
            octets,
            is_overtaken: overtaken != 0,
            said,
        })
        .collect())
}

fn segments(columns: &Columns<'_>) -> PyResult<Vec<Said>> {
    let numbers = columns.rows([
        "flags",
        "sequence",
        "length",
        "acknowledgement",
        "window",
        "scale",
        "data_end",
        "data_acknowledgement",
    ])?;
    let selective = columns.ranges("sacks", "packet", numbers.len())?;
    let segment = |(numbers, selective): ([i64; 8], Vec<Range<i64>>)| {
        let [flags, sequence, length, acknowledged, window, scale, data_end, data] = numbers;
        Said::Segment(Segment {
            flags: flags as i16,
            sequence,
            length,
            acknowledgement: known(acknowledged),
            window,
            scale: known(scale).map(|scale| scale as u32),
            selective,
            data_end: known(data_end),
            data_acknowledgement: known(data),
        })
    };
    Ok(numbers.into_iter().zip(selective).map(segment).collect())
}

fn chunks(columns: &Columns<'_>, packets: usize) -> PyResult<Vec<Said>> {
    let names =
        ["packet", "kind", "number", "data", "window", "identity"].map(|name| format!("chunks.{name}"));
    let rows = columns.rows(names.each_ref().map(String::as_str))?;
    let gaps = columns.ranges("gaps", "chunk", rows.len())?;
    let mut found = vec![Vec::new(); packets];
    for ([packet, kind, number, octets, window, identity], gaps) in rows.into_iter().zip(gaps) {
        let (kind, identity) = (kind as u8, identity as u64);
        of(&mut found, packet)?.push(Chunk { kind, number, octets, window, identity, gaps });
    }
    Ok(found.into_iter().map(Said::Chunks).collect())
}

fn events(columns: &Columns<'_>, paths: usize, packets: usize) -> PyResult<Vec<Event>> {
    let at_s = columns.reals("event.at_s")?;
    let rows = columns.rows(["event.path", "event.packet", "event.is_own"])?;
    at_s.into_iter()
        .zip(rows)
        .map(|(at_s, [path, packet, is_own])| {
            let (path, packet) = (path as usize, packet as usize);
            if path >= paths || packet >= packets {
                return Err(PyValueError::new_err("an event has no such path or packet"));
            }
            Ok(Event { at_s, path, packet, is_own: is_own != 0 })
        })
        .collect()
}

type Bytes = Cow<'static, [u8]>;

fn reals(values: impl IntoIterator<Item = f64>) -> Bytes {
    values.into_iter().flat_map(f64::to_le_bytes).collect::<Vec<u8>>().into()
}

fn trips(trips: &[Trip]) -> Bytes {
    reals(trips.iter().flat_map(|(at_s, delay_s)| [*at_s, *delay_s]))
}

#[derive(IntoPyObject)]
struct Track {
    packets: u64,
    octets: i64,
    again: u64,
    probes: u64,
    recoveries: u64,
    timeouts: u64,
    attempts: u64,
    keepalives: u64,
    probed_s: Vec<f64>,
    round_trips: Bytes,
    answers: Bytes,
    bounds: Bytes,
    limits: Vec<(f64, f64, &'static str)>,
}

impl From<sender::Track> for Track {
    fn from(track: sender::Track) -> Self {
        Self {
            packets: track.packets,
            octets: track.octets,
            again: track.again,
            probes: track.probes,
            recoveries: track.recoveries,
            timeouts: track.timeouts,
            attempts: track.attempts,
            keepalives: track.keepalives,
            probed_s: track.probed_s,
            round_trips: trips(&track.round_trips),
            answers: trips(&track.answers),
            bounds: trips(&track.bounds),
            limits: track
                .limits
                .into_iter()
                .map(|(start_s, end_s, limit)| (start_s, end_s, limit.name()))
                .collect(),
        }
    }
}

#[derive(IntoPyObject)]
pub(crate) struct Sender {
    tracks: Vec<Track>,
    /// When, on which path, after how long, and which one in a row.
    expiries: Vec<(f64, usize, f64, u32)>,
    /// When, from which path, to which one, how long that was silent, and whether it had failed.
    moves: Vec<(f64, usize, usize, f64, bool)>,
    came_twice: u64,
    opened_s: Option<f64>,
    attempts: u64,
    knows_window: bool,
    beyond: u64,
    /// Bits for each packet: sent again, repeated, awaited, keep-alive, probe.
    fates: Bytes,
}

fn bits(fate: Fate) -> u8 {
    let purpose = match fate.purpose {
        Purpose::Data => 0,
        Purpose::Keepalive => 8,
        Purpose::Probe => 16,
    };
    u8::from(fate.is_again) | u8::from(fate.was_repeated) << 1 | u8::from(fate.was_awaited) << 2 | purpose
}

/// Follows one end of a flow of TCP, Multipath TCP or SCTP as a sender of data.
#[pyfunction]
#[pyo3(signature = (protocol, times_s, is_open, cuts_s, columns))]
pub(crate) fn walk_sender(
    py: Python<'_>,
    protocol: &str,
    times_s: (f64, f64, f64),
    is_open: Vec<bool>,
    cuts_s: Vec<f64>,
    columns: Bound<'_, PyDict>,
) -> PyResult<Sender> {
    let protocol = match protocol {
        "MPTCP" => Protocol::Mptcp,
        "SCTP" => Protocol::Sctp,
        "TCP" => Protocol::Tcp,
        _ => return Err(PyValueError::new_err(format!("{protocol} has no sender that is followed"))),
    };
    let columns = Columns(columns);
    let packets = packets(&columns, protocol == Protocol::Sctp)?;
    let events = events(&columns, is_open.len(), packets.len())?;
    let (start_s, end_s, round_trip_s) = times_s;
    let talk = Talk { protocol, start_s, end_s, round_trip_s, is_open, cuts_s, packets, events };
    let sender = py.detach(|| sender::walk(&talk));
    let expiries = sender.expiries.iter().map(|one| (one.at_s, one.path, one.waited_s, one.row));
    let moves = sender.moves.iter();
    Ok(Sender {
        expiries: expiries.collect(),
        moves: moves.map(|one| (one.at_s, one.source, one.target, one.silent_s, one.is_failover)).collect(),
        tracks: sender.tracks.into_iter().map(Track::from).collect(),
        came_twice: sender.came_twice,
        opened_s: sender.opened_s,
        attempts: sender.attempts,
        knows_window: sender.knows_window,
        beyond: sender.beyond,
        fates: sender.fates.iter().copied().map(bits).collect::<Vec<u8>>().into(),
    })
}

/// For each sighting of a packet, the index of that with which it was sent, or -1, as bytes.
#[pyfunction]
pub(crate) fn follow_sightings(py: Python<'_>, columns: Bound<'_, PyDict>) -> PyResult<Bytes> {
    let columns = Columns(columns);
    let at_s = columns.reals("at_s")?;
    let rows = columns.rows(["domain", "identity", "place", "is_near", "is_dropped"])?;
    let sightings: Vec<Sighting> = at_s
        .into_iter()
        .zip(rows)
        .map(|(at_s, [domain, identity, place, near, dropped])| Sighting {
            at_s,
            identity: (domain, identity as u64),
            place,
            is_near: near != 0,
            is_dropped: dropped != 0,
        })
        .collect();
    let found = py.detach(|| journeys::follow(&sightings));
    let index = |sent: Option<usize>| sent.map_or(-1, |sent| sent as i64).to_le_bytes();
    Ok(found.into_iter().flat_map(index).collect::<Vec<u8>>().into())
}

/// How many numbers each acknowledgement says to have arrived that none before it did, as bytes.
#[pyfunction]
pub(crate) fn newly_acknowledged(py: Python<'_>, columns: Bound<'_, PyDict>) -> PyResult<Bytes> {
    let columns = Columns(columns);
    let numbers = columns.integers("number")?;
    let selective = columns.ranges("selective", "of", numbers.len())?;
    let acknowledgements: Vec<_> = numbers.into_iter().zip(selective).collect();
    let known: Vec<_> =
        columns.rows(["known.start", "known.end"])?.into_iter().map(|[start, end]| start..end).collect();
    let news = py.detach(|| anabranch_capture::newly_acknowledged(&acknowledgements, &known));
    Ok(news.into_iter().flat_map(i64::to_le_bytes).collect::<Vec<u8>>().into())
}

/// The logarithm of the probability of losses under a chain of two states; the columns are read where they
/// are, since a fit asks a thousand times.
#[pyfunction]
pub(crate) fn chain_log_likelihood(
    packets: &[u8],
    is_lost: &[u8],
    changes: &[u8],
    is_bad: f64,
    loss_in_good: f64,
    loss_in_bad: f64,
) -> PyResult<f64> {
    let (packets, changes) = (packets.as_chunks().0, changes.as_chunks().0);
    if packets.len() != is_lost.len() || changes.len() != is_lost.len() {
        return Err(PyValueError::new_err("the columns have different lengths"));
    }
    let stretches = packets.iter().zip(is_lost).zip(changes).map(|((packets, is_lost), change)| Stretch {
        packets: u64::from_le_bytes(*packets),
        is_lost: *is_lost != 0,
        change: f64::from_le_bytes(*change),
    });
    Ok(chain::log_likelihood(stretches, &States { is_bad, loss_in_good, loss_in_bad }))
}
