//! The formats of captures: where a file has frames, when and where each was seen.

mod erf;
mod pcap;
mod pcapng;
mod snoop;

use std::io;

use crate::bytes::Order;
use crate::source::{Damage, Source};
use crate::tables::Tables;

/// Larger frames or blocks, in bytes, mean that a file is damaged; captures of loopbacks have 64 KiB.
const LONGEST: usize = 1 << 24;

/// What of a file is one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    /// When it was seen, in ns since 1970; [`None`] where the file does not say it.
    pub(crate) time_ns: Option<i64>,
    /// The kind of its first header, by its number in the registry of LINKTYPEs.
    pub(crate) link: u32,
    /// Its length in bytes.
    pub(crate) octets: usize,
    /// What was captured of it.
    pub(crate) data: &'a [u8],
    /// The interface of the file.
    pub(crate) interface: usize,
    /// The interface of the host, where the file has its number for each frame.
    pub(crate) within: Option<u32>,
    /// 1 if the host that captured has sent it, 0 if it has received it, -1 if the file does not say it.
    pub(crate) direction: i8,
    /// What somebody has written about it.
    pub(crate) comment: Option<&'a [u8]>,
}

/// A format, as the beginning of a file shows it.
pub(crate) enum Format {
    Erf(erf::Erf),
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Snoop(snoop::Snoop),
}

impl Format {
    /// The format of a file at its beginning, which is read; [`None`] if it is none of these.
    pub(crate) fn of(source: &mut Source) -> Result<Option<Self>, Damage> {
        let head = source.peek(8)?.to_vec();
        if head.starts_with(&pcapng::MAGIC) {
            return Ok(Some(Self::Pcapng(pcapng::Pcapng::default())));
        }
        if let Some(pcap) = pcap::Pcap::of(&head) {
            return pcap.begin(source).map(|pcap| Some(Self::Pcap(pcap)));
        }
        if head == snoop::MAGIC {
            return snoop::Snoop::begin(source).map(|snoop| Some(Self::Snoop(snoop)));
        }
        Ok(erf::Erf::recognise(source)?.map(Self::Erf))
    }

    /// Whether these are the first bytes of a capture.
    pub(crate) fn recognise(source: &mut Source) -> io::Result<bool> {
        let head = source.peek(8)?.to_vec();
        Ok(head.starts_with(&pcapng::MAGIC)
            || pcap::Pcap::of(&head).is_some()
            || head == snoop::MAGIC
            || erf::Erf::recognise(source)?.is_some())
    }

    /// The next frame; [`None`] at the end of the file.
    pub(crate) fn next<'a>(
        &mut self,
        source: &'a mut Source,
        tables: &mut Tables,
    ) -> Result<Option<Frame<'a>>, Damage> {
        match self {
            Self::Erf(erf) => erf.next(source, tables),
            Self::Pcap(pcap) => pcap.next(source, tables),
            Self::Pcapng(pcapng) => pcapng.next(source, tables),
            Self::Snoop(snoop) => snoop.next(source, tables),
        }
    }
}

/// The fixed header of the next record; [`None`] at the end of the file.
fn header<const N: usize>(source: &mut Source, what: &str) -> Result<Option<[u8; N]>, Damage> {
    let head = source.peek(N)?;
    match head.first_chunk() {
        Some(header) => Ok(Some(*header)),
        None if head.is_empty() => Ok(None),
        None => Err(Damage(format!("the last {what} is cut off"))),
    }
}

/// A record of this length, header included, which is taken.
fn record(source: &mut Source, length: usize) -> Result<&[u8], Damage> {
    if source.peek(length)?.len() < length {
        return Err(Damage::of("the file is cut off in a packet"));
    }
    Ok(source.take(length))
}

/// A number of a header of fixed length, which has it.
fn number(order: Order, header: &[u8], at: usize) -> u32 {
    order.u32(header, at).expect("the header has it")
}
