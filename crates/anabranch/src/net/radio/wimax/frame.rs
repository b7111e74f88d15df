//! The contents of a frame: its symbols, the overhead in them, and how they are shared out.
//!
//! Sources: IEEE 802.16-2004 sections 8.3.5.1 (frame structure), 8.3.6.2 and 8.3.6.3 (map elements),
//! 6.3.2.3.2 and 6.3.2.3.4 (map messages), 6.3.2.1 (MAC headers).

use anabranch_transport::time::Duration;

use super::super::ofdm::Ofdm;
use super::super::served_link::check_range;
use super::config::CellConfig;
use crate::net::packets::Direction;

/// Bytes of the generic MAC header, and of the cyclic redundancy check.
pub(super) const MAC_HEADER_BYTES: u32 = 6;
pub(super) const CRC_BYTES: u32 = 4;

/// The longest protocol data unit in bytes, since the length field of a MAC header has 11 bits.
pub(super) const LONGEST_PDU: u32 = 2047;

/// A long preamble takes two symbols, and the frame control header behind it one.
const DOWNLINK_START_SYMBOLS: u64 = 3;

/// A burst of the uplink begins with a short preamble.
pub(super) const UPLINK_PREAMBLE_SYMBOLS: u64 = 1;

/// A station without a burst is polled: this takes a preamble, and a bandwidth request header at BPSK 1/2.
const POLL_SYMBOLS: u64 = 2;

/// Each burst ends with a zero byte that empties the coder.
pub(super) const TAIL_BYTES: u32 = 1;

/// DL-MAP: type, count of the channel descriptor, base station; 4 bytes for each burst and for the end.
const DL_MAP_BYTES: u64 = 8;
const DL_MAP_ELEMENT_BYTES: u64 = 4;

/// UL-MAP: type, channel, count of the channel descriptor, allocation start time; 6 bytes for each burst, for
/// ranging and for requests in contention, and for the end.
const UL_MAP_BYTES: u64 = 7;
const UL_MAP_ELEMENT_BYTES: u64 = 6;
const UL_MAP_FIXED_ELEMENTS: u64 = 3;

/// The unit for parts of the equipment's limits: this many make a whole.
const WHOLE: u64 = 1 << 32;

/// Maps are sent at BPSK 1/2.
const MAP_BYTES_PER_SYMBOL: u64 = 12;

/// A frame of a cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) cell: CellConfig,
    pub(super) ofdm: Ofdm,
    pub(super) nanos: u64,
    gap_nanos: u64,
    symbols: u64,
}

impl Frame {
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub(super) fn new(cell: &CellConfig, key: &str) -> Result<Self, String> {
        let key = format!("{key}.cell");
        check_range(&key, "bandwidth_mhz", cell.bandwidth_mhz, 1.25, 28.0)?;
        check_range(&key, "downlink_share", cell.downlink_share, 0.0, 1.0)?;
        check_range(&key, "grant_delay", f64::from(cell.grant_delay), 1.0, 100.0)?;
        let CellConfig { frame, gap, .. } = *cell;
        if !(Duration::from_millis(2)..=Duration::from_millis(20)).contains(&frame) {
            return Err(format!("{key}.frame is \"{frame}\", allowed is 2 ms to 20 ms"));
        }
        if gap * 4 > frame {
            return Err(format!(
                "{key}.gap is \"{gap}\", allowed is at most a quarter of the frame, \"{frame}\""
            ));
        }
        let ofdm = Ofdm::new((cell.bandwidth_mhz * 1e6).round() as u64, cell.cyclic_prefix);
        let (nanos, gap_nanos) = (frame.as_nanos(), gap.as_nanos());
        let symbols = ofdm.symbols_in(nanos - 2 * gap_nanos);
        let most_contention = symbols / 2;
        if u64::from(cell.contention_symbols) > most_contention {
            return Err(format!(
                "{key}.contention_symbols is {}, allowed is at most {most_contention}, half of the frame's symbols",
                cell.contention_symbols
            ));
        }
        Ok(Self { cell: *cell, ofdm, nanos, gap_nanos, symbols })
    }

    /// The symbols before the first burst of the downlink in a frame with this many bursts there, for this
    /// many stations, each of which has a burst or a poll in the uplink.
    pub(super) fn downlink_overhead(bursts: u64, stations: u64) -> u64 {
        let message = u64::from(MAC_HEADER_BYTES + CRC_BYTES);
        let dl_map = message + DL_MAP_BYTES + DL_MAP_ELEMENT_BYTES * (bursts + 1);
        let ul_map = message + UL_MAP_BYTES + UL_MAP_ELEMENT_BYTES * (stations + UL_MAP_FIXED_ELEMENTS);
        let map = dl_map + ul_map + u64::from(TAIL_BYTES);
        DOWNLINK_START_SYMBOLS + map.div_ceil(MAP_BYTES_PER_SYMBOL)
    }

    /// Number of symbols of the uplink before its first burst.
    pub(super) fn uplink_overhead(&self, polls: u64) -> u64 {
        u64::from(self.cell.contention_symbols) + polls * POLL_SYMBOLS
    }

    /// Number of symbols of a frame that are left for bursts.
    pub(super) fn symbols_left(&self, overhead: u64) -> u64 {
        self.symbols.saturating_sub(overhead)
    }

    /// When the uplink part with this many symbols starts, in nanoseconds after the frame: it ends with the
    /// frame, except for the last gap.
    pub(super) fn uplink_start(&self, symbols: u64) -> u64 {
        self.nanos.saturating_sub(self.gap_nanos + self.ofdm.nanos(symbols))
    }

    /// Bytes of packets that the equipment takes in this direction in this frame.
    pub(super) fn limit_bytes(&self, direction: Direction, number: u64) -> u64 {
        let rate = match direction {
            Direction::Forward => self.cell.downlink_limit,
            Direction::Reverse => self.cell.uplink_limit,
        };
        let until = |number: u64| {
            u128::from(rate.bits_per_sec()) * u128::from(self.nanos) * u128::from(number) / 8_000_000_000
        };
        (until(number + 1) - until(number)) as u64
    }

    /// Divides the available symbols between downlink and uplink, which want these numbers.
    pub(super) fn split(&self, available: u64, wanted: [u64; 2]) -> [u64; 2] {
        let [down, up] = wanted;
        let down_share = (available as f64 * self.cell.downlink_share) as u64;
        let up_share = available - down_share;
        if !self.cell.adaptive_split {
            return [down.min(down_share), up.min(up_share)];
        }
        let down_given = down.min(down_share.max(available.saturating_sub(up)));
        [down_given, up.min(available - down_given)]
    }

    /// Divides the equipment's limits, in bytes, between directions that want these amounts, if they are
    /// shared.
    pub(super) fn share_limits(&self, limits: [u64; 2], wanted: [u64; 2]) -> [u64; 2] {
        if !self.cell.shared_limits {
            return limits;
        }
        let part = |index: usize| {
            (u128::from(wanted[index].min(limits[index])) * u128::from(WHOLE))
                .div_ceil(limits[index].max(1).into()) as u64
        };
        let parts = Self { cell: CellConfig { adaptive_split: true, ..self.cell }, ..*self }
            .split(WHOLE, [part(0), part(1)]);
        [0, 1].map(|index| (u128::from(limits[index]) * u128::from(parts[index]) / u128::from(WHOLE)) as u64)
    }
}

/// Divides what is available among some who want these amounts, in proportion to weights: no one gets more
/// than wanted, or more than its part while another gets less than its own. The rest from fractions goes one
/// by one in turn, beginning at `first`.
pub(super) fn share_out(wanted: &[u64], weights: &[u64], available: u64, first: usize) -> Vec<u64> {
    let mut given = vec![0; wanted.len()];
    let mut left = available;
    let mut hungry: Vec<usize> = (0..wanted.len()).filter(|&index| wanted[index] > 0).collect();
    loop {
        let weight: u64 = hungry.iter().map(|&index| weights[index]).sum();
        if weight == 0 {
            return given;
        }
        let part = |index: usize| (u128::from(left) * u128::from(weights[index]) / u128::from(weight)) as u64;
        let is_content = |index: usize| wanted[index] <= part(index);
        if !hungry.iter().any(|&index| is_content(index)) {
            for &index in &hungry {
                given[index] = part(index);
            }
            break;
        }
        let content: Vec<usize> = hungry.iter().copied().filter(|&index| is_content(index)).collect();
        hungry.retain(|index| !content.contains(index));
        for index in content {
            given[index] = wanted[index];
            left -= wanted[index];
        }
    }
    left -= hungry.iter().map(|&index| given[index]).sum::<u64>();
    let turn = hungry.iter().position(|&index| index >= first).unwrap_or(0);
    for &index in hungry.iter().cycle().skip(turn).take(left as usize) {
        given[index] += 1;
    }
    given
}

#[cfg(test)]
mod tests {
    use anabranch_transport::units::Rate;
    use proptest::prelude::*;

    use super::*;

    fn frame() -> Frame {
        Frame::new(&CellConfig::default(), "links.air.radio").unwrap()
    }

    #[test]
    fn overhead_by_hand() {
        // 5 ms less two gaps of 100 us are 406.6 symbols of 11.80555 us.
        assert_eq!(frame().symbols, 406);
        // One burst, one station: DL-MAP 10 + 8 + 2 x 4 = 26 bytes, UL-MAP 10 + 7 + 4 x 6 = 41, tail 1: 68
        // bytes are 6 symbols, after 3.
        assert_eq!(Frame::downlink_overhead(1, 1), 9);
        assert_eq!(frame().uplink_overhead(1), 10);
        assert_eq!(frame().uplink_start(10), 5_000_000 - 100_000 - 118_056);
    }

    #[test]
    fn limits_add_up_to_the_rate() {
        let cell = CellConfig { uplink_limit: Rate::from_bits_per_sec(26_400_123), ..CellConfig::default() };
        let frame = Frame::new(&cell, "key").unwrap();
        assert_eq!(frame.limit_bytes(Direction::Forward, 7), 18_750);
        let second: u64 = (0..200).map(|number| frame.limit_bytes(Direction::Reverse, number)).sum();
        assert_eq!(second, 26_400_123 / 8);
    }

    #[test]
    fn directions_share_what_there_is() {
        let frame = frame();
        assert_eq!(frame.split(100, [30, 20]), [30, 20]);
        assert_eq!(frame.split(100, [500, 20]), [80, 20]);
        assert_eq!(frame.split(100, [30, 500]), [30, 70]);
        assert_eq!(frame.split(100, [500, 500]), [50, 50]);
        let cell = CellConfig { adaptive_split: false, downlink_share: 0.6, ..CellConfig::default() };
        let fixed = Frame::new(&cell, "key").unwrap();
        assert_eq!(fixed.split(100, [500, 20]), [60, 20]);
        // Half of each limit, or one of them whole, or what the other one leaves.
        assert_eq!(frame.share_limits([1_000, 880], [5_000, 5_000]), [500, 440]);
        assert_eq!(frame.share_limits([1_000, 880], [5_000, 0]), [1_000, 0]);
        assert_eq!(frame.share_limits([1_000, 880], [250, 5_000]), [250, 660]);
        let cell = CellConfig { shared_limits: false, ..CellConfig::default() };
        assert_eq!(Frame::new(&cell, "key").unwrap().share_limits([1_000, 880], [9, 9]), [1_000, 880]);
    }

    #[test]
    fn shares_by_weight() {
        assert_eq!(share_out(&[10, 100, 100], &[1, 1, 1], 100, 0), [10, 45, 45]);
        assert_eq!(share_out(&[100, 100, 100], &[1, 1, 1], 100, 1), [33, 34, 33]);
        assert_eq!(share_out(&[100, 100], &[8, 72], 40, 0), [4, 36]);
        assert_eq!(share_out(&[0, 7], &[1, 1], 40, 0), [0, 7]);
        assert_eq!(share_out(&[], &[], 40, 0), [0; 0]);
    }

    proptest! {
        #[test]
        fn shares_use_all_there_is_and_no_more(
            wishes in prop::collection::vec((0..500_u64, 1..100_u64), 1..9),
            available in 0..1_000_u64,
            first in 0..9_usize,
        ) {
            let (wanted, weights): (Vec<u64>, Vec<u64>) = wishes.into_iter().unzip();
            let given = share_out(&wanted, &weights, available, first);
            prop_assert_eq!(given.iter().sum::<u64>(), available.min(wanted.iter().sum()));
            for index in 0..wanted.len() {
                prop_assert!(given[index] <= wanted[index]);
                // Except for one unit, whoever gets less than wanted has no smaller part than any other.
                if given[index] < wanted[index] {
                    for other in 0..wanted.len() {
                        let (part, others) = (given[index] + 1, given[other].saturating_sub(1));
                        prop_assert!(part * weights[other] >= others * weights[index]);
                    }
                }
            }
        }
    }
}
