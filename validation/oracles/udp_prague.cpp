// UDP Prague's congestion control (L4STeam/udp_prague, `prague_cc.cpp`) as an oracle of ours.
//
// usage: udp_prague feed RTT_US GAP_US MARKS_IN_A_MILLION [LONGER_US]
//        udp_prague pair RTT_MS RTT_MS
//
// feed: acknowledgements of single packets at equal gaps, of which a fixed random sequence is marked; the
// window in packets after each 1000. In every second 500 the round trip is longer by LONGER_US. `cc/prague.rs`
// of anabranch-transport has these numbers.
// pair: two senders over 50 Mbit/s that marks from 1 ms of queue on, for three minutes; their goodput in
// Mbit/s in the last one. `tests/test_l4s.py` has these numbers.
//
// build: g++ -O2 -std=c++17 -include cstddef -I UDP_PRAGUE udp_prague.cpp UDP_PRAGUE/prague_cc.cpp
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <queue>

#include "prague_cc.h"

static double now_us = 1;

struct Control : PragueCC {
    using PragueCC::PragueCC;
    time_tp Now() override { return time_tp(now_us); }
};

static void feed(const time_tp rtt, const time_tp gap, const unsigned long long share, const time_tp longer) {
    Control control(1400, 0, 0, 1250000);
    unsigned long long draw = 1;
    count_tp marked = 0, in_flight = 0;
    now_us = 1 + rtt;
    for (count_tp count = 1; count <= 10000; count++) {
        draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
        marked += (draw >> 33) % 1000000 < share;
        const time_tp measured = rtt + longer * ((count - 1) / 500 % 2);
        control.PacketReceived(time_tp(now_us), time_tp(now_us) - measured);
        control.ACKReceived(count, marked, 0, count + rtt / gap, false, in_flight);
        if (count % 1000 == 0) {
            PragueState state;
            control.GetStats(state);
            printf("%.3f\n", state.m_fractional_window / 1400e6);
        }
        now_us += gap;
    }
}

struct Event {
    double at;
    long order;
    std::function<void()> act;
    bool operator<(const Event &other) const {
        return at > other.at || (at == other.at && order > other.order);
    }
};

struct Flow {
    Control sender{1400}, receiver{1400};
    double one_way_us = 0, next_us = 0;
    long sent = 0, in_flight = 0, delivered = 0;
};

static void pair(const double rtts_ms[2]) {
    const double bits_per_us = 50, duration_us = 180e6, mark_from_us = 1000;
    const size_t headers = 42;
    std::priority_queue<Event> events;
    Flow flows[2];
    long order = 0;
    double free_at = 0;
    auto at = [&](double time, std::function<void()> act) { events.push({time, order++, act}); };
    std::function<void(int)> send = [&](int index) {
        Flow &flow = flows[index];
        for (;;) {
            rate_tp rate;
            count_tp window, burst;
            size_tp size;
            flow.sender.GetCCInfo(rate, window, burst, size);
            if (flow.in_flight >= window || now_us < flow.next_us) return;
            for (count_tp sent = 0; sent < burst && flow.in_flight < window; sent++) {
                time_tp stamp, echo;
                ecn_tp ecn;
                const long number = ++flow.sent;
                flow.sender.GetTimeInfo(stamp, echo, ecn);
                flow.in_flight++;
                at(now_us + flow.one_way_us, [=, &flows, &free_at, &at, &send] {
                    const double start = free_at > now_us ? free_at : now_us;
                    const ecn_tp mark = start - now_us >= mark_from_us ? ecn_ce : ecn;
                    free_at = start + (size + headers) * 8 / bits_per_us;
                    at(free_at, [=, &flows, &at, &send] {
                        Flow &flow = flows[index];
                        flow.delivered += now_us > duration_us * 2 / 3;
                        flow.receiver.PacketReceived(stamp, echo);
                        flow.receiver.DataReceivedSequence(mark, number);
                        time_tp its_stamp, its_echo;
                        ecn_tp its_ecn;
                        count_tp received, marked, lost;
                        bool error;
                        flow.receiver.GetTimeInfo(its_stamp, its_echo, its_ecn);
                        flow.receiver.GetACKInfo(received, marked, lost, error);
                        at(now_us + flow.one_way_us, [=, &flows, &send] {
                            Flow &flow = flows[index];
                            count_tp in_flight;
                            flow.sender.PacketReceived(its_stamp, its_echo);
                            if (flow.sender.ACKReceived(received, marked, lost, flow.sent, error, in_flight))
                                flow.in_flight = in_flight;
                            send(index);
                        });
                    });
                });
                flow.next_us = (flow.next_us > now_us ? flow.next_us : now_us) + size * 1e6 / rate;
            }
            if (flow.next_us > now_us) {
                at(flow.next_us, [&send, index] { send(index); });
                return;
            }
        }
    };
    for (int index = 0; index < 2; index++) {
        flows[index].one_way_us = rtts_ms[index] * 500;
        at(1 + 5000 * index, [&send, index] { send(index); });
    }
    while (events.top().at < duration_us) {
        const Event event = events.top();
        events.pop();
        now_us = event.at;
        event.act();
    }
    for (const Flow &flow : flows) printf("%.2f\n", flow.delivered * 1400 * 8 / (duration_us / 3));
}

int main(int count, char **argument) {
    if ((count == 5 || count == 6) && !strcmp(argument[1], "feed")) {
        feed(atoi(argument[2]), atoi(argument[3]), atoi(argument[4]), count == 6 ? atoi(argument[5]) : 0);
    } else if (count == 4 && !strcmp(argument[1], "pair")) {
        const double rtts_ms[2] = {atof(argument[2]), atof(argument[3])};
        pair(rtts_ms);
    } else {
        fprintf(stderr, "usage: udp_prague feed RTT_US GAP_US MARKS_IN_A_MILLION [LONGER_US] | pair RTT_MS RTT_MS\n");
        return 2;
    }
}
