//! An emulation that is running: its namespaces, and the thread that carries packets.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use anabranch::scenario::{Scenario, ScenarioError};
use anabranch::sim::{Emulation, LinkState};
use anabranch_transport::report::Row;
use rustix::event::{EventfdFlags, eventfd};

use crate::capture::Capture;
use crate::carrier::{Carrier, Order, Ports};
use crate::clock::{self, Clock};
use crate::device::{Device, DeviceKind};
use crate::duty_cycle::DutyCycle;
use crate::kernel::Flows;
use crate::plan::Plan;
use crate::space::{self, Outside, Processes, Space, Stop};

/// A scenario in real time. When it is dropped, it ends, with all programs that run in it.
pub struct Emulator {
    plan: Plan,
    device_kind: DeviceKind,
    /// The namespaces of each node.
    spaces: Vec<Space>,
    processes: Processes,
    orders: Sender<Order>,
    bell: Arc<OwnedFd>,
    carrier: Option<JoinHandle<Carrier>>,
    thread_id: i32,
}

impl Emulator {
    /// Makes namespaces and devices and begins to carry packets, with the random streams of this replication.
    /// What nodes send and receive is written to `capture` if one is given. Another thread may give it up
    /// with `stop`.
    ///
    /// # Errors
    /// One sentence: of the scenario, or of what the system does not permit.
    pub fn start(
        scenario: &Scenario,
        replication: u64,
        capture: Option<File>,
        stop: &Stop,
    ) -> Result<Self, String> {
        let emulation = Emulation::build(scenario, replication).map_err(|error| error.to_string())?;
        Plan::new(emulation.paths())?.check_hosts()?;
        Self::start_with(emulation, None, capture, stop)
    }

    /// Starts a network that has been built; if `flows` are given, the kernel runs them.
    pub(crate) fn start_with(
        emulation: Emulation,
        flows: Option<&Flows>,
        capture: Option<File>,
        stop: &Stop,
    ) -> Result<Self, String> {
        let plan = Plan::new(emulation.paths())?;
        let mut devices: Vec<[Option<Device>; 2]> = plan.paths().map(|_| [None, None]).collect();
        let outside = Outside::make(DeviceKind::chosen()?, 2 * devices.len())?;
        let mut spaces = Vec::new();
        for node in &plan.nodes {
            let prepare = || flows.map_or(Ok(()), |flows| flows.prepare(node));
            let (space, opened) = space::make(node, &outside, stop, prepare)?;
            spaces.push(space);
            for (interface, device) in node.interfaces.iter().zip(opened) {
                devices[interface.path][interface.side.index()] = Some(device);
            }
        }
        let processes = Processes::make()?;
        let networks: Vec<&OwnedFd> = spaces.iter().map(|space| &space.network).collect();
        let sockets = flows.map(|flows| space::apart(|| flows.open(&plan, &networks))).transpose()?;
        let devices =
            devices.into_iter().map(|pair| pair.map(|device| device.expect("a path has two ends"))).collect();
        let capture = capture.map(|file| Capture::new(file, &plan)).transpose()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| format!("an eventfd cannot be made: {error}"))?;
        let bell = Arc::new(bell);
        let (orders, received) = mpsc::channel::<Order>();
        let (told, thread_id) = mpsc::channel();
        let ears = Arc::clone(&bell);
        let work = move || {
            // With this, sleeps end on time, and not up to 50 us later.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            let _ = told.send(rustix::thread::gettid().as_raw_nonzero().get());
            // The clock starts here, so that nothing is late from the start.
            let ports = Ports::new(devices, Clock::start(), capture);
            let duty = DutyCycle::new(clock::run_time());
            Carrier { emulation, ports, sockets, duty, is_over: false }.run(&received, &ears)
        };
        let carrier = thread::Builder::new()
            .name("emulation".into())
            .spawn(work)
            .map_err(|error| format!("no thread can be started: {error}"))?;
        let thread_id = thread_id.recv().map_err(|_| "the thread of the emulation has ended".to_owned())?;
        let device_kind = outside.kind();
        Ok(Self { plan, device_kind, spaces, processes, orders, bell, carrier: Some(carrier), thread_id })
    }

    /// The nodes and their addresses.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Which devices the nodes have.
    pub fn device_kind(&self) -> DeviceKind {
        self.device_kind
    }

    /// The thread that carries packets, for those who want to change its priority.
    pub fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// The descriptors of a node's network, mount and process namespaces; `None` if there is no such node.
    pub fn descriptors(&self, node: &str) -> Option<[RawFd; 3]> {
        let index = self.plan.nodes.iter().position(|other| other.name == node)?;
        let Space { network, mounts } = &self.spaces[index];
        Some([network.as_raw_fd(), mounts.as_raw_fd(), self.processes.space.as_raw_fd()])
    }

    /// Changes a link from now on, as [`Emulation::set`] does.
    ///
    /// # Errors
    /// The same as with a scenario.
    pub fn set(&self, link: String, values: Vec<(String, String)>) -> Result<(), ScenarioError> {
        let set = move |carrier: &mut Carrier| {
            let values: Vec<_> = values.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            carrier.emulation.set(&link, &values)
        };
        self.ask(set).unwrap_or_else(|| Err(ScenarioError::new("the emulation has ended")))
    }

    /// The present state of each direction of each link; empty once the loop has ended.
    pub fn states(&self) -> Vec<LinkState> {
        self.ask(|carrier| carrier.emulation.states()).unwrap_or_default()
    }

    /// The scalars up to now: those of a run of the scenario, and under `emulation` how late packets were
    /// written and which were refused.
    pub fn row(&self) -> Row {
        self.ask(Carrier::row).unwrap_or_default()
    }

    /// Stops carrying packets; everything else ends when it is dropped.
    ///
    /// # Errors
    /// When the capture could not be written.
    pub fn stop(&self) -> Result<(), String> {
        let end = |carrier: &mut Carrier| {
            carrier.is_over = true;
            carrier.ports.capture.as_mut().map_or(Ok(()), Capture::flush)
        };
        self.ask(end).unwrap_or(Ok(()))
    }

    /// Whether the loop has ended by itself: the flows that the kernel runs are done, or their time is over.
    pub(crate) fn is_over(&self) -> bool {
        self.carrier.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the loop; gives the carrier that it has worked with.
    pub(crate) fn into_carrier(mut self) -> Result<Carrier, String> {
        self.stop()?;
        let carrier = self.carrier.take().and_then(|carrier| carrier.join().ok());
        carrier.ok_or_else(|| "the thread of the emulation has panicked".to_owned())
    }

    /// Lets the loop do something and waits for it; [`None`] if the loop has ended.
    fn ask<T: Send + 'static>(&self, job: impl FnOnce(&mut Carrier) -> T + Send + 'static) -> Option<T> {
        let (answer, answered) = mpsc::channel();
        let order: Order = Box::new(move |carrier| {
            let _ = answer.send(job(carrier));
        });
        self.orders.send(order).ok()?;
        rustix::io::write(&*self.bell, &1_u64.to_ne_bytes()).ok()?;
        answered.recv().ok()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.stop();
        if let Some(carrier) = self.carrier.take() {
            let _ = carrier.join();
        }
    }
}
