"""Programs that show what each kind of queue does, the same against Apache Artemis and against this broker."""
