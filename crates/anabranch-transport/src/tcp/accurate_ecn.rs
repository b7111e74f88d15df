//! Accurate ECN (RFC 9768): what the receiver of data counts and says in the ACE field and in its option, and
//! how the sender of data reads it.
//!
//! Known deviations: the option is sent where it fits. Segments of data are smaller for it only with
//! `repeats_ecn_option`, and where the handshake had the peer's option. That all packets of the first rounds
//! are marked (section 3.2.2.3, advised) is not taken for mangling, since a queue with an early threshold
//! does it too. A segment that was lost with the option takes it along when it is sent again.

use crate::flow::Ecn as EcnField;
use crate::wire::tcp::{AccurateEcn as CountersOption, Flags, Segment};

/// The counters of packets begin with this value (section 3.2.1), so that a field that is always zero is
/// recognised.
const FIRST_PACKETS: u32 = 5;

/// The counters of bytes begin with these values, in the order of [`Counter`] (section 3.2.1).
const FIRST_BYTES: [u32; 3] = [1, 0, 1];

/// The SYN-ACK has an option, or the first acknowledgement and the first data (section 3.2.3.2.1).
const FIRST_OPTIONS: u8 = 2;

/// The ACE field counts modulo 8 (appendix A.2.1: DIVACE), the fields of the option modulo 2^24 (DIVOPT).
const ACE_VALUES: u32 = 8;
const OPTION_MASK: u32 = (1 << 24) - 1;

/// So many marks are told at once, with data that waits for its acknowledgement and without (section
/// 3.2.2.5.1).
const MOST_WITH_DATA: u32 = 2;
const MOST_WITHOUT_DATA: u32 = 3;

/// Where acknowledgements are for more segments than this on average, they are thinned out, and a gap between
/// them shows no loss (Linux: `ACK_COMP_THRESH`; appendix A.2.1: "well below 8").
const FEW_SEGMENTS: f64 = 4.0;
/// The weight of the last acknowledgement in that average (Linux: `PKTS_ACKED_WEIGHT`).
const AVERAGE_WEIGHT: f64 = 1.0 / 64.0;

/// The counters of bytes, by mark, in the order of AccECN0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    Ect0,
    Ce,
    Ect1,
}

impl Counter {
    const fn of(mark: EcnField) -> Option<Self> {
        match mark {
            EcnField::NotEct => None,
            EcnField::Ect0 => Some(Self::Ect0),
            EcnField::Ect1 => Some(Self::Ect1),
            EcnField::Ce => Some(Self::Ce),
        }
    }

    /// The fields of an option in their order (table 5).
    const fn fields(begins_with_ect1: bool) -> [Self; 3] {
        if begins_with_ect1 { COUNTERS } else { [Self::Ect0, Self::Ce, Self::Ect1] }
    }
}

/// The counters in the order in which they are sent, that of AccECN1.
const COUNTERS: [Counter; 3] = [Counter::Ect1, Counter::Ce, Counter::Ect0];

/// What is done with the peer's option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Options {
    /// None has come (section 3.2.3.2.3).
    Absent,
    /// A field that cannot begin with zero did (section 3.2.3.2.4).
    Ignored,
    Read,
}

/// What an acknowledgement acknowledges.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    pub(super) segments: u32,
    /// Bytes in a full segment.
    pub(super) mss: u32,
}

/// Both half-connections of an end with accurate feedback.
#[expect(clippy::struct_excessive_bools, reason = "what has been found out, each independent of the others")]
#[derive(Clone, Copy, Debug)]
pub(super) struct AccurateEcn {
    /// Packets with a mark that have arrived (r.cep), and bytes by mark (r.e0b, r.ceb, r.e1b).
    arrived: u32,
    bytes: [u32; 3],
    /// Which counters of bytes have changed since the last option.
    fresh: [bool; 3],
    /// Marked packets since the last acknowledgement, and whether the last packet was one.
    unacknowledged: u32,
    pub(super) was_marked: bool,
    /// Whether the option is sent, and how many of the next segments have it in any case.
    sends_option: bool,
    owed_options: u8,
    /// `fresh` and `owed_options` before the last option.
    before_option: ([bool; 3], u8),
    /// Whether the peer has sent an option.
    has_seen_option: bool,
    /// What the peer has reported (s.cep; s.e0b, s.ceb, s.e1b).
    told: u32,
    told_bytes: [u32; 3],
    options: Options,
    /// Marks told since the last option.
    without_option: u32,
    /// Segments that an acknowledgement is for, on average; 0 until data has been acknowledged.
    segments_per_ack: f64,
    /// The timestamp of the last acknowledgement that was read, at first of the handshake's last segment.
    read_at: Option<u32>,
    /// Whether feedback has come after the handshake.
    has_feedback: bool,
    /// Whether data may say ECT, and whether feedback is answered: the path mangles neither.
    pub(super) may_mark: bool,
    responds: bool,
    /// The mark of the peer's last SYN, which our SYN-ACK says.
    pub(super) syn: EcnField,
    /// The mark of the peer's SYN-ACK, as long as our acknowledgement has not said it.
    unsaid: Option<EcnField>,
    /// Whether the segment that is being read has the handshake's encoding in the place of a counter.
    ends_handshake: bool,
}

impl AccurateEcn {
    pub(super) const fn new() -> Self {
        Self {
            arrived: FIRST_PACKETS,
            bytes: FIRST_BYTES,
            fresh: [false; 3],
            unacknowledged: 0,
            was_marked: false,
            sends_option: true,
            owed_options: FIRST_OPTIONS,
            before_option: ([false; 3], FIRST_OPTIONS),
            has_seen_option: false,
            told: FIRST_PACKETS,
            told_bytes: FIRST_BYTES,
            options: Options::Absent,
            without_option: 0,
            segments_per_ack: 0.0,
            read_at: None,
            has_feedback: false,
            may_mark: true,
            responds: true,
            syn: EcnField::NotEct,
            unsaid: None,
            ends_handshake: false,
        }
    }

    /// The mark of a SYN or SYN-ACK as three flags (tables 2 and 3).
    pub(super) const fn handshake_flags(mark: EcnField) -> Flags {
        Flags::from_ace(match mark {
            EcnField::NotEct => 0b010,
            EcnField::Ect1 => 0b011,
            EcnField::Ect0 => 0b100,
            EcnField::Ce => 0b110,
        })
    }

    /// The mark that three flags of a SYN-ACK, or of its acknowledgement, say that our SYN or SYN-ACK came
    /// with (tables 2 and 4).
    const fn mark_of(ace: u8) -> Option<EcnField> {
        Some(match ace {
            0b010 => EcnField::NotEct,
            0b011 => EcnField::Ect1,
            0b100 => EcnField::Ect0,
            0b110 => EcnField::Ce,
            _ => return None,
        })
    }

    /// Takes what the peer says of our SYN or SYN-ACK, which left as Not-ECT. Any other mark shows that the
    /// path changes the field, so that data no longer says ECT (section 3.2.2.3). Returns whether it came
    /// marked, which is answered all the same.
    pub(super) fn take_handshake(&mut self, flags: Flags) -> bool {
        let mark = Self::mark_of(flags.ace());
        self.may_mark &= !mark.is_some_and(|mark| mark != EcnField::NotEct);
        mark == Some(EcnField::Ce)
    }

    /// The server takes the acknowledgement of its SYN-ACK without data (section 3.2.2.1, table 4). Returns
    /// whether the SYN-ACK came marked.
    pub(super) fn take_third_segment(&mut self, flags: Flags) -> bool {
        self.ends_handshake = true;
        if flags.ace() == 0 {
            // Note 1.
            (self.may_mark, self.responds) = (false, false);
            return false;
        }
        let was_marked = self.take_handshake(flags);
        self.told += u32::from(was_marked);
        was_marked
    }

    /// The SYN-ACK has come with this mark (section 3.2.2.2: counted once).
    pub(super) fn record_syn_ack(&mut self, mark: EcnField) {
        self.unsaid = Some(mark);
        if mark == EcnField::Ce && self.arrived == FIRST_PACKETS {
            self.arrived += 1;
        }
    }

    /// What the acknowledgement of a SYN-ACK says of it, once; only one without data and SACK blocks does
    /// (section 3.2.2.1).
    pub(super) fn say_handshake(&mut self, is_pure: bool) -> Option<Flags> {
        self.unsaid.take().filter(|_| is_pure).map(Self::handshake_flags)
    }

    /// The three flags of every other segment: the counter (section 3.2.2).
    pub(super) fn flags(&self) -> Flags {
        Flags::from_ace((self.arrived % ACE_VALUES) as u8)
    }

    /// Counts a packet that has arrived (section 3.2), with `length` bytes of data. Returns whether it is to
    /// be acknowledged at once (section 3.2.2.5.1); `waits` says whether earlier data is unacknowledged.
    pub(super) fn on_arrival(&mut self, mark: EcnField, length: u32, waits: bool) -> bool {
        let is_marked = mark == EcnField::Ce;
        let has_data = length > 0;
        let changes = is_marked && !self.was_marked && has_data;
        self.was_marked = is_marked;
        self.arrived = self.arrived.wrapping_add(u32::from(is_marked));
        self.unacknowledged += u32::from(is_marked);
        if let Some(counter) = Counter::of(mark).filter(|_| has_data) {
            let index = counter as usize;
            self.bytes[index] = self.bytes[index].wrapping_add(length);
            self.fresh[index] = true;
        }
        let most = if has_data || waits { MOST_WITH_DATA } else { MOST_WITHOUT_DATA };
        changes || self.unacknowledged >= most
    }

    /// The last option is left out of its segment: it is due again.
    pub(super) const fn take_back(&mut self) {
        (self.fresh, self.owed_options) = self.before_option;
    }

    /// Notes that an acknowledgement leaves.
    pub(super) fn record_ack_sent(&mut self) {
        self.unacknowledged = 0;
    }

    /// The SYN-ACK was lost with the option, which the path may not let through (section 3.2.3.2.2).
    pub(super) fn give_up_option(&mut self) {
        self.sends_option = false;
    }

    /// The option of a segment, if it is due (section 3.2.3.3), and how many of `blocks` there is room for
    /// beside it; `fits` says whether so many counters and SACK blocks fit together. It is due where a
    /// counter has changed since the last one, and on the first segments (section 3.2.3.2.1). The counters
    /// are in the order of AccECN1, with as many as fit but at least those that have changed; for these,
    /// blocks after the second one are left out (Linux: `tcp_options_fit_accecn`).
    ///
    /// `repeats` is given where Linux's rule holds: every segment has one once the peer's option has been
    /// seen, and before that this one if it is true.
    pub(super) fn option(
        &mut self,
        fits: impl Fn(usize, usize) -> bool,
        blocks: usize,
        repeats: Option<bool>,
    ) -> (Option<CountersOption>, usize) {
        let needed = COUNTERS.iter().rposition(|counter| self.fresh[*counter as usize]).map_or(0, |i| i + 1);
        let is_due = match repeats {
            None => self.owed_options > 0 || needed > 0,
            Some(is_syn_ack) => is_syn_ack || self.has_seen_option,
        };
        if !self.sends_option || !is_due {
            return (None, blocks);
        }
        let fewest = if needed > 0 { blocks.min(2) } else { blocks };
        let layouts = (fewest..=blocks)
            .rev()
            .flat_map(|blocks| (needed..=COUNTERS.len()).rev().map(move |count| (count, blocks)));
        let Some((count, blocks)) = layouts.into_iter().find(|&(count, blocks)| fits(count, blocks)) else {
            return (None, blocks);
        };
        let counters =
            COUNTERS[..count].iter().map(|counter| self.bytes[*counter as usize] & OPTION_MASK).collect();
        self.before_option = (self.fresh, self.owed_options);
        self.fresh = [false; 3];
        self.owed_options = self.owed_options.saturating_sub(1);
        (Some(CountersOption { begins_with_ect1: true, counters }), blocks)
    }

    /// Notes when the last segment of the handshake was sent, and whether it has the peer's option.
    pub(super) fn see_handshake(&mut self, segment: &Segment) {
        self.has_seen_option |= segment.rare.as_ref().is_some_and(|rare| rare.accurate_ecn.is_some());
        self.read_at = segment.timestamps.map(|timestamps| timestamps.value);
    }

    /// Whether the peer has sent an option.
    pub(super) const fn has_seen_option(&self) -> bool {
        self.has_seen_option
    }

    /// Reads the feedback of an acknowledgement (section 3.2.2.2, appendix A). Returns how many packets were
    /// marked that are to be answered.
    pub(super) fn read(
        &mut self,
        flags: Flags,
        option: Option<&CountersOption>,
        stamp: Option<u32>,
        acked: Acked,
    ) -> u32 {
        if std::mem::take(&mut self.ends_handshake) {
            return 0;
        }
        // Appendix A.1: an acknowledgement of nothing new is superseded if it is not later.
        let is_later = match (self.read_at, stamp) {
            (Some(last), Some(stamp)) => stamp.wrapping_sub(last) as i32 > 0,
            _ => false,
        };
        if acked.segments == 0 && !is_later {
            return 0;
        }
        self.read_at = stamp;
        let is_first = !std::mem::replace(&mut self.has_feedback, true);
        let least = u32::from(flags.ace()).wrapping_sub(self.told) % ACE_VALUES;
        if is_first && flags.ace() == 0 && acked.segments < least {
            // Section 3.2.2.4: so many marks cannot have been, so the field is zeroed on the way.
            (self.may_mark, self.responds) = (false, false);
        }
        let bytes = self.read_option(option, is_first);
        // The first one sets the average (Linux: `__tcp_accecn_process`).
        let weight = if self.segments_per_ack == 0.0 { 1.0 } else { AVERAGE_WEIGHT };
        self.segments_per_ack += (f64::from(acked.segments) - self.segments_per_ack) * weight;
        // An option that was left out before tells its bytes now; their packets have been told.
        let told_before = self.without_option;
        let marks = self.safest(least, bytes.filter(|_| told_before == 0), acked);
        self.told = self.told.wrapping_add(marks);
        self.without_option = if bytes.is_some() { 0 } else { told_before.saturating_add(marks) };
        let has_bytes = bytes.is_some_and(|bytes| bytes > 0);
        if has_bytes && marks + told_before == 0 && acked.segments < ACE_VALUES {
            // Section 3.2.3.2.5: marked bytes without a marked packet.
            self.may_mark = false;
        }
        if self.responds { marks } else { 0 }
    }

    /// Takes the fields of an option; gives by how much the counter of marked bytes has grown, if that is
    /// known.
    fn read_option(&mut self, option: Option<&CountersOption>, is_first: bool) -> Option<u32> {
        let option = option?;
        self.has_seen_option = true;
        let fields = Counter::fields(option.begins_with_ect1);
        let is_zeroed =
            fields.iter().zip(&option.counters).any(|(f, value)| *f != Counter::Ce && *value == 0);
        if self.options == Options::Absent || is_first {
            self.options = if is_zeroed { Options::Ignored } else { Options::Read };
        }
        if self.options == Options::Ignored {
            return None;
        }
        // A counter that is left out has not changed (section 3.2.3).
        let mut marked = 0;
        for (counter, value) in fields.into_iter().zip(&option.counters) {
            let told = &mut self.told_bytes[counter as usize];
            let grown = value.wrapping_sub(*told) & OPTION_MASK;
            *told = told.wrapping_add(grown);
            if counter == Counter::Ce {
                marked = grown;
            }
        }
        Some(marked)
    }

    /// Bytes that the peer has reported, in the order of [`Counter`].
    pub(super) fn reported_bytes(&self) -> [u32; 3] {
        std::array::from_fn(|counter| self.told_bytes[counter].wrapping_sub(FIRST_BYTES[counter]))
    }

    /// How many marks the ACE field stands for, which says that there were `least` or a multiple of 8 more
    /// (appendix A.2). `bytes` were marked, if the option says it.
    fn safest(&self, least: u32, bytes: Option<u32>, acked: Acked) -> u32 {
        let Acked { segments, mss } = acked;
        let Some(more) = segments.checked_sub(least).map(|more| more / ACE_VALUES * ACE_VALUES) else {
            return least;
        };
        let safer = least + more;
        let is_least_enough = match bytes {
            // Appendix A.2.2, with its safety factor of 2.
            Some(bytes) => more > 0 && bytes <= mss * least && 2 * bytes / safer < mss,
            None => self.segments_per_ack > FEW_SEGMENTS,
        };
        if is_least_enough { least } else { safer }
    }
}
