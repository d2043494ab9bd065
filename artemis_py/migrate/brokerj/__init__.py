"""Qpid Broker-J: `config.json`, and the files of its virtual host nodes."""
