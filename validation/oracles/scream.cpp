// The reference of SCReAM version 2 (EricssonResearch/scream, `code/ScreamV2Tx.cpp`, commit c8f84c3 of July
// 2026) as an oracle of ours: a sender and a receiver over RFC 8867 section 5.1, in virtual time.
//
// usage: scream even|l4s > ROWS
//
// even: frames of one size, 30 a second. l4s: the same, with packets that are ECT(1) and marked where they waited
// for more than 5 ms. A row is 100 ms: the target, what arrived with all headers, and how long packets waited in
// the queue, in the mean and at most.
//
// build, with the draft's values where the reference has others for scream_draft_even.csv and
// scream_draft_l4s.csv, and without the first line for scream_even.csv:
//   sed -i -f scream_draft.sed SCREAM/code/ScreamV2Tx.cpp
//   g++ -O2 -std=c++17 -DIGNORE_PACKET -I SCREAM/code scream.cpp SCREAM/code/RtpQueue.cpp
//       SCREAM/code/Scream{Rx,Tx,V2Tx,V2TxStream}.cpp
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <vector>

#include "RtpQueue.h"
#include "ScreamRx.h"
#include "ScreamTx.h"

static const double start_s[] = {0, 40, 60, 80, 100};
static const double capacity_bit_per_s[] = {1e6, 2.5e6, 0.6e6, 1e6};
static const double one_way_s = 0.05, queue_s = 0.3, mark_from_s = 0.005;
static const int frames_per_s = 30, payload_bytes = 1000, rtp_bytes = 12, ip_udp_bytes = 28;
static const uint32_t second = 65536, ssrc = 10;
// The clock of the ends need not begin with the run: the draft's times of earlier events are "long ago".
static const uint32_t clock_begins = 1000 * second;

struct Packet {
    double arrives_s, waited_s;
    int bytes;
    uint16_t number;
    uint32_t stamp;
    bool is_last, is_marked;
};

struct Feedback {
    double arrives_s;
    std::vector<unsigned char> bytes;
};

int main(int count, char **argument) {
    if (count != 2 || (strcmp(argument[1], "even") && strcmp(argument[1], "l4s"))) {
        fprintf(stderr, "usage: scream even|l4s\n");
        return 2;
    }
    const bool is_l4s = !strcmp(argument[1], "l4s");
    // Loss 0.7, ECN 0.8, queue delay 60 ms, no first window, pacing 1.5 without scaling by frames, 1.5 times
    // what is in flight, growth by 2 % a round trip, up to three windows in flight: values of the draft.
    ScreamV2Tx sender(0.7f, 0.8f, 0.06f, 0, 1.5f, 1.0f, 1.5f, 0.02f, is_l4s, 3.0f, false, false);
    ScreamRx receiver(0);
    RtpQueue queue;
    sender.setCwndMinLow(3000);
    sender.enableRelaxedPacing(true);
    sender.registerNewStream(&queue, ssrc, 1.0f, 150e3f, 150e3f, 1.5e6f, 1.0f, false, 0.0f, false);

    std::deque<Packet> link;
    std::deque<Feedback> back;
    double free_s = 0, send_at_s = -1, bits = 0, waited = 0, most = 0;
    size_t packets = 0, rows = 0;
    float target = 0;
    int phase = 0;
    uint16_t number = 0;

    printf("time_s,target_kbit_per_s,delivered_kbit_per_s,queue_mean_ms,queue_max_ms\n");
    for (uint32_t tick = 0; tick < 100 * second; tick++) {
        const double now = tick / double(second);
        const uint32_t clock = clock_begins + tick;
        if (now >= start_s[phase + 1]) phase++;
        const double capacity = capacity_bit_per_s[phase];
        bool may_send = false;
        if (tick == 0 || uint64_t(tick) * frames_per_s / second != uint64_t(tick - 1) * frames_per_s / second) {
            target = sender.getTargetBitrate(clock, ssrc);
            // A negative rate asks for a key frame; the next one is the rate.
            if (target <= 0) target = sender.getTargetBitrate(clock, ssrc);
            int left = int(target / frames_per_s / 8), all = 0;
            const uint32_t stamp = uint32_t(now * 90000);
            while (left > 0) {
                const int payload = std::min(left, payload_bytes);
                left -= payload;
                all += payload + rtp_bytes;
                queue.push(nullptr, payload + rtp_bytes, ssrc, number++, left == 0, clock / 65536.0f, stamp);
            }
            sender.newMediaFrame(clock, ssrc, all, true);
            may_send = true;
        }
        while (!link.empty() && link.front().arrives_s <= now) {
            const Packet packet = link.front();
            link.pop_front();
            const uint8_t ecn = packet.is_marked ? 3 : is_l4s ? 1 : 0;
            receiver.receive(clock, nullptr, ssrc, packet.bytes, packet.number, ecn, packet.is_last, packet.stamp);
            bits += 8.0 * (packet.bytes + ip_udp_bytes);
            waited += packet.waited_s;
            most = std::max(most, packet.waited_s);
            packets++;
        }
        if (receiver.isFeedback(clock) && (clock - receiver.getLastFeedbackT() > receiver.getRtcpFbInterval() ||
                                           receiver.checkIfFlushAck())) {
            unsigned char bytes[2000];
            int size = 0;
            if (receiver.createStandardizedFeedback(clock, false, bytes, size))
                back.push_back({now + one_way_s, {bytes, bytes + size}});
        }
        while (!back.empty() && back.front().arrives_s <= now) {
            sender.incomingStandardizedFeedback(clock, back.front().bytes.data(), int(back.front().bytes.size()));
            back.pop_front();
            may_send = true;
        }
        if (may_send || (send_at_s >= 0 && send_at_s <= now)) {
            uint32_t source;
            send_at_s = -1;
            for (;;) {
                const float wait = sender.isOkToTransmit(clock, source);
                if (wait < 0) break;
                if (wait > 0) {
                    send_at_s = now + wait;
                    break;
                }
                void *nothing;
                int size;
                uint16_t sequence;
                bool is_last;
                uint32_t stamp;
                const float delay = queue.getDelay(clock / 65536.0f);
                queue.sendPacket(&nothing, size, source, sequence, is_last, stamp);
                const double begins = std::max(free_s, now);
                if (begins - now <= queue_s) {
                    free_s = begins + (size + ip_udp_bytes) * 8 / capacity;
                    const bool is_marked = is_l4s && begins - now > mark_from_s;
                    link.push_back({free_s + one_way_s, begins - now, size, sequence, stamp, is_last, is_marked});
                }
                sender.addTransmitted(clock, ssrc, size, sequence, is_last, delay, stamp);
            }
        }
        if (uint64_t(tick + 1) * 10 / second != uint64_t(tick) * 10 / second) {
            printf("%.1f,%.0f,%.0f,%.2f,%.2f\n", ++rows / 10.0, target / 1e3, bits / 100, packets ? 1e3 * waited / packets : 0.0, 1e3 * most);
            bits = waited = most = 0;
            packets = 0;
        }
    }
    return 0;
}
