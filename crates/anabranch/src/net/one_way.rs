//! One direction of a link: its stages, in order, and the fates of its packets.
//!
//! Ingress loss, queue discipline, server, wire loss, corruption, duplication, jitter, delay. A packet
//! that is lost or corrupted on the wire has used capacity.

use std::collections::VecDeque;

use anabranch_transport::flow::Ecn;
use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};

use super::asked::Asked;
use super::capacity::{Capacity, ConstantRate, UNITS_PER_BYTE};
use super::config::{LinkConfig, WhenDown};
use super::cross_traffic::{CROSS_ARRIVED_PACKETS, CROSS_DOWN_PACKETS, CROSS_QUEUE_FULL_PACKETS, Source};
use super::impairments::{Impairments, Wire};
use super::ledger::{Entry, Ledger};
use super::loss::{Loss, LossConfig, LossModel as _, LossPlace, LossSharing};
use super::packets::{Direction, DropCause, Fate, Held, QueueSample, Release, Step, Verdict};
use super::radio::RadioConfig;
use super::server::Server;
use super::stays::Stays;
use crate::schedule::Timeline;

declare! {
    /// The scalars of one direction of a link.
    SCALARS:
    /// Packets that came to the link.
    ARRIVED_PACKETS = "arrived_packets": One;
    /// Packets that reached the other end, copies included.
    DELIVERED_PACKETS = "delivered_packets": One;
    /// Bytes of these packets, all headers included.
    DELIVERED_BYTES = "delivered_bytes": Bytes;
    /// Packets that the link lost (`loss`).
    LOST_PACKETS = "lost_packets": One;
    /// Packets dropped because the queue had no room.
    QUEUE_FULL_PACKETS = "queue_full_packets": One;
    /// Packets dropped by the queue's active management; only where the queue may have one.
    AQM_PACKETS = "aqm_packets": One;
    /// Packets lost because the link was down.
    DOWN_PACKETS = "down_packets": One;
    /// Packets lost because they were damaged on the way.
    CORRUPTED_PACKETS = "corrupted_packets": One;
    /// Copies that the link made.
    DUPLICATED_PACKETS = "duplicated_packets": One;
    /// Packets that the queue marked with ECN (RFC 3168).
    MARKED_PACKETS = "marked_packets": One;
    /// Packets on the link or in its queue at the end.
    IN_LINK_PACKETS = "in_link_packets": One;
    /// Mean of the bytes that packets found before them, those being sent included.
    MEAN_FOUND_BYTES = "mean_found_bytes": Bytes;
    /// Mean time for which packets waited until they were sent; only where the rate is constant and the queue
    /// is a FIFO.
    MEAN_WAIT_MS = "mean_wait_ms": Millis, Less;
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub(crate) struct OneWay {
    ingress_loss: Loss,
    /// `None` for a link without a rate.
    server: Option<Server>,
    /// When the link is up, if it has no rate and drops packets while it is down.
    up_to_enter: Option<Timeline<bool>>,
    wire_loss: Loss,
    is_lossy_on_wire: bool,
    /// When the link is up, if it is a black hole while it is down.
    up_to_cross: Option<Timeline<bool>>,
    /// The bytes that the link adds to each packet.
    overhead: u32,
    /// Corruption, duplication and jitter, which few links have.
    impairments: Option<Box<Impairments>>,
    delay: Timeline<Duration>,
    /// Whether a packet arrives no earlier than the one before it: packets may not overtake.
    keeps_order: bool,
    last_delivery: Time,
    /// Packets between the two halves of the link, in their order.
    crossing: VecDeque<Crossing>,
    /// Packets in the medium.
    held: u64,
    /// Whether a medium has its queue, with a discipline that may drop packets early.
    is_queued: bool,
    /// How far ahead it is asked, and from when on its counters are.
    asked: Asked,
    ledger: Ledger,
    stages: Stages,
    /// The rate in bit/s if it is one constant rate.
    constant_rate: Option<u64>,
}

/// Which stages can affect the fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stages {
    /// All stages.
    All,
    /// Only queue, server, loss on the wire and a constant delay.
    Plain,
    /// The same with a server at a constant rate and a loss of its own.
    SureToCross,
    /// Queue, a server at a constant rate and a constant delay: nothing happens to packets that the queue
    /// surely takes.
    Sure,
}

/// A packet that leaves the server.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    arrived: u64,
    at: u64,
    found_units: u64,
    size: u32,
    ecn: Ecn,
    marked: bool,
}

impl Crossing {
    /// A packet that the server never takes.
    fn unserved(arrived: u64, at: u64, size: u32) -> Self {
        Self { arrived, at, found_units: Entry::NOT_SERVED, size, ecn: Ecn::NotEct, marked: false }
    }
}

impl OneWay {
    /// The direction of a link whose configuration is already that of this direction; `key` names it in
    /// messages.
    pub(crate) fn build(
        config: &LinkConfig,
        name: &str,
        key: &str,
        direction: Direction,
        streams: Streams,
        is_traced: bool,
    ) -> Result<Self, String> {
        let component = format!("link/{name}/{}", direction.name());
        if config.overhead.0 > MAX_OVERHEAD_BYTES {
            let overhead = config.overhead;
            return Err(format!("{key}.overhead is {overhead}, allowed is at most {MAX_OVERHEAD_BYTES} B"));
        }
        let up = config.up.timeline(&format!("{key}.up"))?;
        let sources = config.sources(direction, streams, name, &component)?;
        let is_queued = config.is_queued() || config.radio.as_ref().is_some_and(RadioConfig::takes_any_queue);
        let server = if is_queued { None } else { build_server(config, key, &up, sources, is_traced)? };
        let has_no_own_loss_at = |place| config.loss.place() != place || config.loss.is_shared_by_packets();
        let build_loss = |place| {
            if config.loss == LossConfig::None || has_no_own_loss_at(place) {
                return Ok(Loss::None);
            }
            let is_shared = config.loss.sharing() == LossSharing::Shared;
            let state =
                format!("{}/loss", if is_shared { format!("link/{name}") } else { component.clone() });
            config.loss.build(streams, &state, &format!("{component}/loss/packet"), &format!("{key}.loss"))
        };
        let up_to_enter =
            (config.down == WhenDown::Drop && config.rate.is_none() && !up.is_constant()).then(|| up.clone());
        let is_never_up = up.is_constant() && !up.value();
        let up_to_cross =
            (config.down == WhenDown::Blackhole && (is_never_up || !up.is_constant())).then(|| up.clone());
        let delay = config.delay.timeline(&format!("{key}.delay"))?;
        let wire = Wire {
            jitter: &config.jitter,
            jitter_shape: config.jitter_shape,
            corrupt: &config.corrupt,
            duplicate: &config.duplicate,
        };
        let impairments = Impairments::build(wire, key, &component, streams)?.map(Box::new);
        let ingress_loss = build_loss(LossPlace::Ingress)?;
        let is_plain = matches!(ingress_loss, Loss::None)
            && up_to_enter.is_none()
            && up_to_cross.is_none()
            && impairments.is_none()
            && config.overhead.0 == 0
            && delay.is_constant();
        let wire_loss = build_loss(LossPlace::Wire)?;
        let is_lossy_on_wire = !matches!(wire_loss, Loss::None);
        let shares_loss_on_wire =
            config.loss.is_shared_by_packets() && config.loss.place() == LossPlace::Wire;
        let is_sure = server.as_ref().is_some_and(Server::can_be_sure);
        Ok(Self {
            ingress_loss,
            stages: match is_plain {
                false => Stages::All,
                true if !is_sure || shares_loss_on_wire => Stages::Plain,
                true if is_lossy_on_wire => Stages::SureToCross,
                true => Stages::Sure,
            },
            is_lossy_on_wire,
            wire_loss,
            server,
            up_to_enter,
            up_to_cross,
            overhead: config.overhead.0 as u32,
            impairments,
            keeps_order: !config.reorder,
            delay,
            last_delivery: Time::ZERO,
            crossing: VecDeque::new(),
            held: 0,
            is_queued,
            asked: Asked::default(),
            ledger: Ledger::default(),
            constant_rate: config.constant_rate(),
        })
    }

    /// Announces that behaviour on the wire may change from now on, so that every packet passes all stages.
    pub(crate) fn expect_changes(&mut self) {
        self.stages = Stages::All;
    }

    /// Delays packets like those of `other` from now on. This makes no packet overtake another, unless
    /// overtaking is allowed.
    pub(crate) fn take_delay(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.delay, &mut other.delay);
    }

    /// Loses packets like those of `other` from now on.
    pub(crate) fn take_loss(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.ingress_loss, &mut other.ingress_loss);
        std::mem::swap(&mut self.wire_loss, &mut other.wire_loss);
        self.is_lossy_on_wire = other.is_lossy_on_wire;
    }

    /// Whether packets leave in the order in which they came.
    pub(crate) fn keeps_order(&self) -> bool {
        self.keeps_order || (self.impairments.is_none() && self.delay.is_constant())
    }

    /// Takes a packet about which there is nothing to decide; returns its arrival, or none if it has not
    /// taken it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is most of the path of most packets")]
    pub(crate) fn accept_surely(&mut self, now: Time, size: u32) -> Option<Time> {
        if self.stages != Stages::Sure {
            return None;
        }
        let server = self.server.as_mut()?;
        let arrived = now.as_nanos();
        let (departure, found_units) = server.accept_surely(&self.asked, arrived, size)?;
        let delivery = departure + self.delay.value().as_nanos();
        self.ledger.enter_delivered(&self.asked, arrived, delivery, found_units, size);
        Some(Time::from_nanos(delivery))
    }

    /// The bytes that a packet of `size` bytes has in this link.
    pub(crate) fn wire_size(&self, size: u32) -> u32 {
        size + self.overhead
    }

    /// Passes a packet through all stages, one after the other.
    #[inline]
    pub(crate) fn accept(&mut self, now: Time, size: u32, ecn: Ecn) -> Step {
        match self.stages {
            Stages::All => self.accept_in_stages(now, size, ecn),
            Stages::SureToCross => {
                self.cross_surely(now, size, ecn).unwrap_or_else(|| self.pass(now, size, ecn))
            }
            Stages::Plain | Stages::Sure => self.pass(now, size, ecn),
        }
    }

    /// Takes a packet that the queue surely takes, and that can be lost on the wire.
    #[inline]
    fn cross_surely(&mut self, now: Time, size: u32, ecn: Ecn) -> Option<Step> {
        let server = self.server.as_mut()?;
        let arrived = now.as_nanos();
        let (departure, found_units) = server.accept_surely(&self.asked, arrived, size)?;
        if self.loses_on_wire(Time::from_nanos(departure), size) {
            let fate = Fate::Dropped(DropCause::Lost);
            let entry = Entry { arrived, settled: departure, found_units, size, marked: false, fate };
            self.ledger.enter(&self.asked, arrived, entry);
            return Some(Step::Drop(DropCause::Lost));
        }
        let delivery = departure + self.delay.value().as_nanos();
        self.ledger.enter_delivered(&self.asked, arrived, delivery, found_units, size);
        Some(Step::Deliver { at: Time::from_nanos(delivery), ecn, copy: None })
    }

    /// Both halves in one for a link that does nothing but queue, send, lose on the wire and delay.
    #[inline]
    fn pass(&mut self, now: Time, size: u32, ecn: Ecn) -> Step {
        let arrived = now.as_nanos();
        let (departure, found_units, marked) = match self.serve(arrived, size, ecn) {
            Ok(served) => served,
            Err(step) => return step,
        };
        let crossing = Time::from_nanos(departure);
        let mut entry = Entry {
            arrived,
            settled: departure,
            found_units,
            size,
            marked,
            fate: Fate::Dropped(DropCause::Lost),
        };
        if self.is_lossy_on_wire && self.loses_on_wire(crossing, size) {
            self.ledger.enter(&self.asked, arrived, entry);
            return Step::Drop(DropCause::Lost);
        }
        let at = crossing + self.delay.value();
        entry.settled = at.as_nanos();
        entry.fate = Fate::Delivered;
        self.ledger.enter(&self.asked, arrived, entry);
        Step::Deliver { at, ecn: if marked { Ecn::Ce } else { ecn }, copy: None }
    }

    #[inline(never)]
    fn loses_on_wire(&mut self, crossing: Time, size: u32) -> bool {
        self.wire_loss.is_lost(crossing, size)
    }

    /// Queue and server: the packet's departure, the unfinished work that it found, and whether it is marked.
    /// An error is the fate of a packet that goes no further.
    #[inline]
    fn serve(&mut self, arrived: u64, size: u32, ecn: Ecn) -> Result<(u64, u64, bool), Step> {
        let Some(server) = &mut self.server else { return Ok((arrived, Entry::NOT_SERVED, false)) };
        match server.accept(&self.asked, arrived, size) {
            Verdict::Departs { at, found_units, marked } => Ok((at, found_units, marked && is_capable(ecn))),
            verdict => Err(self.refuse(verdict, arrived, size)),
        }
    }

    /// The first half: ingress loss, queue and server. An error is the fate of a packet that goes no further.
    #[inline]
    fn enter(&mut self, now: Time, size: u32, ecn: Ecn) -> Result<Crossing, Step> {
        let arrived = now.as_nanos();
        if self.ingress_loss.is_lost(now, size) {
            return Err(self.drop_at(arrived, arrived, size, DropCause::Lost));
        }
        if let Some(up) = &mut self.up_to_enter
            && !up.at(arrived)
        {
            return Err(self.drop_at(arrived, arrived, size, DropCause::Down));
        }
        let (at, found_units, marked) = self.serve(arrived, size, ecn)?;
        Ok(Crossing { arrived, at, found_units, size, ecn: if marked { Ecn::Ce } else { ecn }, marked })
    }

    /// Enters the fate of a packet that does not leave the server.
    fn refuse(&mut self, verdict: Verdict, arrived: u64, size: u32) -> Step {
        match verdict {
            Verdict::Departs { .. } => unreachable!("it leaves the server"),
            Verdict::Down => self.drop_at(arrived, arrived, size, DropCause::Down),
            Verdict::Flushed(at) => self.drop_at(arrived, at, size, DropCause::Down),
            Verdict::Full => self.drop_at(arrived, arrived, size, DropCause::QueueFull),
            Verdict::Stays => {
                self.record(Crossing::unserved(arrived, u64::MAX, size), u64::MAX, Fate::Delivered);
                Step::Stays
            }
        }
    }

    /// Enters a packet that a process of both directions loses before this direction's queue.
    pub(crate) fn lose_on_arrival(&mut self, now: Time, size: u32) -> Step {
        self.drop_at(now.as_nanos(), now.as_nanos(), size, DropCause::Lost)
    }

    /// The second half: wire loss, corruption, duplication, jitter and delay. `is_lost` says that a
    /// process of both directions has lost the packet.
    #[inline]
    fn leave(&mut self, crossing: Crossing, is_lost: bool) -> Step {
        let at = crossing.at;
        let now = Time::from_nanos(at);
        if is_lost || self.wire_loss.is_lost(now, crossing.size) {
            return self.drop(crossing, DropCause::Lost);
        }
        if let Some(up) = &mut self.up_to_cross
            && !up.at(at)
        {
            return self.drop(crossing, DropCause::Down);
        }
        let mut delivery = now + self.delay.at(at);
        let mut is_copied = false;
        if let Some(impairments) = &mut self.impairments {
            if impairments.corrupts(at) {
                return self.drop(crossing, DropCause::Corrupted);
            }
            is_copied = impairments.duplicates(at);
            delivery += impairments.jitter(at);
        }
        if self.keeps_order {
            delivery = delivery.max(self.last_delivery);
            self.last_delivery = delivery;
        }
        let mut copy = None;
        if is_copied {
            // The copy follows its original immediately.
            let copied = Crossing { found_units: Entry::NOT_SERVED, marked: false, ..crossing };
            self.record(copied, delivery.as_nanos(), Fate::Copied);
            copy = Some(delivery);
        }
        self.record(crossing, delivery.as_nanos(), Fate::Delivered);
        Step::Deliver { at: delivery, ecn: crossing.ecn, copy }
    }

    #[inline(never)]
    fn accept_in_stages(&mut self, now: Time, size: u32, ecn: Ecn) -> Step {
        match self.enter(now, self.wire_size(size), ecn) {
            Ok(crossing) => self.leave(crossing, false),
            Err(step) => step,
        }
    }

    /// The first half of a link on whose wire both directions share a process that packets move; both
    /// halves when the packet crosses at once.
    pub(crate) fn accept_shared(&mut self, now: Time, size: u32, ecn: Ecn, loss: &mut Loss) -> Step {
        match self.enter(now, self.wire_size(size), ecn) {
            Ok(crossing) if crossing.at > now.as_nanos() => {
                self.crossing.push_back(crossing);
                Step::Cross { at: Time::from_nanos(crossing.at), ecn: crossing.ecn }
            }
            Ok(crossing) => {
                let is_lost = loss.is_lost(now, crossing.size);
                self.leave(crossing, is_lost)
            }
            Err(step) => step,
        }
    }

    /// The second half for the packet that has waited longest.
    pub(crate) fn resume(&mut self, now: Time, size: u32, ecn: Ecn, is_lost: bool) -> Step {
        let crossing = self.crossing.pop_front().expect("a packet crosses before it resumes");
        assert_eq!(crossing.at, now.as_nanos(), "a crossing is resumed at its time");
        debug_assert_eq!((crossing.size, crossing.ecn), (size, ecn), "crossings resume in their order");
        self.leave(crossing, is_lost)
    }

    /// The first half of a link that a medium serves. An error is the fate of a packet that goes no further.
    pub(crate) fn hold(&mut self, now: Time, size: u32) -> Result<(), Step> {
        if self.ingress_loss.is_lost(now, size) {
            return Err(self.drop_at(now.as_nanos(), now.as_nanos(), size, DropCause::Lost));
        }
        self.held += 1;
        Ok(())
    }

    /// The second half of a link that a medium serves. `is_lost` says that a process of both directions has
    /// lost the packet.
    pub(crate) fn release(&mut self, release: &Release, is_lost: bool) -> Step {
        let Release { packet, at, fate, .. } = *release;
        let Held { arrived, size, ecn, found_units, .. } = packet;
        self.held -= 1;
        let marked = packet.is_marked() && is_capable(ecn);
        let ecn = if marked { Ecn::Ce } else { ecn };
        let crossing = Crossing { arrived, at, found_units, size, ecn, marked };
        match fate {
            Fate::Copied | Fate::Delivered => self.leave(crossing, is_lost),
            // The packet was served, and lost on the air.
            Fate::Dropped(cause @ (DropCause::Corrupted | DropCause::Lost)) => self.drop(crossing, cause),
            Fate::Dropped(cause) => self.drop_at(arrived, at, size, cause),
        }
    }

    /// How long a packet that leaves the medium is on its way at the least.
    pub(crate) fn least_delay(&self) -> Duration {
        self.delay.values().min().copied().unwrap_or_default()
    }

    /// Packets in the medium.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// Brings everything up to the end of the run and checks that no packet is unaccounted for.
    pub(crate) fn finish(&mut self, end: Time) {
        if let Some(server) = &mut self.server {
            server.finish(&self.asked, end.as_nanos());
        }
        debug_assert!(self.asked.from() <= end.as_nanos(), "a report comes too early");
        self.ledger.finish(end.as_nanos());
        assert_eq!(
            self.ledger.arrived() + self.ledger.copied(),
            self.ledger.settled() + self.ledger.in_link(),
            "a link's packets are delivered, dropped or in it: {:?}",
            self.ledger
        );
    }

    /// Tells that it is going to be called for `at`, far ahead of the run, which is at `now`.
    #[inline]
    pub(crate) fn runs_ahead(&mut self, at: Time, now: Time) {
        self.asked.runs_ahead(at.as_nanos(), now.as_nanos());
    }

    /// Tells that [`OneWay::finish`] is not called for a time before this one.
    pub(crate) fn expect_no_report_before(&mut self, time: Time) {
        self.asked.expect_no_report_before(time.as_nanos());
    }

    /// This direction's own process of loss.
    pub(crate) fn loss(&self) -> &Loss {
        if self.is_lossy_on_wire { &self.wire_loss } else { &self.ingress_loss }
    }

    pub(crate) fn trace_memory(&self) -> usize {
        self.server.as_ref().and_then(Server::stays).map_or(0, Stays::memory)
    }

    /// For a link that is traced: when the server begins with the packet that came last, and when that packet
    /// leaves, in nanoseconds. [`None`] if it is not served, or if this was asked before.
    pub(crate) fn take_service(&mut self) -> Option<(u64, u64)> {
        self.server.as_mut()?.stays_mut()?.take_service()
    }

    pub(crate) fn take_samples(&mut self) -> Vec<QueueSample> {
        self.server.as_mut().and_then(Server::stays_mut).map_or_else(Vec::new, Stays::take_samples)
    }

    /// Writes the counters.
    pub(crate) fn report(&self, report: &mut Report<'_>) {
        let ledger = &self.ledger;
        let crossing = self.crossing.len() as u64 + self.held;
        report.count(ARRIVED_PACKETS, ledger.arrived() + crossing);
        report.count(DELIVERED_PACKETS, ledger.packets(Fate::Delivered) + ledger.packets(Fate::Copied));
        report.count(DELIVERED_BYTES, ledger.bytes(Fate::Delivered) + ledger.bytes(Fate::Copied));
        report.count(LOST_PACKETS, ledger.packets(Fate::Dropped(DropCause::Lost)));
        report.count(QUEUE_FULL_PACKETS, ledger.packets(Fate::Dropped(DropCause::QueueFull)));
        if self.is_queued {
            report.count(AQM_PACKETS, ledger.packets(Fate::Dropped(DropCause::Aqm)));
        }
        report.count(DOWN_PACKETS, ledger.packets(Fate::Dropped(DropCause::Down)));
        report.count(CORRUPTED_PACKETS, ledger.packets(Fate::Dropped(DropCause::Corrupted)));
        report.count(DUPLICATED_PACKETS, ledger.copied());
        report.count(MARKED_PACKETS, ledger.marked());
        report.scalar(IN_LINK_PACKETS, (ledger.in_link() + crossing) as f64);
        let (found_units, served) = ledger.found_units();
        if self.is_queued {
            report.mean(MEAN_FOUND_BYTES, found_units / UNITS_PER_BYTE as f64, served);
        }
        if let Some(server) = &self.server {
            if let Some(rate) = self.constant_rate {
                report.mean(MEAN_WAIT_MS, found_units / rate as f64 / 1e6, served);
            }
            report.mean(MEAN_FOUND_BYTES, found_units / UNITS_PER_BYTE as f64, served);
            let cross = server.cross_counters();
            report.count(CROSS_ARRIVED_PACKETS, cross.arrived);
            report.count(CROSS_QUEUE_FULL_PACKETS, cross.dropped_full);
            report.count(CROSS_DOWN_PACKETS, cross.dropped_down);
        }
    }

    /// Drops a packet that the server has not served.
    fn drop_at(&mut self, arrived: u64, at: u64, size: u32, cause: DropCause) -> Step {
        self.drop(Crossing::unserved(arrived, at, size), cause)
    }

    /// Drops a packet as it leaves the server.
    fn drop(&mut self, crossing: Crossing, cause: DropCause) -> Step {
        self.record(crossing, crossing.at, Fate::Dropped(cause));
        Step::Drop(cause)
    }

    /// Records what becomes of a packet at this time, in nanoseconds.
    #[inline]
    fn record(&mut self, crossing: Crossing, settled: u64, fate: Fate) {
        let Crossing { arrived, found_units, size, marked, .. } = crossing;
        self.ledger.enter(&self.asked, arrived, Entry { arrived, settled, found_units, size, marked, fate });
    }
}

/// A limit far above what any link adds.
const MAX_OVERHEAD_BYTES: u64 = 1_000;

/// Whether a packet's transport understands marks (RFC 3168 section 5).
fn is_capable(ecn: Ecn) -> bool {
    matches!(ecn, Ecn::Ect0 | Ecn::Ect1)
}

fn build_server(
    config: &LinkConfig,
    key: &str,
    up: &Timeline<bool>,
    sources: Vec<Source>,
    is_traced: bool,
) -> Result<Option<Server>, String> {
    let is_always_up = up.is_constant() && up.value();
    let Some(rate) = &config.rate else {
        if config.radio.is_none() {
            config.queue.drop_tail(&format!("{key}.queue"), "without a `rate`")?;
        }
        if config.down == WhenDown::Hold && !is_always_up {
            return Err(format!(
                "{key}.down is \"hold\", which needs a link with a `rate`; give it one, or use \"drop\" or \
                 \"blackhole\""
            ));
        }
        return Ok(None);
    };
    let discipline = config.queue.drop_tail(&format!("{key}.queue"), "here")?;
    let varying = config.varying(rate, key, up)?;
    let stops = !varying.up.is_constant() || !varying.up.value();
    let capacity = if varying.rate.is_constant() && !stops {
        Capacity::Constant(ConstantRate::new(varying.rate.value()))
    } else {
        Capacity::Varying(varying)
    };
    Ok(Some(Server::new(capacity, discipline, sources, is_traced)))
}
