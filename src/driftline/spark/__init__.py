"""driftline on Spark: score tables of any size, trace fleets of streams, take steps larger than one machine."""

from driftline._extras import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__, extra="spark")
