"""Logs that are recognised, but say too little: what to give instead."""

import re

_FORMS = (
    (r"^\[ *(?:ID|SUM|\d+)\] +Interval|^(?:Client connecting to|Server listening on) ",
     "iperf's output as text; `iperf3 --json` is read"),
    (r"^Source +Destination +IPV4Address", "PowerShell's Test-Connection; Windows' ping is read"),
    (r"^HOST: .*Loss%|^Mtr_Version,|^<MTR ", "mtr's text; `mtr --raw` and `--json` are read"),
    (r"^traceroute6? to |^Tracing route ", "the output of traceroute; `mtr --raw` is read"),
    (r"^(?:Netid +)?State +Recv-Q", "the output of ss without TCP's values; `ss -ti` is read"),
    (r"^MIGRATED |^(?:TCP|UDP)_STREAM", "netperf's output; flent's and `iperf3 --json` are read"),
    (r"^\d\d:\d\d:\d\d\.\d+ (?:IP6?|ARP) ", "tcpdump's text; a capture (`tcpdump -w`) is read"),
    (r"^ +Min +Mean +Median +Max +Stddev", "irtt's summary alone; `irtt client -o FILE` is read"),
    (r"^qdisc ", "the output of tc; it counts a queue's packets and measures no path"),
)  # fmt: skip


def instead(head: str) -> str | None:
    """What such a text is, and what would be read; None where it is not known."""
    begin = "\n".join(head.splitlines()[:60])
    return next((said for form, said in _FORMS if re.search(form, begin, re.MULTILINE)), None)
