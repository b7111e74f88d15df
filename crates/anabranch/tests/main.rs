//! Tests of the engine from outside: one program, which is compiled and linked once.

mod applications;
mod calls;
mod coupling;
mod engine_version;
mod fragmentation;
mod golden;
mod layers;
mod load_sharing;
mod mptcp_flows;
mod net_analytic;
mod net_lazy_is_evented;
mod path_policies;
mod queue_disciplines;
mod radio;
mod radio_lte;
mod radio_wifi;
mod radio_wimax;
mod random_scenario;
mod scenario_errors;
mod sim_golden;
mod sim_guards;
mod sim_properties;
mod sim_queueing;
mod tcp_flows;
mod tcp_laws;
mod time_accounts;
