//! A flow of a run: its two endpoints, its application, and when each wants to be woken.

use std::collections::VecDeque;

use super::address_changes::AddressChange;
use super::alarm::Alarm;
use crate::app::AnyApp;
use crate::outside::Outside;
use crate::transports::AnyEndpoint;

/// One flow of a run.
pub(super) struct Flow {
    pub(super) endpoints: [AnyEndpoint; 2],
    pub(super) timers: [Alarm; 2],
    pub(super) app: AnyApp,
    pub(super) app_alarm: Alarm,
    /// The changes of the addresses of side A, the next one first.
    pub(super) address_changes: VecDeque<AddressChange>,
    /// Whether the application was done when it was last called.
    pub(super) is_done: bool,
}

impl Flow {
    /// The flow with ends that are run outside, in place of its own.
    pub(super) fn with_outside_ends(self) -> Self {
        let outside = |end| AnyEndpoint::Outside(Box::new(Outside::in_place_of(&end)));
        Self { endpoints: self.endpoints.map(outside), ..self }
    }
}
