/** Guided scenes: a scenario, a few sentences, and things to try. */

import type { Knob } from "./knobs";
import type { Tree } from "./messages";
import failover from "../../scenarios/failover.toml";
import lossClocks from "../../scenarios/loss-clocks.toml";
import quicMultipath from "../../scenarios/quic-multipath.toml";
import sharedBottleneck from "../../scenarios/shared-bottleneck.toml";
import slowSecondPath from "../../scenarios/slow-second-path.toml";
import wifiToLte from "../../scenarios/wifi-to-lte.toml";
import bufferbloat from "./stories/bufferbloat.toml";
import fadingRadio from "./stories/fading-radio.toml";
import game from "./stories/game.toml";
import lifoCodel from "./stories/lifo-codel.toml";
import measuredHandover from "./stories/measured-handover.toml";
import slowStart from "./stories/slow-start.toml";
import train from "./stories/train.toml";

export interface Step {
  text: string;
  /** What a button beside it is called, and what it does: sets keys, goes to a time, goes on at a speed. */
  label?: string;
  sets?: [path: string, value: Tree][];
  at?: number;
  speed?: number;
  /** Whether it opens the sliders. */
  compares?: boolean;
}

export interface Story {
  id: string;
  title: string;
  text: string[];
  scenario: string;
  /** Where the player stands first, in seconds, and its speed. */
  at: number;
  speed: number;
  steps: Step[];
  knobs: Knob[];
  metric: string;
  replications: number;
}

export const STORIES: Story[] = [
  {
    id: "dead-path",
    title: "The path dies in mid-call",
    text: [
      "A telephone call runs over SCTP with two paths. After 10 s the first one is cut; after 20 s it is back. Nothing tells the caller: packets simply stop arriving, and it has to find out by itself.",
      "What it has is a timer. Each time it runs out, the packet is retransmitted and the timer is doubled, up to RTO.Max. Only after Path.Max.Retrans of those in a row is the path given up, and the call goes on over the other one. Until then the person hears nothing.",
    ],
    scenario: failover,
    at: 9.95,
    speed: 0.02,
    steps: [
      { text: "Watch the packets of path p0 die from 10 s on.", label: "Play from 9.95 s", at: 9.95, speed: 0.02 },
      {
        text: "Each “timeout” on the timeline is a doubling. “Next event” walks through them, until the path is inactive and the second path carries the call.",
      },
      {
        text: "With the standard's RTO.Max of 60 s, the same outage is a silence of many seconds.",
        label: "RTO.Max = 60 s",
        sets: [
          ["flows.call.transport.rto_max", "60 s"],
          ["flows.call.transport.rto_min", "1 s"],
        ],
        at: 9.95,
        speed: 0.5,
      },
      {
        text: "What would a value in between do to the call? Move RTO.Max and Path.Max.Retrans and look at the mean opinion score, 1 to 4.5.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "call", "transport", "rto_min"],
        label: "RTO.Min",
        least: 0.02,
        most: 1,
        isLogarithmic: true,
        family: "s",
      },
      {
        path: ["flows", "call", "transport", "rto_max"],
        label: "RTO.Max",
        least: 1,
        most: 60,
        isLogarithmic: true,
        family: "s",
      },
      { path: ["flows", "call", "transport", "path_max_retrans"], label: "Path.Max.Retrans", least: 1, most: 10 },
    ],
    metric: "call.mos",
    replications: 20,
  },
  {
    id: "bufferbloat",
    title: "Bufferbloat, and what CoDel does",
    text: [
      "A download and a telephone call share an access link of 10 Mbit/s. Its queue has room for 1000 packets, as many devices do. TCP slows down only when a packet is lost, so it goes on filling the queue, and every packet of the call waits behind what is there: up to a second of download.",
      "CoDel looks at how long packets wait, not at how many there are. When the shortest wait within 100 ms stays above 5 ms, it drops one packet, and TCP backs off while the queue is still short.",
    ],
    scenario: bufferbloat,
    at: 0,
    speed: 0.1,
    steps: [
      {
        text: "See the queue grow from the first second on, and the delay of the call's frames with it.",
        label: "Play from the start",
        at: 0.5,
        speed: 0.2,
      },
      {
        text: "The same with CoDel: look at the queue and at the delay of the frames.",
        label: "Queue: CoDel",
        sets: [["links.access.queue", { kind: "codel" }]],
        at: 0.5,
        speed: 0.2,
      },
      {
        text: "CoDel drops at the head of the queue, where it hurts soonest. Find one.",
        label: "At 2 s, slowly",
        at: 2,
        speed: 0.01,
      },
      {
        text: "A small queue helps as well, but costs the download. How small may it be? Choose the queue, move its length, and change the scalar to the download's goodput.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["links", "access", "queue"],
        label: "Queue",
        choices: [
          { label: "drop_tail, 1000 packets", value: '{ kind = "drop_tail", packets = 1000 }' },
          { label: "CoDel", value: '{ kind = "codel" }' },
          { label: "FQ-CoDel", value: '{ kind = "fq_codel" }' },
          { label: "PIE", value: '{ kind = "pie" }' },
        ],
      },
      { path: ["links", "access", "delay"], label: "Delay", least: 0.001, most: 0.2, isLogarithmic: true, family: "s" },
    ],
    metric: "call.mos",
    replications: 20,
  },
  {
    id: "game-and-download",
    title: "A game and a download",
    text: [
      "A game gets the state of its world 30 times a second, and a download shares its access link of 10 Mbit/s. In the link's deep queue each of these packets waits behind all of the download's: up to 1.2 s.",
      "DualPI2 has two queues instead. One is for senders that answer to marks gently (L4S), and holds packets for about 1 ms; the other is for everything else, and is held to 15 ms. So the delay of the game depends on the download's congestion control, though the game itself changes nothing.",
    ],
    scenario: game,
    at: 0,
    speed: 0.1,
    steps: [
      {
        text: "One queue for both: see it grow, and the delay of the game's packets with it.",
        label: "Play from the start",
        at: 0.5,
        speed: 0.2,
      },
      {
        text: "DualPI2, with a download that knows nothing of L4S: both are in the classic queue, which marks the download from 15 ms on.",
        label: "Queue: DualPI2",
        sets: [["links.access.queue", { kind: "dualpi2" }]],
        at: 0.5,
        speed: 0.2,
      },
      {
        text: "A download with Prague goes into the queue for L4S, is marked from 1 ms on, and the game has the classic queue to itself. A tenth of the link is its share when both are busy, which is far more than it needs.",
        label: "Download: Prague",
        sets: [
          ["links.access.queue", { kind: "dualpi2" }],
          ["flows.download.transport", { kind: "tcp", ecn: "l4s", cc: { kind: "prague" } }],
        ],
        at: 0.5,
        speed: 0.2,
      },
      {
        text: "What does it cost the download? Choose the queue and the control, and change the scalar to the download's goodput.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["links", "access", "queue"],
        label: "Queue",
        choices: [
          { label: "drop_tail, 1000 packets", value: '{ kind = "drop_tail", packets = 1000 }' },
          { label: "DualPI2", value: '{ kind = "dualpi2" }' },
          { label: "FQ-CoDel", value: '{ kind = "fq_codel" }' },
          { label: "CoDel", value: '{ kind = "codel" }' },
        ],
      },
      {
        path: ["flows", "download", "transport"],
        label: "Download",
        choices: [
          { label: "CUBIC", value: '{ kind = "tcp", ecn = "rfc3168", cc = { kind = "cubic" } }' },
          { label: "Prague", value: '{ kind = "tcp", ecn = "l4s", cc = { kind = "prague" } }' },
        ],
      },
    ],
    metric: "game.p99_delay_ms",
    replications: 20,
  },
  {
    id: "train",
    title: "Two people on a train",
    text: [
      "Two people on a train talk to an office, and their telephone has the networks of two operators. Both lose packets in bursts where cells change; north is gone for 1.5 s in a cutting and for 2 s in a tunnel, south for 1.5 s on the other side of a hill. At first all of the video goes over north.",
      "Each small picture below the network is a frame: full once it is shown, half full if that took more than 400 ms, crossed out if it never was. It is underlined where the picture stands still, as the statistics of WebRTC count a freeze. A second path can take copies of all packets, a share of them, or all of them once the first one is silent.",
    ],
    scenario: train,
    at: 7.5,
    speed: 0.2,
    steps: [
      {
        text: "North alone: the cutting begins at 8 s. See how long the picture stands still, and how long after the network is back.",
        label: "Play from 7.9 s",
        at: 7.9,
        speed: 0.2,
      },
      {
        text: "Copies on both: each packet goes on both paths, and the first one counts. Frames stay whole; the bytes are on the line below them.",
        label: "Copies on both",
        sets: [["flows.call.transport", { kind: "rtp", cc: { kind: "gcc" }, scheduler: "redundant" }]],
        at: 7.9,
        speed: 0.2,
      },
      {
        text: "Divided by rate: as many bytes as the video has. What was on its way over north when that went has to be sent again, over south.",
        label: "Divided by rate",
        sets: [["flows.call.transport", { kind: "rtp", cc: { kind: "gcc" }, scheduler: "proportional" }]],
        at: 7.9,
        speed: 0.2,
      },
      {
        text: "South once north is silent: nothing tells the sender but reports that do not come, for 0.5 s and a round trip.",
        label: "South as a backup",
        sets: [["flows.call.transport", { kind: "rtp", cc: { kind: "gcc" }, policy: { kind: "failover" } }]],
        at: 7.9,
        speed: 0.2,
      },
      {
        text: "In the tunnel of 20 s there is only south, and its bursts hit copies, too. “Next event” stops at each freeze.",
        label: "At 19.9 s",
        at: 19.9,
        speed: 0.2,
      },
      {
        text: "What do copies buy over 20 runs? Choose the way, and change the scalar to the 99th percentile of the frames' delays or to a link's bytes.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "call", "transport"],
        label: "Paths",
        choices: [
          { label: "north alone", value: '{ kind = "rtp", cc = { kind = "gcc" } }' },
          { label: "copies on both", value: '{ kind = "rtp", cc = { kind = "gcc" }, scheduler = "redundant" }' },
          { label: "divided by rate", value: '{ kind = "rtp", cc = { kind = "gcc" }, scheduler = "proportional" }' },
          { label: "south as a backup", value: '{ kind = "rtp", cc = { kind = "gcc" }, policy = { kind = "failover" } }' },
        ],
      },
      {
        path: ["links", "north", "loss", "mean_bad"],
        also: [["links", "south", "loss", "mean_bad"]],
        label: "Length of bursts",
        least: 0.02,
        most: 0.5,
        isLogarithmic: true,
        family: "s",
      },
    ],
    metric: "call.frozen_percent",
    replications: 20,
  },
  {
    id: "lifo-codel",
    title: "Why LIFO-CoDel starves",
    text: [
      "A queue that hands out the newest packet first looks clever: half of all packets wait less than 2 ms, however many there are. The access link of the story about bufferbloat has such a stack here, with CoDel's condition for drops.",
      "But somebody pays. Each packet that comes is put on top of those that are there, and while packets keep coming, those at the bottom do not move. TCP sees a gap where the buried packets belong, takes them for lost and sends them again, though not one was dropped; later the buried ones arrive, too, for nothing.",
    ],
    scenario: lifoCodel,
    at: 0.14,
    speed: 0.02,
    steps: [
      {
        text: "The first burst of the download builds the stack. Its first packets come at 0.165 s and leave at 0.565 s, when all others have passed them.",
        label: "Play from 0.15 s",
        at: 0.15,
        speed: 0.02,
      },
      { text: "Nothing is dropped, but look at the fast retransmits on the timeline: each is a gap that is no loss." },
      {
        text: "The same with CoDel, first come, first served: a few real drops, no gap that is none.",
        label: "Queue: CoDel",
        sets: [["links.access.queue", { kind: "codel" }]],
        at: 0.15,
        speed: 0.02,
      },
      {
        text: "Compare the download's goodput, and how many segments it sends twice, with those of other queues.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["links", "access", "queue"],
        label: "Queue",
        choices: [
          { label: "LIFO-CoDel", value: '{ kind = "lifo_codel", packets = 1000 }' },
          { label: "CoDel", value: '{ kind = "codel" }' },
          { label: "FQ-CoDel", value: '{ kind = "fq_codel" }' },
          { label: "FQ-LIFO-CoDel", value: '{ kind = "fq_lifo_codel" }' },
        ],
      },
      { path: ["links", "access", "delay"], label: "Delay", least: 0.001, most: 0.2, isLogarithmic: true, family: "s" },
    ],
    metric: "download.tcp.b.duplicates_received",
    replications: 20,
  },
  {
    id: "slow-second-path",
    title: "Two paths slower than one",
    text: [
      "A transfer over MPTCP has a fast path, and a second one of 500 ms. The receiver hands data on in order: what came over the fast path waits for a piece that is still on the slow one. Meanwhile it fills the receive buffer, and when that is full the sender has to stop, fast path and all.",
      "This is head-of-line blocking. Which path the next piece goes on is the scheduler's choice, and how much it matters depends on the buffer.",
    ],
    scenario: slowSecondPath,
    at: 1,
    speed: 0.05,
    steps: [
      { text: "Watch the fast path fall silent although it has room.", label: "Play from 3 s", at: 3, speed: 0.1 },
      {
        text: "BLEST does not use the slow path where that would block the window.",
        label: "Scheduler: BLEST",
        sets: [["flows.transfer.transport.scheduler", "blest"]],
        at: 3,
        speed: 0.1,
      },
      { text: "How large does the buffer have to be without it?", label: "Open the sliders", compares: true },
    ],
    knobs: [
      {
        path: ["flows", "transfer", "transport", "receive_buffer"],
        label: "Receive buffer",
        least: 5e4,
        most: 5e6,
        isLogarithmic: true,
        family: "B",
      },
      {
        path: ["links", "slow", "delay"],
        label: "Delay of the slow path",
        least: 0.01,
        most: 0.5,
        isLogarithmic: true,
        family: "s",
      },
      {
        path: ["flows", "transfer", "transport", "scheduler"],
        label: "Scheduler",
        choices: [
          { label: "min_rtt", value: "min_rtt" },
          { label: "BLEST", value: "blest" },
          { label: "ECF", value: "ecf" },
          { label: "round_robin", value: "round_robin" },
        ],
      },
    ],
    metric: "transfer.goodput_kbit_per_s",
    replications: 20,
  },
  {
    id: "leaving-home",
    title: "Wi-Fi to LTE in mid-call",
    text: [
      "A person walks out of the house with a call on the phone. The Wi-Fi gets slower and loses more from 8 s on, and at 15 s the front door shuts it off. LTE is there all the time, with more delay.",
      "Failover as the standard has it reacts to silence only: a Wi-Fi that still lets nine of ten packets through is not silent. So the worst seconds are those before the door.",
    ],
    scenario: wifiToLte,
    at: 7.9,
    speed: 0.05,
    steps: [
      {
        text: "Look at the losses between 12 s and 15 s, and at the score of each second below.",
        label: "Play from 11.9 s",
        at: 11.9,
        speed: 0.1,
      },
      {
        text: "A policy that compares delays leaves the Wi-Fi only when LTE is quicker, which it never is.",
        label: "Policy: delay_centric",
        sets: [["flows.call.transport.policy", { kind: "delay_centric" }]],
        at: 11.9,
        speed: 0.1,
      },
      {
        text: "How much does an early failover help? Move RTO.Max and the heartbeat's interval.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "call", "transport", "rto_max"],
        label: "RTO.Max",
        least: 0.1,
        most: 10,
        isLogarithmic: true,
        family: "s",
      },
      {
        path: ["flows", "call", "transport", "hb_interval"],
        label: "Heartbeat interval",
        least: 0.1,
        most: 30,
        isLogarithmic: true,
        family: "s",
      },
      {
        path: ["links", "lte", "delay"],
        label: "Delay of LTE",
        least: 0.01,
        most: 0.3,
        isLogarithmic: true,
        family: "s",
      },
    ],
    metric: "call.mos",
    replications: 50,
  },
  {
    id: "unnoticed-handover",
    title: "A handover nobody notices",
    text: [
      "A phone downloads with QUIC over Wi-Fi and LTE at the same time (RFC 10069). Each path has a window, a round trip and packet numbers of its own, and one stream of data runs over both. From 5 s to 9 s the Wi-Fi is gone, and the download goes on.",
      "Nobody tells the server. It hears nothing on the Wi-Fi for a probe timeout, sends again over LTE what was on its way there, and goes on asking the Wi-Fi now and then whether it is back.",
    ],
    scenario: quicMultipath,
    at: 4.95,
    speed: 0.02,
    steps: [
      {
        text: "See the packets on the Wi-Fi die from 5 s on, the probe timeout, and the same data on LTE.",
        label: "Play from 4.95 s",
        at: 4.95,
        speed: 0.02,
      },
      { text: "The Wi-Fi is back at 9 s. The next probe finds it, and its window opens from the beginning." },
      {
        text: "One path at a time: a client that migrates when its path has failed. It hears of nothing until its keep-alive goes unanswered, and stays on LTE afterwards.",
        label: "Transport: migration",
        sets: [["flows.download.transport", { kind: "quic", migration: "on_failure", keep_alive: "1 s" }]],
        at: 4.95,
        speed: 0.2,
      },
      {
        text: "Both paths, but LTE costs money: it carries data only while the Wi-Fi does not answer.",
        label: "LTE as backup",
        sets: [["flows.download.transport", { kind: "quic", multipath: true, backup: [1] }]],
        at: 4.95,
        speed: 0.1,
      },
      {
        text: "Compare the goodput of these with MPTCP's, and move the delay of LTE.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "download", "transport"],
        label: "Transport",
        choices: [
          { label: "QUIC on both", value: '{ kind = "quic", multipath = true }' },
          { label: "LTE as backup", value: '{ kind = "quic", multipath = true, backup = [1] }' },
          { label: "migration", value: '{ kind = "quic", migration = "on_failure", keep_alive = "1 s" }' },
          { label: "MPTCP", value: '{ kind = "mptcp", profile = "linux_6" }' },
        ],
      },
      { path: ["links", "lte", "delay"], label: "Delay of LTE", least: 0.01, most: 0.3, isLogarithmic: true, family: "s" },
    ],
    metric: "download.goodput_kbit_per_s",
    replications: 20,
  },
  {
    id: "measured-handover",
    title: "Handover by measured throughput",
    text: [
      "A transfer over SCTP has two paths whose links carry other traffic, too: 7 of 15 Mbit/s on the first, and 4 of 10 on the second. From 20 s on there are 11 on the first, from 40 s on 8 on the second. Both paths work all the time, so the standard's failover never moves.",
      "Mitsuie and others let the sender measure. After a loss it sends one window of new data over the other path, divides that path's window by its round trip, and changes over if the result is better than what it has.",
    ],
    scenario: measuredHandover,
    at: 20,
    speed: 0.05,
    steps: [
      {
        text: "At 20 s the first link fills. Watch the burst that measures the second one, and the data that follows.",
        label: "Play from 20.5 s",
        at: 20.5,
        speed: 0.1,
      },
      { text: "“Next event” finds both changes; the sentence says what was measured." },
      {
        text: "With the standard's failover the transfer stays where it is.",
        label: "Policy: failover",
        sets: [["flows.transfer.transport.policy", { kind: "failover" }]],
        at: 20.5,
        speed: 0.1,
      },
      {
        text: "How much better must the other path be to be worth it? A weight of 1.5 never changes over here.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "transfer", "transport", "policy", "weight"],
        label: "Weight",
        least: 0.5,
        most: 2,
        isWhole: false,
      },
      {
        path: ["flows", "transfer", "transport", "policy", "retry"],
        label: "Retry",
        least: 1,
        most: 30,
        isLogarithmic: true,
        family: "s",
      },
    ],
    metric: "transfer.goodput_kbit_per_s",
    replications: 20,
  },
  {
    id: "shared-bottleneck",
    title: "Two windows at one bottleneck",
    text: [
      "A phone sends over two paths at once, and a laptop beside it over one. All of it meets in one bottleneck of 20 Mbit/s. Three windows that know nothing of each other take a third each, so the phone takes two thirds.",
      "Coupled windows grow together no faster than one: the phone should then take no more than the laptop (RFC 6356, goal 2).",
    ],
    // A third of the time shows the same.
    scenario: sharedBottleneck.replace('duration = "120 s"', 'duration = "40 s"'),
    at: 20,
    speed: 0.02,
    steps: [
      {
        text: "Three colours share the bottleneck. Look at the three windows below.",
        label: "Play from 20 s",
        at: 20,
        speed: 0.02,
      },
      {
        text: "The phone's two windows coupled by LIA.",
        label: "Coupling: LIA",
        sets: [["flows.multi.transport.load_sharing.coupling", { kind: "lia" }]],
        at: 20,
        speed: 0.02,
      },
      {
        text: "Compare the couplings by the goodput of both, over several runs.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "multi", "transport", "load_sharing", "coupling"],
        label: "Coupling",
        choices: [
          { label: "none (per_path)", value: '{ kind = "per_path" }' },
          { label: "LIA", value: '{ kind = "lia" }' },
          { label: "OLIA", value: '{ kind = "olia" }' },
        ],
      },
      { path: ["links", "bottleneck", "queue", "packets"], label: "Queue of the bottleneck", least: 5, most: 500 },
    ],
    metric: "single.goodput_kbit_per_s",
    replications: 20,
  },
  {
    id: "frozen-loss-clock",
    title: "The frozen loss clock",
    text: [
      "A link that loses in bursts is either in a good or in a bad state. In ns-2 the state changes only when a packet comes: on an idle path the clock stands still, and a path that was left while it was bad is still bad when somebody looks again.",
      "With a clock of time slots, the bad state is over after its 100 ms, whether or not somebody looks. The difference decides what failover is worth; the study voip-sctp rests on the first kind.",
    ],
    scenario: lossClocks,
    at: 0,
    speed: 0.05,
    steps: [
      {
        text: "Crosses come in bursts. See on which path the call is, and what the idle one is asked by its heartbeats.",
        label: "Play",
        at: 1,
        speed: 0.05,
      },
      {
        text: "The same with a clock that moves with arrivals only.",
        label: "Clock: arrivals",
        sets: [
          ["links.first.loss.clock", "on_arrival"],
          ["links.second.loss.clock", "on_arrival"],
        ],
        at: 1,
        speed: 0.05,
      },
      {
        text: "Compare the score of the call for both clocks, and for longer timers.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["links", "first", "loss", "clock"],
        also: [["links", "second", "loss", "clock"]],
        label: "Loss clock",
        choices: [
          { label: "slots of time", value: "slot" },
          { label: "arrivals, as ns-2", value: "on_arrival" },
        ],
      },
      {
        path: ["flows", "call", "transport", "rto_max"],
        label: "RTO.Max",
        least: 0.05,
        most: 10,
        isLogarithmic: true,
        family: "s",
      },
    ],
    metric: "call.mos",
    replications: 50,
  },
  {
    id: "slow-start",
    title: "Slow start overshoots",
    text: [
      "A download does not know how fast its path is. It doubles its window every round trip until it hears of a loss, and what it hears is a round trip old: by then it has sent twice what fits. Over this path of 20 Mbit/s with room for 130 packets, that costs hundreds of packets in one go.",
      "HyStart watches round trips and the spacing of acknowledgements, and stops doubling when they say that the queue begins to fill.",
    ],
    scenario: slowStart,
    at: 0,
    speed: 0.05,
    steps: [
      {
        text: "See the window double, the queue fill at 0.5 s, and what is lost.",
        label: "Play from 0.4 s",
        at: 0.4,
        speed: 0.05,
      },
      {
        text: "The same with HyStart: the window stops growing in time.",
        label: "Slow start: HyStart",
        sets: [["flows.download.transport.cc.slow_start", "hystart"]],
        at: 0.3,
        speed: 0.05,
      },
      {
        text: "HyStart++ (RFC 9406) and limited slow start (RFC 3742) are other answers, which are not as good on every path. Choose one, and change the queue and the delay.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "download", "transport", "cc", "slow_start"],
        label: "Slow start",
        choices: [
          { label: "standard", value: "standard" },
          { label: "HyStart", value: "hystart" },
          { label: "HyStart++", value: "hystart++" },
          { label: "limited", value: "limited" },
        ],
      },
      { path: ["links", "path", "queue", "packets"], label: "Queue", least: 10, most: 1000 },
      { path: ["links", "path", "delay"], label: "Delay", least: 0.002, most: 0.3, isLogarithmic: true, family: "s" },
    ],
    metric: "download.tcp.a.data_segments_retransmitted",
    replications: 20,
  },
  {
    id: "fading-radio",
    title: "Nine controls on a fading radio",
    text: [
      "A download goes over fixed WiMAX without line of sight. The signal fades, the modulation follows it, and the rate of the link is never the same for long. A control that takes every loss for congestion slows down when it should not; one that believes an old rate fills the queue.",
      "How a run ends depends on the weather of that run more than on the control. So runs are compared one by one, each with the same weather on both sides: differences show that the means of all runs would hide.",
    ],
    scenario: fadingRadio,
    at: 1,
    speed: 0.05,
    steps: [
      {
        text: "Watch the queue at the base station as the rate of the air changes.",
        label: "Play from 1 s",
        at: 1,
        speed: 0.1,
      },
      {
        text: "The same weather with BBR, which estimates the rate instead of waiting for losses.",
        label: "Control: BBR",
        sets: [["flows.download.transport.cc", { kind: "bbr" }]],
        at: 1,
        speed: 0.1,
      },
      {
        text: "Compare all nine, and look at the interval of the difference.",
        label: "Open the sliders",
        compares: true,
      },
    ],
    knobs: [
      {
        path: ["flows", "download", "transport", "cc"],
        label: "Control",
        choices: ["cubic", "reno", "bic", "westwood", "vegas", "veno", "hybla", "illinois", "bbr"].map((kind) => ({
          label: kind,
          value: `{ kind = "${kind}" }`,
        })),
      },
      { path: ["links", "air", "queue", "packets"], label: "Queue of the base station", least: 5, most: 500 },
    ],
    metric: "download.goodput_kbit_per_s",
    replications: 20,
  },
];
