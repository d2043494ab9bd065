"""What every protocol engine needs: unfinished input, bounded output, answers that wait for the store, parameters."""
