"""Jobs for operators: archive and replay, reports and redrives of dead letters, telemetry.

Each job is a function that takes a session and returns what it did; `artemis-py spark` calls the same functions.
Like the connector below them, jobs reach the broker over AMQP only.
"""
