//! A duplex link: two directions, and what they share.

use anabranch_transport::flow::Ecn;
use anabranch_transport::report::Report;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};

use super::asked;
use super::config::{LinkConfig, WhenDown};
use super::loss::{Loss, LossModel as _, LossPlace, LossSharing, LossState, LossStates};
use super::one_way::OneWay;
use super::packets::{Direction, DropCause, Fate, Pass, QueueSample, Release, Step};
use super::radio::RadioConfig;

/// A duplex link. A packet comes into it by one of two ways:
///
/// ```text
/// accept = pass (quick) + decide (the rest) ──► Deliver at a known time │ Drop │ Stays
///                                          └──► Cross: what is lost on the wire depends on the other
///                                               direction, so it is drawn in time: resume
/// hold ──► the medium's queue, and an event of the medium ──► release ──► Deliver │ Drop
/// ```
///
/// Calls in one direction have times that never decrease. Where [`DuplexLink::can_run_ahead`] says so, a
/// direction may be called ahead of simulated time, without regard to the other direction.
#[derive(Clone, Debug)]
pub struct DuplexLink {
    directions: [OneWay; 2],
    /// A process of loss in front of the queues, which packets of both directions move on.
    ingress_loss: Option<Loss>,
    /// A process of loss for both directions, after the queues.
    wire_loss: Option<Loss>,
    /// Whether a medium serves each direction.
    has_medium: [bool; 2],
    mtu: Option<u32>,
    /// If the link is traced, the states of the chain that each direction's packets meet.
    loss_states: [Option<Box<LossStates>>; 2],
}

impl DuplexLink {
    /// How far ahead of simulated time a link may be called without [`DuplexLink::runs_ahead`].
    pub const AHEAD_LIMIT: Duration = Duration::from_nanos(asked::AHEAD_LIMIT);

    /// The link of this name.
    ///
    /// # Errors
    /// One sentence that names the key, what was found and what is allowed.
    pub fn build(config: &LinkConfig, name: &str, streams: Streams) -> Result<Self, String> {
        Self::build_either(config, name, streams, false)
    }

    /// The same link, which also gathers [`DuplexLink::take_queue_samples`].
    ///
    /// # Errors
    /// As [`DuplexLink::build`].
    pub fn build_traced(config: &LinkConfig, name: &str, streams: Streams) -> Result<Self, String> {
        Self::build_either(config, name, streams, true)
    }

    fn build_either(
        config: &LinkConfig,
        name: &str,
        streams: Streams,
        is_traced: bool,
    ) -> Result<Self, String> {
        check_medium(config, name)?;
        let mtu = mtu(config, name)?;
        let is_shared = config.loss.sharing() == LossSharing::Shared;
        if is_shared && config.reverse.as_ref().is_some_and(|reverse| reverse.loss.is_some()) {
            return Err(format!(
                "links.{name}.reverse.loss is given although links.{name}.loss.sharing is \"shared\"; leave out one of \
                 the two"
            ));
        }
        if let Some(loss) = config.reverse.as_ref().and_then(|reverse| reverse.loss.as_ref())
            && loss.sharing() == LossSharing::Shared
        {
            return Err(format!(
                "links.{name}.reverse.loss.sharing is \"shared\", allowed there is only \"per_direction\""
            ));
        }
        let (ingress_loss, wire_loss) = if config.loss.is_shared_by_packets() {
            let component = format!("link/{name}/loss");
            let key = format!("links.{name}.loss");
            let loss = config.loss.build(streams, &component, &format!("{component}/packet"), &key)?;
            match config.loss.place() {
                LossPlace::Ingress => (Some(loss), None),
                LossPlace::Wire => (None, Some(loss)),
            }
        } else {
            (None, None)
        };
        let key = format!("links.{name}");
        let forward = OneWay::build(config, name, &key, Direction::Forward, streams, is_traced)?;
        let reversed = config.reversed();
        // If the forward direction was accepted, only a value in `reverse` can be wrong.
        let key = format!("links.{name}.reverse");
        let reverse = OneWay::build(&reversed, name, &key, Direction::Reverse, streams, is_traced)?;
        let has_medium = Direction::BOTH.map(|direction| config.has_medium(direction));
        let loss_states = [None, None];
        let mut link =
            Self { directions: [forward, reverse], ingress_loss, wire_loss, has_medium, mtu, loss_states };
        if is_traced {
            link.loss_states =
                Direction::BOTH.map(|direction| LossStates::watch(link.loss(direction)).map(Box::new));
        }
        Ok(link)
    }

    /// Whether a medium serves a direction. Packets then take [`DuplexLink::hold`] and
    /// [`DuplexLink::release`] instead of [`DuplexLink::accept`].
    pub(crate) fn has_medium(&self, direction: Direction) -> bool {
        self.has_medium[direction.index()]
    }

    /// The largest IP packet that it takes, in bytes; larger ones have to be cut. Only a link that a medium
    /// serves has one.
    pub(crate) fn mtu(&self) -> Option<u32> {
        self.mtu
    }

    /// The bytes that a packet of `size` bytes has in this link.
    pub(crate) fn wire_size(&self, direction: Direction, size: u32) -> u32 {
        self.directions[direction.index()].wire_size(size)
    }

    /// The stages before the medium. An error is the fate of a packet that goes no further.
    pub(crate) fn hold(&mut self, now: Time, direction: Direction, size: u32) -> Result<(), Step> {
        if self.ingress_loss.is_some() && self.ingress_loses(now, direction, size) {
            return Err(Step::Drop(DropCause::Lost));
        }
        let one_way = &mut self.directions[direction.index()];
        one_way.hold(now, one_way.wire_size(size))
    }

    /// The stages after the medium, for a packet that came through [`DuplexLink::hold`].
    pub(crate) fn release(&mut self, release: &Release) -> Step {
        let Release { at, packet, fate, .. } = *release;
        let is_lost = match &mut self.wire_loss {
            Some(loss) if fate == Fate::Delivered => loss.is_lost(Time::from_nanos(at), packet.size),
            _ => false,
        };
        self.directions[release.direction.index()].release(release, is_lost)
    }

    /// How long after a packet has left the medium [`DuplexLink::release`] can be called without a difference
    /// to anything: it is still on its way then, and no process of loss has to see it in time.
    pub(crate) fn latest_release(&self, direction: Direction) -> Duration {
        if self.wire_loss.is_some() {
            Duration::ZERO
        } else {
            self.directions[direction.index()].least_delay()
        }
    }

    /// Packets that are held.
    pub(crate) fn held(&self, direction: Direction) -> u64 {
        self.directions[direction.index()].held()
    }

    /// Whether each direction may be called ahead of simulated time. Otherwise calls for both have to come in
    /// the order of simulated time.
    pub fn can_run_ahead(&self) -> bool {
        self.ingress_loss.is_none() && self.wire_loss.is_none()
    }

    /// Tells that a direction is going to be called for `at`, further ahead of simulated time, which is
    /// `now`, than [`DuplexLink::AHEAD_LIMIT`]. Each such call needs it: its counters of packets then
    /// remember from `now` on.
    #[inline]
    pub fn runs_ahead(&mut self, direction: Direction, at: Time, now: Time) {
        self.directions[direction.index()].runs_ahead(at, now);
    }

    /// Whether packets leave a direction in the order in which they entered it.
    pub fn keeps_order(&self, direction: Direction) -> bool {
        self.directions[direction.index()].keeps_order()
    }

    /// Takes a packet of `size` bytes that arrives at `now`, which never decreases within a direction.
    #[inline]
    pub fn accept(&mut self, now: Time, direction: Direction, size: u32, ecn: Ecn) -> Step {
        match self.pass(now, direction, size) {
            Pass::Arrives(at) => Step::Deliver { at, ecn, copy: None },
            Pass::Lost => Step::Drop(DropCause::Lost),
            Pass::Undecided => self.decide(now, direction, size, ecn),
        }
    }

    /// The quick part of [`DuplexLink::accept`], which is all of it for a packet about which there is nothing
    /// to decide. It does not look at the ECN field.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "most links share no loss, and then it is one comparison")]
    pub(crate) fn pass(&mut self, now: Time, direction: Direction, size: u32) -> Pass {
        if self.ingress_loss.is_some() && self.ingress_loses(now, direction, size) {
            return Pass::Lost;
        }
        match self.directions[direction.index()].accept_surely(now, size) {
            Some(at) => Pass::Arrives(at),
            None => Pass::Undecided,
        }
    }

    #[inline(never)]
    fn ingress_loses(&mut self, now: Time, direction: Direction, size: u32) -> bool {
        let size = self.wire_size(direction, size);
        let is_lost = self.ingress_loss.as_mut().is_some_and(|loss| loss.is_lost(now, size));
        if is_lost {
            self.directions[direction.index()].lose_on_arrival(now, size);
        }
        is_lost
    }

    /// The rest of [`DuplexLink::accept`], for a packet that [`DuplexLink::pass`] left undecided.
    #[inline(never)]
    pub(crate) fn decide(&mut self, now: Time, direction: Direction, size: u32, ecn: Ecn) -> Step {
        debug_assert!(!self.has_medium(direction), "such a link holds packets");
        let one_way = &mut self.directions[direction.index()];
        match &mut self.wire_loss {
            Some(loss) => one_way.accept_shared(now, size, ecn, loss),
            None => one_way.accept(now, size, ecn),
        }
    }

    /// Takes a packet for the second half of the link, at the time that [`Step::Cross`] named.
    pub fn resume(&mut self, now: Time, direction: Direction, size: u32, ecn: Ecn) -> Step {
        let size = self.wire_size(direction, size);
        let is_lost = self.wire_loss.as_mut().is_some_and(|loss| loss.is_lost(now, size));
        let one_way = &mut self.directions[direction.index()];
        one_way.resume(now, size, ecn, is_lost)
    }

    /// Announces that behaviour on the wire may change from now on.
    pub(crate) fn expect_changes(&mut self) {
        self.directions.iter_mut().for_each(OneWay::expect_changes);
    }

    /// Delays packets of this direction like those of `other` from now on; changes must have been announced.
    pub(crate) fn take_delay(&mut self, other: &mut Self, direction: Direction) {
        self.directions[direction.index()].take_delay(&mut other.directions[direction.index()]);
    }

    /// Loses packets like those of `other` from now on.
    pub(crate) fn take_loss(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.ingress_loss, &mut other.ingress_loss);
        std::mem::swap(&mut self.wire_loss, &mut other.wire_loss);
        self.loss_states = [None, None];
        for (own, its) in self.directions.iter_mut().zip(&mut other.directions) {
            own.take_loss(its);
        }
    }

    /// Tells that [`DuplexLink::finish`] is not called for a time before this one.
    pub(crate) fn expect_no_report_before(&mut self, time: Time) {
        self.directions.iter_mut().for_each(|one_way| one_way.expect_no_report_before(time));
    }

    /// Brings every lazy state to the end of the run, and asserts that every packet is accounted for.
    ///
    /// Packets that the link was asked for ahead of time and that had not arrived by then are not counted,
    /// nor is cross traffic that came later.
    pub fn finish(&mut self, end: Time) {
        for one_way in &mut self.directions {
            one_way.finish(end);
        }
    }

    /// Writes the counters of both directions, after [`DuplexLink::finish`].
    pub fn report(&self, report: &mut Report<'_>) {
        for direction in Direction::BOTH {
            self.directions[direction.index()].report(&mut report.section(direction.name()));
        }
    }

    /// Bytes of memory that samples of queues use.
    pub fn trace_memory(&self) -> usize {
        let states = self.loss_states.iter().flatten().map(|states| states.memory()).sum::<usize>();
        self.directions.iter().map(OneWay::trace_memory).sum::<usize>() + states
    }

    /// The process that loses what comes from this direction.
    fn loss(&self, direction: Direction) -> &Loss {
        let shared = self.ingress_loss.as_ref().or(self.wire_loss.as_ref());
        shared.unwrap_or_else(|| self.directions[direction.index()].loss())
    }

    /// For a link that is traced: notes that a packet of this direction has met the process of loss at `now`.
    #[cold]
    pub(crate) fn record_loss_state(&mut self, now: Time, direction: Direction) {
        let Some(mut states) = self.loss_states[direction.index()].take() else { return };
        states.record(now, self.loss(direction));
        self.loss_states[direction.index()] = Some(states);
    }

    /// Takes the states that a direction's loss chain has gone through up to `end`. There are none unless the
    /// link is traced.
    pub fn take_loss_states(&mut self, direction: Direction, end: Time) -> Vec<LossState> {
        self.loss_states[direction.index()].take().map_or_else(Vec::new, |mut states| states.take(end))
    }

    /// For a link that is traced: when the server begins with the packet that came last to a direction, and
    /// when that packet leaves. [`None`] if the server has not taken it, or if this was asked before.
    pub(crate) fn take_service(&mut self, direction: Direction) -> Option<(Time, Time)> {
        let (begun, left) = self.directions[direction.index()].take_service()?;
        Some((Time::from_nanos(begun), Time::from_nanos(left)))
    }

    /// Takes the samples of a direction's queue gathered so far. There are none unless the link is traced.
    pub fn take_queue_samples(&mut self, direction: Direction) -> Vec<QueueSample> {
        self.directions[direction.index()].take_samples()
    }
}

/// The MTU of the link in bytes, if it has one.
fn mtu(config: &LinkConfig, name: &str) -> Result<Option<u32>, String> {
    let Some(mtu) = config.largest_packet() else { return Ok(None) };
    let most = config.radio.as_ref().and_then(RadioConfig::most_packet_bytes).unwrap_or(MOST_MTU);
    if !(LEAST_MTU..=most).contains(&mtu.0) {
        return Err(format!("links.{name}.mtu is {mtu}, allowed is {LEAST_MTU} B to {most} B"));
    }
    if config.rate.is_none() && config.radio.is_none() {
        return Err(format!(
            "links.{name}.mtu is {mtu}, which needs a link with a `rate` or a `radio`; give it one, or leave out the \
             mtu"
        ));
    }
    Ok(Some(mtu.0 as u32))
}

/// The packet size that every internet module must forward without fragmentation (RFC 791 section 3.2).
const LEAST_MTU: u64 = 68;
const MOST_MTU: u64 = 65_535;

/// Checks that a link that a medium serves has no settings that it cannot have.
fn check_medium(config: &LinkConfig, name: &str) -> Result<(), String> {
    if config.radio.is_none() {
        return Ok(());
    }
    let error = |key: &str, why: &str| Err(format!("links.{name}.{key} {why}"));
    let reverse = config.reverse.as_ref();
    if config.rate.is_some() {
        return error(
            "rate",
            "is given although links have either a rate or a `radio`; leave out one of the two",
        );
    }
    if reverse.is_some_and(|reverse| reverse.rate.is_some()) {
        return error("reverse.rate", "is given although the link has a `radio`; leave out one of the two");
    }
    if !config.cross_traffic.is_empty() {
        return error(
            "cross_traffic",
            "is given although the link has a `radio`; use a flow with app `datagrams`",
        );
    }
    if config.loss.is_shared_by_packets() && config.loss.place() == LossPlace::Wire {
        return error("loss.sharing", "is \"shared\", allowed with a `radio` is only \"per_direction\"");
    }
    if config.may_be_down() && config.down != WhenDown::Blackhole {
        return error(
            "down",
            "is not \"blackhole\", which is what a link with a `radio` needs if it can be down",
        );
    }
    Ok(())
}
