//! Calls and loads, driven by a fake clock over a fake network.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anabranch::app::datagrams::DatagramsConfig;
use anabranch::app::voip::{BurstRatio, DelayBasis, Measures, TalkSpurtsConfig, Voip, VoipConfig};
use anabranch::app::{AnyApp, App, AppConfig, Commands, Direction, Start};
use anabranch_transport::endpoint::{
    CloseReason, Command, Endpoint, Event, Input, Output, Received, Service,
};
use anabranch_transport::flow::{IpVersion, Payload, Side};
use anabranch_transport::quality::{Codec, EModel, JitterBuffer, Playout};
use anabranch_transport::report::Row;
use anabranch_transport::rng::Streams;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::udp::{self, UdpEndpoint};
use anabranch_transport::wire::Packet;

const STREAMS: Streams = Streams { seed: 7, replication: 0 };

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A call of 100 frames that starts at one second.
fn config() -> VoipConfig {
    VoipConfig {
        start: Start::At(Duration::from_secs(1)),
        duration: Duration::from_secs(2),
        ..VoipConfig::default()
    }
}

const fn received(payload: Payload) -> Event {
    Event::Received(Received::unordered(payload))
}

/// Runs a call without endpoints: what a side sends arrives `delay(side, index)` later, or never.
/// Returns the time when the call was done.
fn call(config: &VoipConfig, mut delay: impl FnMut(Side, u64) -> Option<Duration>) -> (Voip, Time) {
    let mut voip = config.build(STREAMS, "call").unwrap();
    let mut done = Time::NEVER;
    let mut commands = Commands::default();
    let mut deliveries: BinaryHeap<Reverse<(Time, Side, Payload)>> = BinaryHeap::new();
    let mut sent = [0; 2];
    loop {
        let wakeup = voip.next_wakeup();
        let arrival = deliveries.peek().map_or(Time::NEVER, |&Reverse((at, ..))| at);
        if wakeup.is_never() && arrival.is_never() {
            assert!(voip.is_done());
            return (voip, done);
        }
        if arrival < wakeup {
            let Reverse((at, side, payload)) = deliveries.pop().unwrap();
            voip.handle_event(at, side, &received(payload), &mut commands);
            continue;
        }
        voip.handle_wakeup(wakeup, &mut commands);
        assert!(voip.next_wakeup() > wakeup, "the next wake-up lies later");
        if voip.is_done() {
            done = wakeup;
        }
        for (side, command) in std::mem::take(&mut commands.list) {
            match command {
                Command::Connect => voip.handle_event(wakeup, side, &Event::Connected, &mut commands),
                Command::Send(message) => {
                    if let Some(delay) = delay(side, sent[side.index()]) {
                        deliveries.push(Reverse((wakeup + delay, side.peer(), message.payload)));
                    }
                    sent[side.index()] += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn assert_conserved(m: &Measures) {
    assert_eq!(m.sent, m.played + m.late + m.lost);
    assert_eq!(m.received, m.played + m.late);
    assert!(m.unsent + m.refused <= m.lost);
}

#[test]
fn a_perfect_call() {
    let (voip, done) = call(&config(), |_, _| Some(ms(63)));
    let m = voip.measures(Side::A).unwrap();
    assert_conserved(&m);
    assert_eq!((m.sent, m.played, m.late, m.lost), (100, 100, 0, 0));
    assert_eq!((m.mean_delay_ms, m.p95_delay_ms, m.p99_delay_ms), (63.0, 63.0, 63.0));
    // 20 ms of packet, no look-ahead, 63 ms of network, 100 ms of buffer.
    assert_eq!(m.mouth_to_ear_ms, 183.0);
    assert_eq!((m.loss_percent, m.burst_ratio, m.longest_gap_ms), (0.0, 1.0, 0.0));
    assert!((m.rating.r() - (93.2 - 0.024 * 63.0)).abs() < 1e-9);
    assert!(voip.measures(Side::B).is_none());
    // The last frame is made at 1 s + 99 x 20 ms; then one second of grace.
    assert_eq!(done, Time::from_millis(3_980));
}

#[test]
fn late_lost_and_gaps() {
    // Frames 10-14 are lost, 20 is late, 30 arrives within the buffer's depth.
    let (voip, _) = call(&config(), |_, index| match index {
        10..15 => None,
        20 => Some(ms(161)),
        30 => Some(ms(160)),
        _ => Some(ms(60)),
    });
    let m = voip.measures(Side::A).unwrap();
    assert_conserved(&m);
    assert_eq!((m.played, m.late, m.lost), (94, 1, 5));
    assert_eq!(m.longest_gap_ms, 100.0);
    assert!((m.loss_percent - 6.0).abs() < 1e-9);
    // Bursts of 3 on average, 1/(1 - 0.06) expected.
    assert!((m.burst_ratio - 3.0 * 0.94).abs() < 1e-9);
    assert!((m.mean_delay_ms - (93.0 * 60.0 + 160.0) / 94.0).abs() < 1e-9);
    // Of 95 arrivals, 93 took 60 ms: ranks 91 and 95.
    assert_eq!((m.p95_delay_ms, m.p99_delay_ms), (60.0, 161.0));
    let frames = voip.frames(Side::A);
    assert_eq!(frames.len(), 100);
    assert_eq!((frames[12].arrived, frames[12].fate), (None, Playout::Lost));
    assert_eq!(frames[20].arrived, Some(frames[20].made + ms(161)));
    assert_eq!(frames[20].fate, Playout::Late);
    assert_eq!(frames[99].made, Time::from_millis(2_980));
}

#[test]
fn the_measured_burst_ratio_lowers_the_rating() {
    let lossy = |_: Side, index: u64| (!(40..60).contains(&index)).then_some(ms(60));
    let (random, _) = call(&config(), lossy);
    let (measured, _) = call(&VoipConfig { burst_ratio: BurstRatio::Measured, ..config() }, lossy);
    let ie_eff = |voip: &Voip| voip.measures(Side::A).unwrap().rating.ie_eff();
    // One burst of 20 in 100 frames: BurstR = 20 x 0.8 = 16, 20/16 = 1.25.
    assert!((ie_eff(&measured) - 95.0 * 20.0 / (1.25 + 25.1)).abs() < 1e-9);
    assert!((ie_eff(&random) - 95.0 * 20.0 / (20.0 + 25.1)).abs() < 1e-9);
}

#[test]
fn both_directions_and_their_names() {
    let config = VoipConfig { direction: Direction::Both, ..config() };
    let (voip, _) = call(&config, |side, index| match side {
        Side::A => Some(ms(40)),
        Side::B => (index % 2 == 0).then_some(ms(80)),
    });
    let mut row = Row::default();
    voip.report(Time::from_secs(4), &mut row.section("call"));
    assert_eq!(row.value("call.a_to_b.played"), Some(100.0));
    assert_eq!(row.value("call.b_to_a.played"), Some(50.0));
    assert_eq!(row.value("call.b_to_a.mean_delay_ms"), Some(80.0));
    assert!(row.value("call.a_to_b.mos") > row.value("call.b_to_a.mos"));
}

#[test]
fn a_call_without_an_association_is_lost() {
    let mut voip = config().build(STREAMS, "call").unwrap();
    let mut commands = Commands::default();
    while !voip.is_done() {
        let wakeup = voip.next_wakeup();
        voip.handle_wakeup(wakeup, &mut commands);
    }
    assert_eq!(commands.list, [(Side::A, Command::Connect)]);
    let m = voip.measures(Side::A).unwrap();
    assert_conserved(&m);
    assert_eq!((m.sent, m.lost, m.unsent), (100, 100, 100));
    assert!(m.mean_delay_ms.is_nan());
    // R = 93.2 - 95 x 100/125.1 = 17.3 with this codec's Bpl.
    assert!((1.0..1.3).contains(&m.rating.mos()), "{}", m.rating.mos());
}

#[test]
fn after_the_association_dies_the_rest_is_lost() {
    let mut voip = config().build(STREAMS, "call").unwrap();
    let mut commands = Commands::default();
    voip.handle_wakeup(voip.next_wakeup(), &mut commands);
    voip.handle_event(Time::ZERO, Side::A, &Event::Connected, &mut commands);
    for frame in 0..100 {
        let now = voip.next_wakeup();
        commands.list.clear();
        voip.handle_wakeup(now, &mut commands);
        assert_eq!(commands.list.len(), usize::from(frame < 30), "frame {frame}");
        for (_, command) in std::mem::take(&mut commands.list) {
            let Command::Send(message) = command else { panic!("{command:?}") };
            let event = received(message.payload);
            voip.handle_event(now + ms(5), Side::B, &event, &mut commands);
            // The network made a second copy.
            voip.handle_event(now + ms(6), Side::B, &event, &mut commands);
        }
        if frame == 29 {
            let closed = Event::Closed(CloseReason::Lost);
            voip.handle_event(now + ms(7), Side::A, &closed, &mut commands);
        }
    }
    let m = voip.measures(Side::A).unwrap();
    assert_conserved(&m);
    assert_eq!((m.played, m.lost, m.unsent, m.duplicates), (30, 70, 70, 30));
    assert_eq!(m.longest_gap_ms, 1_400.0);
}

#[test]
fn pauses_are_not_sent_and_not_missed() {
    let config = VoipConfig {
        duration: Duration::from_secs(600),
        talk_spurts: Some(TalkSpurtsConfig::default()),
        jitter_buffer: JitterBuffer::Adaptive {
            alpha: 0.998_002,
            factor: 4.0,
            adjust_every: Duration::from_secs(1),
        },
        ..config()
    };
    let (voip, _) = call(&config, |_, index| Some(ms(50 + index % 5)));
    let m = voip.measures(Side::A).unwrap();
    assert_conserved(&m);
    // ITU-T P.59: 1.004 s of talk in 2.591 s, here in 30,000 frame periods.
    assert!((0.33..0.45).contains(&(m.sent as f64 / 30_000.0)), "{}", m.sent);
    assert_eq!((m.played, m.loss_percent), (m.sent, 0.0));
    let frames = voip.frames(Side::A);
    assert!(frames.iter().all(|frame| frame.made == Time::from_secs(1) + ms(20) * frame.index));
}

#[test]
fn the_call_waits_for_what_its_buffer_could_still_play() {
    let config = VoipConfig { grace: Duration::ZERO, ..config() };
    // The first frame took 1.5 s, so frames are played up to 1.6 s after they were made.
    let (voip, done) = call(&config, |_, _| Some(ms(1_500)));
    assert_eq!(done, Time::from_millis(2_980 + 1_600));
    assert_eq!(voip.measures(Side::A).unwrap().played, 100);
    // Nothing has arrived when the last frame is made: the depth alone.
    let (_, done) = call(&config, |_, _| None);
    assert_eq!(done, Time::from_millis(2_980 + 100));
}

#[test]
fn the_other_models_and_delays() {
    let wideband = VoipConfig { codec: Codec::AmrWb1265, emodel: EModel::G107Wideband, ..config() };
    let (voip, _) = call(&wideband, |_, _| Some(ms(50)));
    let m = voip.measures(Side::A).unwrap();
    // R at 50 ms from the test of wideband.rs, less Ie = 20.
    assert!((m.rating.r() - (128.255_018 - 20.0)).abs() < 1e-4, "{}", m.rating.r());
    // 20 ms of packet, 5 ms of look-ahead, 50 ms + 100 ms until it is played.
    assert_eq!(m.mouth_to_ear_ms, 175.0);

    let full = VoipConfig { emodel: EModel::G107, delay: DelayBasis::MouthToEar, ..config() };
    let (voip, _) = call(&full, |_, _| Some(ms(30)));
    // Ta = 20 + 30 + 100 ms: R from the test of emodel.rs.
    assert!((voip.measures(Side::A).unwrap().rating.r() - 89.539_132).abs() < 1e-4);
}

#[test]
fn the_start_is_drawn_from_its_range_and_from_its_own_stream() {
    let config = VoipConfig::default();
    let start = |replication| config.build(Streams { seed: 1, replication }, "call").unwrap().start();
    let starts: Vec<Time> = (0..100).map(start).collect();
    assert!(starts.iter().all(|&at| (Time::from_secs(10)..Time::from_secs(20)).contains(&at)));
    let mean = starts.iter().map(|at| at.as_secs_f64()).sum::<f64>() / 100.0;
    assert!((mean - 15.0).abs() < 1.0, "{mean}");
    assert_eq!(start(0), start(0));
    let other = VoipConfig { codec: Codec::G729aVad, ..config.clone() };
    assert_eq!(other.build(Streams { seed: 1, replication: 0 }, "call").unwrap().start(), start(0));
}

#[test]
fn impossible_calls_are_named() {
    let range = Start::Between { from: ms(2), to: ms(1) };
    let spike = |factor, adjust_every| JitterBuffer::Spike { factor, adjust_every };
    let silent = TalkSpurtsConfig { talk: Duration::ZERO, pause: ms(1) };
    let opus = VoipConfig { codec: Codec::Opus24, emodel: EModel::G107Wideband, ie: Some(5.0), ..config() };
    for (config, message) in [
        (
            VoipConfig { codec: Codec::G7231At63, ..config() },
            "packetisation = \"20 ms\" is not a multiple of g723.1-6.3's frame, 30 ms",
        ),
        (
            VoipConfig { duration: ms(10), ..config() },
            "duration = \"10 ms\" is 0 frames of 20 ms, allowed are 1 to 16777216",
        ),
        (VoipConfig { start: range, ..config() }, "start.from = \"2 ms\" is after start.to = \"1 ms\""),
        (
            VoipConfig { connect: Duration::from_secs(2), ..config() },
            "connect = \"2 s\" is after the call's start at 1 s",
        ),
        (
            opus,
            "bpl is missing: codec opus-24 has none (ITU-T G.113 has no value for Opus, nor has doi 10.1145/3458751 for \
             wideband at 24 kbit/s)",
        ),
        (
            VoipConfig { codec: Codec::AmrWb1265, ..config() },
            "emodel = \"simplified\" does not rate codec amr-wb-12.65: its Ie is for \"g107_1\"; set ie to \
             rate it all the same",
        ),
        (VoipConfig { ie: Some(120.0), ..config() }, "ie = 120 is not from 0 to 95"),
        (VoipConfig { bpl: Some(0.0), ..config() }, "bpl = 0 is not from 1 to 40"),
        (VoipConfig { bpl: Some(f64::NAN), ..config() }, "bpl = NaN is not from 1 to 40"),
        (
            VoipConfig { talk_spurts: Some(silent), ..config() },
            "talk_spurts.talk = \"0 s\" is not a length of time from 1 ms on",
        ),
        (
            VoipConfig { packetisation: Duration::from_secs(600), ..config() },
            "packetisation = \"600 s\" is not a multiple of g711+plc's frame, 125 us, up to 200 ms",
        ),
        (
            VoipConfig {
                jitter_buffer: JitterBuffer::Fixed { depth: Duration::from_secs(3601) },
                ..config()
            },
            "jitter_buffer.depth = \"3601 s\" is not from 0 s to 3600 s",
        ),
        (
            VoipConfig { jitter_buffer: spike(-1.0, ms(1)), ..config() },
            "jitter_buffer.factor = -1 is not from 0 to 100",
        ),
        (
            VoipConfig { jitter_buffer: spike(4.0, Duration::ZERO), ..config() },
            "jitter_buffer.adjust_every = \"0 s\" is not above 0 s and up to 3600 s",
        ),
    ] {
        assert_eq!(config.build(STREAMS, "call").unwrap_err(), message);
    }
}

#[test]
fn the_configuration_reads_as_the_documentation_says() {
    let parse = |text: &str| toml::from_str::<AppConfig>(text);
    let default = parse("kind = \"voip\"").unwrap();
    assert_eq!(default, AppConfig::Voip(VoipConfig::default()));
    assert_eq!(parse(&toml::to_string(&default).unwrap()).unwrap(), default);
    let all = r#"
        kind = "voip"
        codec = "g729a+vad"
        start = { from = "1 s", to = "2 s" }
        direction = "both"
        reliability = { timed = "100 ms" }
        jitter_buffer = { kind = "adaptive" }
        emodel = "g107_1"
        talk_spurts = { talk = "1 s", pause = "1 s" }
        "#;
    let AppConfig::Voip(voip) = parse(all).unwrap() else { panic!("not a call") };
    assert_eq!((voip.codec, voip.emodel), (Codec::G729aVad, EModel::G107Wideband));
    assert_eq!(voip.start, Start::Between { from: Duration::from_secs(1), to: Duration::from_secs(2) });
    assert!(matches!(voip.jitter_buffer, JitterBuffer::Adaptive { .. }));
    let range = "start is a time such as \"10 s\" or a range";
    for (text, words) in [
        ("kind = \"voip\"\ncodek = \"g711\"", "unknown field `codek`"),
        ("kind = \"vopi\"", "unknown variant `vopi`"),
        ("kind = \"voip\"\nstart = { from = \"1 s\", to = \"2 s\", at = \"2 s\" }", range),
        ("kind = \"voip\"\nstart = \"soon\"", range),
        ("kind = \"voip\"\ncodec = \"g7\"", "unknown variant `g7`, expected one of"),
        ("kind = \"voip\"\nduration = \"-3 s\"", "`-3 s` is not a length of time"),
        ("kind = \"voip\"\njitter_buffer = { kind = \"fixed\", dept = \"1 s\" }", "unknown field `dept`"),
        ("kind = \"datagrams\"\nintervals = { kind = \"cbr\", on = \"1 s\" }", "unknown field `on`"),
        ("kind = \"datagrams\"\nintervals = { kind = \"poisson\", on = \"1 s\" }", "unknown field `on`"),
    ] {
        let message = parse(text).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn every_key_is_explained_in_the_schema() {
    for schema in [
        schemars::schema_for!(VoipConfig),
        schemars::schema_for!(DatagramsConfig),
        schemars::schema_for!(udp::Config),
    ] {
        let properties = schema.get("properties").and_then(|properties| properties.as_object()).unwrap();
        for (key, property) in properties {
            assert!(property.get("description").is_some(), "{key}");
        }
    }
}

/// Runs an app over two UDP endpoints with a constant delay of 40 ms; returns the bytes sent.
fn run_over_udp(app: &mut AnyApp, config: udp::Config, until: Time) -> u64 {
    let mut ends = [Side::A, Side::B].map(|side| UdpEndpoint::new(&config, side, 1, IpVersion::Ipv4));
    let mut flying: Vec<(Time, Side, Box<Packet>)> = Vec::new();
    let mut bytes = 0;
    let mut commands = Commands::default();
    loop {
        let wakeup = app.next_wakeup();
        let arrival = flying.first().map_or(Time::NEVER, |&(at, ..)| at);
        let now = wakeup.min(arrival);
        if now > until {
            return bytes;
        }
        let mut inputs = Vec::new();
        if arrival < wakeup {
            let (_, side, packet) = flying.remove(0);
            inputs.push((side, Input::Packet(packet)));
        } else {
            app.handle_wakeup(now, &mut commands);
            inputs.extend(commands.list.drain(..).map(|(side, command)| (side, Input::Command(command))));
        }
        for (side, input) in inputs {
            let end = &mut ends[side.index()];
            end.handle_input(now, input);
            loop {
                match end.poll_output(now) {
                    Output::Timeout(_) => break,
                    Output::Event(event) => app.handle_event(now, side, &event, &mut commands),
                    Output::Transmit(packet) => {
                        bytes += u64::from(packet.size);
                        flying.push((now + ms(40), side.peer(), packet));
                    }
                }
            }
        }
    }
}

#[test]
fn a_call_beside_streams_is_in_datagrams() {
    let streams = |longest_datagram| Service::Streams { longest_datagram };
    let build = |app: VoipConfig, service| AppConfig::Voip(app).build(STREAMS, "call", service).err();
    assert_eq!(build(config(), streams(1_200)), None);
    assert!(
        build(config(), streams(0)).unwrap().starts_with("kind = \"voip\" sends messages, which a stream of")
    );
    assert!(
        build(VoipConfig { unordered: false, ..config() }, streams(1_200))
            .unwrap()
            .starts_with("unordered = false")
    );
}

#[test]
fn a_call_over_rtp() {
    let mut app = AppConfig::Voip(config()).build(STREAMS, "call", Service::Datagrams).unwrap();
    let rtp = udp::Config { rtp: true, ..udp::Config::default() };
    let bytes = run_over_udp(&mut app, rtp, Time::from_secs(10));
    assert_eq!(bytes, 100 * (20 + 8 + 12 + 160));
    assert!(app.is_done());
    let AnyApp::Voip(voip) = app else { panic!("not a call") };
    let m = voip.measures(Side::A).unwrap();
    assert_eq!((m.played, m.mean_delay_ms), (100, 40.0));
}

#[test]
fn a_load_reports_what_arrived() {
    let text = "kind = \"datagrams\"\nrate = \"80 kbit/s\"\nsize = \"100 B\"\nintervals = { kind = \"cbr\" }\n\
                start = \"1 s\"\nduration = \"10 s\"\nmeasure = true";
    for reverse in ["", "\nreverse = true"] {
        let config: AppConfig = toml::from_str(&format!("{text}{reverse}")).unwrap();
        let mut app = config.build(STREAMS, "load", Service::Datagrams).unwrap();
        assert!(!app.is_done());
        let bytes = run_over_udp(&mut app, udp::Config::default(), Time::from_secs(20));
        assert!(app.is_done());
        let mut row = Row::default();
        app.report(Time::from_secs(20), &mut row.section("load"));
        assert_eq!(bytes, 1_000 * 128);
        for (name, value) in [
            ("sent", 1_000.0),
            ("received", 1_000.0),
            ("goodput_kbit_per_s", 80.0),
            ("mean_delay_ms", 40.0),
            ("max_delay_ms", 40.0),
        ] {
            assert_eq!(row.value(&format!("load.{name}")), Some(value), "{name}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever the network does, every frame has one fate and the scores stay on their scales.
    #[test]
    fn frames_are_conserved(
        delays in proptest::collection::vec(proptest::option::of(0u64..2_000), 100),
        has_pauses: bool, both: bool, adaptive: bool,
    ) {
        let config = VoipConfig {
            direction: if both { Direction::Both } else { Direction::BToA },
            talk_spurts: has_pauses.then(TalkSpurtsConfig::default),
            jitter_buffer: if adaptive {
                JitterBuffer::Spike { factor: 4.0, adjust_every: Duration::from_secs(1) }
            } else {
                JitterBuffer::default()
            },
            burst_ratio: BurstRatio::Measured,
            ..config()
        };
        let (voip, _) = call(&config, |_, index| delays[index as usize].map(ms));
        for side in [Side::A, Side::B] {
            let Some(m) = voip.measures(side) else { continue };
            assert_conserved(&m);
            proptest::prop_assert_eq!(voip.frames(side).len() as u64, m.sent);
            proptest::prop_assert!((1.0..=4.5).contains(&m.rating.mos()));
            proptest::prop_assert!(m.p95_delay_ms.is_nan() || m.p95_delay_ms <= m.p99_delay_ms);
            proptest::prop_assert!(m.played == 0 || m.mean_delay_ms <= m.mouth_to_ear_ms);
        }
        proptest::prop_assert!(voip.measures(Side::B).is_some());
    }
}
