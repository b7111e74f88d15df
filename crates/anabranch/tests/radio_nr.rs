//! NR through the whole simulator: waits for slots, grants and retransmissions by closed forms, the shares of
//! both directions, and what holds for every link.

use crate::radio::{any_bearer_settings, conserves_and_repeats, run, run_of, study, value};
use anabranch::sim::Outcome;
use anabranch::trace::Column;
use proptest::prelude::*;

/// An NR link between `gnb` and `ue`, and datagrams of 1500 B over it; `radio`, `link` and `app` are more
/// keys of these tables.
fn scenario(radio: &str, link: &str, rate: &str, app: &str) -> String {
    format!(
        "[links.air]\nends = ['gnb', 'ue']\nradio = {{ kind = 'nr'{radio} }}\n{link}\n\
         [paths.p]\nvia = ['air']\n[flows.f]\nfrom = 'gnb'\nto = 'ue'\npaths = ['p']\n\
         transport = {{ kind = 'udp' }}\napp = {{ kind = 'datagrams', size = '1472 B', rate = '{rate}', \
         delay_quantiles = true{app} }}\n"
    )
}

const CBR: &str = ", intervals = { kind = 'cbr' }";
const UP: &str = ", intervals = { kind = 'cbr' }, reverse = true";
/// No block fails.
const SURE: &str = ", harq = { error = 0 }";
/// A packet every 100.37 ms, which comes to every place of a pattern.
const SLOW: &str = "117325 bit/s";

/// Times of sending and arrival of each packet that arrived, in nanoseconds.
fn arrivals(outcome: &Outcome) -> Vec<(u64, u64)> {
    let table = outcome.tables.iter().find(|table| table.name == "packets").unwrap();
    let column = |wanted: &str| match &table.columns.iter().find(|(name, _)| *name == wanted).unwrap().1 {
        Column::Numbers(numbers) => numbers.clone(),
        other => panic!("{other:?}"),
    };
    let nanos = |seconds: f64| (seconds * 1e9).round() as u64;
    let both = column("sent_s").into_iter().zip(column("delivered_s"));
    both.filter(|(_, delivered)| !delivered.is_nan())
        .map(|(sent, delivered)| (nanos(sent), nanos(delivered)))
        .collect()
}

/// The slots of a link, as a reader of the specifications would count them.
struct Slots {
    numerology: u32,
    pattern: &'static str,
    /// Symbols of the downlink in an S slot; it has two of the uplink.
    special: u64,
    processing: u64,
}

const DEFAULT: Slots = Slots { numerology: 1, pattern: "DDDSU", special: 10, processing: 200_000 };

impl Slots {
    fn length(&self) -> u64 {
        1_000_000 >> self.numerology
    }

    fn letter(&self, slot: u64) -> char {
        self.pattern.chars().nth(slot as usize % self.pattern.len()).unwrap()
    }

    /// The first slot from this one on that has one of these letters.
    fn first(&self, mut slot: u64, letters: &str) -> u64 {
        while !letters.contains(self.letter(slot)) {
            slot += 1;
        }
        slot
    }

    fn from(&self, time: u64) -> u64 {
        time.div_ceil(self.length())
    }

    /// The first uplink slot of a period that begins when a sender is ready which has a packet from this time
    /// on.
    fn periodic(&self, sent: u64, period: u64, offset: u64) -> u64 {
        let mut slot = self.first(self.from(sent + self.processing), "U");
        while slot % period != offset {
            slot = self.first(slot + 1, "U");
        }
        slot
    }

    /// When the downlink's symbols of a slot are over.
    fn downlink_end(&self, slot: u64) -> u64 {
        let symbols = if self.letter(slot) == 'S' { self.special } else { 14 };
        slot * self.length() + (self.length() * symbols).div_ceil(14)
    }

    /// The slot for which there is a grant when data are known from this time on.
    fn granted(&self, known: u64, k2: u64) -> u64 {
        self.first(self.first(self.from(known), "DS") + k2, "U")
    }
}

/// Arrival, processing, request, processing, grant, k2, block, processing: exact to the nanosecond.
#[test]
fn an_uplink_packet_waits_for_request_and_grant() {
    for (radio, slots, period, offset, k2) in [
        ("", DEFAULT, 10, 4, 4),
        (", k2 = 0, grants = { kind = 'request', period = 20, offset = 9 }", DEFAULT, 20, 9, 0),
        (
            ", numerology = 0, bandwidth_mhz = 20, k2 = 7, duplex = { kind = 'tdd', pattern = 'DDDDDDDSUU' }",
            Slots { numerology: 0, pattern: "DDDDDDDSUU", ..DEFAULT },
            10,
            8,
            7,
        ),
        (
            ", numerology = 3, bandwidth_mhz = 100, processing_delay = '75 us', k2 = 12, grants = { kind = \
             'request', period = 8, offset = 3 }, duplex = { kind = 'tdd', pattern = 'DDSU' }",
            Slots { numerology: 3, pattern: "DDSU", processing: 75_000, ..DEFAULT },
            8,
            3,
            12,
        ),
    ] {
        let outcome = run_of(&scenario(&format!("{SURE}{radio}"), "", SLOW, UP), 60.0, 0, true, true);
        let seen = arrivals(&outcome);
        assert!(seen.len() > 590);
        for (sent, delivered) in seen {
            let request = slots.periodic(sent, period, offset);
            let known = (request + 1) * slots.length() + slots.processing;
            let block = slots.granted(known, k2);
            let expected = (block + 1) * slots.length() + slots.processing;
            assert_eq!(delivered, expected, "{radio}: sent at {sent}");
        }
        let count = |name: &str| value(&outcome.row, &format!("link.air.reverse.{name}"));
        assert_eq!(count("scheduling_requests"), count("blocks"), "{radio}");
    }
}

/// Arrival, processing, the next slot of the grant, processing.
#[test]
fn a_configured_grant_needs_no_request() {
    for (period, offset) in [(5, 4), (20, 9), (1, 0)] {
        let radio =
            format!("{SURE}, grants = {{ kind = 'configured', period = {period}, offset = {offset} }}");
        let outcome = run_of(&scenario(&radio, "", SLOW, UP), 60.0, 0, true, true);
        for (sent, delivered) in arrivals(&outcome) {
            let block = DEFAULT.periodic(sent, period, offset);
            assert_eq!(delivered, (block + 1) * DEFAULT.length() + DEFAULT.processing, "{period}");
        }
        assert_eq!(value(&outcome.row, "link.air.reverse.scheduling_requests"), 0.0);
    }
}

/// What a block leaves is granted after it was read: a packet of 1500 B at MCS 0 takes three blocks of 480 B
/// and a part of a fourth, and all slots of the uplink from the second block on.
#[test]
fn a_block_says_what_still_waits() {
    let radio = format!("{SURE}, uplink = {{ mcs = 0 }}");
    let outcome = run_of(&scenario(&radio, "", SLOW, UP), 60.0, 0, true, true);
    for (sent, delivered) in arrivals(&outcome) {
        let request = DEFAULT.periodic(sent, 10, 4);
        let known = |slot: u64| (slot + 1) * DEFAULT.length() + DEFAULT.processing;
        let first = DEFAULT.granted(known(request), 4);
        let second = DEFAULT.granted(known(first), 4);
        assert_eq!(delivered, known(second + 10), "sent at {sent}");
    }
    let sent = value(&outcome.row, "link.air.reverse.delivered_packets");
    assert_eq!(value(&outcome.row, "link.air.reverse.blocks"), 4.0 * sent);
    assert_eq!(value(&outcome.row, "link.air.reverse.scheduling_requests"), sent);
}

/// A downlink block goes with the next slot of the downlink; one that fails is sent again after its feedback,
/// which comes k1 slots later, and as many symbols as it had have place. With error rate 1/2, the delays are
/// those of one to four transmissions, in geometric shares.
#[test]
fn a_downlink_block_is_sent_again_after_its_feedback() {
    for (k1, special) in [(4, 10), (0, 10), (9, 14)] {
        let slots = Slots { special, ..DEFAULT };
        let radio = format!(
            ", harq = {{ error = '50 %' }}, rlc = 'um', t_reordering = '0 s', k1 = {k1}, duplex = {{ kind = 'tdd', \
             downlink_symbols = {special}, uplink_symbols = 0 }}"
        );
        let outcome = run_of(&scenario(&radio, "", SLOW, CBR), 400.0, 0, true, true);
        let mut transmissions = [0; 4];
        for (sent, delivered) in arrivals(&outcome) {
            let mut block = slots.first(slots.from(sent + slots.processing), "DS");
            let whole = slots.letter(block) == 'D' && special < 14;
            let number = (0..4).find(|_| {
                let is_it = delivered == slots.downlink_end(block) + slots.processing;
                let feedback = slots.first(block + k1, "U");
                let known = (feedback + 1) * slots.length() + slots.processing;
                block = slots.first(slots.from(known), if whole { "D" } else { "DS" });
                is_it
            });
            transmissions[number.unwrap_or_else(|| panic!("k1 = {k1}, {sent}: {delivered}"))] += 1;
        }
        let sent = value(&outcome.row, "f.sent");
        for (number, count) in transmissions.into_iter().enumerate() {
            let share = 1.0 / f64::from(2 << number);
            let error = (share * (1.0 - share) / sent).sqrt();
            assert!((f64::from(count) / sent - share).abs() < 4.0 * error, "{number}: {transmissions:?}");
        }
        let lost = value(&outcome.row, "link.air.forward.air_lost_packets") / sent;
        assert!((lost - 1.0 / 16.0).abs() < 4.0 * (1.0 / 16.0 / sent).sqrt(), "{lost}");
    }
}

/// In the uplink, the base station grants what it could not read, so that a retransmission comes with the
/// grant after the processing; after the last one, RLC's comes 40 ms later.
#[test]
fn an_uplink_block_is_sent_again_with_a_grant() {
    let radio = ", harq = { error = '50 %', transmissions = 2 }, grants = 'configured'";
    let outcome = run_of(&scenario(radio, "", SLOW, UP), 400.0, 0, true, true);
    let mut counts = [0; 4];
    for (sent, delivered) in arrivals(&outcome) {
        let mut block = DEFAULT.first(DEFAULT.from(sent + DEFAULT.processing), "U");
        let number = (0..9).find(|number| {
            let read = (block + 1) * DEFAULT.length() + DEFAULT.processing;
            block = DEFAULT.granted(read + if number % 2 == 1 { 40_000_000 } else { 0 }, 4);
            delivered == read
        });
        // A packet behind one that takes longer than 100 ms waits for it.
        if let Some(count) = number.and_then(|number| counts.get_mut(number)) {
            *count += 1;
        }
    }
    let sent = value(&outcome.row, "f.sent");
    for (number, count) in counts.into_iter().enumerate() {
        let share = 1.0 / f64::from(2 << number);
        assert!((f64::from(count) / sent - share).abs() < 0.035, "{number}: {counts:?} of {sent}");
    }
    assert_eq!(value(&outcome.row, "link.air.reverse.lost_packets"), 0.0);
}

/// Packets delivered in so many seconds by a link that is always busy.
fn busy_for(seconds: f64, radio: &str, app: &str) -> f64 {
    let text = scenario(radio, "", "2 Gbit/s", app);
    let way = if app == UP { "reverse" } else { "forward" };
    let delivered = |until: f64| value(&run(&text, until), &format!("link.air.{way}.delivered_packets"));
    delivered(1.0 + seconds) - delivered(1.0)
}

fn busy(radio: &str, app: &str) -> f64 {
    busy_for(1.0, radio, app)
}

/// A busy link carries the blocks of its slots, and nothing else: bytes by TS 38.214 section 5.1.3.2 for the
/// symbols of each slot. 400 patterns of DDDSU in a second.
#[test]
fn each_direction_has_the_share_of_its_slots() {
    let packets = |bits_of_a_pattern: u64, patterns: u64| (bits_of_a_pattern * patterns) as f64 / 12_000.0;
    let near = |found: f64, expected: f64| assert!((found - expected).abs() <= 1.0, "{found} {expected}");
    // 106 resource blocks, MCS 20, 2 layers, 13 and 9 symbols without control; MCS 16, 14 symbols.
    near(busy(SURE, CBR), packets(3 * 163_976 + 108_552, 400));
    near(busy(SURE, UP), packets(69_672, 400));
    near(busy(&format!("{SURE}, grants = 'configured'"), UP), packets(69_672, 400));
    // Half of the resource blocks are others'.
    near(busy(&format!("{SURE}, uplink = {{ load = '50 %' }}"), UP), packets(34_816, 400));
    // Another pattern: 200 of them.
    let other = format!("{SURE}, duplex = {{ kind = 'tdd', pattern = 'DSUUUUDSUU', downlink_symbols = 10 }}");
    near(busy(&other, CBR), packets(2 * (163_976 + 108_552), 200));
    near(busy(&other, UP), packets(6 * 69_672, 200));
    // Without a pattern, every slot is of both.
    let fdd = format!("{SURE}, duplex = 'fdd'");
    near(busy(&fdd, CBR), packets(163_976, 2_000));
    near(busy(&fdd, UP), packets(69_672, 2_000));
}

/// Retransmissions take slots from first transmissions: of all transmissions, those that do not fail carry
/// data. 1600 slots of the downlink in a second, 400 of the uplink.
#[test]
fn retransmissions_take_their_share() {
    for (harq, share) in [("", 0.9), (", harq = { error = '30 %', transmissions = 28 }", 0.7)] {
        let radio = format!("{harq}, duplex = {{ kind = 'tdd', pattern = 'DDDDU' }}");
        for (app, bits, slots) in [(CBR, 163_976.0, 1_600.0), (UP, 69_672.0, 400.0)] {
            let found = busy_for(4.0, &radio, app) / (4.0 * slots * bits / 12_000.0);
            let error = (share * (1.0 - share) / (4.0 * slots)).sqrt();
            assert!((found - share).abs() < 4.0 * error, "{radio}: {found}");
        }
    }
}

/// With one process, a block waits for the feedback of the one before it: that of slot 6 comes in slot 14, as
/// slot 9 is too early with k1 = 4, and is read in slot 15, so that the next block is that of slot 16.
#[test]
fn processes_limit_what_is_under_way() {
    let found =
        busy(", harq = { error = 0, processes = 1 }, duplex = { kind = 'tdd', uplink_symbols = 0 }", CBR);
    assert!((found - 200.0 * 163_976.0 / 12_000.0).abs() <= 1.0, "{found}");
}

/// The downlink waits for the station to listen; a block keeps it awake.
#[test]
fn a_station_that_sleeps_is_sent_nothing() {
    let ms = 1_000_000;
    let radio = format!("{SURE}, drx = {{ cycle = '64 ms', on = '4 ms', inactivity = '20 ms' }}");
    let outcome = run_of(&scenario(&radio, "", SLOW, CBR), 60.0, 0, true, true);
    let mut waited = 0;
    for (sent, delivered) in arrivals(&outcome) {
        let mut block = DEFAULT.first(DEFAULT.from(sent + DEFAULT.processing), "DS");
        if block * DEFAULT.length() % (64 * ms) >= 4 * ms {
            block = DEFAULT.first(DEFAULT.from((block * DEFAULT.length()).next_multiple_of(64 * ms)), "DS");
            waited += 1;
        }
        assert_eq!(delivered, DEFAULT.downlink_end(block) + DEFAULT.processing, "sent at {sent}");
    }
    assert!(waited > 500, "{waited}");
    // Packets that come every 10 ms find the station awake once it is.
    let row = run(&scenario(&radio, "", "1177600 bit/s", CBR), 10.0);
    assert!(value(&row, "f.p95_delay_ms") < 2.0);
    // So does one that answers, whose uplink does not wait for the cycle.
    let row = run(&scenario(&radio, "", SLOW, UP), 60.0);
    assert!(value(&row, "f.max_delay_ms") < 15.0, "{}", value(&row, "f.max_delay_ms"));
}

/// In the gap of a handover nothing is sent; what waits goes on after it, or is lost.
#[test]
fn a_handover_is_a_gap() {
    let ms = 1_000_000;
    for (app, way) in [(CBR, "forward"), (UP, "reverse")] {
        let radio = format!(
            "{SURE}, grants = {{ kind = 'configured' }}, handovers = {{ at = ['1003 ms'], repeat = '5 s', gap = '60 ms' }}"
        );
        let outcome = run_of(&scenario(&radio, "", "1177600 bit/s", app), 20.0, 0, true, true);
        let seen = arrivals(&outcome);
        assert_eq!(value(&outcome.row, &format!("link.air.{way}.lost_packets")), 0.0);
        let mut held = 0;
        for (sent, delivered) in seen {
            let offset = sent % (5_000 * ms);
            let after = delivered % (5_000 * ms);
            assert!(!(1_004 * ms..1_063 * ms).contains(&after), "{way}: delivered at {delivered}");
            if (1_003 * ms..1_062 * ms).contains(&offset) {
                held += 1;
                // The first slots after the gap: D of the pattern that begins at 1065 ms, U of it.
                let expected = if app == CBR { 1_063 * ms } else { 1_065 * ms };
                assert!(after > expected && after < expected + 5 * ms, "{way}: {after}");
            }
        }
        assert_eq!(held, 4 * 6, "{way}");
    }
    let radio = format!(
        "{SURE}, handovers = {{ at = ['1003 ms'], repeat = '5 s', gap = '60 ms', forwarding = false }}"
    );
    let row = run(&scenario(&radio, "", "1177600 bit/s", CBR), 20.0);
    assert_eq!(value(&row, "link.air.forward.down_packets"), 4.0 * 6.0);
    let row = run(&scenario(&radio, "", "1177600 bit/s", UP), 20.0);
    assert_eq!(value(&row, "link.air.reverse.down_packets"), 0.0);
    // What waits as it begins is lost with what comes during it.
    let row = run(&scenario(&radio, "", "400 Mbit/s", CBR), 1.5);
    let lost = value(&row, "link.air.forward.down_packets");
    let during = 0.060 * 400e6 / 11_776.0;
    assert!((lost - during - 1_500.0).abs() < 60.0, "{lost} {during}");
}

/// Behind a lost packet, others wait for t-Reordering.
#[test]
fn a_lost_packet_holds_up_those_behind_it() {
    let radio = ", rlc = 'um', harq = { error = '20 %', transmissions = 1 }, t_reordering = '35 ms'";
    let outcome = run_of(&scenario(radio, "", "1177600 bit/s", CBR), 20.0, 0, true, true);
    let most = arrivals(&outcome).iter().map(|(sent, delivered)| delivered - sent).max().unwrap();
    assert!((35_000_000..37_000_000).contains(&most), "{most}");
    let lost = value(&outcome.row, "link.air.forward.air_lost_packets");
    assert!((lost / value(&outcome.row, "f.sent") - 0.2).abs() < 0.04, "{lost}");
}

/// Work is in proportion to packets: an idle link has no events, and a busy one has one for each slot in
/// which a block is sent.
#[test]
fn there_is_an_event_only_where_a_block_is_made() {
    let steps = |rate: &str, radio: &str, seconds: f64| {
        let outcome = run_of(&scenario(&format!("{SURE}{radio}"), "", rate, UP), seconds, 0, false, true);
        (outcome.steps, value(&outcome.row, "f.sent"))
    };
    for radio in
        ["", ", drx = {}", ", grants = 'configured'", ", handovers = { at = ['1 s'], repeat = '2 s' }"]
    {
        let (steps, packets) = steps("11776 bit/s", radio, 1_000.0);
        assert_eq!(packets, 1_000.0);
        assert!(steps < 5 * 1_000, "{radio}: {steps}");
    }
    let (idle, _) = steps("1 bit/s", "", 1_000.0);
    assert!(idle < 20, "{idle}");
}

fn any_nr() -> impl Strategy<Value = String> {
    let radio = prop::sample::select(
        &[
            "",
            ", harq = { error = '40 %', processes = 2 }, grants = 'configured'",
            ", harq = { error = { timetable = [['0 s', '5 %'], ['500 ms', '60 %']] }, transmissions = 2 }, rlc = 'um'",
            ", downlink = { mcs = { timetable = [['0 s', 20], ['300 ms', 0]] }, load = '90 %' }, uplink = { load = { timetable = [['0 s', 0], ['700 ms', 0.95]] } }",
            ", numerology = 3, bandwidth_mhz = 50, processing_delay = '1 ms', k1 = 0, k2 = 0, duplex = { kind = 'tdd', pattern = 'DU' }",
            ", numerology = 0, bandwidth_mhz = 5, duplex = 'fdd', drx = { cycle = '80 ms', inactivity = '10 ms' }",
            ", handovers = { at = ['200 ms', '600 ms'], repeat = '900 ms', forwarding = false }, drx = {}, rlc = 'um'",
        ][..],
    );
    let rate = prop::sample::select(&["300 kbit/s", "3 Mbit/s", "60 Mbit/s"][..]);
    (radio, any_bearer_settings(), rate, any::<bool>()).prop_map(|(radio, settings, rate, up)| {
        let app = if up { UP } else { CBR };
        let text = scenario(radio, settings, rate, app);
        let back = text.split_once("[flows.f]").unwrap().1.replace(UP, CBR).replace("'f'", "'g'");
        format!("{text}[flows.g]{back}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// The same seed gives the same bits, traced or not, fused or not; every packet has one fate, and packets
    /// stay in order.
    #[test]
    fn packets_are_conserved_and_runs_repeat_themselves(text in any_nr()) {
        conserves_and_repeats(&text, 1.2)?;
    }
}

/// A key below the radio's, what is given for it, and the sentence about it.
const MISTAKES: [(&str, &str, &str); 31] = [
    ("numerology", "4", "links.air.radio.numerology is 4, allowed is 0 to 3"),
    (
        "bandwidth_mhz",
        "42",
        "links.air.radio.bandwidth_mhz is 42, allowed with numerology 1 is one of 5, 10, 15, 20, 25, 30, 35, 40, \
             45, 50, 60, 70, 80, 90, 100",
    ),
    (
        "duplex",
        "{ kind = 'tdd', pattern = 'DDDD' }",
        "links.air.radio.duplex.pattern is \"DDDD\", which has no slot with 4 symbols or more for data of the uplink",
    ),
    (
        "duplex",
        "{ kind = 'tdd', pattern = 'UU' }",
        "links.air.radio.duplex.pattern is \"UU\", which has no slot with 3 symbols or more for data of the downlink",
    ),
    (
        "duplex",
        "{ kind = 'tdd', pattern = 'DDFU' }",
        "links.air.radio.duplex.pattern is \"DDFU\", allowed are the letters D, S and U, not F",
    ),
    (
        "duplex",
        "{ kind = 'tdd', pattern = '' }",
        "links.air.radio.duplex.pattern is \"\" of 0 slots, allowed are numbers that divide 40, which take 20 ms",
    ),
    (
        "duplex",
        "{ kind = 'tdd', pattern = 'DDDDDSU' }",
        "links.air.radio.duplex.pattern is \"DDDDDSU\" of 7 slots, allowed are numbers that divide 40",
    ),
    (
        "duplex",
        "{ kind = 'tdd', uplink_symbols = 5 }",
        "links.air.radio.duplex.uplink_symbols is 5, allowed is at most 4 beside 10 of the downlink",
    ),
    (
        "duplex",
        "{ kind = 'tdd', downlink_symbols = 15 }",
        "links.air.radio.duplex.downlink_symbols is 15, allowed is 0 to 14",
    ),
    ("control_symbols", "4", "links.air.radio.control_symbols is 4, allowed is 0 to 3"),
    ("k1", "16", "links.air.radio.k1 is 16, allowed is 0 to 15"),
    ("k2", "33", "links.air.radio.k2 is 33, allowed is 0 to 32"),
    (
        "processing_delay",
        "11 ms",
        "links.air.radio.processing_delay is \"11 ms\", allowed is at most \"10 ms\"",
    ),
    (
        "grants",
        "{ kind = 'request', period = 3 }",
        "links.air.radio.grants.period is 3, allowed is one of 1, 2, 4, 5, 8, 10, 16, 20, 40, 80, 160, 320, 640 slots",
    ),
    (
        "grants",
        "{ kind = 'configured', period = 0 }",
        "links.air.radio.grants.period is 0, allowed is 1 to 640 slots",
    ),
    (
        "grants",
        "{ kind = 'request', offset = 10 }",
        "links.air.radio.grants.offset is 10, allowed is less than the period's 10 slots",
    ),
    (
        "grants",
        "{ kind = 'configured', offset = 3 }",
        "links.air.radio.grants.period is 5, whose slots 3, 8, ... meet no slot of the uplink; allowed are an offset \
             and a period that do",
    ),
    ("downlink", "{ mcs = 28 }", "links.air.radio.downlink.mcs is 28, allowed is 0 to 27"),
    ("uplink", "{ layers = 5 }", "links.air.radio.uplink.layers is 5, allowed is 1 to 4"),
    ("downlink", "{ load = 1 }", "links.air.radio.downlink.load is 1, allowed is 0 to 0.99"),
    ("downlink", "{ load = 1.5 }", "links.air.radio.downlink.load: `1.5` is not a probability"),
    ("downlink", "{ load = -0.1 }", "links.air.radio.downlink.load: `-0.1` is not a probability"),
    ("harq", "{ error = 1 }", "links.air.radio.harq.error is 1, allowed is 0 to 0.99"),
    ("harq", "{ transmissions = 0 }", "links.air.radio.harq.transmissions is 0, allowed is 1 to 28"),
    ("harq", "{ processes = 33 }", "links.air.radio.harq.processes is 33, allowed is 1 to 32"),
    (
        "drx",
        "{ on = '200 ms' }",
        "links.air.radio.drx.on is \"200 ms\", allowed is at least \"1 ms\" and less than the cycle's \"160 ms\"",
    ),
    (
        "",
        "{ kind = 'nr', drx = { cycle = '20 ms', offset = '3 ms', on = '1 ms' }, numerology = 0, bandwidth_mhz = 40, \
             duplex = { kind = 'tdd', pattern = 'DDUUU' } }",
        "links.air.radio.drx is one with which the station never listens when a slot of the downlink begins; allowed \
             is another `offset` or a longer `on`",
    ),
    ("handovers", "{ gap = '0 s' }", "links.air.radio.handovers.gap is \"0 s\", allowed is 1 ms to 10 s"),
    (
        "handovers",
        "{ at = ['0 s'], repeat = '50.4 ms', gap = '50 ms' }",
        "links.air.radio.handovers has gaps that leave a direction no slot; allowed is a shorter `gap` or a longer \
             `repeat`",
    ),
    (
        "handovers",
        "{ at = ['1.5 ms'], repeat = '5 ms', gap = '3 ms' }",
        "links.air.radio.grants has slots that all fall into gaps of `handovers`; allowed is another period or",
    ),
    ("rlc", "tm", "links.air.radio.rlc"),
];

/// The slot of a grant and that of the uplink may meet seldom: here in every 25,560th slot.
#[test]
fn slots_that_meet_seldom_are_found() {
    let radio = format!(
        "{SURE}, grants = {{ kind = 'configured', period = 639 }}, duplex = {{ kind = 'tdd', pattern = '{}U' }}",
        "D".repeat(39)
    );
    let app = format!("{UP}, start = '100 ms', duration = '1 s'");
    let outcome = run_of(&scenario(&radio, "", SLOW, &app), 14.0, 0, true, true);
    let arrivals = arrivals(&outcome);
    assert_eq!(arrivals.len(), 10);
    // Then blocks tell of what still waits.
    assert_eq!(arrivals[0].1, (39 + 25_560 + 1) * 500_000 + 200_000);
}

#[test]
fn mistakes_are_named_in_one_sentence() {
    let base = scenario("", "", SLOW, CBR);
    for (key, found, sentence) in MISTAKES {
        let key = format!("links.air.radio.{key}");
        let key = key.trim_end_matches('.');
        let error = study(&base, &[(key, found)]).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(sentence), "{key} = {found}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let error = study(&scenario(", downlink = { load = nan }", "", SLOW, CBR), &[]).unwrap_err().to_string();
    assert!(
        error.ends_with("links.air.radio.downlink.load: `NaN` is not a number; use a finite one"),
        "{error}"
    );
}
