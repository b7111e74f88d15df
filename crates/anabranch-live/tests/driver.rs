//! A driver on real sockets of the loopback address: under a flood, and when something in its thread panics.

use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::time::Duration;

use anabranch_live::Handle;
use anabranch_live::driver::{Carrier, Driver, DriverSettings};
use anabranch_live::sctp::{Host, HostEvent, Outbound};
use anabranch_transport::endpoint::{CloseReason, Command, Reliability};
use anabranch_transport::sctp::Config;
use anabranch_transport::time::Time;

const PORT: u16 = 5_001;
const MESSAGES: u64 = 2_000;
const LENGTH: usize = 4_096;

fn settings() -> DriverSettings {
    let addresses = vec![[127, 0, 0, 1].into()];
    let (carrier, shared_key) = (Carrier::Udp(0), Vec::new());
    DriverSettings { addresses, carrier, mtu: 1_500, most_accepted: 10, shared_key }
}

fn pump(host: &mut Host, now: Time, id: Handle, left: &mut u64) {
    while *left > 0 {
        let (reliability, bytes) = (Reliability::Reliable, vec![0x5a; LENGTH]);
        let message = Outbound { stream: 0, ppid: 0, unordered: false, reliability, bytes };
        if host.send(now, id, message).is_err() {
            return;
        }
        *left -= 1;
    }
    host.command(now, id, Command::Shutdown);
}

#[test]
fn a_panic_is_told_in_a_sentence() {
    let mut driver = Driver::start(settings(), Box::new(|_, _, _| {})).expect("the socket can be bound");
    let port = driver.udp_port().expect("it is UDP");
    assert_eq!(driver.failure(), None);
    assert_eq!(driver.ask(|host, _| host.associations()), Some(0));
    // A bug in the host, or in a listener, would do this.
    assert_eq!(driver.ask(|_, _| panic!("a state that cannot be")), None::<()>);
    for _ in 0..10_000 {
        if driver.failure().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(
        driver.failure(),
        Some("the endpoint's thread has ended: this is a bug: a state that cannot be")
    );
    assert_eq!(driver.ask(|host, _| host.associations()), None);
    UdpSocket::bind(("127.0.0.1", port)).expect("its socket is closed");
    driver.stop();
}

/// While others send noise and INIT as fast as they can, a transfer is completed.
#[test]
fn a_transfer_is_completed_beside_a_flood() {
    let (done, finished) = channel();
    let mut received = 0;
    let server = Driver::start(
        settings(),
        Box::new(move |host: &mut Host, now, events| {
            for (id, event) in events {
                match event {
                    HostEvent::Received(message) => {
                        received += 1;
                        host.has_read(now, id, 1, message.bytes.len() as u64);
                    }
                    HostEvent::Closed { reason, .. } => drop(done.send((received, reason))),
                    _ => {}
                }
            }
        }),
    )
    .expect("the socket can be bound");
    server.ask(|host, _| host.listen(PORT, &Config::default())).expect("it runs").expect("the port is free");
    let port = server.udp_port().expect("it is UDP");
    let attacker = std::thread::spawn(move || {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a port");
        for number in 0..20_000_u32 {
            let mut bytes = vec![0x13, 0x89, 0x13, 0x89, 0, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend([1, 0, 0, 20]);
            bytes.extend([number + 1, 100_000, 0x000a_000a, 1].map(u32::to_be_bytes).as_flattened());
            let checksum = crc32c::crc32c(&bytes);
            // Half of them are broken.
            bytes[8..12].copy_from_slice(&(checksum ^ (number % 2)).to_le_bytes());
            let _ = socket.send_to(&bytes, ("127.0.0.1", port));
            if number % 20 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let mut left = MESSAGES;
    let client = Driver::start(
        settings(),
        Box::new(move |host: &mut Host, now, events| {
            for (id, event) in events {
                if matches!(event, HostEvent::Connected | HostEvent::Writable) {
                    pump(host, now, id, &mut left);
                }
            }
        }),
    )
    .expect("the socket can be bound");
    let peer = [([127, 0, 0, 1].into(), Some(port))];
    client
        .ask(move |host, now| host.connect(now, &Config::default(), 0, &peer, PORT))
        .expect("it runs")
        .expect("it can");
    let end = finished.recv_timeout(Duration::from_secs(600)).expect("it comes to an end");
    assert_eq!(end, (MESSAGES, CloseReason::Shutdown));
    attacker.join().expect("it ends");
    let (associations, malformed) =
        server.ask(|host, _| (host.associations(), host.malformed())).expect("it runs");
    assert_eq!(associations, 0, "no INIT is remembered");
    assert!(malformed > 1_000, "{malformed} datagrams were no packets");
    assert_eq!((server.failure(), client.failure()), (None, None));
}
