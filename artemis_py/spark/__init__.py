"""AMQP 1.0 as a data source of Apache Spark: `spark.read.format("amqp")`, and the other three directions.

It is a client like any other: it reaches the broker over AMQP only, through the client side of our own engine. Nothing
here is imported before Spark asks for the source, so that it costs nothing in a session that does not use it.
"""
