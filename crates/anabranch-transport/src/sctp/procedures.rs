//! Rules in which Linux or FreeBSD differs from RFC 9260 and that no other setting names.

use crate::procedures::procedures;

procedures! {
    "SctpProcedures",
    /// Rules in which Linux or FreeBSD differs from RFC 9260. A rule that is left out has its profile's
    /// value; defaults in the descriptions are those of profile rfc9260 and all others that are not named.
    /// The columns are those, linux and `freebsd_10`.
    3 columns:

    /// Whether a peer that no longer answers is sent an ABORT when the association is given up, as Linux
    /// (`sctp_cmd_assoc_failed`) and FreeBSD do (`sctp_threshold_management`); default false, with profile
    /// linux too: no study has counted it.
    aborts_unreachable_peers: [false, false, false];
    /// Whether a FORWARD TSN shares the packet of the data behind it, as with FreeBSD
    /// (`sctp_chunk_output`; RFC 3758 section 3.5 leaves it open); default false.
    bundles_forward_tsn: [false, false, false];
    /// Whether a FORWARD TSN names a stream for every chunk of it that is skipped, as with FreeBSD
    /// (`send_forward_tsn`), or once with the largest number; default false.
    names_streams_by_chunk: [false, false, false];
    /// Whether INIT names the types of addresses that its sender supports, as with FreeBSD
    /// (`sctp_send_initiate`; RFC 9260 section 3.3.2.1 leaves it open); default false, since some peers drop
    /// such an INIT.
    names_address_types: [false, false, false];
    /// Whether Nagle's algorithm holds back only what the application has just written, the last fragment
    /// of a message too, and whatever else happens lets it leave, as with FreeBSD (`sctp_chunk_output`);
    /// default false.
    holds_back_writes: [false, false, false];
    /// Whether marked data leaves before the FORWARD TSN of a timeout, which then has a packet of its own
    /// and no new data behind it, as with FreeBSD (`sctp_chunk_output` for `SCTP_OUTPUT_FROM_T3`; RFC 3758
    /// section 3.5 has no order); default false.
    retransmits_before_forward_tsn: [false, false, false];
    /// Whether data whose lifetime is over is given up as soon as a SACK acknowledges something behind it, as
    /// with FreeBSD (`sctp_strike_gap_ack_chunks`), or when it would be retransmitted (RFC 3758 section 4.1
    /// leaves it open); default false.
    gives_up_reported_data: [false, false, false];
    /// Whether a SACK whose cumulative TSN was never sent ends the association with an ABORT, as with
    /// FreeBSD (`sctp_handle_sack`), or is passed over (RFC 9260 section 6.2.1 leaves it open); default
    /// false.
    aborts_on_unsent_tsn: [false, false, false];
    /// Whether an error changes the path's state before it backs the timer off, so that the first heartbeat
    /// on a suspect path waits for the RTO before it; default false, in profile linux true
    /// (`sctp_do_8_2_transport_strike`).
    backs_off_last: [false, true, false];
    /// Whether a path with Path.Max.Retrans errors is potentially failed, or only one with fewer; default
    /// true (RFC 7829 section 3.2), in profile linux false (`sctp_do_8_2_transport_strike`).
    suspects_at_path_max_retrans: [true, false, true];
    /// Whether acknowledged data makes the potentially failed path that it was sent on active; default true,
    /// in profile linux false (`sctp_check_transmitted`).
    sacks_clear_suspicion: [true, false, true];
    /// Whether acknowledged data makes the inactive path that it was sent on active whichever path the SACK
    /// comes over, or only when it comes over that one; default true, in profile linux false
    /// (`sctp_check_transmitted`).
    sacks_revive_from_any_path: [true, false, true];
    /// Whether the acknowledgement of data that had been marked for retransmission clears the errors of the
    /// path that it was sent on; default true, in profile linux false (`sctp_check_transmitted`).
    marked_data_clears_errors: [true, false, true];
    /// Whether the acknowledgement of data that was sent more than once clears the errors of the path that it
    /// was last sent on; default true, in profile `freebsd_10` false (`sctp_handle_sack`: `net_ack2`).
    /// Without it, what went over another path before ends no failure.
    retransmitted_data_clears_errors: [true, true, false];
    /// Whether answered heartbeats clear the errors of an association that is being closed; default true, in
    /// profile linux false (`sctp_cmd_transport_on`).
    heartbeats_keep_closing: [true, false, true];
    /// Whether an answer to a heartbeat counts that is later than HB.interval and RTO together; default true,
    /// in profile linux false (`sctp_sf_backbeat_8_3`).
    takes_late_heartbeat_acks: [true, false, true];
    /// Whether data that waits for the window puts heartbeats off as sent data does; default false, in
    /// profile linux true (`__sctp_outq_flush_rtx`).
    waiting_data_defers_heartbeats: [false, true, false];
    /// Whether the retransmission timer starts anew when the cumulative TSN passes chunks of its path,
    /// instead of when the earliest one is acknowledged or retransmitted; default false (RFC 9260 sections
    /// 6.3.2 and 7.2.4), in profile linux true (`sctp_check_transmitted`, `sctp_transport_reset_t3_rtx`).
    timer_follows_cumulative_tsn: [false, true, false];
    /// Whether a SACK starts the retransmission timers of all paths anew when its cumulative TSN moves and
    /// none otherwise, instead of a path's when its earliest chunk is acknowledged; a SHUTDOWN as well.
    /// Default false (RFC 9260 section 6.3.2 R3), in profile `freebsd_10` true (`sctp_handle_sack`,
    /// `sctp_express_handle_sack`). With load sharing it is not.
    cumulative_tsn_restarts_timers: [false, false, true];
    /// Whether a timeout marks only data of its path that left longer ago than SRTT + 4 RTTVAR, which a SACK
    /// could have answered, or all of it, and whether what it marked waits for the window of its path;
    /// default false (RFC 9260 section 6.3.3 E3), in profile `freebsd_10` true (`sctp_mark_all_for_resend`,
    /// `sctp_chunk_retransmission`). A timeout that marks nothing leaves the window as it is, and T3-rtx off
    /// until the next SACK unless no other path's runs. The only data beyond a closed window is marked.
    timeouts_spare_young_data: [false, false, true];
    /// Whether the window is asked for every chunk, not for every packet, and after a timeout too; default
    /// false, in profile linux true (`sctp_packet_can_append_data`).
    asks_window_for_chunks: [false, true, false];
    /// Whether Max.Burst limits retransmissions too; default true, in profile linux false
    /// (`sctp_outq_flush_data`).
    limits_bursts_of_retransmissions: [true, false, true];
    /// Whether a retransmission at once is as large as the device segments, up to half the window; default
    /// false: one packet, in profile linux true (`sctp_packet_will_fit`).
    segments_retransmissions: [false, true, false];
    /// Whether the window of an idle path shrinks with its heartbeats, instead of when it next sends; default
    /// false, in profile linux true (`SCTP_CMD_TRANSPORT_IDLE`).
    idle_window_shrinks_with_heartbeats: [false, true, false];
    /// Whether the first data is acknowledged at once; default false, in profile linux true
    /// (`peer.sack_needed` starts at 1).
    first_sack_at_once: [false, true, false];
    /// Whether every packet with data starts the delay of the SACK anew; default false, in profile linux true
    /// (`sctp_gen_sack`).
    data_restarts_sack_delay: [false, true, false];
    /// Whether a SACK has 16 gap blocks at most, instead of as many as fit; default false, in profile linux
    /// true (`SCTP_MAX_GABS`).
    few_gap_blocks: [false, true, false];
    /// Whether an NR-SACK takes for final only what was delivered, as with FreeBSD, which may drop the rest
    /// (`net.inet.sctp.do_sctp_drain`), or all that has arrived, which is never dropped here; default false.
    /// With interleaving all is final.
    only_delivered_is_final: [false, false, false];
    /// Whether the send buffer is charged with the kernel's memory for each chunk; default false, in profile
    /// linux true (`sctp_set_owner_w`). With load sharing it is not.
    charges_kernel_memory: [false, true, false];
}
