//! One path of a sender: what was counted on it, and what it waited for when.

/// Within this time after an acknowledgement what follows is its consequence, at least.
pub(super) const PROMPT_S: f64 = 0.005;

/// What a path waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The application has nothing more to send.
    ApplicationLimited,
    /// It is not open yet.
    Handshake,
    /// Reported losses are repaired.
    InRecovery,
    /// A retransmission timer has expired, and what it was for is not acknowledged.
    InTimeout,
    /// The path is silent, and data has gone elsewhere or waits.
    PathDown,
    /// The peer takes no more.
    ReceiveWindowLimited,
    /// Data goes on other paths.
    Standby,
    /// The congestion window, or the network's round trip.
    UnderWay,
    /// It becomes `ReceiveWindowLimited` if data waited behind the closed window, which probes and what
    /// follows its opening at once say, and `ApplicationLimited` otherwise.
    WindowClosed,
}

impl Limit {
    /// The name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApplicationLimited => "application_limited",
            Self::Handshake => "handshake",
            Self::InRecovery => "in_recovery",
            Self::InTimeout => "in_timeout",
            Self::PathDown => "path_down",
            Self::ReceiveWindowLimited => "receive_window_limited",
            Self::Standby => "standby",
            Self::UnderWay => "under_way",
            Self::WindowClosed => "window_closed",
        }
    }
}

/// A round trip: when it was over, and how long it took, in s.
pub type Trip = (f64, f64);

/// One path of a sender.
#[derive(Debug)]
pub struct Track {
    /// Packets with data, and with what is sent again.
    pub packets: u64,
    /// Bytes of these, as IP packets.
    pub octets: i64,
    /// Packets with data that had been sent before.
    pub again: u64,
    /// Of these, tail loss probes (RFC 8985 section 7).
    pub probes: u64,
    /// Fast recoveries.
    pub recoveries: u64,
    /// Timers that expired.
    pub timeouts: u64,
    /// SYN of this path, or of this subflow.
    pub attempts: u64,
    /// Packets that ask whether the peer is still there (RFC 9293 section 3.8.4).
    pub keepalives: u64,
    /// When the peer was asked whether its closed window is open (RFC 9293 section 3.8.6.1).
    pub probed_s: Vec<f64>,
    /// Of data whose acknowledgement nothing delayed; without what was sent twice (Karn's algorithm).
    pub round_trips: Vec<Trip>,
    /// Of what is answered at once: handshakes, heartbeats, keep-alives, probes.
    pub answers: Vec<Trip>,
    /// Of single messages, whose acknowledgement may have waited for a second one.
    pub bounds: Vec<Trip>,
    /// When each limit began and ended.
    pub limits: Vec<(f64, f64, Limit)>,
    /// When new data was sent.
    pub(super) fresh_s: Vec<f64>,
    pub(super) outstanding: i64,
    /// Until this number is acknowledged it is in fast recovery.
    pub(super) recovery: Option<i64>,
    pub(super) timeout: Option<i64>,
    /// How many timers have expired since something was heard.
    pub(super) row: u32,
    pub(super) expired_s: f64,
    pub(super) is_down: bool,
    pub(super) is_open: bool,
    pub(super) heard_s: f64,
    pub(super) longest_s: f64,
    state: Option<Limit>,
    since_s: f64,
    /// The least that the peer has taken in this state, in bytes.
    room: i64,
    /// The limit that was last called the receive window's, and what the peer took meanwhile.
    shut: Option<(usize, i64)>,
}

impl Track {
    pub(super) const fn new(start_s: f64, is_open: bool) -> Self {
        Self {
            packets: 0,
            octets: 0,
            again: 0,
            probes: 0,
            recoveries: 0,
            timeouts: 0,
            attempts: 0,
            keepalives: 0,
            probed_s: Vec::new(),
            round_trips: Vec::new(),
            answers: Vec::new(),
            bounds: Vec::new(),
            limits: Vec::new(),
            fresh_s: Vec::new(),
            outstanding: 0,
            recovery: None,
            timeout: None,
            row: 0,
            expired_s: -1.0,
            is_down: false,
            is_open,
            heard_s: start_s,
            longest_s: f64::NEG_INFINITY,
            state: None,
            since_s: start_s,
            room: i64::MAX,
            shut: None,
        }
    }

    /// What the path waits for now, with what the peer takes.
    pub(super) fn wait_for(&mut self, limit: Limit, room: i64, now_s: f64) {
        if self.state != Some(limit) {
            self.close(now_s);
            (self.state, self.since_s, self.room) = (Some(limit), now_s, i64::MAX);
        }
        self.room = self.room.min(room);
    }

    /// Ends the state that it is in.
    pub(super) fn close(&mut self, now_s: f64) {
        if let Some(state) = self.state
            && now_s > self.since_s
        {
            self.limits.push((self.since_s, now_s, state));
            if state == Limit::ReceiveWindowLimited {
                self.shut = Some((self.limits.len() - 1, self.room));
            }
        }
    }

    /// So many bytes of new data are sent.
    pub(super) fn send_new(&mut self, octets: i64, now_s: f64) {
        self.fresh_s.push(now_s);
        if let Some((index, room)) = self.shut.take()
            && octets <= room
        {
            // It would have fit before: the window was not what it waited for.
            self.limits[index].2 = Limit::UnderWay;
        }
    }

    /// Says of a closed window whether data waited behind it, and joins what is alike.
    pub(super) fn settle(&mut self) {
        let mut settled: Vec<(f64, f64, Limit)> = Vec::new();
        for &(start_s, end_s, noted) in &self.limits {
            let limit = if noted == Limit::WindowClosed { self.behind(start_s, end_s) } else { noted };
            match settled.last_mut() {
                Some(last) if last.2 == limit => last.1 = end_s,
                _ => settled.push((start_s, end_s, limit)),
            }
        }
        self.limits = settled;
    }

    fn behind(&self, start_s: f64, end_s: f64) -> Limit {
        let probed = self.probed_s.partition_point(|at| *at <= end_s)
            > self.probed_s.partition_point(|at| *at < start_s);
        let next = self.fresh_s.get(self.fresh_s.partition_point(|at| *at < end_s));
        if probed || next.is_some_and(|at| at - end_s <= PROMPT_S) {
            Limit::ReceiveWindowLimited
        } else {
            Limit::ApplicationLimited
        }
    }
}
