//! A host behind a bad network: packets in both directions are lost, late and doubled.

use std::collections::BTreeMap;

use anabranch_live::sctp::{Route, Transmit};
use anabranch_live::stack::Stack;
use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::{Draw as _, Rng, Streams};
use anabranch_transport::time::{Duration, Time};

/// The impairments: probabilities that apply to each packet independently.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) reordering: f64,
    /// The extra delay of a packet that others overtake.
    pub(crate) late_by: Duration,
    /// The least delay of every packet, one way.
    pub(crate) delay: Duration,
    /// That a packet which may be marked is marked.
    pub(crate) marks: f64,
}

type Flying = (Route, Ecn, Vec<u8>);

/// A host, and the packets on their way from and to it.
pub(crate) struct Impaired<H> {
    pub(crate) host: H,
    pub(crate) weather: Weather,
    /// Our addresses between which no packet passes.
    pub(crate) cut: Vec<std::net::IpAddr>,
    rng: Rng,
    count: u64,
    arriving: BTreeMap<(Time, u64), Flying>,
    leaving: BTreeMap<(Time, u64), Flying>,
    /// The packets that may leave now, and how many of them have been taken.
    ready: (Vec<Flying>, usize),
    now: Time,
}

impl<H: Stack> Impaired<H> {
    pub(crate) fn new(host: H, weather: Weather, seed: u64) -> Self {
        Self {
            host,
            weather,
            cut: Vec::new(),
            rng: Streams { seed, replication: 0 }.stream("weather"),
            count: 0,
            arriving: BTreeMap::new(),
            leaving: BTreeMap::new(),
            ready: (Vec::new(), 0),
            now: Time::ZERO,
        }
    }

    /// The arrival times of the copies of a packet.
    fn fate(&mut self, now: Time, local: std::net::IpAddr) -> Vec<(Time, u64)> {
        if self.cut.contains(&local) || self.rng.bernoulli(self.weather.loss) {
            return Vec::new();
        }
        let copies = 1 + u64::from(self.rng.bernoulli(self.weather.duplication));
        let late =
            if self.rng.bernoulli(self.weather.reordering) { self.weather.late_by } else { Duration::ZERO };
        let at = now + self.weather.delay + late;
        (0..copies)
            .map(|_| {
                self.count += 1;
                (at, self.count)
            })
            .collect()
    }

    fn is_fair(&self) -> bool {
        let Weather { loss, duplication, reordering, delay, marks, .. } = self.weather;
        let is_clear = loss + duplication + reordering + marks == 0.0 && delay.is_zero();
        is_clear && self.cut.is_empty() && self.arriving.is_empty() && self.leaving.is_empty()
    }

    fn mark(&mut self, ecn: Ecn) -> Ecn {
        if ecn != Ecn::NotEct && self.rng.bernoulli(self.weather.marks) { Ecn::Ce } else { ecn }
    }

    fn arrive(&mut self, now: Time) {
        while let Some(entry) = self.arriving.first_entry()
            && entry.key().0 <= now
        {
            let (route, ecn, datagram) = entry.remove();
            self.host.handle_datagram(now, route, ecn, &datagram);
        }
    }

    /// Takes what the host wants sent.
    fn collect(&mut self) {
        let mut taken = Vec::new();
        while let Some(transmit) = self.host.poll_transmit(1) {
            taken.push((transmit.route, transmit.ecn, transmit.bytes.to_vec()));
        }
        for (route, ecn, bytes) in taken {
            let ecn = self.mark(ecn);
            for key in self.fate(self.now, route.local) {
                self.leaving.insert(key, (route, ecn, bytes.clone()));
            }
        }
    }
}

impl<H: Stack> Stack for Impaired<H> {
    const PROTOCOL: u8 = H::PROTOCOL;
    type Event = H::Event;

    fn handle_datagram(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]) {
        self.now = now;
        if self.is_fair() {
            return self.host.handle_datagram(now, route, ecn, datagram);
        }
        let ecn = self.mark(ecn);
        for key in self.fate(now, route.local) {
            self.arriving.insert(key, (route, ecn, datagram.to_vec()));
        }
        self.arrive(now);
    }

    fn next_timeout(&self) -> Time {
        let first = |flying: &BTreeMap<(Time, u64), Flying>| {
            flying.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at)
        };
        self.host.next_timeout().min(first(&self.arriving)).min(first(&self.leaving))
    }

    fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        self.arrive(now);
        if self.host.next_timeout() <= now {
            self.host.handle_timeout(now);
        }
    }

    fn poll_event(&mut self) -> Option<H::Event> {
        self.host.poll_event()
    }

    fn poll_transmit(&mut self, most: usize) -> Option<Transmit<'_>> {
        if self.is_fair() && self.ready.1 == self.ready.0.len() {
            return self.host.poll_transmit(most);
        }
        self.collect();
        if self.ready.1 == self.ready.0.len() {
            self.ready = (Vec::new(), 0);
        }
        while let Some(entry) = self.leaving.first_entry()
            && entry.key().0 <= self.now
        {
            self.ready.0.push(entry.remove());
        }
        let (route, ecn, bytes) = self.ready.0.get(self.ready.1)?;
        self.ready.1 += 1;
        Some(Transmit { route: *route, ecn: *ecn, bytes, segment: bytes.len() })
    }

    fn untransmit(&mut self, count: usize) {
        if self.ready.0.is_empty() { self.host.untransmit(count) } else { self.ready.1 -= count }
    }
}
