//! Round trips per minute: how a network answers while others load it
//! (draft-ietf-ippm-responsiveness-09, section 5.3).
//!
//! The draft's "foreign" probes: each opens a connection, makes the TLS handshake and fetches one byte; the
//! result is 60 s over the mean of the three times, each of them the mean of its smallest 95 %. With one
//! connection for all, only the fetch is measured. The load is other flows' business; the draft's probes
//! on the very connections that carry the load are left out, and with them the half of its result that
//! they make. All probes of the run count, where the draft takes those of the last four seconds: let the
//! probes start when the load is steady.

use anabranch_transport::endpoint::Service;
use anabranch_transport::report::{Report, declare};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConnectionUse, Exchanges, Plan, Setup};
use crate::app::Start;
use crate::app::drawn::Drawn;
use crate::app::quantiles::trimmed_mean_ms;

declare! {
    /// How long probes took, in the order of the report.
    TIMES:
    /// Mean time that a probe took, with all its parts.
    MEAN_PROBE_MS = "mean_probe_ms": Millis, Less;
    /// Half of these times are at most this long.
    P50_PROBE_MS = "p50_probe_ms": Millis, Less;
    /// 95 % of these times are at most this long.
    P95_PROBE_MS = "p95_probe_ms": Millis, Less;
    /// 99 % of these times are at most this long.
    P99_PROBE_MS = "p99_probe_ms": Millis, Less;
    /// The longest of these times.
    MAX_PROBE_MS = "max_probe_ms": Millis, Less;
}

declare! {
    /// The scalars that only probes have.
    SCALARS:
    /// Mean of the smallest 95 % of the times in which connections were opened.
    CONNECT_MS = "connect_ms": Millis, Less;
    /// Mean of the smallest 95 % of the times of TLS handshakes.
    TLS_MS = "tls_ms": Millis, Less;
    /// Mean of the smallest 95 % of the times in which the byte was fetched.
    FETCH_MS = "fetch_ms": Millis, Less;
    /// Round trips per minute: 60 s over the mean of the times above (ippm-responsiveness, section 5.3).
    RPM = "rpm": One, More;
}

/// Probes that count round trips per minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResponsivenessConfig {
    /// Size of the request for one byte; default "100 B" (our choice: compressed headers).
    pub request_size: Drawn<Bytes>,
    /// Size of the response, headers included; default "100 B" (our choice).
    pub response_size: Drawn<Bytes>,
    /// The pause between a probe and the next, a value or a distribution; default "100 ms": the draft
    /// allows 100 probes a second.
    pub pause: Drawn<Duration>,
    /// How many probes the run waits for. By default they go on as long as the run does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// One connection for all probes, or one for each, whose opening is also measured (TCP); default
    /// `"persistent"`.
    pub connection: ConnectionUse,
    /// Whether probes with a connection of their own make a TLS handshake on it; default true.
    pub tls: bool,
    /// When the first connection is opened: a time, or a range to draw it from; default "0 s".
    pub start: Start,
}

impl Default for ResponsivenessConfig {
    fn default() -> Self {
        Self {
            request_size: Drawn::Constant(Bytes(100)),
            response_size: Drawn::Constant(Bytes(100)),
            pause: Drawn::Constant(Duration::from_millis(100)),
            count: None,
            connection: ConnectionUse::Persistent,
            tls: true,
            start: Start::At(Duration::ZERO),
        }
    }
}

/// A TLS 1.3 `ClientHello` as browsers send it: padded to 512 bytes (RFC 7685), and the record's header.
const CLIENT_HELLO: u64 = 517;

/// The server's answer, most of it certificates: what the request, the response and the `ClientHello`
/// leave of the 5000 bytes that the draft counts for a probe (section 5.3).
const SERVER_HELLO: u64 = 4_200;

/// The share of the times that count, from the smallest (draft, section 5.3.1: TMP).
const TRIMMED_SHARE: f64 = 0.95;

impl ResponsivenessConfig {
    /// Builds the probes of the flow `flow` over a transport that offers `service`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<Exchanges, String> {
        self.request_size.check("request_size")?;
        self.response_size.check("response_size")?;
        let has_tls = self.tls && self.connection == ConnectionUse::PerRequest;
        let plan = Plan::Probes(Probes {
            sizes: super::requests::Requests::new(self.request_size, self.response_size, streams, flow),
            fetch_stage: usize::from(has_tls),
            connect: Vec::new(),
            tls: Vec::new(),
            fetch: Vec::new(),
        });
        let (connection, count, start) = (self.connection, self.count, self.start);
        let setup = Setup { kind: "responsiveness", connection, count, start, pause: self.pause };
        setup.build(plan, "pause", streams, flow, service)
    }
}

/// The probes that are made, and how long they took.
#[derive(Debug)]
pub(super) struct Probes {
    sizes: super::requests::Requests,
    /// The stage in which the byte is fetched: after the TLS handshake, if there is one.
    fetch_stage: usize,
    connect: Vec<Duration>,
    tls: Vec<Duration>,
    fetch: Vec<Duration>,
}

impl Probes {
    pub(super) fn stage(&mut self, stage: usize, mut ask: impl FnMut(u64, u64)) -> bool {
        if stage < self.fetch_stage {
            ask(CLIENT_HELLO, SERVER_HELLO);
            return true;
        }
        self.sizes.stage(stage - self.fetch_stage, ask)
    }

    pub(super) const fn stages(&self) -> usize {
        self.fetch_stage + 1
    }

    pub(super) fn on_connected(&mut self, time: Duration) {
        self.connect.push(time);
    }

    pub(super) fn on_stage(&mut self, stage: usize, time: Duration) {
        let times = if stage < self.fetch_stage { &mut self.tls } else { &mut self.fetch };
        times.push(time);
    }

    pub(super) fn report(&self, report: &mut Report<'_>) {
        let mut sum_ms = 0.0;
        let mut parts = 0.0;
        for (name, times) in [(CONNECT_MS, &self.connect), (TLS_MS, &self.tls), (FETCH_MS, &self.fetch)] {
            let mean = trimmed_mean_ms(&mut times.clone(), TRIMMED_SHARE);
            report.scalar(name, mean);
            if !times.is_empty() {
                sum_ms += mean;
                parts += 1.0;
            }
        }
        // Section 5.3.1.1, the foreign responsiveness.
        report.scalar(RPM, 60_000.0 / (sum_ms / parts));
    }
}
