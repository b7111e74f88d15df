//! Hosts of TCP and of MPTCP that strangers send bytes to.
#![no_main]

use anabranch_fuzz::hosts::{End, Hosts, address};
use anabranch_fuzz::memory::Held;
use anabranch_fuzz::script::Script;
use anabranch_fuzz::seal;
use anabranch_live::Handle;
use anabranch_live::stream::{Host, HostEvent, Settings, StreamEnd};
use anabranch_transport::endpoint::Command;
use anabranch_transport::rng::Streams;
use anabranch_transport::secret::Secret;
use anabranch_transport::time::Time;
use anabranch_transport::wire::ip;
use anabranch_transport::{mptcp, tcp};
use libfuzzer_sys::fuzz_target;

const TCP: [&str; 2] = [
    r#"{"send_buffer": "64 kB", "receive_buffer": "64 kB", "receive_autotuning": false}"#,
    r#"{"profile": "rfc", "send_buffer": "16 kB", "receive_buffer": "8 kB"}"#,
];
const MPTCP: [&str; 2] = [
    r#"{"send_buffer": "64 kB", "receive_buffer": "64 kB"}"#,
    r#"{"profile": "linux_6", "send_buffer": "16 kB", "receive_buffer": "16 kB", "reinjection": true}"#,
];

struct Talker<E: StreamEnd> {
    host: Host<E>,
    ids: Vec<Handle>,
}

impl<E: StreamEnd> End for Talker<E> {
    type Host = Host<E>;

    fn host(&mut self) -> &mut Host<E> {
        &mut self.host
    }

    fn on_event(&mut self, _now: Time, (id, event): (Handle, HostEvent)) {
        match event {
            HostEvent::Accepted if !self.ids.contains(&id) => self.ids.push(id),
            HostEvent::Closed(_) => self.ids.retain(|other| *other != id),
            _ => {}
        }
    }

    fn act(&mut self, now: Time, how: u8) {
        let Some(&id) = self.ids.get(usize::from(how & 1)) else { return };
        match how >> 1 & 7 {
            0 => self.host.command(now, id, Command::Shutdown),
            1 => self.host.command(now, id, Command::Abort),
            2 => self.host.command(now, id, Command::PauseReading),
            3 => self.host.command(now, id, Command::ResumeReading),
            length => drop(self.host.send(now, id, &vec![how; 16 << (2 * (length - 4))])),
        }
    }
}

fn play<E: StreamEnd>(config: &E::Config, held: Held, mut script: Script<'_>) {
    let mut ends = [0, 1].map(|index| {
        let settings = Settings { addresses: vec![address(index)], mtu: 1_500, most_accepted: 4 };
        let streams = Streams { seed: 1, replication: index as u64 };
        Talker { host: Host::<E>::new(settings, Secret([index as u8; 32]), streams), ids: Vec::new() }
    });
    ends[1].host.listen(5_001, config).expect("the port is free");
    let id = ends[0].host.connect(Time::ZERO, config, 40_000, &[address(1)], 5_001);
    ends[0].ids.push(id.expect("it can be opened"));
    let seal = |datagram: &mut [u8], addresses| seal::internet(datagram, 16, addresses, ip::TCP);
    Hosts::new(ends, None, seal, held).play(&mut script);
}

fuzz_target!(|input: &[u8]| {
    let held = Held::default();
    let mut script = Script(input);
    let how = usize::from(script.byte());
    let text = [TCP, MPTCP][how & 1][how >> 1 & 1];
    match how & 1 {
        0 => {
            let config: tcp::Config = serde_json::from_str(text).expect("possible settings");
            play::<tcp::Connection>(&config, held, script);
        }
        _ => {
            let config: mptcp::Config = serde_json::from_str(text).expect("possible settings");
            play::<mptcp::Connection>(&config, held, script);
        }
    }
});
