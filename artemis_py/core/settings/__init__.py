"""Settings of addresses, queues and the broker: their declarations, and the lookup of those for a name.

declaration <- queue_settings <- address_settings <- queue_config
                                        ^
broker_settings <---------------- repository
"""
