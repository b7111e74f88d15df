//! The two directions of a bearer.

use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::Draw as _;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::units::Probability;

use super::super::buffer::Buffer;
use super::super::delivery::Delivery;
use super::super::drx::Drx;
use super::super::handovers::Losses;
use super::super::retransmissions::{Again, Retransmissions, error_rate};
use super::super::served_link::{ServedLink, check_range, check_time};
use super::config::{NrConfig, NrWay};
use super::slots::{NEVER, Slots};
use super::transport_block::{MOST_MCS, block_bytes, resource_blocks};
use super::uplink::Grants;
use crate::net::packets::{Direction, Held, Port, QueueSample, Release};
use crate::schedule::{Schedule, Timeline};

declare! {
    /// The scalars of NR, beside those of every radio.
    SCALARS:
    /// Transport blocks, without the transmissions after the first.
    BLOCKS = "blocks": One;
    /// Scheduling requests of the uplink.
    REQUESTS = "scheduling_requests": One;
}

/// After this many times at which it listens and has no slot, the station hears nothing.
const MOST_CYCLES: u32 = 10_000;

/// The largest share that other users can take.
const MOST_LOAD: f64 = 0.99;

/// A user's link to its base station.
#[derive(Debug)]
pub(crate) struct NrBearer {
    slots: Slots,
    drx: Option<Drx>,
    lanes: [Lane; 2],
}

/// One direction.
#[derive(Debug)]
struct Lane {
    direction: Direction,
    buffer: Buffer,
    /// The packet of which a part has been sent.
    begun: Option<Begun>,
    sizes: Sizes,
    /// Of the uplink.
    grants: Option<Grants>,
    /// The first slot for which no block has been tried.
    next_slot: u64,
    /// For each HARQ process, the first slot in which it can have another block.
    processes: Vec<u64>,
    /// Slots in which blocks are sent again, and their bytes.
    again: Vec<(u64, u64)>,
    error: Timeline<Probability>,
    retransmissions: Retransmissions,
    rlc_delay: u64,
    delivery: Delivery,
    losses: Losses,
    /// When the lane has something to do, in nanoseconds.
    due: u64,
    blocks: u64,
    /// The packets of which a block has the last bytes; empty between blocks.
    complete: Vec<Begun>,
}

/// A packet that is being sent.
#[derive(Clone, Copy, Debug)]
struct Begun {
    packet: Held,
    /// The bytes that are left.
    left: u64,
    /// When all of its blocks so far will have arrived, and whether one is lost.
    arrival: u64,
    is_lost: bool,
}

/// How large the blocks of a direction are.
#[derive(Clone, Debug)]
struct Sizes {
    resource_blocks: u32,
    mcs: Timeline<u32>,
    layers: u32,
    load: Timeline<Probability>,
}

/// What becomes of a block.
struct BlockFate {
    /// The end of its first transmission, and when it has arrived or is lost for good.
    sent: u64,
    arrival: u64,
    is_lost: bool,
}

impl NrBearer {
    /// The bearer of a link.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn build(link: &ServedLink<'_>, config: &NrConfig) -> Result<Self, String> {
        let key = format!("links.{}.radio", link.name);
        let slots = Slots::build(config, &key)?;
        let drx = config.drx.as_ref().map(|drx| Drx::build(drx, &format!("{key}.drx"))).transpose()?;
        if [Direction::Forward, Direction::Reverse].iter().any(|way| slots.first_data(0, *way) >= NEVER) {
            return Err(format!(
                "{key}.handovers has gaps that leave a direction no slot; allowed is a shorter `gap` or a longer \
                 `repeat`"
            ));
        }
        if first_heard(&slots, drx.as_ref(), 0) >= NEVER {
            return Err(format!(
                "{key}.drx is one with which the station never listens when a slot of the downlink begins; allowed is \
                 another `offset` or a longer `on`"
            ));
        }
        let lane = |direction| Lane::build(link, config, &slots, direction, &key);
        Ok(Self { lanes: [lane(Direction::Forward)?, lane(Direction::Reverse)?], drx, slots })
    }

    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        let now = packet.arrived;
        self.lanes[port.direction.index()].accept(packet, &self.slots, releases);
        self.schedule(now);
    }

    pub(crate) fn next_event(&self) -> Time {
        Time::from_nanos(self.lanes.iter().map(|lane| lane.due).min().unwrap_or(u64::MAX))
    }

    /// Makes the blocks that have to be made now.
    pub(crate) fn handle_event(&mut self, now: u64, releases: &mut Vec<Release>) {
        for lane in &mut self.lanes {
            if lane.due <= now {
                lane.advance(&self.slots, self.drx.as_mut(), now, releases);
            }
        }
        self.schedule(now);
    }

    /// Finds what the lanes have to do next. A block of one direction can wake the other.
    fn schedule(&mut self, now: u64) {
        for lane in &mut self.lanes {
            lane.due = lane.next_event(&self.slots, self.drx.as_ref(), now);
        }
    }

    /// Number of packets at this port.
    pub(crate) fn holds(&self, port: Port) -> u64 {
        self.lanes[port.direction.index()].packets()
    }

    pub(crate) fn memory(&self) -> usize {
        self.lanes.iter().map(Lane::memory).sum()
    }

    pub(crate) fn take_queue_samples(&mut self, port: Port) -> Vec<QueueSample> {
        self.lanes[port.direction.index()].buffer.take_samples()
    }

    /// Advances to this time, at which the run reports.
    pub(crate) fn finish(&mut self, now: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.buffer.finish(now));
    }

    pub(crate) fn report(&self, port: Port, report: &mut Report<'_>) {
        let lane = &self.lanes[port.direction.index()];
        lane.buffer.report(report);
        lane.retransmissions.report(report);
        lane.delivery.report(report);
        report.count(BLOCKS, lane.blocks);
        report.count(REQUESTS, lane.grants.as_ref().map_or(0, |grants| grants.requests));
    }
}

impl Lane {
    fn build(
        link: &ServedLink<'_>,
        config: &NrConfig,
        slots: &Slots,
        direction: Direction,
        key: &str,
    ) -> Result<Self, String> {
        let is_uplink = direction == Direction::Reverse;
        let harq_key = format!("{key}.harq");
        check_range(&harq_key, "processes", config.harq.processes.into(), 1.0, 32.0)?;
        check_time(key, "rlc_delay", config.rlc_delay, Duration::from_secs(10))?;
        let draws = link.streams.stream(&format!("link/{}/{}/radio/blocks", link.name, direction.name()));
        let grants = is_uplink.then(|| Grants::build(&config.grants, slots, &format!("{key}.grants")));
        Ok(Self {
            direction,
            buffer: Buffer::of_bearer(link, direction)?,
            begun: None,
            sizes: Sizes::build(config, direction, key)?,
            grants: grants.transpose()?,
            next_slot: 0,
            processes: vec![0; config.harq.processes as usize],
            again: Vec::new(),
            error: error_rate(&config.harq.error, &harq_key)?,
            retransmissions: Retransmissions::build(config.harq.transmissions, config.rlc, &harq_key, draws)?,
            rlc_delay: config.rlc_delay.as_nanos(),
            delivery: Delivery::build(config.t_reordering, Duration::ZERO, key)?,
            losses: Losses::new(&slots.handovers, direction),
            due: u64::MAX,
            blocks: 0,
            complete: Vec::new(),
        })
    }

    fn packets(&self) -> u64 {
        self.buffer.len() + u64::from(self.begun.is_some())
    }

    /// Bytes that wait.
    fn bytes(&self) -> u64 {
        self.buffer.bytes() + self.begun.map_or(0, |packet| packet.left)
    }

    fn memory(&self) -> usize {
        let lists = self.again.capacity() * size_of::<(u64, u64)>()
            + self.processes.capacity() * size_of::<u64>()
            + self.complete.capacity() * size_of::<Begun>();
        lists + self.buffer.memory() + self.grants.as_ref().map_or(0, Grants::memory)
    }

    fn accept(&mut self, packet: Held, slots: &Slots, releases: &mut Vec<Release>) {
        let now = packet.arrived;
        if self.losses.take(now) {
            releases.push(self.buffer.lose(packet, now));
            return;
        }
        let was_empty = self.packets() == 0;
        let serving = self.begun.map_or(0, |packet| packet.left);
        let is_more = self.buffer.accept(packet, serving, releases);
        if let Some(grants) = self.grants.as_mut().filter(|_| was_empty && is_more) {
            grants.ask(now, slots);
        }
    }

    /// When the lane has something to do, from `now` on; in nanoseconds.
    fn next_event(&self, slots: &Slots, drx: Option<&Drx>, now: u64) -> u64 {
        if self.packets() == 0 {
            return u64::MAX;
        }
        let slot = self.next_block(slots, drx, now);
        let block = if slot >= NEVER { u64::MAX } else { slots.start(slot) - slots.processing };
        block.min(self.losses.next())
    }

    /// The first slot in which a block can be sent that is made at `now` or later.
    fn next_block(&self, slots: &Slots, drx: Option<&Drx>, now: u64) -> u64 {
        let process = self.processes.iter().copied().min().unwrap_or(0);
        let first = slots.from(now + slots.processing).max(self.next_slot).max(process);
        match &self.grants {
            None => first_heard(slots, drx, first),
            Some(grants) => slots.first(first.max(grants.from()), |slot| {
                slots.data_symbols(slot, self.direction) > 0 && grants.allow(slot)
            }),
        }
    }

    /// Makes the block that has to be made now, or loses what waits as a handover begins.
    fn advance(&mut self, slots: &Slots, drx: Option<&mut Drx>, now: u64, releases: &mut Vec<Release>) {
        if self.losses.begin(now) {
            releases.extend(self.begun.take().map(|begun| self.buffer.lose(begun.packet, now)));
            self.buffer.lose_all(now, releases);
            return;
        }
        let slot = slots.from(now + slots.processing);
        self.next_slot = slot + 1;
        let size = self.sizes.bytes(slots, slot, self.direction);
        self.again.retain(|(at, _)| *at >= slot);
        let taken = self.again.iter().find(|(at, _)| *at == slot).map_or(0, |(_, bytes)| *bytes);
        let free = size.saturating_sub(taken);
        if free == 0 {
            return;
        }
        let sent = free - self.fill(free, now, releases);
        let mut arrival = now;
        if sent > 0 {
            if let Some(drx) = drx {
                drx.block_begins(slots.start(slot));
            }
            let fate = self.send(slots, slot, sent);
            arrival = fate.arrival;
            self.release(&fate, releases);
        }
        let waiting = self.bytes();
        if let Some(grants) = &mut self.grants {
            grants.sent(slot, free, waiting, arrival, slots);
        }
    }

    /// Fills a block with packets and parts of them, and gives the bytes that are left of it.
    fn fill(&mut self, mut free: u64, now: u64, releases: &mut Vec<Release>) -> u64 {
        while free > 0 {
            let next = self.begun.take().or_else(|| self.buffer.next(now, releases).map(Begun::new));
            let Some(mut packet) = next else { break };
            let part = packet.left.min(free);
            packet.left -= part;
            free -= part;
            if packet.left == 0 {
                self.complete.push(packet);
            } else {
                self.begun = Some(packet);
            }
        }
        free
    }

    /// Sends a block with so many bytes, and sends it again as often as it has to be.
    fn send(&mut self, slots: &Slots, slot: u64, bytes: u64) -> BlockFate {
        let Self { direction, again, retransmissions, rlc_delay, .. } = self;
        let direction = *direction;
        self.blocks += 1;
        let error = self.error.at(slots.start(slot)).get();
        let mut last = slot;
        // When its process can have another block: RLC's retransmissions are blocks of their own.
        let mut process = None;
        let mut is_lost = false;
        if error > 0.0 && retransmissions.draws.bernoulli(error) {
            is_lost = retransmissions.send_again(error, |what| {
                let wait = if what == Again::Rlc { *rlc_delay } else { 0 };
                if what == Again::Rlc {
                    process.get_or_insert_with(|| slots.after(last, direction, 0));
                }
                let next = slots.after(last, direction, wait);
                let symbols = slots.data_symbols(slot, direction);
                last = slots.first(next, |slot| {
                    slots.data_symbols(slot, direction) >= symbols && again.iter().all(|(at, _)| *at != slot)
                });
                again.push((last, bytes));
            });
        }
        let process = process.unwrap_or_else(|| slots.after(last, direction, 0));
        if let Some(free) = self.processes.iter_mut().min() {
            *free = process;
        }
        let received = |slot| slots.end(slot, direction) + slots.processing;
        BlockFate { sent: received(slot), arrival: received(last), is_lost }
    }

    /// Releases the packets that a block completes; the one of which it has a part shares its fate.
    fn release(&mut self, fate: &BlockFate, releases: &mut Vec<Release>) {
        for packet in self.complete.iter_mut().chain(&mut self.begun) {
            packet.arrival = packet.arrival.max(fate.arrival);
            packet.is_lost |= fate.is_lost;
        }
        for Begun { packet, arrival, is_lost, .. } in self.complete.drain(..) {
            releases.push(if is_lost {
                self.delivery.lose(packet, fate.sent, &self.buffer)
            } else {
                self.delivery.deliver(packet, arrival, &self.buffer)
            });
        }
    }
}

/// The first slot from this one on in which a block of the downlink can be sent to a station that may sleep.
fn first_heard(slots: &Slots, drx: Option<&Drx>, mut slot: u64) -> u64 {
    for _ in 0..MOST_CYCLES {
        slot = slots.first_data(slot, Direction::Forward);
        let listens = drx.map_or(0, |drx| drx.listens_from(slots.start(slot)));
        if slot >= NEVER || listens <= slots.start(slot) {
            return slot;
        }
        slot = slots.from(listens);
    }
    NEVER
}

impl Begun {
    fn new(packet: Held) -> Self {
        Self { packet, left: packet.size.into(), arrival: 0, is_lost: false }
    }
}

impl Sizes {
    fn build(config: &NrConfig, direction: Direction, key: &str) -> Result<Self, String> {
        let (way, name, mcs, layers, most_layers): (&NrWay, _, _, _, _) = match direction {
            Direction::Forward => (&config.downlink, "downlink", 20, 2, 8),
            Direction::Reverse => (&config.uplink, "uplink", 16, 1, 4),
        };
        let resource_blocks = resource_blocks(config.numerology, config.bandwidth_mhz, key)?;
        let key = format!("{key}.{name}");
        let mcs = way.mcs.clone().unwrap_or(Schedule::Constant(mcs));
        for mcs in mcs.values() {
            check_range(&key, "mcs", mcs.into(), 0.0, MOST_MCS.into())?;
        }
        let layers = way.layers.unwrap_or(layers);
        check_range(&key, "layers", layers.into(), 1.0, most_layers.into())?;
        for load in way.load.values() {
            check_range(&key, "load", load.get(), 0.0, MOST_LOAD)?;
        }
        Ok(Self {
            resource_blocks,
            mcs: mcs.timeline(&format!("{key}.mcs"))?,
            layers,
            load: way.load.timeline(&format!("{key}.load"))?,
        })
    }

    /// The bytes of a block in this slot; slots come in order.
    fn bytes(&mut self, slots: &Slots, slot: u64, direction: Direction) -> u64 {
        let start = slots.start(slot);
        let own = 1.0 - self.load.at(start).get();
        let resource_blocks = (libm::round(f64::from(self.resource_blocks) * own) as u32).max(1);
        block_bytes(slots.data_symbols(slot, direction), resource_blocks, self.mcs.at(start), self.layers)
    }
}
