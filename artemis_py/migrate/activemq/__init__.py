"""ActiveMQ Classic: `activemq.xml` and the files beside it."""
