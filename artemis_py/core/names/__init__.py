"""Names of addresses: their syntax, wildcards, and what matches what. Text only."""
