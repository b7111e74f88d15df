//! Whatever an end has acknowledged, its application can read: after random closes, half-closes, aborts and
//! resets, however late it reads, over every transport, and with every way in which MPTCP falls back to TCP
//! (RFC 9293 section 3.10.4: after CLOSE a user goes on receiving).
//!
//! What an end promises is taken from its packets: the cumulative acknowledgement of TCP and SCTP, and the
//! data acknowledgement of MPTCP, whose subflows promise nothing by themselves.

use std::collections::BTreeMap;

use anabranch_transport::endpoint::{
    Command, Endpoint, Event, HalfClose, Input, Message, Output, Received, Site, Transport,
};
use anabranch_transport::flow::{IpVersion, Payload, Side};
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::sctp::chunk::Chunk;
use anabranch_transport::wire::tcp::{Flags, Segment};
use anabranch_transport::wire::{Body, Packet};
use anabranch_transport::{mptcp, sctp, tcp};
use proptest::prelude::*;

/// What something between the ends does with the options of MPTCP (RFC 8684 section 3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middlebox {
    /// It damages the data of one segment of this end.
    Damages(Side, u32),
    /// Nothing.
    Passes,
    /// It takes them from the SYN of this end, A's SYN or B's SYN-ACK.
    StripsSyn(Side),
    /// It takes them from all segments of these ends but SYNs, after so many segments.
    Strips([bool; 2], u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mptcp { paths: usize, peer_has_tcp: bool, middlebox: Middlebox },
    Sctp,
    Tcp,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Abort,
    Pause,
    Resume,
    Shutdown,
    Write(u32),
}

/// What one end has sent and its peer has promised.
#[derive(Debug, Default)]
struct Said {
    /// The number of the SYN, or of the first chunk with data.
    first: Option<u32>,
    /// The number of the FIN behind that of the SYN; 0 before it is sent.
    fin: u32,
    /// The last chunks of messages, by their place behind the first chunk: a message is read as a whole.
    chunks: BTreeMap<u32, Payload>,
    /// Bytes in order that the peer has acknowledged.
    promised: u64,
    written: u64,
    /// Segments so far.
    segments: u32,
}

struct World {
    now: Time,
    ends: [Box<dyn Endpoint>; 2],
    timeouts: [Time; 2],
    in_flight: BTreeMap<(Time, u64), (Side, Box<Packet>)>,
    sequence: u64,
    rng: Rng,
    loss: f64,
    middlebox: Middlebox,
    /// By the end that writes.
    said: [Said; 2],
    /// Bytes that each end has read.
    read: [u64; 2],
}

fn ends(kind: Kind, half_close: [bool; 2]) -> [Box<dyn Endpoint>; 2] {
    let end = |side: Side| -> Box<dyn Endpoint> {
        let half_close = half_close[side.index()];
        let (paths, streams) = (
            if let Kind::Mptcp { paths, .. } = kind { paths } else { 1 },
            Streams { seed: 1, replication: 0 },
        );
        let mtus = vec![1_500; paths];
        let mut site = Site { side, mtus: &mtus, ip: IpVersion::Ipv4, streams, connection: "flow/x" };
        match kind {
            Kind::Mptcp { peer_has_tcp: true, .. } if side == Side::B => {
                site.mtus = &mtus[..1];
                half_closing(&tcp::Config::default(), &site, half_close)
            }
            Kind::Mptcp { middlebox, .. } => {
                let checksums = Some(matches!(middlebox, Middlebox::Damages(..)));
                half_closing(&mptcp::Config { checksums, ..mptcp::Config::default() }, &site, half_close)
            }
            Kind::Sctp => Box::new(sctp::Config::default().build(&site).expect("possible")),
            Kind::Tcp => half_closing(&tcp::Config::default(), &site, half_close),
        }
    };
    [end(Side::A), end(Side::B)]
}

fn half_closing<T: Transport<Endpoint: HalfClose + 'static>>(
    transport: &T,
    site: &Site<'_>,
    on: bool,
) -> Box<dyn Endpoint> {
    let mut end = transport.build(site).expect("possible");
    end.set_half_close(on);
    Box::new(end)
}

impl World {
    fn new(kind: Kind, half_close: [bool; 2], loss: f64, seed: u64) -> Self {
        let middlebox = if let Kind::Mptcp { middlebox, .. } = kind { middlebox } else { Middlebox::Passes };
        Self {
            now: Time::ZERO,
            ends: ends(kind, half_close),
            timeouts: [Time::NEVER; 2],
            in_flight: BTreeMap::new(),
            sequence: 0,
            rng: Streams { seed, replication: 0 }.stream("network"),
            loss,
            middlebox,
            said: Default::default(),
            read: [0; 2],
        }
    }

    fn command(&mut self, side: Side, command: Command) {
        self.input(side, Input::Command(command));
    }

    fn write(&mut self, side: Side, length: u32) {
        let offset = self.said[side.index()].written;
        self.said[side.index()].written += u64::from(length);
        let payload = Payload { offset, length };
        self.command(side, Command::Send(Message::new(payload)));
    }

    fn input(&mut self, side: Side, input: Input) {
        self.ends[side.index()].handle_input(self.now, input);
        loop {
            match self.ends[side.index()].poll_output(self.now) {
                Output::Event(Event::Received(Received { payload, .. })) => {
                    let read = &mut self.read[side.index()];
                    assert_eq!(payload.offset, *read, "bytes come once and in order");
                    *read += u64::from(payload.length);
                }
                // What is refused has not been written: the next call writes it again.
                Output::Event(Event::Refused(rest)) => self.said[side.index()].written = rest.offset,
                Output::Event(_) => {}
                Output::Timeout(at) => {
                    self.timeouts[side.index()] = at;
                    return;
                }
                Output::Transmit(packet) => self.transmit(side, packet),
            }
        }
    }

    fn transmit(&mut self, from: Side, mut packet: Box<Packet>) {
        self.listen(from, &packet);
        self.meddle(from, &mut packet);
        if self.rng.bernoulli(self.loss) {
            return;
        }
        self.sequence += 1;
        self.in_flight.insert((self.now + Duration::from_millis(10), self.sequence), (from.peer(), packet));
    }

    /// Notes what an end says and promises.
    fn listen(&mut self, from: Side, packet: &Packet) {
        let [own, peer] = [from, from.peer()].map(Side::index);
        match &packet.body {
            Body::Tcp(segment) => {
                self.listen_to_bounds(own, segment);
                let flags = segment.flags;
                if flags.has(Flags::ACK)
                    && !flags.has(Flags::RST)
                    && let Some(first) = self.said[peer].first
                {
                    // SYN and FIN take a number each; the byte at position p has the number p + 1.
                    let number = segment.acknowledgement.wrapping_sub(first);
                    let has_fin = self.said[peer].fin > 0 && number > self.said[peer].fin;
                    self.promise(peer, u64::from(number.saturating_sub(1 + u32::from(has_fin))));
                }
            }
            Body::Mptcp(segment) => {
                if packet.path.0 == 0 {
                    self.listen_to_bounds(own, &segment.tcp);
                }
                self.promise(peer, segment.options.data_ack.unwrap_or(0));
            }
            Body::Sctp(packet) => {
                for chunk in packet.chunks() {
                    match chunk {
                        Chunk::Data(data) => {
                            let first = *self.said[own].first.get_or_insert(data.tsn);
                            if data.ending {
                                self.said[own].chunks.insert(data.tsn.wrapping_sub(first), data.payload);
                            }
                        }
                        Chunk::Sack(_, sack) => self.promise_chunks(peer, sack.cumulative_tsn),
                        Chunk::Shutdown { cumulative_tsn } => self.promise_chunks(peer, *cumulative_tsn),
                        _ => {}
                    }
                }
            }
            body => panic!("nobody sends {body:?}"),
        }
        self.said[own].segments += 1;
    }

    /// Notes where the stream of an end begins and ends.
    fn listen_to_bounds(&mut self, own: usize, segment: &Segment) {
        let said = &mut self.said[own];
        if segment.flags.has(Flags::SYN) {
            said.first = Some(segment.sequence);
        }
        if segment.flags.has(Flags::FIN)
            && let Some(first) = said.first
        {
            said.fin = segment.sequence.wrapping_sub(first) + segment.payload.length;
        }
    }

    fn promise(&mut self, writer: usize, position: u64) {
        let said = &mut self.said[writer];
        said.promised = said.promised.max(position.min(said.written));
    }

    fn promise_chunks(&mut self, writer: usize, cumulative_tsn: u32) {
        let said = &self.said[writer];
        let Some(first) = said.first else { return };
        let last = cumulative_tsn.wrapping_sub(first);
        if last < u32::MAX / 2
            && let Some((_, payload)) = said.chunks.range(..=last).next_back()
        {
            self.promise(writer, payload.offset + u64::from(payload.length));
        }
    }

    fn meddle(&mut self, from: Side, packet: &mut Packet) {
        let Body::Mptcp(segment) = &mut packet.body else { return };
        let (is_syn, has_data) = (segment.tcp.flags.has(Flags::SYN), segment.tcp.payload.length > 0);
        let sent = self.said[from.index()].segments;
        match self.middlebox {
            Middlebox::Damages(of, after) if of == from && has_data && sent >= after => {
                segment.options.is_damaged = true;
            }
            Middlebox::StripsSyn(of) if of == from && is_syn => strip(packet),
            Middlebox::Strips(of, after) if of[from.index()] && !is_syn && sent > after => strip(packet),
            _ => {}
        }
    }

    fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            let arrival = self.in_flight.keys().next().map_or(Time::NEVER, |&(at, _)| at);
            let timer = self.timeouts[0].min(self.timeouts[1]);
            if arrival.min(timer) > end {
                self.now = end;
                return;
            }
            self.now = arrival.min(timer);
            if timer <= arrival {
                let side = if self.timeouts[0] == timer { Side::A } else { Side::B };
                self.input(side, Input::Timeout);
            } else {
                let (_, (to, packet)) = self.in_flight.pop_first().expect("there is one");
                self.input(to, Input::Packet(packet));
            }
        }
    }

    fn carry_out(&mut self, side: Side, step: Step) {
        match step {
            Step::Abort => self.command(side, Command::Abort),
            Step::Pause => self.command(side, Command::PauseReading),
            Step::Resume => self.command(side, Command::ResumeReading),
            Step::Shutdown => self.command(side, Command::Shutdown),
            Step::Write(length) => self.write(side, length),
        }
    }
}

fn strip(packet: &mut Packet) {
    if let Body::Mptcp(segment) = &mut packet.body {
        packet.size -= segment.option_bytes;
        packet.body = Body::Tcp(segment.tcp.clone());
    }
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::A), Just(Side::B)]
}

fn kind() -> impl Strategy<Value = Kind> {
    let middlebox = prop_oneof![
        2 => Just(Middlebox::Passes),
        1 => (side(), 0..20_u32).prop_map(|(side, after)| Middlebox::Damages(side, after)),
        2 => side().prop_map(Middlebox::StripsSyn),
        3 => (
            prop_oneof![Just([true, true]), Just([true, false]), Just([false, true])],
            prop_oneof![Just(0), 0..20_u32],
        )
            .prop_map(|(of, after)| Middlebox::Strips(of, after)),
    ];
    let mptcp = (1..3_usize, proptest::bool::weighted(0.2), middlebox)
        .prop_map(|(paths, peer_has_tcp, middlebox)| Kind::Mptcp { paths, peer_has_tcp, middlebox });
    prop_oneof![1 => Just(Kind::Tcp), 1 => Just(Kind::Sctp), 4 => mptcp]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Abort),
        4 => Just(Step::Pause),
        3 => Just(Step::Resume),
        3 => Just(Step::Shutdown),
        6 => prop_oneof![1..100_u32, 1..5_000_u32, 1..100_000_u32].prop_map(Step::Write),
    ]
}

fn check(
    kind: Kind,
    half_close: [bool; 2],
    loss: f64,
    seed: u64,
    steps: &[(u64, Side, Step)],
) -> Result<(), TestCaseError> {
    let mut world = World::new(kind, half_close, loss, seed);
    world.command(Side::A, Command::Connect);
    for &(millis, side, step) in steps {
        world.run_for(Duration::from_millis(millis));
        world.carry_out(side, step);
    }
    // Long after everything: connections are over, or given up.
    world.run_for(Duration::from_secs(20_000));
    for side in [Side::A, Side::B] {
        world.command(side, Command::ResumeReading);
    }
    world.run_for(Duration::from_secs(1_000));
    for (writer, reader) in [(0, 1), (1, 0)] {
        let promised = world.said[writer].promised;
        prop_assert!(
            world.read[reader] >= promised,
            "{} of {promised} bytes of end {writer}",
            world.read[reader]
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_acknowledged_can_be_read(
        kind in kind(),
        half_close in any::<[bool; 2]>(),
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        seed in any::<u64>(),
        steps in proptest::collection::vec(
            (prop_oneof![Just(0), 0..60_u64, 0..1_000_u64], side(), step()), 1..14),
    ) {
        check(kind, half_close, loss, seed, &steps)?;
    }
}

/// Each kind, with a reader that pauses from the beginning and reads after the end.
#[test]
fn a_late_reader_gets_everything() {
    let boxes = [
        Middlebox::Passes,
        Middlebox::Damages(Side::A, 8),
        Middlebox::StripsSyn(Side::A),
        Middlebox::StripsSyn(Side::B),
        Middlebox::Strips([true, true], 0),
        Middlebox::Strips([true, false], 0),
        Middlebox::Strips([false, true], 0),
        Middlebox::Strips([true, true], 5),
    ];
    let plain =
        [Kind::Tcp, Kind::Sctp, Kind::Mptcp { paths: 1, peer_has_tcp: true, middlebox: Middlebox::Passes }];
    let mptcp = boxes.map(|middlebox| Kind::Mptcp { paths: 1, peer_has_tcp: false, middlebox });
    for kind in plain.into_iter().chain(mptcp) {
        for end in [Step::Shutdown, Step::Abort] {
            let mut world = World::new(kind, [true; 2], 0.0, 1);
            for side in [Side::A, Side::B] {
                world.command(side, Command::PauseReading);
            }
            world.command(Side::A, Command::Connect);
            world.run_for(Duration::from_secs(1));
            world.write(Side::A, 300);
            world.run_for(Duration::from_secs(1));
            world.write(Side::B, 1_900);
            world.run_for(Duration::from_secs(1));
            assert!(world.said[1].promised == 1_900, "{kind:?}: {:?}", world.said);
            for side in [Side::A, Side::B] {
                world.carry_out(side, end);
                world.run_for(Duration::from_millis(500));
            }
            world.run_for(Duration::from_secs(300));
            for side in [Side::A, Side::B] {
                world.command(side, Command::ResumeReading);
            }
            assert!(
                world.read[1] >= world.said[0].promised,
                "{kind:?} {end:?}: {:?} {:?}",
                world.read,
                world.said
            );
            assert!(
                world.read[0] >= world.said[1].promised,
                "{kind:?} {end:?}: {:?} {:?}",
                world.read,
                world.said
            );
            assert!(world.read == [1_900, 300], "{kind:?} {end:?}: {:?}", world.read);
        }
    }
}
