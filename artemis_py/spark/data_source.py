"""The entry point for Spark, which selects the reader or writer for a query.

Imported in every session that looks for a Python data source, so nothing heavy is imported before it is used.
"""

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource

from artemis_py.spark.requirements import check_packages

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NAME: Final = "amqp"


class AmqpDataSource(DataSource):  # type: ignore[misc]
    """`format("amqp")`: queues as tables and streams, tables and streams as messages."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return NAME

    def schema(self) -> str:
        """Return the columns of a source, as SQL. Raises InvalidOption, MissingRequirement."""
        from artemis_py.spark.columns import schema_text
        from artemis_py.spark.options import read_options

        check_packages()
        return schema_text(read_options(self.options).columns)

    def reader(self, schema: "StructType") -> Any:
        """Return the reader of a batch query. Raises InvalidOption, MissingRequirement."""
        from artemis_py.spark.columns import check_schema
        from artemis_py.spark.options import read_options
        from artemis_py.spark.source import batch_reader

        check_packages()
        check_schema(schema)
        return batch_reader(read_options(self.options), schema)

    def streamReader(self, schema: "StructType") -> Any:
        """Return the reader of a streaming query. Raises InvalidOption, MissingRequirement."""
        from artemis_py.spark.columns import check_schema
        from artemis_py.spark.options import read_options
        from artemis_py.spark.spool_source import SpoolStreamReader
        from artemis_py.spark.stream_source import stream_reader

        check_packages()
        check_schema(schema)
        options = read_options(self.options)
        return SpoolStreamReader(options, schema) if options.mode == "spool" else stream_reader(options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> Any:
        """Return the writer of a batch query. Raises InvalidOption, MissingRequirement."""
        from artemis_py.spark.options import write_options
        from artemis_py.spark.sink import batch_writer

        check_packages()
        return batch_writer(write_options(self.options), schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> Any:
        """Return the writer of a streaming query. Raises InvalidOption, MissingRequirement."""
        from artemis_py.spark.options import write_options
        from artemis_py.spark.sink import stream_writer

        check_packages()
        return stream_writer(write_options(self.options), schema)
