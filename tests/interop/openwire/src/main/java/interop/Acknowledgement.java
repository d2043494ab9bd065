package interop;

import java.util.List;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQSession;

/** What each acknowledge mode takes off the queue, and what it leaves. */
public final class Acknowledgement {
    private static final String[] FIVE = {"1", "2", "3", "4", "5"};

    private static ActiveMQConnection filled(Site site, String options) throws Exception {
        ActiveMQConnection connection = site.connect(options);
        Session session = Site.auto(connection);
        Site.send(session, site.queue(session), FIVE);
        return connection;
    }

    private static MessageConsumer consumer(Site site, ActiveMQConnection connection, int mode) throws Exception {
        Session session = connection.createSession(false, mode);
        return session.createConsumer(site.queue(session));
    }

    public void auto(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        site.see("received", Site.take(consumer(site, connection, Session.AUTO_ACKNOWLEDGE), 2));
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** Ranges instead of single acknowledgements. */
    public void autoOptimized(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "?jms.optimizeAcknowledge=true");
        site.see("received", Site.take(consumer(site, connection, Session.AUTO_ACKNOWLEDGE), 2));
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    public void synchronously(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "?jms.sendAcksAsync=false&jms.alwaysSyncSend=true");
        site.see("received", Site.take(consumer(site, connection, Session.AUTO_ACKNOWLEDGE), 5));
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    public void dupsOk(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        site.see("received", Site.take(consumer(site, connection, Session.DUPS_OK_ACKNOWLEDGE), 2));
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    public void dupsOkTopic(Site site) throws Exception {
        ActiveMQConnection connection = site.connect("?jms.prefetchPolicy.topicPrefetch=4");
        Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(site.topic(session));
        Site.send(Site.auto(connection), site.topic(session), "1", "2", "3", "4", "5", "6", "7", "8", "9", "10");
        site.see("received", Site.take(consumer, 10));
    }

    /** One acknowledgement covers all that the session received. */
    public void client(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        MessageConsumer consumer = consumer(site, connection, Session.CLIENT_ACKNOWLEDGE);
        Site.next(consumer);
        consumer.receive(Site.ARRIVES_MS).acknowledge();
        site.see("unacknowledged", Site.next(consumer));
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** More unacknowledged messages than the window: the client asks for more by acknowledging their delivery. */
    public void clientBeyondPrefetch(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "?jms.prefetchPolicy.queuePrefetch=2");
        MessageConsumer consumer = consumer(site, connection, Session.CLIENT_ACKNOWLEDGE);
        List<String> received = Site.take(consumer, 4);
        Message last = consumer.receive(Site.ARRIVES_MS);
        site.see("received", received);
        site.see("last", Site.text(last));
        last.acknowledge();
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    public void individual(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "");
        MessageConsumer consumer = consumer(site, connection, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        Message first = consumer.receive(Site.ARRIVES_MS);
        Message second = consumer.receive(Site.ARRIVES_MS);
        Message third = consumer.receive(Site.ARRIVES_MS);
        site.see("received", List.of(Site.text(first), Site.text(second), Site.text(third)));
        second.acknowledge();
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    public void individualBeyondPrefetch(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "?jms.prefetchPolicy.queuePrefetch=2");
        MessageConsumer consumer = consumer(site, connection, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        site.see("received without acknowledging", Site.take(consumer, 5).size());
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }

    /** A listener in auto mode acknowledges after it returns; one that throws gets the message again. */
    public void listenerThatThrows(Site site) throws Exception {
        ActiveMQConnection connection = filled(site, "?jms.redeliveryPolicy.initialRedeliveryDelay=0");
        List<String> calls = java.util.Collections.synchronizedList(new java.util.ArrayList<>());
        consumer(site, connection, Session.AUTO_ACKNOWLEDGE).setMessageListener(message -> {
            try {
                calls.add(Site.text(message) + (message.getJMSRedelivered() ? " again" : ""));
            } catch (javax.jms.JMSException impossible) {
                throw new IllegalStateException(impossible);
            }
            if (calls.size() == 1) {
                throw new IllegalStateException("first time");
            }
        });
        Site.becomes(() -> calls.size() >= 6);
        site.see("calls", List.copyOf(calls));
        connection.close();
        site.see("left", site.left(site.name("queue")));
    }
}
