"""Parts of every protocol engine: unfinished input, bounded output, answers that wait for the store, parameters."""
