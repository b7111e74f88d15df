//! QUIC on sockets: a host with a thread of its own, to which Python gives orders and which it asks for
//! events.

#![allow(clippy::needless_pass_by_value, reason = "what Python hands over is owned")]

use std::net::IpAddr;

use anabranch_live::Handle;
use anabranch_live::driver::{Carrier, DriverSettings, Randomness};
use anabranch_live::quic::{
    self, Client, Host, HostEvent, LivePath, PathChange, Refusal, Route, SelfSigned, Server, Settings, Trust,
};
use anabranch_transport::endpoint::CloseReason;
use anabranch_transport::quic::Config;
use anabranch_transport::time::Duration;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::PyBrokenPipeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::LiveError;
use crate::live::scalars;
use crate::served::{Served, address, settings};

/// A host on a socket of UDP.
#[pyclass(frozen, module = "anabranch._engine")]
pub(crate) struct QuicHost(Served<Host>);

/// The certificates of a text in PEM, as DER.
#[pyfunction]
pub(crate) fn certificates(py: Python<'_>, pem: &[u8]) -> PyResult<Vec<Py<PyBytes>>> {
    let all = quic::certificates(pem).map_err(LiveError::new_err)?;
    Ok(all.iter().map(|one| PyBytes::new(py, one).unbind()).collect())
}

/// Raises a `LiveError` if this is not the key, in PEM, of the first certificate of the chain.
#[pyfunction]
pub(crate) fn check_key(chain: &[u8], key: &[u8]) -> PyResult<()> {
    Server::new(chain, key, &[]).map(|_| ()).map_err(LiveError::new_err)
}

/// A new certificate for these names and addresses, which only itself vouches for, and its key; both in PEM.
#[pyfunction]
pub(crate) fn self_signed(names: Vec<String>) -> PyResult<(String, String)> {
    let SelfSigned { certificate, key } = quic::self_signed(&names).map_err(LiveError::new_err)?;
    Ok((certificate, key))
}

/// See [`QuicHost::paths`].
type PathRow = (u32, String, String, u16, &'static str, (bool, bool), f64, u32, (u64, u64));

fn row((path, route): (LivePath, Route)) -> PathRow {
    let state = match path {
        LivePath { is_open: false, .. } => "abandoned",
        LivePath { is_validated: false, .. } => "opening",
        LivePath { is_silent: true, .. } => "potentially_failed",
        _ => "active",
    };
    let (local, remote, port) = places(route);
    let wishes = (path.is_backup, path.is_peers_backup);
    let srtt = path.srtt.map_or(f64::NAN, Duration::as_millis_f64);
    (path.path, local, remote, port, state, wishes, srtt, path.cwnd, path.traffic.into())
}

/// The addresses of a path, and the peer's port.
fn places(route: Route) -> (String, String, u16) {
    (route.local.to_string(), route.remote.to_string(), route.port.unwrap_or(0))
}

/// A route from this address, if one is said.
fn from(local: Option<IpAddr>, route: Route) -> Route {
    Route { local: local.unwrap_or(route.local), ..route }
}

fn config(json: &str) -> PyResult<Config> {
    settings(json, |config: &Config| config.cc.as_ref())
}

fn refused(refusal: Refusal) -> PyErr {
    match refusal {
        Refusal::Closed => PyBrokenPipeError::new_err("the connection is closed"),
        Refusal::NoStream => PyBrokenPipeError::new_err("the stream is over"),
        Refusal::TooLong(0) => LiveError::new_err("the peer takes no datagrams"),
        Refusal::TooLong(most) => {
            LiveError::new_err(format!("a datagram to this peer has at most {most} bytes"))
        }
    }
}

impl QuicHost {
    /// An address of this end, for which there is a socket from now on.
    fn bound(&self, py: Python<'_>, local: Option<&str>) -> PyResult<Option<IpAddr>> {
        let local = local.map(address).transpose()?;
        if let Some(local) = local {
            self.0.bind(py, local)?;
        }
        Ok(local)
    }
}

#[pymethods]
impl QuicHost {
    /// Binds sockets and starts the thread. `port` is that of UDP, 0 for any; `announce_at` a port of the
    /// loopback address.
    #[new]
    fn new(
        addresses: Vec<String>,
        port: u16,
        mtu: u32,
        most_accepted: usize,
        announce_at: u16,
    ) -> PyResult<Self> {
        let addresses = addresses.iter().map(|text| address(text)).collect::<PyResult<_>>()?;
        let (carrier, shared_key) = (Carrier::Udp(port), Vec::new());
        let settings = DriverSettings { addresses, carrier, mtu, most_accepted, shared_key };
        let host = move |addresses, Randomness { secret, streams }| {
            Host::new(Settings { addresses, mtu, most_accepted }, &secret, streams)
        };
        let is_accepted = |(_, event): &(Handle, HostEvent)| matches!(event, HostEvent::Accepted(_));
        Served::start(settings, host, announce_at, is_accepted, Host::pause_accepting).map(Self)
    }

    /// The UDP port.
    #[getter]
    fn udp_port(&self) -> PyResult<Option<u16>> {
        self.0.udp_port()
    }

    /// Goes on at another port, and at other addresses if there are any; unless `quietly`, servers are told.
    fn rebind(
        &self,
        py: Python<'_>,
        addresses: Option<Vec<String>>,
        port: u16,
        quietly: bool,
    ) -> PyResult<()> {
        if self.0.ask(py, |host, _| host.is_server())? {
            return Err(LiveError::new_err("an endpoint with connections of clients stays at its port"));
        }
        let addresses = addresses.map(|all| all.iter().map(|text| address(text)).collect()).transpose()?;
        let (_, addresses) = self.0.rebind(py, port, addresses)?;
        self.0.ask(py, move |host, now| host.go_on_from(now, addresses, quietly))
    }

    /// Waits for peers, with a chain of certificates and its key in PEM, and protocols above QUIC (ALPN).
    fn listen(
        &self,
        py: Python<'_>,
        json: &str,
        chain: &[u8],
        key: &[u8],
        protocols: Vec<String>,
    ) -> PyResult<()> {
        let config = config(json)?;
        let server = Server::new(chain, key, &protocols).map_err(LiveError::new_err)?;
        self.0.ask(py, move |host, _| host.listen(&config, server))?.map_err(LiveError::new_err)
    }

    fn stop_listening(&self, py: Python<'_>) -> PyResult<()> {
        self.0.ask(py, |host, _| host.stop_listening())
    }

    /// Opens a connection with a server at this address, whose certificate for this name one of the `roots`
    /// (DER) vouches for; without roots, any certificate is taken. `local` is this end's address, if it
    /// matters which.
    #[expect(clippy::too_many_arguments, reason = "what is said of a connection")]
    fn connect(
        &self,
        py: Python<'_>,
        remote: &str,
        port: u16,
        server_name: String,
        json: &str,
        roots: Option<Vec<Vec<u8>>>,
        protocols: Vec<String>,
        local: Option<&str>,
    ) -> PyResult<u64> {
        let (config, remote, local) = (config(json)?, address(remote)?, self.bound(py, local)?);
        let trust = roots.map_or(Trust::Anyone, Trust::Roots);
        let client = Client::new(&trust, &protocols).map_err(LiveError::new_err)?;
        let number = self.0.ask(py, move |host, now| {
            let route = from(local, host.route_to(remote, port));
            host.connect(now, &config, &client, route, &server_name)
        })?;
        number.map(|number| number.0).map_err(LiveError::new_err)
    }

    /// Opens a stream; `None` if the peer permits none at present. Raises `BrokenPipeError` if the connection
    /// is over.
    fn open_stream(&self, py: Python<'_>, number: u64, bidirectional: bool) -> PyResult<Option<u64>> {
        let open = move |host: &mut Host, _| host.open_stream(Handle(number), bidirectional);
        self.0.ask(py, open)?.map_err(refused)
    }

    /// Appends bytes to a stream and returns how many there was room for; `fin` ends it behind all of them.
    /// Raises `BrokenPipeError` if nothing can be written there any more.
    fn write(
        &self,
        py: Python<'_>,
        number: u64,
        stream: u64,
        data: PyBackedBytes,
        fin: bool,
    ) -> PyResult<usize> {
        let write = move |host: &mut Host, now| host.write(now, Handle(number), stream, &data, fin);
        self.0.ask(py, write)?.map_err(refused)
    }

    /// Sends a message, once (RFC 9221).
    fn send_datagram(&self, py: Python<'_>, number: u64, data: &[u8]) -> PyResult<()> {
        let bytes = data.to_vec();
        let send = move |host: &mut Host, now| host.send_datagram(now, Handle(number), &bytes);
        self.0.ask(py, send)?.map_err(refused)
    }

    /// Gives up this end's part of a stream (`reset`), or the peer's; whether there was something to give up.
    fn give_up_stream(
        &self,
        py: Python<'_>,
        number: u64,
        stream: u64,
        code: u64,
        reset: bool,
    ) -> PyResult<bool> {
        self.0.ask(py, move |host, now| host.give_up_stream(now, Handle(number), stream, code, reset))
    }

    /// Closes a connection at once, with a code of the application.
    fn close_connection(&self, py: Python<'_>, number: u64, code: u64) -> PyResult<()> {
        self.0.ask(py, move |host, now| host.close(now, Handle(number), code))
    }

    /// Closes a connection once the peer has everything that was written.
    fn shut_down(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.0.ask(py, move |host, now| host.shut_down(now, Handle(number)))
    }

    /// Opens another path of a connection, from an address of this end and to one of the peer's, or to that
    /// of the first path. Says where it is to be.
    fn add_path(
        &self,
        py: Python<'_>,
        number: u64,
        local: Option<&str>,
        remote: Option<&str>,
        is_backup: bool,
    ) -> PyResult<(String, String, u16)> {
        let (local, remote) = (self.bound(py, local)?, remote.map(address).transpose()?);
        let add = move |host: &mut Host, now| {
            let first = host.route(Handle(number)).ok_or("the connection is over")?;
            let remote = remote.unwrap_or(first.remote);
            let route = from(local, host.route_to(remote, first.port.unwrap_or(0)));
            host.add_path(now, Handle(number), route, is_backup).map(|()| places(route))
        };
        self.0.ask(py, add)?.map_err(LiveError::new_err)
    }

    /// Gives a path up, with a code; whether it did: the last one stays.
    fn abandon_path(&self, py: Python<'_>, number: u64, path: u32, code: u64) -> PyResult<bool> {
        self.0.ask(py, move |host, now| host.abandon_path(now, Handle(number), path, code))
    }

    /// Tells the peer whether a path is a backup; whether it did.
    fn set_path_status(&self, py: Python<'_>, number: u64, path: u32, is_backup: bool) -> PyResult<bool> {
        self.0.ask(py, move |host, now| host.set_path_status(now, Handle(number), path, is_backup))
    }

    /// A connection's paths: path ID, local and remote address, remote port, state, whether this end and
    /// whether the peer want it to be a backup, smoothed round-trip time (ms), window (B), bytes sent and
    /// received.
    fn paths(&self, py: Python<'_>, number: u64) -> PyResult<Vec<PathRow>> {
        let paths = self.0.ask(py, move |host, _| host.paths(Handle(number)))?;
        Ok(paths.into_iter().map(row).collect())
    }

    /// Updates the keys of a connection; false if it is too early.
    fn update_keys(&self, py: Python<'_>, number: u64) -> PyResult<bool> {
        self.0.ask(py, move |host, _| host.update_keys(Handle(number)))
    }

    /// Notes that Python has read so many bytes of a connection, and messages. Does not wait.
    fn has_read(&self, py: Python<'_>, number: u64, count: u64, messages: u64) -> PyResult<()> {
        self.0.order(py, move |host, now| host.has_read(now, Handle(number), count, messages))
    }

    /// The events since the last call: connection, what happened, and particulars. If the thread has ended,
    /// an error with the reason follows the last of them.
    fn news<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let events = self.0.news()?.into_iter();
        events
            .map(|(number, event)| {
                let (kind, particulars) = told(py, event)?;
                (number.0, kind, particulars).into_pyobject(py)
            })
            .collect()
    }

    /// The local and the remote address of a connection, and the remote port.
    fn route(&self, py: Python<'_>, number: u64) -> PyResult<Option<(String, String, u16)>> {
        let route = self.0.ask(py, move |host, _| host.route(Handle(number)))?;
        Ok(route.map(places))
    }

    /// A connection's counters, by the names that a simulated one has; empty if it has ended.
    fn scalars<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyDict>> {
        let row = self.0.ask(py, move |host, _| host.counters(Handle(number)))?;
        scalars(py, &row)
    }

    /// How many times a connection's keys have been updated, by either end.
    fn key_updates(&self, py: Python<'_>, number: u64) -> PyResult<u64> {
        self.0.ask(py, move |host, _| host.key_updates(Handle(number)))
    }

    /// The number of connections, of those that clients are opening, and of datagrams that were no packets.
    fn counts(&self, py: Python<'_>) -> PyResult<(usize, usize, u64)> {
        self.0.ask(py, |host, _| {
            let [connections, opening] = host.connections();
            (connections, opening, host.malformed())
        })
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

/// The name of an event, and its particulars.
fn told(py: Python<'_>, event: HostEvent) -> PyResult<(&'static str, Bound<'_, PyAny>)> {
    let (kind, particulars) = match event {
        HostEvent::Accepted(protocol) => ("accepted", protocol.into_bound_py_any(py)?),
        HostEvent::CanOpen { bidirectional } => ("can_open", bidirectional.into_bound_py_any(py)?),
        HostEvent::Closed(ending) => {
            let reason = match ending.reason {
                CloseReason::Aborted => "aborted",
                CloseReason::Lost => "lost",
                CloseReason::Shutdown => "shutdown",
            };
            let particulars = (reason, ending.code, ending.why, scalars(py, &ending.counted)?);
            ("closed", particulars.into_bound_py_any(py)?)
        }
        HostEvent::Connected(protocol) => ("connected", protocol.into_bound_py_any(py)?),
        HostEvent::Datagram(bytes) => ("datagram", PyBytes::new(py, &bytes).into_any()),
        HostEvent::Path { path, route, change } => {
            let change = match change {
                PathChange::Abandoned => "abandoned",
                PathChange::Answers => "active",
                PathChange::Moved => "moved",
                PathChange::Opened => "opened",
                PathChange::Silent => "potentially_failed",
                PathChange::Status { is_backup: true } => "backup",
                PathChange::Status { is_backup: false } => "available",
                PathChange::Validated => "validated",
                _ => "other",
            };
            ("path_changed", (path, change, places(route)).into_bound_py_any(py)?)
        }
        HostEvent::PathRefused { route, why } => {
            ("path_refused", (places(route), why).into_bound_py_any(py)?)
        }
        HostEvent::Received { stream, bytes } => {
            ("received", (stream, PyBytes::new(py, &bytes)).into_bound_py_any(py)?)
        }
        HostEvent::StreamEnded(stream) => ("stream_ended", stream.into_bound_py_any(py)?),
        HostEvent::StreamReset(stream) => ("stream_reset", stream.into_bound_py_any(py)?),
        HostEvent::StreamStopped(stream) => ("stream_stopped", stream.into_bound_py_any(py)?),
        HostEvent::Writable(stream) => ("writable", stream.into_bound_py_any(py)?),
        _ => ("other", py.None().into_bound(py)),
    };
    Ok((kind, particulars))
}
