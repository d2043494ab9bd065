package interop;

import java.util.ArrayList;
import java.util.List;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/** Durable subscriptions: client id and name keep the messages of a topic. */
public final class Durable {
    private static ActiveMQConnection identified(Site site) throws Exception {
        return identified(site, "id");
    }

    static ActiveMQConnection identified(Site site, String id) throws Exception {
        ActiveMQConnectionFactory factory = site.factory("");
        factory.setClientID(site.name(id));
        return site.start((ActiveMQConnection) factory.createConnection());
    }

    private static MessageConsumer subscribe(Site site, ActiveMQConnection connection, String selector)
            throws Exception {
        Session session = Site.auto(connection);
        return session.createDurableSubscriber(site.topic(session), "sub", selector, false);
    }

    private static void publish(Site site, String... texts) throws Exception {
        ActiveMQConnection connection = site.connect();
        Session session = Site.auto(connection);
        MessageProducer producer = session.createProducer(site.topic(session));
        for (String text : texts) {
            Message message = session.createTextMessage(text);
            message.setStringProperty("colour", text);
            producer.send(message);
        }
        connection.close();
    }

    public void keepsMessages(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        subscribe(site, connection, null);
        publish(site, "1");
        connection.close();
        publish(site, "2", "3");
        site.see("after return", Site.take(subscribe(site, identified(site), null), 3));
    }

    public void newSubscriberGetsNothingOld(Site site) throws Exception {
        publish(site, "old");
        MessageConsumer consumer = subscribe(site, identified(site), null);
        publish(site, "new");
        site.see("received", Site.take(consumer, 1));
    }

    public void acknowledgedIsGone(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        MessageConsumer consumer = subscribe(site, connection, null);
        publish(site, "1", "2");
        site.see("received", Site.take(consumer, 1));
        connection.close();
        site.see("after return", Site.take(subscribe(site, identified(site), null), 1));
    }

    public void notPersistent(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        subscribe(site, connection, null);
        connection.close();
        ActiveMQConnection sending = site.connect();
        Session session = Site.auto(sending);
        MessageProducer producer = session.createProducer(site.topic(session));
        producer.send(session.createTextMessage("m"), javax.jms.DeliveryMode.NON_PERSISTENT, 4, 0);
        site.see("after return", Site.rest(subscribe(site, identified(site), null)));
    }

    public void selector(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        subscribe(site, connection, "colour = 'red'");
        connection.close();
        publish(site, "red", "blue");
        site.see("after return", Site.rest(subscribe(site, identified(site), "colour = 'red'")));
    }

    /** Another selector is another subscription: what was kept for the first is gone. */
    public void changeOfSelector(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        subscribe(site, connection, "colour = 'red'");
        connection.close();
        publish(site, "red", "blue");
        connection = identified(site);
        MessageConsumer consumer = subscribe(site, connection, "colour = 'blue'");
        site.see("kept", Site.rest(consumer));
        publish(site, "red", "blue");
        site.see("new", Site.rest(consumer));
    }

    public void changeOfTopic(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        subscribe(site, connection, null);
        connection.close();
        publish(site, "old topic");
        connection = identified(site);
        Session session = Site.auto(connection);
        Topic other = session.createTopic(site.name("other"));
        MessageConsumer consumer = session.createDurableSubscriber(other, "sub");
        Site.send(session, other, "new topic");
        site.see("received", Site.rest(consumer));
    }

    public void changeOfNoLocal(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        Session session = Site.auto(connection);
        session.createDurableSubscriber(site.topic(session), "sub", null, false);
        connection.close();
        publish(site, "kept");
        connection = identified(site);
        session = Site.auto(connection);
        MessageConsumer consumer = session.createDurableSubscriber(site.topic(session), "sub", null, true);
        Site.send(session, site.topic(session), "own");
        publish(site, "other's");
        site.see("received", Site.rest(consumer));
    }

    public void unsubscribe(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        MessageConsumer consumer = subscribe(site, connection, null);
        Session session = Site.auto(connection);
        site.see("while active", Site.outcome(() -> session.unsubscribe("sub")));
        consumer.close();
        publish(site, "lost");
        site.see("then", Site.outcome(() -> session.unsubscribe("sub")));
        site.see("again", Site.outcome(() -> session.unsubscribe("sub")));
        site.see("unknown", Site.outcome(() -> session.unsubscribe("never")));
        site.see("kept", Site.rest(subscribe(site, connection, null)));
    }

    /** The same subscription twice at a time. */
    public void activeTwice(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        subscribe(site, connection, null);
        site.see("second subscriber", Site.outcome(() -> subscribe(site, connection, null)));
        publish(site, "m");
        connection.close();
        site.see("after return", Site.take(subscribe(site, identified(site), null), 1));
    }

    /** Names are pairs: no dot of one can make it look like another. */
    public void namesWithDots(Site site) throws Exception {
        List<Object> received = new ArrayList<>();
        ActiveMQConnection first = identified(site, "a.b");
        ActiveMQConnection second = identified(site, "a");
        Session one = Site.auto(first);
        Session two = Site.auto(second);
        MessageConsumer ofFirst = one.createDurableSubscriber(site.topic(one), "c");
        site.see("second", Site.outcome(() -> {
            MessageConsumer ofSecond = two.createDurableSubscriber(site.topic(two), "b.c");
            publish(site, "m");
            received.add(Site.take(ofSecond, 1));
        }));
        received.add(Site.take(ofFirst, 1));
        site.see("received", received);
    }

    public void wildcard(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        Session session = Site.auto(connection);
        Topic pattern = session.createTopic(site.name("w.>"));
        session.createDurableSubscriber(pattern, "sub");
        connection.close();
        Session sending = Site.auto(site.connect());
        Site.send(sending, sending.createTopic(site.name("w.x")), "x");
        Site.send(sending, sending.createTopic(site.name("w.y.z")), "y.z");
        connection = identified(site);
        session = Site.auto(connection);
        site.see("after return", Site.rest(session.createDurableSubscriber(pattern, "sub")));
    }

    public void transacted(Site site) throws Exception {
        ActiveMQConnection connection = identified(site);
        Session session = Site.transacted(connection);
        MessageConsumer consumer = session.createDurableSubscriber(site.topic(session), "sub");
        publish(site, "1", "2");
        site.see("received", Site.take(consumer, 2));
        session.rollback();
        connection.close();
        site.see("after return", Site.take(subscribe(site, identified(site), null), 2));
    }

    public void withoutClientId(Site site) throws Exception {
        ActiveMQConnection connection = site.connect();
        site.see("subscribe", Site.outcome(() -> subscribe(site, connection, null)));
    }
}
