"""Eclipse mosquitto: `mosquitto.conf` and the files that it names."""
