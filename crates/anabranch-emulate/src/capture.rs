//! A capture of what the nodes send and receive, in pcapng: there is an interface for each end of each path,
//! and packets are shown where they leave a node (outbound) and where they are written to it (inbound), with
//! the time of day.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::time::Duration;

use anabranch_transport::flow::Side;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};

use crate::plan::{Node, Plan};

/// A packet may be as long as IP allows.
const LONGEST_PACKET: u32 = 65_535;
/// The unit of times: 10^-9 s.
const NANOSECONDS: u8 = 9;
/// Directions of packets in their flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// A capture that is being written.
pub(crate) struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    /// The first error, after which nothing more is written.
    error: Option<io::Error>,
}

impl Capture {
    /// Begins a capture.
    pub(crate) fn new(file: File, plan: &Plan) -> Result<Self, String> {
        let options =
            vec![SectionHeaderOption::UserApplication(format!("anabranch {}", anabranch::VERSION).into())];
        let section =
            SectionHeaderBlock { endianness: Endianness::Little, options, ..SectionHeaderBlock::default() };
        let refused = |error| format!("the capture cannot be written: {}", io_error(error));
        let mut writer = PcapNgWriter::with_section_header(BufWriter::new(file), section).map_err(refused)?;
        let mut names = interfaces(plan);
        names.sort_unstable();
        for (_, name) in names {
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: LONGEST_PACKET,
                options: vec![
                    InterfaceDescriptionOption::IfName(name.into()),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                ],
            };
            writer.write_pcapng_block(block).map_err(refused)?;
        }
        Ok(Self { writer, error: None })
    }

    /// Writes a packet that is seen at an end of a path.
    pub(crate) fn see(&mut self, at: Duration, path: usize, side: Side, bytes: &[u8], is_outbound: bool) {
        if self.error.is_some() {
            return;
        }
        let block = EnhancedPacketBlock {
            interface_id: number(path, side),
            timestamp: at,
            original_len: bytes.len() as u32,
            data: Cow::Borrowed(bytes),
            options: vec![EnhancedPacketOption::Flags(if is_outbound { OUTBOUND } else { INBOUND })],
        };
        self.error = self.writer.write_pcapng_block(block).err().map(io_error);
    }

    /// Writes what has been collected. Gives the first error that occurred, if any.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        let flushed = match self.error.take() {
            Some(error) => Err(error),
            None => self.writer.get_mut().flush(),
        };
        flushed.map_err(|error| format!("the capture cannot be written: {error}"))
    }
}

/// The number of the interface at an end of a path.
const fn number(path: usize, side: Side) -> u32 {
    (2 * path + side.index()) as u32
}

/// The interfaces' numbers and names.
fn interfaces(plan: &Plan) -> Vec<(u32, String)> {
    let of_node = |node: &Node| {
        let name = |path: &str| format!("{}.{path}", node.name);
        let ends = node.interfaces.iter();
        ends.map(|end| (number(end.path, end.side), name(&end.path_name))).collect::<Vec<_>>()
    };
    plan.nodes.iter().flat_map(of_node).collect()
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}
