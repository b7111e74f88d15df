//! A client, a server and an attacker. The client sends to the server all the time; the attacker sends from
//! any address, and sees what is sent to addresses that are neither of the two.

use std::alloc::System;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anabranch_live::sctp::Route;
use anabranch_live::stack::Stack;
use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::{Rng, Streams};
use anabranch_transport::time::{Duration, Time};
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of packets of an attack if nothing else is said.
pub(crate) const FEW: usize = 1_000;
/// Packets of the whole attack.
pub(crate) const MANY: usize = 100_000;
/// The number of attack packets in a millisecond.
const PER_MILLISECOND: usize = 10;
/// Time to the other end.
const DELAY: Duration = Duration::from_millis(5);
/// IP's header and UDP's, in bytes.
pub(crate) const HEADERS: usize = 28;

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// Memory is counted for the whole process, so only one test runs at a time.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are allocated now.
pub(crate) fn held() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// The time that this thread has had of the processor, in nanoseconds.
fn cpu_time_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn address(host: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, host as u8 + 1])
}

/// An address of the attacker, or one that it makes up.
pub(crate) fn stranger(number: usize) -> IpAddr {
    IpAddr::from([11, (number >> 16) as u8, (number >> 8) as u8, number as u8])
}

/// A host, and what its application does.
pub(crate) trait End {
    type Host: Stack;

    fn host(&mut self) -> &mut Self::Host;

    /// The client's application writes as much as is taken.
    fn feed(&mut self, now: Time);

    fn on_event(&mut self, now: Time, event: <Self::Host as Stack>::Event);

    /// Bytes that the client's peer has been given.
    fn received(&self) -> u64;
}

/// The packets in flight by time and order: the receiver, the route, and the bytes.
type Network = BTreeMap<(Time, u64), (usize, Route, Vec<u8>)>;

/// The hosts and their network.
pub(crate) struct World<E: End> {
    pub(crate) now: Time,
    pub(crate) ends: [E; 2],
    /// The port of UDP that all use, if they do.
    pub(crate) port: Option<u16>,
    network: Network,
    sent: u64,
    /// The last datagram that came to each host from the other one.
    pub(crate) heard: [Vec<u8>; 2],
    /// Packets that were sent to other addresses.
    pub(crate) strays: VecDeque<(Route, Vec<u8>)>,
    /// Datagrams that the hosts have sent to anyone, and their bytes.
    pub(crate) out: [usize; 2],
    pub(crate) rng: Rng,
}

impl<E: End> World<E> {
    pub(crate) fn new(ends: [E; 2], port: Option<u16>) -> Self {
        Self {
            now: Time::ZERO,
            ends,
            port,
            network: BTreeMap::new(),
            sent: 0,
            heard: [Vec::new(), Vec::new()],
            strays: VecDeque::new(),
            out: [0; 2],
            rng: Streams { seed: 1, replication: 0 }.stream("attacker"),
        }
    }

    /// The route by which a datagram from this address arrives at a host.
    pub(crate) fn route(&self, to: usize, from: IpAddr) -> Route {
        Route { local: address(to), remote: from, port: self.port }
    }

    fn exchange(&mut self) {
        for index in [CLIENT, SERVER] {
            while let Some(event) = self.ends[index].host().poll_event() {
                self.ends[index].on_event(self.now, event);
            }
            if index == CLIENT {
                self.ends[index].feed(self.now);
            }
            while let Some(transmit) = self.ends[index].host().poll_transmit(1) {
                let (route, bytes) = (transmit.route, transmit.bytes.to_vec());
                self.out = [self.out[0] + 1, self.out[1] + bytes.len()];
                if route.remote == address(1 - index) {
                    let arrives = Route { local: route.remote, remote: route.local, port: self.port };
                    self.heard[1 - index].clone_from(&bytes);
                    self.sent += 1;
                    self.network.insert((self.now + DELAY, self.sent), (1 - index, arrives, bytes));
                } else {
                    self.strays.push_back((route, bytes));
                }
            }
        }
    }

    /// Gives a host a datagram of the attacker, and returns how much processor time it costs, in nanoseconds.
    pub(crate) fn inject(&mut self, to: usize, from: IpAddr, bytes: &[u8]) -> u64 {
        let route = self.route(to, from);
        let start = cpu_time_ns();
        self.ends[to].host().handle_datagram(self.now, route, Ecn::NotEct, bytes);
        let taken = cpu_time_ns() - start;
        self.exchange();
        taken
    }

    pub(crate) fn run_for(&mut self, length: Duration) {
        let end = self.now + length;
        loop {
            self.exchange();
            let arrival = self.network.first_key_value().map_or(Time::NEVER, |((at, _), _)| *at);
            let timers = [CLIENT, SERVER].map(|index| self.ends[index].host().next_timeout());
            let next = arrival.min(timers[0]).min(timers[1]);
            if next > end || next.is_never() {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if arrival <= self.now {
                let (_, (to, route, bytes)) = self.network.pop_first().expect("it arrives now");
                self.ends[to].host().handle_datagram(self.now, route, Ecn::NotEct, &bytes);
            } else {
                for (index, timer) in timers.into_iter().enumerate() {
                    if timer <= self.now {
                        self.ends[index].host().handle_timeout(self.now);
                    }
                }
            }
        }
    }

    /// Loses all packets in flight.
    pub(crate) fn lose(&mut self) {
        self.network.clear();
    }

    /// The bytes of the last packet sent to other addresses since the last call.
    pub(crate) fn answer(&mut self) -> Option<Vec<u8>> {
        let last = self.strays.pop_back().map(|(_, bytes)| bytes);
        self.strays.clear();
        last
    }

    /// Runs a transfer without an attack: only its queues grow and shrink.
    pub(crate) fn assert_steady(mut self) {
        let _alone = alone();
        let mut most_in = |seconds: u64| {
            let seconds = (0..10 * seconds).map(|_| {
                self.run_for(Duration::from_millis(100));
                held()
            });
            seconds.max().expect("some time passes")
        };
        let (early, late) = (most_in(10), most_in(40));
        assert!(late < early + (256 << 10), "{early} bytes at first, {late} later");
    }

    /// An attack: `forge` makes the packet of this number, which comes to a host from an address. Before it
    /// and beside it the client sends to the server, for the same time.
    pub(crate) fn attack(
        &mut self,
        count: usize,
        mut forge: impl FnMut(&mut Self, usize) -> (usize, IpAddr, Vec<u8>),
    ) -> Numbers {
        let length = Duration::from_millis((count / PER_MILLISECOND) as u64).max(Duration::from_millis(500));
        self.run_for(Duration::from_millis(500));
        let before = self.ends[SERVER].received();
        self.run_for(length);
        let alone = self.ends[SERVER].received() - before;
        self.answer();
        let (memory_before, received_before) = (held(), self.ends[SERVER].received());
        let end = self.now + length;
        let (mut taken_ns, mut answers, mut asked_bytes, mut answer_bytes) = (0, 0, 0, 0);
        for number in 0..count {
            let (to, from, bytes) = forge(self, number);
            asked_bytes += bytes.len() + HEADERS;
            let out = self.out;
            let is_known = from == address(1 - to);
            taken_ns += self.inject(to, from, &bytes);
            if is_known {
                answers += self.out[0] - out[0];
            } else {
                answers += self.strays.len();
                answer_bytes += self.strays.iter().map(|(_, bytes)| bytes.len() + HEADERS).sum::<usize>();
                self.strays.clear();
            }
            if number % PER_MILLISECOND == PER_MILLISECOND - 1 {
                self.run_for(Duration::from_millis(1));
            }
        }
        if self.now < end {
            self.run_for(Duration::from_nanos(end.saturating_since(self.now).as_nanos()));
        }
        self.strays.clear();
        let beside = self.ends[SERVER].received() - received_before;
        Numbers {
            packets: count,
            ns_per_packet: taken_ns / count as u64,
            memory: [memory_before, held()],
            answers,
            amplification: answer_bytes as f64 / asked_bytes as f64,
            goodput: if alone == 0 { f64::NAN } else { beside as f64 / alone as f64 },
        }
    }
}

/// The results of an attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) packets: usize,
    pub(crate) ns_per_packet: u64,
    /// Bytes that are allocated before and after it.
    pub(crate) memory: [usize; 2],
    /// Packets that were sent in answer.
    pub(crate) answers: usize,
    /// Bytes of answers to a byte of the attack, headers of IP and UDP included.
    pub(crate) amplification: f64,
    /// The goodput of the transfer beside it, relative to that of one alone.
    pub(crate) goodput: f64,
}

impl Numbers {
    /// Bytes that are held more than before.
    pub(crate) const fn grown(&self) -> usize {
        self.memory[1].saturating_sub(self.memory[0])
    }

    /// Checks what must hold for every attack: memory as before, and a transfer that goes on.
    #[track_caller]
    pub(crate) fn check(self) -> Self {
        // The queues of the transfer grow and shrink.
        self.check_within(512 << 10)
    }

    /// The same, where this many more bytes may be held.
    #[track_caller]
    pub(crate) fn check_within(self, bytes: usize) -> Self {
        assert!(self.grown() <= bytes, "{self:?}: {} bytes more", self.grown());
        assert!(self.goodput >= 0.95, "{self:?}");
        self
    }
}

/// Does an attack, and writes its numbers where they are asked for.
pub(crate) fn perform(name: &str, attack: impl Fn(usize) -> Numbers, count: usize) {
    let _alone = alone();
    let numbers = attack(count);
    let name = name.trim_start_matches("attack::");
    println!("{name}: {numbers:?}");
    if count == MANY && std::env::var("ANABRANCH_SECURITY").as_deref() == Ok("write") {
        write(name, &numbers);
    }
}

/// Puts a row into the table of docs/security.md.
fn write(name: &str, numbers: &Numbers) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = std::fs::read_to_string(path).expect("there is the page");
    let start = format!("| `{name}` |");
    let kib = |bytes: usize| format!("{:.0}", bytes as f64 / 1024.0);
    let row = format!(
        "{start} {} | {} | {} | {} | {} | {:.2} | {} |",
        numbers.packets,
        numbers.ns_per_packet,
        kib(numbers.memory[0]),
        kib(numbers.memory[1]),
        numbers.answers,
        numbers.amplification,
        if numbers.goodput.is_nan() { "-".into() } else { format!("{:.2}", numbers.goodput) },
    );
    let mut lines: Vec<&str> = page.lines().collect();
    let rows =
        lines.iter().position(|line| line.starts_with("| numbers of |")).expect("there is a table") + 2;
    let end = rows + lines[rows..].iter().take_while(|line| line.starts_with('|')).count();
    if let Some(at) = lines[rows..end].iter().position(|line| line.starts_with(&start)) {
        lines[rows + at] = &row;
    } else {
        let at = lines[rows..end].partition_point(|line| *line < row.as_str());
        lines.insert(rows + at, &row);
    }
    std::fs::write(path, lines.join("\n") + "\n").expect("it can be written");
}

/// Two tests of an attack: few packets, and all of them.
macro_rules! attacks {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        mod $name {
            use crate::world::{FEW, MANY, perform};

            #[test]
            fn few() {
                perform(module_path!(), super::$name, FEW);
            }

            #[test]
            #[ignore = "100,000 packets"]
            fn many() {
                perform(module_path!(), super::$name, MANY);
            }
        }
    )*};
}
pub(crate) use attacks;
