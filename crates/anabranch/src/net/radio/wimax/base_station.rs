//! The base station: which station sends how much in each frame.

use std::collections::VecDeque;

use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::{Draw as _, Rng};
use anabranch_transport::time::Time;

use super::super::block_errors::{FailedBlocks, block_error_rate};
use super::super::channel::{Channel, Snr};
use super::super::modulation::{BurstProfile, Selector};
use super::super::served_link::{AIR_LOST_PACKETS, MEAN_HELD_MS, ServedLink, check_range};
use super::burst::Burst;
use super::config::{CellConfig, Fairness, WimaxConfig};
use super::frame::{Frame, TAIL_BYTES, UPLINK_PREAMBLE_SYMBOLS, share_out};
use super::lane::{Blocks, Framing, Lane};
use crate::net::packets::{Direction, DropCause, Fate, Held, Port, QueueSample, Release};
use crate::net::qdisc::PacketQueue;

declare! {
    /// The scalars of WiMAX, beside those of every radio.
    SCALARS:
    /// Frames in which the station had a burst.
    FRAMES_USED = "frames_used": One;
    /// Blocks sent.
    BLOCKS = "blocks": One;
    /// Blocks that failed.
    BLOCK_ERRORS = "block_errors": One;
    /// Share of the blocks that failed.
    BLOCK_ERROR_RATE = "block_error_rate": One, Less;
    /// Mean of the bits that a symbol of these blocks carried.
    MEAN_BITS_PER_SYMBOL = "mean_bits_per_symbol": BitsPerSymbol;
    /// Mean of the signal-to-noise ratio over the frames used.
    MEAN_SNR_DB = "mean_snr_db": Decibels;
    /// Pieces of packets that ARQ retransmitted.
    ARQ_RETRANSMISSIONS = "arq_retransmissions": One;
}

/// A base station and its stations.
#[derive(Clone, Debug)]
pub(crate) struct BaseStation {
    frame: Frame,
    /// The name of the link that was added first, whose cell settings the others repeat.
    first_link: String,
    stations: Vec<Station>,
    /// The number of the next frame in which something happens.
    next_frame: Option<u64>,
    burst: Burst,
    failed: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Station {
    link: u32,
    channel: Channel,
    selector: Selector,
    thresholds_db: [f64; BurstProfile::COUNT],
    /// Time for propagation and processing, in nanoseconds.
    delay: u64,
    lanes: [Lane; 2],
    /// What the station has asked for in the uplink, in bytes of a burst: each request with the frame from
    /// which on the base station acts on it. What has been granted in the meantime is subtracted.
    requests: VecDeque<(u64, u64)>,
    /// The request that is being granted.
    asked: u64,
    block_draws: [Rng; 2],
    counters: [Counters; 2],
    /// The samples for a traced link.
    samples: Option<[Vec<RadioSample>; 2]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    frames: u64,
    blocks: u64,
    block_errors: u64,
    /// Bytes that the blocks could hold.
    block_bytes: u64,
    snr_db: f64,
    air_lost: u64,
    released: u64,
    held_ns: f64,
}

/// A burst, as the radio trace has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RadioSample {
    /// The start of its frame.
    pub(crate) time: Time,
    pub(crate) snr: Snr,
    pub(crate) profile: BurstProfile,
    pub(crate) packet_bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) block_errors: u64,
}

/// A station's share of one frame.
#[derive(Clone, Copy, Debug)]
struct Grant {
    snr: Snr,
    profile: BurstProfile,
    /// Symbols for each direction, preamble included.
    symbols: [u64; 2],
    /// The most bytes of packets in each direction.
    most: [u64; 2],
}

impl BaseStation {
    /// A base station without stations; `link` is the first one's name.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn new(cell: &CellConfig, link: &str) -> Result<Self, String> {
        Ok(Self {
            frame: Frame::new(cell, &format!("links.{link}.radio"))?,
            first_link: link.to_owned(),
            stations: Vec::new(),
            next_frame: None,
            burst: Burst::default(),
            failed: Vec::new(),
        })
    }

    /// Adds the station at the far end of a link.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(crate) fn add(&mut self, link: &ServedLink<'_>, config: &WimaxConfig) -> Result<(), String> {
        let ServedLink { index, name, streams, is_traced, .. } = *link;
        let key = format!("links.{name}.radio");
        if config.cell != self.frame.cell {
            return Err(format!(
                "{key}.cell differs from links.{}.radio.cell, although both have one base station; make the two alike, \
                 or use another base_station",
                self.first_link
            ));
        }
        let stations = self.stations.len() as u64 + 1;
        let overhead = Frame::downlink_overhead(stations, stations) + self.frame.uplink_overhead(stations);
        if self.frame.symbols_left(overhead) == 0 {
            let frame = self.frame.cell.frame;
            return Err(format!(
                "{key}.base_station: maps and polls of {stations} stations fill the frame of \"{frame}\"; use fewer \
                 stations or longer frames"
            ));
        }
        if let Some(arq) = config.arq {
            for (name, value, most) in [("frames", arq.frames, 100.0), ("retries", arq.retries, 255.0)] {
                check_range(&format!("{key}.arq"), name, value.into(), 1.0, most)?;
            }
        }
        let mut draws = streams.stream(&format!("link/{name}/radio/fading"));
        let spacing = self.frame.ofdm.carrier_spacing_hz();
        let fading = config.fading().build(spacing, &mut draws, &format!("{key}.fading"))?;
        let shadowing_db = config.link_budget.shadowing_db
            * streams.stream(&format!("link/{name}/radio/shadowing")).normal();
        let channel = Channel::new(config.mean_snr_db(&key)? + shadowing_db, fading);
        let thresholds_db = config.thresholds.db();
        let framing = Framing::new(config.cell.packing, config.arq);
        let lane = |direction: Direction| {
            let (queue, key) = &link.queues[direction.index()];
            let limits = queue.drop_tail(key, "with a `radio`")?;
            Ok::<_, String>(Lane::new(framing, PacketQueue::new(limits, is_traced)))
        };
        let lanes = [lane(Direction::Forward)?, lane(Direction::Reverse)?];
        let block_draws = Direction::BOTH
            .map(|direction| streams.stream(&format!("link/{name}/{}/radio/blocks", direction.name())));
        self.stations.push(Station {
            link: index,
            channel,
            selector: config.modulation().build(thresholds_db, &format!("{key}.modulation"))?,
            thresholds_db,
            delay: config.link_budget.propagation_nanos() + config.processing_delay.as_nanos(),
            lanes,
            requests: VecDeque::new(),
            asked: 0,
            block_draws,
            counters: Default::default(),
            samples: is_traced.then(Default::default),
        });
        Ok(())
    }

    /// The number of its stations.
    pub(crate) fn len(&self) -> usize {
        self.stations.len()
    }

    pub(crate) fn accept(&mut self, port: Port, packet: Held, releases: &mut Vec<Release>) {
        let station = &mut self.stations[port.station];
        if !station.lanes[port.direction.index()].accept(packet) {
            let (link, direction, at) = (station.link, port.direction, packet.arrived);
            let fate = Fate::Dropped(DropCause::QueueFull);
            releases.push(Release { link, direction, packet, begun: None, at, fate });
        } else if self.next_frame.is_none() {
            self.next_frame = Some(packet.arrived / self.frame.nanos + 1);
        }
    }

    pub(crate) fn next_event(&self) -> Time {
        self.next_frame.map_or(Time::NEVER, |number| Time::from_nanos(number * self.frame.nanos))
    }

    /// Starts a frame.
    pub(crate) fn handle_event(&mut self, now: u64, releases: &mut Vec<Release>) {
        let number = now / self.frame.nanos;
        let grants = self.schedule(now, number);
        self.send_downlink(now, number, &grants, releases);
        self.send_uplink(now, number, &grants, releases);
        let is_busy = self.stations.iter().any(|station| station.lanes.iter().any(|lane| lane.len() > 0));
        self.next_frame = is_busy.then_some(number + 1);
    }

    /// Decides what each station gets of this frame.
    fn schedule(&mut self, now: u64, number: u64) -> Vec<Grant> {
        let frame = self.frame;
        let limits = Direction::BOTH.map(|direction| frame.limit_bytes(direction, number));
        let count = self.stations.len();
        let mut grants = Vec::with_capacity(count);
        let mut wanted = [vec![0; count], vec![0; count]];
        for (index, station) in self.stations.iter_mut().enumerate() {
            let snr = station.channel.at(now);
            let Station { channel, selector, .. } = station;
            let profile = selector.at(now, |at| channel.at(at).effective_db);
            station.read_requests(number);
            let mut demand = Direction::BOTH
                .map(|direction| station.lanes[direction.index()].demand(number, limits[direction.index()]));
            // In the uplink, the base station knows only what it has been asked for.
            if demand[1].0 > station.asked {
                demand[1] = (station.asked, demand[1].1.min(station.asked));
            }
            let symbols = |bytes: u64, preamble: u64| {
                let with_tail = bytes + u64::from(TAIL_BYTES);
                if bytes == 0 { 0 } else { preamble + with_tail.div_ceil(profile.bytes_per_symbol().into()) }
            };
            wanted[0][index] = symbols(demand[0].0, 0);
            wanted[1][index] = symbols(demand[1].0, UPLINK_PREAMBLE_SYMBOLS);
            grants.push(Grant { snr, profile, symbols: [0; 2], most: [demand[0].1, demand[1].1] });
        }
        let [bursts, granted] =
            [0, 1].map(|way: usize| wanted[way].iter().filter(|&&wish| wish > 0).count() as u64);
        let overhead =
            Frame::downlink_overhead(bursts, count as u64) + frame.uplink_overhead(count as u64 - granted);
        let totals = [0, 1].map(|way: usize| wanted[way].iter().sum::<u64>());
        let given = frame.split(frame.symbols_left(overhead), totals);
        let first = number as usize % count.max(1);
        let by_bytes = self.frame.cell.fairness == Fairness::Throughput;
        let bytes_per_symbol = |grant: &Grant| u64::from(grant.profile.bytes_per_symbol());
        let weights = |is_time: bool| {
            let weight = move |grant: &Grant| match (is_time, by_bytes) {
                (true, false) | (false, true) => 1,
                (true, true) => SYMBOL_WEIGHT / bytes_per_symbol(grant),
                (false, false) => bytes_per_symbol(grant),
            };
            grants.iter().map(weight).collect::<Vec<u64>>()
        };
        let (symbol_weights, byte_weights) = (weights(true), weights(false));
        for way in 0..2 {
            let symbols = share_out(&wanted[way], &symbol_weights, given[way], first);
            for (grant, symbols) in grants.iter_mut().zip(symbols) {
                grant.symbols[way] = symbols;
                grant.most[way] = grant.most[way].min(symbols * bytes_per_symbol(grant));
            }
        }
        let feasible =
            [0, 1].map(|way: usize| grants.iter().map(|grant| grant.most[way]).collect::<Vec<u64>>());
        let limits = frame.share_limits(limits, [0, 1].map(|way: usize| feasible[way].iter().sum()));
        for way in 0..2 {
            let shares = share_out(&feasible[way], &byte_weights, limits[way], first);
            for (grant, most) in grants.iter_mut().zip(shares) {
                grant.most[way] = most;
            }
        }
        grants
    }

    fn send_downlink(&mut self, now: u64, number: u64, grants: &[Grant], releases: &mut Vec<Release>) {
        let count = grants.len();
        let bursts = grants.iter().filter(|grant| grant.symbols[0] > 0).count() as u64;
        let mut symbol = Frame::downlink_overhead(bursts, count as u64);
        for turn in 0..count {
            let index = (number as usize + turn) % count;
            let used = self.send(now, number, index, Direction::Forward, &grants[index], symbol, releases);
            symbol += used;
        }
    }

    fn send_uplink(&mut self, now: u64, number: u64, grants: &[Grant], releases: &mut Vec<Release>) {
        let count = grants.len();
        let polls = grants.iter().filter(|grant| grant.symbols[1] == 0).count() as u64;
        let mut symbol = self.frame.uplink_overhead(polls);
        let symbols = symbol + grants.iter().map(|grant| grant.symbols[1]).sum::<u64>();
        let start = now + self.frame.uplink_start(symbols);
        for turn in 0..count {
            let index = (number as usize + turn) % count;
            let grant = &grants[index];
            if grant.symbols[1] > 0 {
                let first = symbol + UPLINK_PREAMBLE_SYMBOLS;
                self.send(start, number, index, Direction::Reverse, grant, first, releases);
                symbol += grant.symbols[1];
            }
            self.stations[index].request(&self.frame, number);
        }
    }

    /// Sends a station's burst from this symbol of a direction's part on, which starts at `start`. Returns
    /// the symbols that it takes.
    #[expect(clippy::too_many_arguments, reason = "it is one half of a loop's body, used by two loops")]
    fn send(
        &mut self,
        start: u64,
        number: u64,
        index: usize,
        direction: Direction,
        grant: &Grant,
        first_symbol: u64,
        releases: &mut Vec<Release>,
    ) -> u64 {
        let way = direction.index();
        let Self { frame, stations, burst, failed, .. } = self;
        let station = &mut stations[index];
        let preamble = if direction == Direction::Reverse { UPLINK_PREAMBLE_SYMBOLS } else { 0 };
        let symbols = grant.symbols[way].saturating_sub(preamble);
        if symbols == 0 {
            return 0;
        }
        let block_bytes = grant.profile.bytes_per_symbol();
        let capacity = symbols as u32 * block_bytes - TAIL_BYTES;
        let frame_start = number * frame.nanos;
        station.lanes[way].load(frame_start, number, capacity, grant.most[way], burst);
        if burst.pdus.is_empty() {
            return 0;
        }
        let blocks = u64::from((burst.bytes() + TAIL_BYTES).div_ceil(block_bytes));
        let above_threshold_db = grant.snr.effective_db - station.thresholds_db[grant.profile as usize];
        let error_rate = block_error_rate(above_threshold_db, block_bytes * 8);
        failed.clear();
        failed.extend(
            FailedBlocks::new(&mut station.block_draws[way], error_rate).take_while(|&block| block < blocks),
        );
        let delay = station.delay;
        let arrival = |block: u64| start + frame.ofdm.nanos(first_symbol + block + 1) + delay;
        let counters = &mut station.counters[way];
        counters.count(grant, blocks, failed.len() as u64);
        let link = station.link;
        let blocks_sent = Blocks { bytes: block_bytes, failed, arrival };
        station.lanes[way].resolve(number, burst, &blocks_sent, |packet, at, fate| {
            counters.air_lost += u64::from(fate == Fate::Dropped(DropCause::Lost));
            counters.released += 1;
            counters.held_ns += (at - packet.arrived) as f64;
            releases.push(Release { link, direction, packet, begun: None, at, fate });
        });
        if direction == Direction::Reverse {
            station.granted(burst.bytes().into());
        }
        if let Some(samples) = &mut station.samples {
            samples[way].push(RadioSample {
                time: Time::from_nanos(frame_start),
                snr: grant.snr,
                profile: grant.profile,
                packet_bytes: burst.packet_bytes(),
                blocks,
                block_errors: failed.len() as u64,
            });
        }
        blocks
    }

    /// Number of packets at this port.
    pub(crate) fn holds(&self, port: Port) -> u64 {
        self.stations[port.station].lanes[port.direction.index()].len() as u64
    }

    pub(crate) fn memory(&self) -> usize {
        let of_station = |station: &Station| {
            let samples = station.samples.iter().flatten().map(Vec::capacity).sum::<usize>();
            station.lanes.iter().map(Lane::memory).sum::<usize>() + samples * size_of::<RadioSample>()
        };
        self.stations.iter().map(of_station).sum()
    }

    pub(crate) fn take_queue_samples(&mut self, port: Port) -> Vec<QueueSample> {
        self.stations[port.station].lanes[port.direction.index()].queue_mut().take_samples()
    }

    pub(crate) fn take_radio_samples(&mut self, port: Port) -> Vec<RadioSample> {
        let samples = &mut self.stations[port.station].samples;
        samples
            .as_mut()
            .map(|samples| std::mem::take(&mut samples[port.direction.index()]))
            .unwrap_or_default()
    }

    pub(crate) fn report(&self, port: Port, report: &mut Report<'_>) {
        let station = &self.stations[port.station];
        let way = port.direction.index();
        let Counters { frames, blocks, block_errors, block_bytes, snr_db, air_lost, released, held_ns } =
            station.counters[way];
        report.count(FRAMES_USED, frames);
        report.count(BLOCKS, blocks);
        report.count(BLOCK_ERRORS, block_errors);
        report.mean(BLOCK_ERROR_RATE, block_errors as f64, blocks);
        report.mean(MEAN_BITS_PER_SYMBOL, block_bytes as f64 * 8.0, blocks);
        report.mean(MEAN_SNR_DB, snr_db, frames);
        report.mean(MEAN_HELD_MS, held_ns / 1e6, released);
        report.count(ARQ_RETRANSMISSIONS, station.lanes[way].retransmissions());
        report.count(AIR_LOST_PACKETS, air_lost);
    }
}

/// A common multiple of the bytes in a symbol of every burst profile.
const SYMBOL_WEIGHT: u64 = 864;

impl Counters {
    fn count(&mut self, grant: &Grant, blocks: u64, failed: u64) {
        self.frames += 1;
        self.blocks += blocks;
        self.block_errors += failed;
        self.block_bytes += blocks * u64::from(grant.profile.bytes_per_symbol());
        self.snr_db += grant.snr.mean_db;
    }
}

impl Station {
    /// Takes granted bandwidth off: pending requests count only the rest.
    fn granted(&mut self, bytes: u64) {
        for request in self.requests.iter_mut().map(|(_, request)| request).chain([&mut self.asked]) {
            *request = request.saturating_sub(bytes);
        }
    }

    /// The latest request that the base station acts on in this frame.
    fn read_requests(&mut self, frame: u64) {
        while let Some(&(from, bytes)) = self.requests.front()
            && from <= frame
        {
            self.asked = bytes;
            self.requests.pop_front();
        }
    }

    /// In its poll or with its burst, the station requests what it still has to send, up to what it could be
    /// granted until the request is processed.
    fn request(&mut self, frame: &Frame, number: u64) {
        let delay = u64::from(frame.cell.grant_delay);
        let most = frame.limit_bytes(Direction::Reverse, number).saturating_mul(delay + 1).max(1);
        let (bytes, _) = self.lanes[Direction::Reverse.index()].demand(number + delay, most);
        self.requests.push_back((number + delay, bytes));
    }
}
