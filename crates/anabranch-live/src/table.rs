//! The connections of a host, whatever its transport: when they want to be woken, how many of them peers may
//! have, what is to be told of them, and their packets.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Index, IndexMut};

use anabranch_transport::flow::Ecn;
use anabranch_transport::time::Time;

use crate::outbox::{Outbox, Transmit};
use crate::route::Route;
use crate::stack::{Stack, Unreachable};

/// The number of a connection, or of an association, of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// A connection, and when it wants to be woken.
#[derive(Debug)]
struct Entry<L> {
    live: L,
    wakes_at: Time,
}

/// The connections `L` of a host, with events `E`. See the [module](self).
#[derive(Debug)]
pub struct Table<L, E> {
    entries: BTreeMap<Handle, Entry<L>>,
    /// The greatest number given so far.
    last: u64,
    /// When connections want to be woken, at most one time for each.
    alarms: BTreeSet<(Time, Handle)>,
    most_accepted: usize,
    /// The connections that peers have opened, and those of them that are not open yet, the oldest first.
    accepted: BTreeSet<Handle>,
    half_open: BTreeSet<Handle>,
    /// Whether peers may not open connections for the time being.
    pub(crate) is_paused: bool,
    events: VecDeque<(Handle, E)>,
    pub(crate) outbox: Outbox,
    /// Number of datagrams that the host could not read.
    pub(crate) malformed: u64,
}

impl<L, E> Table<L, E> {
    /// An empty table, in which peers may have so many connections.
    pub(crate) fn new(most_accepted: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            last: 0,
            alarms: BTreeSet::new(),
            most_accepted,
            accepted: BTreeSet::new(),
            half_open: BTreeSet::new(),
            is_paused: false,
            events: VecDeque::new(),
            outbox: Outbox::default(),
            malformed: 0,
        }
    }

    /// The name that the next connection draws its numbers by.
    pub(crate) fn next_name(&self) -> String {
        format!("live/{}", self.last + 1)
    }

    /// Adds a connection that this end opens.
    pub(crate) fn add(&mut self, live: L) -> Handle {
        self.last += 1;
        let handle = Handle(self.last);
        self.entries.insert(handle, Entry { live, wakes_at: Time::NEVER });
        handle
    }

    /// Adds a connection that a peer has opened, or is opening.
    pub(crate) fn accept(&mut self, live: L, is_half_open: bool) -> Handle {
        let handle = self.add(live);
        self.accepted.insert(handle);
        if is_half_open {
            self.half_open.insert(handle);
        }
        handle
    }

    /// A connection that a peer is opening is open, or over.
    pub(crate) fn settle(&mut self, handle: Handle) {
        self.half_open.remove(&handle);
    }

    /// A connection is over: it no longer counts as one that its peer has.
    pub(crate) fn discount(&mut self, handle: Handle) {
        self.half_open.remove(&handle);
        self.accepted.remove(&handle);
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<L> {
        let Entry { live, wakes_at } = self.entries.remove(&handle)?;
        self.alarms.remove(&(wakes_at, handle));
        self.discount(handle);
        Some(live)
    }

    /// Whether peers have as many connections as they may, or may open none for the time being.
    pub(crate) fn is_full(&self) -> bool {
        self.is_paused || self.accepted.len() >= self.most_accepted
    }

    /// If peers have as many connections as they may: the oldest of those that are being opened. It gives way
    /// to a new one, as its peer has had the most time to answer (RFC 4987 section 3.4).
    pub(crate) fn gives_way(&self) -> Option<Handle> {
        let is_full = self.accepted.len() >= self.most_accepted;
        self.half_open.first().copied().filter(|_| is_full)
    }

    /// Whether there are connections that peers have opened.
    #[cfg(feature = "quic")]
    pub(crate) fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// Whether a peer has opened a connection.
    #[cfg(feature = "quic")]
    pub(crate) fn is_accepted(&self, handle: Handle) -> bool {
        self.accepted.contains(&handle)
    }

    /// The connections that this end has opened.
    #[cfg(feature = "quic")]
    pub(crate) fn own(&self) -> Vec<Handle> {
        self.entries.keys().copied().filter(|handle| !self.accepted.contains(handle)).collect()
    }

    /// The number of connections that peers are opening.
    #[cfg(feature = "quic")]
    pub(crate) fn half_open(&self) -> usize {
        self.half_open.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&L> {
        self.entries.get(&handle).map(|entry| &entry.live)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut L> {
        self.entries.get_mut(&handle).map(|entry| &mut entry.live)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &L> {
        self.entries.values().map(|entry| &entry.live)
    }

    /// Carries out what a connection wants done: `drain` appends its packets and tells its events, and
    /// returns when it wants to be woken.
    pub(crate) fn drain(
        &mut self,
        handle: Handle,
        drain: impl FnOnce(&mut L, &mut Outbox, &mut dyn FnMut(E)) -> Time,
    ) -> &mut L {
        let entry = self.entries.get_mut(&handle).expect(PRESENT);
        let at =
            drain(&mut entry.live, &mut self.outbox, &mut |event| self.events.push_back((handle, event)));
        if at != entry.wakes_at {
            self.alarms.remove(&(entry.wakes_at, handle));
            entry.wakes_at = at;
            if !at.is_never() {
                self.alarms.insert((at, handle));
            }
        }
        &mut entry.live
    }

    /// Tells of something that has happened to a connection.
    pub(crate) fn tell(&mut self, handle: Handle, event: E) {
        self.events.push_back((handle, event));
    }

    /// When a connection wants to be woken; [`Time::NEVER`] if no timer of it runs.
    pub(crate) fn wakes_at(&self, handle: Handle) -> Time {
        self.entries[&handle].wakes_at
    }

    /// The earliest time at which a connection wants to be woken; [`Time::NEVER`] if there is none.
    fn next_timeout(&self) -> Time {
        self.alarms.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// A connection whose time has come.
    fn due(&self, now: Time) -> Option<Handle> {
        self.alarms.first().filter(|(at, _)| *at <= now).map(|(_, handle)| *handle)
    }
}

/// Who asks for a connection by its handle has found it in an index of the host, which names none that is
/// gone.
const PRESENT: &str = "the connection is in the table";

impl<L, E> Index<Handle> for Table<L, E> {
    type Output = L;

    fn index(&self, handle: Handle) -> &L {
        self.get(handle).expect(PRESENT)
    }
}

impl<L, E> IndexMut<Handle> for Table<L, E> {
    fn index_mut(&mut self, handle: Handle) -> &mut L {
        self.get_mut(handle).expect(PRESENT)
    }
}

/// What differs between the hosts of the transports. All else of a [`Stack`] is done by their tables.
pub trait Tabled: Send + 'static {
    /// As [`Stack::PROTOCOL`].
    const PROTOCOL: u8;
    /// A connection.
    type Live;
    /// What is told of one.
    type Event: Send + 'static;

    /// The connections.
    fn table(&self) -> &Table<Self::Live, Self::Event>;

    /// The connections.
    fn table_mut(&mut self) -> &mut Table<Self::Live, Self::Event>;

    /// As [`Stack::handle_datagram`].
    fn receive(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]);

    /// As [`Stack::handle_unreachable`].
    fn learn_unreachable(&mut self, _now: Time, _unreachable: Unreachable, _quoted: &[u8]) {}

    /// The time has come at which a connection wants to be woken.
    fn wake(&mut self, now: Time, handle: Handle);

    /// Nothing more is read for now: does what was put off until several datagrams had been.
    fn end_batch(&mut self) {}
}

impl<H: Tabled> Stack for H {
    const PROTOCOL: u8 = <H as Tabled>::PROTOCOL;
    type Event = (Handle, <H as Tabled>::Event);

    fn handle_datagram(&mut self, now: Time, route: Route, ecn: Ecn, datagram: &[u8]) {
        self.receive(now, route, ecn, datagram);
    }

    fn handle_unreachable(&mut self, now: Time, unreachable: Unreachable, quoted: &[u8]) {
        self.learn_unreachable(now, unreachable, quoted);
    }

    fn next_timeout(&self) -> Time {
        self.table().next_timeout()
    }

    fn handle_timeout(&mut self, now: Time) {
        while let Some(handle) = self.table().due(now) {
            self.wake(now, handle);
        }
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.end_batch();
        self.table_mut().events.pop_front()
    }

    fn poll_transmit(&mut self, most: usize) -> Option<Transmit<'_>> {
        self.end_batch();
        self.table_mut().outbox.take(most)
    }

    fn untransmit(&mut self, count: usize) {
        self.table_mut().outbox.put_back(count);
    }
}
