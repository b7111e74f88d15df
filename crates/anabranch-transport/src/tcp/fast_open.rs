//! TCP Fast Open (RFC 7413): data in a SYN, with a cookie that shows that its sender gets what is sent to its
//! address. Linux's ways are those of `tcp_fastopen.c`, `tcp_send_syn_data` and `tcp_rcv_fastopen_synack`.
//!
//! A client that opens fast sends nothing until the application writes, or, if it does not, until the time of
//! the call is over (Linux: `TCP_FASTOPEN_CONNECT`); the application is told at once that it may write. Fast
//! Open is not given up after timeouts, as in Linux since 5.14 (`tcp_fastopen_blackhole_timeout_sec` is 0).

use std::net::IpAddr;

use siphasher::sip::SipHasher24;

use super::connection::{Connection, State};
use super::recovery::CongestionState;
use super::scoreboard::Sent;
use crate::endpoint::{CloseReason, Event, Output};
use crate::flow::{Ecn as EcnField, Payload};
use crate::time::Time;
use crate::wire::tcp::{self, Cookie, Flags, MAX_OPTION_BYTES, RareOptions, Segment};

/// The secret key of a server's cookies.
#[derive(Clone, Copy)]
pub struct Key(pub [u64; 2]);

impl std::fmt::Debug for Key {
    /// Shows nothing of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Key(..)")
    }
}

impl Key {
    /// The cookie that a server gives to the client at this address (Linux:
    /// `__tcp_fastopen_cookie_gen_cipher`): SipHash-2-4 of both addresses.
    pub fn cookie(self, client: IpAddr, server: IpAddr) -> Cookie {
        let mut message = Vec::with_capacity(32);
        for address in [client, server] {
            match address {
                IpAddr::V4(address) => message.extend(address.octets()),
                IpAddr::V6(address) => message.extend(address.octets()),
            }
        }
        sip_hash(self.0, &message).to_le_bytes().into_iter().collect()
    }
}

/// SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012).
fn sip_hash([low, high]: [u64; 2], message: &[u8]) -> u64 {
    SipHasher24::new_with_keys(low, high).hash(message)
}

/// What a client remembers of a server between connections (RFC 7413 section 4.1.2; Linux:
/// `struct tcp_fastopen_metrics`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The segment size that the server announced.
    mss: Option<u16>,
    /// The last cookie, which is empty if there is none, and the form in which it came.
    cookie: tcp::FastOpen,
    unanswered: Unanswered,
}

/// Which requests for a cookie a server has not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Unanswered {
    #[default]
    None,
    /// That in the RFC's form, so that the next one has the form of the experiment.
    Standard,
    /// Both, so that all others have the RFC's form.
    Both,
}

impl Remembered {
    /// The option of a SYN: the cookie, or a request for one.
    fn option(&self) -> tcp::FastOpen {
        let mut option = self.cookie.clone();
        if option.cookie.is_empty() {
            option.is_experimental = self.unanswered == Unanswered::Standard;
        }
        option
    }

    /// Takes what a SYN-ACK says (Linux: `tcp_fastopen_cache_set`).
    fn learn(&mut self, mss: Option<u16>, cookie: Option<&tcp::FastOpen>, unanswered: Unanswered) {
        self.mss = mss.or(self.mss);
        match cookie {
            Some(option) if !option.cookie.is_empty() => self.cookie = option.clone(),
            _ if self.cookie.cookie.is_empty() => self.unanswered = self.unanswered.max(unanswered),
            _ => {}
        }
    }
}

/// How an end opens fast.
#[derive(Clone, Debug)]
pub struct Client {
    /// Whether data is sent only with a cookie; without one, no cookie is sent (RFC 7413 section 4.1.3 is
    /// then not fulfilled; Linux: `TFO_CLIENT_NO_COOKIE`).
    pub needs_cookie: bool,
    /// What is known of the server.
    pub server: Remembered,
}

impl Client {
    /// Whether a SYN may carry data (Linux: `tcp_fastopen_cookie_check`).
    pub fn may_carry(&self) -> bool {
        !self.needs_cookie || !self.server.cookie.cookie.is_empty()
    }
}

/// How an end takes the data of SYNs.
#[derive(Clone, Debug)]
pub struct Server {
    /// The cookie of the client.
    pub cookie: Cookie,
    /// Whether data is taken only with it.
    pub needs_cookie: bool,
}

/// Fast Open at one end.
#[derive(Debug, Default)]
pub(super) struct FastOpen {
    client: Option<Client>,
    server: Option<Server>,
    attempt: Attempt,
}

/// What happens in the present connection.
#[expect(clippy::struct_excessive_bools, reason = "what has happened, each independent of the others")]
#[derive(Debug, Default)]
struct Attempt {
    /// The option of our first SYN, if it had one (Linux: `syn_fastopen`).
    asked: Option<tcp::FastOpen>,
    /// Bytes of data in our first SYN.
    length: u32,
    /// Whether our SYN waits for what the application writes.
    is_deferred: bool,
    /// Whether it has waited, so that the application has been told that it may write.
    has_deferred: bool,
    /// The option of our SYN-ACK.
    answer: Option<tcp::FastOpen>,
    /// Whether this end has taken data of a SYN, and its SYN-ACK has not been acknowledged (Linux:
    /// `fastopen_rsk`).
    is_unconfirmed: bool,
    /// The window of that SYN-ACK.
    window: Option<u64>,
    /// Whether the data of a SYN has been accepted, by either end (Linux: `syn_data_acked`).
    is_accepted: bool,
}

impl FastOpen {
    /// Both ends of a flow that open fast; cookies have this key. Addresses are none of a simulation's
    /// business, where an end has one peer.
    pub(super) fn between_ends(key: Key) -> Self {
        let nowhere = IpAddr::from([0; 4]);
        Self {
            client: Some(Client { needs_cookie: true, server: Remembered::default() }),
            server: Some(Server { cookie: key.cookie(nowhere, nowhere), needs_cookie: true }),
            attempt: Attempt::default(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.attempt = Attempt::default();
    }

    fn may_carry(&self) -> bool {
        self.client.as_ref().is_some_and(Client::may_carry)
    }

    /// Decides about a SYN: whether its data, or data for its sender, goes ahead of the handshake (Linux:
    /// `tcp_try_fastopen`).
    fn admits(&mut self, segment: &Segment) -> bool {
        let Some(Server { cookie, needs_cookie }) = &self.server else { return false };
        let asked = segment.rare.as_ref().and_then(|rare| rare.fast_open.as_ref());
        if segment.flags.has(Flags::FIN) || (asked.is_none() && segment.payload.length == 0) {
            return false;
        }
        if !needs_cookie {
            return true;
        }
        let Some(asked) = asked else { return false };
        if asked.cookie == *cookie {
            return true;
        }
        let is_experimental = asked.is_experimental;
        self.attempt.answer = Some(tcp::FastOpen { cookie: cookie.clone(), is_experimental });
        false
    }
}

impl Connection {
    /// Sets how this end opens fast and takes data of SYNs, for the next connections. What it does of itself
    /// follows from the settings.
    pub fn set_fast_open(&mut self, client: Option<Client>, server: Option<Server>) {
        self.fast_open = Some(Box::new(FastOpen { client, server, attempt: Attempt::default() }));
    }

    /// What this end knows of the server to which it opens fast.
    pub fn remembered(&self) -> Option<&Remembered> {
        self.fast_open.as_ref()?.client.as_ref().map(|client| &client.server)
    }

    /// The most bytes that the next SYN can carry; [`None`] if it is one without data (Linux:
    /// `tcp_send_syn_data`). Room for all options is left, whoever adds them.
    pub fn syn_room(&self) -> Option<u32> {
        let fast_open = self.fast_open.as_ref().filter(|fast_open| fast_open.may_carry())?;
        let known = fast_open.client.as_ref().and_then(|client| client.server.mss);
        let mss = self.parameters.mss(self.mtu, self.ip).min(known.map_or(u32::MAX, u32::from));
        Some(mss.saturating_sub(MAX_OPTION_BYTES))
    }

    /// Whether the data of a SYN has been accepted in this connection, by either end.
    pub(super) fn has_opened_fast(&self) -> bool {
        self.fast_open.as_ref().is_some_and(|fast_open| fast_open.attempt.is_accepted)
    }

    /// The window of a SYN-ACK that has taken data along.
    pub(super) fn window_of_open_fast(&self) -> Option<u64> {
        self.fast_open.as_ref()?.attempt.window
    }

    /// Whether our SYN-ACK has not been acknowledged although data has been taken.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.fast_open.as_ref().is_some_and(|fast_open| fast_open.attempt.is_unconfirmed)
    }

    /// Lets the SYN wait for what the application writes, if it may carry that.
    pub(super) fn defer_syn(&mut self, now: Time) -> bool {
        let Some(fast_open) = self.fast_open.as_mut().filter(|fast_open| fast_open.may_carry()) else {
            return false;
        };
        (fast_open.attempt.is_deferred, fast_open.attempt.has_deferred) = (true, true);
        self.handshake.timer = now;
        self.outputs.push_back(Output::Event(Event::Connected));
        true
    }

    /// Whether the application has been told already that it may write.
    pub(super) fn has_deferred_syn(&self) -> bool {
        self.fast_open.as_ref().is_some_and(|fast_open| fast_open.attempt.has_deferred)
    }

    /// Sends a SYN that has waited. Returns whether there was one.
    #[cold]
    pub(super) fn send_deferred_syn(&mut self, now: Time) -> bool {
        let Some(fast_open) = &mut self.fast_open else { return false };
        let was_deferred = std::mem::take(&mut fast_open.attempt.is_deferred);
        if was_deferred {
            self.send_syn(now);
        }
        was_deferred
    }

    /// The option of a SYN or SYN-ACK and the length of the data in it. A SYN that is sent again has neither
    /// (RFC 7413 section 4.1.3 appendix A.1; Linux: `tcp_send_syn_data`).
    pub(super) fn parts_of_syn(&mut self, answers: bool) -> (Option<Box<RareOptions>>, Payload) {
        let room = self.syn_room().map_or(0, u64::from);
        let length = room.min(self.sender.written) as u32;
        let is_first = self.handshake.is_first();
        let Some(FastOpen { client, attempt, .. }) = self.fast_open.as_deref_mut() else {
            return (None, Payload::default());
        };
        let mut carried = 0;
        let option = match client {
            _ if answers => attempt.answer.clone(),
            Some(Client { needs_cookie, server }) if is_first => {
                (carried, attempt.length) = (length, length);
                attempt.asked = needs_cookie.then(|| server.option());
                attempt.asked.clone()
            }
            _ => None,
        };
        self.stats.data_segments_sent += u64::from(carried > 0);
        self.stats.bytes_sent += u64::from(carried);
        let with = |option| Box::new(RareOptions { fast_open: Some(option), ..RareOptions::default() });
        (option.map(with), Payload { offset: 0, length: carried })
    }

    /// Takes what a SYN-ACK that acknowledges up to `number` says about Fast Open; the connection is open by
    /// then. Data of our SYN that it does not acknowledge is sent again (RFC 7413 section 4.2.1; Linux:
    /// `tcp_rcv_fastopen_synack`). Returns whether that has taken an acknowledgement along.
    pub(super) fn take_fast_open_answer(
        &mut self,
        now: Time,
        segment: &Segment,
        number: u64,
        mark: EcnField,
    ) -> bool {
        let was_repeated = !self.handshake.is_first();
        let Some(FastOpen { client: Some(client), attempt, .. }) = self.fast_open.as_deref_mut() else {
            return false;
        };
        if attempt.asked.is_none() && attempt.length == 0 {
            return false;
        }
        // A cookie that was not asked for is ignored.
        let has_asked = attempt.asked.is_some();
        let cookie = segment.rare.as_ref().and_then(|rare| rare.fast_open.as_ref()).filter(|_| has_asked);
        let unanswered = match &attempt.asked {
            Some(asked) if !was_repeated && cookie.is_none() && attempt.length == 0 => {
                if asked.is_experimental { Unanswered::Both } else { Unanswered::Standard }
            }
            _ => Unanswered::None,
        };
        client.server.learn(segment.mss, cookie, unanswered);
        let end = 1 + u64::from(attempt.length);
        if number < end {
            self.repeat_early_data(now, number, end);
            return true;
        }
        attempt.is_accepted = attempt.length > 0;
        if segment.payload.length > 0 || segment.flags.has(Flags::FIN) {
            attempt.is_accepted = true;
            self.on_data(now, 1, segment, mark);
        }
        // Linux: the acknowledgement travels with data that waits.
        let answers = self.sender.has_unsent() && self.push(now, super::send::Push::Normal);
        if answers {
            self.delayed_ack.answer_with_data();
        }
        answers
    }

    /// Sends the data from `start` to `end` again, which our SYN carried and the peer has not taken (Linux:
    /// `tcp_non_congestion_loss_retransmit`): nothing shows that the network is congested.
    fn repeat_early_data(&mut self, now: Time, start: u64, end: u64) {
        let departure = self.handshake.sent_at();
        let mut next = start;
        while next < end {
            let length = (end - next).min(u64::from(self.mss)) as u32;
            let rate = self.rate.mark(now, self.board.is_empty(), 0);
            self.board.push(Sent { start: next, length, departure, rate, ..Sent::default() });
            next += u64::from(length);
        }
        for id in self.board.first_id()..self.board.end_id() {
            self.board.mark_lost(id);
        }
        // Linux, tcp_send_syn_data: it is pushed.
        self.sender.marks.add(start, end, false);
        self.recovery.state = CongestionState::Loss;
        self.recovery.high = self.sender.next;
        self.retransmit_lost(now);
    }

    /// Takes a SYN with which data goes ahead of the handshake, if it is one: the connection is open for the
    /// application, although nothing shows yet that the peer hears this end (RFC 7413 section 4.2.2; Linux:
    /// `tcp_fastopen_create_child`).
    pub(super) fn open_fast(&mut self, now: Time, segment: &Segment, mark: EcnField) -> bool {
        let Some(fast_open) = self.fast_open.as_mut() else { return false };
        if !fast_open.admits(segment) {
            return false;
        }
        fast_open.attempt.is_unconfirmed = true;
        fast_open.attempt.is_accepted = segment.payload.length > 0;
        // Whether the application wants the connection or not, it hears of it.
        self.handshake.is_passive = false;
        // Data that arrives changes what a buffer announces, but not what the SYN-ACK does.
        let window = self.first_window();
        if let Some(fast_open) = &mut self.fast_open {
            fast_open.attempt.window = Some(window);
        }
        self.receiver.edge = 1 + window;
        self.set_up(now, 1, false);
        self.state = State::OpenedFast;
        self.outputs.push_back(Output::Event(Event::Connected));
        // The application reads after the SYN-ACK has left.
        let is_paused = std::mem::replace(&mut self.receiver.is_paused, true);
        if segment.payload.length > 0 {
            self.on_data(now, 1, segment, mark);
        }
        self.send_syn(now);
        self.record_ack_sent();
        self.receiver.is_paused = is_paused;
        if self.receiver.unread > 0 && !is_paused {
            self.read(now);
        }
        true
    }

    /// A segment arrives while our SYN-ACK has not been acknowledged although data goes both ways (Linux:
    /// `tcp_check_req`, `tcp_rcv_synrecv_state_fastopen`).
    #[cold]
    pub(super) fn on_segment_opened_fast(&mut self, now: Time, segment: &Segment, mark: EcnField) {
        let flags = segment.flags;
        if flags.has(Flags::RST) {
            return self.on_segment_synchronised(now, segment, mark);
        }
        if flags.has(Flags::SYN) && !flags.has(Flags::ACK) {
            return self.answer_syn_again(now, segment, mark);
        }
        if !flags.has(Flags::ACK) {
            return;
        }
        if flags.has(Flags::SYN) || self.acknowledged_number(segment).is_none() {
            return self.out_of_the_blue(segment);
        }
        if let Some(fast_open) = &mut self.fast_open {
            fast_open.attempt.is_unconfirmed = false;
        }
        self.handshake.timer = Time::NEVER;
        if self.state == State::OpenedFast {
            self.state = State::Established;
        }
        if self.ecn.on_handshake_ack(segment) {
            self.enter_cwr(now);
        }
        // The retransmission timer has had nothing to say so far.
        self.rearm_rto(now);
        self.on_segment_synchronised(now, segment, mark);
        if self.rtt.srtt().is_none() && self.handshake.is_first() {
            let rtt = now.saturating_since(self.handshake.sent_at());
            self.take_rtt_sample(now, rtt, rtt);
        }
    }

    /// The network says that our SYN with data was too large for a link with this MTU (RFC 1191, RFC 8201):
    /// it is sent again without data (Linux: `tcp_simple_retransmit`). Returns whether there was such a SYN;
    /// of path MTU discovery there is nothing else here.
    pub fn on_syn_too_big(&mut self, now: Time, mtu: u32) -> bool {
        let length = self.fast_open.as_ref().map_or(0, |fast_open| fast_open.attempt.length);
        if self.state != State::SynSent || length == 0 || mtu >= self.mtu {
            return false;
        }
        self.mtu = mtu;
        self.repeat_syn(now);
        true
    }

    /// The network says that the peer of a connection that is being opened cannot be reached: it ends (Linux:
    /// `tcp_v4_err`). Returns whether it was being opened.
    pub fn on_unreachable(&mut self) -> bool {
        let opens = matches!(self.state, State::OpenedFast | State::SynReceived | State::SynSent);
        if opens {
            self.give_up_opening(CloseReason::Aborted);
        }
        opens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_its_authors() {
        // Appendix A of the paper.
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let message: Vec<u8> = (0..15).collect();
        assert_eq!(sip_hash(key, &message), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn cookies_depend_on_both_addresses() {
        let key = Key([1, 2]);
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let cookie = key.cookie(address(1), address(2));
        assert_eq!(cookie.len(), 8);
        assert_ne!(cookie, key.cookie(address(3), address(2)));
        assert_ne!(cookie, key.cookie(address(1), address(3)));
        assert_ne!(cookie, Key([1, 3]).cookie(address(1), address(2)));
    }

    #[test]
    fn a_server_without_answer_is_asked_in_the_other_form_once() {
        let mut server = Remembered::default();
        let mut forms = Vec::new();
        for _ in 0..4 {
            let option = server.option();
            forms.push(option.is_experimental);
            let unanswered = if option.is_experimental { Unanswered::Both } else { Unanswered::Standard };
            server.learn(Some(1_460), None, unanswered);
        }
        assert_eq!(forms, [false, true, false, false]);
    }
}
