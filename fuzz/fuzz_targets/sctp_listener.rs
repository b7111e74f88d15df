//! An SCTP server to which strangers send packets, and a client of its own.
#![no_main]

use anabranch_fuzz::association::Overheard;
use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_fuzz::stage::{Dialect as _, MTU};
use anabranch_fuzz::world::World;
use anabranch_transport::endpoint::{Command, Endpoint, Input, Output, Site, Transport as _};
use anabranch_transport::flow::{Ecn, IpVersion, PathId, Side};
use anabranch_transport::listener::{Answer, Listen as _, Listener as _};
use anabranch_transport::rng::Streams;
use anabranch_transport::sctp::{Association, Config};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::sctp::SctpPacket;
use anabranch_transport::wire::{Body, Packet};
use libfuzzer_sys::fuzz_target;

/// Associations that the server keeps.
const MOST: usize = 8;

fn drain(end: &mut Association, now: Time, mut transmit: impl FnMut(Box<Packet>)) -> Time {
    for _ in 0..20_000 {
        match end.poll_output(now) {
            Output::Event(_) => {}
            Output::Timeout(at) => {
                assert!(at >= now, "a timeout lies in the past");
                return at;
            }
            Output::Transmit(packet) => transmit(packet),
        }
    }
    panic!("it never waits");
}

fuzz_target!(|input: &[u8]| {
    let mut script = Script(input);
    let ip = if script.byte() & 1 == 0 { IpVersion::Ipv4 } else { IpVersion::Ipv6 };
    let world = World::new(ip);
    let [a, b] = world.keys;
    let back = World { sender: 2, keys: [b, a], ..world.clone() };
    let streams = Streams { seed: 1, replication: 0 };
    let site = |side, connection| Site { side, mtus: &[MTU], ip, streams, connection };
    let config = Config::default();
    let mut listener = config.listen(&site(Side::B, "server")).expect("possible settings");
    let mut client = config.build(&site(Side::A, "client")).expect("possible settings");
    let mut accepted: Vec<Association> = Vec::new();
    let mut overheard = Overheard::default();
    // The last packet of each end that is on its way.
    let mut waiting: [Option<Box<Packet>>; 2] = [None, None];
    let mut now = Time::ZERO;
    client.handle_input(now, Input::Command(Command::Connect));
    drain(&mut client, now, |packet| waiting[1] = Some(packet));
    for _ in 0..2_000 {
        if script.is_over() {
            break;
        }
        let act = script.byte();
        let packet = match act & 7 {
            0 | 1 => waiting[1].take(),
            2 => waiting[1].clone(),
            3 => {
                if let Some(packet) = waiting[0].take() {
                    client.handle_input(now, Input::Packet(packet));
                    drain(&mut client, now, |packet| {
                        overheard.hear(Side::A, &packet);
                        waiting[1] = Some(packet);
                    });
                }
                None
            }
            4 => {
                now = now + Duration::from_millis(1 << (act >> 3 & 31).min(17));
                for end in &mut accepted {
                    end.handle_input(now, Input::Timeout);
                    assert!(drain(end, now, |_| {}) > now, "a timeout does not lie ahead");
                }
                client.handle_input(now, Input::Timeout);
                assert!(drain(&mut client, now, |packet| waiting[1] = Some(packet)) > now);
                None
            }
            // As it came, with whatever cookie is in it, or near what was overheard.
            5 => overheard.forge(&mut script, Side::B, &world).map(|body| boxed(body, ip)),
            _ => {
                let length = usize::from(script.word() % 1_480);
                let mut bytes = script.bytes(length).to_vec();
                anabranch_fuzz::seal::sctp(&mut bytes, &world);
                let parsed = SctpPacket::parse(&bytes, &mut world.clone());
                parsed.ok().map(|parsed| boxed(Body::Sctp(parsed.packet), ip))
            }
        };
        let Some(packet) = packet else { continue };
        let owner = accepted.iter_mut().find(|end| end.owns(&packet));
        if let Some(end) = owner {
            end.handle_input(now, Input::Packet(packet));
            drain(end, now, |packet| {
                overheard.hear(Side::B, &packet);
                waiting[0] = Some(packet);
            });
            continue;
        }
        let held = Held::default();
        let answer = listener.handle_packet(now, packet.clone());
        match answer {
            Answer::Accepted(mut end) => {
                assert!(end.owns(&packet), "what opened it is its own");
                drain(&mut end, now, |packet| {
                    overheard.hear(Side::B, &packet);
                    waiting[0] = Some(packet);
                });
                if accepted.len() < MOST {
                    accepted.push(*end);
                }
            }
            Answer::Nothing => assert_eq!(held.bytes(), 0, "a listener keeps nothing of a stranger"),
            Answer::Reply(packet) => {
                let bytes = packet.emit(None, &back);
                assert_eq!(bytes.len(), packet.size as usize);
                drop(bytes);
                let own = Held::default();
                let copy = packet.clone();
                let size = own.bytes();
                assert!(held.bytes() <= 2 * size, "a listener keeps nothing of a stranger");
                overheard.hear(Side::B, &packet);
                waiting[0] = Some(copy);
            }
        }
    }
});

fn boxed(body: Body, ip: IpVersion) -> Box<Packet> {
    let Body::Sctp(sctp) = &body else { panic!("it is SCTP") };
    let size = ip.header_bytes() + sctp.wire_size();
    Box::new(Packet { path: PathId(0), ecn: Ecn::NotEct, size, body })
}
