//! Goes over a file, frame by frame.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use anabranch_transport::flow::Ecn;
#[cfg(feature = "quic")]
use anabranch_transport::wire::{ip::UDP, udp::HEADER_BYTES};

use crate::columns::{Batch, Row};
use crate::formats::{Format, Frame};
use crate::fragments::Key;
use crate::link::{Link, Miss, network};
use crate::packet::{Found, Packet};
use crate::source::{Damage, Source};
use crate::tables::{Interface, LeftOut, Place, Tables};
use crate::transport;

/// Frames that are read for a batch, at most.
const MOST_FRAMES: u64 = 1 << 16;
/// A batch ends once the tables beside its packets have so many rows.
const MOST_ROWS: usize = 1 << 17;

/// Why there are no packets.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be opened or read.
    Io(io::Error),
    /// It is no capture, or damaged before its first packet; the text says how.
    Unreadable(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Unreadable(problem) => write!(f, "{problem}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Whether a file is a capture, also if it is compressed.
///
/// # Errors
/// When it cannot be opened or read.
pub fn is_capture(path: &Path) -> io::Result<bool> {
    let mut source = Source::open(path)?;
    // What cannot be unpacked is none.
    Ok(Format::recognise(&mut source).unwrap_or(false))
}

/// A capture that is being read.
pub struct Reader {
    source: Source,
    format: Format,
    tables: Tables,
    /// How many frames have been read.
    frames: u64,
    is_over: bool,
    damage: Option<String>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("frames", &self.frames).finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens a file.
    ///
    /// # Parameters
    /// `interface` is the only interface or place whose packets are wanted, by its name.
    ///
    /// # Errors
    /// When it cannot be opened, or is no capture.
    pub fn open(path: &Path, interface: Option<String>) -> Result<Self, Error> {
        Self::of(Source::open(path)?, interface)
    }

    /// Reads bytes instead of a file.
    ///
    /// # Errors
    /// When they are no capture.
    pub fn of_bytes(
        bytes: impl io::Read + Send + Sync + 'static,
        interface: Option<String>,
    ) -> Result<Self, Error> {
        Self::of(Source::of(Box::new(bytes))?, interface)
    }

    fn of(mut source: Source, interface: Option<String>) -> Result<Self, Error> {
        let format = Format::of(&mut source)
            .map_err(|Damage(problem)| Error::Unreadable(problem))?
            .ok_or_else(|| Error::Unreadable("neither pcap, pcapng, snoop nor ERF".to_owned()))?;
        let tables = Tables::new(interface);
        Ok(Self { source, format, tables, frames: 0, is_over: false, damage: None })
    }

    /// The next packets, up to 65,536; [`None`] at the end. A batch may be empty where frames carry nothing
    /// that is wanted.
    ///
    /// # Errors
    /// When the file is damaged before its first frame.
    pub fn next_batch(&mut self) -> Result<Option<Batch>, Error> {
        if self.is_over {
            return Ok(None);
        }
        let mut batch = Batch::default();
        let until = self.frames + MOST_FRAMES;
        while self.frames < until && batch.rows_beside() < MOST_ROWS {
            match self.format.next(&mut self.source, &mut self.tables) {
                Ok(Some(frame)) => {
                    let index = self.frames;
                    self.frames += 1;
                    if let Err(what) = add(&frame, index, &mut self.tables, &mut batch) {
                        self.tables.leave_out(what);
                    }
                }
                Ok(None) => {
                    self.is_over = true;
                    break;
                }
                Err(Damage(problem)) => {
                    self.is_over = true;
                    if self.frames == 0 {
                        return Err(Error::Unreadable(problem));
                    }
                    self.damage = Some(problem);
                    break;
                }
            }
        }
        Ok(Some(batch))
    }

    /// How many bytes of the file have been read.
    pub fn position(&self) -> u64 {
        self.source.position()
    }

    /// The interfaces with frames so far, in the order of their first ones.
    pub fn interfaces(&self) -> Vec<(&str, &Interface)> {
        let all = self.tables.interfaces.iter().map(|(name, interface)| (name.as_str(), interface));
        let mut interfaces: Vec<_> = all.filter(|(_, interface)| interface.frames > 0).collect();
        interfaces.sort_by_key(|(_, interface)| interface.first);
        interfaces
    }

    /// The places that rows name by their numbers.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.tables.places.values()
    }

    /// The addresses that rows name by their numbers.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.tables.addresses.iter().copied()
    }

    /// The comments that rows name by their numbers, as they are in the file.
    pub fn comments(&self) -> impl Iterator<Item = &[u8]> {
        self.tables.comments.iter().map(Vec::as_slice)
    }

    /// The names of hosts, as they are in the file.
    pub fn names(&self) -> impl Iterator<Item = (IpAddr, &[u8])> {
        self.tables.names.iter().map(|(address, name)| (*address, name.as_slice()))
    }

    /// What has been left out so far, in words, and how often.
    pub fn left_out(&self) -> Vec<(String, u64)> {
        self.tables.left_out.iter().map(|(what, count)| (what.to_string(), *count)).collect()
    }

    /// Why the file could not be read to its end.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// How often a frame's time is before that of the one before it, of the same interface; and the longest
    /// of these steps in ns.
    pub const fn steps_back(&self) -> (u64, i64) {
        (self.tables.steps_back, self.tables.largest_step_back_ns)
    }
}

/// The ECN field's two bits (RFC 3168 section 5).
const fn ecn_bits(ecn: Ecn) -> u8 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

/// Adds the row of a frame, if it is wanted.
fn add(frame: &Frame<'_>, index: u64, tables: &mut Tables, batch: &mut Batch) -> Result<(), LeftOut> {
    let time_ns = frame.time_ns.ok_or(LeftOut::Untimed)?;
    tables.count(frame.interface, index, time_ns);
    let interface = &tables.interfaces[frame.interface];
    if !interface.is_wanted {
        return Ok(());
    }
    let mut link = Link::default();
    let found = network(frame.link, frame.data, &mut link);
    let Some(place) = tables.place(frame.interface, frame.within.or(link.within), link.vlans)? else {
        return Ok(());
    };
    let bytes = found.map_err(|miss| match miss {
        Miss::Short if frame.data.len() < frame.octets => LeftOut::Cut,
        Miss::NotIp | Miss::Short => LeftOut::NoIp,
        Miss::Unknown => LeftOut::Link(frame.link),
    })?;
    let before = frame.data.len() - bytes.len();
    let found = Packet::read(bytes, frame.octets.saturating_sub(before), 0)?;
    let (Found::Packet(Packet { header, tunnels, .. }) | Found::Fragment { header, tunnels, .. }) = found;
    let [source, destination] = tables.hosts(header.addresses)?;
    let fragment = header.fragment.map(|place| Key {
        source,
        destination,
        protocol: if header.addresses[0].is_ipv4() { header.protocol } else { 0 },
        identification: place.identification,
        tunnels,
    });
    let packet = match (found, fragment) {
        (Found::Packet(packet), _) => packet,
        (Found::Fragment { octets, .. }, key) => {
            key.inspect(|key| batch.lengthen(*key, octets));
            return Err(LeftOut::Fragments);
        }
    };
    let mut row = Row {
        time_ns,
        index: index as i64,
        place,
        direction: if frame.direction < 0 { link.direction } else { frame.direction },
        link_source: link.source,
        link_destination: link.destination,
        tunnels,
        source,
        destination,
        ttl: header.time_to_live,
        ecn: ecn_bits(header.ecn),
        identification: header.identification.map_or(-1, i64::from),
        is_atomic: header.dont_fragment && header.fragment.is_none(),
        octets: packet.octets as i32,
        captured: packet.captured as i32,
        ..Row::default()
    };
    transport::read(&packet, &mut row, batch);
    #[cfg(feature = "quic")]
    if row.payload > 0 && row.protocol == UDP && !row.in_udp && fragment.is_none() {
        let datagram = packet.payload.get(HEADER_BYTES as usize..).unwrap_or_default();
        tables.quic.read(datagram, batch);
    }
    if let Some(comment) = frame.comment {
        row.comment = tables.comment(comment);
    }
    batch.push(row, fragment);
    Ok(())
}
