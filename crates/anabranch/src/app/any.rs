//! The applications by name, and one of them at work.

use anabranch_transport::endpoint::{Event, Service};
use anabranch_transport::flow::Side;
use anabranch_transport::report::{Declared, Report};
use anabranch_transport::rng::Streams;
use anabranch_transport::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{App, Commands, Frame, Start, bulk, datagrams, exchanges, video, voip};
use crate::transports;

/// The scalars of each kind of application, which it has in words.
pub(crate) const SCALARS: [(&str, &str, &[&[Declared]]); 7] = [
    ("bulk", "A bulk transfer", &[bulk::SCALARS]),
    ("datagrams", "A load of messages", &[datagrams::SCALARS]),
    ("requests", "Requests", &[exchanges::SCALARS, exchanges::requests::TIMES]),
    (
        "responsiveness",
        "Probes of responsiveness",
        &[exchanges::SCALARS, exchanges::responsiveness::TIMES, exchanges::responsiveness::SCALARS],
    ),
    ("video", "Video", &[video::SCALARS]),
    ("voip", "A call", &[voip::SCALARS]),
    ("web", "Pages", &[exchanges::SCALARS, exchanges::web::TIMES]),
];

/// The kinds that have scalars for each direction where there are two.
pub(crate) const HAVE_DIRECTIONS: [&str; 3] = ["bulk", "video", "voip"];

/// The application of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AppConfig {
    /// A bulk transfer, as iperf makes it.
    Bulk(bulk::BulkConfig),
    /// Messages of one size: a load.
    Datagrams(datagrams::DatagramsConfig),
    /// Requests and their responses.
    Requests(exchanges::requests::RequestsConfig),
    /// Probes that count round trips per minute, as users of a loaded network would notice them.
    Responsiveness(exchanges::responsiveness::ResponsivenessConfig),
    /// Video, as a call has it.
    Video(video::VideoConfig),
    /// A telephone call, rated by the E-model.
    Voip(voip::VoipConfig),
    /// Pages of the web.
    Web(exchanges::web::WebConfig),
}

impl AppConfig {
    /// Builds the application of the flow `flow`, over a transport that offers `service`; its random
    /// streams are `app/<flow>/...`.
    ///
    /// # Errors
    /// One sentence with key, value and what is allowed.
    pub fn build(&self, streams: Streams, flow: &str, service: Service) -> Result<AnyApp, String> {
        let exchanges = |app| AnyApp::Exchanges(Box::new(app));
        let sends_messages = match self {
            Self::Datagrams(config) => Some(("datagrams", config.unordered)),
            Self::Video(_) => Some(("video", true)),
            Self::Voip(config) => Some(("voip", config.unordered)),
            _ => None,
        };
        if let Some((kind, unordered)) = sends_messages {
            match service {
                Service::Stream | Service::Streams { longest_datagram: 0 } => {
                    return Err(format!(
                        "kind = \"{kind}\" sends messages, which a stream of bytes does not keep apart; use {}",
                        transports::choice_of_messages()
                    ));
                }
                Service::Streams { .. } if !unordered => {
                    return Err(
                        "unordered = false: beside streams of bytes a message is a datagram, which has no order; \
                         use true"
                            .to_owned(),
                    );
                }
                _ => {}
            }
        }
        Ok(match self {
            Self::Bulk(config) => AnyApp::Bulk(Box::new(config.build(streams, flow, service)?)),
            Self::Datagrams(config) => AnyApp::Datagrams(Box::new(config.build(streams, flow, service)?)),
            Self::Requests(config) => exchanges(config.build(streams, flow, service)?),
            Self::Responsiveness(config) => exchanges(config.build(streams, flow, service)?),
            Self::Video(config) => AnyApp::Video(Box::new(config.build(streams, flow, service)?)),
            Self::Voip(config) => AnyApp::Voip(Box::new(config.build(streams, flow)?)),
            Self::Web(config) => exchanges(config.build(streams, flow, service)?),
        })
    }

    /// When the application starts, to be changed.
    pub(crate) fn start_mut(&mut self) -> &mut Start {
        match self {
            Self::Bulk(config) => &mut config.start,
            Self::Datagrams(config) => &mut config.start,
            Self::Requests(config) => &mut config.start,
            Self::Responsiveness(config) => &mut config.start,
            Self::Video(config) => &mut config.start,
            Self::Voip(config) => &mut config.start,
            Self::Web(config) => &mut config.start,
        }
    }
}

/// Any application, statically dispatched for the built-in ones.
#[expect(missing_debug_implementations, reason = "a user's own application need not be printable")]
pub enum AnyApp {
    /// A bulk transfer.
    Bulk(Box<bulk::Bulk>),
    /// A user's own.
    Custom(Box<dyn App + Send>),
    /// Messages of one size.
    Datagrams(Box<datagrams::Datagrams>),
    /// Requests and responses.
    Exchanges(Box<exchanges::Exchanges>),
    /// Video.
    Video(Box<video::Video>),
    /// A telephone call.
    Voip(Box<voip::Voip>),
}

impl App for AnyApp {
    fn next_wakeup(&self) -> Time {
        match self {
            Self::Bulk(app) => app.next_wakeup(),
            Self::Custom(app) => app.next_wakeup(),
            Self::Datagrams(app) => app.next_wakeup(),
            Self::Exchanges(app) => app.next_wakeup(),
            Self::Video(app) => app.next_wakeup(),
            Self::Voip(app) => app.next_wakeup(),
        }
    }

    fn handle_wakeup(&mut self, now: Time, commands: &mut Commands) {
        match self {
            Self::Bulk(app) => app.handle_wakeup(now, commands),
            Self::Custom(app) => app.handle_wakeup(now, commands),
            Self::Datagrams(app) => app.handle_wakeup(now, commands),
            Self::Exchanges(app) => app.handle_wakeup(now, commands),
            Self::Video(app) => app.handle_wakeup(now, commands),
            Self::Voip(app) => app.handle_wakeup(now, commands),
        }
    }

    fn handle_event(&mut self, now: Time, side: Side, event: &Event, commands: &mut Commands) {
        match self {
            Self::Bulk(app) => app.handle_event(now, side, event, commands),
            Self::Custom(app) => app.handle_event(now, side, event, commands),
            Self::Datagrams(app) => app.handle_event(now, side, event, commands),
            Self::Exchanges(app) => app.handle_event(now, side, event, commands),
            Self::Video(app) => app.handle_event(now, side, event, commands),
            Self::Voip(app) => app.handle_event(now, side, event, commands),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Bulk(app) => app.is_done(),
            Self::Custom(app) => app.is_done(),
            Self::Datagrams(app) => app.is_done(),
            Self::Exchanges(app) => app.is_done(),
            Self::Video(app) => app.is_done(),
            Self::Voip(app) => app.is_done(),
        }
    }

    fn earliest_end(&self) -> Time {
        match self {
            Self::Custom(app) => app.earliest_end(),
            Self::Video(app) => app.earliest_end(),
            Self::Voip(app) => app.earliest_end(),
            Self::Bulk(_) | Self::Datagrams(_) | Self::Exchanges(_) => Time::ZERO,
        }
    }

    fn report(&self, now: Time, report: &mut Report<'_>) {
        match self {
            Self::Bulk(app) => app.report(now, report),
            Self::Custom(app) => app.report(now, report),
            Self::Datagrams(app) => app.report(now, report),
            Self::Exchanges(app) => app.report(now, report),
            Self::Video(app) => app.report(now, report),
            Self::Voip(app) => app.report(now, report),
        }
    }

    fn frames(&self, sender: Side) -> Vec<Frame> {
        match self {
            Self::Bulk(app) => app.frames(sender),
            Self::Custom(app) => app.frames(sender),
            Self::Datagrams(app) => app.frames(sender),
            Self::Exchanges(app) => app.frames(sender),
            Self::Video(app) => app.frames(sender),
            Self::Voip(app) => app.frames(sender),
        }
    }

    fn ratings(&self, sender: Side) -> Vec<voip::RatedInterval> {
        match self {
            Self::Custom(app) => app.ratings(sender),
            Self::Video(app) => app.ratings(sender),
            Self::Voip(app) => app.ratings(sender),
            Self::Bulk(_) | Self::Datagrams(_) | Self::Exchanges(_) => Vec::new(),
        }
    }

    fn intervals(&self, sender: Side, now: Time) -> Vec<bulk::Interval> {
        match self {
            Self::Bulk(app) => app.intervals(sender, now),
            Self::Custom(app) => app.intervals(sender, now),
            Self::Datagrams(_) | Self::Exchanges(_) | Self::Video(_) | Self::Voip(_) => Vec::new(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Bulk(app) => app.memory(),
            Self::Custom(app) => app.memory(),
            Self::Datagrams(app) => app.memory(),
            Self::Exchanges(app) => app.memory(),
            Self::Video(app) => app.memory(),
            Self::Voip(_) => 0,
        }
    }

    fn exchanges(&self) -> &[exchanges::Exchange] {
        match self {
            Self::Custom(app) => app.exchanges(),
            Self::Exchanges(app) => app.exchanges(),
            Self::Bulk(_) | Self::Datagrams(_) | Self::Video(_) | Self::Voip(_) => &[],
        }
    }
}
