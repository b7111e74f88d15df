//! The association as an [`Endpoint`] of a flow.

use super::association::Association;
use super::config::Config;
use super::local::Numbers;
use super::outstanding::{Sent, SentState};
use super::parameters::Parameters;
use super::receiver::Receiver;
use super::state::State;
use super::stats::{FIRST_INACTIVE_S, FIRST_PF_S};
use crate::cc::{CongestionControl as _, Controller};
use crate::endpoint::{Endpoint, Input, Keeper, Multipath, Output, Response, Service, Site, Transport};
use crate::flow::{PathId, Payload};
use crate::observed::{HeadOfLine, Marks, Missing, Observed, PathLimit, PathSample, Transmission};
use crate::path::Selector;
use crate::report::Report;
use crate::rng::Draw as _;
use crate::secret::{NumberSource, SecretNumbers};
use crate::time::Time;
use crate::wire::{Body, Packet};

impl Transport for Config {
    type Endpoint = Association;

    fn build(&self, site: &Site<'_>) -> Result<Association, String> {
        let &Site { side, mtus, ip, streams, .. } = site;
        let parameters = self.resolve()?;
        parameters.check_paths(mtus)?;
        Ok(Association::new(&parameters, side, mtus, ip, streams, &site.name("sctp")))
    }
}

impl Endpoint for Association {
    fn protocol(&self) -> &'static str {
        "sctp"
    }

    /// Which messages this end can take: those that fit into the send buffer.
    fn service(&self) -> Service {
        let Parameters { send_buffer, receive_buffer, .. } = self.parameters;
        Service::Messages {
            longest: send_buffer,
            whole: u64::from(receive_buffer),
            is_limited: send_buffer < u64::MAX,
        }
    }

    /// Whether its verification tag and ports are the association's (section 8.5; an ASCONF from a new
    /// address is found by its tag).
    fn owns(&self, packet: &Packet) -> bool {
        let Body::Sctp(sctp) = &packet.body else { return false };
        [sctp.destination_port, sctp.source_port] == self.local.ports && self.is_for_us(sctp)
    }

    #[inline]
    fn may_respond(&self, packet: &Packet) -> bool {
        self.may_be_prompt(packet)
    }

    #[inline]
    fn respond(&mut self, now: Time, packet: Box<Packet>) -> Result<Response, Box<Packet>> {
        self.answer_promptly(now, packet)
    }

    #[inline(never)]
    fn handle_input(&mut self, now: Time, input: Input) {
        debug_assert!(now >= self.last_now, "time runs backwards");
        self.last_now = now;
        match input {
            Input::Command(command) => self.on_command(now, command),
            Input::Packet(packet) => self.on_packet(now, packet),
            Input::Timeout => self.on_timers(now),
        }
    }

    #[inline]
    fn poll_output(&mut self, _now: Time) -> Output {
        match self.outbox.outputs.pop_front() {
            Some(output) => output,
            None => Output::Timeout(self.next_timeout()),
        }
    }
}

impl Multipath for Association {
    fn set_congestion_control(&mut self, path: PathId, control: Controller) -> bool {
        self.routing.paths[path.index()].cc = control;
        self.parts.on_foreign_control();
        true
    }

    fn set_path_selector(&mut self, selector: Selector) -> bool {
        self.routing.selector = selector;
        self.prepare_probing();
        true
    }

    fn enable_reconfiguration(&mut self, absent: &[PathId]) -> Result<(), String> {
        self.let_addresses_change(absent)
    }

    fn add_path(&mut self, now: Time, mtu: u32) -> Result<PathId, String> {
        self.append_path(now, mtu, !self.parts.changes_addresses())
    }
}

impl Keeper for Association {
    fn draw_from(&mut self, numbers: SecretNumbers) {
        if !matches!(self.state, State::Closed(_)) {
            return;
        }
        let mut source = NumberSource::Secret(numbers);
        self.begin_with(Numbers::draw(&mut source));
        for path in &mut self.routing.paths {
            path.heartbeat.nonce = source.bits() as u32;
        }
        self.local.source = source;
    }

    fn payloads_to_send(&self, each: &mut dyn FnMut(Payload)) {
        for waiting in self.sender.queue.iter() {
            let Payload { offset, .. } = waiting.message.payload;
            each(Payload { offset: offset + u64::from(waiting.sent), length: waiting.remaining() });
        }
        let kept = |chunk: &&Sent| !matches!(chunk.state, SentState::Abandoned | SentState::Final);
        for chunk in self.sender.outstanding.chunks.iter().filter(kept) {
            let Payload { offset, .. } = chunk.message.payload;
            each(Payload { offset: offset + u64::from(chunk.start), length: chunk.length });
        }
    }

    fn payloads_that_wait(&self, each: &mut dyn FnMut(Payload)) {
        let waiting = self.state.receiver().into_iter().flat_map(Receiver::waiting);
        waiting.chain(self.parts.held()).for_each(each);
    }
}

impl Observed for Association {
    fn sample_paths(&self, samples: &mut Vec<PathSample>) {
        for (index, (path, status)) in self.routing.paths.iter().zip(&self.routing.status).enumerate() {
            let control = path.cc.state();
            let id = PathId(index as u8);
            samples.push(PathSample {
                path: id,
                cwnd: control.cwnd,
                ssthresh: control.ssthresh,
                outstanding: self.sender.outstanding.on(id),
                srtt: path.rtt.srtt(),
                rto: path.rtt.rto(),
                delivery_rate: None,
                error_count: status.error_count,
                state: status.state,
                is_primary: id == self.routing.selection.primary,
                repairs: path.repairs,
                marks: Marks::default(),
            });
        }
    }

    fn sample_limits(&self, _now: Time, limits: &mut Vec<PathLimit>) {
        self.limits_of_paths(limits);
    }

    fn head_of_line(&self) -> Option<HeadOfLine> {
        self.state.receiver()?.head_of_line()
    }

    fn transmission(&self, missing: Missing) -> Option<Transmission> {
        self.sent(missing.number)
    }

    fn report(&self, report: &mut Report<'_>) {
        self.stats.report(self.last_now, report);
        for (index, path) in self.routing.paths.iter().enumerate() {
            let seconds = |time: Option<Time>| time.map_or(f64::NAN, Time::as_secs_f64);
            let mut section = report.section(&format!("path{index}"));
            section.scalar(FIRST_INACTIVE_S, seconds(path.first_inactive));
            section.scalar(FIRST_PF_S, seconds(path.first_potentially_failed));
            self.parts.report_path(index, &mut section);
        }
        self.parts.report(self.last_now, report);
    }
}
