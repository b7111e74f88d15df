//! Drills: what an end does, step by step, by section of RFC 9000 and RFC 9002.
//!
//! Mistakes of other implementations, and who would find them here:
//!
//! | where | mistake | drill |
//! |---|---|---|
//! | quinn issue 2658 | no loss timer once a failed validation has led back to the old path | `migration::an_address_that_does_not_answer_gets_little` |
//! | quinn issues 1775, 2064, 2309 | bytes in flight underflow after quick migrations | `path_attacks::all_paths_that_move_at_once_are_bounded`, `every_byte_arrives_once_over_two_paths` |
//! | neqo issue 621 | the timer of packets that are lost already fires again | `loss::what_was_lost_has_no_timer` |
//! | neqo pull request 1093 | a path's window is held against what is on its way on all of them | `multipath::section_5_3_each_path_has_its_window` |
//! | neqo pull request 2129 | one probe carries data, the other one nothing | `loss::both_probes_carry_what_is_outstanding` |
//! | neqo pull request 2492 | lost by time before anything of the space is acknowledged | `loss::nothing_is_lost_before_an_acknowledgement` |
//! | s2n-quic pull request 861 | a packet without a challenge from elsewhere moves nobody | `rebinding::a_server_follows_a_client_behind_a_nat` |
//! | s2n-quic issue 3245 | answers to challenges are padded beyond three times what came | `migration::a_probe_is_answered_where_it_came_from` |
//! | tquic pull request 523 | after a rebinding data goes to the old address, and the limit stays | `rebinding::a_server_follows_a_client_behind_a_nat`, `rebinding::an_address_that_is_not_validated_gets_three_times_what_came` |
//! | quicly pull request 670 | a path ID and a pair of addresses are one thing | `multipath::a_path_that_moves_is_the_same_path` |
//! | quic-go CVE-2024-22189, quiche CVE-2024-1410 | retirements of connection IDs without end | `a_peer_cannot_make_the_queue_of_retirements_grow` |
//! | quic-go CVE-2023-49295 | answers to challenges without end | `streams::a_challenge_is_answered_and_many_are_answered_once` |
//! | picoquic issue 1451 | packets with forged sources turn a server on others | `migration::an_address_that_does_not_answer_gets_little` |
//! | noq issue 803, multipath issue 293 | what is acknowledged on a dead path makes the other one look dead | `multipath::a_peer_that_acknowledges_on_a_dead_path_finds_another_one` |
//! | noq issues 435, 512 | what was on its way waits for a dead path | `multipath::section_5_7_a_silent_path_loses_nothing` |

mod ack_frequency;
mod closing;
mod early_data;
mod handshake;
mod key_update;
mod loss;
mod migration;
mod multipath;
mod path_attacks;
mod path_choice;
mod rebinding;
mod service;
mod strangers;
mod streams;
mod transfer;
