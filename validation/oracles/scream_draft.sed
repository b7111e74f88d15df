# Where SCReAM's reference (EricssonResearch/scream c8f84c3, ScreamV2Tx.cpp) differs from
# draft-ietf-ccwg-rfc8298bis-screamv2, the draft's values: sed -i -f scream_draft.sed ScreamV2Tx.cpp
# POST_CONGESTION_DELAY_RTT
s/kPostCongestionDelayRtts = 200/kPostCongestionDelayRtts = 100/
# VIRTUAL_RTT
s/kMinCongestionBackOffInterval_ntp = 1966u/kMinCongestionBackOffInterval_ntp = 1638u/
# what is in flight at most: of a round trip (120 ms), not of 50 ms
s/kSlowUpdateInterval_ntp = 3277/kSlowUpdateInterval_ntp = 7864/
# the margin of the target
s/rateLeft \/= 1.1f/rateLeft \/= 1.2f/
# the target follows round trips of more than 200 ms, too
s/std::min(0.2f, sRtt + 0.001f)/sRtt/
# the reaction to a delay is divided by the round trip once, not twice
s/^ *virtualL4sAlpha \/= .*//
# the round trip is smoothed once, not twice
s/(7 \* sRtt_ntp + sRttSh_ntp) \/ 8/sRttSh_ntp/
# without BACKOFF_SCALE_LOW_TARGET_RATE
s/kTotalAckedBitrateFraction = 0.8f/kTotalAckedBitrateFraction = 0/
# MAX_RELAXED_PACING_FACTOR
s/kMaxRelaxedPacingFactor = 5.0f/kMaxRelaxedPacingFactor = 4.0f/
# t_pace is that of the packet's size, not that of a full packet
s/time_ntp + paceInterval_ntp;/time_ntp + paceInterval_ntp * size \/ getMss();/
s/return paceInterval;/return paceInterval * size \/ getMss();/
