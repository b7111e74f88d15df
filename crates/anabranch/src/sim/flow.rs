//! One flow of a run: its two endpoints, its application, and when each wants to be woken.

use std::collections::VecDeque;

use super::address_changes::AddressChange;
use super::alarm::Alarm;
use crate::app::AnyApp;
use crate::transports::AnyEndpoint;

/// One flow of a run.
pub(super) struct Flow {
    pub(super) endpoints: [AnyEndpoint; 2],
    pub(super) timers: [Alarm; 2],
    pub(super) app: AnyApp,
    pub(super) app_alarm: Alarm,
    /// What becomes of the addresses of side A, the next one first.
    pub(super) address_changes: VecDeque<AddressChange>,
    /// Whether the application was done when it was last called.
    pub(super) is_done: bool,
}
