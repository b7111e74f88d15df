//! The loop that carries packets: out of devices into the network, and out of the network into devices when
//! they are due.

use std::sync::mpsc::Receiver;

use anabranch::sim::{Delivery, DeliveryStatus, Emulation, Inbound, Outcome};
use anabranch_transport::flow::Side;
use anabranch_transport::report::{Declared, Report, Row, declare};
use anabranch_transport::time::{Duration, Time};
use anabranch_transport::wire::ip;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::capture::Capture;
use crate::clock::{self, Clock};
use crate::device::Device;
use crate::duty_cycle::{DutyCycle, REST};
use crate::flows;
use crate::kernel::{Sockets, Watched};
use crate::lateness::Lateness;
use crate::system;
use crate::veth::Came;

/// Work that the loop does between two rounds, when all packets that were due have been written.
pub(crate) type Order = Box<dyn FnOnce(&mut Carrier) + Send>;

/// How many packets are read from a device before the clock is read again.
const BATCH: usize = 64;

/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(100);

/// What the loop works with.
pub(crate) struct Carrier {
    pub(crate) emulation: Emulation,
    pub(crate) ports: Ports,
    /// The sockets of the flows, if the kernel runs them.
    pub(crate) sockets: Option<Sockets>,
    pub(crate) duty: DutyCycle,
    /// Whether the loop has been told to end.
    pub(crate) is_over: bool,
}

/// Which devices and sockets are ready.
struct Ready {
    /// Whether each device can be read, by path and side.
    devices: Vec<bool>,
    sockets: Vec<(Watched, PollFlags)>,
}

/// The devices, and the packets that are on their way between them.
pub(crate) struct Ports {
    clock: Clock,
    /// The devices by path and side.
    devices: Vec<[Device; 2]>,
    /// The bytes of packets, by handle.
    packets: Vec<Vec<u8>>,
    free: Vec<u32>,
    pub(crate) lateness: Lateness,
    pub(crate) capture: Option<Capture>,
    /// Packets that were not of IP, that were larger than their path's MTU, that a device did not take, or
    /// that had been left to a device's hardware to finish.
    refused: [u64; 4],
}

declare! {
    /// The scalars of the devices.
    SCALARS:
    /// Packets refused because they were not of IP.
    MALFORMED_PACKETS = "malformed_packets": One;
    /// Packets refused because they were larger than their path's MTU.
    TOO_LARGE_PACKETS = "too_large_packets": One;
    /// Packets that a device did not take.
    UNWRITTEN_PACKETS = "unwritten_packets": One;
    /// Packets refused because they had been left to a device's hardware to finish.
    UNFINISHED_PACKETS = "unfinished_packets": One;
    /// Packets that were not read in time.
    OVERRUN_PACKETS = "overrun_packets": One;
}

/// The reasons, as they are counted.
const REFUSALS: [Declared; 4] = [MALFORMED_PACKETS, TOO_LARGE_PACKETS, UNWRITTEN_PACKETS, UNFINISHED_PACKETS];
const MALFORMED: usize = 0;
const TOO_LARGE: usize = 1;
const UNWRITTEN: usize = 2;
const UNFINISHED: usize = 3;

impl Ports {
    pub(crate) fn new(devices: Vec<[Device; 2]>, clock: Clock, capture: Option<Capture>) -> Self {
        let (packets, free, lateness) = (Vec::new(), Vec::new(), Lateness::default());
        Self { clock, devices, packets, free, lateness, capture, refused: [0; 4] }
    }

    /// Handles a packet that has come to its end, or has been lost.
    fn leave(&mut self, Delivery { handle, status, is_last }: Delivery) {
        if let DeliveryStatus::Arrived { due, path, side, ecn } = status {
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

    /// Writes how late packets were, and how many were refused or not read.
    fn report(&mut self, report: &mut Report<'_>) {
        self.lateness.report(report);
        for (declared, count) in REFUSALS.into_iter().zip(self.refused) {
            report.count(declared, count);
        }
        report.count(OVERRUN_PACKETS, self.devices.iter_mut().flatten().map(Device::overruns).sum());
    }

    /// Reads a batch of packets. `send` takes them into the network and returns whether it has, which it does
    /// not with packets that are too large.
    fn read(&mut self, now: Time, path: usize, side: Side, mut send: impl FnMut(Inbound) -> bool) {
        for _ in 0..BATCH {
            let handle = self.free.pop().unwrap_or_else(|| {
                self.packets.push(Vec::new());
                self.packets.len() as u32 - 1
            });
            let refusal = match self.devices[path][side.index()].receive(&mut self.packets[handle as usize]) {
                Came::Nothing => {
                    self.free.push(handle);
                    return;
                }
                Came::Unfinished => Some(UNFINISHED),
                Came::Packet => match self.look(now, path, side, handle) {
                    None => Some(MALFORMED),
                    Some(packet) => (!send(packet)).then_some(TOO_LARGE),
                },
            };
            if let Some(reason) = refusal {
                self.refused[reason] += 1;
                self.free.push(handle);
            }
        }
    }

    /// The description of a packet that has been read; `None` if it is not a valid one.
    fn look(&mut self, now: Time, path: usize, side: Side, handle: u32) -> Option<Inbound> {
        let bytes = &self.packets[handle as usize];
        if let Some(capture) = &mut self.capture {
            capture.see(self.clock.time_of_day(now), path, side, bytes, true);
        }
        let (ecn, flow) = flows::look_at(bytes)?;
        Some(Inbound { path, side, size: bytes.len() as u32, ecn, flow, dscp: ip::dscp(bytes), handle })
    }
}

impl Carrier {
    /// Carries packets until it is over. `bell` rings when there are orders.
    pub(crate) fn run(mut self, orders: &Receiver<Order>, bell: &std::os::fd::OwnedFd) -> Self {
        if let Some(sockets) = &mut self.sockets {
            sockets.observe(&mut self.emulation);
            sockets.execute(&mut self.emulation);
        }
        while !self.is_over {
            self.catch_up();
            for order in orders.try_iter() {
                order(&mut self);
            }
            if self.sockets.is_some() && self.emulation.is_over() {
                break;
            }
            let Some(ready) = self.wait(bell) else { continue };
            let now = self.catch_up();
            for path in 0..self.ports.devices.len() {
                for side in [Side::A, Side::B] {
                    if ready.devices[2 * path + side.index()] {
                        let Self { emulation, ports, .. } = &mut self;
                        ports.read(now, path, side, |packet| emulation.send(packet));
                    }
                }
            }
            if let Some(sockets) = &mut self.sockets {
                sockets.handle(&ready.sockets, &mut self.emulation);
            }
        }
        self
    }

    /// Writes all packets that are due.
    fn catch_up(&mut self) -> Time {
        let now = self.ports.clock.now();
        let Self { emulation, ports, sockets, .. } = self;
        while emulation.advance(now, &mut |delivery| ports.leave(delivery)) {
            // What an application orders is done before it gets further events.
            match sockets {
                Some(sockets) => sockets.execute(emulation),
                None => emulation.take_commands(&mut |_, _, _| {}),
            }
        }
        if let Some(sockets) = sockets {
            sockets.look(now, emulation);
        }
        now
    }

    /// The results that a run of the scenario has, and the measured lateness.
    pub(crate) fn finish(self) -> Result<Outcome, String> {
        let Self { mut emulation, mut ports, sockets, .. } = self;
        let mut sections = Row::default();
        if let Some(mut sockets) = sockets {
            sockets.observe(&mut emulation);
            sockets.report(&mut sections.section("emulation"));
        }
        ports.report(&mut sections.section("emulation"));
        let mut outcome = emulation.finish();
        outcome.row.append(sections);
        if let Some(capture) = &mut ports.capture {
            capture.flush()?;
        }
        Ok(outcome)
    }

    /// Waits until something is due, comes or is ordered. Returns where there is something to read or to
    /// write.
    fn wait(&mut self, bell: &std::os::fd::OwnedFd) -> Option<Ready> {
        let now = self.ports.clock.now();
        let spin = self.spin(now)?;
        let own = self.sockets.as_ref().map_or(Time::NEVER, Sockets::next_event);
        let ahead = self.emulation.next_event().min(own).max(now) - now;
        let asleep = if ahead > spin { ahead - spin } else { Duration::ZERO }.min(LONGEST).as_nanos();
        let timeout =
            Timespec { tv_sec: (asleep / 1_000_000_000) as i64, tv_nsec: (asleep % 1_000_000_000) as _ };
        let devices = self.ports.devices.iter().flatten();
        let mut watched: Vec<PollFd<'_>> = devices.map(|device| PollFd::new(device, PollFlags::IN)).collect();
        let bell_at = watched.len();
        watched.push(PollFd::new(bell, PollFlags::IN));
        let mut names = Vec::new();
        if let Some(sockets) = &self.sockets {
            sockets.watch(&mut |socket, interest, name| {
                watched.push(PollFd::from_borrowed_fd(socket, interest));
                names.push(name);
            });
        }
        let count = poll(&mut watched, Some(&timeout)).ok()?;
        let is_ready = |polled: &PollFd<'_>| polled.revents().contains(PollFlags::IN);
        if is_ready(&watched[bell_at]) {
            let _ = rustix::io::read(bell, &mut [0; 8]);
        }
        let sockets = names.into_iter().zip(watched[bell_at + 1..].iter().map(PollFd::revents));
        (count > 0).then(|| Ready {
            devices: watched[..bell_at].iter().map(is_ready).collect(),
            sockets: sockets.filter(|(_, flags)| !flags.is_empty()).collect(),
        })
    }

    /// How long before something is due the loop polls the clock instead of sleeping. [`None`] if the thread
    /// had to rest, so that packets may be due.
    fn spin(&mut self, now: Time) -> Option<Duration> {
        let spin = self.ports.clock.spin();
        if spin.is_zero() {
            return Some(spin);
        }
        self.duty.update(now, clock::run_time);
        if self.duty.must_rest() && system::is_real_time() {
            std::thread::sleep(std::time::Duration::from_nanos(REST.as_nanos()));
            return None;
        }
        Some(if self.duty.may_spin() { spin } else { Duration::ZERO })
    }

    /// The scalars that a run of the scenario has, and the measured lateness.
    pub(crate) fn row(&mut self) -> Row {
        let mut row = self.emulation.row();
        self.ports.report(&mut row.section("emulation"));
        row
    }
}
