//! Hosts of SCTP that strangers send bytes to.
#![no_main]

use std::net::IpAddr;

use anabranch_fuzz::hosts::{End, Hosts, address};
use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_live::Handle;
use anabranch_live::sctp::{Host, HostEvent, Outbound, Settings};
use anabranch_transport::endpoint::{Command, Reliability};
use anabranch_transport::rng::Streams;
use anabranch_transport::sctp::Config;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::Time;
use libfuzzer_sys::fuzz_target;

const SETTINGS: [&str; 4] = [
    r#"{"send_buffer": "64 kB", "receive_buffer": "64 kB"}"#,
    r#"{"send_buffer": "64 kB", "receive_buffer": "16 kB", "interleaving": true, "nr_sack": true}"#,
    r#"{"profile": "linux", "send_buffer": "64 kB", "receive_buffer": "64 kB"}"#,
    r#"{"send_buffer": "8 kB", "receive_buffer": "8 kB", "streams": 1, "sack_delay": "0 s"}"#,
];

struct Talker {
    host: Host,
    /// The associations that live.
    ids: Vec<Handle>,
    reads: bool,
}

impl End for Talker {
    type Host = Host;

    fn host(&mut self) -> &mut Host {
        &mut self.host
    }

    fn on_event(&mut self, now: Time, (id, event): (Handle, HostEvent)) {
        match event {
            HostEvent::Accepted { .. } | HostEvent::Connected if !self.ids.contains(&id) => self.ids.push(id),
            HostEvent::Closed { .. } => self.ids.retain(|other| *other != id),
            HostEvent::Received(message) if self.reads => {
                self.host.has_read(now, id, 1, message.bytes.len() as u64);
            }
            _ => {}
        }
    }

    fn act(&mut self, now: Time, how: u8) {
        self.reads = how & 0x80 == 0;
        let Some(&id) = self.ids.get(usize::from(how & 3)) else { return };
        match how >> 2 & 7 {
            0 => self.host.command(now, id, Command::Shutdown),
            1 => self.host.command(now, id, Command::Abort),
            length => {
                let bytes = vec![how; 1 << (2 * length - 4)];
                let (stream, unordered) = (u16::from(how & 1), how & 2 != 0);
                let reliability = match how >> 5 & 3 {
                    0 => Reliability::LimitedRetransmissions(1),
                    _ => Reliability::Reliable,
                };
                let _ = self.host.send(now, id, Outbound { stream, ppid: 0, unordered, reliability, bytes });
            }
        }
    }
}

fn seal(datagram: &mut [u8], _addresses: [IpAddr; 2]) {
    if datagram.len() >= 12 {
        datagram[8..12].fill(0);
        let checksum = crc32c::crc32c(datagram);
        datagram[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
}

fuzz_target!(|input: &[u8]| {
    let held = Held::default();
    let mut script = Script(input);
    let config: Config =
        serde_json::from_str(SETTINGS[usize::from(script.byte() & 3)]).expect("possible settings");
    let mut ends = [0, 1].map(|index| {
        let addresses = vec![address(index)];
        let settings = Settings {
            addresses,
            mtu: 1_500,
            is_in_udp: true,
            most_accepted: 4,
            offers_extensions: true,
            shared_key: Vec::new(),
        };
        let streams = Streams { seed: 1, replication: index as u64 };
        Talker { host: Host::new(settings, Secret([index as u8; 32]), streams), ids: Vec::new(), reads: true }
    });
    ends[1].host.listen(5_001, &config).expect("the port is free");
    let peer = [(address(1), Some(9_899))];
    let id = ends[0].host.connect(Time::ZERO, &config, 40_000, &peer, 5_001).expect("it can be opened");
    ends[0].ids.push(id);
    Hosts::new(ends, Some(9_899), seal, held).play(&mut script);
});
