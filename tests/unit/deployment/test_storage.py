"""The store that a configuration asks for."""

from pathlib import Path

from artemis_py.config.broker_config import BrokerConfig
from artemis_py.deployment.storage import store_of
from artemis_py.store.log.options import LogOptions
from artemis_py.store.log_start import LogSettings


def test_a_store_has_a_log_unless_the_file_says_otherwise(tmp_path: Path) -> None:
    """Every option of the log reaches it; those that are not set are the log's own."""
    without = store_of(BrokerConfig(home=tmp_path, write_ahead_log=False))
    usual = store_of(BrokerConfig(home=tmp_path))
    store = store_of(
        BrokerConfig(
            home=tmp_path,
            write_ahead_log_max_size_bytes=2 << 20,
            write_ahead_log_max_age_ms=500,
            journal_file_size_bytes=1 << 20,
            journal_min_files=3,
            journal_pool_files=-1,
            journal_buffer_timeout_ns=1_500_000,
        )
    )

    assert without is not None
    assert usual is not None
    assert store is not None
    assert without._log_settings is None
    assert usual._log_settings == LogSettings()
    files = LogOptions(file_bytes=1 << 20, min_files=3, pool_files=-1)
    assert store._log_settings == LogSettings(files=files, max_bytes=2 << 20, max_age_s=0.5, most_looks=2)
