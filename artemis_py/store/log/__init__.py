"""The write-ahead log: batches of the store in the order in which they became durable, until LMDB has them."""
