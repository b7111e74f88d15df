"""A flow over a narrow link, or over a narrower one beside it; both lose packets."""

_SCENARIO = """\
name = "links"
seed = 3
run.duration = "{duration}"
[links.one]
ends = ["a", "b"]
rate = "4 Mbit/s"
delay = "20 ms"
{of_one}
queue = {{ kind = "drop_tail", packets = 30 }}
loss = {{ kind = "bernoulli", probability = "1 %" }}
[links.two]
ends = ["a", "b"]
rate = "2 Mbit/s"
delay = "40 ms"
loss = {{ kind = "bernoulli", probability = "2 %" }}
[paths.p]
via = ["one"]
[paths.q]
via = ["two"]
[flows.load]
from = "a"
to = "b"
paths = {paths}
transport = {transport}
app = {app}
"""

BULK = '{ kind = "bulk", start = "0 s" }'


def two_links(
    paths: str, transport: str, app: str = BULK, *, duration: str = "8 s", of_one: str = ""
) -> str:
    """The scenario of flow `load` over paths `p` and `q`; `of_one` is a key more of link `one`."""
    return _SCENARIO.format(
        paths=paths, transport=transport, app=app, duration=duration, of_one=of_one
    )
