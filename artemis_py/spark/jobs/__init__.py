"""What operators do with messages and Spark: archive and replay, look at dead letters and send them back, telemetry.

Each job is a function that takes a session and says at its end what it did; `artemis-py spark` calls the same ones.
Like the connector below them, jobs reach the broker over AMQP only.
"""
