//! The receive buffer's size and the window that it allows, tuned as Linux does: the window opens as segments
//! show that they are worth their memory (`tcp_grow_window`), and the buffer follows what the application
//! reads in a round trip (dynamic right-sizing: Fisk and Feng, LACSI 2001; `tcp_rcv_space_adjust`). As in
//! Linux 6.12 with the corrections that its stable releases took over from 6.16: the least round-trip time
//! counts at once, and none of less than a tick does.
//!
//! Known deviations: memory is reckoned only to size the window; what waits counts with its bytes of data, so
//! that small segments fill no buffer by their overhead, and none is dropped for want of memory.

use super::connection::Connection;
use super::parameters::Parameters;
use crate::time::Time;
use crate::wire::tcp::Segment;

/// Ratios of data to memory are in 256ths (Linux: `TCP_RMEM_TO_WIN_SCALE`).
const RATIO_SHIFT: u32 = 8;
/// Until a full segment has been seen, half of the memory is data (Linux: `TCP_DEFAULT_SCALING_RATIO`, since
/// 6.10).
const FIRST_RATIO: u64 = 128;
/// The window of new connections' senders in segments (Linux: `TCP_INIT_CWND`).
const FIRST_CWND: u64 = 10;
/// Segments with less data do not open the window (Linux: `tcp_event_data_recv`).
const LEAST_GROWING: u32 = 128;

/// Memory that a packet of this size takes: a power of two that holds it with `NET_SKB_PAD` (64 B) and
/// `skb_shared_info` (320 B), and an `sk_buff` (256 B), as where a driver allocates packet by packet.
fn memory_of(packet: u32) -> u64 {
    u64::from((packet + 64 + 320).next_power_of_two() + 256)
}

/// The memory in bytes that a receive buffer of Linux needs to open its window up to `window` bytes, where IP
/// packets of `packet` bytes have `data` bytes of data each.
pub fn memory_for_window(window: u64, packet: u32, data: u32) -> u64 {
    memory_at(window, ratio_of(data, memory_of(packet)))
}

/// How many 256ths of the memory are data (Linux: `tcp_measure_rcv_mss`).
const fn ratio_of(data: u32, memory: u64) -> u64 {
    let ratio = ((data as u64) << RATIO_SHIFT) / memory;
    if ratio == 0 { 1 } else { ratio }
}

/// Linux: `tcp_space_from_win`.
const fn memory_at(window: u64, ratio: u64) -> u64 {
    (window << RATIO_SHIFT).div_ceil(ratio)
}

/// The buffer. Windows are in bytes of data.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    /// The largest window.
    limit: u64,
    /// The MSS that this end announces, less the options of each segment (Linux: `advmss`).
    mss: u64,
    /// The buffer's size in bytes of memory (Linux: `sk_rcvbuf`).
    memory: u64,
    /// How many 256ths of the memory are data (Linux: `scaling_ratio`).
    ratio: u64,
    /// The window is no wider (Linux: `window_clamp`)...
    clamp: u64,
    /// ...nor than this, which grows (Linux: `rcv_ssthresh`).
    threshold: u64,
    /// Windows are announced in steps of `1 << scale`.
    scale: u8,
    /// The window while nothing waits; 0 where it depends on the last one.
    unfilled: u64,
    /// What was read in the best round trip, and where and when the present one began (Linux: `rcvq_space`).
    read_per_round: u64,
    reading_from: u64,
    reading_since: Time,
    /// Eight times the round-trip time in microseconds, 0 before the first sample (Linux: `rcv_rtt_est`).
    rtt_us_8: u64,
    /// Without timestamps: a round trip is over when this number arrives.
    round: Option<(u64, Time)>,
    last_echo: u32,
}

impl ReceiveBuffer {
    /// A buffer of this memory for a connection that announces this MSS and windows up to `limit`.
    pub(super) fn new(memory: u64, limit: u64, mss: u32) -> Self {
        Self {
            limit,
            mss: u64::from(mss),
            memory,
            ratio: FIRST_RATIO,
            clamp: limit,
            threshold: 0,
            scale: 0,
            unfilled: 0,
            read_per_round: 0,
            reading_from: 0,
            reading_since: Time::ZERO,
            rtt_us_8: 0,
            round: None,
            last_echo: 0,
        }
    }

    /// The window of a SYN: whole segments with `mss` bytes of data (Linux: `tcp_select_initial_window`).
    pub(super) fn first_window(&self, mss: u32) -> u64 {
        let (space, mss) = (self.full_space(), u64::from(mss));
        if space > mss { space / mss * mss } else { space }
    }

    /// Both ends' SYN are acknowledged; ours announced `window` (Linux: `tcp_init_buffer_space`). Each
    /// segment has `options` bytes of options; windows are announced in steps of `1 << scale`.
    pub(super) fn establish(&mut self, now: Time, next: u64, window: u64, options: u32, scale: u8) {
        self.mss -= u64::from(options);
        self.limit = (self.limit >> scale << scale).min(65_535 << scale);
        // Room for one segment is kept back.
        let full = self.full_space();
        self.clamp = full.saturating_sub(self.mss).max(2 * self.mss).min(full);
        self.threshold = window.min(self.clamp);
        self.read_per_round = self.threshold.min(FIRST_CWND * self.mss);
        (self.reading_from, self.reading_since) = (next, now);
        self.scale = scale;
        self.measure_unfilled();
    }

    /// Computes the window while nothing waits anew, since something that it depends on has changed.
    fn measure_unfilled(&mut self) {
        self.unfilled = if self.scale > 0 { self.window(0, 0, 0, self.scale).0 } else { 0 };
    }

    /// The window while nothing waits, which never delays acknowledgements, if that is all it depends on.
    #[inline]
    pub(super) const fn unfilled(&self) -> Option<u64> {
        if self.unfilled > 0 { Some(self.unfilled) } else { None }
    }

    /// Linux: `tcp_win_from_space`.
    const fn data_in(&self, memory: u64) -> u64 {
        (memory * self.ratio) >> RATIO_SHIFT
    }

    /// Linux: `tcp_full_space`.
    fn full_space(&self) -> u64 {
        self.data_in(self.memory).min(self.limit)
    }

    /// The window to announce while `held` bytes wait, in this connection's last window of `last` bytes, and
    /// whether so much waits that acknowledgements are delayed (Linux: `__tcp_select_window`).
    pub(super) fn window(&self, held: u64, segment_size: u32, last: u64, scale: u8) -> (u64, bool) {
        let allowed = self.full_space();
        let full = self.clamp.min(allowed);
        let segment = u64::from(segment_size).min(full);
        let mut free = allowed.saturating_sub(held);
        let is_short = free < full / 2;
        if is_short {
            free = free >> scale << scale;
            if free < allowed / 16 || free < segment {
                return (0, true);
            }
        }
        free = free.min(self.threshold);
        let window = if scale > 0 {
            free.next_multiple_of(1 << scale)
        } else if segment > 0 && (last + segment <= free || last > free) {
            free / segment * segment
        } else if segment == full && free > last + full / 2 {
            free
        } else {
            last
        };
        (window.min(self.limit), is_short)
    }

    /// A segment larger than those before shows what data costs (Linux: `tcp_measure_rcv_mss`).
    fn weigh(&mut self, length: u32, memory: u64) {
        let ratio = ratio_of(length, memory);
        if ratio != std::mem::replace(&mut self.ratio, ratio) {
            self.clamp = self.full_space();
            self.read_per_round = self.read_per_round.min(self.clamp);
            self.measure_unfilled();
        }
    }

    /// Opens the window for a segment with this much data, which takes `memory` (Linux: `tcp_grow_window`);
    /// gives whether it did.
    fn grow(&mut self, length: u32, memory: impl FnOnce() -> u64, held: u64, segment_size: u32) -> bool {
        let space = self.clamp.min(self.full_space().saturating_sub(held));
        let room = space.saturating_sub(self.threshold);
        if room == 0 {
            return false;
        }
        let (length, memory) = (u64::from(length), memory());
        let step = if self.data_in(memory) <= length {
            2 * self.mss
        } else {
            self.small_step(length, memory, segment_size)
        };
        if step == 0 {
            return false;
        }
        self.threshold += room.min(step.max(2 * length));
        self.measure_unfilled();
        true
    }

    /// What a segment that wastes memory is worth: it opens a window that is still small (Linux:
    /// `__tcp_grow_window`).
    fn small_step(&self, length: u64, memory: u64, segment_size: u32) -> u64 {
        let (mut cost, mut window) = (self.data_in(memory) / 2, self.limit / 2);
        while self.threshold <= window {
            if cost <= length {
                return 2 * u64::from(segment_size);
            }
            (cost, window) = (cost / 2, window / 2);
        }
        0
    }

    /// The application has read everything before `read`, and `left` bytes wait behind it (Linux:
    /// `tcp_rcv_space_adjust`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    fn on_read(&mut self, now: Time, read: u64, left: u64) {
        let elapsed = now.saturating_since(self.reading_since).as_nanos() / 1_000;
        if self.rtt_us_8 == 0 || elapsed < self.rtt_us_8 >> 3 {
            return;
        }
        let copied = (read - self.reading_from).saturating_sub(left);
        let before = self.read_per_round.max(1);
        if copied > before {
            // Twice that for losses, and more as the sender's rate grows.
            let steady = 2 * copied + 16 * self.mss;
            let window = steady + 2 * (steady * (copied - before) / before);
            let memory = memory_at(window.min(self.limit), self.ratio);
            if memory > self.memory {
                self.memory = memory;
                self.clamp = self.full_space();
                self.measure_unfilled();
            }
            self.read_per_round = copied;
        }
        (self.reading_from, self.reading_since) = (read, now);
    }

    /// Linux: `tcp_rcv_rtt_update`. A sample that depends on the window is an upper limit.
    fn take_rtt_sample(&mut self, sample_us: u64, depends_on_window: bool) {
        if self.rtt_us_8 == 0 || sample_us << 3 < self.rtt_us_8 {
            self.rtt_us_8 = sample_us << 3;
        } else if !depends_on_window {
            self.rtt_us_8 = self.rtt_us_8 - (self.rtt_us_8 >> 3) + sample_us;
        }
    }

    /// The next number that is expected is `next`; the window's edge is `edge` (Linux:
    /// `tcp_rcv_rtt_measure`).
    fn measure_round(&mut self, now: Time, next: u64, edge: u64) {
        if let Some((end, since)) = self.round {
            if next < end {
                return;
            }
            let sample = now.saturating_since(since).as_nanos() / 1_000;
            self.take_rtt_sample(sample.max(1), true);
        }
        self.round = Some((edge, now));
    }

    /// Takes the round-trip time from a full segment that echoes our timestamp of this many ms ago (Linux:
    /// `tcp_rcv_rtt_measure_ts`).
    fn measure_echo(&mut self, echo: u32, age_ms: u32) {
        let is_possible = (1..i32::MAX as u32 / 1_000).contains(&age_ms);
        if echo != std::mem::replace(&mut self.last_echo, echo) && is_possible {
            self.take_rtt_sample(u64::from(age_ms) * 1_000, false);
        }
    }
}

impl Connection {
    /// Makes the buffer of a new connection.
    pub(super) fn new_receive_buffer(&self) -> Option<ReceiveBuffer> {
        let mss = self.parameters.mss(self.mtu, self.ip);
        let Parameters { receive_autotuning, first_receive_buffer, receive_buffer, .. } = self.parameters;
        receive_autotuning.then(|| ReceiveBuffer::new(first_receive_buffer, receive_buffer, mss))
    }

    /// Data arrived: what it tells of the round-trip time. Comes before everything else, so that
    /// `segment_size` is that of the segments before.
    pub(super) fn measure_receiver_rtt(&mut self, now: Time, segment: &Segment) {
        let age = |echo: u32| self.timestamp(now).wrapping_sub(echo);
        let echo =
            segment.timestamps.filter(|_| self.has_timestamps).map(|stamps| (stamps.echo, age(stamps.echo)));
        let is_full = segment.payload.length >= self.delayed_ack.segment_size;
        if let (Some(buffer), Some((echo, age))) = (&mut self.receiver.buffer, echo)
            && is_full
        {
            buffer.measure_echo(echo, age);
        }
    }

    /// Data in order arrived, up to `end`, larger than the segments before or not (Linux:
    /// `tcp_event_data_recv`).
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn tune_for_data(&mut self, now: Time, segment: &Segment, end: u64, is_larger: bool) {
        let last_window = self.last_window();
        let next = self.receiver.next;
        let Some(buffer) = &mut self.receiver.buffer else { return };
        if is_larger {
            let memory = memory_of(self.ip.header_bytes() + segment.wire_size());
            buffer.weigh(segment.payload.length, memory);
        }
        buffer.measure_round(now, end, end + last_window);
        self.open_window(segment, end - next);
    }

    /// Opens the window for a segment; so much of it is held already besides what waits.
    #[inline]
    pub(super) fn open_window(&mut self, segment: &Segment, held: u64) {
        if self.receiver.buffer.as_ref().is_some_and(|buffer| buffer.threshold < buffer.clamp) {
            self.open_narrow_window(segment, held);
        }
    }

    fn open_narrow_window(&mut self, segment: &Segment, held: u64) {
        let held = held + self.receiver.held();
        let length = segment.payload.length;
        let Some(buffer) = &mut self.receiver.buffer else { return };
        let memory = || memory_of(self.ip.header_bytes() + segment.wire_size());
        if length >= LEAST_GROWING && buffer.grow(length, memory, held, self.delayed_ack.segment_size) {
            self.delayed_ack.quicken();
        }
    }

    /// The application reads what begins at `start`. It reads segment by segment, and only the first of them
    /// can end a round trip: the others are read at the same time.
    #[expect(clippy::inline_always, reason = "most segments come this way (docs/performance.md)")]
    #[inline(always)]
    pub(super) fn tune_for_reading(&mut self, now: Time, start: u64, length: u64) {
        let first = length.min(u64::from(self.delayed_ack.segment_size));
        if let Some(buffer) = &mut self.receiver.buffer {
            buffer.on_read(now, start + first, length - first);
        }
    }

    /// The window in the last segment that was sent (Linux: `rcv_wnd`).
    pub(super) const fn last_window(&self) -> u64 {
        self.receiver.edge.saturating_sub(self.delayed_ack.acknowledged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_MEMORY: u64 = 131_072;

    #[test]
    fn memory_of_a_packet_is_a_power_of_two_and_its_head() {
        assert_eq!(memory_of(1_500), 2_048 + 256);
        assert_eq!(memory_of(1_664), 2_048 + 256);
        assert_eq!(memory_of(1_665), 4_096 + 256);
    }

    #[test]
    fn a_window_needs_the_memory_of_its_packets() {
        // 1448 B of data in 2304 B: 160 of 256.
        assert_eq!(memory_for_window(160_000, 1_500, 1_448), 256_000);
        assert_eq!(memory_for_window(1_000, 41, 1), 256_000, "a byte in 768 B is less than a 256th");
    }

    #[test]
    fn the_buffer_follows_what_is_read_in_a_round_trip() {
        let mut buffer = ReceiveBuffer::new(FIRST_MEMORY, 6 << 20, 1_460);
        buffer.establish(Time::ZERO, 1, buffer.first_window(1_448), 0, 7);
        buffer.take_rtt_sample(40_000, false);
        buffer.on_read(Time::from_millis(39), 30_001, 0);
        assert_eq!(buffer.memory, FIRST_MEMORY, "the round trip is not over");
        buffer.on_read(Time::from_millis(40), 29_201, 0);
        // 14600 B in the round trip before: w = 2 x 29200 + 16 x 1460, and twice w x (29200 - 14600) / 14600.
        assert_eq!(buffer.memory, 2 * 3 * (2 * 29_200 + 16 * 1_460));
        assert_eq!(buffer.clamp, 3 * (2 * 29_200 + 16 * 1_460));
        let memory = buffer.memory;
        buffer.on_read(Time::from_millis(80), 58_401, 0);
        assert_eq!(buffer.memory, memory, "no more than before");
        // What waits came in no longer a time than what was read.
        buffer.on_read(Time::from_millis(120), 58_401 + 40_000, 10_800);
        assert_eq!((buffer.memory, buffer.read_per_round), (memory, 29_200));
    }

    #[test]
    fn the_buffer_stops_at_its_limit() {
        let mut buffer = ReceiveBuffer::new(FIRST_MEMORY, 100_000, 1_460);
        buffer.establish(Time::ZERO, 1, buffer.first_window(1_448), 0, 1);
        buffer.weigh(1_448, 2_304);
        buffer.take_rtt_sample(40_000, false);
        buffer.on_read(Time::from_secs(1), 1_000_001, 0);
        assert_eq!((buffer.full_space(), buffer.clamp), (100_000, 100_000));
    }

    #[test]
    fn the_round_trip_time_is_smoothed_upwards_with_timestamps_and_the_least_without() {
        let mut buffer = ReceiveBuffer::new(FIRST_MEMORY, 100_000, 1_460);
        buffer.measure_echo(5, 40);
        buffer.measure_echo(5, 90);
        assert_eq!(buffer.rtt_us_8, 320_000, "an echo counts once");
        buffer.measure_echo(6, 48);
        assert_eq!(buffer.rtt_us_8, 8 * 41_000);
        buffer.measure_echo(7, 0);
        assert_eq!(buffer.rtt_us_8, 8 * 41_000, "no time at all is none");
        buffer.measure_echo(8, 39);
        assert_eq!(buffer.rtt_us_8, 8 * 39_000);
        buffer.measure_round(Time::from_millis(100), 1, 1_000);
        buffer.measure_round(Time::from_millis(120), 999, 1_000);
        assert_eq!(buffer.rtt_us_8, 8 * 39_000, "the window is not full");
        buffer.measure_round(Time::from_millis(130), 1_000, 2_000);
        assert_eq!(buffer.rtt_us_8, 8 * 30_000);
        buffer.measure_round(Time::from_millis(230), 2_000, 3_000);
        assert_eq!(buffer.rtt_us_8, 8 * 30_000, "an upper limit only");
    }

    #[test]
    fn little_room_closes_the_window() {
        let mut buffer = ReceiveBuffer::new(FIRST_MEMORY, 1 << 20, 1_460);
        buffer.establish(Time::ZERO, 1, buffer.first_window(1_448), 0, 7);
        let full = buffer.full_space();
        assert_eq!(full, 65_536);
        assert_eq!(buffer.window(0, 1_448, 0, 7), (buffer.clamp.next_multiple_of(128), false));
        assert_eq!(buffer.window(full / 2 + 1_460, 1_448, 0, 7), ((full / 2 - 1_460) / 128 * 128, true));
        assert_eq!(buffer.window(full - full / 16 + 1, 1_448, 0, 7), (0, true));
    }
}
