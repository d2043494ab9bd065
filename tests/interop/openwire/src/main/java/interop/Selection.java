package interop;

import java.util.List;
import javax.jms.DeliveryMode;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQMessageConsumer;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.command.ConsumerInfo;

/** Which messages a consumer gets and in which order: priority, time to live, selectors, noLocal. */
public final class Selection {
    public void priority(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.messagePrioritySupported=true");
        Session session = Site.auto(connection);
        MessageProducer producer = session.createProducer(site.queue(session));
        for (int priority : new int[] {1, 9, 4, 9, 0}) {
            producer.send(session.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
        }
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        // Some brokers leave the order to the library, which can only put in order what has come.
        Site.becomes(() -> ((ActiveMQMessageConsumer) consumer).getMessageSize() == 5);
        site.see("order", Site.take(consumer, 5));
    }

    /** Each message asked for by itself: the order is the broker's alone. */
    public void priorityPulled(Site site) throws Exception {
        ActiveMQConnection connection = site.connect(
                "?jms.prefetchPolicy.queuePrefetch=0&jms.messagePrioritySupported=false");
        Session session = Site.auto(connection);
        MessageProducer producer = session.createProducer(site.queue(session));
        for (int priority : new int[] {1, 9, 4, 9, 0}) {
            producer.send(session.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
        }
        site.see("order", Site.take(session.createConsumer(site.queue(session)), 5));
    }

    public void timeToLive(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(site.queue(session));
        Message message = session.createTextMessage("short");
        message.setStringProperty("scenario", site.scenario);
        producer.send(message, DeliveryMode.PERSISTENT, 4, 100);
        producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 60_000);
        Thread.sleep(300);
        site.see("received", Site.take(session.createConsumer(site.queue(session)), 1));
        // Both send what expires to a queue of dead letters; here it has the same name.
        String own = "scenario = '" + site.scenario + "'";
        ActiveMQMessage dead = (ActiveMQMessage)
                session.createConsumer(session.createQueue("ActiveMQ.DLQ"), own).receive(Site.ARRIVES_MS);
        site.see("expired", Site.text(dead));
        site.see("expiration cleared", dead == null ? null : dead.getExpiration() == 0);
        site.see("original expiration", dead == null ? null : dead.propertyExists("originalExpiration"));
        site.see("original destination", dead == null ? null : dead.getOriginalDestination());
    }

    /** It expires in the client's buffer: the client says so, and gives it to nobody. */
    public void expiresInTheClient(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.queue(session));
        MessageProducer producer = session.createProducer(site.queue(session));
        producer.send(session.createTextMessage("short"), DeliveryMode.PERSISTENT, 4, 400);
        producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 60_000);
        Thread.sleep(800);
        site.see("received", Site.take(consumer, 1));
        consumer.close();
        site.see("left", site.left(site.name("queue")));
    }

    private static List<String> selected(Site site, String selector) throws Exception {
        Session session = Site.auto(site.connect());
        MessageConsumer consumer = session.createConsumer(site.topic(session), selector);
        MessageProducer producer = session.createProducer(site.topic(session));
        for (int number = 1; number <= 3; number++) {
            Message message = session.createTextMessage(String.valueOf(number));
            message.setIntProperty("n", number);
            message.setStringProperty("colour", number == 2 ? "red" : "blue");
            message.setJMSType("kind" + number);
            message.setJMSCorrelationID("c" + number);
            message.setJMSReplyTo(session.createQueue("reply" + number));
            message.setStringProperty("JMSXGroupID", "g" + number);
            int mode = number == 3 ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT;
            producer.send(message, mode, number, 0);
        }
        // Their priorities differ, so one may overtake another.
        return Site.rest(consumer).stream().sorted().toList();
    }

    public void selectors(Site site) throws Exception {
        String[] selectors = {
            "n > 1", "colour = 'red'", "colour IN ('red', 'green')", "colour LIKE 'b%e'", "n BETWEEN 1 AND 2",
            "missing IS NULL", "missing <> 'x'", "n * 2 = 4 OR n = 3", "NOT (n = 1)", "n = '1'",
            "JMSType = 'kind2'", "JMSPriority > 1", "JMSCorrelationID = 'c3'", "JMSDeliveryMode = 'PERSISTENT'",
            "JMSXGroupID = 'g1'", "JMSDestination = 'topic://" + site.name("topic") + "'",
            "JMSReplyTo = 'queue://reply2'", "JMSRedelivered = FALSE", "JMSXDeliveryCount = 1",
            "JMSTimestamp > 0", "JMSExpiration = 0", "JMSMessageID LIKE 'ID:%'",
        };
        for (String selector : selectors) {
            site.see(selector, selected(site, selector));
        }
    }

    /** What the selector does not take stays for others. */
    public void selectorOnAQueue(Site site) throws Exception {
        Session session = Site.auto(site.connect());
        MessageProducer producer = session.createProducer(site.queue(session));
        for (int number = 1; number <= 6; number++) {
            Message message = session.createTextMessage(String.valueOf(number));
            message.setIntProperty("n", number);
            producer.send(message);
        }
        site.see("even", Site.take(session.createConsumer(site.queue(session), "n % 2 = 0"), 3));
        site.see("left", site.left(site.name("queue")));
    }

    /** The client checks a selector before it sends one; here only the broker does. */
    public void selectorThatIsWrong(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        site.see("client", Site.outcome(() -> session.createConsumer(site.queue(session), "n = = 1")));
        ConsumerInfo info = Temporary.consumer(connection, "queue://" + site.name("queue"));
        info.setSelector("n = = 1");
        site.see("broker", Site.outcome(() -> connection.syncSendPacket(info)));
        Site.send(session, site.queue(session), "alive");
        site.see("connection afterwards", Site.next(session.createConsumer(site.queue(session))));
    }

    /** JMS forbids only the topic's own messages; queues are a question. */
    public void noLocal(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        MessageConsumer topic = session.createConsumer(site.topic(session), null, true);
        MessageConsumer queue = session.createConsumer(site.queue(session), null, true);
        Session other = Site.auto(site.connect());
        Site.send(session, site.topic(session), "own");
        Site.send(other, site.topic(other), "other's");
        Site.send(session, site.queue(session), "own");
        Site.send(other, site.queue(other), "other's");
        site.see("topic", Site.rest(topic));
        site.see("queue", Site.rest(queue));
    }
}
