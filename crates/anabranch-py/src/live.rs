//! SCTP on sockets: a host with a thread of its own, to which Python gives orders and which it asks for
//! events.

#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use anabranch_live::Handle;
use anabranch_live::driver::{Carrier, Driver, DriverSettings};
use anabranch_live::sctp::{Extent, Host, HostEvent, Outbound, Refusal};
use anabranch_live::tun::TunDevice;
use anabranch_transport::endpoint::{CloseReason, Command, Reliability};
use anabranch_transport::flow::PathId;
use anabranch_transport::observed::{Observed as _, PathSample};
use anabranch_transport::report::Row;
use anabranch_transport::sctp::Config;
use anabranch_transport::time::Duration;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyBrokenPipeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::LiveError;
use crate::served::{Served, address, settings};

/// A host on sockets.
#[pyclass(frozen, module = "anabranch._engine")]
pub(crate) struct LiveHost(Served<Host>);

/// The state of a path, for display.
type PathRow = (String, String, &'static str, bool, f64, f64, u32, u32, u32);

#[pymethods]
impl LiveHost {
    /// Binds sockets and starts the thread. `carrier_port` is that of UDP, none for IP itself, through
    /// `devices` of TUN if there are any (`NAME=ADDRESS[,ADDRESS]`); `announce_at` a port of the loopback
    /// address.
    #[new]
    fn new(
        addresses: Vec<String>,
        carrier_port: Option<u16>,
        mtu: u32,
        most_accepted: usize,
        announce_at: u16,
        shared_key: Vec<u8>,
        devices: Vec<String>,
    ) -> PyResult<Self> {
        let addresses = addresses.iter().map(|text| address(text)).collect::<PyResult<_>>()?;
        let devices: Result<Vec<TunDevice>, String> = devices.iter().map(|text| text.parse()).collect();
        let carrier = match (devices.map_err(LiveError::new_err)?, carrier_port) {
            (devices, _) if !devices.is_empty() => Carrier::Tun(devices),
            (_, Some(port)) => Carrier::Udp(port),
            (_, None) => Carrier::Ip,
        };
        let settings = DriverSettings { addresses, carrier, mtu, most_accepted, shared_key };
        let is_accepted = |(_, event): &(Handle, HostEvent)| matches!(event, HostEvent::Accepted { .. });
        let host = Driver::sctp_host(&settings);
        Served::start(settings, host, announce_at, is_accepted, Host::pause_accepting).map(Self)
    }

    /// The UDP port; `None` if packets are carried in IP.
    #[getter]
    fn udp_port(&self) -> PyResult<Option<u16>> {
        self.0.udp_port()
    }

    fn listen(&self, py: Python<'_>, port: u16, json: &str) -> PyResult<()> {
        let config = settings(json, |config: &Config| config.cc.as_ref())?;
        self.0.ask(py, move |host, _| host.listen(port, &config))?.map_err(LiveError::new_err)
    }

    fn stop_listening(&self, py: Python<'_>, port: u16) -> PyResult<()> {
        self.0.ask(py, move |host, _| host.stop_listening(port))
    }

    /// Opens an association with a peer at these addresses, each with its port of UDP.
    fn connect(
        &self,
        py: Python<'_>,
        remote: Vec<(String, Option<u16>)>,
        port: u16,
        local_port: u16,
        json: &str,
    ) -> PyResult<u64> {
        let config = settings(json, |config: &Config| config.cc.as_ref())?;
        let remote =
            remote.into_iter().map(|(text, udp)| Ok((address(&text)?, udp))).collect::<PyResult<Vec<_>>>()?;
        let id = self.0.ask(py, move |host, now| host.connect(now, &config, local_port, &remote, port))?;
        id.map(|id| id.0).map_err(LiveError::new_err)
    }

    /// Sends a message and returns its number; `None` if the send buffer is full. Raises `BrokenPipeError` if
    /// nothing can be sent any more. `reliability` is a rule of partial reliability and its number:
    /// `retransmissions`, `lifetime` (in ms) or `priority`.
    #[pyo3(signature = (number, data, stream, ppid, unordered, reliability = None))]
    #[expect(clippy::too_many_arguments, reason = "what is said of a message")]
    fn send(
        &self,
        py: Python<'_>,
        number: u64,
        data: &[u8],
        stream: u16,
        ppid: u32,
        unordered: bool,
        reliability: Option<(&str, u32)>,
    ) -> PyResult<Option<u64>> {
        let reliability = match reliability {
            None => Reliability::Reliable,
            Some(("retransmissions", count)) => Reliability::LimitedRetransmissions(count),
            Some(("lifetime", millis)) => Reliability::Timed(Duration::from_millis(millis.into())),
            Some(("priority", priority)) => Reliability::Priority(priority),
            Some((other, _)) => return Err(LiveError::new_err(format!("there is no reliability `{other}`"))),
        };
        let length = data.len();
        let message = Outbound { stream, ppid, unordered, reliability, bytes: data.to_vec() };
        match self.0.ask(py, move |host, now| host.send(now, Handle(number), message))? {
            Ok(sent) => Ok(Some(sent)),
            Err(Refusal::Full(_)) => Ok(None),
            Err(Refusal::Closed) => Err(PyBrokenPipeError::new_err("the association is closed, or closing")),
            Err(Refusal::Impossible) => Err(LiveError::new_err(format!(
                "a message of {length} bytes on stream {stream} cannot be sent: it must have from 1 byte to the size of \
                 send_buffer, and its stream must be one of those that both ends have"
            ))),
        }
    }

    /// Carries out a command: `shutdown`, `abort`, or `set_primary` with a path.
    #[pyo3(signature = (number, command, path = 0))]
    fn command(&self, py: Python<'_>, number: u64, command: &str, path: u8) -> PyResult<()> {
        let command = match command {
            "abort" => Command::Abort,
            "set_primary" => Command::SetPrimary(PathId(path)),
            "shutdown" => Command::Shutdown,
            other => return Err(LiveError::new_err(format!("there is no command `{other}`"))),
        };
        self.0.ask(py, move |host, now| host.command(now, Handle(number), command))
    }

    /// Changes this end's addresses: `add`, `remove`, or `set_peer_primary`. The peer's answer is reported as
    /// news.
    fn change_address(&self, py: Python<'_>, number: u64, change: &str, text: &str) -> PyResult<()> {
        let (address, id) = (address(text)?, Handle(number));
        if change == "add" {
            self.0.bind(py, address)?;
        }
        let change = match change {
            "add" => Host::add_address,
            "remove" => Host::remove_address,
            "set_peer_primary" => Host::set_peer_primary,
            other => return Err(LiveError::new_err(format!("there is no change `{other}`"))),
        };
        self.0.ask(py, move |host, now| change(host, now, id, address))?.map_err(LiveError::new_err)
    }

    /// Resets outgoing streams. What becomes of each is reported as news.
    fn reset_streams(&self, py: Python<'_>, number: u64, streams: Vec<u16>) -> PyResult<()> {
        self.0
            .ask(py, move |host, now| host.reset_streams(now, Handle(number), &streams))?
            .map_err(LiveError::new_err)
    }

    /// Notes that Python has read this many messages of an association, with `count` bytes. Does not wait.
    fn has_read(&self, py: Python<'_>, number: u64, messages: u64, count: u64) -> PyResult<()> {
        self.0.order(py, move |host, now| host.has_read(now, Handle(number), messages, count))
    }

    /// The events since the last call: association, what happened, and particulars. If the thread has ended,
    /// an error with the reason follows the last of them.
    fn news<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let events = self.0.news()?;
        events
            .into_iter()
            .map(|(id, event)| (id.0, kind(&event), particulars(py, event)?).into_pyobject(py))
            .collect()
    }

    /// An association's paths: local and remote address, state, whether it is the primary one, smoothed
    /// round-trip time and RTO in ms (NaN before the first sample), congestion window and outstanding bytes,
    /// errors in a row.
    fn paths(&self, py: Python<'_>, number: u64) -> PyResult<Vec<PathRow>> {
        self.0.ask(py, move |host, _| {
            let mut samples = Vec::new();
            host.sample_paths(Handle(number), &mut samples);
            let routes =
                host.addresses(Handle(number)).map(|(routes, _)| routes.to_vec()).unwrap_or_default();
            let row = |(sample, route): (&PathSample, &anabranch_live::sctp::Route)| {
                let ms = |time: Duration| time.as_millis_f64();
                (
                    route.local.to_string(),
                    route.remote.to_string(),
                    sample.state.name(),
                    sample.is_primary,
                    sample.srtt.map_or(f64::NAN, ms),
                    ms(sample.rto),
                    sample.cwnd,
                    sample.outstanding,
                    sample.error_count,
                )
            };
            samples.iter().zip(&routes).map(row).collect()
        })
    }

    /// An association's counters, by the names that a simulated one has; empty if it has ended.
    fn scalars<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyDict>> {
        let row = self.0.ask(py, move |host, _| {
            let mut row = Row::default();
            if let Some(end) = host.endpoint(Handle(number)) {
                end.report(&mut row.section("sctp"));
            }
            row
        })?;
        scalars(py, &row)
    }

    /// The number of associations, and of datagrams that were not packets.
    fn counts(&self, py: Python<'_>) -> PyResult<(usize, u64)> {
        self.0.ask(py, |host, _| (host.associations(), host.malformed()))
    }

    /// Refuses a process that was forked from the one that has opened it.
    fn check_process(&self) -> PyResult<()> {
        self.0.check_process()
    }

    /// Stops the thread and closes the sockets.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }
}

pub(crate) fn scalars<'py>(py: Python<'py>, row: &Row) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in row.scalars() {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// The name of an event.
const fn kind(event: &HostEvent) -> &'static str {
    match event {
        HostEvent::Abandoned(_) => "abandoned",
        HostEvent::Accepted { .. } => "accepted",
        HostEvent::AddressAdded(_) => "address_added",
        HostEvent::AddressDeleted(_) => "address_deleted",
        HostEvent::AddressRefused(_) => "address_refused",
        HostEvent::Closed { .. } => "closed",
        HostEvent::Connected => "connected",
        HostEvent::PartialDeliveryAborted { .. } => "partial_delivery_aborted",
        HostEvent::PathChanged { .. } => "path_changed",
        HostEvent::PrimaryChanged { .. } => "primary_changed",
        HostEvent::Unreachable { .. } => "unreachable",
        HostEvent::Received(_) => "received",
        HostEvent::Restarted => "restarted",
        HostEvent::StreamReset { .. } => "stream_reset",
        HostEvent::StreamResetByPeer { .. } => "stream_reset_by_peer",
        HostEvent::StreamResetRefused { .. } => "stream_reset_refused",
        HostEvent::Writable => "writable",
        _ => "other",
    }
}

fn particulars(py: Python<'_>, event: HostEvent) -> PyResult<Bound<'_, PyAny>> {
    match event {
        HostEvent::Abandoned(number) => number.into_bound_py_any(py),
        HostEvent::Accepted { port } => port.into_bound_py_any(py),
        HostEvent::AddressAdded(place)
        | HostEvent::AddressDeleted(place)
        | HostEvent::AddressRefused(place) => {
            (place.address.to_string(), place.is_ours).into_bound_py_any(py)
        }
        HostEvent::Closed { reason, counted } => {
            let reason = match reason {
                CloseReason::Aborted => "aborted",
                CloseReason::Lost => "lost",
                CloseReason::Shutdown => "shutdown",
            };
            (reason, scalars(py, &counted)?).into_bound_py_any(py)
        }
        HostEvent::PartialDeliveryAborted { stream, unordered } => (stream, unordered).into_bound_py_any(py),
        HostEvent::PathChanged { path, state } => (path.0, state.name()).into_bound_py_any(py),
        HostEvent::PrimaryChanged { from, to } => (from.0, to.0).into_bound_py_any(py),
        HostEvent::Received(message) => {
            let bytes = PyBytes::new(py, &message.bytes);
            let is_last = match message.extent {
                Extent::LastPart => Some(true),
                Extent::Part => Some(false),
                Extent::Whole => None,
            };
            (bytes, message.stream, message.ppid, message.unordered, is_last).into_bound_py_any(py)
        }
        HostEvent::Unreachable { path, reason, is_refused } => {
            (path.0, reason, is_refused).into_bound_py_any(py)
        }
        HostEvent::StreamReset { stream } | HostEvent::StreamResetRefused { stream } => {
            stream.into_bound_py_any(py)
        }
        HostEvent::StreamResetByPeer { stream } => stream.into_bound_py_any(py),
        _ => Ok(py.None().into_bound(py)),
    }
}
