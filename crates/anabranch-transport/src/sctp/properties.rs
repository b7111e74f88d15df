//! Properties of two associations over any network, whatever is lost, reordered or duplicated, whatever
//! paths die and become primary: timers make progress and counters match a recount
//! (both checked after every input by the harness), reliable messages arrive exactly once and in order,
//! partially reliable ones at most once, and each is delivered or reported as given up.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::config::{Buffer, MissingReportsPer, RtoBackoff, RtoRule, RttSampling, SackPath};
use super::testing::{Pair, Wire, ms};
use super::{Association, Config, Profile, load_sharing, stream_scheduler};
use crate::endpoint::{CloseReason, Command, Event, Message, Multipath as _, Reliability};
use crate::flow::{Ecn, IpVersion, PathId, Payload, Side};
use crate::path::{self, failover, scheduler, throughput_checkpoint};
use crate::time::Duration;
use crate::units::{Bytes, Limit};
use crate::wire::sctp::SctpPacket;
use crate::wire::sctp::chunk::{Chunk, Data, GapBlock, Sack};
use crate::wire::{Body, Packet};

#[derive(Clone, Debug)]
struct Network {
    seed: u64,
    loss: f64,
    duplication: f64,
    jitter_ms: u64,
    delays_ms: Vec<u64>,
    /// Path, when it dies and when it returns, in ms.
    outages: Vec<(usize, u64, u64)>,
    /// The end whose address comes and goes with the path: A, or B on every other path.
    mobile: Option<Mobile>,
}

#[derive(Clone, Copy, Debug)]
enum Mobile {
    Both,
    OnlyA,
}

impl Mobile {
    fn side(self, path: usize) -> Side {
        if matches!(self, Self::Both) && path % 2 == 1 { Side::B } else { Side::A }
    }
}

fn network() -> impl Strategy<Value = Network> {
    (
        any::<u64>(),
        prop_oneof![Just(0.0), 0.0..0.3],
        prop_oneof![Just(0.0), 0.0..0.3],
        prop_oneof![Just(0), 0..80_u64],
        proptest::collection::vec(1..100_u64, 1..4),
        proptest::collection::vec((0..3_usize, 600..6_000_u64, 1..8_000_u64), 0..4),
        proptest::sample::select(vec![None, Some(Mobile::Both), Some(Mobile::OnlyA)]),
    )
        .prop_map(|(seed, loss, duplication, jitter_ms, delays_ms, outages, mobile)| Network {
            seed,
            mobile,
            loss,
            duplication,
            jitter_ms,
            outages: outages
                .into_iter()
                .map(|(path, from, length)| (path % delays_ms.len(), from, from + length))
                .collect(),
            delays_ms,
        })
}

/// The details of the endpoint that are settings of their own.
fn with_details(config: impl Strategy<Value = Config>) -> impl Strategy<Value = Config> {
    (
        config,
        prop_oneof![Just(MissingReportsPer::Association), Just(MissingReportsPer::Path)],
        prop_oneof![Just(RttSampling::RoundTrip), Just(RttSampling::Sack)],
        prop_oneof![Just(RtoRule::LinuxTcp), Just(RtoRule::PeakHopper), Just(RtoRule::Rfc)],
        prop_oneof![Just(RtoBackoff::Exponential), Just(RtoBackoff::None)],
    )
        .prop_map(|(config, missing_reports_per, rtt_sampling, rto_rule, rto_backoff)| Config {
            missing_reports_per: Some(missing_reports_per),
            rtt_sampling: Some(rtt_sampling),
            rto_rule: Some(rto_rule),
            rto_backoff: Some(rto_backoff),
            ..config
        })
}

/// NR-SACKs or not, and whether what waits to be delivered is final, too.
fn with_nr_sacks(mut config: Config, [nr_sack, only_delivered_is_final]: [bool; 2]) -> Config {
    config.nr_sack = Some(nr_sack);
    let procedures = config.procedures.get_or_insert_default();
    procedures.only_delivered_is_final = Some(only_delivered_is_final);
    config
}

fn any_config() -> impl Strategy<Value = Config> {
    with_details(base_config())
}

/// Every policy as it is, the standard's one in all its forms, and one that often hands over.
fn any_policy() -> impl Strategy<Value = path::Config> {
    use failover::RetransmitOn;
    let hop = Some(failover::Dormant::Hop);
    let stay = Some(failover::Dormant::Stay);
    let silent = Some(failover::Dormant::Silent);
    let standard = (
        proptest::sample::select(vec![None, hop, stay, silent]),
        proptest::sample::select(vec![
            RetransmitOn::Alternate,
            RetransmitOn::AlternateAfterTimeout,
            RetransmitOn::Current,
            RetransmitOn::LargestCwnd,
            RetransmitOn::LargestSsthresh,
            RetransmitOn::RoundRobin,
            RetransmitOn::Same,
            RetransmitOn::SmallestLossRate,
            RetransmitOn::SmallestRtt,
        ]),
    );
    prop_oneof![
        proptest::sample::select(path::Config::all()),
        standard.prop_map(|(dormant, retransmit_on)| {
            let retransmit_on = Some(retransmit_on);
            path::Config::Failover(failover::Config { dormant, retransmit_on, ..Default::default() })
        }),
        Just(path::Config::ThroughputCheckpoint(throughput_checkpoint::Config {
            hold: ms(50),
            retry: ms(100),
            min_probe_packets: 1,
            ..Default::default()
        })),
    ]
}

fn base_config() -> impl Strategy<Value = Config> {
    (
        prop_oneof![
            Just(Profile::FreeBsd10),
            Just(Profile::Linux),
            Just(Profile::Ns2),
            Just(Profile::Rfc2960),
            Just(Profile::Rfc4960),
            Just(Profile::Rfc9260)
        ],
        1..3_u32,
        prop_oneof![Just(None), (0..2_u32).prop_map(|max| Some(Limit::At(max)))],
        20..1_000_u64,
        any_policy(),
        prop_oneof![Just(SackPath::Source), Just(SackPath::Current)],
        prop_oneof![Just(100_000_u64), 3_000..20_000_u64],
        any::<bool>(),
    )
        .prop_map(|(profile, pmr, pf, rto_max, policy, sack_path, receive_buffer, nagle)| Config {
            profile,
            path_max_retrans: Some(pmr),
            pf_max_retrans: pf,
            rto_min: Some(ms(20)),
            rto_max: Some(ms(rto_max)),
            hb_interval: Some(ms(200)),
            association_max_retrans: Some(Limit::Off),
            max_init_retransmits: Some(1_000),
            send_buffer: Some(Buffer::Off),
            receive_buffer: Some(Bytes(receive_buffer)),
            policy: Some(policy),
            sack_path: Some(sack_path),
            nagle: Some(nagle),
            ..Config::default()
        })
}

fn stream_scheduler() -> impl Strategy<Value = stream_scheduler::Config> {
    prop_oneof![
        Just(stream_scheduler::Config::FairCapacity {}),
        Just(stream_scheduler::Config::Fcfs {}),
        Just(stream_scheduler::Config::Priority { priorities: vec![2, 1] }),
        Just(stream_scheduler::Config::RoundRobin {}),
        Just(stream_scheduler::Config::RoundRobinPacket {}),
        Just(stream_scheduler::Config::WeightedFairQueueing { weights: vec![1, 4, 2] }),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Talk {
    from: Side,
    stream: u16,
    unordered: bool,
    reliability: Reliability,
    length: u32,
    pause_ms: u64,
    /// The path that becomes primary first, if there is one with this number.
    primary: Option<u8>,
}

fn reliability() -> impl Strategy<Value = Reliability> {
    prop_oneof![
        Just(Reliability::Reliable),
        (0..3_u32).prop_map(Reliability::LimitedRetransmissions),
        (1..400_u64).prop_map(|life| Reliability::Timed(ms(life))),
        (0..5_u32).prop_map(Reliability::Priority),
    ]
}

fn talk(how: impl Strategy<Value = Reliability>) -> impl Strategy<Value = Talk> {
    (
        any::<bool>(),
        0..3_u16,
        any::<bool>(),
        how,
        prop_oneof![1..200_u32, 1..2_900_u32],
        prop_oneof![Just(0), 0..100_u64],
        prop_oneof![9 => Just(None), 1 => (0..3_u8).prop_map(Some)],
    )
        .prop_map(|(from_a, stream, unordered, reliability, length, pause_ms, primary)| Talk {
            from: if from_a { Side::A } else { Side::B },
            stream,
            unordered,
            reliability,
            length,
            pause_ms,
            primary,
        })
}

/// A message that may be larger than a receive buffer.
fn large_talk() -> impl Strategy<Value = Talk> {
    let how = prop_oneof![Just(Reliability::Reliable), reliability()];
    (talk(how), prop_oneof![1..2_900_u32, 1..30_000_u32]).prop_map(|(talk, length)| Talk { length, ..talk })
}

/// Adds messages at the end, over a good network. Profile ns2 sends only on a message or a SACK, so data that
/// is stuck needs another message to leave.
fn with_farewell(mut talks: Vec<Talk>) -> Vec<Talk> {
    for _ in 0..FAREWELLS / 2 {
        for from in [Side::A, Side::B] {
            talks.push(Talk {
                from,
                stream: 0,
                unordered: true,
                reliability: Reliability::Reliable,
                length: 10,
                pause_ms: 500,
                primary: None,
            });
        }
    }
    talks
}

const FAREWELLS: usize = 20;

/// Lets the two ends talk over the network, then over a good one until nothing happens any more.
fn run(config: &Config, network: &Network, talks: &[Talk]) -> Pair {
    converse(Pair::seeded(config, network.delays_ms.len(), network.seed), network, talks)
}

fn converse(mut pair: Pair, network: &Network, talks: &[Talk]) -> Pair {
    for (wires, &delay) in pair.wires.iter_mut().zip(&network.delays_ms) {
        let wire = Wire { delay: ms(delay), ..Wire::default() };
        *wires = [wire; 2];
    }
    if network.mobile.is_some() {
        for end in &mut pair.ends {
            end.enable_reconfiguration(&[]).expect("no path is absent");
        }
    }
    pair.connect();
    for wire in pair.wires.iter_mut().flatten() {
        wire.jitter = ms(network.jitter_ms);
        wire.loss = network.loss;
        wire.duplication = network.duplication;
    }
    let mut offset = 0;
    for (index, talk) in talks.iter().enumerate() {
        if index + FAREWELLS == talks.len() {
            pair.run_for(ms(2_000));
            for wires in &mut pair.wires {
                let delay = wires[0].delay;
                *wires = [Wire { delay, jitter: Duration::ZERO, ..Wire::default() }; 2];
            }
            for path in 0..network.delays_ms.len() {
                if let Some(mobile) = network.mobile {
                    pair.command(mobile.side(path), Command::AddAddress(PathId(path as u8)));
                }
            }
        }
        let payload = Payload { offset, length: talk.length };
        offset += u64::from(talk.length);
        let message = Message {
            stream: talk.stream.into(),
            unordered: talk.unordered,
            reliability: talk.reliability,
            ..Message::new(payload)
        };
        if let Some(path) = talk.primary {
            pair.command(talk.from, Command::SetPrimary(PathId(path)));
        }
        pair.command(talk.from, Command::Send(message));
        for _ in 0..talk.pause_ms {
            pair.run_for(ms(1));
            let now_ms = pair.now.as_nanos() / 1_000_000;
            for &(path, from, to) in &network.outages {
                if index + FAREWELLS < talks.len() && (now_ms == from || now_ms == to) {
                    pair.set_up(path, now_ms == to);
                    if let Some(mobile) = network.mobile {
                        let (side, path) = (mobile.side(path), PathId(path as u8));
                        let changes = [Command::DeleteAddress(path), Command::AddAddress(path)];
                        pair.command(side, changes[usize::from(now_ms == to)]);
                    }
                }
            }
        }
    }
    pair.run_for(ms(60_000));
    pair
}

fn check(pair: &Pair, talks: &[Talk]) -> Result<(), TestCaseError> {
    let mut offset = 0;
    let sent: Vec<(Talk, Payload)> = talks
        .iter()
        .map(|&talk| {
            let payload = Payload { offset, length: talk.length };
            offset += u64::from(talk.length);
            (talk, payload)
        })
        .collect();
    for from in [Side::A, Side::B] {
        let received = pair.received(from.peer());
        let unique: BTreeSet<Payload> = received.iter().copied().collect();
        prop_assert_eq!(unique.len(), received.len(), "a message was delivered twice");
        let abandoned = pair.abandoned(from);
        let unique_abandoned: BTreeSet<Payload> = abandoned.iter().copied().collect();
        prop_assert_eq!(unique_abandoned.len(), abandoned.len(), "a message was given up twice");
        let own: Vec<_> = sent.iter().filter(|(talk, _)| talk.from == from).collect();
        for (talk, payload) in &own {
            let delivered = unique.contains(payload);
            if talk.reliability == Reliability::Reliable {
                prop_assert!(delivered, "{payload:?} of {from:?} is missing");
                prop_assert!(!unique_abandoned.contains(payload), "{payload:?} was given up");
            } else {
                prop_assert!(
                    delivered || unique_abandoned.contains(payload),
                    "{payload:?} of {from:?} is neither here nor given up"
                );
            }
        }
        prop_assert!(unique.iter().all(|payload| own.iter().any(|(_, other)| other == payload)));
        for stream in 0..3 {
            let ordered: Vec<Payload> = own
                .iter()
                .filter(|(talk, payload)| {
                    talk.stream == stream && !talk.unordered && unique.contains(payload)
                })
                .map(|(_, payload)| *payload)
                .collect();
            let heard: Vec<Payload> =
                received.iter().copied().filter(|payload| ordered.contains(payload)).collect();
            prop_assert_eq!(ordered, heard, "stream {} of {:?} is out of order", stream, from);
        }
        prop_assert!(!pair.events[from.index()].iter().any(|(_, event)| matches!(event, Event::Refused(_))));
        prop_assert_eq!(pair.ends[from.index()].sender.buffered(), 0, "something is left in the send buffer");
        prop_assert_eq!(pair.ends[from.index()].waiting_bytes(), 0, "something is left at the receiver");
    }
    Ok(())
}

/// Without a limit, or one that messages meet.
fn send_buffer() -> impl Strategy<Value = Option<Buffer>> {
    prop_oneof![Just(Some(Buffer::Off)), (3_000..20_000_u64).prop_map(|size| Some(Buffer::At(Bytes(size))))]
}

/// The properties below compare something: every message of a transfer over a good network is answered at
/// once where SACKs are not delayed.
#[test]
fn the_messages_of_a_transfer_take_the_short_way() {
    let config = Config { profile: Profile::Rfc9260, sack_delay: Some(Duration::ZERO), ..Config::default() };
    let mut pair = Pair::open(&config, 1);
    pair.takes_short_way = true;
    for _ in 0..50 {
        pair.send(Side::A, 1_000, Reliability::Reliable, true);
        pair.run_for(ms(200));
    }
    assert!(pair.answered >= 50, "{}", pair.answered);
}

/// A packet that is answered at once, or nearly so.
#[expect(clippy::struct_excessive_bools, reason = "each says something else of the packet")]
#[derive(Clone, Debug)]
struct Strange {
    /// Whether it holds a SACK; otherwise it holds DATA.
    is_sack: bool,
    /// Its TSN less the one that is expected.
    ahead: i32,
    window: u32,
    /// Ends of gap blocks that each begin two TSNs after the one before.
    gaps: Vec<u16>,
    duplicates: Vec<u32>,
    stream: u16,
    is_whole: bool,
    is_immediate: bool,
    is_for_another: bool,
    has_more: bool,
}

fn strange() -> impl Strategy<Value = Strange> {
    let seldom = || prop::bool::weighted(0.1);
    (
        any::<bool>(),
        prop_oneof![4 => Just(0), 4 => 0..6_i32, 1 => -3..200_i32],
        prop_oneof![8 => Just(100_000_u32), 1 => Just(0), 1 => 1..3_000_u32],
        prop_oneof![8 => Just(Vec::new()), 1 => proptest::collection::vec(0..3_u16, 1..6)],
        prop_oneof![8 => Just(Vec::new()), 1 => proptest::collection::vec(any::<u32>(), 1..4)],
        prop_oneof![9 => 0..2_u16, 1 => any::<u16>()],
        prop::bool::weighted(0.7),
        (seldom(), seldom(), seldom()),
    )
        .prop_map(|(is_sack, ahead, window, gaps, duplicates, stream, is_whole, flags)| {
            let (is_immediate, is_for_another, has_more) = flags;
            Strange {
                is_sack,
                ahead,
                window,
                gaps,
                duplicates,
                stream,
                is_whole,
                is_immediate,
                is_for_another,
                has_more,
            }
        })
}

impl Strange {
    fn for_end(&self, end: &Association) -> Packet {
        let mut start = 0;
        let gap_blocks = self.gaps.iter().map(|length| {
            start += 2;
            let block = GapBlock { start, end: start + length };
            start = block.end;
            block
        });
        let sack = Sack {
            cumulative_tsn: end.sender.outstanding.cumulative_tsn().wrapping_add_signed(self.ahead),
            a_rwnd: self.window,
            gap_blocks: gap_blocks.collect(),
            duplicates: self.duplicates.clone().into(),
        };
        let data = Data {
            tsn: (end.cumulative_received() as u32).wrapping_add(1).wrapping_add_signed(self.ahead),
            stream: self.stream,
            ssn: 0,
            ppid: 0,
            unordered: self.is_whole,
            beginning: self.is_whole || self.ahead > 2,
            ending: self.is_whole,
            immediate: self.is_immediate,
            payload: Payload { offset: 0, length: self.window.clamp(1, 1_000) },
        };
        let first = if self.is_sack { Chunk::Sack(1, sack) } else { Chunk::Data(data) };
        let rest = if self.has_more { vec![first.clone()] } else { Vec::new() };
        let [destination_port, source_port] = end.local.ports;
        let verification_tag = end.local.numbers.tag ^ u32::from(self.is_for_another);
        let sctp = SctpPacket { source_port, destination_port, verification_tag, first, rest };
        let size = IpVersion::Ipv4.header_bytes() + sctp.wire_size();
        Packet { path: PathId(0), ecn: Ecn::NotEct, size, body: Body::Sctp(sctp) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reliable_messages_arrive_once_and_in_order(
        config in any_config(),
        network in network(),
        talks in proptest::collection::vec(talk(Just(Reliability::Reliable)), 1..120),
    ) {
        let talks = with_farewell(talks);
        let pair = run(&config, &network, &talks);
        check(&pair, &talks)?;
    }

    #[test]
    fn partially_reliable_messages_arrive_or_are_given_up(
        config in any_config(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..120),
    ) {
        let talks = with_farewell(talks);
        let pair = run(&config, &network, &talks);
        check(&pair, &talks)?;
    }

    #[test]
    fn streams_in_any_order_lose_nothing(
        config in any_config(),
        scheduler in stream_scheduler(),
        interleaving in any::<bool>(),
        nr_sack in any::<[bool; 2]>(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..120),
    ) {
        let (stream_scheduler, interleaving) = (Some(scheduler), Some(interleaving));
        let config = with_nr_sacks(Config { stream_scheduler, interleaving, ..config }, nr_sack);
        let talks = with_farewell(talks);
        let pair = run(&config, &network, &talks);
        check(&pair, &talks)?;
    }

    #[test]
    fn messages_of_any_size_pass_buffers_of_any_size(
        config in any_config(),
        sharing in prop_oneof![3 => Just(None), 1 => load_sharing().prop_map(Some)],
        receive_buffer in 1_500..20_000_u64,
        scheduler in stream_scheduler(),
        interleaving in any::<bool>(),
        nr_sack in any::<[bool; 2]>(),
        network in network(),
        talks in proptest::collection::vec(large_talk(), 1..24),
    ) {
        let config = Config {
            stream_scheduler: Some(scheduler),
            interleaving: Some(interleaving),
            receive_buffer: Some(Bytes(receive_buffer)),
            ..with_nr_sacks(config, nr_sack)
        };
        let config = sharing.map_or(config.clone(), |sharing| with_load_sharing(config, sharing));
        let talks = with_farewell(talks);
        let mut pair = run(&config, &network, &talks);
        // A window of one packet carries one in a round trip, or in the time of a delayed SACK.
        for _ in 0..100 {
            if pair.ends.iter().any(|end| end.sender.buffered() > 0) {
                pair.run_for(ms(10_000));
            }
        }
        check(&pair, &talks)?;
    }

    #[test]
    fn equal_inputs_give_equal_outputs(
        config in any_config(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..30),
    ) {
        let talks = with_farewell(talks);
        let log = |pair: &Pair| format!("{:?}", pair.log);
        prop_assert_eq!(log(&run(&config, &network, &talks)), log(&run(&config, &network, &talks)));
    }

    #[test]
    fn an_answered_packet_changes_the_state_as_the_long_way_does(
        config in any_config(),
        acknowledges_at_once in any::<bool>(),
        delays in proptest::collection::vec(1..100_u64, 1..3),
        lengths in proptest::collection::vec(1..6_000_u32, 1..40),
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        steps in proptest::collection::vec((0..60_u64, strange()), 1..30),
    ) {
        let sack_delay = if acknowledges_at_once { Some(Duration::ZERO) } else { config.sack_delay };
        let config = Config { sack_delay, ..config };
        let run = |takes_short_way| {
            let mut pair = Pair::open(&config, delays.len());
            pair.takes_short_way = takes_short_way;
            for (wires, delay) in pair.wires.iter_mut().zip(&delays) {
                *wires = [Wire { delay: ms(*delay), loss, ..Wire::default() }; 2];
            }
            for length in &lengths {
                pair.send_reliable(1, *length);
            }
            let mut states = Vec::new();
            for (millis, strange) in &steps {
                pair.run_for(ms(*millis));
                for side in [Side::A, Side::B] {
                    let packet = Box::new(strange.for_end(&pair.ends[side.index()]));
                    pair.input(side, crate::endpoint::Input::Packet(packet));
                    pair.ends[side.index()].forget_last_packet();
                    states.push(format!("{:?}", pair.ends[side.index()]));
                }
            }
            (states, format!("{:?} {:?}", pair.log, pair.events))
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn the_short_way_of_an_answer_does_what_the_long_one_does(
        config in any_config(),
        acknowledges_at_once in any::<bool>(),
        send_buffer in send_buffer(),
        nr_sack in any::<[bool; 2]>(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..60),
    ) {
        let sack_delay = if acknowledges_at_once { Some(Duration::ZERO) } else { config.sack_delay };
        let config = with_nr_sacks(Config { sack_delay, send_buffer, ..config }, nr_sack);
        let talks = with_farewell(talks);
        let run = |takes_short_way| {
            let mut pair = Pair::seeded(&config, network.delays_ms.len(), network.seed);
            pair.takes_short_way = takes_short_way;
            let mut pair = converse(pair, &network, &talks);
            // What is left of the last packet says nothing of the state.
            pair.ends.iter_mut().for_each(Association::forget_last_packet);
            (format!("{:?}", pair.ends), format!("{:?} {:?}", pair.log, pair.events))
        };
        prop_assert_eq!(run(true), run(false));
    }

    #[test]
    fn an_early_timeout_does_nothing(
        config in any_config(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..30),
    ) {
        let talks = with_farewell(talks);
        let mut pair = run(&config, &network, &talks);
        let quiet = |pair: &Pair| pair.ends.iter().map(|end| format!("{end:?}")).collect::<Vec<_>>();
        for side in [Side::A, Side::B] {
            // Brings `last_now` to the present, so that only real changes show.
            pair.input(side, crate::endpoint::Input::Timeout);
        }
        let (before, sent) = (quiet(&pair), pair.log.len());
        for side in [Side::A, Side::B] {
            pair.input(side, crate::endpoint::Input::Timeout);
        }
        prop_assert_eq!(pair.log.len(), sent);
        prop_assert_eq!(before, quiet(&pair));
    }
}

fn load_sharing() -> impl Strategy<Value = load_sharing::Config> {
    use crate::cc::coupled;
    use load_sharing::{CwndUpdate, Sides, SplitBy};

    let sides =
        || prop_oneof![Just(Sides::Both), Just(Sides::Off), Just(Sides::Receiver), Just(Sides::Sender)];
    (
        prop_oneof![
            Just(scheduler::Config::BackupOnly),
            Just(scheduler::Config::Blest),
            Just(scheduler::Config::Ecf),
            Just(scheduler::Config::MinRtt),
            Just(scheduler::Config::Redundant),
            Just(scheduler::Config::Priority),
            Just(scheduler::Config::RoundRobin),
            Just(scheduler::Config::Weighted(vec![3])),
        ],
        proptest::sample::select(coupled::Config::all()),
        prop_oneof![
            Just(CwndUpdate::Cumulative),
            Just(CwndUpdate::PseudoCumulative),
            Just(CwndUpdate::PseudoCumulativeV2)
        ],
        any::<bool>(),
        any::<bool>(),
        sides(),
        prop_oneof![Just(SplitBy::Buffered), Just(SplitBy::Outstanding)],
        sides(),
    )
        .prop_map(
            |(
                scheduler,
                coupling,
                cwnd_update,
                delayed_ack,
                nr_sack,
                buffer_splitting,
                split_by,
                chunk_rescheduling,
            )| {
                load_sharing::Config {
                    scheduler,
                    coupling,
                    cwnd_update,
                    delayed_ack,
                    nr_sack,
                    buffer_splitting,
                    split_by,
                    chunk_rescheduling,
                }
            },
        )
}

/// Load sharing, with a policy that goes with it.
fn with_load_sharing(config: Config, sharing: load_sharing::Config) -> Config {
    let policy = config.policy.filter(|policy| !matches!(policy, path::Config::ThroughputCheckpoint(_)));
    Config { load_sharing: Some(sharing), policy, ..config }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn load_sharing_keeps_every_promise(
        config in any_config(),
        sharing in load_sharing(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..120),
    ) {
        let config = with_load_sharing(config, sharing);
        let talks = with_farewell(talks);
        let pair = run(&config, &network, &talks);
        check(&pair, &talks)?;
    }

    #[test]
    fn all_of_it_together_ends_in_order(
        config in any_config(),
        sharing in proptest::option::of(load_sharing()),
        scheduler in stream_scheduler(),
        interleaving in any::<bool>(),
        nr_sack in any::<[bool; 2]>(),
        network in network(),
        talks in proptest::collection::vec(talk(reliability()), 1..80),
        closer in prop_oneof![Just(vec![Side::A]), Just(vec![Side::B]), Just(vec![Side::A, Side::B])],
    ) {
        let (stream_scheduler, interleaving) = (Some(scheduler), Some(interleaving));
        // T5-shutdown-guard is five times RTO.Max: the round trips of the procedure have to fit.
        let rto_max = Some(ms(1_000));
        let config = Config { rto_max, stream_scheduler, interleaving, ..config };
        let config = with_nr_sacks(config, nr_sack);
        let config = sharing.map_or(config.clone(), |sharing| with_load_sharing(config, sharing));
        let talks = with_farewell(talks);
        let mut pair = run(&config, &network, &talks);
        check(&pair, &talks)?;
        for side in closer {
            pair.command(side, Command::Shutdown);
        }
        pair.run_for(ms(10_000));
        let closed: Vec<Vec<Event>> = pair
            .events
            .iter()
            .map(|events| events.iter().map(|(_, event)| *event))
            .map(|events| events.filter(|event| matches!(event, Event::Closed(_))).collect())
            .collect();
        prop_assert!(closed.iter().all(|closed| closed.len() == 1), "{closed:?}");
        // A heartbeat over another path that finds the peer gone before its SHUTDOWN COMPLETE is here is
        // answered by ABORT (RFC 9260 section 8.4).
        let in_order = vec![Event::Closed(CloseReason::Shutdown)];
        prop_assert!(closed.contains(&in_order), "{closed:?}");
    }
}
