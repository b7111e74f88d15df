//! The parts that few associations have: addresses that come and go, stream resets, a policy that measures,
//! load sharing. The procedures of the other files ask them by the hooks below, and by nothing else: when a
//! packet comes or leaves, when a SACK is applied, when a path or a timer changes, and when an input has been
//! handled. Those that do something to the association are in `hooks.rs`.

use super::asconf::Reconfiguration;
use super::load_sharing::LoadSharing;
use super::parameters::Parameters;
use super::path::{Acked, Path};
use super::probing::Probing;
use super::stream_reconfiguration::StreamReconfiguration;
use crate::cc::{AckEvent, CongestionControl as _};
use crate::flow::{IpVersion, PathId, Payload};
use crate::report::Report;
use crate::time::Time;
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::Init;

/// The parts of an association.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// Whether there is work at the end of an input: one of the first three parts, a message that is
    /// delivered in parts, bundled FORWARD TSNs, or writes that are held back.
    pub(super) is_any: bool,
    /// Only for policies that measure.
    pub(super) probing: Option<Box<Probing>>,
    /// Only with changing addresses (RFC 5061).
    pub(super) addresses: Option<Box<Reconfiguration>>,
    /// Only with stream resets (RFC 6525).
    pub(super) resets: Option<Box<StreamReconfiguration>>,
    /// Only if data is sent on several paths at the same time.
    pub(super) sharing: Option<Box<LoadSharing>>,
}

/// The hooks that need nothing but the parts.
impl Parts {
    /// Whether the addresses of this end may change, which it says to its peer.
    pub(super) const fn changes_addresses(&self) -> bool {
        self.addresses.is_some()
    }

    /// Whether this end resets streams, which it says to its peer.
    pub(super) const fn resets_streams(&self) -> bool {
        self.resets.is_some()
    }

    /// The peer says this about itself; our TSNs begin with `initial_tsn`.
    pub(super) fn meet_peer(&mut self, peer: &Init, initial_tsn: u32) {
        if let Some(addresses) = &mut self.addresses {
            addresses.expect_from(peer);
        }
        if let Some(resets) = &mut self.resets {
            resets.begin(peer, initial_tsn);
        }
    }

    /// Whether a packet that has come on this path may belong to the association.
    #[inline]
    pub(super) fn admit(&self, path: PathId, packet: &SctpPacket) -> bool {
        self.addresses.as_ref().is_none_or(|addresses| addresses.is_known_to_us(path, packet))
    }

    /// Whether a stream takes no message for now.
    #[inline]
    pub(super) fn pause(&self, stream: u16) -> bool {
        self.resets.as_ref().is_some_and(|resets| resets.is_paused(stream))
    }

    /// Payloads of data that is kept back.
    pub(super) fn held(&self) -> impl Iterator<Item = Payload> {
        self.resets.iter().flat_map(|resets| resets.waiting())
    }

    /// One more path comes after the last one.
    pub(super) fn add_path(
        &mut self,
        parameters: &Parameters,
        ip: IpVersion,
        id: PathId,
        path: &mut Path,
        is_present: bool,
    ) {
        if let Some(sharing) = &mut self.sharing {
            sharing.add_path(parameters, ip, id, path);
        }
        if let Some(probing) = &mut self.probing {
            probing.add_path();
        }
        if let Some(addresses) = &mut self.addresses {
            addresses.add_path(is_present);
        }
    }

    /// A path has a congestion control of its own.
    pub(super) fn on_foreign_control(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.record_foreign_control();
        }
    }

    /// The association has ended: no timer runs, and nothing is measured.
    pub(super) fn end(&mut self) {
        if let Some(addresses) = &mut self.addresses {
            addresses.t4 = Time::NEVER;
        }
        if let Some(resets) = &mut self.resets {
            resets.stop_timer();
        }
        self.probing = None;
    }

    /// When the first timer of a part expires.
    #[cold]
    pub(super) fn next_timeout(&self) -> Time {
        let t4 = self.addresses.as_ref().map_or(Time::NEVER, |addresses| addresses.t4);
        let reset = self.resets.as_ref().map_or(Time::NEVER, |resets| resets.timer());
        t4.min(reset).min(self.probing.as_ref().map_or(Time::NEVER, |probing| probing.tick))
    }

    /// Whether data is sent on several paths at the same time.
    #[inline(always)]
    pub(super) const fn shares_load(&self) -> bool {
        self.sharing.is_some()
    }

    /// Bytes of copies that are on their way on this path.
    pub(super) fn copied(&self, path: PathId) -> u32 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.copied(path))
    }

    /// Whether the receiver delays SACKs although there are gaps.
    #[inline(always)]
    pub(super) fn delay_sacks(&self) -> bool {
        self.sharing.as_ref().is_some_and(|sharing| sharing.delays_sacks())
    }

    /// The flags of a SACK for so many packets with data.
    #[inline(always)]
    pub(super) fn packets_to_report(&self, packets: u32) -> u8 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.packets_to_report(packets))
    }

    /// The missing reports for this chunk in addition to that of the SACK.
    #[inline(always)]
    pub(super) fn more_reports(&self, tsn: u32) -> u8 {
        self.sharing.as_ref().map_or(0, |sharing| sharing.more_reports(tsn))
    }

    /// A path is about to hear of acknowledged bytes.
    #[inline(always)]
    pub(super) fn adapt(&self, event: &mut AckEvent, acked: &Acked, path: &Path) {
        if let Some(sharing) = &self.sharing {
            sharing.adapt(event, acked, path.cc.limits().cwnd);
        }
    }

    pub(super) fn report(&self, now: Time, report: &mut Report<'_>) {
        if let Some(sharing) = &self.sharing {
            sharing.report(now, report);
        }
    }

    pub(super) fn report_path(&self, path: usize, report: &mut Report<'_>) {
        if let Some(sharing) = &self.sharing {
            sharing.report_path(path, report);
        }
    }
}
