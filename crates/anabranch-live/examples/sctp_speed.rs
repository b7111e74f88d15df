//! Measures how fast bulk data passes through the live stack on the loopback address: both ends are in this
//! program, each with its own driver.
//!
//! `cargo run --release -p anabranch-live --example sctp_speed -- [MEGABYTES] [MESSAGE BYTES] [MTU]` prints
//! one line of JSON.
#![expect(clippy::disallowed_types, reason = "it measures by the wall clock")]

use std::sync::mpsc::channel;
use std::time::Instant;

use anabranch_live::Handle;
use anabranch_live::driver::{Carrier, Driver, DriverSettings};
use anabranch_live::sctp::{Host, HostEvent, Outbound, Refusal};
use anabranch_transport::endpoint::{Command, Reliability};
use anabranch_transport::sctp::Config;
use anabranch_transport::time::Time;

const PORT: u16 = 5_001;

/// Sends messages until the buffer is full or all are sent.
fn pump(host: &mut Host, now: Time, id: Handle, left: &mut u64, size: usize) {
    while *left > 0 {
        let bytes = vec![0x5a; size.min(*left as usize)];
        let length = bytes.len() as u64;
        let message =
            Outbound { stream: 0, ppid: 0, unordered: false, reliability: Reliability::Reliable, bytes };
        match host.send(now, id, message) {
            Ok(_) => *left -= length,
            Err(Refusal::Full(_)) => return,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
    host.command(now, id, Command::Shutdown);
}

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| -> Result<u64, String> {
        arguments.next().map_or(Ok(default), |text| text.parse().map_err(|_| format!("{text} is no number")))
    };
    let (bytes, size, mtu) = (next(200)? * 1_000_000, next(16_384)? as usize, next(1_500)? as u32);
    let config: Config =
        serde_json::from_str(r#"{"send_buffer": "4 MB", "receive_buffer": "4 MB", "max_burst": "off"}"#)
            .map_err(|error| error.to_string())?;
    let settings = |carrier| DriverSettings {
        addresses: vec![[127, 0, 0, 1].into()],
        carrier,
        mtu,
        most_accepted: 10,
        shared_key: Vec::new(),
    };

    let (done, finished) = channel();
    let mut received = 0;
    let mut messages = 0_u64;
    let server = Driver::start(
        settings(Carrier::Udp(0)),
        Box::new(move |host: &mut Host, now, events| {
            for (id, event) in events {
                match event {
                    HostEvent::Received(message) => {
                        received += message.bytes.len() as u64;
                        messages += 1;
                        host.has_read(now, id, 1, message.bytes.len() as u64);
                    }
                    HostEvent::Closed { reason, .. } => drop(done.send((received, messages, reason))),
                    _ => {}
                }
            }
        }),
    )?;
    let listening = config.clone();
    server.ask(move |host, _| host.listen(PORT, &listening)).ok_or("the server has stopped")??;
    let port = server.udp_port();

    let mut left = bytes;
    let client = Driver::start(
        settings(Carrier::Udp(0)),
        Box::new(move |host: &mut Host, now, events| {
            for (id, event) in events {
                if matches!(event, HostEvent::Connected | HostEvent::Writable) {
                    pump(host, now, id, &mut left, size);
                }
            }
        }),
    )?;
    let started = Instant::now();
    client
        .ask(move |host, now| host.connect(now, &config, 0, &[([127, 0, 0, 1].into(), port)], PORT))
        .ok_or("the client has stopped")??;
    let (received, messages, reason) = finished.recv().map_err(|error| error.to_string())?;
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{{\"bytes\": {received}, \"messages\": {messages}, \"seconds\": {seconds:.3}, \"megabytes_per_second\": {:.1}, \
         \"ended\": \"{reason:?}\"}}",
        received as f64 / seconds / 1e6
    );
    Ok(())
}
