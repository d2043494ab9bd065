"""What becomes of the members of definitions of RabbitMQ."""

from typing import Final

from artemis_py.migrate.rules import Table, changed, dropped, kept, needless

_CLUSTER: Final = "each message is at one broker, and is copied to no other one"

TABLE: Final = Table(
    (
        kept("users", "the user, with a role of the same name"),
        dropped("users.password_hash", "the hash cannot be verified here; set a password: `artemis-py user hash`"),
        kept("users.password", "the password is hashed"),
        changed("users.tags", "`administrator` has the permission `manage`; other tags mean nothing here"),
        dropped("users.limits", "limits of connections are for an acceptor: `connectionsAllowed`"),
        kept("vhosts", "the virtual host that is migrated"),
        changed("permissions", "`security-settings`, worked out for each queue and exchange that there is"),
        dropped("topic_permissions", "routing keys have no permissions; the user may not use the exchange at all"),
        dropped("parameters", "shovels, federation and other plugins are not run"),
        needless("global_parameters", "nothing is the same in another broker"),
        changed("policies", "written out for the queues and exchanges that there are"),
        kept("exchanges", "`exchange`"),
        changed("exchanges.auto_delete", "`auto-delete`: also if it loses its last binding by a queue that ends"),
        changed("exchanges.internal", "nobody has the permission `send`"),
        changed("exchanges.type", "only `direct`, `topic`, `fanout` and `headers` are known; others are left out"),
        changed(
            "exchanges.alternate-exchange",
            "`alternate-exchange`: it also gets what reached other exchanges and no queue",
        ),
        kept("queues", "an anycast address with a queue, both of this name"),
        changed("queues.auto_delete", "a declared queue is never deleted by itself"),
        kept("queues.x-queue-type", "classic and quorum queues are queues like all others"),
        changed(
            "queues.x-message-ttl", "`max-expiry-delay` of the address, and of exchanges that lead to such queues only"
        ),
        dropped("queues.x-expires", "a declared queue is never deleted by itself"),
        changed("queues.x-max-length", "`ring-size`, or with `reject-publish` `max-size-messages` and FAIL"),
        changed("queues.x-max-length-bytes", "with `reject-publish`: `max-size-bytes` and FAIL"),
        kept("queues.x-overflow", "decides how lengths are written"),
        changed(
            "queues.x-dead-letter-exchange", "`dead-letter-address` and `expiry-address`: the queue that it leads to"
        ),
        kept("queues.x-dead-letter-routing-key", "decides which queue that is"),
        kept("queues.x-delivery-limit", "`max-delivery-attempts`: one more"),
        kept("queues.x-single-active-consumer", "`exclusive`"),
        needless("queues.x-max-priority", "every queue has the priorities 0 to 9"),
        needless(
            "queues.x-queue-mode queues.x-queue-version queues.x-max-in-memory-length", "queues page by themselves"
        ),
        needless("queues.x-max-in-memory-bytes queues.x-dead-letter-strategy", "queues page and store by themselves"),
        needless(
            "queues.x-queue-master-locator queues.x-queue-leader-locator queues.x-quorum-initial-group-size "
            "queues.x-quorum-target-group-size queues.x-initial-cluster-size queues.x-ha-policy queues.ha-mode "
            "queues.ha-params queues.ha-sync-mode queues.ha-sync-batch-size queues.ha-promote-on-shutdown "
            "queues.ha-promote-on-failure queues.target-group-size",
            _CLUSTER,
        ),
        dropped("queues.x-consumer-timeout", "consumers may take their time"),
        dropped(
            "queues.x-max-age queues.x-stream-max-segment-size-bytes queues.x-stream-filter-size-bytes",
            "a stream becomes an ordinary queue",
        ),
        dropped("queues.federation-upstream queues.federation-upstream-set", "federation is not supported"),
        kept("bindings", "`binding`"),
        changed("bindings.arguments", "compared by headers exchanges; not part of what tells two bindings apart"),
    )
)
