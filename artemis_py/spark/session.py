"""A Spark session with the source registered, for jobs and programs that start their own."""

from typing import TYPE_CHECKING

from artemis_py.spark.requirements import check_java, check_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(name: str, options: dict[str, str] | None = None) -> "SparkSession":
    """Return the session of a job, with the source registered. Raises MissingRequirement."""
    check_packages()
    check_java()
    # Importing these without PySpark would fail before the reason can be given.
    from pyspark.sql import SparkSession

    from artemis_py.spark.data_source import AmqpDataSource

    builder = SparkSession.builder.appName(name)
    for key, value in (options or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(AmqpDataSource)
    return spark
