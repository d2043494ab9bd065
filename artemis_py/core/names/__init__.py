"""Names of addresses: their syntax, wildcards and matching. Text only."""
