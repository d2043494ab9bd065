"""Reads broker.xml into typed options. The meaning of an option is known only where it is used."""

from artemis_py.config.acceptors import check_acceptors
from artemis_py.config.broker_config import BrokerConfig, LoginConfig
from artemis_py.config.reader import load, load_default, parse
from artemis_py.security.authenticator import AnonymousAccess

__all__ = ["AnonymousAccess", "BrokerConfig", "LoginConfig", "check_acceptors", "load", "load_default", "parse"]
