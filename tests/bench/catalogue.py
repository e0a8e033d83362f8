"""All benchmarks by name: the two of `streamfilter bench`, and those of this folder."""

from streamfilter.bench import catalogue

BENCHMARKS = {
    **catalogue.BENCHMARKS,
    "index": "tests.bench.indexing",
    "retention": "tests.bench.retaining",
    "formats": "tests.bench.reading",
    "cores": "tests.bench.scaling",
    "switches": "tests.bench.switches",
    "flood": "tests.bench.flooding",
    "restore": "tests.backup.restoring",
    "slow-store": "tests.backup.slow_store",
    "kafka": "tests.bench.wire",
    "cluster": "tests.bench.clustering",
    "equality": "tests.cluster.equality",
    "million": "tests.cluster.million",
}
