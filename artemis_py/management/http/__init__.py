"""HTTP: health, metrics, the API, and reads of Jolokia (docs/http.md). Needs the extra `http`."""
