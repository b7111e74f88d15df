//! A host on sockets: one thread, however many connections there are.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use anabranch_transport::flow::Ecn;
use anabranch_transport::rng::Streams;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::Time;
use mio::{Events, Interest, Poll, Registry, Token, Waker};

use crate::clock::Clock;
use crate::outbox::Transmit;
use crate::raw::Raw;
use crate::route::Route;
use crate::sctp::{self, Settings};
use crate::secrets;
use crate::stack::Stack;
use crate::tun::{Tun, TunDevice};
use crate::udp::{Buffers, Udp, is_of_icmp};

/// How many batches are read from a socket before others have their turn.
const MOST_BATCHES: usize = 8;
/// For how many pairs of addresses the device is remembered, at most.
const MOST_NOTED: usize = 4096;
/// The token of the waker; sockets have theirs from 0 on.
const WAKER: Token = Token(usize::MAX);

/// How packets are carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// IP itself, where the system permits it (SCTP).
    Ip,
    /// IP through these devices, behind which the addresses are.
    Tun(Vec<TunDevice>),
    /// UDP, at this port of this end; 0 for any (SCTP, RFC 6951).
    Udp(u16),
}

/// The settings of a driver.
#[derive(Clone, Debug)]
pub struct DriverSettings {
    /// Addresses to bind to. If there are none, all that the system has, between which it chooses, or all
    /// behind the devices.
    pub addresses: Vec<IpAddr>,
    /// How packets are carried.
    pub carrier: Carrier,
    /// The largest IP packet in bytes.
    pub mtu: u32,
    /// How many associations that peers have opened may exist at the same time.
    pub most_accepted: usize,
    /// A secret shared with the peers, as in [`Settings`]; empty if there is none.
    pub shared_key: Vec<u8>,
}

/// Something to be done with the host.
type Job<H> = Box<dyn FnOnce(&mut H, Time) + Send>;

/// An order to a driver's thread.
enum Order<H> {
    /// Use this address for packets as well.
    Bind(IpAddr, Sender<Result<(), String>>),
    /// Use other sockets: at this port of UDP, of these addresses, or of those of before.
    Rebind(u16, Option<Vec<IpAddr>>, Sender<Result<Rebound, String>>),
    Do(Job<H>),
    Stop,
}

/// The port of UDP, and the addresses that sockets are bound to.
pub type Rebound = (u16, Vec<IpAddr>);

/// A driver that is running. When it is dropped, it stops.
#[derive(Debug)]
pub struct Driver<H = sctp::Host> {
    orders: Sender<Order<H>>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
    /// That of UDP; 0 where packets are not carried in it.
    port: AtomicU16,
    /// Why the thread has ended without being stopped.
    failure: Arc<OnceLock<String>>,
}

/// Gets the events of a driver, the earliest first. It is called from the driver's thread, holds up
/// everything while it runs, and may use the host directly.
pub type Listener<H = sctp::Host> = Box<dyn FnMut(&mut H, Time, Vec<<H as Stack>::Event>) + Send>;

/// The sources of a host's random numbers.
#[derive(Debug)]
pub struct Randomness {
    /// The source of numbers that strangers must not guess.
    pub secret: Secret,
    /// The source of all other numbers.
    pub streams: Streams,
}

impl Driver {
    /// Binds the sockets and starts the thread, with a host of SCTP.
    ///
    /// # Errors
    /// When a socket cannot be bound: one sentence that names the address, and what is missing.
    pub fn start(settings: DriverSettings, listener: Listener) -> Result<Self, String> {
        let host = Self::sctp_host(&settings);
        Self::drive(settings, host, listener)
    }

    /// Makes a host of SCTP that fits these settings.
    pub fn sctp_host(
        settings: &DriverSettings,
    ) -> impl FnOnce(Vec<IpAddr>, Randomness) -> sctp::Host + use<> {
        let (mtu, most_accepted) = (settings.mtu, settings.most_accepted);
        let shared_key = settings.shared_key.clone();
        let is_in_udp = matches!(settings.carrier, Carrier::Udp(_));
        move |addresses, Randomness { secret, streams }| {
            let offers_extensions = true;
            let settings =
                Settings { addresses, mtu, is_in_udp, most_accepted, offers_extensions, shared_key };
            sctp::Host::new(settings, secret, streams)
        }
    }
}

impl<H: Stack> Driver<H> {
    /// Binds the sockets and starts the thread, with the host that is made from its addresses.
    ///
    /// # Errors
    /// When a socket cannot be bound: one sentence that names the address, and what is missing.
    pub fn drive(
        settings: DriverSettings,
        host: impl FnOnce(Vec<IpAddr>, Randomness) -> H,
        listener: Listener<H>,
    ) -> Result<Self, String> {
        let DriverSettings { mut addresses, mut carrier, mtu, .. } = settings;
        if let (Carrier::Tun(devices), true) = (&carrier, addresses.is_empty()) {
            addresses = devices.iter().flat_map(|device| device.addresses.clone()).collect();
        }
        let sockets = bind::<H>(&addresses, &carrier, mtu)?;
        let port = match sockets.first() {
            Some(Socket::Udp(udp)) => Some(udp.port().map_err(|error| error.to_string())?),
            _ => None,
        };
        if let (Carrier::Udp(own), Some(port)) = (&mut carrier, port) {
            *own = port;
        }
        let start = || -> io::Result<Started<H>> {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
            let random = Randomness { secret: secrets::secret()?, streams: secrets::streams()? };
            let host = host(addresses, random);
            let (orders, inbox) = channel();
            let (clock, buffers) = (Clock::start(), Buffers::new());
            let devices = BTreeMap::new();
            let mut driver = Loop {
                host,
                sockets,
                carrier,
                mtu,
                poll,
                clock,
                inbox,
                listener,
                buffers,
                devices,
                is_blocked: false,
            };
            driver.register()?;
            Ok((driver, waker, orders))
        };
        let (mut driver, waker, orders) =
            start().map_err(|error| format!("the driver cannot start: {error}"))?;
        let failure = Arc::new(OnceLock::new());
        let told = Arc::clone(&failure);
        let work = move || {
            // After a panic, nothing that the thread worked with is used.
            let end = catch_unwind(AssertUnwindSafe(|| driver.run()));
            let why = match end {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.to_string(),
                Err(panic) => format!("this is a bug: {}", panic_message(&*panic)),
            };
            // Who is told finds the ports free.
            driver.sockets.clear();
            let _ = told.set(format!("the endpoint's thread has ended: {why}"));
        };
        let thread = std::thread::Builder::new()
            .name("anabranch-live".into())
            .spawn(work)
            .map_err(|error| format!("the driver cannot start: {error}"))?;
        let port = AtomicU16::new(port.unwrap_or_default());
        Ok(Self { orders, waker, thread: Some(thread), port, failure })
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

impl<H> Driver<H> {
    /// Why the thread has ended without being stopped, in one sentence: a panic, or an error of the
    /// system. By then its sockets are closed, orders are not carried out, and [`ask`](Self::ask) has no
    /// answer.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The port of UDP, where packets are carried in it.
    pub fn udp_port(&self) -> Option<u16> {
        let port = self.port.load(Ordering::Relaxed);
        (port > 0).then_some(port)
    }

    /// Lets the driver's thread do something with the host.
    pub fn order(&self, job: impl FnOnce(&mut H, Time) + Send + 'static) {
        // A driver that has stopped ignores this.
        let _ = self.orders.send(Order::Do(Box::new(job)));
        let _ = self.waker.wake();
    }

    /// Lets the driver's thread do something with the host and waits for the answer; [`None`] if the driver
    /// has stopped.
    pub fn ask<T: Send + 'static>(&self, job: impl FnOnce(&mut H, Time) -> T + Send + 'static) -> Option<T> {
        let (answer, inbox) = channel();
        self.order(move |host, now| {
            let _ = answer.send(job(host, now));
        });
        inbox.recv().ok()
    }

    /// Uses this address for packets in both directions.
    ///
    /// # Errors
    /// When no socket can be bound there: one sentence.
    pub fn bind(&self, address: IpAddr) -> Result<(), String> {
        let (answer, inbox) = channel();
        let _ = self.orders.send(Order::Bind(address, answer));
        let _ = self.waker.wake();
        inbox.recv().unwrap_or_else(|_| Err("the driver has stopped".into()))
    }

    /// Uses other sockets in the place of those of UDP: at this port, 0 for any, of these addresses or of
    /// those of before. Says what they are.
    ///
    /// # Errors
    /// When they cannot be bound, and those of before stay: one sentence.
    pub fn rebind(&self, port: u16, addresses: Option<Vec<IpAddr>>) -> Result<Rebound, String> {
        let (answer, inbox) = channel();
        let _ = self.orders.send(Order::Rebind(port, addresses, answer));
        let _ = self.waker.wake();
        let rebound = inbox.recv().unwrap_or_else(|_| Err("the driver has stopped".into()))?;
        self.port.store(rebound.0, Ordering::Relaxed);
        Ok(rebound)
    }

    /// Stops the thread. Associations are not closed; their peers will notice that this end is gone.
    pub fn stop(&mut self) {
        let _ = self.orders.send(Order::Stop);
        let _ = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl<H> Drop for Driver<H> {
    fn drop(&mut self) {
        self.stop();
    }
}

enum Socket {
    Raw(Raw),
    Tun(Tun),
    Udp(Udp),
}

impl Socket {
    /// Whether packets from this address leave through this socket.
    fn has(&self, local: IpAddr) -> bool {
        match self {
            Self::Raw(raw) => raw.local == local,
            Self::Tun(tun) => tun.has(local),
            Self::Udp(udp) => udp.local == local,
        }
    }

    /// Whether the socket is bound to no address, so that packets from this one leave through it as well.
    const fn is_for_any(&self, local: IpAddr) -> bool {
        let bound = match self {
            Self::Raw(raw) => raw.local,
            Self::Tun(_) => return false,
            Self::Udp(udp) => udp.local,
        };
        bound.is_unspecified() && bound.is_ipv4() == local.is_ipv4()
    }

    /// Whether packets to this address can leave through this socket.
    fn reaches(&self, remote: IpAddr) -> bool {
        match self {
            Self::Raw(raw) => raw.local.is_ipv4() == remote.is_ipv4(),
            Self::Tun(tun) => tun.speaks_version_of(remote),
            Self::Udp(udp) => udp.local.is_ipv4() == remote.is_ipv4(),
        }
    }

    fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Raw(raw) => registry.register(&mut raw.io, token, interest),
            Self::Tun(tun) => tun.register(registry, token, interest),
            Self::Udp(udp) => registry.register(&mut udp.io, token, interest),
        }
    }

    fn most_segments(&self) -> usize {
        match self {
            Self::Raw(_) | Self::Tun(_) => 1,
            Self::Udp(udp) => udp.most_segments(),
        }
    }
}

/// Opens a socket for each address, or for each version of IP; or the devices.
fn bind<H: Stack>(addresses: &[IpAddr], carrier: &Carrier, mtu: u32) -> Result<Vec<Socket>, String> {
    if let Carrier::Tun(devices) = carrier {
        let open = |device| Tun::open(device, addresses, H::PROTOCOL, mtu).map(Socket::Tun);
        return devices.iter().map(open).collect();
    }
    let any = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
    let wanted = if addresses.is_empty() { &any[..] } else { addresses };
    let mut sockets = Vec::new();
    let is_in_udp = matches!(carrier, Carrier::Udp(_));
    let mut port = match carrier {
        Carrier::Udp(port) => *port,
        _ => 0,
    };
    for &address in wanted {
        let socket = if is_in_udp {
            Udp::bind(address, port).map(Socket::Udp)
        } else {
            Raw::bind(address).map(Socket::Raw)
        };
        match socket {
            Ok(socket) => {
                // All sockets have the same port.
                if let Socket::Udp(udp) = &socket {
                    port = udp.port().map_err(|error| error.to_string())?;
                }
                sockets.push(socket);
            }
            // A system may have only one version of IP.
            Err(_) if addresses.is_empty() && address.is_ipv6() => {}
            Err(error) if !is_in_udp && error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(format!(
                    "SCTP over IP at {address} needs root or the capability CAP_NET_RAW: run it as root, give the program \
                     the capability (setcap cap_net_raw+ep), or use SCTP over UDP, which needs neither"
                ));
            }
            Err(error) => {
                let place = if is_in_udp {
                    format!("address = {address}, UDP port {port}")
                } else {
                    format!("address = {address}")
                };
                return Err(format!("{place} cannot be bound: {error}"));
            }
        }
    }
    Ok(sockets)
}

/// What the thread works with, and what it receives orders through.
type Started<H> = (Loop<H>, Arc<Waker>, Sender<Order<H>>);

/// The thread.
struct Loop<H: Stack> {
    host: H,
    sockets: Vec<Socket>,
    /// The carrier, with the port that all UDP sockets have.
    carrier: Carrier,
    mtu: u32,
    poll: Poll,
    clock: Clock,
    inbox: Receiver<Order<H>>,
    listener: Listener<H>,
    buffers: Buffers,
    /// The device through which packets between two addresses last came, if there are several; answers leave
    /// there.
    devices: BTreeMap<(IpAddr, IpAddr), usize>,
    /// Whether a socket has no room for what is to be sent.
    is_blocked: bool,
}

impl<H: Stack> Loop<H> {
    fn register(&mut self) -> io::Result<()> {
        for (index, socket) in self.sockets.iter_mut().enumerate() {
            socket.register(self.poll.registry(), Token(index))?;
        }
        Ok(())
    }

    fn bind(&mut self, address: IpAddr) -> Result<(), String> {
        if self.sockets.iter().any(|socket| socket.has(address) || socket.is_for_any(address)) {
            return Ok(());
        }
        if matches!(self.carrier, Carrier::Tun(_)) {
            return Err(format!("address = {address} is behind none of the devices"));
        }
        for mut socket in bind::<H>(&[address], &self.carrier, self.mtu)? {
            socket
                .register(self.poll.registry(), Token(self.sockets.len()))
                .map_err(|error| format!("address = {address} cannot be bound: {error}"))?;
            self.sockets.push(socket);
        }
        Ok(())
    }

    fn rebind(&mut self, port: u16, addresses: Option<Vec<IpAddr>>) -> Result<Rebound, String> {
        if !matches!(self.carrier, Carrier::Udp(_)) {
            return Err("there are no sockets of UDP".into());
        }
        let before = self.sockets.iter().filter_map(|socket| match socket {
            Socket::Udp(udp) => Some(udp.local),
            _ => None,
        });
        let addresses = addresses.unwrap_or_else(|| before.collect());
        let mut sockets = bind::<H>(&addresses, &Carrier::Udp(port), self.mtu)?;
        for (index, socket) in sockets.iter_mut().enumerate() {
            socket
                .register(self.poll.registry(), Token(index))
                .map_err(|error| format!("UDP port {port} cannot be used: {error}"))?;
        }
        let Some(Socket::Udp(first)) = sockets.first() else { return Err("there is no address".into()) };
        let port = first.port().map_err(|error| error.to_string())?;
        (self.sockets, self.carrier, self.is_blocked) = (sockets, Carrier::Udp(port), false);
        Ok((port, addresses.into_iter().filter(|address| !address.is_unspecified()).collect()))
    }

    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        // Sockets from which there may be more to read.
        let mut ready = vec![false; self.sockets.len()];
        loop {
            let timeout = if ready.contains(&true) { Some(StdDuration::ZERO) } else { self.timeout() };
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
            for event in &events {
                if event.token() == WAKER {
                    continue;
                }
                ready[event.token().0] |= event.is_readable() || event.is_error();
                self.is_blocked &= !event.is_writable();
            }
            for (index, is_ready) in ready.iter_mut().enumerate() {
                *is_ready = *is_ready && self.receive(index);
            }
            while let Ok(order) = self.inbox.try_recv() {
                match order {
                    Order::Bind(address, answer) => {
                        let _ = answer.send(self.bind(address));
                        ready.resize(self.sockets.len(), false);
                    }
                    Order::Rebind(port, addresses, answer) => {
                        let rebound = self.rebind(port, addresses);
                        ready = vec![false; self.sockets.len()];
                        let _ = answer.send(rebound);
                    }
                    Order::Do(job) => job(&mut self.host, self.clock.now()),
                    Order::Stop => {
                        self.drain();
                        return Ok(());
                    }
                }
            }
            let now = self.clock.now();
            if self.host.next_timeout() <= now {
                self.host.handle_timeout(now);
            }
            self.drain();
        }
    }

    /// How long nothing has to be done; `None` means until something arrives.
    fn timeout(&self) -> Option<StdDuration> {
        let next = self.host.next_timeout();
        if next.is_never() {
            return None;
        }
        Some(StdDuration::from_nanos(next.saturating_since(self.clock.now()).as_nanos()))
    }

    /// Reads for a while. Returns whether there may be more.
    fn receive(&mut self, index: usize) -> bool {
        let Self { host, sockets, clock, buffers, .. } = self;
        if let Socket::Udp(udp) = &sockets[index] {
            udp.errors(buffers, |said, quoted| host.handle_unreachable(clock.now(), said, quoted));
        }
        for _ in 0..MOST_BATCHES {
            let Self { host, sockets, clock, buffers, devices, .. } = self;
            let now = clock.now();
            let is_one = sockets.len() == 1;
            let mut each =
                |route: Route, ecn: Ecn, datagram: &[u8]| host.handle_datagram(now, route, ecn, datagram);
            let read = match &sockets[index] {
                Socket::Raw(raw) => {
                    raw.receive(buffers, |route, datagram| each(route, Ecn::NotEct, datagram))
                }
                Socket::Tun(tun) => tun.receive(buffers, |route: Route, ecn, datagram: &[u8]| {
                    if !is_one {
                        record_device(devices, route, index);
                    }
                    each(route, ecn, datagram);
                }),
                Socket::Udp(udp) => udp.receive(buffers, each),
            };
            match read {
                Ok(()) => self.drain(),
                // What came back from a peer that is not there.
                Err(error) if is_of_icmp(&error) => {}
                Err(error) => return error.kind() == io::ErrorKind::Interrupted,
            }
        }
        true
    }

    /// Sends everything that is to be sent, and tells everything that is to be told.
    fn drain(&mut self) {
        loop {
            self.transmit();
            let told: Vec<_> = std::iter::from_fn(|| self.host.poll_event()).collect();
            if told.is_empty() {
                return;
            }
            (self.listener)(&mut self.host, self.clock.now(), told);
        }
    }

    fn transmit(&mut self) {
        let most = self.sockets.iter().map(Socket::most_segments).min().unwrap_or(1);
        while !self.is_blocked {
            let Some(transmit) = self.host.poll_transmit(most) else { return };
            let count = transmit.bytes.len().div_ceil(transmit.segment);
            let (sent, result) = send(&self.sockets, &self.devices, &transmit);
            // A packet that cannot be sent for another reason counts as lost in the network.
            if let Err(error) = result
                && error.kind() == io::ErrorKind::WouldBlock
            {
                self.host.untransmit(count - sent);
                self.is_blocked = true;
            }
        }
    }
}

/// Notes the device through which packets between two addresses come.
fn record_device(devices: &mut BTreeMap<(IpAddr, IpAddr), usize>, route: Route, index: usize) {
    let key = (route.local, route.remote);
    if devices.get(&key) == Some(&index) {
        return;
    }
    // A stranger who makes up addresses can cost no more memory than this.
    if devices.len() >= MOST_NOTED {
        devices.clear();
    }
    devices.insert(key, index);
}

/// Sends through the device that the peer's packets come through, from the socket of the route's address, or
/// from one of the same version of IP.
fn send(
    sockets: &[Socket],
    devices: &BTreeMap<(IpAddr, IpAddr), usize>,
    transmit: &Transmit<'_>,
) -> (usize, io::Result<()>) {
    let Route { local, remote, .. } = transmit.route;
    let noted = devices.get(&(local, remote)).map(|index| &sockets[*index]);
    let own = noted.or_else(|| sockets.iter().find(|socket| socket.has(local)));
    let of_version = || sockets.iter().find(|socket| socket.reaches(remote));
    match own.or_else(of_version) {
        Some(Socket::Raw(raw)) => raw.send(transmit),
        Some(Socket::Tun(tun)) => tun.send(transmit),
        Some(Socket::Udp(udp)) => match udp.send(transmit) {
            Ok(()) => (transmit.bytes.len().div_ceil(transmit.segment), Ok(())),
            Err(error) => (0, Err(error)),
        },
        None => (0, Ok(())),
    }
}
