//! Pages of the web over one connection, as HTTP/2 loads them: the main object, then everything that it
//! names at once.
//!
//! What is left out: several hosts, objects that name further ones, priorities (the server answers in the
//! order of the requests; the page is loaded when all has arrived, in whatever order), what the browser
//! computes, and TLS. Default sizes are the medians of the HTTP Archive: Web Almanac 2024, chapter "Page
//! Weight", desktop: 2652 KB in 71 requests, of which HTML has 18 KB.

use anabranch_transport::endpoint::Service;
use anabranch_transport::report::declare;
use anabranch_transport::rng::{Rng, Streams};
use anabranch_transport::time::Duration;
use anabranch_transport::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConnectionUse, Exchanges, Plan, Setup};
use crate::app::Start;
use crate::app::drawn::{Distribution, Drawn};

declare! {
    /// How long pages took, in the order of the report.
    TIMES:
    /// Mean time from asking for a page until all of it had arrived.
    MEAN_PAGE_LOAD_MS = "mean_page_load_ms": Millis, Less;
    /// Half of these times are at most this long.
    P50_PAGE_LOAD_MS = "p50_page_load_ms": Millis, Less;
    /// 95 % of these times are at most this long.
    P95_PAGE_LOAD_MS = "p95_page_load_ms": Millis, Less;
    /// 99 % of these times are at most this long.
    P99_PAGE_LOAD_MS = "p99_page_load_ms": Millis, Less;
    /// The longest of these times.
    MAX_PAGE_LOAD_MS = "max_page_load_ms": Millis, Less;
}

/// Pages of the web.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Size of the main object, a value or a distribution; default "18 KiB" (HTTP Archive).
    pub main_size: Drawn<Bytes>,
    /// How many objects the main object refers to, up to 10000; default 70 (HTTP Archive).
    pub objects: u32,
    /// Size of such an object, a value or a distribution; default
    /// `{ kind = "lognormal", mean = "38532 B", sigma = 1.318 }`: the HTTP Archive's mean, with the spread
    /// of the body of web file sizes (P. Barford, M. Crovella, SIGMETRICS 1998).
    pub object_size: Drawn<Bytes>,
    /// Size of each request; default "100 B" (our choice: compressed headers).
    pub request_size: Drawn<Bytes>,
    /// The pause between a page and the next, a value or a distribution; default
    /// `{ kind = "pareto", mean = "3 s", shape = 1.5 }` (Barford and Crovella's inactive times: shape 1.5,
    /// at least 1 s).
    pub think_time: Drawn<Duration>,
    /// How many pages the run waits for. By default they do not end, as a background load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages: Option<u64>,
    /// Whether there is one connection for all pages or, with `"per_request"`, one for each; default
    /// `"persistent"`.
    pub connection: ConnectionUse,
    /// When the first connection is opened: a time, or a range to draw it from; default "0 s".
    pub start: Start,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            main_size: Drawn::Constant(Bytes(18 * 1024)),
            objects: 70,
            // (2652 - 18) KiB / 70.
            object_size: Drawn::Distribution(Distribution::Lognormal { mean: Bytes(38_532), sigma: 1.318 }),
            request_size: Drawn::Constant(Bytes(100)),
            think_time: Drawn::Distribution(Distribution::Pareto {
                mean: Duration::from_secs(3),
                shape: 1.5,
            }),
            pages: None,
            connection: ConnectionUse::Persistent,
            start: Start::At(Duration::ZERO),
        }
    }
}

/// A limit far above the number that pages have.
const MAX_OBJECTS: u32 = 10_000;

impl WebConfig {
    /// Builds the pages of the flow `flow` over a transport that offers `service`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<Exchanges, String> {
        self.main_size.check("main_size")?;
        self.object_size.check("object_size")?;
        self.request_size.check("request_size")?;
        if self.objects > MAX_OBJECTS {
            return Err(format!("objects = {} is not from 0 to {MAX_OBJECTS}", self.objects));
        }
        if self.pages == Some(0) {
            return Err("pages = 0 asks for nothing; use at least 1".to_owned());
        }
        let plan = Plan::Pages(Pages {
            main_size: self.main_size,
            objects: self.objects,
            object_size: self.object_size,
            request_size: self.request_size,
            request_rng: streams.stream(&format!("app/{flow}/requests")),
            response_rng: streams.stream(&format!("app/{flow}/responses")),
        });
        let (connection, count, start) = (self.connection, self.pages, self.start);
        let setup = Setup { kind: "web", connection, count, start, pause: self.think_time };
        setup.build(plan, "think_time", streams, flow, service)
    }
}

/// The pages that are asked for.
#[derive(Debug)]
pub(super) struct Pages {
    main_size: Drawn<Bytes>,
    objects: u32,
    object_size: Drawn<Bytes>,
    request_size: Drawn<Bytes>,
    request_rng: Rng,
    response_rng: Rng,
}

impl Pages {
    pub(super) fn stage(&mut self, stage: usize, mut ask: impl FnMut(u64, u64)) -> bool {
        let (objects, size) = match stage {
            0 => (1, self.main_size),
            1 => (self.objects, self.object_size),
            _ => return false,
        };
        for _ in 0..objects {
            let request = self.request_size.draw(&mut self.request_rng);
            ask(request.0, size.draw(&mut self.response_rng).0);
        }
        objects > 0
    }

    pub(super) const fn stages(&self) -> usize {
        if self.objects > 0 { 2 } else { 1 }
    }
}
