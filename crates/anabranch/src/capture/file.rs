//! The file: pcapng (draft-ietf-opsawg-pcapng), in nanoseconds since the start of the run.

use std::borrow::Cow;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, Ipv6Record, NameResolutionBlock, Record};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::pcapng::blocks::unknown::UnknownBlock;
use pcap_file::{DataLink, Endianness, PcapError};

use super::{Frame, Known, Sink, addresses};
use crate::VERSION;
use crate::net::DropCause;
use crate::scenario::Scenario;

/// A packet may be as long as IP allows.
const LONGEST_PACKET: u32 = 65_535;
/// Bytes that are collected before they are written.
const BUFFER: usize = 1 << 20;
/// The unit of times: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Directions of packets in their flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A capture that is being written.
pub(super) struct File {
    /// [`None`] if it could not be begun.
    writer: Option<PcapNgWriter<io::BufWriter<Sink>>>,
    /// The numbers that ends of links have in the file; [`None`] where what is seen there is left out.
    interfaces: Vec<Option<u32>>,
}

impl File {
    /// Begins a file. An error is handed back beside it: [`Capture::problem`](super::Capture::problem) tells
    /// it once the run is under way. With `at` only what is seen at that node is written.
    /// Whoever has these lines of an SSLKEYLOGFILE decrypts what is protected.
    pub(super) fn new(
        scenario: &Scenario,
        sink: Sink,
        at: Option<&str>,
        key_log: &str,
    ) -> (Self, Option<io::Error>) {
        let mut count = 0;
        let number = |end: &String| {
            let is_wanted = at.is_none_or(|node| node == end);
            count += u32::from(is_wanted);
            is_wanted.then(|| count - 1)
        };
        let interfaces = scenario.links.values().flat_map(|link| &link.ends).map(number).collect();
        match begin(scenario, sink, at, key_log) {
            Ok(writer) => (Self { writer: Some(writer), interfaces }, None),
            Err(error) => (Self { writer: None, interfaces }, Some(error)),
        }
    }

    pub(super) fn write(&mut self, frame: &Frame) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let Some(interface_id) = self.interfaces[frame.interface as usize] else { return Ok(()) };
        let mut options =
            vec![EnhancedPacketOption::Flags(if frame.is_outbound { OUTBOUND } else { INBOUND })];
        if let Known::Dropped(cause) = frame.known {
            options.push(EnhancedPacketOption::Comment(words(cause).into()));
        }
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: Duration::from_nanos(frame.at.as_nanos()),
            original_len: frame.bytes.len() as u32,
            data: Cow::Borrowed(&frame.bytes),
            options,
        };
        writer.write_pcapng_block(block).map(|_| ()).map_err(io_error)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), |writer| io::Write::flush(writer.get_mut()))
    }
}

fn begin(
    scenario: &Scenario,
    sink: Sink,
    at: Option<&str>,
    key_log: &str,
) -> io::Result<PcapNgWriter<io::BufWriter<Sink>>> {
    let mut options = vec![SectionHeaderOption::UserApplication(format!("anabranch {VERSION}").into())];
    if !scenario.name.is_empty() {
        options.push(SectionHeaderOption::Comment(scenario.name.clone().into()));
    }
    let section =
        SectionHeaderBlock { endianness: Endianness::Little, options, ..SectionHeaderBlock::default() };
    let buffer = io::BufWriter::with_capacity(BUFFER, sink);
    let mut writer = PcapNgWriter::with_section_header(buffer, section).map_err(io_error)?;
    for (name, link) in &scenario.links {
        for end in link.ends.iter().filter(|end| at.is_none_or(|node| node == *end)) {
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: LONGEST_PACKET,
                options: vec![
                    InterfaceDescriptionOption::IfName(format!("{name}@{end}").into()),
                    InterfaceDescriptionOption::IfDescription(format!("link {name} at {end}").into()),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            writer.write_pcapng_block(block).map_err(io_error)?;
        }
    }
    let records = addresses::names(scenario).into_iter().map(|(address, name)| {
        let names = vec![Cow::from(name)];
        match address {
            IpAddr::V4(address) => {
                Record::Ipv4(Ipv4Record { ip_addr: address.octets().to_vec().into(), names })
            }
            IpAddr::V6(address) => {
                Record::Ipv6(Ipv6Record { ip_addr: address.octets().to_vec().into(), names })
            }
        }
    });
    let names = NameResolutionBlock { records: records.collect(), options: Vec::new() };
    writer.write_pcapng_block(names).map_err(io_error)?;
    if !key_log.is_empty() {
        writer.write_pcapng_block(secrets(key_log)).map_err(io_error)?;
    }
    Ok(writer)
}

/// A Decryption Secrets Block with lines of an SSLKEYLOGFILE (section 4.7).
pub(super) fn secrets(lines: &str) -> UnknownBlock<'static> {
    const DECRYPTION_SECRETS: u32 = 10;
    const TLS_KEY_LOG: u32 = 0x544c_534b;
    let mut body = TLS_KEY_LOG.to_le_bytes().to_vec();
    body.extend((lines.len() as u32).to_le_bytes());
    body.extend(lines.as_bytes());
    let length = body.len() as u32 + 12;
    UnknownBlock { type_: DECRYPTION_SECRETS, length, value: Cow::Owned(body) }
}

/// Why a packet is dropped, in words for a reader.
const fn words(cause: DropCause) -> &'static str {
    match cause {
        DropCause::Aqm => "dropped here: by the queue discipline, before the queue was full",
        DropCause::Corrupted => "dropped here: it arrives damaged at the other end",
        DropCause::Down => "dropped here: the link is down",
        DropCause::Lost => "dropped here: lost on the link",
        DropCause::QueueFull => "dropped here: the queue is full",
    }
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
