//! Rules in which the RFCs and Linux differ and that no other setting names.

use crate::procedures::procedures;

procedures! {
    "TcpProcedures",
    /// Rules in which Linux differs from the RFCs. A rule that is left out has its profile's value; defaults
    /// in the descriptions are those of profile rfc and `kheirkhah_v1`. "Linux" is both profiles of it.
    3 columns:

    /// Whether the reordering timer of RACK has 2 ms more; default false, in Linux true
    /// (`tcp_rack_mark_lost`).
    reordering_timer_has_margin: [false, true, true];
    /// Whether a tail loss probe waits for RTO.Min more where one segment is outstanding and for 2 ms more
    /// otherwise, instead of for 200 ms and nothing; default false (RFC 8985 section 7.2), in Linux true
    /// (`tcp_schedule_loss_probe`).
    probe_waits_for_rto_min: [false, true, true];
    /// Whether RACK asks the timestamp echo which transmission of a segment has arrived; default true (RFC
    /// 8985 section 6.2), in Linux false (`tcp_rack_advance`).
    rack_asks_the_echo: [true, false, false];
    /// Whether congestion control is told round-trip times that only timestamps give; default false, in Linux
    /// true (`tcp_ack_update_rtt`).
    timestamps_reach_control: [false, true, true];
    /// Whether one lost SYN leaves the initial window alone, and only the second one makes it one segment;
    /// default false (RFC 6928 section 2), in Linux true (`tcp_init_transfer`).
    forgives_one_lost_syn: [false, true, true];
    /// Whether RTO is 3 s at least after a lost SYN; default true (RFC 6298 section 5.7), in Linux false.
    raises_rto_after_lost_syn: [true, false, false];
    /// Whether limited transmit sends two segments at most; default true (RFC 3042 section 2), in Linux
    /// false.
    limits_limited_transmit: [true, false, false];
    /// Whether segments that are older by one tick, and old duplicate acknowledgements that say nothing new,
    /// are taken; default false (RFC 7323 section 5.3), in Linux true (`tcp_paws_discard`,
    /// `tcp_disordered_ack`).
    tolerates_old_timestamps: [false, true, true];
    /// Whether segments without data that are old or lie outside the window, a SYN that comes again and what
    /// comes in TIME-WAIT are answered once in 500 ms at most, counted together with challenges; default
    /// false: only challenges are (RFC 5961 section 7), in profile `linux_6` true (`tcp_oow_rate_limited`).
    limits_answers: [false, false, true];
    /// Whether a segment that acknowledges what was not sent is dropped, in ESTABLISHED, as if it had not
    /// come; default false: it is answered with an acknowledgement (RFC 9293 section 3.10.7.4), in Linux true
    /// (`tcp_rcv_established`).
    ignores_unsent_acknowledgements: [false, true, true];
    /// Whether an idle sender's window is reduced also when the peer opens its own, and not only when the
    /// application writes; default true (RFC 5681 section 4.1), in profile `linux_2_6_20` false (since Linux
    /// 4.2: `tcp_ack_update_window`).
    idle_ends_with_window: [true, false, true];
    /// Whether the application's reading causes what waits to be acknowledged, if enough waits or the sender
    /// has pushed it; default false, in profile `linux_6` true (`tcp_cleanup_rbuf`).
    reading_acknowledges: [false, false, true];
    /// Whether as many segments leave at once as the device segments, a millisecond's worth at the pace;
    /// default false, in profile `linux_6` true (`tcp_tso_autosize`).
    sends_bursts: [false, false, true];
    /// Whether a FIN is acknowledged like data to which the application may answer, so after `ack_delay` if
    /// nothing is sent before and there was data; default false: at once (RFC 9293 section 3.10.7.4), in
    /// Linux true (`tcp_fin`).
    delays_ack_of_fin: [false, true, true];
    /// Whether data with the first of several marks, data that is not ECN-capable after data that was, and
    /// the segment behind it are acknowledged at once, as is data that says CWR; default false, in profile
    /// `linux_6` true (`__tcp_ecn_check_ce`, `tcp_ecn_accept_cwr`).
    quickens_for_marks: [false, false, true];
    /// Whether, with accurate ECN, segments without data and retransmissions are sent ECN-capable too;
    /// default false (RFC 3168 sections 6.1.4 and 6.1.5), in profile `linux_6` true (`tcp_ecn_send`).
    marks_every_segment: [false, false, true];
    /// Whether every segment has the option of accurate ECN as soon as the peer has sent one, data being made
    /// smaller for it, and none but the SYN-ACK before; default false: segments that say something new and
    /// have room for it (RFC 9768 section 3.2.3.3), in profile `linux_6` true (`tcp_established_options`
    /// with `tcp_ecn_option` 2).
    repeats_ecn_option: [false, false, true];
    /// Whether an end whose application has closed its socket waits for the peer's FIN for a minute only, or
    /// for 3.5 times RTO if that is longer; default false: for ever (RFC 9293 section 3.6), in Linux true
    /// (`tcp_fin_time`).
    leaves_fin_wait_2: [false, true, true];
    /// Whether a SYN that is answered with a wrong acknowledgement is retransmitted 2 ms later, if it is the
    /// first one; default false: after the timeout, in profile `linux_6` true
    /// (`tcp_rcv_synsent_state_process`).
    repeats_syn_at_once: [false, false, true];
    /// Whether a SYN that carries FIN is dropped by an end that waits for connections; default false (RFC
    /// 9293 section 3.10.7.2), in profile `linux_6` true (`tcp_rcv_state_process`).
    drops_syn_with_fin: [false, false, true];
    /// Whether connections that are not open yet, or not any more, are handled as by Linux's small sockets:
    /// before the end of the handshake, a reset with a wrong acknowledgement is ignored, and a SYN with
    /// another number is answered with a reset; in TIME-WAIT, a reset beside the expected number is ignored;
    /// default false (RFC 9293 section 3.10.7.4), in Linux true (`tcp_check_req`,
    /// `tcp_timewait_state_process`).
    has_small_sockets: [false, true, true];
    /// Whether a reset counts also with the number of the peer's FIN after that FIN, and with the end of the
    /// highest run that is acknowledged selectively; default false: it must have the number that is expected
    /// next (RFC 5961 section 3.2), in profile `linux_6` true (`tcp_validate_incoming`).
    takes_more_resets: [false, false, true];
    /// Whether a reset after both ends have closed is an error for an application that keeps its socket;
    /// default false (RFC 9293 section 3.10.7.4), in Linux true (`tcp_reset`).
    reports_late_resets: [false, true, true];
    /// Whether F-RTO calls a timeout spurious as soon as data is acknowledged that was sent only once;
    /// default false: the second acknowledgement after the timeout decides (RFC 5682), in profile `linux_6`
    /// true (`tcp_process_loss`).
    f_rto_decides_at_once: [false, false, true];
    /// Whether an old timestamp echo takes a timeout back although the acknowledgement reports a duplicate;
    /// default false (RFC 3522 section 3.2), in Linux true (`tcp_try_undo_loss`).
    eifel_ignores_duplicates: [false, true, true];
    /// Whether D-SACKs take a reduction back only if each segment that was retransmitted in the window of
    /// data was so once and is reported, and never again after a report of one that was not retransmitted;
    /// default true (RFC 3708 section 3), in Linux false: as many reports as retransmissions do
    /// (`tcp_check_dsack`, `tcp_try_undo_dsack`).
    tells_duplicates_apart: [true, false, false];
    /// Whether the window after a spurious timeout is what is in flight and what was acknowledged, at most an
    /// initial window of that, below the threshold before the timeout, and the next round-trip time of new
    /// data is taken as if it were the first one, unless RTO was longer; default true (RFC 4015 section 3.1),
    /// in Linux false: it is the window before the timeout (`tcp_undo_cwnd_reduction`).
    eifel_response: [true, false, false];
}
