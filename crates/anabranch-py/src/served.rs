//! A host with a thread of its own, to which Python gives orders and which it asks for events. News is
//! announced by a datagram to a port of the loopback address, which an event loop can wait for.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};

use anabranch::scenario;
#[cfg(feature = "quic")]
use anabranch_live::driver::Rebound;
use anabranch_live::driver::{Driver, DriverSettings, Listener, Randomness};
use anabranch_live::stack::Stack;
use anabranch_transport::cc::Config as Control;
use anabranch_transport::time::Time;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use crate::owned::Owned;
use crate::{LiveError, ScenarioError};

/// How many connections from peers may wait until Python takes note of them; beyond that, others are refused.
/// Linux lets as many wait at a listening socket (`SOMAXCONN`).
const MOST_UNNOTICED: usize = 4096;

/// The waiting events, and whether Python has been told that there are any.
struct News<E> {
    events: Vec<E>,
    is_announced: bool,
    /// How many of them report a connection that a peer has opened.
    accepted: usize,
}

impl<E> Default for News<E> {
    fn default() -> Self {
        Self { events: Vec::new(), is_announced: false, accepted: 0 }
    }
}

/// A host, its thread and its news.
pub(crate) struct Served<H: Stack> {
    driver: Owned<Driver<H>>,
    news: Arc<Mutex<News<H::Event>>>,
    pause: fn(&mut H, bool),
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<H: Stack> Served<H> {
    /// Binds sockets and starts the thread. `is_accepted` says whether an event reports a connection that a
    /// peer has opened, and `pause` has the host refuse such ones or take them again.
    pub(crate) fn start(
        settings: DriverSettings,
        host: impl FnOnce(Vec<IpAddr>, Randomness) -> H,
        announce_at: u16,
        is_accepted: fn(&H::Event) -> bool,
        pause: fn(&mut H, bool),
    ) -> PyResult<Self> {
        let bell = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|bell| bell.connect((Ipv4Addr::LOCALHOST, announce_at)).map(|()| bell))
            .map_err(|error| LiveError::new_err(format!("the loopback address cannot be used: {error}")))?;
        let news = Arc::new(Mutex::new(News::default()));
        let shared = Arc::clone(&news);
        let listener: Listener<H> = Box::new(move |host: &mut H, _: Time, told: Vec<H::Event>| {
            let mut news = lock(&shared);
            news.accepted += told.iter().filter(|event| is_accepted(event)).count();
            if news.accepted >= MOST_UNNOTICED {
                pause(host, true);
            }
            news.events.extend(told);
            if !std::mem::replace(&mut news.is_announced, true) {
                drop(news);
                // If this byte is lost, the other end will still look from time to time.
                let _ = bell.send(&[1]);
            }
        });
        let driver = Driver::drive(settings, host, listener).map_err(LiveError::new_err)?;
        Ok(Self { driver: Owned::new("endpoint", driver), news, pause })
    }

    /// Has the host's thread do something and waits for the result, while other Python threads go on.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&mut H, Time) -> T + Send + 'static,
    ) -> PyResult<T> {
        self.driver.check()?;
        if let Some(answer) = py.detach(|| self.driver.ask(|driver| driver.ask(job)))?.flatten() {
            return Ok(answer);
        }
        let sentence = self.failure()?.unwrap_or_else(|| "the endpoint is closed".into());
        Err(LiveError::new_err(sentence))
    }

    /// Has the host's thread do something, and does not wait.
    pub(crate) fn order(
        &self,
        py: Python<'_>,
        job: impl FnOnce(&mut H, Time) + Send + 'static,
    ) -> PyResult<()> {
        py.detach(|| self.driver.ask(|driver| driver.order(job))).map(|_| ())
    }

    /// Uses this address for packets as well.
    pub(crate) fn bind(&self, py: Python<'_>, address: IpAddr) -> PyResult<()> {
        let bound = py.detach(|| self.driver.ask(|driver| driver.bind(address)))?;
        bound.unwrap_or_else(|| Err("the endpoint is closed".into())).map_err(LiveError::new_err)
    }

    /// Uses other sockets of UDP, and says at which port and of which addresses they are.
    #[cfg(feature = "quic")]
    pub(crate) fn rebind(
        &self,
        py: Python<'_>,
        port: u16,
        addresses: Option<Vec<IpAddr>>,
    ) -> PyResult<Rebound> {
        let rebound = py.detach(|| self.driver.ask(|driver| driver.rebind(port, addresses)))?;
        rebound.unwrap_or_else(|| Err("the endpoint is closed".into())).map_err(LiveError::new_err)
    }

    /// Why the thread has ended without being stopped.
    fn failure(&self) -> PyResult<Option<String>> {
        Ok(self.driver.ask(|driver| driver.failure().map(Into::into))?.flatten())
    }

    /// The UDP port; `None` if packets are carried in IP.
    pub(crate) fn udp_port(&self) -> PyResult<Option<u16>> {
        Ok(self.driver.ask(Driver::udp_port)?.flatten())
    }

    /// The events since the last call. If the thread has ended, an error with the reason follows the last of
    /// them.
    pub(crate) fn news(&self) -> PyResult<Vec<H::Event>> {
        self.driver.check()?;
        let News { events, accepted, .. } = std::mem::take(&mut *lock(&self.news));
        if accepted >= MOST_UNNOTICED {
            let pause = self.pause;
            self.driver.ask(|driver| driver.order(move |host, _| pause(host, false)))?;
        }
        if events.is_empty()
            && let Some(failure) = self.failure()?
        {
            return Err(LiveError::new_err(failure));
        }
        Ok(events)
    }

    /// Refuses a process that was forked from the one that has opened it.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        self.driver.check()
    }

    /// Stops the thread and closes the sockets.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.driver.take().map(drop))
    }
}

pub(crate) fn address(text: &str) -> PyResult<IpAddr> {
    text.parse()
        .map_err(|_| LiveError::new_err(format!("address = `{text}` is not an address of IPv4 or IPv6")))
}

/// Settings as a scenario's `transport` has them, without `kind`.
pub(crate) fn settings<C: DeserializeOwned>(json: &str, cc: fn(&C) -> Option<&Control>) -> PyResult<C> {
    let tree = serde_json::from_str(json).map_err(|error| ScenarioError::new_err(error.to_string()))?;
    let config: C =
        scenario::from_value(&tree, "").map_err(|error| ScenarioError::new_err(error.to_string()))?;
    if let Some(Control::Python(_)) = cc(&config) {
        return Err(ScenarioError::new_err("cc.kind = \"python\" is for simulations; a live host has none"));
    }
    Ok(config)
}
