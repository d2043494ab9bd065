package interop;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import javax.jms.Destination;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.advisory.AdvisorySupport;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.command.ConnectionInfo;
import org.apache.activemq.command.DestinationInfo;

/** What the broker tells about itself. */
public final class Advisories {
    private static ActiveMQMessage next(MessageConsumer consumer) throws Exception {
        return (ActiveMQMessage) consumer.receive(2 * Site.QUIET_MS);
    }

    /** Kind of the subject and a count of it. */
    private static Object told(MessageConsumer consumer, String count) throws Exception {
        ActiveMQMessage advisory = next(consumer);
        if (advisory == null) {
            return null;
        }
        String kind = advisory.getDataStructure().getClass().getSimpleName();
        return List.of(kind, advisory.propertyExists(count) ? advisory.getIntProperty(count) : "no " + count);
    }

    public void consumers(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Destination queue = site.queue(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.getConsumerAdvisoryTopic(queue));
        MessageConsumer first = session.createConsumer(queue);
        site.see("first comes", told(watching, "consumerCount"));
        MessageConsumer second = session.createConsumer(queue);
        site.see("second comes", told(watching, "consumerCount"));
        second.close();
        site.see("second goes", told(watching, "consumerCount"));
        first.close();
        site.see("first goes", told(watching, "consumerCount"));
    }

    public void consumersOfATopic(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Destination topic = site.topic(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.getConsumerAdvisoryTopic(topic));
        MessageConsumer first = session.createConsumer(topic);
        site.see("comes", told(watching, "consumerCount"));
        first.close();
        site.see("goes", told(watching, "consumerCount"));
    }

    /** One that is already there is told to those who come later. */
    public void replay(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Destination queue = site.queue(session);
        session.createConsumer(queue);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.getConsumerAdvisoryTopic(queue));
        site.see("told", told(watching, "consumerCount"));
    }

    public void producers(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Destination queue = site.queue(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.getProducerAdvisoryTopic(queue));
        MessageProducer producer = session.createProducer(queue);
        site.see("comes", told(watching, "producerCount"));
        producer.close();
        site.see("goes", told(watching, "producerCount"));
    }

    private static List<String> destinations(MessageConsumer consumer, String name) throws Exception {
        List<String> told = new ArrayList<>();
        for (ActiveMQMessage m = next(consumer); m != null; m = next(consumer)) {
            if (m.getDataStructure() instanceof DestinationInfo info
                    && info.getDestination().getPhysicalName().equals(name)) {
                String event = info.isAddOperation() ? "added" : "removed";
                if (!told.contains(event)) {
                    told.add(event);
                }
            }
        }
        return told;
    }

    /** A consumer that comes later is told of what there is; are the others told again? */
    public void replayToAll(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        TemporaryQueue known = Site.auto(site.connect()).createTemporaryQueue();
        MessageConsumer watching = session.createConsumer(AdvisorySupport.TEMP_QUEUE_ADVISORY_TOPIC);
        site.see("told", destinations(watching, known.getQueueName()));
        Session late = Site.auto(site.connect());
        late.createConsumer(AdvisorySupport.TEMP_QUEUE_ADVISORY_TOPIC);
        site.see("told again", destinations(watching, known.getQueueName()));
    }

    public void queues(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        ActiveMQDestination queue = (ActiveMQDestination) site.queue(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.QUEUE_ADVISORY_TOPIC);
        session.createConsumer(queue).close();
        Site.outcome(() -> connection.destroyDestination(queue));
        site.see("told", destinations(watching, queue.getPhysicalName()));
    }

    public void topics(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        ActiveMQDestination topic = (ActiveMQDestination) site.topic(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.TOPIC_ADVISORY_TOPIC);
        session.createConsumer(topic).close();
        Site.outcome(() -> connection.destroyDestination(topic));
        site.see("told", destinations(watching, topic.getPhysicalName()));
    }

    public void temporaryQueues(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer watching = session.createConsumer(AdvisorySupport.TEMP_QUEUE_ADVISORY_TOPIC);
        Session owner = Site.auto(site.connect());
        TemporaryQueue temporary = owner.createTemporaryQueue();
        String name = temporary.getQueueName();
        temporary.delete();
        site.see("told", destinations(watching, name));
    }

    /** Does a watcher hear of its own connection's temporary queues? */
    public void temporaryQueuesOfTheSameConnection(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer watching = session.createConsumer(AdvisorySupport.TEMP_QUEUE_ADVISORY_TOPIC);
        TemporaryQueue temporary = session.createTemporaryQueue();
        site.see("told", destinations(watching, temporary.getQueueName()));
    }

    public void connections(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer watching = session.createConsumer(AdvisorySupport.CONNECTION_ADVISORY_TOPIC);
        ActiveMQConnection other = Durable.identified(site, "other");
        Site.auto(other);
        other.close();
        List<String> told = new ArrayList<>();
        boolean password = false;
        for (ActiveMQMessage m = next(watching); m != null; m = next(watching)) {
            if (m.getDataStructure() instanceof ConnectionInfo info && site.name("other").equals(info.getClientId())) {
                told.add("added");
                password |= info.getPassword() != null && !info.getPassword().isEmpty();
                site.see("user", info.getUserName());
            } else if (m.getDataStructure() instanceof org.apache.activemq.command.RemoveInfo info
                    && info.getObjectId().equals(other.getConnectionInfo().getConnectionId())) {
                told.add("removed");
            }
        }
        site.see("told", told);
        site.see("password", password);
    }

    /** The form of an advisory message. */
    public void form(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer watching = session.createConsumer(AdvisorySupport.TEMP_QUEUE_ADVISORY_TOPIC);
        TemporaryQueue own = Site.auto(site.connect()).createTemporaryQueue();
        ActiveMQMessage advisory = next(watching);
        while (!((DestinationInfo) advisory.getDataStructure()).getDestination().equals(own)) {
            advisory = next(watching);
        }
        site.see("type", advisory.getJMSType());
        site.see("persistent", advisory.isPersistent());
        site.see("destination", advisory.getDestination());
        List<String> names = new ArrayList<>();
        for (Object name : Collections.list(advisory.getPropertyNames())) {
            // Artemis adds a property of its own to some of them.
            if (!name.equals("__AMQ_CID")) {
                names.add((String) name);
            }
        }
        Collections.sort(names);
        site.see("properties", names);
    }

    /** What the library offers on top of them. */
    public void destinationSource(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        Site.send(session, site.queue(session), "m");
        ActiveMQQueue wanted = (ActiveMQQueue) site.queue(session);
        Set<ActiveMQQueue> queues = connection.getDestinationSource().getQueues();
        site.see("listed", Site.becomes(() -> queues.contains(wanted)));
    }

    /** A message that nobody wanted; off unless configured. */
    public void noConsumer(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Destination topic = site.topic(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.getNoTopicConsumersAdvisoryTopic(topic));
        MessageProducer producer = session.createProducer(topic);
        producer.send(session.createTextMessage("m"), javax.jms.DeliveryMode.NON_PERSISTENT, 4, 0);
        site.see("told", next(watching) != null);
    }

    public void expired(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        Destination queue = site.queue(session);
        MessageConsumer watching = session.createConsumer(AdvisorySupport.getExpiredMessageTopic(queue));
        session.createProducer(queue).send(session.createTextMessage("m"), javax.jms.DeliveryMode.PERSISTENT, 4, 50);
        Thread.sleep(200);
        session.createConsumer(queue).receive(Site.QUIET_MS);
        site.see("told", next(watching) != null);
    }

    /** A wildcard over all of them. */
    public void all(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer watching = session.createConsumer(session.createTopic("ActiveMQ.Advisory.>"));
        Session other = Site.auto(site.connect());
        other.createConsumer(site.queue(other)).close();
        Set<String> kinds = new java.util.TreeSet<>();
        for (ActiveMQMessage m = next(watching); m != null; m = next(watching)) {
            String name = m.getDestination().getPhysicalName();
            if (name.contains(site.scenario)) {
                kinds.add(name);
            }
        }
        site.see("about the queue", kinds.stream().collect(Collectors.toList()));
    }
}
