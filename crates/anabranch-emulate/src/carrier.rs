//! The loop that carries packets: out of devices into the network, and out of the network into devices when
//! they are due.

use std::sync::mpsc::Receiver;

use anabranch::sim::{Delivery, Emulation, Fate, Inbound};
use anabranch_transport::ground::Side;
use anabranch_transport::report::Row;
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::ip;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tun_rs::SyncDevice;

use crate::capture::Capture;
use crate::clock::Clock;
use crate::flows;
use crate::lateness::Lateness;

/// What the loop is asked to do, and when: packets that were due by then have been written.
pub(crate) type Order = Box<dyn FnOnce(&mut Carrier) + Send>;

/// So many packets are read from a device before it is looked at the clock again.
const BATCH: usize = 64;

/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(100);

/// A packet may be as long as IP allows.
const LONGEST_PACKET: usize = 65_535;

/// What the loop works with.
pub(crate) struct Carrier {
    pub(crate) emulation: Emulation,
    pub(crate) ports: Ports,
    /// What is told to end.
    pub(crate) is_over: bool,
}

/// The devices, and the packets that are on their way between them.
pub(crate) struct Ports {
    clock: Clock,
    /// By path and side.
    devices: Vec<[SyncDevice; 2]>,
    /// The bytes of packets, by handle.
    packets: Vec<Vec<u8>>,
    free: Vec<u32>,
    pub(crate) lateness: Lateness,
    pub(crate) capture: Option<Capture>,
    /// Packets that were no packets of IP, were larger than their path's MTU, or that a device did not take.
    refused: [u64; 3],
}

/// The reasons, as they are counted.
const REFUSALS: [&str; 3] = ["malformed_packets", "too_large_packets", "unwritten_packets"];
const MALFORMED: usize = 0;
const TOO_LARGE: usize = 1;
const UNWRITTEN: usize = 2;

impl Ports {
    pub(crate) fn new(devices: Vec<[SyncDevice; 2]>, clock: Clock, capture: Option<Capture>) -> Self {
        let (packets, free, lateness) = (Vec::new(), Vec::new(), Lateness::default());
        Self { clock, devices, packets, free, lateness, capture, refused: [0; 3] }
    }

    /// A packet has come to its end, or nowhere.
    fn leave(&mut self, Delivery { handle, fate, is_last }: Delivery) {
        if let Fate::Arrived { due, path, side, ecn } = fate {
            let bytes = &mut self.packets[handle as usize];
            if ip::ecn(bytes) != ecn {
                ip::set_ecn(bytes, ecn);
            }
            let is_written = self.devices[path][side.index()].send(bytes).is_ok();
            self.refused[UNWRITTEN] += u64::from(!is_written);
            let now = self.clock.now();
            self.lateness.record(now - due);
            if let Some(capture) = &mut self.capture {
                capture.see(self.clock.time_of_day(now), path, side, bytes, false);
            }
        }
        if is_last {
            self.free.push(handle);
        }
    }

    /// Keeps the bytes of a packet that has been read; what is known of it, unless it is none.
    fn enter(&mut self, now: Time, path: usize, side: Side, bytes: &[u8]) -> Option<Inbound> {
        if let Some(capture) = &mut self.capture {
            capture.see(self.clock.time_of_day(now), path, side, bytes, true);
        }
        let Some((ecn, flow)) = flows::look_at(bytes) else {
            self.refused[MALFORMED] += 1;
            return None;
        };
        let handle = self.free.pop().unwrap_or_else(|| {
            self.packets.push(Vec::new());
            self.packets.len() as u32 - 1
        });
        let kept = &mut self.packets[handle as usize];
        kept.clear();
        kept.extend_from_slice(bytes);
        Some(Inbound { path, side, size: bytes.len() as u32, ecn, flow, handle })
    }
}

impl Carrier {
    /// Carries packets until it is over. `bell` rings when there are orders.
    pub(crate) fn run(mut self, orders: &Receiver<Order>, bell: &std::os::fd::OwnedFd) {
        let mut buffer = vec![0; LONGEST_PACKET];
        while !self.is_over {
            self.catch_up();
            for order in orders.try_iter() {
                order(&mut self);
            }
            let Some(ready) = self.wait(bell) else { continue };
            let now = self.catch_up();
            for path in 0..self.ports.devices.len() {
                for side in [Side::A, Side::B] {
                    if ready[2 * path + side.index()] {
                        self.read(now, path, side, &mut buffer);
                    }
                }
            }
        }
        if let Some(capture) = &mut self.ports.capture {
            // Who ends the loop has asked for it, and heard of what went wrong.
            let _ = capture.flush();
        }
    }

    /// Writes what is due.
    fn catch_up(&mut self) -> Time {
        let now = self.ports.clock.now();
        let Self { emulation, ports, .. } = self;
        emulation.advance(now, &mut |delivery| ports.leave(delivery));
        now
    }

    /// Waits until something is due, comes or is ordered; says which devices have packets, by path and side.
    fn wait(&self, bell: &std::os::fd::OwnedFd) -> Option<Vec<bool>> {
        let now = self.ports.clock.now();
        let ahead = self.emulation.next_event().max(now) - now;
        let spin = self.ports.clock.spin();
        let asleep = if ahead > spin { ahead - spin } else { Duration::ZERO }.min(LONGEST).as_nanos();
        let timeout =
            Timespec { tv_sec: (asleep / 1_000_000_000) as i64, tv_nsec: (asleep % 1_000_000_000) as _ };
        let devices = self.ports.devices.iter().flatten();
        let mut watched: Vec<PollFd<'_>> = devices.map(|device| PollFd::new(device, PollFlags::IN)).collect();
        watched.push(PollFd::new(bell, PollFlags::IN));
        let count = poll(&mut watched, Some(&timeout)).ok()?;
        let is_ready = |polled: &PollFd<'_>| polled.revents().contains(PollFlags::IN);
        if is_ready(&watched[watched.len() - 1]) {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        (count > 0).then(|| watched.iter().map(is_ready).collect())
    }

    /// Reads a batch of packets, which enter the network now.
    fn read(&mut self, now: Time, path: usize, side: Side, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            let Ok(length) = self.ports.devices[path][side.index()].recv(buffer) else { return };
            let Some(packet) = self.ports.enter(now, path, side, &buffer[..length]) else { continue };
            if !self.emulation.send(packet) {
                self.ports.refused[TOO_LARGE] += 1;
                self.ports.free.push(packet.handle);
            }
        }
    }

    /// The scalars of a run, and what is measured here.
    pub(crate) fn row(&mut self) -> Row {
        let mut row = self.emulation.row();
        let mut report = row.section("emulation");
        self.ports.lateness.report(&mut report);
        for (name, count) in REFUSALS.into_iter().zip(self.ports.refused) {
            report.count(name, count);
        }
        row
    }
}
