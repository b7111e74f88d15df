//! Accurate ECN (RFC 9768): what the receiver of data counts and says in the ACE field and in its option, and
//! how the sender of data reads it.
//!
//! Known deviations: the option is sent where it fits, and no segment of data is made smaller for it. That
//! all packets of the first rounds are marked (section 3.2.2.3, advised) is not taken for mangling, since a
//! queue with an early threshold does it too. A segment that was lost with the option takes it along when it
//! is sent again.

use crate::flow::Ecn as EcnField;
use crate::wire::tcp::{AccurateEcn as CountersOption, Flags};

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
        if begins_with_ect1 { [Self::Ect1, Self::Ce, Self::Ect0] } else { [Self::Ect0, Self::Ce, Self::Ect1] }
    }
}

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
    /// Which counters of bytes have ever changed, and which have since the last option.
    changed: [bool; 3],
    fresh: [bool; 3],
    /// Marked packets since the last acknowledgement, and whether the last packet was one.
    unacknowledged: u32,
    was_marked: bool,
    /// Whether the option is sent, and how many of the next segments have it in any case.
    sends_option: bool,
    owed_options: u8,
    /// What the peer has reported (s.cep; s.e0b, s.ceb, s.e1b).
    told: u32,
    told_bytes: [u32; 3],
    options: Options,
    /// Marks told since the last option.
    without_option: u32,
    /// Segments that an acknowledgement is for, on average; 0 until data has been acknowledged.
    segments_per_ack: f64,
    /// The timestamp of the last acknowledgement that was read.
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
            changed: [false; 3],
            fresh: [false; 3],
            unacknowledged: 0,
            was_marked: false,
            sends_option: true,
            owed_options: FIRST_OPTIONS,
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
    /// be acknowledged at once (section 3.2.2.5.1).
    pub(super) fn on_arrival(&mut self, mark: EcnField, length: u32) -> bool {
        let is_marked = mark == EcnField::Ce;
        let has_data = length > 0;
        let changes = is_marked && !self.was_marked && has_data;
        self.was_marked = is_marked;
        self.arrived = self.arrived.wrapping_add(u32::from(is_marked));
        self.unacknowledged += u32::from(is_marked);
        if let Some(counter) = Counter::of(mark).filter(|_| has_data) {
            let index = counter as usize;
            self.bytes[index] = self.bytes[index].wrapping_add(length);
            (self.changed[index], self.fresh[index]) = (true, true);
        }
        let most = if has_data { MOST_WITH_DATA } else { MOST_WITHOUT_DATA };
        changes || self.unacknowledged >= most
    }

    /// An option that was to be said is left out: it is due again.
    pub(super) fn take_back(&mut self, option: &CountersOption) {
        let fields = Counter::fields(option.begins_with_ect1);
        for (counter, _) in fields.into_iter().zip(&option.counters) {
            self.fresh[counter as usize] |= self.changed[counter as usize];
        }
        if !self.changed.contains(&true) {
            self.owed_options += 1;
        }
    }

    /// Notes that an acknowledgement leaves.
    pub(super) fn record_ack_sent(&mut self) {
        self.unacknowledged = 0;
    }

    /// The SYN-ACK, or our first data, was lost with the option, which the path may not let through (section
    /// 3.2.3.2.2).
    pub(super) fn give_up_option(&mut self) {
        self.sends_option = false;
    }

    /// The option of a segment that has `room` bytes for it, if it is due (section 3.2.3.3): a counter has
    /// changed since the last one. It has all counters that have ever changed, or those that have since then
    /// if there is no room for more. The first segments have one in any case, with as many as fit (section
    /// 3.2.3.2.1).
    pub(super) fn option(&mut self, room: u32) -> Option<CountersOption> {
        let is_owed = self.owed_options > 0;
        if !self.sends_option || !(is_owed || self.fresh.contains(&true)) {
            return None;
        }
        let (begins_with_ect1, count) = if self.changed.contains(&true) {
            let layout = |needed| Self::layout(needed, self.changed, room);
            layout(self.changed).or_else(|| layout(self.fresh))?
        } else {
            (false, (room.checked_sub(2)? / 3).min(3) as usize)
        };
        let fields = Counter::fields(begins_with_ect1);
        let counters =
            fields[..count].iter().map(|counter| self.bytes[*counter as usize] & OPTION_MASK).collect();
        self.fresh = [false; 3];
        self.owed_options = self.owed_options.saturating_sub(1);
        Some(CountersOption { begins_with_ect1, counters })
    }

    /// The order and the number of fields of an option of at most `room` bytes that has the `needed`
    /// counters, and as many of the wanted ones as that takes along: the shorter one, otherwise AccECN0.
    fn layout(needed: [bool; 3], wanted: [bool; 3], room: u32) -> Option<(bool, usize)> {
        [true, false]
            .map(|order| (order, Self::count(order, needed)))
            .into_iter()
            .filter(|&(_, count)| 2 + 3 * count <= room as usize)
            .max_by_key(|&(order, count)| (Self::covers(order, count, wanted), std::cmp::Reverse(count)))
    }

    /// How many fields an option in this order needs for these counters.
    fn count(begins_with_ect1: bool, needed: [bool; 3]) -> usize {
        let fields = Counter::fields(begins_with_ect1);
        fields.iter().rposition(|counter| needed[*counter as usize]).map_or(0, |last| last + 1)
    }

    /// How many of the wanted counters are among the first `count` fields in this order.
    fn covers(begins_with_ect1: bool, count: usize, wanted: [bool; 3]) -> usize {
        let fields = Counter::fields(begins_with_ect1);
        fields[..count].iter().filter(|counter| wanted[**counter as usize]).count()
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
