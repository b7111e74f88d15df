//! Requests and their responses, one after the other: short flows, remote calls, a database.

use anabranch_transport::endpoint::Service;
use anabranch_transport::report::declare;
use anabranch_transport::rng::{Rng, Streams};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConnectionUse, Exchanges, Plan, Setup};
use crate::app::Start;
use crate::app::drawn::Drawn;

declare! {
    /// How long requests took, in the order of the report.
    TIMES:
    /// Mean time from a request until its response was complete, that of opening a connection for it
    /// included.
    MEAN_COMPLETION_MS = "mean_completion_ms": Millis, Less;
    /// Half of these times are at most this long.
    P50_COMPLETION_MS = "p50_completion_ms": Millis, Less;
    /// 95 % of these times are at most this long.
    P95_COMPLETION_MS = "p95_completion_ms": Millis, Less;
    /// 99 % of these times are at most this long.
    P99_COMPLETION_MS = "p99_completion_ms": Millis, Less;
    /// The longest of these times.
    MAX_COMPLETION_MS = "max_completion_ms": Millis, Less;
}

/// Requests and their responses, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RequestsConfig {
    /// Size of a request, a value or a distribution; default "100 B".
    pub request_size: Drawn<Bytes>,
    /// Size of a response, a value or a distribution such as `{ kind = "pareto", mean = "12 kB" }`; default
    /// "10 kB".
    pub response_size: Drawn<Bytes>,
    /// The pause between a response and the next request, a value or a distribution; default "0 s".
    pub think_time: Drawn<Duration>,
    /// How many requests the run waits for. By default they do not end, as a background load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Which connections are used; default `"persistent"`.
    pub connection: ConnectionUse,
    /// When the first connection is opened: a time, or a range to draw it from; default "0 s".
    pub start: Start,
}

impl Default for RequestsConfig {
    fn default() -> Self {
        Self {
            request_size: Drawn::Constant(Bytes(100)),
            response_size: Drawn::Constant(Bytes(10_000)),
            think_time: Drawn::Constant(Duration::ZERO),
            count: None,
            connection: ConnectionUse::Persistent,
            start: Start::At(Duration::ZERO),
        }
    }
}

impl RequestsConfig {
    /// Builds the requests of the flow `flow` over a transport that offers `service`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<Exchanges, String> {
        self.request_size.check("request_size")?;
        self.response_size.check("response_size")?;
        let plan = Plan::Requests(Requests::new(self.request_size, self.response_size, streams, flow));
        let (connection, count, start) = (self.connection, self.count, self.start);
        let setup = Setup { kind: "requests", connection, count, start, pause: self.think_time };
        setup.build(plan, "think_time", streams, flow, service)
    }
}

/// The requests that are made.
#[derive(Debug)]
pub(super) struct Requests {
    request_size: Drawn<Bytes>,
    response_size: Drawn<Bytes>,
    request_rng: Rng,
    response_rng: Rng,
}

impl Requests {
    pub(super) fn new(
        request_size: Drawn<Bytes>,
        response_size: Drawn<Bytes>,
        streams: Streams,
        flow: &str,
    ) -> Self {
        Self {
            request_size,
            response_size,
            request_rng: streams.stream(&format!("app/{flow}/requests")),
            response_rng: streams.stream(&format!("app/{flow}/responses")),
        }
    }

    pub(super) fn stage(&mut self, stage: usize, mut ask: impl FnMut(u64, u64)) -> bool {
        if stage > 0 {
            return false;
        }
        let request = self.request_size.draw(&mut self.request_rng);
        let response = self.response_size.draw(&mut self.response_rng);
        ask(request.0, response.0);
        true
    }
}
