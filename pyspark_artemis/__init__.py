"""Found by Spark: the first look for a Python data source registers the `DefaultSource` of every `pyspark_*` package.

An import error here would break every Python data source of the session, so it imports as little as can be.
"""

from artemis_py.spark.data_source import AmqpDataSource

__all__ = ["DefaultSource"]


class DefaultSource(AmqpDataSource):
    """The source `amqp`."""
