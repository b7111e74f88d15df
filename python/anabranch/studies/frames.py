"""The frames of a call and the packets that carried them: which path, and what became of each.

The trace `frames` comes from the application, `packets` from the transport. A frame came with the
packet that was delivered when the frame arrived. A frame that never came was in the packet that was
sent when the frame was made, if there was one; otherwise the sender held it back.
"""

import polars as pl

from anabranch.studies.result import Result

DATA = ("data", "i_data", "datagram", "fragment", "retransmission")
"""The kinds of packets that carry an application's data."""

_TYPES: dict[str, type[pl.DataType]] = {
    "sent_s": pl.Float64,
    "path": pl.Int64,
    "fate": pl.String,
    "delivered_s": pl.Float64,
}


def sides(result: Result, flow: str) -> list[str]:
    """The sides of a flow that sent frames, in a traced run."""
    own = result.traces["frames"].filter(pl.col("flow") == flow)
    return sorted(own["side"].unique().to_list())


def carried(result: Result, flow: str, side: str) -> pl.DataFrame:
    """The frames of one sender with the packet that each went in, for a traced run.

    It has the columns of the trace `frames`, and of the packet `path` (its number), `sent_s` and
    `fate`; null if no packet carried the frame. A frame that waited at the receiver for an earlier
    one has the packet that ended its wait.
    """
    of_sender = (pl.col("flow") == flow) & (pl.col("side") == side)
    frames = result.traces["frames"].filter(of_sender)
    packets = (
        result.traces["packets"]
        .filter(of_sender & pl.col("kind").is_in(DATA))
        .select(pl.col(name).cast(kind) for name, kind in _TYPES.items())
    )
    came = packets.filter(pl.col("fate") == "delivered").unique("delivered_s", keep="first")
    gone = packets.filter(pl.col("fate") != "delivered").unique("sent_s", keep="first")
    arrived = frames.filter(pl.col("arrived_s").is_not_nan())
    missing = frames.filter(pl.col("arrived_s").is_nan())
    return pl.concat(
        [
            arrived.join(
                came.rename({"delivered_s": "arrived_s"}), on="arrived_s", how="left"
            ).select(*frames.columns, "path", "sent_s", "fate"),
            missing.join(
                gone.drop("delivered_s").with_columns(created_s="sent_s"),
                on="created_s",
                how="left",
            ).select(*frames.columns, "path", "sent_s", "fate"),
        ]
    ).sort("index")
