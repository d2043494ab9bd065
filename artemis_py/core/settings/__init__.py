"""Settings of addresses, queues and the broker: their declarations, and which of them apply to a name.

declaration <- queue_settings <- address_settings <- queue_config
                                        ^
broker_settings <---------------- repository
"""
