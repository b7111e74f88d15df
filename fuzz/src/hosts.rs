//! Two hosts with everything that a driver drives, the bytes on the network between them, and an attacker who
//! changes them, makes up others and corrects their checksums.

use std::collections::VecDeque;
use std::net::IpAddr;

use anabranch_live::sctp::Route;
use anabranch_live::stack::Stack;
use anabranch_transport::flow::Ecn;
use anabranch_transport::time::{Duration, Time};

use crate::memory::Held;
use crate::script::Script;

/// The most outputs of a host before it waits.
const MOST_OUTPUTS: usize = 20_000;
/// Datagrams that the network holds; others are lost.
const MOST_IN_FLIGHT: usize = 256;
/// Acts of one script.
const MOST_ACTS: usize = 2_000;
/// What both hosts and the network may hold, in bytes: buffers of 64 KiB of a few connections, full of pieces
/// of one byte, cost many times their size.
const MOST_HELD: usize = 32 << 20;

/// An address of a host, or a third one.
pub fn address(of: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, of as u8 + 1])
}

/// A host and its application.
pub trait End {
    /// The host.
    type Host: Stack;

    /// The host.
    fn host(&mut self) -> &mut Self::Host;

    /// Tells the application about an event.
    fn on_event(&mut self, now: Time, event: <Self::Host as Stack>::Event);

    /// Lets the application do something, such as sending or closing, as this byte says.
    fn act(&mut self, now: Time, how: u8);
}

/// The hosts and their network.
pub struct Hosts<E> {
    ends: [E; 2],
    now: Time,
    /// The port of UDP that datagrams travel in, if they do.
    port: Option<u16>,
    /// Corrects the checksum of a datagram between two addresses.
    seal: fn(&mut [u8], [IpAddr; 2]),
    network: VecDeque<(usize, Vec<u8>)>,
    /// The last datagrams that came to each host.
    heard: [VecDeque<Vec<u8>>; 2],
    held: Held,
}

impl<E: End> Hosts<E> {
    /// Two hosts, the first of which has asked for a connection.
    pub fn new(ends: [E; 2], port: Option<u16>, seal: fn(&mut [u8], [IpAddr; 2]), held: Held) -> Self {
        let heard = [VecDeque::new(), VecDeque::new()];
        Self { ends, now: Time::ZERO, port, seal, network: VecDeque::new(), heard, held }
    }

    /// Plays the script.
    pub fn play(&mut self, script: &mut Script<'_>) {
        self.settle();
        let opens = script.byte() & 1 == 0;
        for _ in 0..if opens { 8 } else { 0 } {
            self.deliver(0);
        }
        for _ in 0..MOST_ACTS {
            if script.is_over() {
                break;
            }
            let act = script.byte();
            let to = usize::from(act >> 7);
            match act & 0x0f {
                0..=2 => self.deliver(usize::from(act >> 4 & 7)),
                3 => drop(self.network.pop_front()),
                4 => {
                    if let Some(packet) = self.network.front().cloned() {
                        self.network.push_back(packet);
                    }
                }
                5 => self.pass(Duration::from_micros(u64::from(script.word()) * 100)),
                6 => {
                    let next = self.ends[0].host().next_timeout().min(self.ends[1].host().next_timeout());
                    if !next.is_never() {
                        self.pass(Duration::from_nanos(next.saturating_since(self.now).as_nanos()));
                    }
                }
                7 | 8 => {
                    self.ends[to].act(self.now, script.byte());
                    self.settle();
                }
                _ => self.forge(to, script),
            }
            let held = self.held.bytes();
            assert!(held <= MOST_HELD, "{held} bytes are held");
        }
    }

    fn deliver(&mut self, place: usize) {
        let place = place.min(self.network.len().saturating_sub(1));
        if let Some((to, datagram)) = self.network.remove(place) {
            if self.heard[to].len() == 4 {
                self.heard[to].pop_front();
            }
            self.heard[to].push_back(datagram.clone());
            self.give(to, address(1 - to), &datagram);
        }
    }

    fn give(&mut self, to: usize, from: IpAddr, datagram: &[u8]) {
        let route = Route { local: address(to), remote: from, port: self.port };
        self.ends[to].host().handle_datagram(self.now, route, Ecn::NotEct, datagram);
        self.settle();
    }

    /// Sends something like what was heard, with other bytes in places, shortened or longer, from an address.
    fn forge(&mut self, to: usize, script: &mut Script<'_>) {
        let how = script.byte();
        let heard = self.heard[to].get(usize::from(how & 3)).or(self.heard[to].back());
        let mut datagram = heard.cloned().unwrap_or_default();
        let (keeps, adds) = (usize::from(script.byte()), usize::from(script.byte()));
        if how & 4 != 0 {
            // Only what it begins with, and then what the script says.
            datagram.truncate(keeps);
            datagram.extend(script.bytes(adds * 4));
        }
        for _ in 0..how >> 3 & 3 {
            let (place, value) = (usize::from(script.byte()), script.byte());
            if let Some(byte) = datagram.get_mut(place) {
                *byte = value;
            }
        }
        let from = address(if how & 0x20 == 0 { 1 - to } else { 2 });
        if how & 0x40 == 0 {
            (self.seal)(&mut datagram, [from, address(to)]);
        }
        self.give(to, from, &datagram);
    }

    fn pass(&mut self, length: Duration) {
        let end = self.now + length;
        for _ in 0..200 {
            let timers = [0, 1].map(|index| self.ends[index].host().next_timeout());
            let next = timers[0].min(timers[1]);
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            let index = usize::from(timers[1] < timers[0]);
            self.ends[index].host().handle_timeout(self.now);
            self.settle();
            assert!(self.ends[index].host().next_timeout() > self.now, "a timeout does not lie ahead");
        }
        let next = self.ends[0].host().next_timeout().min(self.ends[1].host().next_timeout());
        self.now = self.now.max(end.min(next));
    }

    /// Takes what the hosts tell and what they send.
    fn settle(&mut self) {
        for index in [0, 1] {
            let mut left = MOST_OUTPUTS;
            loop {
                let mut is_done = true;
                while let Some(event) = self.ends[index].host().poll_event() {
                    self.ends[index].on_event(self.now, event);
                    is_done = false;
                    left = usize::checked_sub(left, 1).expect("it comes to rest");
                }
                while let Some(transmit) = self.ends[index].host().poll_transmit(4) {
                    is_done = false;
                    left = usize::checked_sub(left, 1).expect("it comes to rest");
                    if transmit.route.remote == address(1 - index) && self.network.len() < MOST_IN_FLIGHT {
                        let datagrams = transmit.bytes.chunks(transmit.segment);
                        self.network.extend(datagrams.map(|datagram| (1 - index, datagram.to_vec())));
                    }
                }
                if is_done {
                    break;
                }
            }
        }
    }
}
